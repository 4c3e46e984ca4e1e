//! Job control where there is no view: the person's terminal has other jobs, and no pid namespace keeps their numbers apart.
//!
//! The kernel signals whole process groups on behalf of whoever is in one or has made one the terminal's foreground, and asks no
//! Landlock domain. So of all groups the session may name its own ones: those that a process of the session is in, which nobody else
//! joins.

use super::{Answer, Call, Grants, Outcome, Shared};
use nix::libc;
use nix::sys::stat::fstat;
use nix::unistd::{Pid, getpgid, getsid, tcgetpgrp, tcsetpgrp};
use picktwo_confine::{Errno, sys};
use std::os::fd::{AsFd, OwnedFd};

/// The device number of `/dev/tty`.
const CONTROLLING: libc::dev_t = libc::makedev(5, 0);

impl Grants {
    /// `setpgid`, into groups of the session. Its arguments are in registers: left to the kernel once they are found good.
    pub(crate) fn join_group(&self, call: &Call<'_>) -> Outcome {
        let Some(shared) = &self.shared else {
            return Ok(Answer::Proceed);
        };
        let (process, group) = (call.int(0), call.int(1));
        // A new group is nobody else's.
        if group <= 0 || group == process || self.is_own_group(call, shared, group) {
            Ok(Answer::Proceed)
        } else {
            Err(Errno::EPERM)
        }
    }

    /// `ioctl(TIOCSPGRP)`: which group the terminal's signals go to lies behind a pointer, so that it is set here.
    pub(crate) fn set_foreground(&self, call: &Call<'_>) -> Outcome {
        let Some(shared) = &self.shared else {
            return Ok(Answer::Proceed);
        };
        // A session (setsid(2)) that was made inside has no groups but its own, and nobody comes back from one.
        if getsid(Some(Pid::from_raw(call.pid())))? != getsid(None)? {
            return Ok(Answer::Proceed);
        }
        let group = i32::from_ne_bytes(call.bytes(2)?);
        let asked = fstat(call.object(call.int(0))?).map_err(|_| Errno::EBADF)?;
        call.alive()?;
        let terminal = self.terminal()?;
        if ![fstat(&terminal)?.st_rdev, CONTROLLING].contains(&asked.st_rdev) {
            return Err(Errno::ENOTTY);
        }
        if group < 0 {
            return Err(Errno::EINVAL);
        }
        if !self.is_own_group(call, shared, group) {
            return Err(Errno::EPERM);
        }
        let caller = getpgid(Some(Pid::from_raw(call.pid())))?;
        if tcgetpgrp(&terminal)? != caller && !goes_on_in_background(call)? {
            // What the kernel answers where it stops nobody; it would stop the caller's group else.
            return Err(Errno::EIO);
        }
        call.alive()?;
        // Allowed from the background: SIGTTOU is blocked here.
        tcsetpgrp(&terminal, Pid::from_raw(group))?;
        Ok(Answer::Value(0))
    }

    /// Whether a process of the session is in the group.
    fn is_own_group(&self, call: &Call<'_>, shared: &Shared, group: i32) -> bool {
        let is_in = |number: &i32| getpgid(Some(Pid::from_raw(*number))) == Ok(Pid::from_raw(group));
        let is_own = |number: &i32| is_in(number) && self.is_of_session(call, shared, *number);
        // Its leader, in general.
        is_own(&group) || crate::writers::processes().any(|number| is_own(&number))
    }

    /// The launcher's controlling terminal, which is that of whoever is in the same session.
    fn terminal(&self) -> Result<OwnedFd, Errno> {
        let given = self.standard.iter().flatten().find(|(_, fd)| tcgetpgrp(fd).is_ok());
        match given {
            Some((_, fd)) => sys::duplicate_above(fd.as_fd(), 3),
            None => sys::openat(sys::CWD, c"/dev/tty", libc::O_RDWR | libc::O_NOCTTY, 0).map_err(|_| Errno::ENOTTY),
        }
    }
}

/// Whether the kernel lets the caller act on its terminal from the background: the signal that would stop it is blocked or ignored.
fn goes_on_in_background(call: &Call<'_>) -> Result<bool, Errno> {
    const STOP: u64 = 1 << (libc::SIGTTOU - 1);
    let has = |title| Ok(u64::from_str_radix(&call.status(title)?, 16).map_err(|_| Errno::EACCES)? & STOP != 0);
    Ok(has("SigBlk:")? || has("SigIgn:")?)
}
