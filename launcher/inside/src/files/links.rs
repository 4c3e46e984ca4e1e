//! Files with more than one name: hard links, told by inode. One of the names may be protected, or lie outside of the workspace, where
//! stores of package managers and copies of repositories keep theirs.

use super::guard::PROTECTED;
use super::resolve::{RootDir, lies_within};
use super::{Call, Fail, Grants, Place, cstring};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, Identity, xattr};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{File, FileTimes};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// The rule that refuses a change to a file whose other names may be protected, where a directory cannot be looked at.
const UNKNOWN_NAMES: &str = "hard link whose other names cannot be looked at";
/// The rule that refuses one where the workspace cannot be given a file of its own.
const NO_COPY: &str = "hard link of a file outside of the workspace that cannot be replaced by a copy";
/// The rule that refuses a file without a name here where git would write it in place.
const NAMED_ELSEWHERE: &str = "file that has a name elsewhere, in a git directory: put a copy there";
/// The longest content that is copied.
const LONGEST: i64 = 256 << 20;

type Inode = (u64, u64);

/// Where a file has its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// All of them beneath the granted roots, and none is protected.
    Inside,
    /// Some elsewhere: a change would be seen there.
    Outside,
}

/// What is known of files with more than one name.
#[derive(Default)]
pub(crate) struct Links {
    found: Mutex<Option<Found>>,
    /// Held while a file is replaced by a copy.
    copying: Mutex<()>,
}

#[derive(Default)]
struct Found {
    /// Those of which one name is protected.
    protected: HashSet<Inode>,
    /// The names of each one, when they were looked at.
    seen: HashMap<Inode, Seen>,
    /// Those that the session itself gave a name.
    linked: HashSet<Inode>,
    /// Whether every directory could be looked at.
    complete: bool,
}

/// The names of one file.
#[derive(Default)]
struct Seen {
    /// How many it had.
    all: u64,
    /// How many of them were found.
    here: u64,
    /// Those found, if they were all.
    places: Vec<Place>,
}

impl Links {
    /// Has everything looked at again.
    pub(crate) fn forget(&self) {
        if let Some(found) = &mut *self.found.lock().unwrap_or_else(PoisonError::into_inner) {
            found.seen.clear();
        }
    }
}

impl Grants {
    /// Refuses a change to a file that has another, protected name, or that may have one where not everything can be looked at; says
    /// where the names of all others lie.
    pub(crate) fn no_alias(&self, call: &Call<'_>, place: &Place, identity: &Identity) -> Result<Names, Fail> {
        if identity.nlink < 2 || self.is_own(place) || identity.kind() == libc::S_IFDIR {
            return Ok(Names::Inside);
        }
        let lock = || self.guard.links().found.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (identity.dev, identity.ino);
        let names = |found: &Option<Found>| self.known_names(found.as_ref()?.seen.get(&key)?, key, identity.nlink);
        let mut known = lock();
        let mut answer = names(&known);
        if answer.is_none() {
            // Nothing moves meanwhile, so that no name is missed or found twice.
            drop(known);
            let _alone = self.alone(call, place)?;
            known = lock();
            answer = names(&known);
            if answer.is_none() {
                *known = Some(self.look_for_links(known.take()));
                answer = names(&known);
            }
        }
        let Some(found) = known.as_ref() else {
            return Ok(Names::Inside);
        };
        if found.protected.contains(&key) {
            drop(known);
            return Err(self.refused(call, place, PROTECTED, "hard link of a protected file"));
        }
        if !found.complete && !found.linked.contains(&key) {
            drop(known);
            return Err(self.refused(call, place, PROTECTED, UNKNOWN_NAMES));
        }
        // One that was not found at all got its names meanwhile, from somebody else.
        Ok(answer.unwrap_or(Names::Outside))
    }

    /// Where the names of a file lie, if that is known still. One that went, by whatever call and whosever, may have got a successor
    /// outside, and their number is the same: every name has to be there.
    fn known_names(&self, seen: &Seen, key: Inode, nlink: u64) -> Option<Names> {
        if seen.all != nlink {
            return None;
        }
        if seen.here < seen.all {
            return Some(Names::Outside);
        }
        let mut there = HashSet::new();
        for place in &seen.places {
            let (Ok(dir), Ok(name)) = (place.dir(self), place.name()) else {
                return None;
            };
            let at = sys::fstat(dir.as_fd()).ok()?;
            let named = sys::fstatat(dir.as_fd(), &name, libc::AT_SYMLINK_NOFOLLOW).ok()?;
            if (named.dev, named.ino) != key {
                return None;
            }
            there.insert((at.dev, at.ino, name));
        }
        (there.len() as u64 >= seen.all).then_some(Names::Inside)
    }

