//! Renames and hard links: two names at once, with everything else of the session held off.

use super::names::no_name;
use super::{Answer, Call, Fail, Follow, Grants, Outcome, Place, Step, Target, Where};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys;
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Indices of a directory argument and a path argument.
pub(crate) type Args = (Option<usize>, usize);

impl Grants {
    /// Resolves two targets and performs something on both, first the quick way, then the exact one.
    fn on_both(
        &self,
        call: &Call<'_>,
        from: (&Target, Follow),
        to: &Target,
        op: impl Fn(Where, Where) -> Step,
    ) -> Outcome {
        let _alone = (!self.remote).then(|| self.lock.write().unwrap_or_else(PoisonError::into_inner));
        if let (Some(a), Some(b)) = (self.quick(from.0), self.quick(to)) {
            match op(Where::In(a), Where::In(b)) {
                Ok(answer) => return Ok(answer),
                Err(Fail::Errno(errno)) => return Err(errno),
                Err(Fail::Again) => {}
            }
        }
        for _ in 0..4 {
            let (a, b) = (self.exact(call, from.0, from.1)?, self.exact(call, to, Follow::Never)?);
            match op(a, b) {
                Ok(answer) => return Ok(answer),
                Err(Fail::Errno(errno)) => return Err(errno),
                Err(Fail::Again) => continue,
            }
        }
        Err(Errno::EACCES)
    }

