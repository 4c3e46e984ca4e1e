//! The exact way's walk: a path of the caller's, in the caller's own view, component by component.
//!
//! Links are followed as the kernel would follow them for the caller. The magic links of /proc are handled by hand, since in
//! this process's eyes `self` is this process: those of the caller itself lead to what they mean; of anybody else's the kernel
//! decides in the caller's own right.

use super::Grants;
use super::caller::{Base, Call, Target};
use super::resolve::{Follow, cstring};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, resolve};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// As the kernel's own limit.
const MAX_LINKS: u32 = 40;
const PROC_ROOT_INODE: u64 = 1;

/// Where a walk ended.
pub(crate) enum Walked {
    /// The last component, which need not exist, in a directory of the caller's view.
    Named { dir: OwnedFd, name: Vec<u8>, slash: bool },
    /// A directory that was named by `.`, `..` or `/`.
    Dir(OwnedFd),
    /// The object behind a magic link of the caller's own.
    Object(OwnedFd),
    /// A magic link of somebody else's, or another special file of /proc.
    Foreign,
}

impl Grants {
    pub(crate) fn walk(&self, call: &Call<'_>, target: &Target, follow: Follow) -> Result<Walked, Errno> {
        let session_root = || self.session_root.try_clone().map_err(|_| Errno::EMFILE);
        let mut dir = match target.base.dir() {
            None => session_root()?,
            Some(fd) => fd.try_clone().map_err(|_| Errno::EMFILE)?,
        };
        if target.path.is_empty() {
            return Ok(Walked::Object(dir));
        }
        let mut rest = target.path.clone();
        let mut links = 0;
        // Whether `dir` is the caller's own directory in *our* /proc, where numbers are not those of the caller's.
        let mut own_process = false;
        // The usual case: no link before the last component. /proc is walked by hand.
        if !rest.starts_with(b"/proc/")
            && let Some((parent, last)) = split_parent(&rest)
        {
            // An absolute path is absolute in the session's root, not in the launcher's own.
            let within = if matches!(target.base, Base::Root) {
                resolve::IN_ROOT
            } else {
                0
            };
            let how = resolve::NO_SYMLINKS | within;
            match sys::openat2(dir.as_fd(), &cstring(parent)?, libc::O_PATH | libc::O_DIRECTORY, 0, how) {
                Ok(fd) => {
                    rest = last.to_vec();
                    dir = fd;
                }
                Err(Errno::ELOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
        loop {
            let start = rest.iter().position(|&b| b != b'/').unwrap_or(rest.len());
            rest.drain(..start);
            if rest.is_empty() {
                return Ok(Walked::Dir(dir));
            }
            let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
            let tail = rest.split_off(end);
            let name = std::mem::replace(&mut rest, tail);
            let last = rest.iter().all(|&b| b == b'/');
            let slash = last && !rest.is_empty();
            match &name[..] {
                b"." => continue,
                b".." => {
                    // Above our own /proc lies the caller's.
                    dir = if std::mem::take(&mut own_process) {
                        sys::openat(self.session_root.as_fd(), c"proc", libc::O_PATH | libc::O_DIRECTORY, 0)?
                    } else {
                        sys::openat(dir.as_fd(), c"..", libc::O_PATH | libc::O_DIRECTORY, 0)?
                    };
                    continue;
                }
                _ => {}
            }
            if own_process {
                let Some(link) = own_link(&name, &mut rest) else {
                    return Ok(Walked::Foreign);
                };
                if rest.is_empty() && follow != Follow::Yes {
                    return Ok(Walked::Foreign);
                }
                let object = match &link[..] {
                    b"root" => session_root()?,
                    _ => sys::openat(dir.as_fd(), &cstring(&link)?, libc::O_PATH, 0)?,
                };
                if rest.iter().all(|&b| b == b'/') {
                    return Ok(Walked::Object(object));
                }
                own_process = false;
                dir = object;
                continue;
            }
            if last && (follow == Follow::Never || follow == Follow::Slash && !slash) {
                return Ok(Walked::Named { dir, name, slash });
            }
            let child = match sys::openat(dir.as_fd(), &cstring(&name)?, libc::O_PATH | libc::O_NOFOLLOW, 0) {
                Ok(child) => child,
                Err(Errno::ENOENT) if last => return Ok(Walked::Named { dir, name, slash }),
                Err(errno) => return Err(errno),
            };
            let identity = sys::fstat(child.as_fd())?;
            if identity.kind() == libc::S_IFLNK {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::ELOOP);
                }
                if is_proc(child.as_fd()) {
                    if sys::fstat(dir.as_fd())?.ino == PROC_ROOT_INODE && matches!(&name[..], b"self" | b"thread-self")
                    {
                        dir = call.open_proc("", libc::O_PATH | libc::O_DIRECTORY)?;
                        own_process = true;
                        continue;
                    }
                    return Ok(Walked::Foreign);
                }
                let mut to = sys::readlinkat(child.as_fd(), c"")?;
                if to.first() == Some(&b'/') {
                    dir = session_root()?;
                }
                to.extend_from_slice(&rest);
                rest = to;
            } else if last {
                return Ok(Walked::Named { dir, name, slash });
            } else if identity.kind() == libc::S_IFDIR {
                if name.iter().all(u8::is_ascii_digit) && is_proc(child.as_fd()) {
                    if sys::fstat(dir.as_fd())?.ino != PROC_ROOT_INODE
                        || !call.own_numbers()?.iter().any(|n| n.to_string().as_bytes() == name)
                    {
                        return Ok(Walked::Foreign);
                    }
                    dir = call.open_proc("", libc::O_PATH | libc::O_DIRECTORY)?;
                    own_process = true;
                    continue;
                }
                dir = child;
            } else {
                return Err(Errno::ENOTDIR);
            }
        }
    }
}

/// Which magic link of a process's /proc directory a path goes through: `cwd`, `root` or `fd/N`. Takes what it needs of `rest`.
fn own_link(name: &[u8], rest: &mut Vec<u8>) -> Option<Vec<u8>> {
    match name {
        b"cwd" | b"root" => Some(name.to_vec()),
        b"fd" => {
            let start = rest.iter().position(|&b| b != b'/')?;
            let number: Vec<u8> = rest[start..].iter().copied().take_while(|&b| b != b'/').collect();
            rest.drain(..start + number.len());
            number
                .iter()
                .all(u8::is_ascii_digit)
                .then(|| [b"fd/", &number[..]].concat())
        }
        _ => None,
    }
}

/// Splits a path before its last component; a slash at the end stays with it. `None` if there is nothing before it.
fn split_parent(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = &path[..path.iter().rposition(|&b| b != b'/')? + 1];
    let at = text.iter().rposition(|&b| b == b'/')?;
    match &path[at + 1..] {
        // All of it is a directory.
        last if matches!(&text[at + 1..], b"." | b"..") => Some((path, &last[last.len()..])),
        last if at == 0 => Some((b"/.", last)),
        last => Some((&path[..at], last)),
    }
}

fn is_proc(fd: BorrowedFd<'_>) -> bool {
    nix::sys::statfs::fstatfs(fd).is_ok_and(|fs| fs.filesystem_type() == nix::sys::statfs::PROC_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents() {
        assert_eq!(split_parent(b"/a/b"), Some((&b"/a"[..], &b"b"[..])));
        assert_eq!(split_parent(b"a/b//"), Some((&b"a"[..], &b"b//"[..])));
        assert_eq!(split_parent(b"/b"), Some((&b"/."[..], &b"b"[..])));
        assert_eq!(split_parent(b"b"), None);
        assert_eq!(split_parent(b"///"), None);
        assert_eq!(split_parent(b"a/.."), Some((&b"a/.."[..], &b""[..])));
    }

    #[test]
    fn own_links() {
        let mut rest = b"/12/x".to_vec();
        assert_eq!(own_link(b"fd", &mut rest), Some(b"fd/12".to_vec()));
        assert_eq!(rest, b"/x");
        assert_eq!(own_link(b"fd", &mut b"/../1".to_vec()), None);
        assert_eq!(own_link(b"fd", &mut Vec::new()), None);
        assert_eq!(own_link(b"environ", &mut Vec::new()), None);
    }
}
