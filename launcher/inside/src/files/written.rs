//! Which files were granted for writing: so that a descriptor that is still open can be found after going back to read-only,
//! wherever it is.

use super::{Call, Grants, Place};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, Identity};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many files are remembered.
const MAX: usize = 32 * 1024;
/// How many there are when those that nobody has open are forgotten.
const MANY: usize = 8 * 1024;

type Inode = (u64, u64);

#[derive(Default)]
struct Notes {
    files: HashMap<Inode, (usize, Box<[u8]>)>,
    /// Those that were made without a name and may get one at any time, with the root they lie in.
    nameless: HashMap<Inode, usize>,
    /// Whether some had to be forgotten.
    incomplete: bool,
    /// How many may be there before the next look.
    limit: usize,
}

/// Files that were granted for writing, with the path that they were granted by.
#[derive(Default)]
pub(crate) struct Written(Mutex<Notes>);

/// A granted file that somebody still has open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillWritten {
    /// Device and inode.
    pub inode: (u64, u64),
    /// Its path at present, or the one that it was granted by.
    pub path: PathBuf,
}

impl Written {
    /// Remembers a file. `true`: there are many by now.
    pub(crate) fn note(&self, place: &Place, identity: &Identity) -> bool {
        if identity.kind() != libc::S_IFREG {
            return false;
        }
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let inode = (identity.dev, identity.ino);
        if notes.files.len() + notes.nameless.len() >= MAX && !notes.files.contains_key(&inode) {
            notes.files.clear();
            notes.nameless.clear();
            notes.incomplete = true;
        }
        if identity.nlink == 0 {
            notes.nameless.insert(inode, place.root);
        } else {
            notes.files.insert(inode, (place.root, place.rel.clone().into()));
        }
        let many = notes.files.len() >= notes.limit.max(MANY);
        if many {
            notes.limit = notes.files.len() * 2;
        }
        many
    }

    /// Follows a file to its new name; files in a renamed directory are looked for by inode when it matters.
    pub(crate) fn renamed(&self, from: &Place, to: &Place, directory: bool) {
        if directory {
            return;
        }
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (root, rel) in notes.files.values_mut() {
            if *root == from.root && **rel == *from.rel {
                *rel = to.rel.clone().into();
                break;
            }
        }
    }
}

impl Grants {
    /// Remembers a file that is granted for writing, and now and then forgets those that nobody has open.
    pub(crate) fn note_written(&self, call: &Call<'_>, place: &Place, identity: &Identity) {
        if self.is_own(place) {
            return;
        }
        if self.written.note(place, identity) {
            let grants = call.grants.clone();
            self.waiting().until(Duration::ZERO, move || {
                let (_, _) = grants.still_written();
                true
            });
        }
    }

