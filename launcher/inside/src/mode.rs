//! The session's mode: one value, read by every granted call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the session may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing in the workspace.
    ReadOnly,
    /// The workspace, apart from protected paths.
    Edit,
}

impl Mode {
    /// The name that people see.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::ReadOnly => "read-only",
            Mode::Edit => "edit",
        }
    }
}

/// The mode, shared between whoever toggles it and the threads that serve granted calls.
#[derive(Clone, Debug)]
pub struct SharedMode(Arc<AtomicU8>);

impl SharedMode {
    /// A new value.
    pub fn new(mode: Mode) -> SharedMode {
        SharedMode(Arc::new(AtomicU8::new(number(mode))))
    }

    /// The mode at this moment.
    pub fn get(&self) -> Mode {
        match self.0.load(Ordering::SeqCst) {
            0 => Mode::ReadOnly,
            _ => Mode::Edit,
        }
    }

    /// Changes it and returns the former one. Calls that are being performed at this moment are not waited for: see
    /// [`crate::files::Grants::set_mode`].
    pub fn set(&self, mode: Mode) -> Mode {
        match self.0.swap(number(mode), Ordering::SeqCst) {
            0 => Mode::ReadOnly,
            _ => Mode::Edit,
        }
    }
}

fn number(mode: Mode) -> u8 {
    match mode {
        Mode::ReadOnly => 0,
        Mode::Edit => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_for_all_copies() {
        let mode = SharedMode::new(Mode::ReadOnly);
        let copy = mode.clone();
        assert_eq!(mode.set(Mode::Edit), Mode::ReadOnly);
        assert_eq!(copy.get(), Mode::Edit);
        assert_eq!(copy.set(Mode::ReadOnly), Mode::Edit);
        assert_eq!(mode.get(), Mode::ReadOnly);
    }
}
