//! `picktwo mode SESSION read-only|edit`: flips a live session.

use super::output::{self, Paint};
use crate::session::registry;
use picktwo_wire::control::{Mode, Reply, Request, Writer};
use std::process::ExitCode;

/// Sets the mode of a live session, at once and for every process in it.
///
/// Going back to read-only lists what still holds a file of the workspace open for writing; --stop ends those processes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Session id, or the start of one (see `picktwo sessions`)
    session: String,
    /// The mode to set
    mode: ModeArg,
    /// End processes that can still write after going back to read-only
    #[arg(long)]
    stop: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeArg {
    ReadOnly,
    Edit,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let mode = match args.mode {
        ModeArg::ReadOnly => Mode::ReadOnly,
        ModeArg::Edit => Mode::Edit,
    };
    let request = Request::Mode {
        mode,
        stop_writers: args.stop,
    };
    let (session, reply) = match registry::ask(&args.session, &request) {
        Ok(answer) => answer,
        Err(e) => return output::fail(&e),
    };
    let (mode, was, writers, ended, complete) = match &reply {
        Reply::Mode {
            mode,
            was,
            writers,
            ended,
            complete,
        } => (*mode, *was, writers, ended, *complete),
        Reply::Error { reason } => return output::fail(reason),
        Reply::Status { .. } => return output::fail(&"the session answered something else than a mode"),
    };
    if args.json {
        return match serde_json::to_string_pretty(&reply) {
            Ok(text) => output::print(&(text + "\n")),
            Err(e) => output::fail(&e),
        };
    }
    let paint = Paint::stdout();
    let shown = match mode {
        Mode::ReadOnly => paint.good("read-only"),
        Mode::Edit => paint.warn("edit"),
    };
    let mut text = if mode == was {
        format!("Session {} was and stays {shown}.\n", session.id)
    } else {
        format!("Session {} is now {shown} (was {was}).\n", session.id)
    };
    if !ended.is_empty() {
        text.push_str("Ended, with what it held open for writing:\n");
        text.extend(ended.iter().map(line));
    }
    if !writers.is_empty() {
        text.push_str(&paint.warn("Still open for writing from before:"));
        text.push('\n');
        text.extend(writers.iter().map(line));
        if !args.stop {
            text.push_str(&format!(
                "End them with: picktwo mode {} read-only --stop\n",
                session.id
            ));
        }
    }
    if !complete {
        text.push_str("Too many files were opened for writing, or a closed directory may hide one: a descriptor that no process shows may be missing here.\n");
    }
    output::print(&text)
}

/// One writer: who, how, and what.
fn line(writer: &Writer) -> String {
    let who = match writer.pid {
        Some(pid) => format!("{} ({pid})", output::plain(&writer.command)),
        None => "no process shows it".to_owned(),
    };
    format!("  {who}  {}  {}\n", writer.how, output::plain(&writer.path))
}
