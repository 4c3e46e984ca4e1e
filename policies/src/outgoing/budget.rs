//! How much a session may say. Bits are an estimate, on the high side for words and on the low side for random text, which other rules
//! refuse.

use super::{Refusal, refuse};
use crate::model::Budget;
use std::collections::HashMap;

/// What a session has spent.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    requests: u64,
    bits: u64,
    by_host: HashMap<String, (u64, u64)>,
}

/// Bits of the part of a URL that was in no URL seen before: five for each byte, and eight for choosing where it begins.
pub(crate) fn url_bits(new_bytes: usize) -> u64 {
    if new_bytes == 0 { 1 } else { 8 + 5 * new_bytes as u64 }
}

/// Bits of a text in words: two for each byte.
pub(crate) fn text_bits(text: &str) -> u64 {
    2 * text.len() as u64
}

impl Spent {
    /// Charges one request.
    ///
    /// # Errors
    /// A [`Refusal`] with the rule `budget`; then nothing is charged.
    pub(crate) fn charge(&mut self, budget: &Budget, host: &str, bits: u64) -> Result<(), Refusal> {
        let (requests, host_bits) = self.by_host.get(host).copied().unwrap_or_default();
        let exhausted = |what: &str, most: u64| {
            let reason = format!(
                "the session's budget is used up ({what}: {most}); the person can raise it in [retrieval.budget]"
            );
            refuse("budget", Some(host), reason)
        };
        if self.requests >= budget.requests.value {
            return exhausted("requests", budget.requests.value);
        }
        if requests >= budget.requests_per_host.value {
            return exhausted("requests_per_host", budget.requests_per_host.value);
        }
        if self.bits + bits > budget.bits.value {
            return exhausted("bits", budget.bits.value);
        }
        if host_bits + bits > budget.bits_per_host.value {
            return exhausted("bits_per_host", budget.bits_per_host.value);
        }
        self.requests += 1;
        self.bits += bits;
        self.by_host.insert(host.to_owned(), (requests + 1, host_bits + bits));
        Ok(())
    }
}
