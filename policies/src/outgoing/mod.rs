//! What leaves: every request's arguments are checked by the launcher before they cross the wall, and where they may go.
//!
//! What remains possible is said plainly: an agent that is told what to say can encode something in which pages it asks for, in the
//! order of words, or in time. The rules here take away the wide ways (known secrets in any usual encoding or split, anything shaped
//! like a secret, random-looking pieces, hosts that nobody named) and count the rest against a budget of bits.

mod budget;
mod decode;
mod entropy;
mod known;
mod shapes;
mod target;

pub use known::Secret;
pub use target::{Target, same_site};

use crate::model::{Retrieval, Urls};
use budget::Spent;
use known::Known;
use std::collections::{HashMap, HashSet};

/// URLs that are remembered as seen; older ones stay, further ones are not added.
const MAX_SEEN: usize = 20_000;

/// Why a request may not cross the wall. Never holds what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable identifier: `bad-url`, `private-address`, `private-name`, `port`, `unknown-host`, `secret`, `secret-shape`, `entropy`,
    /// `length`, `budget`.
    pub rule: &'static str,
    /// One sentence: what, why, and what to do instead.
    pub reason: String,
    /// The host in ASCII form, if the URL has one.
    pub host: Option<String>,
    /// Asking the person about this host could help ([`Guard::allow_host`]).
    pub ask: bool,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}

pub(crate) fn refuse<T>(rule: &'static str, host: Option<&str>, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        rule,
        reason: reason.into(),
        host: host.map(str::to_owned),
        ask: false,
    })
}

/// The checks of one session, with what it has already sent.
#[derive(Debug)]
pub struct Guard {
    policy: Retrieval,
    known: Known,
    allowed: HashSet<String>,
    /// Canonical URL → host of the page that linked to it; empty for a search result or one that the person named.
    seen: HashMap<String, String>,
    /// Path and query of URLs that were asked for or seen, by host.
    paths: HashMap<String, Vec<String>>,
    spent: Spent,
}

impl Guard {
    /// A guard for one session. Of the secrets only keyed hashes of short pieces are kept.
    #[must_use]
    pub fn new(policy: &Retrieval, secrets: &[Secret]) -> Self {
        Self {
            policy: policy.clone(),
            known: Known::new(secrets),
            allowed: HashSet::new(),
            seen: HashMap::new(),
            paths: HashMap::new(),
            spent: Spent::default(),
        }
    }

    /// The person allowed a host (and its subdomains) for this session.
    pub fn allow_host(&mut self, host: &str) {
        self.allowed.insert(host.to_ascii_lowercase());
    }

    /// The person named a URL, or a search found it.
    pub fn found(&mut self, url: &str) {
        self.remember(url, String::new());
    }

    /// A page that was fetched links to a URL.
    pub fn linked(&mut self, page: &str, url: &str) {
        if let Ok(page) = Target::parse(page) {
            self.remember(url, page.host);
        }
    }

    fn remember(&mut self, url: &str, from: String) {
        if self.seen.len() < MAX_SEEN
            && let Ok(target) = Target::parse(url)
        {
            self.paths
                .entry(target.host.clone())
                .or_default()
                .push(target.path_and_query());
            self.seen.entry(target.url).or_insert(from);
        }
    }