    /// Gives a file that has names outside of the workspace a copy in its place before it enters a git directory, where git appends to
    /// files and rewrites them.
    pub(crate) fn enters_git(
        &self,
        call: &Call<'_>,
        from: &Place,
        to: &Place,
        identity: &Identity,
    ) -> Result<Option<(OwnedFd, Identity)>, Fail> {
        if identity.nlink < 2 || identity.kind() == libc::S_IFDIR || !self.in_git_directory(to)? {
            return Ok(None);
        }
        match self.no_alias(call, from, identity)? {
            Names::Inside => Ok(None),
            Names::Outside => self.own_copy(call, from, identity, true).map(Some),
        }
    }

    /// The same for a file that is reached by a descriptor alone, so that nothing can take its place.
    pub(crate) fn nameless_enters_git(&self, call: &Call<'_>, to: &Place, identity: &Identity) -> Result<(), Fail> {
        if identity.nlink == 0 || !self.in_git_directory(to)? {
            return Ok(());
        }
        match to.exact {
            true => Err(self.refused(call, to, PROTECTED, NAMED_ELSEWHERE)),
            false => Err(Fail::Again),
        }
    }

    /// Notes that the session itself gave a file, which passed, one more name that is not protected: `to`, beside the one by which it
    /// was reached.
    pub(crate) fn note_linked(&self, fd: BorrowedFd<'_>, before: &Identity, from: Option<&Place>, to: &Place) {
        let Ok(identity) = sys::fstat(fd) else { return };
        let mut known = self.guard.links().found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get_or_insert_with(Found::default);
        let key = (identity.dev, identity.ino);
        found.linked.insert(key);
        let places = match (found.seen.remove(&key), from) {
            (Some(seen), _) if seen.all == before.nlink && seen.here >= seen.all => seen.places,
            // Of a file with one name, that is the one by which it was reached.
            (_, Some(from)) if before.nlink == 1 => vec![from.clone()],
            _ => return,
        };
        if identity.nlink == before.nlink + 1 {
            let places: Vec<Place> = places.into_iter().chain([to.clone()]).collect();
            let (all, here) = (identity.nlink, places.len() as u64);
            found.seen.insert(key, Seen { all, here, places });
        }
    }

    /// Puts a copy in the place of a file that has names outside of the workspace, so that a change is not seen there. Without its
    /// `content` if that would go at once.
    pub(crate) fn own_copy(
        &self,
        call: &Call<'_>,
        place: &Place,
        identity: &Identity,
        content: bool,
    ) -> Result<(OwnedFd, Identity), Fail> {
        if !place.exact {
            return Err(Fail::Again);
        }
        let refuse = |errno| self.refused(call, place, errno, NO_COPY);
        if identity.kind() != libc::S_IFREG || (content && identity.size > LONGEST) {
            return Err(refuse(PROTECTED));
        }
        let _alone = self
            .guard
            .links()
            .copying
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        let source = match place.open(self, flags, 0) {
            Err(Fail::Errno(errno)) => return Err(refuse(errno)),
            opened => opened?,
        };
        if !sys::fstat(source.as_fd())?.same(identity) {
            return Err(Fail::Again);
        }
        let mut random = [0; 8];
        sys::random(&mut random)?;
        let beside = place.sibling(format!(".picktwo-{:016x}", u64::from_ne_bytes(random)).as_bytes());
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let copy = match beside.open(self, flags, 0o600) {
            Ok(copy) => copy,
            Err(Fail::Errno(errno)) => return Err(refuse(errno)),
            Err(fail) => return Err(fail),
        };
        let (dir, name, own) = (place.dir(self)?, cstring(place.split().1)?, beside.name()?);
        let done = like(&source, &copy, identity, content).and_then(|()| {
            // Whatever took its name meanwhile is not replaced.
            if !sys::fstatat(dir.as_fd(), &name, libc::AT_SYMLINK_NOFOLLOW)?.same(identity) {
                return Err(Errno::ESTALE);
            }
            sys::renameat2(dir.as_fd(), &own, dir.as_fd(), &name, 0)
        });
        if let Err(errno) = done {
            let _ = sys::unlinkat(dir.as_fd(), &own, 0);
            return Err(match errno {
                Errno::ESTALE => Fail::Again,
                errno => refuse(errno),
            });
        }
        let mut known = self.guard.links().found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = known
            .as_mut()
            .and_then(|found| found.seen.get_mut(&(identity.dev, identity.ino)))
        {
            names.all = names.all.saturating_sub(1);
            names.here = names.here.saturating_sub(1);
        }
        let identity = sys::fstat(copy.as_fd())?;
        Ok((copy, identity))
    }

