//! `picktwo audit`: read and check the records of sessions.

use super::output::{self, Paint};
use crate::record::{self, Event};
use std::process::ExitCode;

/// Reads and checks the records of sessions.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// List recorded sessions, oldest first
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Print what happened in a session
    Show {
        /// Session id, or the start of one
        session: String,
        /// Print the lines as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check that nothing was altered, cut off or removed; exit code 1 if something was
    Verify {
        /// Session id, or the start of one; all sessions and the ledger without it
        session: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn main(args: Args) -> ExitCode {
    match args.what {
        What::List { json } => list(json),
        What::Show { session, json } => show(&session, json),
        What::Verify { session, json } => verify(session.as_deref(), json),
    }
}

fn json_text(value: &impl serde::Serialize) -> ExitCode {
    match serde_json::to_string_pretty(value) {
        Ok(text) => output::print(&(text + "\n")),
        Err(e) => output::fail(&e),
    }
}

fn list(json: bool) -> ExitCode {
    let sessions = match record::list() {
        Ok(sessions) => sessions,
        Err(e) => return output::fail(&e),
    };
    if json {
        return json_text(&sessions);
    }
    if sessions.is_empty() {
        return output::print("No recorded sessions.\n");
    }
    let mut rows = vec![
        ["SESSION", "STARTED", "LINES", "EXIT", "WORKSPACE", "COMMAND"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for s in sessions {
        rows.push(vec![
            s.id,
            s.started,
            s.lines.to_string(),
            s.code.map_or("-".to_owned(), |c| c.to_string()),
            s.workspace,
            s.command.join(" "),
        ]);
    }
    output::print(&output::table(&rows))
}

fn show(session: &str, json: bool) -> ExitCode {
    let (lines, fault) = match record::show(session) {
        Ok(read) => read,
        Err(e) => return output::fail(&e),
    };
    let code = if json {
        json_text(&lines)
    } else {
        let rows: Vec<Vec<String>> = lines.iter().map(|l| vec![l.time.clone(), sentence(&l.event)]).collect();
        output::print(&output::table(&rows))
    };
    match fault {
        Some(fault) => {
            output::say(&format!("the record does not hold from here on: {fault}"));
            ExitCode::FAILURE
        }
        None => code,
    }
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Start {
            session,
            tier,
            landlock,
            profile,
            workspace,
            command,
            mode,
            ..
        } => format!(
            "start    session {session}, {mode}, {tier} tier (Landlock ABI {landlock}), profile {profile}, {workspace}: {}",
            command.join(" ")
        ),
        Event::Full { path } => format!("full     no room left on the file system of {path}: the session is ended"),
        Event::Mode {
            was,
            mode,
            by,
            writers,
            ended,
        } => {
            let ended = if *ended == 0 {
                String::new()
            } else {
                format!("; {ended} writers ended")
            };
            let open = if *writers == 0 {
                String::new()
            } else {
                format!("; {writers} still open for writing")
            };
            format!("mode     {was} → {mode}, by {by}{ended}{open}")
        }
        Event::Refused {
            call,
            path,
            errno,
            rule,
            more,
        } => {
            let rule = rule.as_deref().map_or(String::new(), |r| format!(" ({r})"));
            let more = if *more == 0 {
                String::new()
            } else {
                format!(", and {more} more")
            };
            format!("refused  {call} {path}: {errno}{rule}{more}")
        }
        Event::Request {
            retrieval,
            url,
            question,
        } => {
            let question = question.as_deref().map_or(String::new(), |q| format!(": {q}"));
            format!("fetch    #{retrieval} {url}{question}")
        }
        Event::Search {
            retrieval,
            provider,
            query,
        } => format!("search   #{retrieval} {provider}: {query}"),
        Event::Github {
            retrieval,
            operation,
            question,
        } => {
            let question = question.as_deref().map_or(String::new(), |q| format!(": {q}"));
            format!("github   #{retrieval} {operation}{question}")
        }
        Event::Asked {
            retrieval,
            method,
            host,
            path,
            status,
            received,
            ms,
        } => format!("asked    #{retrieval} {method} {host}{path}: {status}, {received} bytes, {ms} ms"),
        Event::Blocked { host, rule } => format!("blocked  a request to {host}: {rule}"),
        Event::Hop {
            retrieval,
            url,
            status,
            location,
            refused,
        } => {
            let to = location.as_deref().map_or(String::new(), |l| format!(" → {l}"));
            let refused = refused
                .as_deref()
                .map_or(String::new(), |r| format!(" (not followed: {r})"));
            format!("hop      #{retrieval} {status} {url}{to}{refused}")
        }
        Event::Resolved {
            retrieval,
            host,
            addresses,
        } => {
            let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!(
                "resolve  #{retrieval} {host}: {}",
                if list.is_empty() {
                    "nothing".to_owned()
                } else {
                    list.join(", ")
                }
            )
        }
        Event::Connection {
            retrieval,
            host,
            address,
            outcome,
        } => format!("connect  #{retrieval} {host} {address}: {outcome}"),
        Event::Retrieved {
            retrieval,
            outcome,
            wire_bytes,
            flags,
            ..
        } => {
            let flags = if flags.is_empty() {
                String::new()
            } else {
                format!(", flags: {}", flags.join(", "))
            };
            format!("fetched  #{retrieval} {outcome}, {wire_bytes} bytes{flags}")
        }
        Event::Call {
            method,
            path,
            model,
            status,
            sent,
            received,
            ms,
        } => {
            let model = model.as_deref().unwrap_or("-");
            format!("model    {method} {path} {model}: {status}, {sent} bytes out, {received} in, {ms} ms")
        }
        Event::CallRefused {
            method,
            path,
            rule,
            reason,
        } => format!("model    {method} {path} refused: {rule}: {reason}"),
        Event::Lost { part, reason } => format!("lost     {part}: {reason}"),
        Event::End { code } => format!("end      exit code {code}"),
    }
}

fn verify(session: Option<&str>, json: bool) -> ExitCode {
    let session = match session.map(record::find).transpose() {
        Ok(id) => id,
        // A session that is gone altogether is what the check is for: the ledger may know it.
        Err(_) => session.map(str::to_owned),
    };
    let findings = match record::verify(session.as_deref()) {
        Ok(findings) => findings,
        Err(e) => return output::fail(&e),
    };
    if findings.is_empty() {
        return output::fail(&format!(
            "no recorded session `{}`, and the ledger knows none",
            session.unwrap_or_default()
        ));
    }
    let wrong = findings.iter().filter(|f| f.wrong.is_some()).count();
    let code = if json {
        json_text(&findings)
    } else {
        let paint = Paint::stdout();
        let rows: Vec<Vec<String>> = findings
            .iter()
            .map(|f| {
                let verdict = if f.wrong.is_some() { "WRONG" } else { "holds" };
                let what = f.wrong.clone().or_else(|| f.note.clone()).unwrap_or_default();
                vec![verdict.to_owned(), f.of.clone(), format!("{} lines", f.lines), what]
            })
            .collect();
        let mut text = output::table(&rows);
        let line = match wrong {
            0 => paint.good("The records hold."),
            n => paint.bad(&format!("{n} of {} do not hold.", findings.len())),
        };
        text.push_str(&format!("\n{line}\n"));
        output::print(&text)
    };
    if wrong > 0 { ExitCode::FAILURE } else { code }
}
