//! A terminal of the person's, from which everything is judged: what is typed into it by whoever is judged is seen.

use super::progress::ending;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use picktwo_confine::attempt::{self, Arg};
use picktwo_confine::process;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

const UNLOCK: i64 = 0x4004_5431; // TIOCSPTLCK
const NUMBER: i64 = 0x8004_5430; // TIOCGPTN
const GET: i64 = 0x5401; // TCGETS
const SET: i64 = 0x5402; // TCSETS
const CONTROLLING: i64 = 0x540e; // TIOCSCTTY
/// ISIG, ICANON and ECHO, all in the lowest byte: every byte counts, and none means anything.
const COOKED: u8 = 0x01 | 0x02 | 0x08;
/// Where the local flags lie in the kernel's structure.
const LOCAL_FLAGS: usize = 12;

/// Both ends.
pub(super) struct Terminal {
    /// Open as long as the terminal is to exist.
    _master: File,
    slave: File,
}

fn ioctl(file: &File, request: i64, argument: Arg<'_>) -> std::io::Result<()> {
    let args = [
        Arg::Int(file.as_raw_fd().into()),
        Arg::Int(request),
        argument,
        Arg::Null,
        Arg::Null,
        Arg::Null,
    ];
    attempt::syscall(nix::libc::SYS_ioctl, args)
        .map(drop)
        .map_err(std::io::Error::from)
}

fn open(path: &str) -> std::io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .custom_flags(nix::libc::O_NOCTTY | nix::libc::O_NONBLOCK)
        .open(path)
}

impl Terminal {
    fn new() -> std::io::Result<Self> {
        let master = open("/dev/ptmx")?;
        ioctl(&master, UNLOCK, Arg::In(&0i32.to_ne_bytes()))?;
        let mut number = [0u8; 4];
        ioctl(&master, NUMBER, Arg::Out(&mut number))?;
        let slave = open(&format!("/dev/pts/{}", i32::from_ne_bytes(number)))?;
        let mut settings = [0u8; 64];
        ioctl(&slave, GET, Arg::Out(&mut settings))?;
        settings[LOCAL_FLAGS] &= !COOKED;
        ioctl(&slave, SET, Arg::In(&settings))?;
        Ok(Self { _master: master, slave })
    }

    /// Another descriptor of the terminal, for [`typed`].
    pub(super) fn watch(&self) -> std::io::Result<OwnedFd> {
        self.slave.try_clone().map(OwnedFd::from)
    }
}

/// Whether something was typed since it was asked last.
pub(super) fn typed(watched: &File) -> bool {
    let mut block = [0u8; 64];
    let mut any = false;
    while matches!((&*watched).read(&mut block), Ok(1..)) {
        any = true;
    }
    any
}

/// Does the work in a child whose terminal is a new one, as a person's shell and all that it starts share one, and gives its exit
/// code. Without a pseudoterminal, the work gets none. What ends a command for a person (Ctrl-C) is passed on, so that the work
/// ends in order and takes away what it made. Must be called while this process has one thread.
///
/// # Errors
/// The child could not be started, or waited for.
pub(super) fn on_own(work: impl FnOnce(Option<&Terminal>) -> u8) -> Result<u8, picktwo_confine::Error> {
    let terminal = Terminal::new().ok();
    // Blocked in both. What is started by either gets an empty mask.
    let signals = ending().thread_block().and_then(|()| SignalFd::new(&ending()));
    let child = process::fork_bound("the judge", move || {
        // A child is no group's leader, and the terminal is nobody's.
        let taken = terminal.as_ref().filter(|terminal| {
            nix::unistd::setsid().is_ok() && ioctl(&terminal.slave, CONTROLLING, Arg::Int(0)).is_ok()
        });
        let code = work(taken);
        // Closing it here would hang up this process, too.
        std::mem::forget(terminal);
        code
    })?;
    while let Ok(signals) = &signals
        && !child.ended_within(0)?
    {
        let mut ready = [
            PollFd::new(child.pidfd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        let told = poll(&mut ready, PollTimeout::NONE).is_ok()
            && ready[1].any() == Some(true)
            && matches!(signals.read_signal(), Ok(Some(_)));
        if told {
            child.signal(Signal::SIGTERM)?;
        }
    }
    Ok(u8::try_from(child.wait()?.code()).unwrap_or(super::super::EXIT_FAILED))
}
