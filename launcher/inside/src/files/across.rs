//! What sessions of one workspace owe each other: a decision that depends on what else a directory holds, and the change that it allows,
//! are never mixed with those of another session. The sessions lock files of the person's state, which none of them can reach.

use super::{Call, Fail, Grants, Place};
use nix::libc;
use picktwo_confine::Errno;
use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What programs get where another session does not let go.
const BUSY: Errno = Errno::EBUSY;
const RULE: &str = "another edit session of this workspace, or of one around it or within, holds its lock: continue or end it (`picktwo sessions`)";
/// How long a lock is waited for: more than the longest look takes. And how long once it was waited for in vain.
const PATIENCE: Duration = Duration::from_secs(5);
const IMPATIENCE: Duration = Duration::from_millis(50);
/// How often it is tried without a pause.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_micros(50);

/// A file that stands for a directory.
#[derive(Debug)]
pub struct Lock {
    /// The file, opened by this session alone.
    pub file: File,
    /// Whether the directory is a root, and not just around one.
    pub exclusive: bool,
}

/// The locks of a session's roots, in the order in which every session takes them.
pub(crate) struct Across {
    locks: Vec<Lock>,
    alone: Mutex<()>,
    /// Whether the last wait was in vain.
    stuck: AtomicBool,
}

thread_local! {
    /// The address of what this thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Held while something is decided and done.
pub(crate) struct Held<'a>(Option<(&'a Across, MutexGuard<'a, ()>)>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some((across, _)) = &self.0 {
            across.release(across.locks.len());
            HELD.set(0);
        }
    }
}

impl Across {
    pub(crate) fn new(locks: Vec<Lock>) -> Across {
        Across {
            locks,
            alone: Mutex::new(()),
            stuck: AtomicBool::new(false),
        }
    }

    /// Waits for its turn among this session's threads and among the sessions; a thread that has it already goes on.
    pub(crate) fn enter(&self) -> Result<Held<'_>, Errno> {
        let own = std::ptr::from_ref(self).addr();
        if HELD.get() == own {
            return Ok(Held(None));
        }
        let alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = match self.stuck.load(Ordering::Acquire) {
            true => IMPATIENCE,
            false => PATIENCE,
        };
        let limit = Instant::now() + patience;
        for (at, lock) in self.locks.iter().enumerate() {
            if let Err(errno) = take(lock, limit) {
                self.release(at);
                self.stuck.store(true, Ordering::Release);
                return Err(errno);
            }
        }
        self.stuck.store(false, Ordering::Release);
        HELD.set(own);
        Ok(Held(Some((self, alone))))
    }

    fn release(&self, count: usize) {
        for lock in self.locks[..count].iter().rev() {
            let _ = lock.file.unlock();
        }
    }
}

fn take(lock: &Lock, limit: Instant) -> Result<(), Errno> {
    for tries in 0.. {
        let tried = match lock.exclusive {
            true => lock.file.try_lock(),
            false => lock.file.try_lock_shared(),
        };
        match tried {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < limit => {}
            Err(TryLockError::WouldBlock) => return Err(BUSY),
            Err(TryLockError::Error(e)) => return Err(Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO))),
        }
        match tries < TRIES {
            true => std::thread::yield_now(),
            false => std::thread::sleep(PAUSE),
        }
    }
    Err(BUSY)
}

impl Grants {
    /// Keeps other sessions of the workspace off, and this one's other decisions of the kind.
    pub(crate) fn alone(&self, call: &Call<'_>, place: &Place) -> Result<Held<'_>, Fail> {
        self.across
            .enter()
            .map_err(|errno| self.refused(call, place, errno, RULE))
    }

    /// The same, where a decision depends on whether a directory is a git directory, or could make it one.
    pub(crate) fn alone_in_git(&self, call: &Call<'_>, place: &Place) -> Result<Option<Held<'_>>, Fail> {
        // A link is none of what makes a git directory, but may not be in one, whatever its name.
        let link = matches!(call.request.nr, libc::SYS_symlink | libc::SYS_symlinkat);
        if self.is_own(place) || !(link || self.concerns_git(place)) {
            return Ok(None);
        }
        self.alone(call, place).map(Some)
    }
}
