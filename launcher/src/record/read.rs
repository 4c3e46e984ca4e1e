//! Reading records: lists, texts, and whether they still say what was written.

use super::chain::{self, Body, Fault};
use super::{Anchor, Event, RecordError, failed};
use crate::names;
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One session in a list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    /// Session id.
    pub(crate) id: String,
    /// Start, RFC 3339 UTC; empty if even that is unreadable.
    pub(crate) started: String,
    /// Whole lines.
    pub(crate) lines: usize,
    /// Exit code; none while it runs or if it was killed.
    pub(crate) code: Option<i32>,
    /// Workspace.
    pub(crate) workspace: String,
    /// Command line.
    pub(crate) command: Vec<String>,
}

/// What the check of one session, or of the ledger, found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Session id, or `ledger`.
    pub(crate) of: String,
    /// Whole lines that hold.
    pub(crate) lines: usize,
    /// What is wrong; nothing if it holds.
    pub(crate) wrong: Option<String>,
    /// What is worth knowing though nothing is wrong.
    pub(crate) note: Option<String>,
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("read", path)(e)),
    }
}

fn state() -> Result<PathBuf, RecordError> {
    names::state_dir().map_err(RecordError::NoHome)
}

fn session_ids(state: &Path) -> Result<Vec<String>, RecordError> {
    let dir = state.join(names::SESSIONS);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed("read", &dir)(e)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed("read", &dir))?;
        if let Ok(name) = entry.file_name().into_string() {
            ids.push(name);
        }
    }
    ids.sort();
    Ok(ids)
}

fn audit_of(state: &Path, id: &str) -> Result<Option<chain::Read<Event>>, RecordError> {
    let path = state.join(names::SESSIONS).join(id).join(names::AUDIT);
    Ok(read_file(&path)?.map(|text| chain::read(&text)))
}

/// All recorded sessions, oldest first.
///
/// # Errors
/// If a directory or file cannot be read.
pub(crate) fn list() -> Result<Vec<Summary>, RecordError> {
    let state = state()?;
    let mut sessions = Vec::new();
    for id in session_ids(&state)? {
        let Some(read) = audit_of(&state, &id)? else { continue };
        let mut summary = Summary {
            id,
            started: String::new(),
            lines: read.lines.len(),
            code: None,
            workspace: String::new(),
            command: Vec::new(),
        };
        for (body, _) in &read.lines {
            match &body.event {
                Event::Start { workspace, command, .. } => {
                    summary.started.clone_from(&body.time);
                    summary.workspace.clone_from(workspace);
                    summary.command.clone_from(command);
                }
                Event::End { code } => summary.code = Some(*code),
                _ => {}
            }
        }
        sessions.push(summary);
    }
    sessions.sort_by(|a, b| (&a.started, &a.id).cmp(&(&b.started, &b.id)));
    Ok(sessions)
}

/// The one recorded session whose id starts with `id`.
///
/// # Errors
/// A sentence for the person.
pub(crate) fn find(id: &str) -> Result<String, String> {
    let ids = state().and_then(|s| session_ids(&s)).map_err(|e| e.to_string())?;
    if ids.iter().any(|i| i == id) {
        return Ok(id.to_owned());
    }
    let mut found = ids.iter().filter(|i| i.starts_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => Err(format!(
            "more than one recorded session starts with `{id}`: write more of it"
        )),
        _ => Err(format!("no recorded session `{id}`: see `picktwo audit list`")),
    }
}

/// The lines of one session, and what is wrong with the rest.
///
/// # Errors
/// If the audit cannot be read.
pub(crate) fn show(id: &str) -> Result<(Vec<Body<Event>>, Option<Fault>), String> {
    let id = find(id)?;
    let read = state()
        .and_then(|s| audit_of(&s, &id))
        .map_err(|e| e.to_string())?
        .ok_or_else(|| format!("session {id} has no audit"))?;
    Ok((read.lines.into_iter().map(|(body, _)| body).collect(), read.fault))
}

/// Checks one session, or all of them and the ledger.
///
/// # Errors
/// If a file cannot be read: that is not a verdict.
pub(crate) fn verify(only: Option<&str>) -> Result<Vec<Finding>, RecordError> {
    verify_in(&state()?, only)
}

