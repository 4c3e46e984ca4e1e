//! picktwo: run a coding agent so that no process ever holds local files, raw untrusted content and network egress at once.

mod cli;
mod names;
mod record;
mod roles;
mod session;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A role must be confined before anything else runs: no argument parser, runtime or logger comes first.
    if let Some(role) = roles::of_this_process() {
        picktwo_confine::process::begun_alone();
        return roles::run(role);
    }
    cli::main()
}
