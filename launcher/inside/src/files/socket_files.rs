//! Socket files: finding them in the caller's view, and making them beneath granted roots.

use super::guard::PROTECTED;
use super::names::no_name;
use super::walk::Walked;
use super::{BENEATH, Base, Call, Event, Fail, Follow, Grants, Place, Target, Where, cstring};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, Identity};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// Where a socket was bound.
pub(crate) enum Bound {
    /// Beneath a granted root: this file was made.
    Made((u64, u64, i64, u32)),
    /// Nowhere yet: the path leads out of the granted roots.
    Elsewhere,
}

impl Call<'_> {
    /// A path that was copied already, relative to the caller's working directory.
    pub(crate) fn target_at_cwd(&self, path: &[u8]) -> Result<Target, Errno> {
        let base = if path.first() == Some(&b'/') {
            Base::Root
        } else {
            Base::At(Arc::new(self.cwd()?))
        };
        Ok(Target {
            path: path.to_vec(),
            base,
            cwd_of: None,
        })
    }
}

impl Grants {
    /// Whether a path of the view lies in a granted root.
    pub(crate) fn lies_in_root(&self, path: &Path) -> bool {
        self.lies_in_root_bytes(path.as_os_str().as_bytes())
    }

    /// Whether a path of the view lies in a granted root.
    pub(crate) fn lies_in_root_bytes(&self, path: &[u8]) -> bool {
        self.split_root(path).is_some()
    }

    /// What a path leads to in the caller's view, and where that is.
    pub(crate) fn view_object(
        &self,
        call: &Call<'_>,
        target: &Target,
        follow: Follow,
    ) -> Result<(OwnedFd, Identity, Vec<u8>), Errno> {
        let object = match self.walk(call, target, follow)? {
            Walked::Named { dir, name, .. } => {
                sys::openat(dir.as_fd(), &cstring(&name)?, libc::O_PATH | libc::O_NOFOLLOW, 0)?
            }
            Walked::Dir(fd) | Walked::Object(fd) => fd,
            Walked::Foreign => return Err(Errno::EACCES),
        };
        let identity = sys::fstat(object.as_fd())?;
        let path = self.path_of(object.as_fd())?;
        Ok((object, identity, path))
    }

    /// Tells the record about a socket that was refused.
    pub(crate) fn tell_socket(&self, call: &Call<'_>, path: &[u8], errno: Errno) {
        self.events.tell(true, || Event {
            pid: call.pid(),
            call: "connect",
            path: OsStr::from_bytes(path).into(),
            refused: Some(errno),
            rule: Some("not a socket of this session".into()),
            suppressed: 0,
        });
    }

    /// Binds a socket beneath a granted root. `address` is the caller's, whole.
    pub(crate) fn bind_socket(
        &self,
        call: &Call<'_>,
        target: &Target,
        socket: BorrowedFd<'_>,
        address: &[u8],
    ) -> Result<Bound, Errno> {
        let in_use = |errno| {
            if errno == Errno::EEXIST {
                Errno::EADDRINUSE
            } else {
                errno
            }
        };
        if no_name(&target.path) {
            return Err(Errno::EADDRINUSE);
        }
        // Alone, so that no link can come to lie on the way of the path that the kernel is given.
        let _alone = (!self.remote).then(|| self.lock.write().unwrap_or_else(PoisonError::into_inner));
        let mut found = self.quick(target).map(Where::In);
        for _ in 0..5 {
            let place = match found
                .take()
                .map_or_else(|| self.exact(call, target, Follow::Never), Ok)?
            {
                Where::In(place) if place.rel.is_empty() => return Err(Errno::EADDRINUSE),
                Where::In(place) => place,
                _ => return Ok(Bound::Elsewhere),
            };
            let bound = self
                .alone_in_git(call, &place)
                .and_then(|_alone| self.bind_place(call, &place, target, socket, address));
            match bound {
                Ok(identity) => return Ok(Bound::Made(identity)),
                Err(Fail::Errno(errno)) => return Err(in_use(errno)),
                Err(Fail::Again) => continue,
            }
        }
        Err(Errno::EACCES)
    }

    fn bind_place(
        &self,
        call: &Call<'_>,
        place: &Place,
        target: &Target,
        socket: BorrowedFd<'_>,
        address: &[u8],
    ) -> Result<(u64, u64, i64, u32), Fail> {
        self.read_only_new(call, place)?;
        self.absent(place)?;
        if let Some(rule) = self.rule(place)? {
            return Err(self.refused(call, place, PROTECTED, &rule.name));
        }
        self.completing(call, place)?;
        call.assume_umask()?;
        let dir = place.dir(self)?;
        // The name that the caller gave stays the socket's name, where it means the same here: a path without links, absolute or
        // from the directory that it started at.
        let start = match &target.base {
            _ if place.exact => None,
            Base::Root => Some(None),
            base => base.dir().and_then(|dir| self.same_directory(dir.as_fd())).map(Some),
        };
        let bound = match start {
            Some(None) => sys::bind(socket, address),
            Some(Some(base)) => in_directory(base.as_fd(), || sys::bind(socket, address)),
            None => {
                let name = [&(libc::AF_UNIX as u16).to_ne_bytes()[..], place.split().1, b"\0"].concat();
                in_directory(dir.as_fd(), || sys::bind(socket, &name))
            }
        };
        bound?;
        let (made, _) = place.object(self)?;
        self.granted(call, place);
        Ok(super::guard::object(made.as_fd())?)
    }

    /// A directory of the view beneath its root, on the writable mount.
    fn same_directory(&self, dir: BorrowedFd<'_>) -> Option<OwnedFd> {
        let path = self.path_of(dir).ok()?;
        let (root, rel) = self.split_root(&path)?;
        let rel = if rel.is_empty() {
            c".".to_owned()
        } else {
            cstring(rel).ok()?
        };
        sys::openat2(
            self.roots[root].dir.as_fd(),
            &rel,
            libc::O_PATH | libc::O_DIRECTORY,
            0,
            BENEATH,
        )
        .ok()
    }

    /// Binds a socket in one of the session's own directories, and answers what it is. `None`: the path leads elsewhere, or
    /// nowhere.
    pub(crate) fn bind_in_view(
        &self,
        call: &Call<'_>,
        target: &Target,
        socket: BorrowedFd<'_>,
        allowed: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<(u64, u64, i64, u32)>, Errno> {
        let Ok(Walked::Named { dir, name, .. }) = self.walk(call, target, Follow::Never) else {
            return Ok(None);
        };
        let mut path = self.path_of(dir.as_fd())?;
        path.extend_from_slice(b"/x");
        if !allowed(&path) || self.lies_in_root_bytes(&path) {
            return Ok(None);
        }
        call.assume_umask()?;
        let address = [&(libc::AF_UNIX as u16).to_ne_bytes()[..], &name, b"\0"].concat();
        in_directory(dir.as_fd(), || sys::bind(socket, &address))?;
        let made = sys::openat(dir.as_fd(), &cstring(&name)?, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        super::guard::object(made.as_fd()).map(Some)
    }
}

/// Runs something in a directory.
fn in_directory(dir: BorrowedFd<'_>, run: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    if !super::caller::may_change_directory() {
        return Err(Errno::EACCES);
    }
    nix::unistd::fchdir(dir)?;
    debug_assert!(dir.as_raw_fd() >= 0);
    let result = run();
    // It would keep the directory's file system busy.
    nix::unistd::chdir("/")?;
    result
}
