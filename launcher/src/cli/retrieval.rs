//! What `fetch`, `search` and `github` share: asking, inside a session through its launcher, outside behind a wall of its own, and
//! showing what came of it.

use super::output::{self, Paint};
use crate::session::standalone;
use picktwo_agent::client::Client;
use picktwo_agent::render;
use picktwo_wire::tools::{Reply, Request};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a retrieval that policy refused: trying again is useless.
const EXIT_REFUSED: u8 = 3;
/// Exit code of a retrieval that was allowed but did not work.
const EXIT_NOT_FETCHED: u8 = 1;

/// Asks and shows the answer.
pub(super) fn answer(command: &str, request: Request, json: bool, policy: Option<&Path>) -> ExitCode {
    let socket = super::tools_socket();
    let reply = if super::is_in_session(&socket) {
        Client::new(&socket).ask(&request, progress).map_err(|e| e.to_string())
    } else {
        standalone::answer(command, request, policy, &mut |note: String| progress(&note))
    };
    match reply {
        Ok(reply) => show(&reply, json),
        Err(e) => output::fail(&e),
    }
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
