//! Duplicates of the session's sockets, by inode, and what the kernel knows of the others.

use crate::files::Call;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit};
use picktwo_confine::Errno;
use picktwo_confine::sys;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// How many duplicates are kept at most.
const CAPACITY: usize = 4096;

/// How many duplicates this process keeps: a part of the descriptors that it may have, which it needs for everything else, too.
pub(super) fn capacity() -> usize {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    usize::try_from(limit / 4).map_or(CAPACITY, |part| part.clamp(1, CAPACITY))
}

/// A duplicate.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) unix: bool,
    pub(super) stream: bool,
    pub(super) bound: bool,
    /// Made in the session's network namespace.
    pub(super) in_session: bool,
}

/// While a duplicate is kept its inode number cannot be reused.
#[derive(Debug)]
pub(super) struct Table {
    capacity: usize,
    entries: HashMap<u64, Entry>,
    /// How many may be there before the next sweep.
    limit: usize,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: HashMap::new(),
            limit: 0,
        }
    }

    pub(super) fn insert(&mut self, ino: u64, entry: Entry) {
        self.entries.insert(ino, entry);
    }

    pub(super) fn remove(&mut self, ino: u64) {
        self.entries.remove(&ino);
    }

    pub(super) fn get(&self, ino: u64) -> Option<Entry> {
        self.entries.get(&ino).cloned()
    }

    pub(super) fn mark_bound(&mut self, ino: u64) {
        if let Some(entry) = self.entries.get_mut(&ino) {
            entry.bound = true;
        }
    }

    pub(super) fn half_full(&self) -> bool {
        self.entries.len() >= self.limit.max(self.capacity / 8)
    }

    pub(super) fn full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    pub(super) fn inodes(&self) -> HashSet<u64> {
        self.entries.keys().copied().collect()
    }

    /// Of those that were there `before` the session's descriptors were read, keeps what is still `open`.
    pub(super) fn keep(&mut self, before: &HashSet<u64>, open: &HashSet<u64>) {
        self.entries
            .retain(|ino, _| !before.contains(ino) || open.contains(ino));
        // Many open ones: not again at the next call.
        self.limit = (self.entries.len() * 2).min(self.capacity);
    }

    /// Drops duplicates of sockets that listen by now.
    pub(super) fn drop_listening(&mut self) {
        let listens = |entry: &Entry| {
            sys::socket_option(entry.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ACCEPTCONN).is_ok_and(|on| on != 0)
        };
        self.entries
            .retain(|_, entry| !entry.bound || !entry.stream || !listens(entry));
    }
}

/// The error for a `connect` on a socket that has no duplicate: connected ones by what the kernel shows, others `EACCES`.
pub(super) fn state_of_unknown(call: &Call<'_>, ino: u64) -> Errno {
    const ESTABLISHED: &str = "01";
    const SYN_SENT: &str = "02";
    const UNIX_CONNECTED: &str = "03";
    let number = ino.to_string();
    // sl local remote st tx:rx tr:when retrnsmt uid timeout inode
    for name in ["net/tcp", "net/tcp6"] {
        if let Some(state) = field(call, name, 9, &number, 3) {
            return match state.as_str() {
                ESTABLISHED => Errno::EISCONN,
                SYN_SENT => Errno::EALREADY,
                _ => Errno::EACCES,
            };
        }
    }
    // Num RefCount Protocol Flags Type St Inode Path
    match field(call, "net/unix", 6, &number, 5).as_deref() {
        Some(UNIX_CONNECTED) => Errno::EISCONN,
        _ => Errno::EACCES,
    }
}

/// Whether a UNIX socket listens.
pub(super) fn listens(call: &Call<'_>, ino: u64) -> bool {
    /// `__SO_ACCEPTCON` in the column of flags.
    const ACCEPTS: &str = "00010000";
    field(call, "net/unix", 6, &ino.to_string(), 3).as_deref() == Some(ACCEPTS)
}

fn field(call: &Call<'_>, name: &str, key: usize, value: &str, wanted: usize) -> Option<String> {
    let mut text = String::new();
    std::fs::File::from(call.open_proc(name, 0).ok()?)
        .read_to_string(&mut text)
        .ok()?;
    text.lines().find_map(|line| {
        let parts: Vec<&str> = line.split_whitespace().collect();
        (parts.get(key) == Some(&value)).then(|| parts.get(wanted).map(|part| (*part).to_owned()))?
    })
}

/// Whether the caller has a signal that it handles and does not block: a blocking call would end with `EINTR`.
pub(super) fn has_signal(call: &Call<'_>) -> bool {
    let set = |title: &str| {
        call.status(title)
            .ok()
            .and_then(|text| u64::from_str_radix(&text, 16).ok())
            .unwrap_or(0)
    };
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") & set("SigCgt:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_leave_descriptors_for_everything_else() {
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(capacity() <= CAPACITY && capacity() as u64 <= limit / 4);
        let mut table = Table::new(2);
        for ino in 0..2 {
            assert!(!table.full());
            let entry = Entry {
                fd: Arc::new(std::fs::File::open("/dev/null").unwrap().into()),
                unix: true,
                stream: true,
                bound: false,
                in_session: false,
            };
            table.insert(ino, entry);
        }
        assert!(table.full() && table.half_full());
    }
}
