//! The attempts of an agent: read as names from standard input, each made in a child, each answered by one line.
//!
//! The same command makes the controls, outside of any session, and the attempts in other sandboxes.

use picktwo_confine::probes::{self, SETTING_MARK, Setting, Surroundings, Trial};
use std::io::{BufRead, Write};
use std::process::ExitCode;

/// The first line, before any name is read: whoever wrapped this command may have printed lines of its own.
pub(super) const READY: &str = "picktwo-verify ready";

/// Reads names until the end of standard input.
pub(super) fn main(surroundings: Surroundings) -> ExitCode {
    if say(READY).is_err() {
        return ExitCode::FAILURE;
    }
    let mut setting = Setting::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        if let Some(text) = line.strip_prefix(SETTING_MARK) {
            setting = Setting::parse(text);
            continue;
        }
        let Some(probe) = probes::find(&line) else {
            return ExitCode::FAILURE;
        };
        if say(&Trial::run(probe, &setting, surroundings).line()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())
}
