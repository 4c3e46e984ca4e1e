//! The person's standard streams, as they were before the session: their open file descriptions are shared with whoever started
//! picktwo, and what a command leaves changed there would meet them next.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::termios::{FlowArg, SetArg, Termios, tcflow, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::os::fd::{AsFd, BorrowedFd};

/// Flags of an open file description that its holder may change.
const FLAGS: OFlag = OFlag::O_APPEND
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_ASYNC)
    .union(OFlag::O_DIRECT)
    .union(OFlag::O_NOATIME);

/// Flags of the three standard streams, and the settings of the terminal among them.
pub(super) struct Streams {
    flags: [Option<OFlag>; 3],
    terminal: Option<Termios>,
}

impl Streams {
    /// Before the command runs.
    pub(super) fn remember() -> Self {
        let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let fds = [input.as_fd(), output.as_fd(), errors.as_fd()];
        Self {
            flags: fds.map(flags),
            terminal: fds.iter().find_map(|fd| tcgetattr(fd).ok()),
        }
    }

    /// After the command has ended. Not while another job has the terminal: its settings are that job's.
    pub(super) fn restore(&self) {
        let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let fds = [input.as_fd(), output.as_fd(), errors.as_fd()];
        for (fd, before) in fds.iter().zip(self.flags) {
            if let (Some(before), Some(now)) = (before, flags(*fd))
                && before != now
            {
                let _ = fcntl(*fd, FcntlArg::F_SETFL(before));
            }
        }
        let Some(before) = &self.terminal else { return };
        for fd in fds.iter().filter(|fd| tcgetattr(fd).is_ok()) {
            // Whoever writes next would wait for ever.
            let _ = tcflow(fd, FlowArg::TCOON);
        }
        let Some(fd) = fds.iter().find(|fd| tcgetpgrp(fd) == Ok(getpgrp())) else {
            return;
        };
        if tcgetattr(fd).is_ok_and(|now| now != *before) {
            // What was typed at, or answered to, a program that left the terminal as it wanted it is for no other.
            let _ = tcsetattr(fd, SetArg::TCSAFLUSH, before);
        }
    }
}

fn flags(fd: BorrowedFd<'_>) -> Option<OFlag> {
    fcntl(fd, FcntlArg::F_GETFL)
        .ok()
        .map(|bits| OFlag::from_bits_retain(bits) & FLAGS)
}
