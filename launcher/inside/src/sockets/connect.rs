//! `connect`, decided on and performed.

use super::table::{self, Entry, Table};
use super::{Outcome, SharedNetwork, Sockets, address, beneath};
use crate::container::broker::{gateway_port, is_loopback};
use crate::files::{Call, Follow, Grants};
use crate::socket_request::SocketRequest;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statvfs::{FsFlags, fstatvfs};
use picktwo_confine::Errno;
use picktwo_confine::sys;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a serving thread itself waits for a connection: on loopback it is there at once.
const SHORT: u16 = 2;
const PAUSE: Duration = Duration::from_millis(2);
/// How often a waiting call looks whether its caller has a signal to handle.
const SIGNAL_PAUSE: Duration = Duration::from_millis(50);

impl Sockets {
    pub(super) fn connect_internet(&self, call: &Call<'_>, ino: u64, entry: &Entry, bytes: Vec<u8>) -> Outcome {
        if let Some(SharedNetwork { gateway }) = self.shared
            && (gateway.is_none() || gateway_port(&bytes) != gateway)
        {
            // What a network namespace with nothing but its own loopback answers, too.
            return Err(if is_loopback(&bytes) {
                Errno::ECONNREFUSED
            } else {
                Errno::ENETUNREACH
            });
        }
        let blocking = make_nonblocking(entry)?;
        let result = self.ask(&SocketRequest::Connect { address: bytes }, Some(entry.fd.as_fd()));
        match result {
            Ok(_) => {
                restore(entry, blocking);
                if entry.stream {
                    self.table().remove(ino);
                }
                Ok(Some(0))
            }
            Err(Errno::EINPROGRESS) if blocking.is_some() => {
                self.wait_for_connection(call, ino, entry.clone(), blocking);
                Ok(None)
            }
            Err(Errno::EINPROGRESS) => {
                self.table().remove(ino);
                Err(Errno::EINPROGRESS)
            }
            Err(errno) => {
                restore(entry, blocking);
                Err(errno)
            }
        }
    }

