//! The control socket: what a person in another terminal may ask of a live session.
//!
//! It lies in the session's record directory, which does not exist inside. Besides, every peer has to be this user (or root) and
//! to live in the launcher's own pid namespace: a process of the session never does.

use super::line::LineStream;
use picktwo_wire::control::{Reply, Request};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Seconds for one request; a silent peer must not hold a session's control.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Host process id.
    pub(crate) pid: i32,
    /// Host user id.
    pub(crate) uid: u32,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} of user {}", self.pid, self.uid)
    }
}

/// Why a peer is not answered.
#[derive(Debug, PartialEq, Eq)]
enum Stranger {
    /// Another user.
    User(u32),
    /// A process of another pid namespace, or one whose namespace cannot be told.
    Namespace,
    /// The kernel did not say who it is.
    Unknown,
}

/// Whether a request is being answered: a session that ends meanwhile (its answer may be what ended it) lets it be finished.
#[derive(Clone, Default)]
pub(crate) struct Busy(Arc<AtomicBool>);

impl Busy {
    /// Waits until no request is being answered, for at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let start = Instant::now();
        while self.0.load(Ordering::Acquire) && start.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Serves the socket until the process ends.
pub(crate) fn serve(listener: &UnixListener, busy: &Busy, answer: &(dyn Fn(&Peer, Request) -> Reply + Sync)) {
    for stream in listener.incoming() {
        // Running out of descriptors is the one lasting reason; waiting beats spinning.
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let peer = identify(&stream);
        if stream.set_read_timeout(Some(PATIENCE)).is_err() || stream.set_write_timeout(Some(PATIENCE)).is_err() {
            continue;
        }
        let mut lines = LineStream::new(stream);
        let reply = match peer {
            Ok(peer) => match lines.read::<Request>() {
                Ok(request) => {
                    busy.0.store(true, Ordering::Release);
                    answer(&peer, request)
                }
                Err(e) => Reply::Error {
                    reason: format!("the request was not understood: {e}"),
                },
            },
            Err(_) => Reply::Error {
                reason: "only the person who started the session may ask this".to_owned(),
            },
        };
        // A peer that does not wait for its answer has lost nothing but the answer.
        let _ = lines.write(&reply);
        busy.0.store(false, Ordering::Release);
    }
}

fn identify(stream: &UnixStream) -> Result<Peer, Stranger> {
    let credentials = nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::PeerCredentials)
        .map_err(|_| Stranger::Unknown)?;
    let own = nix::unistd::getuid().as_raw();
    if credentials.uid() != own && credentials.uid() != 0 {
        return Err(Stranger::User(credentials.uid()));
    }
    let pidfd = picktwo_confine::sys::peer_pidfd(stream.as_fd()).map_err(|_| Stranger::Unknown)?;
    let info =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).map_err(|_| Stranger::Unknown)?;
    if !in_own_pid_namespace(&info) {
        return Err(Stranger::Namespace);
    }
    Ok(Peer {
        pid: credentials.pid(),
        uid: credentials.uid(),
    })
}

/// Reads a pidfd's `fdinfo` (proc(5)): `NSpid` lists the process's number in each pid namespace below the reader's, so a process
/// of the reader's own namespace has exactly one.
fn in_own_pid_namespace(info: &str) -> bool {
    info.lines().find_map(|l| l.strip_prefix("NSpid:")).is_some_and(|rest| {
        let numbers: Vec<&str> = rest.split_whitespace().collect();
        matches!(numbers.as_slice(), [n] if *n != "0" && *n != "-1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_nested_namespace_is_a_stranger() {
        assert!(in_own_pid_namespace("pos:\t0\nPid:\t71\nNSpid:\t71\n"));
        assert!(!in_own_pid_namespace("pos:\t0\nPid:\t71\nNSpid:\t71\t3\n"));
        assert!(!in_own_pid_namespace("pos:\t0\nPid:\t-1\nNSpid:\t-1\n"));
        assert!(!in_own_pid_namespace("pos:\t0\nPid:\t0\nNSpid:\t0\n"));
        assert!(!in_own_pid_namespace("pos:\t0\n"));
    }
}
