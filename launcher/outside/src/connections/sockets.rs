//! The sockets of one retriever. They are made here, injected into it, and a duplicate of each is kept, found again by its
//! inode: a connection is made through the duplicate, which is the caller's very socket, so that nothing of the caller's is
//! ever replaced and no number that it changes meanwhile matters.
//!
//! The duplicates are kept until the retrieval's connections are revoked, and then shut down: from then on the retriever
//! cannot send on any connection that it has. The price is that a peer does not see a close before that.

use super::call::NewSocket;
use nix::sys::socket::{self, Shutdown, SockFlag, SockProtocol, SockType, SockaddrStorage};
use picktwo_confine::notify::Listener;
use picktwo_confine::process::{self, Child, Exit};
use picktwo_confine::{Errno, limits};
use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// Sockets that one retriever may ask for.
pub(crate) const MAX_SOCKETS: usize = 32;
/// How long a connection may take that the caller waits for.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(30);

/// The sockets that were made for one retriever, by inode. An inode number is not reused while its socket is open here.
#[derive(Debug, Default)]
pub(crate) struct Sockets(HashMap<u64, OwnedFd>);

fn errno(e: &std::io::Error) -> Errno {
    Errno::from_raw(e.raw_os_error().unwrap_or(nix::libc::EACCES))
}

/// The inode behind a descriptor, if it is a socket.
fn inode(file: &File) -> Result<u64, Errno> {
    let meta = file.metadata().map_err(|e| errno(&e))?;
    if meta.file_type().is_socket() {
        Ok(meta.ino())
    } else {
        Err(Errno::ENOTSOCK)
    }
}

impl Sockets {
    /// Makes a socket, answers the call `id` with it, and keeps a duplicate. On failure, what the caller is to get.
    pub(crate) fn make(&mut self, new: NewSocket, listener: &Listener, id: u64) -> Result<(), Errno> {
        if self.0.len() >= MAX_SOCKETS {
            return Err(Errno::EMFILE);
        }
        let flags = (new.flags & SockFlag::SOCK_NONBLOCK) | SockFlag::SOCK_CLOEXEC;
        let socket = socket::socket(new.family, SockType::Stream, flags, SockProtocol::Tcp)?;
        let socket = File::from(socket);
        let inode = inode(&socket)?;
        listener.inject_and_reply(id, socket.as_fd(), new.flags.contains(SockFlag::SOCK_CLOEXEC))?;
        self.0.insert(inode, socket.into());
        Ok(())
    }

    /// The socket behind descriptor `number` of thread `tid`, if it was made here.
    pub(crate) fn find(&self, tid: i32, number: i32) -> Result<u64, Errno> {
        if number < 0 {
            return Err(Errno::EBADF);
        }
        let path = format!("/proc/{tid}/fd/{number}");
        let open = File::options()
            .read(true)
            .custom_flags(nix::libc::O_PATH | nix::libc::O_CLOEXEC)
            .open(path);
        let file = open.map_err(|e| match errno(&e) {
            Errno::ENOENT => Errno::EBADF,
            _ => Errno::EACCES,
        })?;
        let inode = inode(&file)?;
        // Inherited, received or made by a call that nobody caught: not ours to connect.
        self.0.contains_key(&inode).then_some(inode).ok_or(Errno::EACCES)
    }

    /// Starts to connect a socket.
    pub(crate) fn connect(&self, inode: u64, to: SocketAddr) -> Result<Connecting, Errno> {
        let socket = self.0.get(&inode).ok_or(Errno::EACCES)?;
        Connecting::start(socket.as_fd(), to)
    }

    /// Ends every connection. Sockets that are not connected become useless through the refusal of `connect`.
    pub(crate) fn shut_down(&mut self) {
        for (_, socket) in self.0.drain() {
            // ENOTCONN: never connected, or closed by the peer.
            let _ = socket::shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

/// A connection that is being made, by a child that does only this: whether the socket blocks is up to its owner, who can
/// change it at any moment, and a call that waits must not hold up anybody else.
#[derive(Debug)]
pub(crate) struct Connecting {
    child: Child,
    since: Instant,
}

impl Connecting {
    fn start(socket: BorrowedFd<'_>, to: SocketAddr) -> Result<Self, Errno> {
        let to = SockaddrStorage::from(to);
        let number = socket.as_raw_fd();
        let child = process::fork(|| {
            if limits::sweep(&[number]).is_err() {
                return Errno::EACCES as i32 as u8;
            }
            // Error numbers of Linux are below 134.
            socket::connect(number, &to).map_or_else(|e| e as i32 as u8, |()| 0)
        });
        match child {
            Ok(child) => Ok(Self {
                child,
                since: Instant::now(),
            }),
            Err(_) => Err(Errno::EAGAIN),
        }
    }

    /// Readable once [`Connecting::outcome`] has an answer.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.child.pidfd()
    }

    /// When it is given up.
    pub(crate) fn deadline(&self) -> Instant {
        self.since + CONNECT_TIME
    }

    /// The answer of connect(2), if it is there; `ETIMEDOUT` if it took too long.
    pub(crate) fn outcome(&mut self) -> Option<Result<(), Errno>> {
        let exit = match self.child.try_wait() {
            Ok(None) if Instant::now() < self.deadline() => return None,
            Ok(None) => {
                let _ = self.child.kill_and_wait();
                return Some(Err(Errno::ETIMEDOUT));
            }
            Ok(Some(exit)) => exit,
            Err(_) => return Some(Err(Errno::EACCES)),
        };
        Some(match exit {
            Exit::Code(0) => Ok(()),
            Exit::Code(code) => Err(Errno::from_raw(code)),
            _ => Err(Errno::EINTR),
        })
    }

    /// Ends the attempt; nothing is connected afterwards that was not before.
    pub(crate) fn abandon(self) {
        let _ = self.child.kill_and_wait();
    }
}
