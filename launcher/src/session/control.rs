//! The control socket: what a person in another terminal may ask of a live session.
//!
//! It lies in the session's record directory, which does not exist inside. Besides, every peer has to be this user (or root) and
//! to live in the launcher's own pid namespace: a process of the session never does.

use super::line::LineStream;
use super::steer::Steering;
use picktwo_wire::control::{Reply, Request};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

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

/// How many requests are being answered: a session that ends meanwhile (its answer may be what ended it) lets them be finished.
#[derive(Clone, Default)]
pub(crate) struct Busy(Arc<(Mutex<usize>, Condvar)>);

impl Busy {
    /// Waits until none is, for at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let (count, changed) = &*self.0;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let _count = changed
            .wait_timeout_while(count, limit, |count| *count > 0)
            .unwrap_or_else(PoisonError::into_inner);
    }

    fn start(&self) -> Answering {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Answering(self.clone())
    }
}

struct Answering(Busy);

impl Drop for Answering {
    fn drop(&mut self) {
        let (count, changed) = &*self.0.0;
        *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        changed.notify_all();
    }
}

/// Answers one connection in a thread of its own.
pub(crate) fn answer(stream: UnixStream, busy: &Busy, steering: &Arc<Steering>) {
    let (busy, steering) = (busy.clone(), Arc::clone(steering));
    // The peer sees a closed connection where no thread can be made.
    let _ = super::start::spawn("control", move || converse(stream, &busy, &steering));
}

fn converse(stream: UnixStream, busy: &Busy, steering: &Steering) {
    let peer = identify(&stream);
    if stream.set_read_timeout(Some(PATIENCE)).is_err() || stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let mut lines = LineStream::new(stream);
    let mut _answering = None;
    let reply = match peer {
        Ok(peer) => match lines.read::<Request>() {
            Ok(request) => {
                _answering = Some(busy.start());
                steering.answer(&peer, request)
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
