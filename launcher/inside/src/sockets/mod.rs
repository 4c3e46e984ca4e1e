//! Sockets of a session: made, connected and bound on its behalf.
//!
//! `socket` is a granted call so that `connect` and `bind` can be: the supervisor keeps a duplicate of what it made, by inode,
//! and acts on that. The caller's address is copied once; its descriptor number only selects one of the session's own
//! sockets. Nothing of the caller's is ever replaced, and a `connect` is never continued.
//!
//! A duplicate is dropped as soon as it could be noticed: when a stream is connected (the peer must see its end), and when
//! something may be reached through it that the session has closed (a listening socket, a bound port).

mod address;
mod connect;
mod table;

use crate::files::{Call, Grants, unreadable};
use crate::socket_request::{ADDRESS_MAX, SocketReply, SocketRequest};
use crate::writers::{self, Members};
use address::Address;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use picktwo_confine::channel::Channel;
use picktwo_confine::notify::{Listener, Request};
use picktwo_confine::sys;
use picktwo_confine::{Errno, memory};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use table::{Entry, Table};

/// What sockets need to know.
pub struct Config {
    /// The channel to the session's init ([`crate::socket_request`]).
    pub init: Channel,
    /// Whose processes to look at when duplicates are swept.
    pub session: Members,
    /// Directories of the view that are the session's own: every socket beneath them was made by the session.
    pub private: Vec<PathBuf>,
    /// Directories of the session's own that other sessions have as well (the private home): a socket there may be connected to only
    /// if this session made it. Else a descriptor could come from a session in another mode.
    pub kept: Vec<PathBuf>,
    /// Single sockets that may be connected to, made by the launcher (the tools' one).
    pub allowed: Vec<PathBuf>,
    /// Whether the network namespace is the host's. `init` is the channel to the broker then.
    pub shared: Option<SharedNetwork>,
}

/// A network that the session shares with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedNetwork {
    /// The gateway's port on loopback: the one address that there is.
    pub gateway: Option<u16>,
}

/// The sockets of one session.
pub struct Sockets {
    init: Mutex<Channel>,
    session: Members,
    private: Vec<Vec<u8>>,
    kept: Vec<Vec<u8>>,
    allowed: Vec<Vec<u8>>,
    shared: Option<SharedNetwork>,
    table: Mutex<Table>,
    /// Socket files that the session made beneath granted roots.
    /// By device, inode and time of birth: an inode number is used again for sockets of others.
    made: Mutex<HashSet<(u64, u64, i64, u32)>>,
}

type Outcome = Result<Option<i64>, Errno>;

impl Sockets {
    /// Prepares the sockets of a session.
    pub fn new(config: Config) -> Arc<Sockets> {
        let bytes = |paths: Vec<PathBuf>| paths.into_iter().map(|p| p.as_os_str().as_bytes().to_vec()).collect();
        Arc::new(Sockets {
            init: Mutex::new(config.init),
            session: config.session,
            private: bytes(config.private),
            kept: bytes(config.kept),
            allowed: bytes(config.allowed),
            shared: config.shared,
            table: Mutex::new(Table::new(table::capacity())),
            made: Mutex::default(),
        })
    }

    /// Serves `socket`, `connect`, `bind` and `listen`. Any thread may call this.
    pub fn handle(&self, grants: &Arc<Grants>, listener: &Arc<Listener>, request: &Request) {
        let call = Call {
            grants,
            listener,
            request,
        };
        let outcome = match request.nr {
            libc::SYS_socket => self.socket(&call),
            libc::SYS_connect => self.connect(&call),
            libc::SYS_bind => self.bind(&call),
            libc::SYS_listen => self.listen(&call),
            _ => Err(Errno::ENOSYS),
        };
        crate::files::give_back_state();
        // A listener that is gone has no caller left either.
        let _ = match outcome {
            Ok(Some(value)) => listener.reply_value(request.id, value),
            Ok(None) => Ok(()),
            Err(errno) => listener.reply_errno(request.id, errno),
        };
    }