    pub(crate) fn rename(&self, call: &Call<'_>, from: Args, to: Args, flags: u32) -> Outcome {
        const KNOWN: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE;
        if flags & libc::RENAME_WHITEOUT != 0 {
            return Err(Errno::EPERM);
        }
        if flags & !KNOWN != 0 || flags == KNOWN {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (call.target(from.0, from.1)?, call.target(to.0, to.1)?);
        if no_name(&from.path) || no_name(&to.path) {
            return Ok(Answer::Proceed);
        }
        self.on_both(call, (&from, Follow::Never), &to, |a, b| match (a, b) {
            (Where::In(a), Where::In(b)) if a.rel.is_empty() || b.rel.is_empty() => Ok(Answer::Proceed),
            // Landlock's to decide on, and what leads out of an own directory leads elsewhere.
            (Where::In(a), Where::In(b)) if self.is_reached(&a) || self.is_reached(&b) => self.between_own(&a, &b),
            (Where::In(a), Where::In(b)) if a.root == b.root => self.rename_places(call, &a, &b, flags),
            (Where::In(_), _) | (_, Where::In(_)) => Err(Errno::EXDEV.into()),
            _ => Ok(Answer::Proceed),
        })
    }

    /// Two names of which one is in a directory of the session's own.
    fn between_own(&self, a: &Place, b: &Place) -> Step {
        let (first, second) = (self.leave_to_kernel(a, false)?, self.leave_to_kernel(b, false)?);
        debug_assert!(matches!((&first, &second), (Answer::Proceed, Answer::Proceed)));
        if a.root == b.root {
            Ok(first)
        } else {
            Err(Errno::EXDEV.into())
        }
    }

    fn rename_places(&self, call: &Call<'_>, from: &Place, to: &Place, flags: u32) -> Step {
        let _alone = self.alone(call, from)?;
        self.read_only(call, from)?;
        let plain = |place: &Place| Place {
            slash: false,
            ..place.clone()
        };
        let (_, source) = plain(from).object(self)?;
        let directory = source.kind() == libc::S_IFDIR;
        if self.holds_root(from) || self.holds_root(to) {
            return Err(Errno::EBUSY.into());
        }
        self.may_move(call, from, directory)?;
        let target = match plain(to).object(self) {
            Ok((_, identity)) => Some(identity),
            Err(Fail::Errno(Errno::ENOENT)) => None,
            Err(fail) => return Err(fail),
        };
        if flags & libc::RENAME_NOREPLACE != 0 && target.is_some() {
            return Err(Errno::EEXIST.into());
        }
        if let Some(rule) = self.rule(to)?
            && rule.kind.vetted()
            && flags & libc::RENAME_EXCHANGE == 0
            && source.kind() == libc::S_IFREG
            && !from.slash
            && !to.slash
        {
            self.publish(call, from, to, &rule, &source)?;
            self.granted(call, to);
            return Ok(Answer::Value(0));
        }
        let either =
            directory || (flags & libc::RENAME_EXCHANGE != 0 && target.is_some_and(|t| t.kind() == libc::S_IFDIR));
        self.may_move(call, to, either)?;
        if directory {
            self.may_arrive(call, from, to)?;
        }
        if flags & libc::RENAME_EXCHANGE != 0 && target.is_some_and(|t| t.kind() == libc::S_IFDIR) {
            self.may_arrive(call, to, from)?;
        }
        if flags & libc::RENAME_EXCHANGE != 0 {
            self.may_move(call, from, either)?;
            self.completing(call, from)?;
        }
        if source.kind() == libc::S_IFLNK {
            self.no_link_in_git(call, to, None)?;
        }
        if flags & libc::RENAME_EXCHANGE != 0 && target.is_some_and(|t| t.kind() == libc::S_IFLNK) {
            self.no_link_in_git(call, from, None)?;
        }
        self.enters_git(call, from, to, &source)?;
        if flags & libc::RENAME_EXCHANGE != 0
            && let Some(target) = &target
        {
            self.enters_git(call, to, from, target)?;
        }
        self.completing(call, to)?;
        let (a, b) = (from.dir(self)?, to.dir(self)?);
        sys::renameat2(a.as_fd(), &from.name()?, b.as_fd(), &to.name()?, flags)?;
        // Where nothing holds the lock, a look for names has to know of every one that moves.
        if either || self.remote {
            self.moves.fetch_add(1, Ordering::AcqRel);
        }
        self.written.renamed(from, to, either);
        self.granted(call, to);
        Ok(Answer::Value(0))
    }

    pub(crate) fn hard_link(&self, call: &Call<'_>, from: Args, to: Args, flags: i32) -> Outcome {
        if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL);
        }
        let source = match flags & libc::AT_EMPTY_PATH != 0 {
            true => call.target_or_empty(from.0, from.1)?,
            false => call.target(from.0, from.1)?,
        };
        let to = call.target(to.0, to.1)?;
        if no_name(&to.path) {
            return Ok(Answer::Proceed);
        }
        let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
        let links = if follow { Follow::Yes } else { Follow::Slash };
        self.on_both(call, (&source, links), &to, |a, b| match (a, b) {
            (Where::In(a), Where::In(b)) if self.is_reached(&a) || self.is_reached(&b) => self.between_own(&a, &b),
            (Where::In(a), Where::In(b)) if a.root == b.root => self.link_place(call, &a, &b, follow),
            (Where::Nameless(fd, root), Where::In(b)) if root == b.root || self.shared.is_none() => {
                let _alone = self.alone(call, &b)?;
                self.may_link_to(call, &b)?;
                let identity = sys::fstat(fd.as_fd())?;
                self.no_alias(call, &b, &identity)?;
                self.nameless_enters_git(call, &b, &identity)?;
                let dir = b.dir(self)?;
                // `O_TMPFILE`: the caller's own descriptor, which lies on the writable mount if it was granted.
                sys::linkat(
                    sys::CWD,
                    &sys::fd_path(fd.as_fd()),
                    dir.as_fd(),
                    &b.name()?,
                    libc::AT_SYMLINK_FOLLOW,
                )?;
                self.note_linked(fd.as_fd(), &identity, None, &b);
                self.granted(call, &b);
                Ok(Answer::Value(0))
            }
            (_, Where::In(b)) => {
                self.absent(&b)?;
                Err(Errno::EXDEV.into())
            }
            (Where::In(_), _) => Err(Errno::EXDEV.into()),
            _ => Ok(Answer::Proceed),
        })
    }

    fn link_place(&self, call: &Call<'_>, from: &Place, to: &Place, follow: bool) -> Step {
        let _alone = self.alone(call, from)?;
        let (mut object, mut source) = from.object(self)?;
        if follow && source.kind() == libc::S_IFLNK && !from.exact {
            return Err(Fail::Again);
        }
        if let Some(rule) = self.rule(to)?
            && rule.kind.vetted()
            && source.kind() == libc::S_IFREG
        {
            self.absent(to)?;
            self.read_only_new(call, to)?;
            self.may_move(call, from, false)?;
            self.publish_copy(call, from, to, &rule, &source)?;
            self.granted(call, to);
            return Ok(Answer::Value(0));
        }
        self.may_link_to(call, to)?;
        self.may_move(call, from, source.kind() == libc::S_IFDIR)?;
        self.no_alias(call, from, &source)?;
        if let Some(copy) = self.enters_git(call, from, to, &source)? {
            (object, source) = copy;
        }
        if source.kind() == libc::S_IFLNK {
            self.no_link_in_git(call, to, None)?;
        }
        let (a, b) = (from.dir(self)?, to.dir(self)?);
        sys::linkat(a.as_fd(), &from.name()?, b.as_fd(), &to.name()?, 0)?;
        self.note_linked(object.as_fd(), &source, Some(from), to);
        self.granted(call, to);
        Ok(Answer::Value(0))
    }

    fn may_link_to(&self, call: &Call<'_>, to: &Place) -> Result<(), Fail> {
        self.absent(to)?;
        self.read_only_new(call, to)?;
        self.may_move(call, to, false)?;
        self.completing(call, to)
    }
}
