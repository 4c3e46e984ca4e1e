//! What a supervisor tries from inside when it is judged (`picktwo verify`) instead of serving.

use picktwo_confine::channel::Channel;
use picktwo_confine::probes;
use picktwo_wire::judged::{Report, Try};
use picktwo_wire::{MessageError, encode};

/// Why a series ended early.
#[derive(Debug)]
pub(crate) enum Broken {
    /// A report could not be written.
    Message(MessageError),
    /// The launcher is gone.
    Channel(picktwo_confine::Error),
}

/// Tries the escapes of a list, in order, each reported before the next: one of them may end this process.
pub(crate) fn run(asked: &Try, launcher: &Channel) -> Result<(), Broken> {
    probes::run_listed(&asked.probes, |id, outcome, errno| {
        let report = Report {
            id: id.to_owned(),
            outcome: outcome.to_owned(),
            errno,
        };
        let bytes = encode(&report).map_err(Broken::Message)?;
        launcher.send(&bytes, &[]).map_err(Broken::Channel)
    })
}
