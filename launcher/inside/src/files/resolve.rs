//! From a path of the caller's to a place beneath a granted root.
//!
//! Authority comes from one thing only: a path relative to a granted root that has no symbolic link in it, opened beneath the
//! root's own descriptor (`RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV`). Two ways lead to
//! one. The quick way takes the caller's text as it is; it holds if the kernel then meets no link. The exact way walks the
//! caller's own view, component by component, follows links as the kernel would, and requires the directory that it ends in
//! to be the same inode when opened beneath the root.

use super::caller::{self, Base, Call, Target};
use super::walk::Walked;
use super::{Fail, Grants};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, Identity, resolve};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// How everything beneath a root is opened.
pub(crate) const BENEATH: u64 = resolve::BENEATH | resolve::NO_SYMLINKS | resolve::NO_MAGICLINKS | resolve::NO_XDEV;

/// A granted root.
pub(crate) struct RootDir {
    /// Its path, the same inside and outside, without a slash at the end.
    pub(crate) path: Vec<u8>,
    /// Its directory on the writable mount.
    pub(crate) dir: OwnedFd,
    /// Private mounts of the view beneath it, relative.
    pub(crate) private: Vec<Vec<u8>>,
    /// The session's own directory.
    pub(crate) own: bool,
    /// Known by another path than the one where it lies.
    pub(crate) moved: bool,
}

/// A place beneath a granted root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the root.
    pub(crate) root: usize,
    /// Path relative to the root, without `.`, `..` and doubled or final slashes; empty for the root itself.
    pub(crate) rel: Vec<u8>,
    /// Whether the caller's path ended in a slash.
    pub(crate) slash: bool,
    /// Whether the exact way was taken: no link before the last component is left to be followed.
    pub(crate) exact: bool,
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Always: most calls.
    Yes,
    /// Only if the path ends in a slash: calls that can act on a link itself.
    Slash,
    /// Never: calls that make, move or remove a name.
    Never,
}

/// What a descriptor of the caller's stands for.
pub(crate) enum Named {
    /// A place beneath a root, and the object there.
    At(Place, OwnedFd, Identity),
    /// An object of a root, by its index, without a name.
    Nowhere(usize),
    /// Something else.
    Out,
    /// One of the launcher's own standard descriptors.
    Standard(usize),
}

/// What a path or a descriptor stands for.
pub(crate) enum Where {
    /// A place beneath a root.
    In(Place),
    /// An object of a root that has no name any more, or none yet, by a descriptor of the caller's, and the root's index.
    Nameless(OwnedFd, usize),
    /// Something else: the kernel and the view's mounts decide.
    Out,
    /// One of the launcher's own standard descriptors, by number, reached through `/proc/self/fd`.
    Standard(usize),
}

pub(crate) fn cstring(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}

/// A directory to act in: the root's own descriptor, or one that was opened for this call.
pub(crate) enum Dir<'a> {
    Root(BorrowedFd<'a>),
    Own(OwnedFd),
}

impl AsFd for Dir<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Dir::Root(fd) => *fd,
            Dir::Own(fd) => fd.as_fd(),
        }
    }
}

impl Place {
    /// Components of the relative path.
    pub(crate) fn names(&self) -> Vec<&[u8]> {
        if self.rel.is_empty() {
            Vec::new()
        } else {
            self.rel.split(|&b| b == b'/').collect()
        }
    }

    /// The relative path of the directory, and the last component.
    pub(crate) fn split(&self) -> (&[u8], &[u8]) {
        match self.rel.iter().rposition(|&b| b == b'/') {
            Some(at) => (&self.rel[..at], &self.rel[at + 1..]),
            None => (b"", &self.rel),
        }
    }

    /// The last component, with the slash that the caller's path ended in.
    pub(crate) fn name(&self) -> Result<CString, Errno> {
        let mut name = self.split().1.to_vec();
        if self.slash {
            name.push(b'/');
        }
        cstring(&name)
    }