    /// Looks at all files with more than one name; once more if directories were moved meanwhile.
    fn look_for_links(&self, former: Option<Found>) -> Found {
        let linked = former.map(|found| found.linked).unwrap_or_default();
        for _ in 0..3 {
            let moves = self.moves.load(Ordering::Acquire);
            let mut found = Found {
                linked: linked.clone(),
                complete: true,
                ..Found::default()
            };
            for (index, root) in self.roots.iter().enumerate().filter(|(_, root)| !root.own) {
                // What lies in a root within another one is counted there, and judged by its path from each.
                let within =
                    |at: usize, other: &RootDir| !other.own && at != index && lies_within(&root.path, &other.path);
                let counts = !self.roots.iter().enumerate().any(|(at, other)| within(at, other));
                self.scan(index, root.dir.as_fd(), counts, &mut found);
            }
            for seen in found.seen.values_mut().filter(|seen| seen.here < seen.all) {
                seen.places = Vec::new();
            }
            if moves == self.moves.load(Ordering::Acquire) {
                return found;
            }
        }
        Found {
            linked,
            ..Found::default()
        }
    }

    /// Finds files with more than one name beneath a root, and which of them are protected.
    fn scan(&self, root: usize, top: BorrowedFd<'_>, counts: bool, found: &mut Found) {
        let start = format!("/proc/self/fd/{}", top.as_raw_fd());
        let mut stack: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(rel) = stack.pop() {
            let path = [start.as_bytes(), b"/", &rel].concat();
            let entries = match std::fs::read_dir(OsStr::from_bytes(&path)) {
                Ok(entries) => entries,
                // It was removed meanwhile.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(_) => {
                    found.complete = false;
                    continue;
                }
            };
            for entry in entries {
                let Ok(entry) = entry else {
                    found.complete = false;
                    break;
                };
                let name = entry.file_name();
                let child = if rel.is_empty() {
                    name.as_bytes().to_vec()
                } else {
                    [&rel[..], b"/", name.as_bytes()].concat()
                };
                let Ok(kind) = entry.file_type() else {
                    found.complete = false;
                    continue;
                };
                if kind.is_dir() {
                    stack.push(child);
                    continue;
                }
                match entry.metadata() {
                    Ok(meta) if meta.nlink() > 1 => self.note_found(root, child, &meta, counts, found),
                    Ok(_) => {}
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                    Err(_) => found.complete = false,
                }
            }
        }
    }

    fn note_found(&self, root: usize, rel: Vec<u8>, meta: &std::fs::Metadata, counts: bool, found: &mut Found) {
        let key = (meta.dev(), meta.ino());
        let place = Place {
            root,
            rel,
            slash: false,
            exact: true,
        };
        let seen = found.seen.entry(key).or_default();
        seen.all = meta.nlink();
        if counts {
            seen.here += 1;
            seen.places.push(place.clone());
        }
        match self.rule(&place) {
            Ok(Some(_)) => _ = found.protected.insert(key),
            Ok(None) => {}
            Err(_) => found.complete = false,
        }
    }
}

/// Makes a new file like another one: content, owner, attributes, mode and times.
pub(super) fn like(source: &OwnedFd, copy: &OwnedFd, identity: &Identity, content: bool) -> Result<(), Errno> {
    let errno = |e: std::io::Error| Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO));
    let clone = |fd: &OwnedFd| fd.try_clone().map(File::from).map_err(errno);
    let (mut from, mut to) = (clone(source)?, clone(copy)?);
    let meta = from.metadata().map_err(errno)?;
    if content {
        std::io::copy(&mut from, &mut to).map_err(errno)?;
    }
    let own = sys::fstat(copy.as_fd())?;
    if (own.uid, own.gid) != (identity.uid, identity.gid) {
        sys::fchownat(copy.as_fd(), c"", identity.uid, identity.gid, libc::AT_EMPTY_PATH)?;
    }
    // The mode comes before the access list, which refines it.
    sys::fchmodat2(copy.as_fd(), c"", identity.mode & 0o1777, libc::AT_EMPTY_PATH)?;
    let (here, there) = (sys::fd_path(source.as_fd()), sys::fd_path(copy.as_fd()));
    let names = match xattr::list(&here, true) {
        Err(Errno::EOPNOTSUPP) => Vec::new(),
        names => names?,
    };
    for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
        // What the system sets by itself (labels, capabilities) is not the person's to copy.
        if name.starts_with(b"user.") || name == b"system.posix_acl_access" {
            let name = cstring(name)?;
            xattr::set(&there, &name, &xattr::get(&here, &name, true)?, 0, true)?;
        }
    }
    let mut times = FileTimes::new();
    if let (Ok(read), Ok(written)) = (meta.accessed(), meta.modified()) {
        times = times.set_accessed(read).set_modified(written);
    }
    to.set_times(times).map_err(errno)
}
