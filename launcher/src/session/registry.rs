//! The live sessions of this user, found by their control sockets.

use super::line::{LineError, LineStream};
use crate::names;
use picktwo_wire::control::{Reply, Request, Session};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a session could not be asked.
#[derive(Debug)]
pub(crate) enum RegistryError {
    /// The state directory is not known or cannot be read.
    State(PathBuf, std::io::Error),
    /// Neither `XDG_STATE_HOME` nor `HOME` is set.
    NoHome(names::NoHome),
    /// No live session starts with this text; holds it and how many are live.
    Unknown(String, usize),
    /// More than one live session starts with this text.
    Ambiguous(String, Vec<String>),
    /// The session did not answer.
    Silent(String, LineError),
}

impl std::fmt::Display for RegistryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            Self::NoHome(e) => write!(f, "{e}"),
            Self::Unknown(id, 0) => write!(f, "no live session `{id}`: no session is running"),
            Self::Unknown(id, _) => write!(f, "no live session `{id}`: see `picktwo sessions`"),
            Self::Ambiguous(id, ids) => write!(f, "`{id}` could be any of {}: write more of it", ids.join(", ")),
            Self::Silent(id, e) => write!(f, "session {id} does not answer: {e}"),
        }
    }
}

/// Seconds that a live session has for its answer; listing writers takes the longest.
const PATIENCE: Duration = Duration::from_secs(10);

/// Every live session, oldest first.
pub(crate) fn live() -> Result<Vec<Session>, RegistryError> {
    let dir = names::sessions_dir().map_err(RegistryError::NoHome)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(RegistryError::State(dir, e)),
    };
    let mut sessions = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| RegistryError::State(dir.clone(), e))?;
        // A session that has ended leaves its records, and a killed one its socket: neither answers, neither is live.
        if let Ok(Reply::Status { session }) = exchange(&entry.path(), &Request::Status) {
            sessions.push(session);
        }
    }
    sessions.sort_by(|a, b| (&a.started, &a.id).cmp(&(&b.started, &b.id)));
    Ok(sessions)
}

/// Sends a request to the one live session whose id starts with `id`.
pub(crate) fn ask(id: &str, request: &Request) -> Result<(Session, Reply), RegistryError> {
    let sessions = live()?;
    let count = sessions.len();
    let mut found: Vec<Session> = sessions.into_iter().filter(|s| s.id.starts_with(id)).collect();
    if let Some(exact) = found.iter().position(|s| s.id == id) {
        found = vec![found.swap_remove(exact)];
    }
    match found.len() {
        0 => Err(RegistryError::Unknown(id.to_owned(), count)),
        1 => {
            let session = found.remove(0);
            let dir = names::sessions_dir().map_err(RegistryError::NoHome)?;
            let reply =
                exchange(&dir.join(&session.id), request).map_err(|e| RegistryError::Silent(session.id.clone(), e))?;
            Ok((session, reply))
        }
        _ => Err(RegistryError::Ambiguous(
            id.to_owned(),
            found.into_iter().map(|s| s.id).collect(),
        )),
    }
}

/// One request to the control socket in a session's directory.
fn exchange(session_dir: &Path, request: &Request) -> Result<Reply, LineError> {
    let dir = std::fs::File::open(session_dir).map_err(LineError::Io)?;
    // Through the directory's descriptor, since a socket address holds 108 bytes and a state directory may be longer.
    let short = format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), names::CONTROL_SOCKET);
    let stream = UnixStream::connect(short).map_err(LineError::Io)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(LineError::Io)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(LineError::Io)?;
    let mut lines = LineStream::new(stream);
    lines.write(request)?;
    lines.read()
}