    /// Another name in the same directory.
    pub(crate) fn sibling(&self, name: &[u8]) -> Place {
        let dir = self.split().0;
        let rel = if dir.is_empty() {
            name.to_vec()
        } else {
            [dir, b"/", name].concat()
        };
        Place {
            rel,
            slash: false,
            ..self.clone()
        }
    }

    /// Opens it beneath its root. A link on the way is [`Fail::Again`] until the exact way was taken.
    pub(crate) fn open(&self, grants: &Grants, flags: i32, mode: u32) -> Result<OwnedFd, Fail> {
        let path = match (self.rel.is_empty(), self.slash) {
            (true, _) => c".".to_owned(),
            (false, false) => cstring(&self.rel)?,
            (false, true) => cstring(&[&self.rel[..], b"/"].concat())?,
        };
        open_beneath(grants.roots[self.root].dir.as_fd(), &path, flags, mode)
    }

    /// The directory that it is in.
    pub(crate) fn dir<'a>(&self, grants: &'a Grants) -> Result<Dir<'a>, Fail> {
        let root = grants.roots[self.root].dir.as_fd();
        match self.split().0 {
            b"" => Ok(Dir::Root(root)),
            dir => Ok(Dir::Own(open_beneath(
                root,
                &cstring(dir)?,
                libc::O_PATH | libc::O_DIRECTORY,
                0,
            )?)),
        }
    }

    /// The object itself, as a path descriptor; a final symbolic link is not followed.
    pub(crate) fn object(&self, grants: &Grants) -> Result<(OwnedFd, Identity), Fail> {
        let fd = self.open(grants, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        let identity = sys::fstat(fd.as_fd())?;
        Ok((fd, identity))
    }
}

fn open_beneath(root: BorrowedFd<'_>, path: &CStr, flags: i32, mode: u32) -> Result<OwnedFd, Fail> {
    sys::openat2(root, path, flags, mode, BENEATH).map_err(|errno| match errno {
        Errno::ELOOP | Errno::EXDEV => Fail::Again,
        other => Fail::Errno(other),
    })
}

/// A path in a directory, both relative.
fn join(dir: &[u8], path: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(dir.len() + 1 + path.len());
    full.extend_from_slice(dir);
    if !full.is_empty() {
        full.push(b'/');
    }
    full.extend_from_slice(path);
    full
}

/// Strips a root's path off an absolute path.
fn strip<'p>(path: &'p [u8], root: &[u8]) -> Option<&'p [u8]> {
    match path.strip_prefix(root)? {
        b"" => Some(b""),
        rest if rest[0] == b'/' => Some(&rest[1..]),
        _ => None,
    }
}

/// Whether a root's path lies beneath another one's.
pub(crate) fn lies_within(path: &[u8], around: &[u8]) -> bool {
    path != around && strip(path, around).is_some()
}

/// A directory that a relative path started at: device, inode, the count of moves, and its path.
type Known = (u64, u64, u64, Vec<u8>);

thread_local! {
    /// The last directory that a relative path started at and that was found to be what its path says.
    static LAST: RefCell<Option<Known>> = const { RefCell::new(None) };
}

