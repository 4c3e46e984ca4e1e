//! `open` and its kin, for writing.

use super::guard::{Object, PROTECTED};
use super::links::Names;
use super::{Answer, Call, Fail, Follow, Gift, Grants, Outcome, Place, Step, Where};
use crate::mode::Mode;
use nix::libc;
use picktwo_confine::sys::{self, Identity};
use picktwo_confine::{Errno, memory};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;
use std::time::Duration;

/// What `openat` ignores and `openat2` would refuse.
const KNOWN: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_NONBLOCK
    | libc::O_DSYNC
    | libc::O_SYNC
    | libc::O_DIRECT
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_NOCTTY
    | O_LARGEFILE
    | O_TMPFILE_BIT;
const O_LARGEFILE: i32 = 0o100000;
const O_TMPFILE_BIT: i32 = 0o20000000;
/// What `F_SETFL` sets, `O_NONBLOCK` apart.
const STATUS: i32 = libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME;
const RESOLVE_CACHED: u64 = 0x20;
/// How often, and after which pause, a file with a lease on it is tried again.
const LEASE_TRIES: u32 = 100;
const LEASE_PAUSE: Duration = Duration::from_micros(100);
/// How often a FIFO without a reader is tried again.
const FIFO_PAUSE: Duration = Duration::from_millis(2);

/// One open, as it was asked for.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) flags: i32,
    pub(crate) mode: u32,
}

impl How {
    fn has(&self, flag: i32) -> bool {
        self.flags & flag == flag
    }

    fn access(&self) -> i32 {
        self.flags & libc::O_ACCMODE
    }

    pub(crate) fn exclusive(&self) -> bool {
        self.has(libc::O_CREAT | libc::O_EXCL)
    }

    pub(crate) fn cloexec(&self) -> bool {
        self.has(libc::O_CLOEXEC)
    }

    /// The flags to open what exists, before it was looked at.
    fn existing(&self) -> i32 {
        self.flags & KNOWN & !(libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL) | libc::O_NONBLOCK | libc::O_NOCTTY
    }

    /// Whether the kernel would change nothing by it if the file exists.
    fn only_reads(&self) -> bool {
        self.access() == libc::O_RDONLY && !self.has(libc::O_TRUNC)
    }

    fn writes(&self) -> bool {
        !self.has(libc::O_PATH)
            && (self.access() != libc::O_RDONLY || self.flags & (libc::O_CREAT | libc::O_TRUNC | O_TMPFILE_BIT) != 0)
    }
}

impl Grants {
    pub(crate) fn open(&self, call: &Call<'_>, dirfd: Option<usize>, path: usize, flags: i32, mode: u32) -> Outcome {
        self.open_as(
            call,
            dirfd,
            path,
            How {
                flags,
                // No set-id bits: see `perform`.
                mode: mode & 0o1777,
            },
            0,
        )
    }

