//! Protected contents that ordinary tools need: git's configuration, pointers and state, todo lists.
//!
//! What reaches such a path is always the launcher's own copy, in an inode that no process of the session has ever had open
//! for writing. Two ways lead there:
//! - a rename or a hard link of a lock file (`config.lock` → `config`): the source is read, vetted, and written anew;
//! - a direct write (`git worktree add`, libgit2): the caller writes to a memory file; once nobody has that open for writing any
//!   more, which a read lease tells, its content is sealed, vetted and put in the place of the real file. This happens before the
//!   session's next granted call is decided, and within a fraction of a millisecond if there is none.

use super::guard::{Object, PROTECTED, object};
use super::open::How;
use super::{Call, Fail, Grants, Place, Step, cstring};
use crate::mode::Mode;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, Identity};
use picktwo_policies::gitconfig;
use picktwo_policies::protect::{Kind, Rule};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often a staged content is looked at if the session makes no granted call.
const PAUSE: Duration = Duration::from_micros(200);
/// How long our own copies of descriptors may take to be closed.
const SHORT: Duration = Duration::from_millis(5);
/// What `git worktree add` writes.
const COMMONDIR: &[u8] = b"../..\n";
/// How names of files begin that are about to take a protected place: `policies/protected.toml` protects them.
const RESERVED: &str = ".picktwo-";
/// At most this many contents are staged at a time.
const MAX_STAGED: usize = 64;

/// A content that is being written.
struct Stage {
    memory: OwnedFd,
    place: Place,
    rule: Rule,
    before: Vec<u8>,
    /// The file at the place, by which what lies there later is told from another one that came there, and the directory that it is in.
    real: Object,
    parent: Object,
    pid: i32,
}

impl Stage {
    /// Goes on with the file that took the place of its own.
    fn follow(&mut self, renewed: &[(Object, Object)]) {
        for (former, now) in renewed {
            if *former == self.real {
                self.real = *now;
            }
        }
    }
}

/// Contents that are being written.
#[derive(Default)]
pub(crate) struct Staged {
    count: AtomicUsize,
    list: Mutex<Vec<Stage>>,
}

