//! The keeper: ends every process of a session that has no pid namespace.
//!
//! It enters a Landlock domain below the launcher's that keeps signals inside, and the command is cloned from it: so the domain
//! holds the keeper, the command and everything that descends from it, however often it forked, whatever session or parent it has
//! now, and nothing else. `kill(-1)` from within reaches exactly these, in one step that no fork can outrun: the kernel goes
//! through all processes with the lock held that a fork needs to add one, and a fork that was under way sees the signal first.
//!
//! When its channel closes, because the session ended or because the launcher was killed, it does that and exits.
//!
//! There are two of them: the *second* is forked by the first, in a session of its own, and holds the same channel. It acts where the
//! first cannot any more, which is what is left when launcher and keeper are killed in one go (their process groups, say). Each of the
//! two ends the session when the other ends.

use super::super::agent;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::landlock::{self, Access, Rights};
use picktwo_confine::process::{self, Child};
use picktwo_confine::selfcheck::{self, SelfCheck};
use picktwo_confine::{Error, Result, Role, filters, limits, seccomp, sys};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

/// What a keeper says once it watches; the first adds the number of the second.
const KEEPING: &[u8] = b"keeping";
/// For how long the second leaves the end to the first, whose exit code says that nobody is left. Milliseconds.
const FIRSTS_TURN: u16 = 500;

/// The keeper of a session, as its launcher holds it.
#[derive(Debug)]
pub struct Keeper {
    /// The process: the launcher's own child.
    pub child: Child,
    /// The number of the second one, once they watch.
    pub second: i32,
    channel: Channel,
}

impl Keeper {
    pub(crate) fn new(child: Child, channel: Channel) -> Self {
        Self {
            child,
            second: 0,
            channel,
        }
    }

    /// Hands it the launcher's own descriptor and waits until it watches. To be called before the first foreign instruction.
    ///
    /// # Errors
    /// It refused or ended.
    pub fn ready(&mut self, launcher: BorrowedFd<'_>) -> std::result::Result<(), agent::Error> {
        self.channel.send(b"watch", &[launcher])?;
        let mut message = Vec::new();
        let answered = self.channel.recv(&mut message)?.is_some();
        let second = message
            .strip_prefix(KEEPING)
            .and_then(|number| Some(i32::from_ne_bytes(number.try_into().ok()?)));
        match second {
            Some(second) => {
                self.second = second;
                Ok(())
            }
            None if answered => Err(agent::Error::Failed {
                sentence: String::from_utf8_lossy(&message).into_owned(),
                errno: None,
            }),
            None => Err(agent::Error::Ended),
        }
    }

    /// Ends what is left of the session. `false`: the keeper was not there any more to do so.
    pub fn end(self) -> bool {
        drop(self.channel);
        self.child.wait().is_ok_and(|exit| exit == process::Exit::Code(0))
    }
}

/// Enters the domain that the session's processes will be in, and checks that no signal leaves it. `launcher` is a pidfd.
pub(crate) fn enter_domain(launcher: BorrowedFd<'_>) -> Result<()> {
    // Files are the business of the launcher's domain above and the command's below.
    let access = Access::none().path(Rights::Write, Path::new("/"))?.allow_unix_connect();
    landlock::restrict(access)?;
    signals_stay(launcher)
}

fn signals_stay(launcher: BorrowedFd<'_>) -> Result<()> {
    match sys::pidfd_signal(launcher, 0) {
        Err(Errno::EPERM) => Ok(()),
        other => Err(Error::NotLocked {
            check: "no signal must reach the launcher".into(),
            found: format!("{other:?}"),
        }),
    }
}

/// The role's whole life. Exit code 0: it has ended the session.
pub fn main_role() -> ExitCode {
    let Ok(channel) = Channel::from_parent() else {
        return ExitCode::FAILURE;
    };
    let second = match lock(&channel) {
        Ok(second) => second,
        Err(error) => {
            let _ = channel.send(error.to_string().as_bytes(), &[]);
            return ExitCode::FAILURE;
        }
    };
    // Nobody says anything more: what ends this is that one of them is gone.
    closed(&[&channel, &second], PollTimeout::NONE);
    end_all()
}

/// Waits until the other end of one of these is closed.
fn closed(channels: &[&Channel], time: PollTimeout) {
    let mut watched: Vec<_> = channels
        .iter()
        .map(|channel| PollFd::new(channel.as_fd(), PollFlags::POLLIN))
        .collect();
    while poll(&mut watched, time) == Err(Errno::EINTR) {}
}

fn end_all() -> ExitCode {
    match kill(Pid::from_raw(-1), Signal::SIGKILL) {
        // Nobody is there, or nobody else may be reached.
        Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Locks this process and the second one, which is forked here, and says so. Answers the channel to the second.
fn lock(channel: &Channel) -> Result<Channel> {
    let launcher: OwnedFd = channel
        .recv(&mut Vec::new())?
        .and_then(|mut fds| fds.pop())
        .ok_or(Error::ParentGone {})?;
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
        sys::signal_ignore(signal as i32).map_err(|errno| Error::ProcessControl {
            option: "signal",
            errno,
        })?;
    }
    let (ours, theirs) = channel::pair()?;
    let second = process::fork(|| second(channel, &theirs, launcher.as_fd()))?;
    drop(theirs);
    confine(launcher.as_fd())?;
    let mut message = Vec::new();
    match ours.recv(&mut message)? {
        Some(_) if message == KEEPING => {}
        Some(_) => {
            return Err(Error::NotLocked {
                check: "the second keeper must be locked".into(),
                found: String::from_utf8_lossy(&message).into_owned(),
            });
        }
        None => return Err(Error::ParentGone {}),
    }
    channel.send(&[KEEPING, &second.pid().to_ne_bytes()].concat(), &[])?;
    Ok(ours)
}

/// The life of the second.
fn second(channel: &Channel, first: &Channel, launcher: BorrowedFd<'_>) -> u8 {
    // Whoever signals the first's group does not mean this one.
    let _ = nix::unistd::setsid();
    let kept = [0, 1, 2, channel.as_raw_fd(), first.as_raw_fd(), launcher.as_raw_fd()];
    if let Err(error) = limits::sweep(&kept).and_then(|()| confine(launcher)) {
        let _ = first.send(error.to_string().as_bytes(), &[]);
        return 1;
    }
    if first.send(KEEPING, &[]).is_err() {
        return 1;
    }
    closed(&[channel], PollTimeout::NONE);
    closed(&[first], PollTimeout::from(FIRSTS_TURN));
    u8::from(end_all() != ExitCode::SUCCESS)
}

fn confine(launcher: BorrowedFd<'_>) -> Result<()> {
    process::set_dumpable(false)?;
    limits::core_limit()?;
    limits::no_new_privs()?;
    let check = SelfCheck::prepare()?;
    let bounding_empty = limits::drop_all_capabilities()?;
    // Signals are left to the domain that this process came with: a further scope would keep it from the session's processes.
    landlock::restrict(Access::none().allow_signals())?;
    // Without that domain the last thing that it does would end every process of this user.
    signals_stay(launcher)?;
    let filter = filters::for_role(Role::Keeper);
    seccomp::install(&filter)?;
    check.locked(bounding_empty, &selfcheck::denied_by(&filter))
}
