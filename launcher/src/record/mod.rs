//! Records: a directory for each session with a chained audit, and one chained ledger for each user that anchors every audit's
//! head. If a record cannot be written, the action does not happen.

mod chain;
mod event;
mod read;

pub(crate) use chain::{hash, now};
pub(crate) use event::{Bounds, Event};
pub(crate) use read::{find, list, show, verify};

use crate::names;
use chain::{Body, START};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Why something could not be recorded.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// No state directory.
    NoHome(names::NoHome),
    /// A call on a file or directory failed.
    File {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The event cannot be written as JSON.
    Json(serde_json::Error),
    /// The ledger's last whole line is not a line of a ledger.
    Ledger(PathBuf),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoHome(e) => write!(f, "{e}"),
            Self::File { doing, path, error } => write!(
                f,
                "the record cannot be kept: cannot {doing} {}: {error}",
                path.display()
            ),
            Self::Json(e) => write!(f, "the record cannot be kept: {e}"),
            Self::Ledger(path) => write!(
                f,
                "the record cannot be kept: the last line of {} is damaged; run `picktwo audit verify`, then move the file away",
                path.display()
            ),
        }
    }
}

/// What a ledger line anchors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Anchor {
    /// Session id.
    session: String,
    /// Number of the audit's last line.
    lines: u64,
    /// Hash of the audit's last line.
    head: String,
    /// Whether the session ended with it.
    end: bool,
}

struct Audit {
    file: File,
    seq: u64,
    head: String,
    /// The last write may have left a part of a line.
    torn: bool,
}

/// The record of one session. Everything it needs is opened before the launcher locks itself.
pub(crate) struct Record {
    id: String,
    dir: PathBuf,
    dir_fd: File,
    audit: Mutex<Audit>,
    ledger: File,
    ledger_path: PathBuf,
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RecordError {
    let path = path.to_path_buf();
    move |error| RecordError::File { doing, path, error }
}

/// Makes a directory that only this user can look into; one that exists keeps its mode.
pub(crate) fn make_private_dir(path: &Path) -> Result<(), RecordError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed("make the directory", path))
}

impl Record {
    /// Opens the record of a new session.
    ///
    /// # Errors
    /// If directory, audit or ledger cannot be made or opened.
    pub(crate) fn create(id: &str) -> Result<Self, RecordError> {
        Self::create_in(&names::state_dir().map_err(RecordError::NoHome)?, id)
    }

    fn create_in(state: &Path, id: &str) -> Result<Self, RecordError> {
        let dir = state.join(names::SESSIONS).join(id);
        make_private_dir(&dir.join(names::RETRIEVALS))?;
        let open = |path: &Path| {
            File::options()
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .open(path)
                .map_err(failed("open", path))
        };
        let file = open(&dir.join(names::AUDIT))?;
        let ledger_path = state.join(names::LEDGER);
        let ledger = open(&ledger_path)?;
        let dir_fd = File::open(&dir).map_err(failed("open", &dir))?;
        Ok(Self {
            id: id.to_owned(),
            dir,
            dir_fd,
            audit: Mutex::new(Audit {
                file,
                seq: 0,
                head: START.to_owned(),
                torn: false,
            }),
            ledger,
            ledger_path,
        })
    }

    /// The session's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The session's directory, open.
    pub(crate) fn dir_fd(&self) -> &File {
        &self.dir_fd
    }

    /// Appends an event and anchors it. On return both are written.
    ///
    /// # Errors
    /// If either cannot be written whole; then what was to be recorded must not happen.
    pub(crate) fn append(&self, event: &Event) -> Result<(), RecordError> {
        let mut audit = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.dir.join(names::AUDIT);
        let body = Body {
            seq: audit.seq + 1,
            time: now(),
            prev: audit.head.clone(),
            event,
        };
        let (line, head) = chain::line(&body).map_err(RecordError::Json)?;
        if audit.torn {
            audit.file.write_all(b"\n").map_err(failed("write", &path))?;
            audit.torn = false;
        }
        let before = audit.file.metadata().map_err(failed("look at", &path))?.len();
        if let Err(error) = audit.file.write_all(line.as_bytes()) {
            // Take back what a full disk let through; where even that fails, the next line starts afresh.
            audit.torn = audit.file.set_len(before).is_err();
            return Err(RecordError::File {
                doing: "write",
                path,
                error,
            });
        }
        let anchor = Anchor {
            session: self.id.clone(),
            lines: body.seq,
            head: head.clone(),
            end: matches!(event, Event::End { .. }),
        };
        if let Err(e) = self.anchor(anchor) {
            audit.torn = audit.file.set_len(before).is_err();
            return Err(e);
        }
        audit.seq += 1;
        audit.head = head;
        Ok(())
    }

    /// Appends to the ledger, which other sessions of this user write, too.
    fn anchor(&self, anchor: Anchor) -> Result<(), RecordError> {
        let file = self.ledger.try_clone().map_err(failed("open", &self.ledger_path))?;
        let mut lock =
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| failed("lock", &self.ledger_path)(e.into()))?;
        let (seq, prev, torn) = self.ledger_end(&lock)?;
        let body = Body {
            seq: seq + 1,
            time: now(),
            prev,
            event: anchor,
        };
        let (line, _) = chain::line(&body).map_err(RecordError::Json)?;
        let before = lock.metadata().map_err(failed("look at", &self.ledger_path))?.len();
        let text = if torn { format!("\n{line}") } else { line };
        if let Err(error) = lock.write_all(text.as_bytes()) {
            // Whatever stays of it is a torn line, which the next writer ends.
            let _ = lock.set_len(before);
            return Err(RecordError::File {
                doing: "write",
                path: self.ledger_path.clone(),
                error,
            });
        }
        lock.unlock()
            .map(drop)
            .map_err(|(_, e)| failed("unlock", &self.ledger_path)(e.into()))
    }

    /// Number and hash of the ledger's last whole line, and whether a torn one follows it.
    fn ledger_end(&self, file: &File) -> Result<(u64, String, bool), RecordError> {
        /// Far more than one line takes.
        const WINDOW: u64 = 8192;
        let length = file.metadata().map_err(failed("look at", &self.ledger_path))?.len();
        if length == 0 {
            return Ok((0, START.to_owned(), false));
        }
        let from = length.saturating_sub(WINDOW);
        let mut window = vec![0; usize::try_from(length - from).unwrap_or(0)];
        file.read_exact_at(&mut window, from)
            .map_err(failed("read", &self.ledger_path))?;
        let torn = window.last() != Some(&b'\n');
        let end = window.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        match chain::last(&window[..end]) {
            Some((seq, hash)) => Ok((seq, hash, torn)),
            // A ledger of nothing but one torn line.
            None if from == 0 && end == 0 => Ok((0, START.to_owned(), true)),
            None => Err(RecordError::Ledger(self.ledger_path.clone())),
        }
    }

    /// Writes a file into the session's directory, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_file(&self, name: &str, content: &[u8]) -> Result<(), RecordError> {
        let path = self.dir.join(name);
        let result = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut f| f.write_all(content));
        result.map_err(failed("write", &path))
    }
}

#[cfg(test)]
mod tests;
