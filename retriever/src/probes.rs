//! Attempts to break out, made by the locked process itself when `picktwo verify` asks for them.

use picktwo_confine::probes;
use picktwo_wire::retrieval::FromRetriever;

/// Tries the escapes of a list, in order, each reported before the next: one of them may end this process.
pub(crate) fn run<E>(entries: &[String], mut report: impl FnMut(FromRetriever) -> Result<(), E>) -> Result<(), E> {
    probes::run_listed(entries, |id, outcome, errno| {
        report(FromRetriever::Probe {
            id: id.to_owned(),
            outcome: outcome.to_owned(),
            errno,
        })
    })
}