impl Grants {
    /// Gives the caller a memory file in place of a protected one.
    pub(crate) fn stage(
        &self,
        call: &Call<'_>,
        place: &Place,
        how: How,
        rule: &Rule,
        present: Option<Identity>,
    ) -> Step {
        let refuse = |why: &str| self.refused(call, place, PROTECTED, &format!("{}: {why}", rule.name));
        if present.is_some_and(|identity| identity.kind() != libc::S_IFREG || identity.nlink > 1) {
            return Err(refuse("is no ordinary file of one name"));
        }
        let names = place.names();
        if rule.kind == Kind::Commondir && gitconfig::vet_commondir(COMMONDIR, &names[..names.len() - 1]).is_err() {
            return Err(refuse("has no place here"));
        }
        if self.staged.count.load(Ordering::Acquire) >= MAX_STAGED {
            return Err(Errno::EAGAIN.into());
        }
        let before = match present {
            Some(_) => self.read_place(place)?,
            None => Vec::new(),
        };
        if present.is_none() {
            // The name appears at once, as it would; an empty file of each kind says nothing.
            call.assume_umask()?;
            let fd = place.open(
                self,
                libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW,
                how.mode & 0o666,
            )?;
            self.guard.mark_created(fd.as_fd());
            // Only one content is ever accepted, and git reads it back before its next granted call.
            if rule.kind == Kind::Commondir {
                File::from(fd).write_all(COMMONDIR).map_err(|_| Errno::ENOSPC)?;
            }
        }
        let (file, _) = place.object(self)?;
        let (real, parent) = (object(file.as_fd())?, object(place.dir(self)?.as_fd())?);
        let memory = memfd_create(c"picktwo-vetted", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        if how.flags & libc::O_TRUNC == 0 {
            File::from(memory.try_clone().map_err(|_| Errno::EMFILE)?)
                .write_all(&before)
                .map_err(|_| Errno::ENOSPC)?;
        }
        let path = sys::fd_path(memory.as_fd());
        let flags = how.flags & (libc::O_ACCMODE | libc::O_APPEND | libc::O_NONBLOCK);
        let theirs = sys::openat(sys::CWD, &path, flags, 0)?;
        // Read-only, but opened for writing in truth: sealing needs a writable descriptor. Its own write count is dropped with it.
        let reader = sys::openat(sys::CWD, &path, libc::O_RDONLY, 0)?;
        drop(memory);
        let stage = Stage {
            memory: reader,
            place: place.clone(),
            rule: rule.clone(),
            before,
            real,
            parent,
            pid: call.pid(),
        };
        self.staged
            .list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(stage);
        self.staged.count.fetch_add(1, Ordering::AcqRel);
        let grants = call.grants.clone();
        self.waiting().until(PAUSE, move || {
            grants.settle_staged();
            grants.staged.count.load(Ordering::Acquire) == 0
        });
        self.granted(call, place);
        Ok(self.offer(theirs, how.cloexec(), false))
    }

    /// Publishes every staged content that nobody can write to any more.
    pub(crate) fn settle_staged(&self) {
        if self.staged.count.load(Ordering::Acquire) == 0 {
            return;
        }
        // Our own copy of a descriptor that was just handed over counts as a writer, too.
        self.wait_for_closing(SHORT);
        // The locks before the list, as in `stage`.
        let _shared = (!self.remote).then(|| self.lock.read().unwrap_or_else(PoisonError::into_inner));
        // In vain: it is tried again at the next call, or in a moment.
        let Ok(_alone) = self.across.enter() else { return };
        let mut list = self.staged.list.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Vec::new();
        let mut renewed = Vec::new();
        for mut stage in std::mem::take(&mut *list) {
            stage.follow(&renewed);
            if sys::set_lease(stage.memory.as_fd(), libc::F_RDLCK).is_err() {
                kept.push(stage);
                continue;
            }
            let _ = sys::set_lease(stage.memory.as_fd(), libc::F_UNLCK);
            renewed.extend(self.settle(&stage));
            self.staged.count.fetch_sub(1, Ordering::AcqRel);
        }
        kept.iter_mut().for_each(|stage: &mut Stage| stage.follow(&renewed));
        *list = kept;
    }

    /// Answers the file that was replaced, and by which.
    fn settle(&self, stage: &Stage) -> Option<(Object, Object)> {
        let result = (|| {
            // A descriptor for reading may still be open in the session and be reopened for writing: after this, in vain.
            let writer = sys::openat(sys::CWD, &sys::fd_path(stage.memory.as_fd()), libc::O_RDWR, 0)
                .map_err(|_| "cannot be sealed".to_owned())?;
            // No new writes. What writes into the pages by pins of its own (pipes, direct I/O) changes no copy of ours, and
            // F_SEAL_WRITE would wait for it.
            let seals = SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE)
                | SealFlag::F_SEAL_GROW
                | SealFlag::F_SEAL_SHRINK
                | SealFlag::F_SEAL_SEAL;
            fcntl(&writer, FcntlArg::F_ADD_SEALS(seals)).map_err(|_| "cannot be sealed".to_owned())?;
            let content = read_all(&File::from(writer)).map_err(|_| "is too long".to_owned())?;
            if content == stage.before {
                return Ok(None);
            }
            if self.mode.get() == Mode::ReadOnly {
                return Err("read-only".to_owned());
            }
            let here = || Some((stage.place.object(self).ok()?.0, stage.place.dir(self).ok()?));
            let same = here().is_some_and(|(file, dir)| {
                object(file.as_fd()) == Ok(stage.real) && object(dir.as_fd()) == Ok(stage.parent)
            });
            if !same {
                return Err("another file lies there than when it was opened".to_owned());
            }
            let present = self.read_place(&stage.place).map_err(|_| "cannot be read".to_owned())?;
            let text = self.vetted(&stage.rule, &stage.place, &present, &content)?;
            let fd = self
                .overwrite(&stage.place, &text)
                .map_err(|_| "cannot be written".to_owned())?;
            Ok(object(fd.as_fd()).ok().map(|now| (stage.real, now)))
        })();
        result.unwrap_or_else(|why: String| {
            self.events.tell(true, || super::Event {
                pid: stage.pid,
                call: "write",
                path: self.absolute(&stage.place),
                refused: Some(PROTECTED),
                rule: Some(format!("{}: {why}", stage.rule.name)),
                suppressed: 0,
            });
            None
        })
    }

