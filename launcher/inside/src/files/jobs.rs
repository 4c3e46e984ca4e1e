//! Job control where there is no view: the person's terminal has other jobs, and no pid namespace keeps their numbers apart.
//!
//! The kernel signals whole process groups on behalf of whoever is in one or has made one the terminal's foreground, and asks no
//! Landlock domain. So of all groups the session may name its own ones: those that a process of the session is in, which nobody else
//! joins.

use super::{Answer, Call, Grants, Outcome, Shared};
use nix::libc;
use nix::unistd::{Pid, getpgid, getsid, tcsetpgrp};
use picktwo_confine::Errno;
use std::fs::File;

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
        let asked = call.object(call.int(0))?;
        call.alive()?;
        let terminal = self.persons.controlling()?;
        if !self.persons.is_controlling(&asked)? {
            return Err(Errno::ENOTTY);
        }
        if group < 0 {
            return Err(Errno::EINVAL);
        }
        if !self.is_own_group(call, shared, group) {
            return Err(Errno::EPERM);
        }
        let job = Job::of(call)?;
        if job.is_behind() && !job.goes_on(call)? {
            return job.stop();
        }
        call.alive()?;
        // Allowed from the background: SIGTTOU is blocked here.
        tcsetpgrp(terminal, Pid::from_raw(group))?;
        Ok(Answer::Value(0))
    }

    /// Whether a process of the session is in the group.
    fn is_own_group(&self, call: &Call<'_>, shared: &Shared, group: i32) -> bool {
        let is_in = |number: &i32| getpgid(Some(Pid::from_raw(*number))) == Ok(Pid::from_raw(group));
        let is_own = |number: &i32| is_in(number) && self.is_of_session(call, shared, *number);
        // Its leader, in general.
        is_own(&group) || crate::writers::processes().any(|number| is_own(&number))
    }
}

/// What the kernel knows of a caller's job.
pub(super) struct Job {
    pub(super) group: i32,
    session: i32,
    /// The controlling terminal, as the kernel encodes it.
    terminal: u32,
    /// The terminal's foreground.
    foreground: i32,
}

impl Job {
    pub(super) fn of(call: &Call<'_>) -> Result<Self, Errno> {
        let stat = File::from(call.open_proc("stat", libc::O_RDONLY)?);
        let text = std::io::read_to_string(stat).map_err(|_| Errno::EACCES)?;
        // After the name, which may hold anything: state, parent, group, session, terminal, its foreground.
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut numbers = fields.split_whitespace().skip(2).map(str::parse);
        let mut next = || numbers.next().and_then(Result::ok).ok_or(Errno::EACCES);
        Ok(Self {
            group: next()?,
            session: next()?,
            terminal: next()?.cast_unsigned(),
            foreground: next()?,
        })
    }

    /// The controlling terminal's device number.
    pub(super) fn terminal(&self) -> libc::dev_t {
        let minor = self.terminal & 0xff | self.terminal >> 12 & 0xfff00;
        libc::makedev(self.terminal >> 8 & 0xfff, minor)
    }

    /// Whether the caller is in the background of its terminal.
    pub(super) fn is_behind(&self) -> bool {
        self.foreground != self.group
    }

    /// Whether the kernel lets the caller act on its terminal from there: the signal that would stop it is blocked or ignored.
    pub(super) fn goes_on(&self, call: &Call<'_>) -> Result<bool, Errno> {
        const STOP: u64 = 1 << (libc::SIGTTOU - 1);
        let has = |title| Ok(u64::from_str_radix(&call.status(title)?, 16).map_err(|_| Errno::EACCES)? & STOP != 0);
        Ok(has("SigBlk:")? || has("SigIgn:")?)
    }

    /// Whether no process of the group has a parent in another group of the same session.
    pub(super) fn is_orphaned(&self) -> bool {
        let is_in = |number: i32| getpgid(Some(Pid::from_raw(number))) == Ok(Pid::from_raw(self.group));
        let looks_after = |parent: i32| {
            parent > 1 && !is_in(parent) && getsid(Some(Pid::from_raw(parent))) == Ok(Pid::from_raw(self.session))
        };
        let parent = |number: i32| -> Option<i32> {
            let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
            text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        };
        let mut members = crate::writers::processes().filter(|number| is_in(*number));
        !members.any(|number| parent(number).is_some_and(looks_after))
    }
}
