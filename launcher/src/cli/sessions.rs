//! `picktwo sessions`: the live sessions of this user.

use super::output::{self, Paint};
use crate::session::registry;
use std::process::ExitCode;

/// Lists live sessions: id, mode, workspace, process, tier, command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print a JSON array: id, mode, workspace, pid, tier, command, started
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let (sessions, unanswered) = match registry::live() {
        Ok(live) => live,
        Err(e) => return output::fail(&e),
    };
    for session in &unanswered {
        output::say(session);
    }
    if args.json {
        return match serde_json::to_string_pretty(&sessions) {
            Ok(text) => output::print(&(text + "\n")),
            Err(e) => output::fail(&e),
        };
    }
    if sessions.is_empty() && !unanswered.is_empty() {
        return ExitCode::SUCCESS;
    }
    if sessions.is_empty() {
        return output::print("No live sessions. Start one with: picktwo run -- COMMAND\n");
    }
    let paint = Paint::stdout();
    let mut rows = vec![
        ["SESSION", "MODE", "TIER", "PID", "WORKSPACE", "COMMAND"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for s in &sessions {
        rows.push(vec![
            s.id.clone(),
            s.mode.to_string(),
            s.tier.clone(),
            s.pid.to_string(),
            s.workspace.clone(),
            s.command.join(" "),
        ]);
    }
    let text = output::table(&rows);
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let rest: String = lines.flat_map(|l| [l, "\n"]).collect();
    output::print(&format!("{}\n{rest}", paint.faint(head)))
}