    /// A rename of a lock file onto a protected path.
    pub(crate) fn publish(
        &self,
        call: &Call<'_>,
        from: &Place,
        to: &Place,
        rule: &Rule,
        source: &Identity,
    ) -> Result<(), Fail> {
        let text = self.vetted_source(call, from, to, rule)?;
        let fresh = match to.object(self) {
            Ok((former, _)) => self.guard.was_created(former.as_fd()),
            Err(_) => true,
        };
        let fd = self.put(to, &text, source.mode, None, 0)?;
        if fresh {
            self.guard.mark_created(fd.as_fd());
        }
        // The lock keeps its name until the end, so that whatever ends this process here leaves what a crashed git leaves.
        let (dir, name) = (from.dir(self)?, from.name()?);
        if sys::fstatat(dir.as_fd(), &name, libc::AT_SYMLINK_NOFOLLOW).is_ok_and(|now| now.same(source)) {
            sys::unlinkat(dir.as_fd(), &name, 0)?;
        }
        Ok(())
    }

    /// A hard link of a lock file to a protected path that does not exist.
    pub(crate) fn publish_copy(
        &self,
        call: &Call<'_>,
        from: &Place,
        to: &Place,
        rule: &Rule,
        source: &Identity,
    ) -> Result<(), Fail> {
        let text = self.vetted_source(call, from, to, rule)?;
        let fd = self.put(to, &text, source.mode, None, libc::RENAME_NOREPLACE)?;
        self.guard.mark_created(fd.as_fd());
        Ok(())
    }

    /// Puts a vetted content at a place, whole: in a new inode that no process of any session can have open for writing, since its name
    /// until then is protected, too. With mode, owner and attributes of another file, if there is one.
    fn put(
        &self,
        place: &Place,
        text: &[u8],
        mode: u32,
        as_of: Option<(&OwnedFd, &Identity)>,
        flags: u32,
    ) -> Result<OwnedFd, Fail> {
        let mut random = [0; 8];
        sys::random(&mut random)?;
        let beside = place.sibling(format!("{RESERVED}{:016x}", u64::from_ne_bytes(random)).as_bytes());
        let new = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let fd = beside.open(self, new, mode & 0o666)?;
        let (dir, own, name) = (place.dir(self)?, beside.name()?, place.name()?);
        let done = (|| {
            match as_of {
                Some((source, identity)) => super::links::like(source, &fd, identity, false)?,
                None => sys::fchmodat2(fd.as_fd(), c"", mode & 0o777, libc::AT_EMPTY_PATH)?,
            }
            let mut file = File::from(fd.try_clone().map_err(|_| Errno::EMFILE)?);
            file.write_all(text).map_err(|_| Errno::ENOSPC)?;
            sys::renameat2(dir.as_fd(), &own, dir.as_fd(), &name, flags)
        })();
        if let Err(errno) = done {
            let _ = sys::unlinkat(dir.as_fd(), &own, 0);
            return Err(errno.into());
        }
        Ok(fd)
    }

    fn vetted_source(&self, call: &Call<'_>, from: &Place, to: &Place, rule: &Rule) -> Result<Vec<u8>, Fail> {
        if !from.exact || !to.exact {
            return Err(Fail::Again);
        }
        let content = self.read_place(from)?;
        let present = match self.read_place(to) {
            Ok(present) => present,
            Err(Fail::Errno(Errno::ENOENT)) => Vec::new(),
            Err(fail) => return Err(fail),
        };
        self.vetted(rule, to, &present, &content)
            .map_err(|why| self.refused(call, to, PROTECTED, &format!("{}: {why}", rule.name)))
    }

    /// Replaces a configuration that is about to come into force by a vetted copy in a new inode.
    pub(crate) fn renew_config(&self, place: &Place) -> Result<(), Fail> {
        let (_, identity) = place.object(self)?;
        if identity.kind() != libc::S_IFREG {
            return Err(PROTECTED.into());
        }
        let content = self.read_place(place)?;
        let text = gitconfig::vet(&content).map_err(|_| PROTECTED)?;
        let fd = self.put(place, &text, identity.mode, None, 0)?;
        self.guard.mark_created(fd.as_fd());
        Ok(())
    }

