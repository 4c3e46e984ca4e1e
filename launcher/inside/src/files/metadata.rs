//! Changes to what is known about a file, by path and by descriptor: mode, owner, times, extended attributes, length; and the
//! question whether it may be written.

use super::guard::PROTECTED;
use super::links::Names;
use super::open::executable;
use super::resolve::Named;
use super::{Answer, Call, Fail, Follow, Grants, Outcome, Place, Step, Target, Where};
use crate::mode::Mode;
use nix::libc;
use picktwo_confine::sys::{self, Identity, xattr};
use picktwo_confine::{Errno, memory};
use picktwo_policies::protect::{Kind, Rule};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

/// `setxattrat` and `removexattrat` (Linux 6.13), which libc does not know yet.
pub(crate) const SETXATTRAT: i64 = 463;
pub(crate) const REMOVEXATTRAT: i64 = 466;

/// What programs get that would change the metadata of what is not theirs to change, where no read-only mount says so.
const OUTSIDE: Errno = Errno::EACCES;
const NOFOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;
const EMPTY: i32 = libc::AT_EMPTY_PATH;
const XATTR_NAME_MAX: usize = 255;

type Times = Option<[(i64, i64); 2]>;

/// A change to one object.
enum Change {
    Mode(u32),
    Owner(u32, u32),
    Times(Times),
    SetAttribute {
        name: CString,
        value: Vec<u8>,
        flags: i32,
    },
    RemoveAttribute(CString),
    Length(i64),
    /// No change: may it be written? Mode and flags of `faccessat2`.
    Access(i32, i32),
}

