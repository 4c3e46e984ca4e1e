//! The live sessions of this user, found by their control sockets.

use super::line::{LineError, LineStream};
use crate::names;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::Pid;
use picktwo_wire::control::{Reply, Request, Session};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    /// Its launcher lives, but is stopped or does not answer.
    Unanswered(Unanswered),
}

/// A session whose launcher lives and does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The session.
    pub(crate) id: String,
    /// Its launcher.
    pid: i32,
    stopped: bool,
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, pid, stopped } = self;
        if *stopped {
            write!(
                f,
                "session {id} is stopped (process {pid}): continue it with `fg` or `kill -CONT {pid}`"
            )
        } else {
            write!(f, "session {id} lives (process {pid}), but does not answer")
        }
    }
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
            Self::Unanswered(session) => write!(f, "{session}"),
        }
    }
}

/// Seconds that a live session has for its answer; listing writers takes the longest.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a stopped launcher has until it runs again.
const WAKING: Duration = Duration::from_secs(2);

/// Every live session that answers, oldest first, and those that do not.
pub(crate) fn live() -> Result<(Vec<Session>, Vec<Unanswered>), RegistryError> {
    let dir = names::sessions_dir().map_err(RegistryError::NoHome)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(e) => return Err(RegistryError::State(dir, e)),
    };
    let (mut sessions, mut unanswered) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry = entry.map_err(|e| RegistryError::State(dir.clone(), e))?;
        // A session that has ended leaves its records, and a killed one its socket: neither answers, neither is live.
        match exchange(&entry.path(), &Request::Status) {
            Ok(Reply::Status { session }) => sessions.push(session),
            Err(Failed::Living(pid, _)) => unanswered.push(Unanswered {
                id: entry.file_name().to_string_lossy().into_owned(),
                pid,
                stopped: is_stopped(pid),
            }),
            _ => {}
        }
    }
    sessions.sort_by(|a, b| (&a.started, &a.id).cmp(&(&b.started, &b.id)));
    Ok((sessions, unanswered))
}

/// Sends a request to the one live session whose id starts with `id`. One that is stopped is continued, once.
pub(crate) fn ask(id: &str, request: &Request) -> Result<(Session, Reply), RegistryError> {
    let (mut sessions, mut unanswered) = live()?;
    let count = sessions.len() + unanswered.len();
    unanswered.retain(|silent| silent.id.starts_with(id) && !sessions.iter().any(|s| s.id == id));
    if let Some(exact) = unanswered.iter().position(|silent| silent.id == id) {
        unanswered = vec![unanswered.swap_remove(exact)];
        sessions.clear();
    }
    if let [silent] = unanswered.as_slice()
        && !sessions.iter().any(|s| s.id.starts_with(id))
    {
        let dir = names::sessions_dir().map_err(RegistryError::NoHome)?;
        match wake(silent).then(|| exchange(&dir.join(&silent.id), &Request::Status)) {
            Some(Ok(Reply::Status { session })) => sessions.push(session),
            _ => return Err(RegistryError::Unanswered(silent.clone())),
        }
    } else if !unanswered.is_empty() {
        let answering = sessions.iter().map(|s| &s.id).filter(|s| s.starts_with(id));
        let all = answering.chain(unanswered.iter().map(|silent| &silent.id));
        return Err(RegistryError::Ambiguous(id.to_owned(), all.cloned().collect()));
    }
    let mut found: Vec<Session> = sessions.into_iter().filter(|s| s.id.starts_with(id)).collect();
    if let Some(exact) = found.iter().position(|s| s.id == id) {
        found = vec![found.swap_remove(exact)];
    }
    match found.len() {
        0 => Err(RegistryError::Unknown(id.to_owned(), count)),
        1 => {
            let session = found.remove(0);
            let dir = names::sessions_dir().map_err(RegistryError::NoHome)?;
            let reply = exchange(&dir.join(&session.id), request)
                .map_err(|failed| RegistryError::Silent(session.id.clone(), failed.into_inner()))?;
            Ok((session, reply))
        }
        _ => Err(RegistryError::Ambiguous(
            id.to_owned(),
            found.into_iter().map(|s| s.id).collect(),
        )),
    }
}

/// Continues a stopped launcher. Whether it runs again.
fn wake(silent: &Unanswered) -> bool {
    if !silent.stopped || kill(Pid::from_raw(silent.pid), Signal::SIGCONT).is_err() {
        return false;
    }
    let until = Instant::now() + WAKING;
    while is_stopped(silent.pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !is_stopped(silent.pid)
}

/// Whether a process is stopped, by job control or by a debugger.
fn is_stopped(pid: i32) -> bool {
    // Number, name in brackets, state.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
    })
}

/// Why a session did not answer.
enum Failed {
    /// Nobody listens there.
    Gone(LineError),
    /// This process does.
    Living(i32, LineError),
}

impl Failed {
    fn into_inner(self) -> LineError {
        match self {
            Self::Gone(e) | Self::Living(_, e) => e,
        }
    }
}

/// One request to the control socket in a session's directory.
fn exchange(session_dir: &Path, request: &Request) -> Result<Reply, Failed> {
    let stream = connect(session_dir).map_err(Failed::Gone)?;
    let peer = getsockopt(&stream, PeerCredentials).map_err(|e| Failed::Gone(LineError::Io(e.into())))?;
    if is_stopped(peer.pid()) {
        return Err(Failed::Living(
            peer.pid(),
            LineError::Io(std::io::ErrorKind::TimedOut.into()),
        ));
    }
    converse(stream, request).map_err(|e| match e {
        // What a session that ends at this moment leaves.
        LineError::Closed => Failed::Gone(e),
        e => Failed::Living(peer.pid(), e),
    })
}

fn connect(session_dir: &Path) -> Result<UnixStream, LineError> {
    let dir = std::fs::File::open(session_dir).map_err(LineError::Io)?;
    // Through the directory's descriptor, since a socket address holds 108 bytes and a state directory may be longer.
    let short = format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), names::CONTROL_SOCKET);
    UnixStream::connect(short).map_err(LineError::Io)
}

fn converse(stream: UnixStream, request: &Request) -> Result<Reply, LineError> {
    stream.set_read_timeout(Some(PATIENCE)).map_err(LineError::Io)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(LineError::Io)?;
    let mut lines = LineStream::new(stream);
    lines.write(request)?;
    lines.read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_stopped_launcher_is_told_and_woken() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!is_stopped(pid));
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        while !is_stopped(pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let silent = Unanswered {
            id: "id".to_owned(),
            pid,
            stopped: true,
        };
        assert!(silent.to_string().contains("is stopped"));
        assert!(wake(&silent));
        assert!(!is_stopped(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!wake(&silent));
    }
}