    /// What the launcher writes for a content, or why it does not.
    pub(crate) fn vetted(&self, rule: &Rule, place: &Place, present: &[u8], content: &[u8]) -> Result<Vec<u8>, String> {
        let names = place.names();
        let directory = &names[..names.len().saturating_sub(1)];
        let root = &self.roots[place.root].path;
        let text = match rule.kind {
            Kind::GitConfig => gitconfig::vet_change_at(present, content, directory),
            Kind::Gitfile => gitconfig::vet_gitfile(content, root, directory),
            Kind::Commondir => gitconfig::vet_commondir(content, directory),
            Kind::WorktreeGitdir => gitconfig::vet_worktree_gitdir(content, root, directory),
            Kind::Todo => gitconfig::vet_todo(content),
            Kind::State => gitconfig::vet_state(content, names.last().copied().unwrap_or_default()),
            Kind::Refuse | Kind::Directory => return Err("has no vetted content".into()),
        };
        let text = text.map_err(|refused| refused.to_string())?;
        match rule.kind {
            Kind::Gitfile => self.leads_beneath(place, text.strip_prefix(b"gitdir: ").unwrap_or(&text), true)?,
            Kind::WorktreeGitdir => self.leads_beneath(place, &text, false)?,
            Kind::GitConfig => self.leads_back(place, present, &text)?,
            _ => {}
        }
        Ok(text)
    }

    /// Whether a path in a content leads to a directory beneath the root without a symbolic link; `itself`, or what it lies in.
    fn leads_beneath(&self, place: &Place, path: &[u8], itself: bool) -> Result<(), String> {
        let path = path.strip_suffix(b"\n").unwrap_or(path);
        let root = &self.roots[place.root];
        let rel = match path
            .strip_prefix(&root.path[..])
            .and_then(|rest| rest.strip_prefix(b"/"))
        {
            Some(rel) => rel.to_vec(),
            None => [place.split().0, b"/", path].concat(),
        };
        let mut rel = rel.strip_prefix(b"/").unwrap_or(&rel).to_vec();
        if !itself {
            rel.truncate(rel.iter().rposition(|&b| b == b'/').unwrap_or(0));
        }
        if rel.is_empty() {
            rel.push(b'.');
        }
        let rel = cstring(&rel).map_err(|_| "is no path".to_owned())?;
        sys::openat2(
            root.dir.as_fd(),
            &rel,
            libc::O_PATH | libc::O_DIRECTORY,
            0,
            super::BENEATH,
        )
        .map(drop)
        .map_err(|_| "leads to no directory of the workspace".to_owned())
    }

    /// The content of a regular file, up to what is vetted at all.
    pub(crate) fn read_place(&self, place: &Place) -> Result<Vec<u8>, Fail> {
        let fd = place.open(
            self,
            libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY,
            0,
        )?;
        if sys::fstat(fd.as_fd())?.kind() != libc::S_IFREG {
            return Err(PROTECTED.into());
        }
        read_all(&File::from(fd)).map_err(|_| Errno::EFBIG.into())
    }

    /// Puts a vetted content in the place of a file. Never into it: whoever reads meanwhile finds all of the one or of the other.
    fn overwrite(&self, place: &Place, text: &[u8]) -> Result<OwnedFd, Fail> {
        let former = place.open(self, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW, 0)?;
        let identity = sys::fstat(former.as_fd())?;
        if identity.kind() != libc::S_IFREG || identity.nlink != 1 {
            return Err(PROTECTED.into());
        }
        let fd = self.put(place, text, identity.mode, Some((&former, &identity)), 0)?;
        if self.guard.was_created(former.as_fd()) {
            self.guard.mark_created(fd.as_fd());
        }
        Ok(fd)
    }
}

fn read_all(file: &File) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(gitconfig::MAX_FILE as u64 + 1).read_to_end(&mut content)?;
    if content.len() > gitconfig::MAX_FILE {
        Err(std::io::ErrorKind::FileTooLarge.into())
    } else {
        Ok(content)
    }
}