    /// A blocking connect whose answer is not there yet.
    fn wait_for_connection(&self, call: &Call<'_>, ino: u64, entry: Entry, blocking: Option<i32>) {
        let finish = |entry: &Entry, table: &Mutex<Table>| -> Result<(), Errno> {
            restore(entry, blocking);
            match sys::socket_option(entry.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR)? {
                0 => {
                    table.lock().unwrap_or_else(PoisonError::into_inner).remove(ino);
                    Ok(())
                }
                errno => Err(Errno::from_raw(errno)),
            }
        };
        if writable(&entry, SHORT) {
            let answer = finish(&entry, &self.table);
            let _ = match answer {
                Ok(()) => call.listener.reply_value(call.request.id, 0),
                Err(errno) => call.listener.reply_errno(call.request.id, errno),
            };
            return;
        }
        // The table's entry goes at once: a second connect is answered by the kernel's own state.
        self.table().remove(ino);
        let (grants, listener, request) = (call.grants.clone(), call.listener.clone(), *call.request);
        let mut looked = Instant::now();
        call.grants.waiting().until(PAUSE, move || {
            if !listener.valid(request.id) {
                restore(&entry, blocking);
                return true;
            }
            if writable(&entry, 0) {
                restore(&entry, blocking);
                let error =
                    sys::socket_option(entry.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(libc::EACCES);
                let _ = match error {
                    0 => listener.reply_value(request.id, 0),
                    errno => listener.reply_errno(request.id, Errno::from_raw(errno)),
                };
                return true;
            }
            if looked.elapsed() > SIGNAL_PAUSE {
                looked = Instant::now();
                if table::has_signal(&Call {
                    grants: &grants,
                    listener: &listener,
                    request: &request,
                }) {
                    restore(&entry, blocking);
                    let _ = listener.reply_errno(request.id, Errno::EINTR);
                    return true;
                }
            }
            false
        });
    }

    pub(super) fn connect_unix(&self, call: &Call<'_>, ino: u64, entry: &Entry, path: &[u8]) -> Outcome {
        let target = call.target_at_cwd(path)?;
        let (object, identity, shown) = call.grants.view_object(call, &target, Follow::Yes)?;
        call.alive()?;
        if identity.kind() != libc::S_IFSOCK {
            return Err(Errno::ECONNREFUSED);
        }
        if !self.may_connect(call.grants, object.as_fd(), &shown) {
            call.grants.tell_socket(call, &shown, Errno::EACCES);
            return Err(Errno::EACCES);
        }
        let name = address::unix(sys::fd_path(object.as_fd()).as_bytes());
        let blocking = make_nonblocking(entry)?;
        match connect_unnamed(entry, &name) {
            Ok(()) => {
                restore(entry, blocking);
                self.table().remove(ino);
                Ok(Some(0))
            }
            // A full backlog: the caller waits, if it wants to.
            Err(Errno::EAGAIN) if blocking.is_some() => {
                let (listener, request, entry) = (call.listener.clone(), *call.request, entry.clone());
                self.table().remove(ino);
                call.grants.waiting().until(PAUSE, move || {
                    let _keep = &object;
                    if !listener.valid(request.id) {
                        restore(&entry, blocking);
                        return true;
                    }
                    let answer = match connect_unnamed(&entry, &name) {
                        Err(Errno::EAGAIN) => return false,
                        other => other,
                    };
                    restore(&entry, blocking);
                    let _ = match answer {
                        Ok(()) => listener.reply_value(request.id, 0),
                        Err(errno) => listener.reply_errno(request.id, errno),
                    };
                    true
                });
                Ok(None)
            }
            Err(errno) => {
                restore(entry, blocking);
                Err(errno)
            }
        }
    }

    /// Whether a socket file is one that the session made, or one of the launcher's for it.
    fn may_connect(&self, grants: &Grants, object: BorrowedFd<'_>, shown: &[u8]) -> bool {
        let made = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if crate::files::object(object).is_ok_and(|object| made().contains(&object)) {
            return true;
        }
        if self.allowed.iter().any(|path| path == shown) {
            return true;
        }
        if self.shared.is_some() {
            return self.private.iter().any(|dir| beneath(shown, dir));
        }
        // Beneath a private directory there may be directories of the host: those are mounted read-only, what is private is not.
        let of_session = fstatvfs(object).is_ok_and(|fs| !fs.flags().contains(FsFlags::ST_RDONLY));
        of_session && !grants.lies_in_root_bytes(shown) && self.private.iter().any(|dir| beneath(shown, dir))
    }
}

/// The duplicate shares its flags with the caller's descriptor. The flags to restore, if it was blocking.
fn make_nonblocking(entry: &Entry) -> Result<Option<i32>, Errno> {
    let flags = sys::status_flags(entry.fd.as_fd())?;
    if flags & libc::O_NONBLOCK != 0 {
        return Ok(None);
    }
    sys::set_status_flags(entry.fd.as_fd(), flags | libc::O_NONBLOCK)?;
    Ok(Some(flags))
}

/// Connects a UNIX socket that keeps having no name: the kernel gives one to a socket that asks for credentials, an abstract one of
/// the network namespace that the socket was made in, which may be the host's.
fn connect_unnamed(entry: &Entry, name: &[u8]) -> Result<(), Errno> {
    /// `SO_PASSPIDFD` (Linux 6.5).
    const SO_PASSPIDFD: i32 = 76;
    let fd = entry.fd.as_fd();
    if entry.in_session {
        return sys::connect(fd, name);
    }
    let asked: Vec<i32> = [libc::SO_PASSCRED, SO_PASSPIDFD]
        .into_iter()
        .filter(|option| sys::socket_option(fd, libc::SOL_SOCKET, *option).is_ok_and(|on| on != 0))
        .collect();
    for option in &asked {
        sys::set_socket_option(fd, libc::SOL_SOCKET, *option, 0)?;
    }
    let answer = sys::connect(fd, name);
    for option in asked {
        let _ = sys::set_socket_option(fd, libc::SOL_SOCKET, option, 1);
    }
    answer
}

fn restore(entry: &Entry, blocking: Option<i32>) {
    if let Some(flags) = blocking {
        let _ = sys::set_status_flags(entry.fd.as_fd(), flags);
    }
}

fn writable(entry: &Entry, milliseconds: u16) -> bool {
    let mut wait = [PollFd::new(entry.fd.as_fd(), PollFlags::POLLOUT)];
    poll(&mut wait, PollTimeout::from(milliseconds)).is_ok_and(|n| n > 0)
}