    /// Has the init end every process of the session. `false`: it did not answer within `limit`, which may be because it is asked
    /// something else; then whoever started it has to kill it.
    ///
    /// The init ends by itself afterwards. What takes time about that, taking the session's mounts apart, nobody has to wait for.
    pub fn end_session(&self, limit: Duration) -> bool {
        let start = Instant::now();
        let channel = loop {
            match self.init.try_lock() {
                Ok(channel) => break channel,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if start.elapsed() < limit => {
                    std::thread::sleep(Duration::from_millis(1))
                }
                Err(TryLockError::WouldBlock) => return false,
            }
        };
        let Ok(text) = serde_json::to_vec(&SocketRequest::End) else {
            return false;
        };
        let timeout = PollTimeout::try_from(limit.saturating_sub(start.elapsed())).unwrap_or(PollTimeout::ZERO);
        let mut message = Vec::new();
        channel.send(&text, &[]).is_ok()
            && poll(&mut [PollFd::new(channel.as_fd(), PollFlags::POLLIN)], timeout) == Ok(1)
            && matches!(channel.recv(&mut message), Ok(Some(_)))
            && serde_json::from_slice::<SocketReply>(&message).is_ok_and(|reply| reply.errno == 0)
    }

    fn ask(&self, request: &SocketRequest, fd: Option<BorrowedFd<'_>>) -> Result<Option<OwnedFd>, Errno> {
        let text = serde_json::to_vec(request).map_err(|_| Errno::EACCES)?;
        let fds: Vec<_> = fd.into_iter().collect();
        let channel = self.init.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(&text, &fds).map_err(|_| Errno::EACCES)?;
        let mut message = Vec::new();
        let received = channel
            .recv(&mut message)
            .map_err(|_| Errno::EACCES)?
            .ok_or(Errno::EACCES)?;
        drop(channel);
        let reply: SocketReply = serde_json::from_slice(&message).map_err(|_| Errno::EACCES)?;
        match reply.errno {
            0 => Ok(received.into_iter().next()),
            errno => Err(Errno::from_raw(errno)),
        }
    }

    fn socket(&self, call: &Call<'_>) -> Outcome {
        let (domain, kind, protocol) = (call.int(0), call.int(1), call.int(2));
        let base = kind & 0xf;
        let flags = kind & !0xf;
        match (domain, base) {
            (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_DGRAM)
            | (libc::AF_UNIX, libc::SOCK_STREAM) => {}
            (libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX, _) => return Err(Errno::EPERM),
            _ => return Err(Errno::EAFNOSUPPORT),
        }
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let fits = match (domain, base) {
            (libc::AF_UNIX, _) => matches!(protocol, 0 | 1),
            (_, libc::SOCK_STREAM) => matches!(protocol, 0 | libc::IPPROTO_TCP),
            _ => matches!(protocol, 0 | libc::IPPROTO_UDP),
        };
        if !fits {
            return Err(Errno::EPROTONOSUPPORT);
        }
        if self.shared.is_some() && base == libc::SOCK_DGRAM {
            return Err(Errno::EACCES);
        }
        self.make_room()?;
        let wanted = base | flags & libc::SOCK_NONBLOCK;
        let protocol = if domain == libc::AF_UNIX { 0 } else { protocol };
        let (fd, in_session) = match self.make(
            &SocketRequest::Socket {
                domain,
                kind: wanted,
                protocol,
            },
            None,
        ) {
            Ok(Some(fd)) => (fd, true),
            Ok(None) => return Err(Errno::EACCES),
            // A UNIX socket of the launcher's own namespace will do, but then it is never bound by the kernel on its own.
            Err(Errno::EACCES) if domain == libc::AF_UNIX => (sys::socket(domain, wanted, protocol)?, false),
            Err(errno) => return Err(errno),
        };
        let ino = sys::fstat(fd.as_fd())?.ino;
        let copy = fd.try_clone().map_err(|_| Errno::EMFILE)?;
        let entry = Entry {
            fd: Arc::new(copy),
            unix: domain == libc::AF_UNIX,
            stream: base == libc::SOCK_STREAM,
            bound: false,
            in_session,
        };
        self.table().insert(ino, entry);
        match call
            .listener
            .inject_and_reply(call.request.id, fd.as_fd(), flags & libc::SOCK_CLOEXEC != 0)
        {
            Ok(_) => Ok(None),
            Err(errno) => {
                self.table().remove(ino);
                Err(errno)
            }
        }
    }

