//! What is under way, on a terminal, and whether the person has had enough of it.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io::{IsTerminal, Write};

/// Signals by which a person ends a command.
pub(super) fn ending() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

/// One line of stderr that is written over; nothing elsewhere.
pub(super) struct Progress {
    shown: bool,
    /// Tells of [`ending`] signals, which are blocked.
    ended: Option<SignalFd>,
}

impl Progress {
    /// For stderr.
    pub(super) fn new() -> Self {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Self {
            shown: std::io::stderr().is_terminal(),
            ended: SignalFd::with_flags(&ending(), flags).ok(),
        }
    }

    /// Shows how far a series is.
    ///
    /// # Errors
    /// The person has ended it: whoever is asked gives up what it holds.
    pub(super) fn step(&self, series: &str, done: usize, of: usize) -> std::io::Result<()> {
        if self
            .ended
            .as_ref()
            .is_some_and(|signals| matches!(signals.read_signal(), Ok(Some(_))))
        {
            return Err(std::io::Error::other("it was ended before its time"));
        }
        if self.shown {
            // A closed terminal is no reason to fail.
            let _ = write!(std::io::stderr(), "\r\x1b[K{series}: {done} of {of}");
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
