//! Making and removing names: `mkdir`, `rmdir`, `unlink`, `symlink`, `mknod`.

use super::guard::PROTECTED;
use super::{Answer, Call, Fail, Follow, Grants, Outcome, Place, Step, Target, Where, cstring};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Whether the last component is none that can be made or removed (`.`, `..`, `/`): the kernel has an error for each call, and
/// gives it before it looks at the mount.
pub(crate) fn no_name(path: &[u8]) -> bool {
    let text = &path[..path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1)];
    let last = text.rsplit(|&b| b == b'/').next().unwrap_or(b"");
    matches!(last, b"" | b"." | b"..")
}

impl Grants {
    /// Performs something on a *name*, which is never followed.
    fn on_name(&self, call: &Call<'_>, target: &Target, op: impl Fn(&Place) -> Step) -> Outcome {
        if no_name(&target.path) {
            return Ok(Answer::Proceed);
        }
        self.on_target(call, target, Follow::Never, |found| match found {
            // A root itself is a mount point in the view: EBUSY or EEXIST, by the kernel.
            Where::In(place) if place.rel.is_empty() => Ok(Answer::Proceed),
            // Landlock's to decide on.
            Where::In(place) if self.is_reached(&place) => self.leave_to_kernel(&place, false),
            Where::In(place) => op(&place),
            _ => Ok(Answer::Proceed),
        })
    }

    /// An error for a name that exists, as the kernel gives it before any other.
    pub(crate) fn absent(&self, place: &Place) -> Result<(), Fail> {
        match place.object(self) {
            Ok(_) => Err(Errno::EEXIST.into()),
            Err(Fail::Errno(Errno::ENOENT | Errno::ENOTDIR)) => Ok(()),
            Err(fail) => Err(fail),
        }
    }

    pub(crate) fn make_dir(&self, call: &Call<'_>, dirfd: Option<usize>, path: usize, mode: u32) -> Outcome {
        let target = call.target(dirfd, path)?;
        self.on_name(call, &target, |place| {
            self.read_only_new(call, place)?;
            let rule = self.rule(place)?;
            if let Some(rule) = &rule
                && !rule.kind.may_mkdir()
            {
                self.absent(place)?;
                return Err(self.refused(call, place, PROTECTED, &rule.name));
            }
            self.completing(call, place)?;
            call.assume_umask()?;
            let dir = place.dir(self)?;
            sys::mkdirat(dir.as_fd(), &place.name()?, mode)?;
            if rule.is_some() {
                let (made, _) = Place {
                    slash: false,
                    ..place.clone()
                }
                .object(self)?;
                self.guard.mark_created(made.as_fd());
            }
            self.granted(call, place);
            Ok(Answer::Value(0))
        })
    }

    pub(crate) fn remove(&self, call: &Call<'_>, dirfd: Option<usize>, path: usize, flags: i32) -> Outcome {
        if flags & !libc::AT_REMOVEDIR != 0 {
            return Err(Errno::EINVAL);
        }
        let target = call.target(dirfd, path)?;
        self.on_name(call, &target, |place| {
            self.read_only(call, place)?;
            if self.holds_root(place) {
                return Err(Errno::EBUSY.into());
            }
            let rule = self.rule(place)?;
            let bare = Place {
                slash: false,
                ..place.clone()
            };
            let object = match &rule {
                None => None,
                Some(rule) => {
                    let (object, _) = bare.object(self)?;
                    // An empty directory that could be made again as well may go.
                    let empty = flags & libc::AT_REMOVEDIR != 0 && rule.kind.may_mkdir();
                    if !empty && !self.guard.was_created(object.as_fd()) {
                        return Err(self.refused(call, place, PROTECTED, &rule.name));
                    }
                    Some(object)
                }
            };
            let dir = place.dir(self)?;
            sys::unlinkat(dir.as_fd(), &place.name()?, flags)?;
            if let Some(object) = object {
                self.guard.forget_created(object.as_fd());
            }
            if flags & libc::AT_REMOVEDIR != 0 {
                self.moves.fetch_add(1, Ordering::AcqRel);
            }
            self.granted(call, place);
            Ok(Answer::Value(0))
        })
    }

    pub(crate) fn make_link(&self, call: &Call<'_>, text: usize, dirfd: Option<usize>, path: usize) -> Outcome {
        let text = call.path(text)?;
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        let target = call.target(dirfd, path)?;
        self.on_name(call, &target, |place| {
            self.read_only_new(call, place)?;
            if self.concerns_rules(place) {
                self.absent(place)?;
                self.may_move(call, place, false)?;
            }
            self.no_link_in_git(call, place, Some(&text))?;
            self.completing(call, place)?;
            let dir = place.dir(self)?;
            sys::symlinkat(&cstring(&text)?, dir.as_fd(), &place.name()?)?;
            self.granted(call, place);
            Ok(Answer::Value(0))
        })
    }

    pub(crate) fn make_node(
        &self,
        call: &Call<'_>,
        dirfd: Option<usize>,
        path: usize,
        mode: u32,
        device: u64,
    ) -> Outcome {
        let kind = mode & libc::S_IFMT;
        match kind {
            0 | libc::S_IFREG | libc::S_IFIFO | libc::S_IFSOCK => {}
            libc::S_IFDIR => return Err(Errno::EPERM),
            libc::S_IFCHR | libc::S_IFBLK => return Err(Errno::EPERM),
            _ => return Err(Errno::EINVAL),
        }
        let mode = mode & !(libc::S_ISUID | libc::S_ISGID);
        let target = call.target(dirfd, path)?;
        self.on_name(call, &target, |place| {
            self.read_only_new(call, place)?;
            if let Some(rule) = self.rule(place)? {
                self.absent(place)?;
                return Err(self.refused(call, place, PROTECTED, &rule.name));
            }
            self.completing(call, place)?;
            call.assume_umask()?;
            let dir = place.dir(self)?;
            sys::mknodat(dir.as_fd(), &place.name()?, mode, device)?;
            self.granted(call, place);
            Ok(Answer::Value(0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::no_name;

    #[test]
    fn last_components_that_are_no_names() {
        for path in ["/", "//", ".", "..", "a/.", "a/..", "a/../", "./", ""] {
            assert!(no_name(path.as_bytes()), "{path}");
        }
        for path in ["a", "a/", "a/b", "a/b//", ".a", "..a", "a/..."] {
            assert!(!no_name(path.as_bytes()), "{path}");
        }
    }
}
