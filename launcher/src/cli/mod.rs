//! One file per command: arguments are parsed, resolved into a plan, and done.

mod audit;
mod demo;
mod doctor;
mod fetch;
mod mcp;
mod mode;
pub(crate) mod output;
mod run;
mod sessions;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Exit code of picktwo's own failures, as `env`, `timeout` and `nohup` use it.
pub(crate) const EXIT_FAILED: u8 = 125;

/// Runs a coding agent so that no process ever holds local files, raw untrusted content and network egress at once.
///
/// The kernel enforces it (Landlock, seccomp, namespaces): not a prompt, not a tool filter. A session starts read-only;
/// you decide when the agent may change files, and it reaches the web only through a quarantined retriever.
#[derive(Parser)]
#[command(name = "picktwo", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
First steps:
  picktwo demo                      watch a hostile page try to steal a file, and fail
  picktwo doctor                    what this machine can enforce
  picktwo run -- claude             your agent, behind the wall, read-only
  picktwo mode SESSION edit         let it change the workspace, from another terminal
  picktwo audit show SESSION        what it asked for, and what was refused")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command in a session
    Run(run::Args),
    /// Run a whole session on embedded defaults against a hostile page, and judge it
    Demo(demo::Args),
    /// Fetch a page through the quarantined retriever
    Fetch(fetch::Args),
    /// List live sessions
    Sessions(sessions::Args),
    /// Set a live session to read-only or edit
    Mode(mode::Args),
    /// Read and check the records of sessions
    Audit(audit::Args),
    /// Try the escapes from inside, role by role
    Verify(verify::Args),
    /// Show what this machine can enforce, and why
    Doctor(doctor::Args),
    /// Serve the session's tools to an agent over stdio (MCP)
    Mcp(mcp::Args),
}

/// Parses the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { EXIT_FAILED } else { 0 };
            // Nothing can be done about a closed terminal here.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Demo(args) => demo::main(args),
        Command::Fetch(args) => fetch::main(args),
        Command::Sessions(args) => sessions::main(args),
        Command::Mode(args) => mode::main(args),
        Command::Audit(args) => audit::main(args),
        Command::Verify(args) => verify::main(args),
        Command::Doctor(args) => doctor::main(args),
        Command::Mcp(args) => mcp::main(args),
    }
}
