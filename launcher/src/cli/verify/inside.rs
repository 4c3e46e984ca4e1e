//! The attempts of an agent: read as names from standard input, each made in a child, each answered by one line.
//!
//! The same command makes the controls, outside of any session.

use picktwo_confine::probes::{self, SETTING_MARK, Setting, Trial};
use std::io::{BufRead, Write};
use std::process::ExitCode;

/// Reads names until the end of standard input. `bare`: there is no session around this, by intention.
pub(super) fn main(bare: bool) -> ExitCode {
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
        let trial = Trial::run(probe, &setting, bare);
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{}", trial.line()).and_then(|()| out.flush()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
