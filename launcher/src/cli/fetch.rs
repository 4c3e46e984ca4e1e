//! `picktwo fetch`: a quarantined retrieval, inside a session through its launcher, outside with a wall of its own.

use super::output::{self, Paint};
use crate::session::standalone;
use picktwo_agent::client::Client;
use picktwo_agent::render;
use picktwo_wire::tools::{Reply, Request};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Exit code of a retrieval that policy refused: trying again is useless.
const EXIT_REFUSED: u8 = 3;
/// Exit code of a retrieval that was allowed but did not work.
const EXIT_NOT_FETCHED: u8 = 1;

/// Fetches a page in a process that has no files, and prints what answers the question.
///
/// The request leaves the trust boundary: name exactly what is wanted, and nothing that should stay here. Known hosts are fetched at
/// once (`retrieval.hosts` in the policy adds to them); private addresses only where the user's own policy names host and port.
///
/// Exit codes: 0 fetched, 1 not fetched, 3 refused by policy.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An http or https URL
    url: String,
    /// What is wanted of the page; without it, the main content within the budget
    question: Option<String>,
    /// Tokens that the answer may take (about four bytes each)
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(50..=16000))]
    budget: u32,
    /// Print the typed answer as JSON
    #[arg(long)]
    json: bool,
    /// A policy file, read after the user's own (outside a session)
    #[arg(long, value_name = "FILE")]
    policy: Option<std::path::PathBuf>,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let request = Request::Fetch {
        url: args.url,
        question: args.question,
        budget: Some(args.budget),
    };
    let socket = super::tools_socket();
    let reply = if super::is_in_session(&socket) {
        match Client::new(&socket).ask(&request, progress) {
            Ok(reply) => reply,
            Err(e) => return output::fail(&e),
        }
    } else {
        match standalone::fetch(&request, args.policy.as_deref(), &mut |note: String| progress(&note)) {
            Ok(reply) => reply,
            Err(e) => return output::fail(&e),
        }
    };
    show(&reply, args.json)
}

/// Shows what goes on while it takes long, to people only.
fn progress(note: &str) {
    if std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr(), "{}", Paint::stderr().faint(note));
    }
}

fn show(reply: &Reply, json: bool) -> ExitCode {
    if json {
        let text = match serde_json::to_string_pretty(reply) {
            Ok(text) => text + "\n",
            Err(e) => return output::fail(&e),
        };
        return match output::print(&text) {
            code if code == ExitCode::SUCCESS => ExitCode::from(code_of(reply)),
            code => code,
        };
    }
    match reply {
        Reply::Answer { answer } => {
            // A person reads the page's words, a program gets them in an envelope it cannot close.
            let text = if std::io::stdout().is_terminal() {
                render::plain(answer)
            } else {
                render::envelope(answer, &render::Nonce::fresh())
            };
            output::print(&text)
        }
        Reply::Refused { reason, .. } | Reply::Failed { reason, .. } => {
            output::say(reason);
            ExitCode::from(code_of(reply))
        }
        Reply::Progress { .. } | Reply::Status { .. } => {
            output::fail(&"the session answered something else than a retrieval")
        }
    }
}

fn code_of(reply: &Reply) -> u8 {
    match reply {
        Reply::Answer { .. } => 0,
        Reply::Refused { .. } => EXIT_REFUSED,
        Reply::Failed { .. } | Reply::Progress { .. } | Reply::Status { .. } => EXIT_NOT_FETCHED,
    }
}