pub(super) fn verify_in(state: &Path, only: Option<&str>) -> Result<Vec<Finding>, RecordError> {
    let path = state.join(names::LEDGER);
    // Held until the audits are read: a session that runs cannot get further ahead of the ledger than the one line it is at.
    let lock = match std::fs::File::open(&path) {
        Ok(file) => {
            let lock = Flock::lock(file, FlockArg::LockShared);
            Some(lock.map_err(|(_, e)| failed("lock", &path)(e.into()))?)
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(failed("open", &path)(e)),
    };
    let ledger = chain::read::<Anchor>(&read_file(&path)?.unwrap_or_default());
    let mut anchored: BTreeMap<&str, &Anchor> = BTreeMap::new();
    for (body, _) in &ledger.lines {
        anchored.insert(&body.event.session, &body.event);
    }
    let mut findings = Vec::new();
    let ids = session_ids(state)?;
    for id in ids.iter().filter(|id| only.is_none_or(|o| o == id.as_str())) {
        findings.push(check(
            id,
            audit_of(state, id)?,
            anchored.get(id.as_str()).copied(),
            ledger.fault.is_some(),
        ));
    }
    if lock.is_none() && path.exists() {
        // The first session of this user started meanwhile: what was read of it belongs to a ledger that was not there yet.
        return verify_in(state, only);
    }
    for (id, anchor) in anchored.iter().filter(|(id, _)| only.is_none_or(|o| o == **id)) {
        if !ids.iter().any(|i| i == id) {
            let wrong = format!("the session is missing: the ledger has {} of its lines", anchor.lines);
            findings.push(Finding {
                of: (*id).to_owned(),
                lines: 0,
                wrong: Some(wrong),
                note: None,
            });
        }
    }
    if only.is_none() || ledger.fault.is_some() {
        findings.push(Finding {
            of: "ledger".to_owned(),
            lines: ledger.lines.len(),
            wrong: ledger.fault.as_ref().map(ToString::to_string),
            note: ledger
                .torn
                .then(|| "an incomplete line: its writer was killed".to_owned()),
        });
    }
    Ok(findings)
}

fn check(id: &str, audit: Option<chain::Read<Event>>, anchor: Option<&Anchor>, ledger_damaged: bool) -> Finding {
    let mut finding = Finding {
        of: id.to_owned(),
        lines: 0,
        wrong: None,
        note: None,
    };
    let Some(read) = audit else {
        match anchor {
            Some(_) => finding.wrong = Some("its audit is missing".to_owned()),
            // Nothing of it was ever recorded: its directory is made first.
            None => finding.note = Some("no record: it starts just now, or was killed at its start".to_owned()),
        }
        return finding;
    };
    finding.lines = read.lines.len();
    if let Some(fault) = read.fault {
        finding.wrong = Some(fault.to_string());
        return finding;
    }
    let lines = read.lines.len() as u64;
    match anchor {
        Some(a) if a.lines > lines => {
            finding.wrong = Some(format!(
                "the end was cut off: {lines} lines are there, the ledger has {}",
                a.lines
            ));
        }
        Some(a) => {
            let index = usize::try_from(a.lines).unwrap_or(usize::MAX).wrapping_sub(1);
            let anchored = read.lines.get(index).map(|(_, hash)| hash.as_str());
            if anchored != Some(a.head.as_str()) {
                finding.wrong = Some(format!("line {} is not the one that the ledger has", a.lines));
            } else if lines > a.lines + 1 {
                // One line may be ahead: its writer was killed between the two writes.
                finding.wrong = Some(format!("{} lines are not in the ledger", lines - a.lines));
            } else if !a.end {
                finding.note = Some("no end: it runs, or was killed".to_owned());
            }
        }
        // A session is anchored with its first line: only one that was killed right there may have none.
        None if lines <= 1 && !ledger_damaged => finding.note = Some("killed at its start".to_owned()),
        None if ledger_damaged => finding.note = Some("the ledger is damaged before it".to_owned()),
        None => finding.wrong = Some("the ledger does not know it".to_owned()),
    }
    if read.torn && finding.wrong.is_none() {
        finding.note = Some("an incomplete last record: its writer was killed".to_owned());
    }
    finding
}