    /// Has a socket made. Those that are no internet ones are the launcher's to make where there is no network namespace.
    fn make(&self, request: &SocketRequest, fd: Option<BorrowedFd<'_>>) -> Result<Option<OwnedFd>, Errno> {
        match request {
            SocketRequest::Socket { domain, .. } if self.shared.is_some() && *domain == libc::AF_UNIX => {
                Err(Errno::EACCES)
            }
            _ => self.ask(request, fd),
        }
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops duplicates of sockets that the session has closed, when there are many.
    fn make_room(&self) -> Result<(), Errno> {
        if self.table().half_full() {
            self.sweep();
        }
        if self.table().full() {
            Err(Errno::ENFILE)
        } else {
            Ok(())
        }
    }

    fn sweep(&self) {
        let before = self.table().inodes();
        let open = writers::open_sockets(&self.session.list());
        self.table().keep(&before, &open);
    }

    /// The caller's socket: its inode, and our duplicate if it is still kept.
    fn find(&self, call: &Call<'_>) -> Result<(u64, Option<Entry>), Errno> {
        let object = call.object(call.int(0))?;
        if call.is_path_descriptor(call.int(0))? {
            return Err(Errno::EBADF);
        }
        let identity = sys::fstat(object.as_fd())?;
        if identity.kind() != libc::S_IFSOCK {
            return Err(Errno::ENOTSOCK);
        }
        Ok((identity.ino, self.table().get(identity.ino)))
    }

    fn address(&self, call: &Call<'_>) -> Result<Vec<u8>, Errno> {
        let length = usize::try_from(call.int(2)).map_err(|_| Errno::EINVAL)?;
        if length > ADDRESS_MAX {
            return Err(Errno::EINVAL);
        }
        let mut bytes = vec![0; length];
        memory::read_exact(call.pid(), call.word(1), &mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }

    fn connect(&self, call: &Call<'_>) -> Outcome {
        let (ino, entry) = self.find(call)?;
        let bytes = self.address(call)?;
        let address = Address::parse(&bytes)?;
        let Some(entry) = entry else {
            call.alive()?;
            return Err(table::state_of_unknown(call, ino));
        };
        // What listens cannot be connected any more, and a listener that the session has closed must not answer.
        self.table().drop_listening();
        match (address, entry.unix) {
            (Address::Unix(path), true) => self.connect_unix(call, ino, &entry, path),
            (Address::Abstract, true) => Err(Errno::EACCES),
            (Address::Unnamed, true) => Err(Errno::EINVAL),
            (Address::Internet | Address::Unspecified, false) => {
                call.alive()?;
                self.connect_internet(call, ino, &entry, bytes)
            }
            (Address::Unspecified, true) => Err(Errno::EINVAL),
            // The family of an address that does not fit its socket.
            (_, true) => Err(Errno::EINVAL),
            (_, false) => Err(Errno::EAFNOSUPPORT),
        }
    }

    fn bind(&self, call: &Call<'_>) -> Outcome {
        let (_, entry) = self.find(call)?;
        let bytes = self.address(call)?;
        let address = Address::parse(&bytes)?;
        call.alive()?;
        let ino = self.find(call)?.0;
        let Some(entry) = entry else { return Err(Errno::EINVAL) };
        let answer = match (address, entry.unix) {
            (Address::Unix(path), true) => self.bind_unix(call, &entry, path, &bytes),
            // Abstract names, and the kernel's own choice of one.
            (Address::Abstract | Address::Unnamed, true) => Err(Errno::EACCES),
            // The host's loopback is everybody's.
            (Address::Internet | Address::Unspecified, false) if self.shared.is_some() => Err(Errno::EACCES),
            (Address::Internet | Address::Unspecified, false) => match self.bind_internet(&entry, &bytes) {
                // Perhaps a duplicate of a socket that the session has closed holds the port.
                Err(Errno::EADDRINUSE) => {
                    self.sweep();
                    self.bind_internet(&entry, &bytes)
                }
                other => other,
            },
            (_, true) => Err(Errno::EINVAL),
            (_, false) => Err(Errno::EAFNOSUPPORT),
        };
        if answer.is_ok() {
            self.table().mark_bound(ino);
        }
        answer
    }

    /// Where it is a granted call: on our own duplicate of a UNIX socket, never continued, since the number may mean another socket
    /// by then, and an internet one would be bound to every address of the host.
    fn listen(&self, call: &Call<'_>) -> Outcome {
        let (ino, entry) = self.find(call)?;
        call.alive()?;
        match entry {
            // What the kernel answers, too. A name that the kernel has chosen by itself would be one of the host's namespace.
            Some(entry) if entry.unix && !entry.bound => Err(Errno::EINVAL),
            Some(entry) if entry.unix => {
                sys::listen(entry.fd.as_fd(), call.int(1))?;
                // A listener that the session closes must be closed.
                self.table().remove(ino);
                Ok(Some(0))
            }
            Some(_) => Err(Errno::EACCES),
            None if table::state_of_unknown(call, ino) == Errno::EISCONN => Err(Errno::EINVAL),
            // One that listens already may be told another backlog, which nobody misses.
            None if table::listens(call, ino) => Ok(Some(0)),
            None => Err(Errno::EACCES),
        }
    }

    fn bind_internet(&self, entry: &Entry, bytes: &[u8]) -> Outcome {
        self.ask(
            &SocketRequest::Bind {
                address: bytes.to_vec(),
            },
            Some(entry.fd.as_fd()),
        )
        .map(|_| Some(0))
    }

    fn bind_unix(&self, call: &Call<'_>, entry: &Entry, path: &[u8], bytes: &[u8]) -> Outcome {
        let target = call.target_at_cwd(path)?;
        match call.grants.bind_socket(call, &target, entry.fd.as_fd(), bytes)? {
            crate::files::Bound::Made(object) => {
                self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(object);
                Ok(Some(0))
            }
            crate::files::Bound::Elsewhere => {
                let within = |dirs: &[Vec<u8>], shown: &[u8]| dirs.iter().any(|dir| beneath(shown, dir));
                let bind = |dirs: &[Vec<u8>]| {
                    call.grants
                        .bind_in_view(call, &target, entry.fd.as_fd(), |shown| within(dirs, shown))
                };
                if let Some(object) = bind(&self.kept)? {
                    self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(object);
                    return Ok(Some(0));
                }
                // The view's own rules: private or read-only mounts. The socket is of the session's network namespace, so that even
                // an address that changes meanwhile names nothing of the host's.
                if entry.in_session {
                    let _ = call.listener.proceed(call.request.id);
                    return Ok(None);
                }
                match bind(&self.private)? {
                    Some(_) => Ok(Some(0)),
                    None if self.shared.is_some() => Err(Errno::EACCES),
                    None => Err(Errno::EROFS),
                }
            }
        }
    }
}

fn beneath(path: &[u8], dir: &[u8]) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.first() == Some(&b'/') || dir == b"/")
}