    /// Every granted file that is still open for writing by anybody, a descriptor in a socket's queue included, and whether
    /// the list is complete. A read lease on a file is refused while it is open for writing (`fcntl(2)`); no lease stays.
    ///
    /// For the time after going back to read-only: files that nobody has open are forgotten.
    pub fn still_written(&self) -> (Vec<StillWritten>, bool) {
        let mut notes = std::mem::take(&mut *self.written.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut found = Vec::new();
        let mut kept = Notes {
            incomplete: notes.incomplete,
            ..Notes::default()
        };
        let mut lost: HashMap<Inode, (usize, Box<[u8]>)> = HashMap::new();
        for (inode, (root, rel)) in notes.files.drain() {
            let place = Place {
                root,
                rel: rel.to_vec(),
                slash: false,
                exact: true,
            };
            match self.open_for_writing(&place, inode) {
                Probe::Open => {
                    found.push(StillWritten {
                        inode,
                        path: self.absolute(&place),
                    });
                    kept.files.insert(inode, (root, rel));
                }
                Probe::Closed => {}
                Probe::Elsewhere => {
                    lost.insert(inode, (root, place.rel.into()));
                }
            }
        }
        // Moved files are found by a walk; what is found nowhere, though every directory was looked at, has no name any more.
        let mut hidden = false;
        let wanted: HashSet<Inode> = lost.keys().chain(notes.nameless.keys()).copied().collect();
        if !wanted.is_empty() {
            for (index, _) in self.roots.iter().enumerate() {
                let (places, all) = self.find_inodes(index, &wanted);
                hidden |= !all;
                for (inode, rel) in places {
                    notes.nameless.remove(&inode);
                    lost.remove(&inode);
                    let place = Place {
                        root: index,
                        rel,
                        slash: false,
                        exact: true,
                    };
                    if let Probe::Open = self.open_for_writing(&place, inode) {
                        found.push(StillWritten {
                            inode,
                            path: self.absolute(&place),
                        });
                        kept.files.insert(inode, (index, place.rel.into()));
                    }
                }
            }
        }
        hidden &= !lost.is_empty() || !notes.nameless.is_empty();
        if hidden {
            kept.files.extend(lost);
        }
        kept.nameless = notes.nameless;
        let complete = !kept.incomplete && !hidden;
        let mut now = self.written.0.lock().unwrap_or_else(PoisonError::into_inner);
        now.files.extend(kept.files);
        now.nameless.extend(kept.nameless);
        now.limit = now.files.len() * 2;
        now.incomplete |= kept.incomplete;
        (found, complete)
    }

    fn open_for_writing(&self, place: &Place, inode: Inode) -> Probe {
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        // The type is looked at first: nothing but a regular file is opened.
        let Ok((path, identity)) = place.object(self) else {
            return Probe::Elsewhere;
        };
        if (identity.dev, identity.ino) != inode {
            return Probe::Elsewhere;
        }
        match sys::openat(sys::CWD, &sys::fd_path(path.as_fd()), flags & !libc::O_NOFOLLOW, 0) {
            Ok(fd) => lease_refused(&fd),
            // Unreadable, so it cannot be asked about: rather named than missed.
            Err(_) => Probe::Open,
        }
    }

    /// Where the wanted files lie beneath a root, and whether every directory could be looked at.
    fn find_inodes(&self, root: usize, wanted: &HashSet<Inode>) -> (Vec<(Inode, Vec<u8>)>, bool) {
        let start = format!("/proc/self/fd/{}", self.roots[root].dir.as_raw_fd());
        let (mut found, mut all) = (Vec::new(), true);
        let mut stack: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(rel) = stack.pop() {
            let path = [start.as_bytes(), b"/", &rel].concat();
            let path = Path::new(OsStr::from_bytes(&path));
            // Something else may be mounted here.
            let (entries, dev) = match (std::fs::read_dir(path), path.metadata()) {
                (Ok(entries), Ok(meta)) => (entries, meta.dev()),
                (Err(e), _) | (_, Err(e)) if e.kind() == std::io::ErrorKind::NotFound => continue,
                _ => {
                    all = false;
                    continue;
                }
            };
            for entry in entries {
                let Ok((entry, kind)) = entry.and_then(|e| e.file_type().map(|kind| (e, kind))) else {
                    all = false;
                    continue;
                };
                let name = entry.file_name();
                let child = if rel.is_empty() {
                    name.as_bytes().to_vec()
                } else {
                    [&rel[..], b"/", name.as_bytes()].concat()
                };
                if kind.is_dir() {
                    stack.push(child);
                } else if wanted.contains(&(dev, entry.ino())) {
                    found.push(((dev, entry.ino()), child));
                }
            }
        }
        (found, all)
    }
}

enum Probe {
    Open,
    Closed,
    Elsewhere,
}

fn lease_refused(fd: &OwnedFd) -> Probe {
    match sys::set_lease(fd.as_fd(), libc::F_RDLCK) {
        Ok(()) => {
            let _ = sys::set_lease(fd.as_fd(), libc::F_UNLCK);
            Probe::Closed
        }
        Err(Errno::EAGAIN) => Probe::Open,
        // A file of somebody else's, or a file system without leases: /proc has to do.
        Err(_) => Probe::Closed,
    }
}
