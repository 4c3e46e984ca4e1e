//! The directory of a session that cannot mount anything.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;
use picktwo_confine::sys;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where they lie: short, since a socket's address holds 108 bytes and programs put sockets beneath TMPDIR.
const BASE: &str = "/tmp";
const PREFIX: &str = "picktwo.";

/// The directory of one session: `tmp/` and `shm/`, which the session may write, and `own/`, which it reads. It goes with this value.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// Held while the launcher lives: what nobody holds was left by one that was killed.
    dir: Flock<File>,
}

impl Place {
    /// The directory that they lie in.
    pub fn parent() -> &'static Path {
        Path::new(BASE)
    }

    /// The path of a session's directory. Nobody can have it before: a session's number is random.
    pub fn of(session: &str) -> PathBuf {
        Path::new(BASE).join(format!("{PREFIX}{session}"))
    }

    /// The socket of a session's tools.
    pub fn tools_socket_of(session: &str) -> PathBuf {
        Self::of(session).join("own/tools.sock")
    }

    /// Makes it, and takes away what sessions whose launcher was killed have left.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(session: &str) -> io::Result<Self> {
        sweep(Path::new(BASE), now());
        let path = Self::of(session);
        DirBuilder::new().mode(0o700).create(&path)?;
        let file = File::open(&path)?;
        let dir = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| io::Error::from(errno))?;
        for part in ["tmp", "shm", "own", "own/bin", "own/etc"] {
            DirBuilder::new().mode(0o700).create(path.join(part))?;
        }
        Ok(Self { path, dir })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The session's temporary directory.
    pub fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// What is the session's `/dev/shm`.
    pub fn shm(&self) -> PathBuf {
        self.path.join("shm")
    }

    /// What the session only reads: the profile's files, `bin/picktwo`, the tools' socket.
    pub fn own(&self) -> PathBuf {
        self.path.join("own")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// How old a directory is at least, in seconds, that is taken for a left one: one that is just being made is not locked yet.
const SETTLED: i64 = 10;

fn sweep(parent: &Path, now: i64) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let own = |m: &fs::Metadata| m.is_dir() && m.uid() == nix::unistd::getuid().as_raw();
        if !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) || !entry.metadata().is_ok_and(|m| own(&m)) {
            continue;
        }
        // Of one whose launcher lives the lock cannot be had.
        let old = entry.metadata().is_ok_and(|m| m.ctime() + SETTLED < now);
        let left = match File::open(&path) {
            Ok(dir) => !matches!(
                Flock::lock(dir, FlockArg::LockExclusiveNonblock),
                Err((_, Errno::EAGAIN))
            ),
            // What a session's end could not remove was closed.
            Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
        };
        if old && left {
            remove(&path);
        }
    }
}

fn now() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs().cast_signed())
}

/// Removes a directory with what is in it, directories included whose owner closed them, however deep. What cannot be removed is closed
/// and told: symbolic links elsewhere may lead into it.
fn remove(path: &Path) {
    let _ = empty(path);
    if fs::remove_dir(path).is_ok() || fs::symlink_metadata(path).is_err() {
        return;
    }
    let _ = fs::set_permissions(path, Permissions::from_mode(0o000));
    let _ = writeln!(
        io::stderr(),
        "picktwo: {} of an ended session cannot be removed: it is closed (mode 000), remove it yourself",
        path.display()
    );
}

/// A directory that is being emptied.
struct Level {
    /// Its name in the one above.
    name: CString,
    /// Device and inode.
    identity: (u64, u64),
    /// What cannot be removed from it.
    stays: HashSet<CString>,
}

/// Empties a directory. One descriptor at a time and no recursion: a tree of renames is deeper than any path, any stack and any limit of
/// descriptors.
fn empty(path: &Path) -> io::Result<()> {
    let c_path = CString::new(path.as_os_str().as_bytes())?;
    let mut dir = enter(sys::CWD, &c_path)?;
    let mut levels = vec![Level {
        name: c_path,
        identity: identity(dir.as_fd())?,
        stays: HashSet::new(),
    }];
    // A directory near the top, where what is too deep is moved: each call on what is deep costs Landlock a walk to the top.
    let mut high = dir.try_clone()?;
    let mut moved = 0u64;
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        if let Some((name, inner)) = clear(dir.as_fd(), &mut level.stays) {
            if depth > DEEP {
                moved += 1;
                let place = CString::new(format!(".deep.{moved}"))?;
                if sys::renameat2(dir.as_fd(), &name, high.as_fd(), &place, libc::RENAME_NOREPLACE).is_ok() {
                    continue;
                }
            }
            if depth == 1 {
                high = inner.try_clone()?;
            }
            levels.push(Level {
                name,
                identity: identity(inner.as_fd())?,
                stays: HashSet::new(),
            });
            dir = inner;
            continue;
        }
        let Some(done) = levels.pop() else { break };
        let Some(above) = levels.last_mut() else {
            return if done.stays.is_empty() {
                Ok(())
            } else {
                Err(Errno::ENOTEMPTY.into())
            };
        };
        dir = sys::openat(dir.as_fd(), c"..", DIRECTORY, 0)?;
        if identity(dir.as_fd())? != above.identity {
            // Somebody moved it meanwhile.
            return Err(Errno::EAGAIN.into());
        }
        if sys::unlinkat(dir.as_fd(), &done.name, libc::AT_REMOVEDIR).is_err() {
            above.stays.insert(done.name);
        }
    }
    Ok(())
}

