//! Pseudoterminals where there is no view: the host's are the only ones, and the person's other terminals are among them.
//!
//! So the pair is made here: a master that the session asks for is opened on its behalf, and the name of its other end is kept as a
//! descriptor, which never comes to mean another terminal. Of all names in `/dev/pts` the session may open these.

use super::open::How;
use super::{Answer, Call, Grants, Outcome};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, resolve};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// How many pairs of a session are kept in mind.
const MOST: usize = 256;
const MASTERS: [&[u8]; 2] = [b"/dev/ptmx", b"/dev/pts/ptmx"];
const DIRECTORY: &[u8] = b"/dev/pts/";
/// What of the caller's flags counts.
const FLAGS: i32 = libc::O_ACCMODE | libc::O_NONBLOCK | libc::O_CLOEXEC;

/// The other ends of the session's masters.
#[derive(Debug, Default)]
pub(crate) struct Terminals(Mutex<Vec<OwnedFd>>);

impl Grants {
    /// Opens a terminal of the session's own. `None`: that is not what the path names.
    pub(crate) fn open_terminal(&self, call: &Call<'_>, path: &[u8], how: How) -> Option<Outcome> {
        self.shared.as_ref()?;
        if MASTERS.contains(&path) {
            return Some(self.open_master(call, how));
        }
        let number = path.strip_prefix(DIRECTORY)?;
        if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Some(self.open_other_end(call, path, how))
    }

    fn open_master(&self, call: &Call<'_>, how: How) -> Outcome {
        let kept = || self.terminals.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A pair whose master is closed has no name any more.
        kept().retain(|end| sys::fstat(end.as_fd()).is_ok_and(|end| end.nlink > 0));
        if kept().len() >= MOST {
            return Err(Errno::ENOSPC);
        }
        // Never the launcher's own controlling terminal.
        let master = sys::openat(sys::CWD, c"/dev/ptmx", how.flags & FLAGS | libc::O_NOCTTY, 0)?;
        let info =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{}", master.as_raw_fd())).map_err(|_| Errno::EACCES)?;
        let number = index(&info).ok_or(Errno::EACCES)?;
        let name = super::cstring(format!("/dev/pts/{number}").as_bytes())?;
        let end = sys::openat(sys::CWD, &name, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        call.alive()?;
        kept().push(end);
        Ok(self.offer(master, how.cloexec(), false))
    }

    /// The end of one of the session's own pairs that has a name, by its number.
    pub(crate) fn own_end(&self, number: u32) -> Result<OwnedFd, Errno> {
        const FLAGS: i32 = libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK;
        let name = format!("dev/pts/{number}");
        if self.shared.is_none() {
            let beneath = resolve::BENEATH | resolve::NO_SYMLINKS;
            let name = super::cstring(name.as_bytes())?;
            return sys::openat2(self.session_root.as_fd(), &name, FLAGS, 0, beneath);
        }
        let name = super::cstring(format!("/{name}").as_bytes())?;
        let named = sys::openat(sys::CWD, &name, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        let identity = sys::fstat(named.as_fd())?;
        let kept = self.terminals.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept
            .iter()
            .find(|end| sys::fstat(end.as_fd()).is_ok_and(|end| end.nlink > 0 && end.same(&identity)));
        sys::openat(sys::CWD, &sys::fd_path(own.ok_or(Errno::ENOTTY)?.as_fd()), FLAGS, 0)
    }

    fn open_other_end(&self, call: &Call<'_>, path: &[u8], how: How) -> Outcome {
        let named = sys::openat(sys::CWD, &super::cstring(path)?, libc::O_PATH | libc::O_NOFOLLOW, 0);
        let Ok(identity) = named.and_then(|named| sys::fstat(named.as_fd())) else {
            return Ok(Answer::Proceed);
        };
        let kept = self.terminals.0.lock().unwrap_or_else(PoisonError::into_inner);
        // While it is kept, its inode is no other's.
        let own = kept
            .iter()
            .find(|end| sys::fstat(end.as_fd()).is_ok_and(|end| end.nlink > 0 && end.same(&identity)));
        let Some(own) = own else { return Ok(Answer::Proceed) };
        // The kept one itself is opened, whatever the path means by now; the caller makes it its controlling terminal by TIOCSCTTY.
        let fd = sys::openat(
            sys::CWD,
            &sys::fd_path(own.as_fd()),
            how.flags & FLAGS | libc::O_NOCTTY,
            0,
        )?;
        call.alive()?;
        Ok(self.offer(fd, how.cloexec(), false))
    }
}

/// The number of a pair, from what `/proc/PID/fdinfo` says of its master.
pub(super) fn index(info: &str) -> Option<u32> {
    info.lines()
        .find_map(|line| line.strip_prefix("tty-index:")?.trim().parse().ok())
}
