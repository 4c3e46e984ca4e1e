//! What is under way, on a terminal.

use std::io::{IsTerminal, Write};

/// One line of stderr that is written over; nothing elsewhere.
pub(super) struct Progress {
    shown: bool,
}

impl Progress {
    /// For stderr.
    pub(super) fn new() -> Self {
        Self {
            shown: std::io::stderr().is_terminal(),
        }
    }

    /// Shows how far a series is.
    pub(super) fn step(&self, series: &str, done: usize, of: usize) {
        if self.shown {
            // A closed terminal is no reason to fail.
            let _ = write!(std::io::stderr(), "\r\x1b[K{series}: {done} of {of}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
