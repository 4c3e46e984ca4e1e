//! The process: start, lock, self-check, then the tickets.

use super::{Error, serve};
use crate::gateway::role::{launcher, lock};
use picktwo_confine::channel::Channel;
use picktwo_confine::probes;
use picktwo_confine::role::Role;
use picktwo_wire::apis::{ApisStart, FromApis};
use picktwo_wire::{decode, encode};
use std::process::ExitCode;

/// Exit code of a gateway that failed.
const FAILED: u8 = 125;

/// Runs the process: fd 3 is the channel to `outside`, whose first message, `{}`, brings the channel to the launcher. Returns when the
/// launcher has closed that channel.
#[must_use]
pub fn main_role() -> ExitCode {
    let Ok(outside) = Channel::from_parent() else {
        return ExitCode::from(FAILED);
    };
    let Ok(channel) = launcher(&outside) else {
        return ExitCode::from(FAILED);
    };
    match run(&channel, outside) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let failed = FromApis::Failed {
                reason: format!("the retrievers' gateway: {e}"),
            };
            if let Ok(message) = encode(&failed) {
                // Nobody else could be told.
                let _ = channel.try_send(&message, &[]);
            }
            ExitCode::from(FAILED)
        }
    }
}

fn run(launcher: &Channel, outside: Channel) -> Result<(), Error> {
    let runtime = lock(Role::RetrieverGateway, launcher, &outside)?;
    launcher.send(&encode(&FromApis::Ready)?, &[])?;
    let mut message = Vec::new();
    launcher.recv(&mut message)?.ok_or(Error::NoStart)?;
    let start: ApisStart = decode(&message)?;
    message.fill(0);
    std::hint::black_box(&message);
    if !start.probes.is_empty() {
        return probes::run_listed(&start.probes, |id, outcome, errno| {
            let report = FromApis::Probe {
                id: id.to_owned(),
                outcome: outcome.to_owned(),
                errno,
            };
            Ok(launcher.send(&encode(&report)?, &[])?)
        });
    }
    runtime.block_on(serve::serve(launcher, outside, start))
}
