//! One file per command: arguments are parsed, resolved into a plan, and done.

mod audit;
mod demo;
mod doctor;
mod fetch;
mod github;
mod mcp;
mod mode;
pub(crate) mod output;
mod retrieval;
mod run;
mod scenario;
mod scratch;
mod search;
mod sessions;
mod verify;

use crate::names;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
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
    Run(run::Args),
    Demo(demo::Args),
    Scenario(scenario::Args),
    Fetch(fetch::Args),
    Search(search::Args),
    Github(github::Args),
    Sessions(sessions::Args),
    Mode(mode::Args),
    Audit(audit::Args),
    Verify(verify::Args),
    Doctor(doctor::Args),
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
    if let Some(refusal) = inside_a_session(&cli.command) {
        return output::fail(&refusal);
    }
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Demo(args) => demo::main(args),
        Command::Scenario(args) => scenario::main(args),
        Command::Fetch(args) => fetch::main(args),
        Command::Search(args) => search::main(args),
        Command::Github(args) => github::main(args),
        Command::Sessions(args) => sessions::main(args),
        Command::Mode(args) => mode::main(args),
        Command::Audit(args) => audit::main(args),
        Command::Verify(args) => verify::main(args),
        Command::Doctor(args) => doctor::main(args),
        Command::Mcp(args) => mcp::main(args),
    }
}

/// The socket of the session that this process is in, if it is in one: at its place in a view, or, where there is none, in the
/// directory of the session that the environment names.
fn tools_socket() -> PathBuf {
    let in_view = Path::new(picktwo_inside::view::TOOLS_SOCKET);
    let named = names::variable(names::PICKTWO_SESSION).and_then(|id| id.into_string().ok());
    match named {
        Some(id) if !is_in_session(in_view) && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            picktwo_inside::container::Place::tools_socket_of(&id)
        }
        _ => in_view.to_path_buf(),
    }
}

/// Whether this process is in a session, with or without tools.
fn is_in_session(tools_socket: &Path) -> bool {
    tools_socket.exists() || tools_socket.with_file_name(picktwo_wire::tools::NO_TOOLS).exists()
}

/// Commands of the person's have nothing to see inside a session, and nothing to change: better said than shown by what fails.
fn inside_a_session(command: &Command) -> Option<String> {
    let of_the_agent = match command {
        Command::Fetch(_) | Command::Search(_) | Command::Github(_) | Command::Mcp(_) => true,
        Command::Scenario(args) => args.is_agent(),
        Command::Verify(args) => args.is_inside(),
        _ => false,
    };
    (is_in_session(&tools_socket()) && !of_the_agent).then(|| {
        "this is inside a session, where only `fetch`, `search`, `github` and `mcp` work: use another terminal for the rest"
            .to_owned()
    })
}