    /// `openat2`. Only resolution flags that restrict are carried out; `IN_ROOT` is unknown here, as on an older kernel.
    pub(crate) fn open_how(&self, call: &Call<'_>) -> Outcome {
        const SIZE: usize = 24;
        let size = call.word(3) as usize;
        if size < SIZE {
            return Err(Errno::EINVAL);
        }
        if size > memory::PATH_MAX {
            return Err(Errno::E2BIG);
        }
        let mut bytes = vec![0; size];
        memory::read_exact(call.pid(), call.word(2), &mut bytes).map_err(super::unreadable)?;
        if bytes[SIZE..].iter().any(|&b| b != 0) {
            return Err(Errno::E2BIG);
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let (flags, mode, resolve) = (word(0), word(8), word(16));
        let how = How {
            flags: flags as i32,
            mode: mode as u32 & 0o1777,
        };
        if flags >> 31 == 0 && !how.writes() {
            return if resolve == 0 {
                self.open_read(call, Some(0), 1, how)
            } else {
                Ok(Answer::Proceed)
            };
        }
        let creates = how.has(libc::O_CREAT) || how.flags & O_TMPFILE_BIT != 0;
        if flags & !((KNOWN | libc::O_CLOEXEC | libc::O_PATH | libc::O_ASYNC) as u32 as u64) != 0
            || mode & !0o7777 != 0
            || (mode != 0 && !creates)
        {
            return Err(Errno::EINVAL);
        }
        let restricting =
            sys::resolve::BENEATH | sys::resolve::NO_MAGICLINKS | sys::resolve::NO_SYMLINKS | sys::resolve::NO_XDEV;
        if resolve & RESOLVE_CACHED != 0 {
            return Err(Errno::EAGAIN);
        }
        if resolve & !restricting != 0 {
            return Err(Errno::ENOSYS);
        }
        self.open_as(call, Some(0), 1, how, resolve)
    }

    fn open_as(&self, call: &Call<'_>, dirfd: Option<usize>, path: usize, how: How, resolve: u64) -> Outcome {
        if !how.writes() {
            return self.open_read(call, dirfd, path, how);
        }
        if how.has(libc::O_CREAT | libc::O_DIRECTORY) && how.flags & O_TMPFILE_BIT == 0 {
            return Err(Errno::EINVAL);
        }
        let target = call.target(dirfd, path)?;
        if let Some(outcome) = self.open_terminal(call, &target.path, how) {
            return outcome;
        }
        if resolve != 0 {
            self.restricted(&target, how, resolve)?;
        }
        let follow = !how.has(libc::O_NOFOLLOW) && !how.exclusive();
        let links = if follow { Follow::Yes } else { Follow::Slash };
        self.on_target(call, &target, links, |found| match found {
            Where::In(place) => self.open_place(call, &place, how, follow),
            Where::Out => Ok(Answer::Proceed),
            Where::Nameless(fd, root) => self.reopen(fd, root, how),
            Where::Standard(number) => self.share_standard(number, how),
        })
    }

    /// The restrictions of `openat2`, on the caller's view.
    fn restricted(&self, target: &super::Target, how: How, resolve: u64) -> Result<(), Errno> {
        let base = match target.base.dir() {
            None if resolve & sys::resolve::BENEATH != 0 => return Err(Errno::EXDEV),
            None => self.session_root.as_fd(),
            Some(fd) => fd.as_fd(),
        };
        let nofollow = how.flags & libc::O_NOFOLLOW;
        // An absolute path is absolute in the session's root, not in the launcher's own.
        let within = if matches!(target.base, super::Base::Root) {
            sys::resolve::IN_ROOT
        } else {
            0
        };
        match sys::openat2(
            base,
            &super::cstring(&target.path)?,
            libc::O_PATH | nofollow,
            0,
            resolve | within,
        ) {
            Ok(_) => Ok(()),
            Err(Errno::ENOENT) if how.has(libc::O_CREAT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn open_place(&self, call: &Call<'_>, place: &Place, how: How, follow: bool) -> Step {
        if self.is_reached(place) {
            // Landlock's to decide on.
            return self.leave_to_kernel(place, follow);
        }
        if self.is_moved(place) {
            return self.open_moved(call, place, how);
        }
        if self.mode.get() == Mode::ReadOnly {
            return self.open_read_only(call, place, how);
        }
        if let Some(rule) = self.rule(place)? {
            return self.open_protected(call, place, how, &rule);
        }
        if how.flags & O_TMPFILE_BIT != 0 {
            call.assume_umask()?;
            let fd = self.open_flags(place, how.flags & KNOWN, how.mode)?;
            // It may get a name later, unless it was made never to have one.
            if !how.has(libc::O_EXCL) {
                self.note_written(call, place, &sys::fstat(fd.as_fd())?);
            }
            return self.deliver(call, place, fd, how, how.mode & 0o111 != 0);
        }
        if how.exclusive() {
            return self.create(call, place, how);
        }
        for tries in 0..LEASE_TRIES + 8 {
            match self.open_flags(place, how.existing(), 0) {
                Ok(fd) => return self.open_existing(call, place, fd, how),
                Err(Fail::Errno(Errno::ENOENT)) if how.has(libc::O_CREAT) => match self.create(call, place, how) {
                    // Somebody else was faster.
                    Err(Fail::Errno(Errno::EEXIST)) => continue,
                    other => return other,
                },
                Err(Fail::Errno(Errno::ENXIO)) if !how.has(libc::O_NONBLOCK) => {
                    return self.wait_for_reader(call, place, how);
                }
                // A lease is being asked for at this moment (see `written`), or somebody else holds one: as any blocking open.
                Err(Fail::Errno(Errno::EAGAIN)) if !how.has(libc::O_NONBLOCK) && tries < LEASE_TRIES => {
                    std::thread::sleep(LEASE_PAUSE);
                    continue;
                }
                // A final link is an error of the caller's own asking, not a race.
                Err(Fail::Again) if place.exact && !follow && self.is_link(place) => return Err(Errno::ELOOP.into()),
                Err(fail) => return Err(fail),
            }
        }
        Err(Fail::Again)
    }

    fn open_flags(&self, place: &Place, flags: i32, mode: u32) -> Result<OwnedFd, Fail> {
        // Without O_NOFOLLOW of our own, which would show in the caller's status flags: no link is followed anyway.
        place.open(self, flags, mode)
    }

    fn is_link(&self, place: &Place) -> bool {
        place
            .object(self)
            .is_ok_and(|(_, identity)| identity.kind() == libc::S_IFLNK)
    }

    fn create(&self, call: &Call<'_>, place: &Place, how: How) -> Step {
        self.completing(call, place)?;
        call.assume_umask()?;
        let fd = self.open_flags(place, how.flags & KNOWN | libc::O_CREAT | libc::O_EXCL, how.mode)?;
        let identity = sys::fstat(fd.as_fd())?;
        self.note_written(call, place, &identity);
        let made = super::object(fd.as_fd())?;
        let answer = self.deliver(call, place, fd, how, how.mode & 0o111 != 0)?;
        Ok(match answer {
            Answer::Give(gift) => Answer::Give(Gift {
                created: Some((place.clone(), made)),
                ..gift
            }),
            other => other,
        })
    }

    fn open_existing(&self, call: &Call<'_>, place: &Place, fd: OwnedFd, how: How) -> Step {
        let identity = sys::fstat(fd.as_fd())?;
        match identity.kind() {
            libc::S_IFREG => {}
            libc::S_IFIFO => {
                if !how.has(libc::O_NONBLOCK) {
                    sys::set_status_flags(fd.as_fd(), how.flags & STATUS)?;
                }
                return self.deliver(call, place, fd, how, false);
            }
            libc::S_IFDIR => return Err(Errno::EISDIR.into()),
            _ => return Err(self.refused(call, place, Errno::EACCES, "device")),
        }
        if how.only_reads() {
            // The kernel opens it on the view's read-only mount.
            return Ok(Answer::Proceed);
        }
        let (fd, identity) = match self.no_alias(call, place, &identity)? {
            Names::Inside => (fd, identity),
            Names::Outside => {
                let (_, copy) = self.own_copy(call, place, &identity, !how.has(libc::O_TRUNC))?;
                let fd = self.open_flags(place, how.existing(), 0)?;
                if !sys::fstat(fd.as_fd())?.same(&copy) {
                    return Err(Fail::Again);
                }
                (fd, copy)
            }
        };
        if !how.has(libc::O_NONBLOCK) {
            sys::set_status_flags(fd.as_fd(), how.flags & STATUS)?;
        }
        if how.has(libc::O_TRUNC) {
            self.truncate_object(&fd, 0)?;
        }
        self.note_written(call, place, &identity);
        self.deliver(call, place, fd, how, identity.mode & 0o111 != 0)
    }

    fn deliver(&self, call: &Call<'_>, place: &Place, fd: OwnedFd, how: How, executable: bool) -> Step {
        self.granted(call, place);
        Ok(self.offer(fd, how.cloexec(), executable))
    }

    /// A descriptor that the caller will get. It counts as on its way from here on; to be called with the lock held.
    pub(crate) fn offer(&self, fd: OwnedFd, cloexec: bool, executable: bool) -> Answer {
        self.count_closing(1);
        Answer::Give(Gift {
            fd,
            cloexec,
            executable,
            created: None,
        })
    }

    /// Gives a descriptor to the caller, without the lock: this waits for the caller to run. An executable file is closed here
    /// before the caller goes on: whoever executes a file that is open for writing gets ETXTBSY.
    pub(crate) fn give(&self, call: &Call<'_>, gift: Gift) -> Outcome {
        let Gift {
            fd,
            cloexec,
            executable,
            created,
        } = gift;
        let id = call.request.id;
        let answer = if executable {
            call.listener
                .inject(id, fd.as_fd(), cloexec)
                .map(|number| Answer::Value(number.into()))
        } else {
            match call.listener.inject_and_reply(id, fd.as_fd(), cloexec) {
                // It went away: nobody waits for an answer.
                Ok(_) | Err(Errno::ENOENT) => Ok(Answer::Sent),
                Err(errno) => Err(errno),
            }
        };
        drop(fd);
        self.count_closing(-1);
        if matches!(answer, Err(Errno::EMFILE))
            && let Some((place, made)) = created
        {
            // The kernel takes the number first: a caller without a free one creates nothing.
            self.take_back(call, &place, &made);
        }
        answer
    }

    /// Removes what was just made, unless something else has its name by now.
    fn take_back(&self, call: &Call<'_>, place: &Place, made: &Object) {
        let _alone = (!self.remote).then(|| self.lock.write().unwrap_or_else(PoisonError::into_inner));
        let Ok(_alone) = self.alone(call, place) else { return };
        if self.mode_at(place) == Mode::Edit
            && let Ok((object, identity)) = place.object(self)
            && super::object(object.as_fd()).as_ref() == Ok(made)
            && identity.nlink == 1
            && let Ok(None) = self.rule(place)
            && let (Ok(dir), Ok(name)) = (place.dir(self), place.name())
        {
            let _ = sys::unlinkat(dir.as_fd(), &name, 0);
        }
    }

    /// A FIFO without a reader: the caller waits, this thread does not.
    fn wait_for_reader(&self, call: &Call<'_>, place: &Place, how: How) -> Step {
        let (_, identity) = place.object(self)?;
        if identity.kind() != libc::S_IFIFO {
            return Err(Errno::ENXIO.into());
        }
        let (grants, listener, request) = (call.grants.clone(), call.listener.clone(), *call.request);
        let place = place.clone();
        self.waiting().until(FIFO_PAUSE, move || {
            if !listener.valid(request.id) {
                return true;
            }
            let call = Call {
                grants: &grants,
                listener: &listener,
                request: &request,
            };
            let step = {
                let _shared = (!grants.remote).then(|| grants.lock.read().unwrap_or_else(PoisonError::into_inner));
                grants.open_for_reader(&place, how, &identity)
            };
            let outcome = match step {
                Err(Fail::Errno(Errno::ENXIO)) => return false,
                Err(Fail::Errno(errno)) => Err(errno),
                Err(Fail::Again) => Err(Errno::EACCES),
                Ok(answer) => Ok(answer),
            };
            super::answer(&call, outcome);
            true
        });
        Ok(Answer::Sent)
    }

    /// One try: `ENXIO` while nobody reads.
    fn open_for_reader(&self, place: &Place, how: How, fifo: &Identity) -> Step {
        if self.mode.get() == Mode::ReadOnly {
            return Err(Errno::EROFS.into());
        }
        let flags = how.flags & KNOWN & !(libc::O_CREAT | libc::O_TRUNC);
        let fd = self.open_flags(place, flags | libc::O_NONBLOCK, 0)?;
        let now = sys::fstat(fd.as_fd())?;
        if now.kind() != libc::S_IFIFO || !now.same(fifo) {
            return Err(Errno::EACCES.into());
        }
        sys::set_status_flags(fd.as_fd(), how.flags & STATUS)?;
        Ok(self.offer(fd, how.cloexec(), false))
    }

    fn open_read_only(&self, call: &Call<'_>, place: &Place, how: How) -> Step {
        let (_, identity) = match place.object(self) {
            Ok(found) => found,
            Err(Fail::Errno(Errno::ENOENT)) if how.has(libc::O_CREAT) => {
                place.dir(self)?;
                return Err(self.refused(call, place, Errno::EROFS, "read-only"));
            }
            Err(fail) => return Err(fail),
        };
        if identity.kind() == libc::S_IFLNK && !place.exact {
            return Err(Fail::Again);
        }
        if how.exclusive() {
            return Err(Errno::EEXIST.into());
        }
        match identity.kind() {
            libc::S_IFLNK => return Err(Errno::ELOOP.into()),
            libc::S_IFDIR if how.flags & O_TMPFILE_BIT == 0 => return Err(Errno::EISDIR.into()),
            _ if how.only_reads() && how.flags & O_TMPFILE_BIT == 0 => return Ok(Answer::Proceed),
            _ => {}
        }
        Err(self.refused(call, place, Errno::EROFS, "read-only"))
    }

    fn open_protected(&self, call: &Call<'_>, place: &Place, how: How, rule: &picktwo_policies::protect::Rule) -> Step {
        let present = match place.object(self) {
            Ok((_, identity)) => Some(identity),
            Err(Fail::Errno(Errno::ENOENT)) => None,
            Err(fail) => return Err(fail),
        };
        match present {
            Some(_) if how.exclusive() => return Err(Errno::EEXIST.into()),
            Some(identity) if identity.kind() == libc::S_IFLNK => return Err(Errno::ELOOP.into()),
            Some(identity) if identity.kind() == libc::S_IFDIR => return Err(Errno::EISDIR.into()),
            Some(_) if how.only_reads() && how.flags & O_TMPFILE_BIT == 0 => return Ok(Answer::Proceed),
            None if !how.has(libc::O_CREAT) => return Err(Errno::ENOENT.into()),
            _ => {}
        }
        if rule.kind.vetted() && how.flags & O_TMPFILE_BIT == 0 {
            return self.stage(call, place, how, rule, present);
        }
        Err(self.refused(call, place, PROTECTED, &rule.name))
    }

    /// A file without a name, by the caller's own descriptor: on the view's read-only mount the kernel refuses.
    fn reopen(&self, fd: OwnedFd, root: usize, how: How) -> Step {
        if self.mode.get() == Mode::ReadOnly && !self.roots[root].own {
            return Err(Errno::EROFS.into());
        }
        let identity = sys::fstat(fd.as_fd())?;
        if identity.kind() != libc::S_IFREG {
            return Err(Errno::EACCES.into());
        }
        let flags = how.flags & KNOWN & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOFOLLOW);
        let own = sys::openat(sys::CWD, &sys::fd_path(fd.as_fd()), flags, 0)?;
        if how.has(libc::O_TRUNC) {
            self.truncate_object(&own, 0)?;
        }
        Ok(self.offer(own, how.cloexec(), identity.mode & 0o111 != 0))
    }

    /// `/dev/stdout` and its kin, where the person redirected them: the caller shares the launcher's own descriptor, which it has
    /// anyway, instead of opening a file outside of the workspace.
    fn share_standard(&self, number: usize, how: How) -> Step {
        let Some(Some((_, own))) = self.standard.get(number) else {
            return Ok(Answer::Proceed);
        };
        let has = sys::status_flags(own.as_fd())? & libc::O_ACCMODE;
        if has != libc::O_RDWR && has != how.access() {
            return Ok(Answer::Proceed);
        }
        let copy = own.try_clone().map_err(|_| Errno::EMFILE)?;
        Ok(self.offer(copy, how.cloexec(), false))
    }

    pub(crate) fn truncate_object(&self, fd: &OwnedFd, length: i64) -> Result<(), Errno> {
        sys::truncate(&sys::fd_path(fd.as_fd()), length)
    }
}

/// Whether anything of an identity is executable.
pub(crate) fn executable(identity: &Identity) -> bool {
    identity.mode & 0o111 != 0
}