impl Grants {
    /// The root that an absolute path of the view lies in, and the path relative to it. Private mounts are in none.
    pub(crate) fn split_root<'p>(&self, path: &'p [u8]) -> Option<(usize, &'p [u8])> {
        let found = self
            .roots
            .iter()
            .enumerate()
            .filter_map(|(i, root)| Some((i, strip(path, &root.path)?)));
        let (root, rel) = found.min_by_key(|(_, rel)| rel.len())?;
        if self.roots[root]
            .private
            .iter()
            .any(|private| strip(rel, private).is_some())
        {
            return None;
        }
        Some((root, rel))
    }

    /// Whether a place is a root of its own or has one beneath it, reached through a root around it: it keeps its name, since what
    /// lies in it is judged by its path from there.
    pub(crate) fn holds_root(&self, place: &Place) -> bool {
        self.roots.len() > 1 && {
            let path = [&self.roots[place.root].path[..], b"/", &place.rel].concat();
            self.roots.iter().any(|root| strip(&root.path, &path).is_some())
        }
    }

    /// The path that /proc shows for a descriptor of ours. Too long a one is `ENAMETOOLONG`: never a guess.
    pub(crate) fn path_of(&self, fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
        let mut number = [0u8; 16];
        let text = decimal(fd.as_raw_fd(), &mut number);
        let path = sys::readlinkat(self.fds.as_fd(), text)?;
        if path.len() >= libc::PATH_MAX as usize {
            Err(Errno::ENAMETOOLONG)
        } else {
            Ok(path)
        }
    }

    /// The quick way. `None`: take the exact one.
    pub(crate) fn quick(&self, target: &Target) -> Option<Place> {
        if target.path.is_empty() {
            return None;
        }
        let text = target.path.strip_suffix(b"/").unwrap_or(&target.path);
        let slash = text.len() != target.path.len();
        let (root, rel) = match &target.base {
            Base::Root => {
                let (root, rel) = self.split_root(text)?;
                (root, rel.to_vec())
            }
            Base::Known(known) => (known.root, join(&known.rel, text)),
            Base::At(dir) => {
                let path = self.path_of(dir.as_fd()).ok()?;
                let (root, rel) = self.split_root(&path)?;
                let identity = self.is_at(root, rel, dir.as_fd(), &path)?;
                if let Some(pid) = target.cwd_of {
                    caller::remember_cwd(pid, &identity, self.moves.load(Ordering::Acquire), dir, root, rel);
                }
                (root, join(rel, text))
            }
        };
        // Dots, doubled slashes and the root itself are for the exact way.
        if rel.split(|&b| b == b'/').any(|name| matches!(name, b"" | b"." | b"..")) {
            return None;
        }
        if !self.roots[root].private.is_empty() && self.roots[root].private.iter().any(|p| strip(&rel, p).is_some()) {
            return None;
        }
        Some(Place {
            root,
            rel,
            slash,
            exact: false,
        })
    }

    /// Whether a directory of the caller's view is the one at this place beneath the root.
    fn is_at(&self, root: usize, rel: &[u8], dir: BorrowedFd<'_>, path: &[u8]) -> Option<Identity> {
        let seen = sys::fstat(dir).ok()?;
        let generation = self.moves.load(Ordering::Acquire);
        let known = LAST.with_borrow(|last| {
            last.as_ref().is_some_and(|(dev, ino, at, text)| {
                (*dev, *ino, *at) == (seen.dev, seen.ino, generation) && text == path
            })
        });
        if known && seen.nlink > 0 {
            return Some(seen);
        }
        let same = self
            .directory(root, rel)
            .is_ok_and(|(_, identity)| identity.same(&seen));
        if same {
            LAST.set(Some((seen.dev, seen.ino, generation, path.to_vec())));
        }
        same.then_some(seen)
    }

    fn directory(&self, root: usize, rel: &[u8]) -> Result<(Dir<'_>, Identity), Fail> {
        let top = self.roots[root].dir.as_fd();
        let dir = match rel {
            b"" => Dir::Root(top),
            _ => Dir::Own(open_beneath(top, &cstring(rel)?, libc::O_PATH | libc::O_DIRECTORY, 0)?),
        };
        let identity = sys::fstat(dir.as_fd())?;
        Ok((dir, identity))
    }

    /// The exact way.
    pub(crate) fn exact(&self, call: &Call<'_>, target: &Target, follow: Follow) -> Result<Where, Errno> {
        for _ in 0..4 {
            let walked = self.walk(call, target, follow)?;
            match self.place(walked) {
                Ok(found) => return Ok(found),
                Err(Fail::Errno(errno)) => return Err(errno),
                Err(Fail::Again) => continue,
            }
        }
        Err(Errno::EACCES)
    }

    fn place(&self, walked: Walked) -> Result<Where, Fail> {
        match walked {
            Walked::Foreign => Ok(Where::Out),
            Walked::Object(fd) => self.place_of_object(fd),
            Walked::Dir(fd) => self.place_of_object(fd),
            Walked::Named { dir, name, slash } => {
                let path = self.path_of(dir.as_fd())?;
                let Some((root, rel)) = self.split_root(&path) else {
                    // The name may be a root itself, whose directory lies outside.
                    let own = [path.strip_suffix(b"/").unwrap_or(&path), b"/", &name].concat();
                    return Ok(match self.split_root(&own) {
                        Some((root, b"")) => Where::In(Place {
                            root,
                            rel: Vec::new(),
                            slash,
                            exact: true,
                        }),
                        _ => Where::Out,
                    });
                };
                let seen = sys::fstat(dir.as_fd())?;
                if seen.kind() != libc::S_IFDIR {
                    return Err(Fail::Errno(Errno::ENOTDIR));
                }
                if seen.nlink == 0 {
                    return Err(Fail::Errno(Errno::ENOENT));
                }
                match self.directory(root, rel) {
                    Ok((_, identity)) if identity.same(&seen) => {}
                    // A mount on the way: the kernel decides, on the view's read-only or private mounts.
                    Err(Fail::Again) if self.crosses_mount(root, rel) => return Ok(Where::Out),
                    _ => return Err(Fail::Again),
                }
                let rel = if rel.is_empty() {
                    name
                } else {
                    [rel, b"/", &name].concat()
                };
                if self.roots[root]
                    .private
                    .iter()
                    .any(|private| strip(&rel, private).is_some())
                {
                    return Ok(Where::Out);
                }
                Ok(Where::In(Place {
                    root,
                    rel,
                    slash,
                    exact: true,
                }))
            }
        }
    }

    fn crosses_mount(&self, root: usize, rel: &[u8]) -> bool {
        let Ok(path) = cstring(rel) else { return false };
        matches!(
            sys::openat2(self.roots[root].dir.as_fd(), &path, libc::O_PATH, 0, BENEATH),
            Err(Errno::EXDEV)
        )
    }

    /// The place of an object that the caller has a descriptor of.
    pub(crate) fn place_of_object(&self, fd: OwnedFd) -> Result<Where, Fail> {
        Ok(match self.name_of_object(fd.as_fd())? {
            Named::At(place, ..) => Where::In(place),
            Named::Nowhere(root) => Where::Nameless(fd, root),
            Named::Out => Where::Out,
            Named::Standard(number) => Where::Standard(number),
        })
    }

    /// The same, with the object as it is on the writable mount.
    pub(crate) fn name_of_object(&self, fd: BorrowedFd<'_>) -> Result<Named, Fail> {
        let path = self.path_of(fd)?;
        let seen = sys::fstat(fd)?;
        let Some((root, rel)) = self.split_root(&path) else {
            let standard = self
                .standard
                .iter()
                .position(|own| own.as_ref().is_some_and(|(id, _)| id.same(&seen)));
            return Ok(standard.map_or(Named::Out, Named::Standard));
        };
        let place = Place {
            root,
            rel: rel.to_vec(),
            slash: false,
            exact: true,
        };
        match place.object(self) {
            Ok((own, identity)) if identity.same(&seen) => Ok(Named::At(place, own, identity)),
            _ if seen.nlink == 0 => Ok(Named::Nowhere(root)),
            // It has another name, which may be a protected one, and nothing tells which.
            _ if path.ends_with(b" (deleted)") => Err(Errno::EACCES.into()),
            Err(Fail::Again) if self.crosses_mount(root, rel) => Ok(Named::Out),
            _ => Err(Fail::Again),
        }
    }
}

/// A number as text, in a buffer of the caller's.
fn decimal(number: i32, buffer: &mut [u8; 16]) -> &CStr {
    use std::io::Write;
    let _ = write!(&mut buffer[..15], "{number}");
    CStr::from_bytes_until_nul(buffer).unwrap_or(c"-1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_whole_components() {
        assert_eq!(strip(b"/w/x/y", b"/w/x"), Some(&b"y"[..]));
        assert_eq!(strip(b"/w/x", b"/w/x"), Some(&b""[..]));
        assert_eq!(strip(b"/w/xy", b"/w/x"), None);
    }
}
