//! The directory of a session that cannot mount anything.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
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
        let left = File::open(&path).is_ok_and(|dir| {
            !matches!(
                Flock::lock(dir, FlockArg::LockExclusiveNonblock),
                Err((_, Errno::EAGAIN))
            )
        });
        if old && left {
            remove(&path);
        }
    }
}

fn now() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs().cast_signed())
}

/// Removes a directory with what is in it, directories included whose owner closed them.
fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    open_all(path);
    // What is still there then is found by the next session's start.
    let _ = fs::remove_dir_all(path);
}

fn open_all(dir: &Path) {
    let _ = fs::set_permissions(dir, Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_all(&entry.path());
        }
    }
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
}