    /// Checks a request and charges it to the session's budget. A refused request is not charged.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn check(&mut self, url: &str, question: Option<&str>) -> Result<Target, Refusal> {
        // What looks like a secret is said first: that is what must never be tried again in another way.
        let text = format!("{url}\n{}", question.unwrap_or(""));
        let host = Target::parse(url).ok().map(|t| t.host);
        let grams = self.secrets(&text, host.as_deref())?;
        let target = Target::parse(url)?;
        if target.query_bytes() as u64 > self.policy.budget.query_bytes.value {
            let most = self.policy.budget.query_bytes.value;
            return refuse(
                "length",
                Some(&target.host),
                format!("the URL's query is longer than {most} bytes; ask for a page, not for data"),
            );
        }
        self.place(&target)?;
        let seen = self.seen.contains_key(&target.url);
        if !seen {
            self.random_pieces(&target, question.unwrap_or(""))?;
        } else {
            self.random_question(&target, question.unwrap_or(""))?;
        }
        let bits = self.bits(&target, question.unwrap_or(""), seen);
        self.spent.charge(&self.policy.budget, &target.host, bits)?;
        self.known.keep(grams);
        self.paths
            .entry(target.host.clone())
            .or_default()
            .push(target.path_and_query());
        Ok(target)
    }

    /// Checks where a redirect leads. The server chose it, so only where it goes and what it carries count.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn redirect(&mut self, from: &Target, to: &str) -> Result<Target, Refusal> {
        let target = Target::parse(to)?;
        if from.tls && !target.tls {
            return refuse("bad-url", Some(&target.host), "the redirect leaves https for http");
        }
        self.secrets(to, Some(&target.host))?;
        let site = same_site(&from.host, &target.host) && self.private(from) == self.private(&target);
        match self.place(&target) {
            Err(r) if r.rule == "unknown-host" && site => Ok(target),
            Err(r) => Err(r),
            Ok(()) => Ok(target),
        }
    }

    /// Checks any other text that leaves (a search query, a repository's name).
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn text(&mut self, host: &str, text: &str) -> Result<(), Refusal> {
        let grams = self.secrets(text, Some(host))?;
        if entropy::random_piece(text).is_some() {
            return random(host);
        }
        self.spent.charge(&self.policy.budget, host, budget::text_bits(text))?;
        self.known.keep(grams);
        Ok(())
    }

    fn secrets(&self, text: &str, host: Option<&str>) -> Result<known::Found, Refusal> {
        let views = decode::views(text);
        let mut found = known::Found::default();
        for view in &views {
            if let Some(name) = self.known.look(view, &mut found) {
                let reason = format!(
                    "the request carries (a part of) the secret {name}; nothing of it was sent. Ask without it"
                );
                return refuse("secret", host, reason);
            }
        }
        for view in &views {
            if let Some(rule) = shapes::find(view) {
                let reason = format!(
                    "the request carries something shaped like a secret ({rule}); nothing of it was sent. Ask without it"
                );
                return refuse("secret-shape", host, reason);
            }
        }
        Ok(found)
    }

    fn private(&self, target: &Target) -> bool {
        self.policy
            .private
            .iter()
            .any(|p| p.value.host == target.host && p.value.port == target.port)
    }

    /// Where a request may go.
    fn place(&self, target: &Target) -> Result<(), Refusal> {
        if self.private(target) {
            return Ok(());
        }
        target.public()?;
        let ports = &self.policy.ports;
        if !ports.iter().any(|p| p.value == target.port) {
            let reason = format!(
                "port {} is not one that retrievals may use (retrieval.ports)",
                target.port
            );
            return refuse("port", Some(&target.host), reason);
        }
        let within = |known: &str| {
            target.host == known || target.host.strip_suffix(known).is_some_and(|rest| rest.ends_with('.'))
        };
        let known = self.policy.hosts.iter().any(|h| within(&h.value)) || self.allowed.iter().any(|h| within(h));
        let seen = self
            .seen
            .get(&target.url)
            .is_some_and(|from| match self.policy.urls.value {
                Urls::Known => from.is_empty() || same_site(from, &target.host),
                Urls::Seen | Urls::Any => true,
            });
        if known || seen || self.policy.urls.value == Urls::Any {
            return Ok(());
        }
        Err(Refusal {
            rule: "unknown-host",
            reason: format!(
                "{} is not a known host: use a search result, a documentation host, or ask the person to allow it (retrieval.hosts)",
                target.host
            ),
            host: Some(target.host.clone()),
            ask: true,
        })
    }

    fn random_pieces(&self, target: &Target, question: &str) -> Result<(), Refusal> {
        let known: HashSet<&str> = self
            .paths
            .get(&target.host)
            .into_iter()
            .flatten()
            .flat_map(|p| p.split(['/', '?', '&', '=']))
            .collect();
        for piece in target.pieces() {
            if !known.contains(piece.as_str()) && entropy::random_piece(&unescaped(&piece)).is_some() {
                return random(&target.host);
            }
        }
        self.random_question(target, question)
    }

    fn random_question(&self, target: &Target, question: &str) -> Result<(), Refusal> {
        if entropy::random_piece(question).is_some() {
            random(&target.host)
        } else {
            Ok(())
        }
    }

    fn bits(&self, target: &Target, question: &str, seen: bool) -> u64 {
        let url = if seen {
            u64::from(self.seen.len().next_power_of_two().trailing_zeros())
        } else {
            let own = target.path_and_query();
            let common = |other: &String| own.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
            let shared = self
                .paths
                .get(&target.host)
                .into_iter()
                .flatten()
                .map(common)
                .max()
                .unwrap_or(0);
            budget::url_bits(own.len() - shared)
        };
        url + budget::text_bits(question)
    }
}

/// A piece without percent encoding, however often it was applied: servers decode more than once, too.
fn unescaped(piece: &str) -> String {
    let mut text = piece.to_owned();
    loop {
        let next = decode::percent(&text);
        // Decoding only makes it shorter.
        if next.len() >= text.len() {
            return next;
        }
        text = next;
    }
}

fn random<T>(host: &str) -> Result<T, Refusal> {
    let reason = "the request holds a long piece that looks random (rule entropy); nothing of it was sent. Ask with words, or take a URL from \
                  a search result or from a page already fetched";
    refuse("entropy", Some(host), reason)
}

#[cfg(test)]
mod tests;