/// How many levels are gone down.
const DEEP: usize = 256;
const DIRECTORY: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;

/// Removes from a directory what can be removed at once; stops at a directory that has to be emptied first, and answers that.
fn clear(dir: BorrowedFd<'_>, stays: &mut HashSet<CString>) -> Option<(CString, OwnedFd)> {
    let shown = Path::new(OsStr::from_bytes(sys::fd_path(dir).as_bytes())).to_owned();
    for entry in fs::read_dir(shown).into_iter().flatten().flatten() {
        let Ok(name) = CString::new(entry.file_name().as_bytes()) else {
            continue;
        };
        if stays.contains(&name)
            || sys::unlinkat(dir, &name, 0).is_ok()
            || sys::unlinkat(dir, &name, libc::AT_REMOVEDIR).is_ok()
        {
            continue;
        }
        match enter(dir, &name) {
            Ok(inner) => return Some((name, inner)),
            Err(_) => {
                stays.insert(name);
            }
        }
    }
    None
}

/// Opens a directory whose owner may have closed it.
fn enter(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let object = sys::openat(dir, name, libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0)?;
    if sys::fstat(object.as_fd())?.mode & 0o700 != 0o700 {
        sys::fchmodat2(object.as_fd(), c"", 0o700, libc::AT_EMPTY_PATH)?;
    }
    sys::openat(object.as_fd(), c".", DIRECTORY, 0)
}

fn identity(dir: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    sys::fstat(dir).map(|stat| (stat.dev, stat.ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_private_and_goes_with_what_is_in_it() {
        let session = format!("test-{}", std::process::id());
        let place = Place::create(&session).unwrap();
        for dir in [place.path().into(), place.tmp(), place.own()] {
            assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700, "{}", dir.display());
        }
        fs::create_dir_all(place.tmp().join("a/b")).unwrap();
        fs::set_permissions(place.tmp().join("a"), Permissions::from_mode(0o0)).unwrap();
        // Another session does not take it for a left one.
        sweep(Place::parent(), now());
        assert!(place.tmp().exists());
        drop(place);
        assert!(!Place::of(&session).exists());
    }

    #[test]
    fn what_is_left_goes_once_it_is_not_just_being_made() {
        let parent = std::env::temp_dir().join(format!("picktwo-sweep-{}", std::process::id()));
        let (left, other, held) = (
            parent.join("picktwo.left"),
            parent.join("other"),
            parent.join("picktwo.held"),
        );
        for dir in [&left, &other, &held] {
            fs::create_dir_all(dir.join("a")).unwrap();
        }
        let lock = Flock::lock(File::open(&held).unwrap(), FlockArg::LockExclusive).unwrap();
        sweep(&parent, now());
        assert!(left.exists());
        sweep(&parent, now() + SETTLED + 2);
        assert!(!left.exists() && other.exists() && held.exists());
        drop(lock);
        fs::remove_dir_all(&parent).unwrap();
    }

    /// Each chain is as long as a path may be; renames put one below the other.
    fn deep(base: &Path, depth: usize) {
        const CHAIN: usize = 500;
        let base = enter(sys::CWD, &CString::new(base.as_os_str().as_bytes()).unwrap()).unwrap();
        let chain = |name: &CStr| {
            sys::mkdirat(base.as_fd(), name, 0o700).unwrap();
            let mut dir = enter(base.as_fd(), name).unwrap();
            for _ in 1..CHAIN {
                sys::mkdirat(dir.as_fd(), c"a", 0o700).unwrap();
                dir = enter(dir.as_fd(), c"a").unwrap();
            }
            dir
        };
        chain(c"big");
        for _ in 1..depth / CHAIN {
            let end = chain(c"n");
            sys::renameat2(base.as_fd(), c"big", end.as_fd(), c"a", 0).unwrap();
            sys::renameat2(base.as_fd(), c"n", base.as_fd(), c"big", 0).unwrap();
        }
    }

    #[test]
    fn a_tree_deeper_than_any_stack_goes_with_what_is_beside_it() {
        let top = Path::new("/tmp").join(format!("p2-deep-{}", std::process::id()));
        for part in ["tmp/a/.git", "tmp/z/.git", "tmp/closed/in"] {
            fs::create_dir_all(top.join(part)).unwrap();
            fs::write(top.join(part).join("config"), "x").unwrap();
        }
        fs::set_permissions(top.join("tmp/closed"), Permissions::from_mode(0o0)).unwrap();
        deep(&top.join("tmp"), 6_000);
        std::os::unix::fs::symlink("/etc", top.join("tmp/link")).unwrap();
        // The stack of a thread is small.
        let path = top.clone();
        std::thread::spawn(move || remove(&path)).join().unwrap();
        assert!(fs::symlink_metadata(&top).is_err());
    }
}
