//! `picktwo mcp`: the session's tools for an agent that speaks MCP.

use super::output;
use picktwo_agent::client::Client;
use picktwo_agent::mcp;
use std::process::ExitCode;

/// Serves `web_fetch`, `web_search` and `github_fetch` to an agent over standard input and output (Model Context Protocol).
///
/// Profiles start it for agents by themselves. By hand, inside a session: give your agent the command `picktwo mcp`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn main(_args: Args) -> ExitCode {
    let client = Client::new(super::tools_socket());
    match mcp::serve(std::io::stdin().lock(), std::io::stdout(), &client) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => output::fail(&format!("cannot read the agent's requests: {e}")),
    }
}
