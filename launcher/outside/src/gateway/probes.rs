//! What a gateway tries from inside when it is judged (`picktwo verify`): each for something that it must not have.

use picktwo_confine::probes::{self, Expected, Place};
use picktwo_wire::gateway::FromGateway;

/// The names of what a gateway must be refused, apart from what ends the process.
pub fn ids() -> impl Iterator<Item = &'static str> {
    probes::all()
        .filter(|probe| matches!(probe.expected(Place::Gateway), Some(Expected::Errno(_))))
        .map(|probe| probe.id)
}

/// Tries the escapes of a list, in order, each reported before the next: one of them may end this process.
pub(crate) fn run<E>(entries: &[String], mut report: impl FnMut(FromGateway) -> Result<(), E>) -> Result<(), E> {
    probes::run_listed(entries, |id, outcome, errno| {
        report(FromGateway::Probe {
            id: id.to_owned(),
            outcome: outcome.to_owned(),
            errno,
        })
    })
}
