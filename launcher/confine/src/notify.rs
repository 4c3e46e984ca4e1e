//! The supervisor's end of seccomp user notification: requests, answers, and descriptors put into the caller.
//!
//! A pointer in a request's arguments must be read with [`crate::memory`], once, and [`Listener::valid`] must hold after the
//! reading: only then the thread that was read is the thread that asked.

use crate::error::{Error, Result};
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (Linux 6.6): the supervisor and the caller hand one CPU to each other.
const SYNC_WAKE_UP: u64 = 1;

/// The descriptor at which a filter's notifications arrive.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One system call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The notification's own number, to answer with.
    pub id: u64,
    /// The calling *thread*, in the pid namespace of the one who received the notification; 0 if not visible there.
    pub pid: i32,
    /// The number of the system call (x86-64).
    pub nr: i64,
    /// Its arguments as they stood in the registers. Compare 32-bit arguments as 32 bits: see [`Request::int`].
    pub args: [u64; 6],
}

impl Request {
    /// Argument `index` as the kernel reads an `int`: its low 32 bits.
    pub fn int(&self, index: usize) -> i32 {
        self.args[index] as u32 as i32
    }
}

impl Listener {
    /// Asks for synchronous wake-ups, which make a round trip several times cheaper. Needs Linux 6.6.
    pub fn sync_wake_up(&self) -> Result<()> {
        // SAFETY: this ioctl takes its flags by value.
        let rc = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as _,
                SYNC_WAKE_UP,
            )
        };
        Errno::result(rc).map(drop).map_err(|errno| Error::Notification {
            step: "set flags",
            errno,
        })
    }

    /// Waits for the next request. `None`: the caller went away before it was read (ask again), or, if
    /// [`Listener::ended`] holds, no process is left that could call.
    pub fn recv(&self) -> Result<Option<Request>> {
        // SAFETY: seccomp_notif is plain data, for which all zeroes is a valid value; the kernel demands zeroes.
        let mut request: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills in a structure of the size that the ioctl's number encodes.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &mut request) };
        match Errno::result(rc) {
            Ok(_) => Ok(Some(Request {
                id: request.id,
                pid: request.pid as i32,
                nr: i64::from(request.data.nr),
                args: request.data.args,
            })),
            Err(Errno::ENOENT | Errno::EINTR) => Ok(None),
            Err(errno) => Err(Error::Notification { step: "receive", errno }),
        }
    }

    /// Waits until a request is there, the filter has no process left, or the time is over. Times are in milliseconds, -1 for
    /// ever. `Ok(true)`: a request is there.
    pub fn wait(&self, timeout: i32) -> Result<bool> {
        Ok(self.poll(timeout)? & libc::POLLIN != 0)
    }

    /// Whether no process is left under this filter.
    pub fn ended(&self) -> bool {
        matches!(self.poll(0), Ok(events) if events & (libc::POLLHUP | libc::POLLIN) == libc::POLLHUP)
    }

    fn poll(&self, timeout: i32) -> Result<i16> {
        let mut entry = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry is passed and one is announced.
        let rc = unsafe { libc::poll(&mut entry, 1, timeout) };
        match Errno::result(rc) {
            Ok(_) => Ok(entry.revents),
            Err(Errno::EINTR) => Ok(0),
            Err(errno) => Err(Error::Notification { step: "wait", errno }),
        }
    }

    /// Whether the caller still waits for the answer to `id`. Must hold after everything that was read about the caller.
    pub fn valid(&self, id: u64) -> bool {
        // SAFETY: the kernel reads one u64.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _, &id) == 0 }
    }

    /// Answers with an error number. A caller that went away meanwhile is no error.
    pub fn reply_errno(&self, id: u64, errno: Errno) -> Result<()> {
        self.reply(id, 0, -(errno as i32), 0)
    }

    /// Answers that the call is to be made again, once the caller has gone through the signal that waits for it (`ERESTARTSYS`, which the
    /// kernel keeps to itself). There must be one.
    pub fn reply_again(&self, id: u64) -> Result<()> {
        self.reply(id, 0, -512, 0)
    }

    /// Answers with a result.
    pub fn reply_value(&self, id: u64, value: i64) -> Result<()> {
        self.reply(id, value, 0, 0)
    }

    /// Lets the kernel perform the call, with whatever its memory arguments are *by then*: only for calls that a lower layer
    /// (Landlock, a read-only mount) decides on as well.
    pub fn proceed(&self, id: u64) -> Result<()> {
        self.reply(id, 0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32)
    }

    fn reply(&self, id: u64, val: i64, error: i32, flags: u32) -> Result<()> {
        let mut answer = libc::seccomp_notif_resp { id, val, error, flags };
        // SAFETY: the kernel reads a structure of the size that the ioctl's number encodes.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &mut answer) };
        match Errno::result(rc) {
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(Error::Notification { step: "answer", errno }),
        }
    }

    /// Puts a copy of `fd` into the caller, at its lowest free number, and returns that number; the caller still waits.
    /// The supervisor can close its own copy before it answers, so that the caller holds the only one. The errno is meant
    /// for the caller (`EMFILE`), `ENOENT` if it went away.
    pub fn inject(&self, id: u64, fd: BorrowedFd<'_>, cloexec: bool) -> std::result::Result<i32, Errno> {
        self.add_fd(id, fd, cloexec, 0)
    }

    /// Puts a copy of `fd` into the caller and answers the call with its number, in one step.
    pub fn inject_and_reply(&self, id: u64, fd: BorrowedFd<'_>, cloexec: bool) -> std::result::Result<i32, Errno> {
        self.add_fd(id, fd, cloexec, libc::SECCOMP_ADDFD_FLAG_SEND as u32)
    }

    fn add_fd(&self, id: u64, fd: BorrowedFd<'_>, cloexec: bool, flags: u32) -> std::result::Result<i32, Errno> {
        let entry = libc::seccomp_notif_addfd {
            id,
            flags,
            srcfd: fd.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if cloexec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        loop {
            // SAFETY: the kernel reads a structure of the size that the ioctl's number encodes.
            let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD as _, &entry) };
            match Errno::result(rc) {
                Err(Errno::EINTR) => continue,
                other => return other,
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Listener {
        Listener(fd)
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> OwnedFd {
        listener.0
    }
}

#[cfg(test)]
mod tests;