impl Grants {
    pub(crate) fn metadata(&self, call: &Call<'_>) -> Outcome {
        let int = |i| call.int(i);
        let word = |i| call.int(i) as u32;
        match call.request.nr {
            libc::SYS_truncate => match call.word(1) as i64 {
                length if length < 0 => Err(Errno::EINVAL),
                length => self.by_path(call, None, 0, 0, Change::Length(length)),
            },
            libc::SYS_chmod => self.by_path(call, None, 0, 0, Change::Mode(word(1))),
            libc::SYS_fchmodat => self.by_path(call, Some(0), 1, 0, Change::Mode(word(2))),
            libc::SYS_fchmodat2 => self.by_path(call, Some(0), 1, int(3), Change::Mode(word(2))),
            libc::SYS_fchmod => self.by_descriptor(call, int(0), Change::Mode(word(1))),
            libc::SYS_chown => self.by_path(call, None, 0, 0, Change::Owner(word(1), word(2))),
            libc::SYS_lchown => self.by_path(call, None, 0, NOFOLLOW, Change::Owner(word(1), word(2))),
            libc::SYS_fchownat => self.by_path(call, Some(0), 1, int(4), Change::Owner(word(2), word(3))),
            libc::SYS_fchown => self.by_descriptor(call, int(0), Change::Owner(word(1), word(2))),
            libc::SYS_utime => {
                let times = if call.word(1) == 0 {
                    None
                } else {
                    let bytes = call.bytes::<16>(1)?;
                    Some([(long(&bytes, 0), 0), (long(&bytes, 8), 0)])
                };
                self.by_path(call, None, 0, 0, Change::Times(times))
            }
            libc::SYS_utimes => self.by_path(call, None, 0, 0, Change::Times(microseconds(call, 1)?)),
            libc::SYS_futimesat if call.word(1) == 0 => {
                self.by_descriptor(call, int(0), Change::Times(microseconds(call, 2)?))
            }
            libc::SYS_futimesat => self.by_path(call, Some(0), 1, 0, Change::Times(microseconds(call, 2)?)),
            libc::SYS_utimensat => {
                let times = nanoseconds(call, 2)?;
                match call.word(1) {
                    0 if int(3) != 0 => Err(Errno::EINVAL),
                    0 => self.by_descriptor(call, int(0), Change::Times(times)),
                    _ => self.by_path(call, Some(0), 1, int(3), Change::Times(times)),
                }
            }
            libc::SYS_setxattr => self.by_path(call, None, 0, 0, set_attribute(call, 1)?),
            libc::SYS_lsetxattr => self.by_path(call, None, 0, NOFOLLOW, set_attribute(call, 1)?),
            libc::SYS_fsetxattr => self.by_descriptor(call, int(0), set_attribute(call, 1)?),
            SETXATTRAT => {
                // struct xattr_args { u64 value; u32 size; u32 flags; }
                if call.word(5) < 16 {
                    return Err(Errno::EINVAL);
                }
                let bytes = call.bytes::<16>(4)?;
                let size = u32::from_le_bytes(bytes[8..12].try_into().unwrap_or_default());
                let flags = u32::from_le_bytes(bytes[12..].try_into().unwrap_or_default());
                let change = attribute(call, 3, long(&bytes, 0) as u64, u64::from(size), flags as i32)?;
                self.by_path(call, Some(0), 1, int(2), change)
            }
            libc::SYS_removexattr => self.by_path(call, None, 0, 0, Change::RemoveAttribute(attribute_name(call, 1)?)),
            libc::SYS_lremovexattr => self.by_path(
                call,
                None,
                0,
                NOFOLLOW,
                Change::RemoveAttribute(attribute_name(call, 1)?),
            ),
            libc::SYS_fremovexattr => {
                self.by_descriptor(call, int(0), Change::RemoveAttribute(attribute_name(call, 1)?))
            }
            REMOVEXATTRAT => self.by_path(
                call,
                Some(0),
                1,
                int(2),
                Change::RemoveAttribute(attribute_name(call, 3)?),
            ),
            libc::SYS_access => self.by_path(call, None, 0, 0, Change::Access(int(1), 0)),
            libc::SYS_faccessat => self.by_path(call, Some(0), 1, 0, Change::Access(int(2), 0)),
            libc::SYS_faccessat2 => self.by_path(
                call,
                Some(0),
                1,
                int(3) & !libc::AT_EACCESS,
                Change::Access(int(2), int(3)),
            ),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn by_path(&self, call: &Call<'_>, dirfd: Option<usize>, path: usize, flags: i32, change: Change) -> Outcome {
        if flags & !(NOFOLLOW | EMPTY) != 0 {
            return Err(Errno::EINVAL);
        }
        // A null path stands for an empty one where that is allowed (fchmodat2 and the xattr calls do not care; newer stats do).
        let target = match flags & EMPTY != 0 {
            true => call.target_or_empty(dirfd, path)?,
            false => call.target(dirfd, path)?,
        };
        self.change_target(call, &target, flags & NOFOLLOW == 0, &change)
    }

    fn by_descriptor(&self, call: &Call<'_>, fd: i32, change: Change) -> Outcome {
        if fd == libc::AT_FDCWD && matches!(change, Change::Times(_)) {
            return Err(Errno::EFAULT);
        }
        let object = call.object(fd)?;
        // Times are set so often, and by descriptors of this kind so rarely, that nobody misses this error there.
        if !matches!(change, Change::Times(_)) && call.is_path_descriptor(fd)? {
            return Err(Errno::EBADF);
        }
        call.alive()?;
        let _shared = (!self.remote).then(|| self.lock.read().unwrap_or_else(PoisonError::into_inner));
        for _ in 0..4 {
            let step = self.name_of_object(object.as_fd()).and_then(|named| match named {
                Named::At(place, own, identity) => {
                    let _alone = self.alone_in_git(call, &place)?;
                    self.change_place(call, &place, &own, &identity, &change)
                }
                Named::Nowhere(root) => self.change_nameless(&object, root, &change),
                Named::Out | Named::Standard(_) if self.shared.is_some() => self.change_outside(Some(&object), &change),
                Named::Out | Named::Standard(_) => self.change_in_view(&object, &change),
            });
            match step {
                Ok(answer) => return Ok(answer),
                Err(Fail::Errno(errno)) => return Err(errno),
                Err(Fail::Again) => continue,
            }
        }
        Err(Errno::EACCES)
    }

    /// A change to an object without a name, by the caller's own descriptor: on the view's read-only mount the kernel refuses it.
    fn change_nameless(&self, object: &OwnedFd, root: usize, change: &Change) -> Step {
        if self.mode.get() == Mode::ReadOnly && !self.roots[root].own && !matches!(change, Change::Access(..)) {
            return Err(Errno::EROFS.into());
        }
        let identity = sys::fstat(object.as_fd())?;
        self.perform(object, &identity, change)
    }

    fn change_target(&self, call: &Call<'_>, target: &Target, follow: bool, change: &Change) -> Outcome {
        let links = if follow { Follow::Yes } else { Follow::Slash };
        self.on_target(call, target, links, |found| match found {
            Where::In(place) => {
                let (fd, identity) = place.object(self)?;
                if identity.kind() == libc::S_IFLNK && follow && !target.path.is_empty() {
                    // The quick way does not follow the last component; a link that the exact way did follow came meanwhile.
                    return Err(Fail::Again);
                }
                self.change_place(call, &place, &fd, &identity, change)
            }
            Where::Nameless(fd, root) => self.change_nameless(&fd, root, change),
            Where::Standard(_) | Where::Out => {
                // A question, or what Landlock itself decides on.
                if matches!(change, Change::Length(_) | Change::Access(..)) {
                    return Ok(Answer::Proceed);
                }
                if self.shared.is_none() {
                    let (object, ..) = self.view_object(call, target, links)?;
                    return self.change_in_view(&object, change);
                }
                if follow {
                    // What is not there is said to be so, as anywhere.
                    self.view_object(call, target, Follow::Yes)?;
                }
                self.change_outside(None, change)
            }
        })
    }

    fn change_place(&self, call: &Call<'_>, place: &Place, fd: &OwnedFd, identity: &Identity, change: &Change) -> Step {
        let file_like = matches!(identity.kind(), libc::S_IFREG | libc::S_IFDIR | libc::S_IFLNK);
        if self.mode_at(place) == Mode::ReadOnly {
            if let Change::Access(..) = change
                && !file_like
            {
                return self.perform(fd, identity, change);
            }
            return match change {
                Change::Access(..) => Err(Errno::EROFS.into()),
                _ => Err(self.refused(call, place, Errno::EROFS, "read-only")),
            };
        }
        let rule = self.rule(place)?;
        match (&rule, change) {
            (None, Change::Access(..)) => return self.perform(fd, identity, change),
            (Some(_), Change::Access(..)) => return Err(PROTECTED.into()),
            (Some(rule), _) if !self.harmless(rule, fd, identity, change) => {
                return Err(self.refused(call, place, PROTECTED, &rule.name));
            }
            _ => {}
        }
        let own = match self.no_alias(call, place, identity)? {
            Names::Outside => Some(self.own_copy(call, place, identity, !matches!(change, Change::Length(0)))?),
            Names::Inside => None,
        };
        let (fd, identity) = own.as_ref().map_or((fd, identity), |(fd, identity)| (fd, identity));
        let answer = self.perform(fd, identity, change)?;
        if let Change::Length(_) = change {
            self.note_written(call, place, identity);
        }
        self.granted(call, place);
        Ok(answer)
    }

    /// A change to what lies in no root of a session with a view, on the object that was looked at: it carries the mount that the
    /// caller reached it by, so that the kernel refuses it wherever that is read-only. It is never left to the kernel, which would
    /// look again: at a descriptor that another thread replaced meanwhile, or through a link of /proc to a granted one.
    fn change_in_view(&self, object: &OwnedFd, change: &Change) -> Step {
        if matches!(change, Change::Length(_) | Change::Access(..)) {
            return Ok(Answer::Proceed);
        }
        let identity = sys::fstat(object.as_fd())?;
        // The person's terminal, or a file that was given as input or output, lies on a mount of the host.
        if self.is_standard(&identity) {
            return Err(Errno::EROFS.into());
        }
        self.perform(object, &identity, change)
    }

    fn is_standard(&self, identity: &Identity) -> bool {
        self.given.iter().any(|own| own.same(identity))
    }

    /// A change to what lies in no root of a session without a view, `object` if the caller has a descriptor of it. Nothing would
    /// refuse a change of metadata, since Landlock does not see it: only of what has no name anywhere it is performed, on the object
    /// that was looked at.
    fn change_outside(&self, object: Option<&OwnedFd>, change: &Change) -> Step {
        if matches!(change, Change::Length(_) | Change::Access(..)) {
            return Ok(Answer::Proceed);
        }
        let Some(object) = object else {
            return Err(OUTSIDE.into());
        };
        let identity = sys::fstat(object.as_fd())?;
        // Pipes, sockets and the like have a name that is no path; memory files have none.
        if identity.nlink == 0 || !self.path_of(object.as_fd())?.starts_with(b"/") {
            return self.perform(object, &identity, change);
        }
        Err(OUTSIDE.into())
    }

    /// What may be changed about a protected object: what ordinary tools do to those that they made here, and `git init`'s
    /// question whether the file system has an executable bit.
    fn harmless(&self, rule: &Rule, fd: &OwnedFd, identity: &Identity, change: &Change) -> bool {
        match change {
            Change::Length(_) => false,
            Change::Mode(mode) if identity.kind() == libc::S_IFREG && rule.kind == Kind::GitConfig => {
                (mode ^ identity.mode) & 0o7777 & !libc::S_IXUSR == 0 || self.guard.was_created(fd.as_fd())
            }
            // A directory that may be made may have its mode and times set, as `tar` and `cp -a` do.
            _ => {
                self.guard.was_created(fd.as_fd())
                    || (identity.kind() == libc::S_IFDIR && rule.kind.may_mkdir() && matches!(change, Change::Times(_)))
            }
        }
    }

    fn perform(&self, fd: &OwnedFd, identity: &Identity, change: &Change) -> Step {
        let at = fd.as_fd();
        match change {
            Change::Mode(mode) => {
                if identity.kind() == libc::S_IFLNK {
                    return Err(Errno::EOPNOTSUPP.into());
                }
                // A set-id program would lend the person's identity to everybody else on this machine.
                if mode & (libc::S_ISUID | libc::S_ISGID) != 0 && identity.kind() != libc::S_IFDIR {
                    return Err(Errno::EPERM.into());
                }
                sys::fchmodat2(at, c"", mode & 0o7777, EMPTY)?;
                if mode & 0o111 != 0 && identity.kind() == libc::S_IFREG && !executable(identity) {
                    // It returns as soon as they are closed; the bound is for a machine that is too busy to do it.
                    self.wait_for_closing(std::time::Duration::from_millis(100));
                }
            }
            Change::Owner(uid, gid) => {
                // As for the caller, whose user namespace knows its own user only.
                if *uid != u32::MAX && *uid != identity.uid {
                    return Err(Errno::EPERM.into());
                }
                sys::fchownat(at, c"", *uid, *gid, EMPTY)?;
            }
            Change::Times(times) => sys::utimensat(at, c"", *times, EMPTY)?,
            Change::SetAttribute { name, value, flags } => xattr::set(&sys::fd_path(at), name, value, *flags, true)?,
            Change::RemoveAttribute(name) => xattr::remove(&sys::fd_path(at), name, true)?,
            Change::Length(length) => match identity.kind() {
                libc::S_IFREG => self.truncate_object(fd, *length)?,
                libc::S_IFDIR => return Err(Errno::EISDIR.into()),
                _ => return Err(Errno::EINVAL.into()),
            },
            Change::Access(mode, flags) => access(fd, *mode, flags & libc::AT_EACCESS)?,
        }
        Ok(Answer::Value(0))
    }
}

/// `faccessat2` on an open path descriptor.
fn access(fd: &OwnedFd, mode: i32, flags: i32) -> Result<(), Errno> {
    use picktwo_confine::attempt::{Arg, syscall};
    use std::os::fd::AsRawFd;
    let args = [
        Arg::Int(fd.as_raw_fd().into()),
        Arg::In(b"\0"),
        Arg::Int(mode.into()),
        Arg::Int((flags | EMPTY).into()),
        Arg::Null,
        Arg::Null,
    ];
    syscall(libc::SYS_faccessat2, args).map(drop)
}

fn long(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

fn nanoseconds(call: &Call<'_>, argument: usize) -> Result<Times, Errno> {
    if call.word(argument) == 0 {
        return Ok(None);
    }
    let bytes = call.bytes::<32>(argument)?;
    Ok(Some([
        (long(&bytes, 0), long(&bytes, 8)),
        (long(&bytes, 16), long(&bytes, 24)),
    ]))
}

fn microseconds(call: &Call<'_>, argument: usize) -> Result<Times, Errno> {
    match nanoseconds(call, argument)? {
        None => Ok(None),
        Some(times) if times.iter().all(|(_, micro)| (0..1_000_000).contains(micro)) => {
            Ok(Some(times.map(|(s, micro)| (s, micro * 1000))))
        }
        Some(_) => Err(Errno::EINVAL),
    }
}

fn attribute_name(call: &Call<'_>, argument: usize) -> Result<CString, Errno> {
    let name = memory::read_string(call.pid(), call.word(argument), XATTR_NAME_MAX + 1).map_err(|error| {
        match super::unreadable(error) {
            Errno::ENAMETOOLONG => Errno::ERANGE,
            other => other,
        }
    })?;
    if name.is_empty() {
        return Err(Errno::ERANGE);
    }
    // Where the launcher runs as root it could set what the caller could not.
    if name.starts_with(b"security.") || name.starts_with(b"trusted.") {
        return Err(Errno::EPERM);
    }
    super::cstring(&name)
}

fn set_attribute(call: &Call<'_>, name: usize) -> Result<Change, Errno> {
    attribute(call, name, call.word(name + 1), call.word(name + 2), call.int(name + 3))
}

fn attribute(call: &Call<'_>, name: usize, address: u64, size: u64, flags: i32) -> Result<Change, Errno> {
    if flags & !(libc::XATTR_CREATE | libc::XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    let name = attribute_name(call, name)?;
    if size > xattr::SIZE_MAX as u64 {
        return Err(Errno::E2BIG);
    }
    let mut value = vec![0; size as usize];
    memory::read_exact(call.pid(), address, &mut value).map_err(super::unreadable)?;
    Ok(Change::SetAttribute { name, value, flags })
}
