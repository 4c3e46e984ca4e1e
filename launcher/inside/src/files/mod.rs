//! Granted changes: what the agent may not do by itself and the launcher does for it, one stopped system call at a time.
//!
//! A call arrives by seccomp notification. Its arguments are copied once; its target is resolved to a place beneath a granted
//! root (`resolve`); mode and protected paths decide (`guard`, `vet`); the operation is performed on the launcher's own
//! descriptors, which lie on the host's writable mount, and the caller gets the result, the descriptor or an error number.
//! What lies beneath no granted root is left to the kernel: every other mount of the session's view is read-only or private, and
//! the caller's own Landlock domain holds as well, so that nothing can be gained by changing an argument meanwhile.
//!
//! Without namespaces ([`Shared`]) there are no such mounts, and only what Landlock itself decides on is left to the kernel: changes of
//! metadata never are. The session's own directories are roots of their own there.

mod across;
mod caller;
mod completing;
mod events;
mod guard;
mod jobs;
mod links;
mod metadata;
mod moves;
mod names;
mod open;
mod proc;
mod rename;
mod resolve;
mod settings;
mod socket_files;
mod submodules;
mod terminals;
mod vet;
mod waiting;
mod walk;
mod written;

pub use across::Lock;
pub(crate) use caller::{Base, Call, Target, give_back_state, own_state, unreadable};
pub use events::{Event, Sink};
pub use guard::Finder;
pub(crate) use guard::object;
pub(crate) use resolve::{BENEATH, Follow, Place, Where, cstring};
pub(crate) use socket_files::Bound;
pub(crate) use waiting::Waiting;
pub use written::StillWritten;

use crate::mode::{Mode, SharedMode};
use guard::Guard;
use nix::libc;
use picktwo_confine::notify::{Listener, Request};
use picktwo_confine::sys::{self, Identity};
use picktwo_confine::{Errno, Error};
use picktwo_policies::protect::Protected;
use resolve::RootDir;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A directory that the session may change in edit mode.
pub struct Root {
    /// Its absolute path without symbolic links, the same inside and outside.
    pub path: PathBuf,
    /// The directory on the host's mount.
    pub dir: OwnedFd,
    /// The session's own, where nothing is mounted for it: changes are its own affair in both modes, and no path is protected. The
    /// caller's own rights allow what Landlock sees; what Landlock does not see is performed here.
    pub own: bool,
    /// One of the session's own that lies elsewhere than the path by which it is known (`/dev/shm`): everything there is performed.
    pub moved: bool,
}

/// What takes a view's place where there is none.
#[derive(Debug)]
pub struct Shared {
    /// Files that are opened for reading in place of the host's, by the host's path.
    pub replaced: Vec<(PathBuf, OwnedFd)>,
    /// Processes of picktwo's own that the launcher could look into, and the session must not. Until they are set, nobody is looked
    /// into.
    pub others: Arc<OnceLock<Vec<i32>>>,
}

/// What granted changes need to know.
pub struct Config {
    /// The workspace first, then what policy adds.
    pub roots: Vec<Root>,
    /// Directories of the view that are the session's own and writable there without a grant. They count only where they lie
    /// beneath a root.
    pub private: Vec<PathBuf>,
    /// The root directory of the session's view (`/proc/<init>/root`).
    pub session_root: OwnedFd,
    /// What this session shares with others of the same roots: a lock for each directory from the root of the file system down to each
    /// of the roots, sorted by path, so that each session takes them in the same order.
    pub locks: Vec<Lock>,
    /// Where there is no view.
    pub shared: Option<Shared>,
    /// The mode.
    pub mode: SharedMode,
    /// Protected paths.
    pub protected: Protected,
    /// Completes them, once, before the first change is decided on: a session that never changes anything need not wait for it.
    pub finder: Option<Finder>,
    /// Receives what the record should know, at a bounded rate, on a serving thread that everything else may have to wait for:
    /// it only hands the event on.
    pub events: Sink,
}

/// How a call is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// With this result.
    Value(i64),
    /// The kernel performs it in the caller's own right.
    Proceed,
    /// Once more, after a signal that waits for the caller.
    Again,
    /// With a descriptor.
    Give(Gift),
    /// It was answered already, or will be.
    Sent,
}

/// A descriptor on its way to the caller.
#[derive(Debug)]
pub(crate) struct Gift {
    fd: OwnedFd,
    cloexec: bool,
    /// The file may be executed.
    executable: bool,
    /// The place at which the file was just made.
    created: Option<(Place, guard::Object)>,
}

/// Why an operation did not take place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fail {
    /// The caller gets this error.
    Errno(Errno),
    /// A link or a mount was met, or something moved: resolve again, the exact way.
    Again,
}

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Fail {
        Fail::Errno(errno)
    }
}

pub(crate) type Outcome = Result<Answer, Errno>;
pub(crate) type Step = Result<Answer, Fail>;

/// The granted changes of one session.
pub struct Grants {
    roots: Vec<RootDir>,
    session_root: OwnedFd,
    shared: Option<Shared>,
    mode: SharedMode,
    guard: Guard,
    events: events::Events,
    /// Renames and hard links exclude everything else, so that nothing moves between a check and what it allows.
    lock: RwLock<()>,
    /// Held by renames and hard links, and by calls whose decision depends on whether a directory is a git directory.
    across: across::Across,
    /// A root lies on a file system that may hang: then calls do not hold the lock, which one of them could hold for ever.
    remote: bool,
    proc: OwnedFd,
    fds: OwnedFd,
    /// The launcher's own descriptors 0 to 2, where they are files or devices.
    standard: Vec<Option<(Identity, OwnedFd)>>,
    /// What the launcher's standard descriptors are, whatever that is.
    given: Vec<Identity>,
    /// Counts what may give a directory another path.
    moves: AtomicU64,
    /// Calls that changed somebody's umask.
    umasks: AtomicU64,
    /// Descriptors that are on their way to callers and not closed here yet.
    closing: AtomicUsize,
    staged: vet::Staged,
    terminals: terminals::Terminals,
    /// The person's.
    persons: settings::Persons,
    written: written::Written,
    waiting: Waiting,
}

impl Grants {
    /// Prepares granted changes. To be called before the launcher installs its filter.
    pub fn new(config: Config) -> Result<Arc<Grants>, Error> {
        // Signals that would end the launcher: whoever opens a file while it is asked about by a lease causes the one, a granted
        // call on a file that would grow beyond the person's limit (`ulimit -f`) the other; it fails with EFBIG then.
        for (signal, option) in [(libc::SIGIO, "SIGIO"), (libc::SIGXFSZ, "SIGXFSZ")] {
            sys::signal_ignore(signal).map_err(|errno| Error::ProcessControl { option, errno })?;
        }
        let open = |path: &str| {
            let c = cstring(path.as_bytes()).map_err(|errno| Error::Open {
                path: path.into(),
                errno,
            })?;
            sys::openat(sys::CWD, &c, libc::O_PATH | libc::O_DIRECTORY, 0).map_err(|errno| Error::Open {
                path: path.into(),
                errno,
            })
        };
        let mut roots = Vec::new();
        let mut remote = false;
        for root in config.roots {
            remote |= nix::sys::statfs::fstatfs(&root.dir).is_ok_and(|fs| may_hang(fs.filesystem_type().0));
            let path = root.path.as_os_str().as_bytes();
            let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
            let private = config.private.iter().filter_map(|p| {
                let rel = p.as_os_str().as_bytes().strip_prefix(&path[..])?.strip_prefix(b"/")?;
                (!rel.is_empty()).then(|| rel.to_vec())
            });
            roots.push(RootDir {
                private: private.collect(),
                path,
                dir: root.dir,
                own: root.own,
                moved: root.moved,
            });
        }
        let standard = standard_descriptors();
        let persons = settings::Persons::new(&standard, &config.session_root);
        Ok(Arc::new(Grants {
            roots,
            session_root: config.session_root,
            shared: config.shared,
            mode: config.mode,
            guard: Guard::new(config.protected, config.finder),
            events: events::Events::new(config.events),
            lock: RwLock::new(()),
            across: across::Across::new(config.locks),
            remote,
            proc: open("/proc")?,
            fds: open("/proc/self/fd")?,
            standard,
            given: given(),
            moves: AtomicU64::new(0),
            umasks: AtomicU64::new(0),
            closing: AtomicUsize::new(0),
            staged: vet::Staged::default(),
            terminals: terminals::Terminals::default(),
            persons,
            written: written::Written::default(),
            waiting: Waiting::default(),
        }))
    }

    /// The mode at this moment.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// Changes the mode and waits for the operations that were decided before: when this returns, every further change
    /// is decided by the new mode. Returns the former mode.
    pub fn set_mode(&self, mode: Mode) -> Mode {
        let former = self.mode.set(mode);
        if mode == Mode::Edit {
            self.guard.links().forget();
        }
        if !self.remote {
            drop(self.lock.write().unwrap_or_else(PoisonError::into_inner));
            // Descriptors that were decided on and are on their way.
            self.wait_for_closing(Duration::from_secs(1));
        }
        former
    }

    /// Whether this call is one that [`Grants::handle`] answers.
    pub fn serves(nr: i64) -> bool {
        call_name(nr).is_some()
    }

    /// Serves one request. Any thread may call this.
    pub fn handle(self: &Arc<Self>, listener: &Arc<Listener>, request: &Request) {
        let call = Call {
            grants: self,
            listener,
            request,
        };
        self.settle_staged();
        let outcome = match call_name(request.nr) {
            Some(_) => self.dispatch(&call),
            None => Err(Errno::ENOSYS),
        };
        give_back_state();
        answer(&call, outcome);
    }

    fn dispatch(&self, call: &Call<'_>) -> Outcome {
        match call.request.nr {
            libc::SYS_open => self.open(call, None, 0, call.int(1), call.int(2) as u32),
            libc::SYS_creat => self.open(
                call,
                None,
                0,
                libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC,
                call.int(1) as u32,
            ),
            libc::SYS_openat => self.open(call, Some(0), 1, call.int(2), call.int(3) as u32),
            libc::SYS_openat2 => self.open_how(call),
            libc::SYS_mkdir => self.make_dir(call, None, 0, call.int(1) as u32),
            libc::SYS_mkdirat => self.make_dir(call, Some(0), 1, call.int(2) as u32),
            libc::SYS_rmdir => self.remove(call, None, 0, libc::AT_REMOVEDIR),
            libc::SYS_unlink => self.remove(call, None, 0, 0),
            libc::SYS_unlinkat => self.remove(call, Some(0), 1, call.int(2)),
            libc::SYS_symlink => self.make_link(call, 0, None, 1),
            libc::SYS_symlinkat => self.make_link(call, 0, Some(1), 2),
            libc::SYS_mknod => self.make_node(call, None, 0, call.int(1) as u32, call.word(2)),
            libc::SYS_mknodat => self.make_node(call, Some(0), 1, call.int(2) as u32, call.word(3)),
            libc::SYS_link => self.hard_link(call, (None, 0), (None, 1), 0),
            libc::SYS_linkat => self.hard_link(call, (Some(0), 1), (Some(2), 3), call.int(4)),
            libc::SYS_rename => self.rename(call, (None, 0), (None, 1), 0),
            libc::SYS_renameat => self.rename(call, (Some(0), 1), (Some(2), 3), 0),
            libc::SYS_renameat2 => self.rename(call, (Some(0), 1), (Some(2), 3), call.int(4) as u32),
            libc::SYS_umask => {
                self.umasks.fetch_add(1, Ordering::AcqRel);
                Ok(Answer::Proceed)
            }
            libc::SYS_pidfd_open => self.open_process(call),
            libc::SYS_setpgid => self.join_group(call),
            libc::SYS_ioctl if call.int(1) as u32 == libc::TIOCSPGRP as u32 => self.set_foreground(call),
            libc::SYS_ioctl => self.set_settings(call),
            _ => self.metadata(call),
        }
    }

    /// Performs an operation on one target, the quick way if the kernel meets no link, otherwise the exact way.
    pub(crate) fn on_target(
        &self,
        call: &Call<'_>,
        target: &Target,
        follow: Follow,
        op: impl Fn(Where) -> Step,
    ) -> Outcome {
        let _shared = (!self.remote).then(|| self.lock.read().unwrap_or_else(PoisonError::into_inner));
        // Calls that could turn a directory into a git directory, or that depend on whether it is one, come one at a time.
        let run = |found: Where| {
            let _alone = match &found {
                Where::In(place) => self.alone_in_git(call, place)?,
                _ => None,
            };
            op(found)
        };
        if let Some(place) = self.quick(target) {
            match run(Where::In(place)) {
                Ok(answer) => return Ok(answer),
                Err(Fail::Errno(errno)) => return Err(errno),
                Err(Fail::Again) => {}
            }
        }
        for _ in 0..4 {
            match run(self.exact(call, target, follow)?) {
                Ok(answer) => return Ok(answer),
                Err(Fail::Errno(errno)) => return Err(errno),
                Err(Fail::Again) => continue,
            }
        }
        Err(Errno::EACCES)
    }

    /// Tells the record about a refusal and gives the error.
    pub(crate) fn refused(&self, call: &Call<'_>, place: &Place, errno: Errno, rule: &str) -> Fail {
        self.tell(call, place, Some(errno), Some(rule));
        Fail::Errno(errno)
    }

    /// Tells the record about a grant.
    pub(crate) fn granted(&self, call: &Call<'_>, place: &Place) {
        self.tell(call, place, None, None);
    }

    fn tell(&self, call: &Call<'_>, place: &Place, refused: Option<Errno>, rule: Option<&str>) {
        if self.is_own(place) && refused.is_none() {
            return;
        }
        self.events.tell(refused.is_some(), || Event {
            pid: call.pid(),
            call: call_name(call.request.nr)
                .or_else(|| (call.request.nr == libc::SYS_bind).then_some("bind"))
                .unwrap_or("?"),
            path: self.absolute(place),
            refused,
            rule: rule.map(str::to_owned),
            suppressed: 0,
        });
    }

    /// Tells the record about a refusal that came in a flood and was the last: for the session's end.
    pub fn tell_rest(&self) {
        self.events.rest();
    }

    /// The path that people know a place by.
    pub(crate) fn absolute(&self, place: &Place) -> PathBuf {
        let root = &self.roots[place.root].path;
        let bytes = if place.rel.is_empty() {
            root.clone()
        } else {
            [&root[..], b"/", &place.rel].concat()
        };
        PathBuf::from(OsString::from_vec(bytes))
    }

    /// Whether a place lies in one of the session's own directories.
    pub(crate) fn is_own(&self, place: &Place) -> bool {
        self.roots[place.root].own
    }

    /// Whether the caller's own rights reach a place: what Landlock decides on is left to it there.
    pub(crate) fn is_reached(&self, place: &Place) -> bool {
        self.is_own(place) && !self.roots[place.root].moved
    }

    /// Leaves a call to the kernel, at a place that the caller's own rights reach: once no link is on the way that leads where they do not.
    pub(crate) fn leave_to_kernel(&self, place: &Place, follow: bool) -> Step {
        if !place.exact {
            drop(place.dir(self)?);
            if follow
                && let Ok((_, identity)) = place.object(self)
                && identity.kind() == libc::S_IFLNK
            {
                return Err(Fail::Again);
            }
        }
        Ok(Answer::Proceed)
    }

    /// Whether a place lies elsewhere than its path says.
    pub(crate) fn is_moved(&self, place: &Place) -> bool {
        self.roots[place.root].moved
    }

    /// The mode that counts at a place.
    pub(crate) fn mode_at(&self, place: &Place) -> Mode {
        if self.is_own(place) {
            Mode::Edit
        } else {
            self.mode.get()
        }
    }

    /// In read-only mode: refuses a change to an object that exists; an object that does not is `ENOENT`.
    pub(crate) fn read_only(&self, call: &Call<'_>, place: &Place) -> Result<(), Fail> {
        if self.mode_at(place) == Mode::Edit {
            return Ok(());
        }
        place.object(self)?;
        Err(self.refused(call, place, Errno::EROFS, "read-only"))
    }

    /// In read-only mode: refuses to make a name; one that exists is `EEXIST`.
    pub(crate) fn read_only_new(&self, call: &Call<'_>, place: &Place) -> Result<(), Fail> {
        if self.mode_at(place) == Mode::Edit {
            return Ok(());
        }
        match place.object(self) {
            Ok(_) => Err(Fail::Errno(Errno::EEXIST)),
            Err(Fail::Errno(Errno::ENOENT)) => {
                place.dir(self)?;
                Err(self.refused(call, place, Errno::EROFS, "read-only"))
            }
            Err(fail) => Err(fail),
        }
    }

    /// Waits until no descriptor that was injected is still open here, or the time is over: then the file that gets executable now is not "busy".
    pub(crate) fn wait_for_closing(&self, limit: Duration) {
        // Others may follow without end; those that began before are through before the time is over.
        let limit = Instant::now() + limit;
        while self.closing.load(Ordering::Acquire) > 0 && Instant::now() < limit {
            std::thread::yield_now();
        }
    }

    pub(crate) fn count_closing(&self, by: isize) {
        if by > 0 {
            self.closing.fetch_add(1, Ordering::AcqRel);
        } else {
            self.closing.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }
}

/// Answers a call.
pub(crate) fn answer(call: &Call<'_>, outcome: Outcome) {
    let id = call.request.id;
    let outcome = match outcome {
        Ok(Answer::Give(gift)) => call.grants.give(call, gift),
        other => other,
    };
    // A listener that is gone has no caller left either.
    let _ = match outcome {
        Ok(Answer::Value(value)) => call.listener.reply_value(id, value),
        Ok(Answer::Proceed) => call.listener.proceed(id),
        Ok(Answer::Again) => call.listener.reply_again(id),
        Ok(Answer::Sent | Answer::Give(_)) => Ok(()),
        Err(errno) => call.listener.reply_errno(id, errno),
    };
}

fn given() -> Vec<Identity> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let all = [input.as_fd(), output.as_fd(), errors.as_fd()];
    all.into_iter().filter_map(|fd| sys::fstat(fd).ok()).collect()
}

fn standard_descriptors() -> Vec<Option<(Identity, OwnedFd)>> {
    let own = [
        std::io::stdin().as_fd().try_clone_to_owned(),
        std::io::stdout().as_fd().try_clone_to_owned(),
        std::io::stderr().as_fd().try_clone_to_owned(),
    ];
    own.into_iter()
        .map(|fd| {
            let fd = fd.ok()?;
            let identity = sys::fstat(fd.as_fd()).ok()?;
            // Pipes and sockets are reopened, or refused, by the kernel as without picktwo.
            matches!(identity.kind(), libc::S_IFREG | libc::S_IFCHR).then_some((identity, fd))
        })
        .collect()
}

/// File systems whose calls may wait for another machine or another process (`statfs(2)`, magic numbers).
fn may_hang(magic: i64) -> bool {
    const FUSE: i64 = 0x6573_5546;
    const NFS: i64 = 0x6969;
    const CIFS: i64 = 0xFF53_4D42;
    const SMB2: i64 = 0xFE53_4D42;
    const V9FS: i64 = 0x0102_1997;
    const CEPH: i64 = 0x00C3_6400;
    const AFS: i64 = 0x5346_414F;
    const CODA: i64 = 0x7375_7245;
    matches!(magic & 0xFFFF_FFFF, FUSE | NFS | CIFS | SMB2 | V9FS | CEPH | AFS | CODA)
}

/// The calls that are served here, with their names.
fn call_name(nr: i64) -> Option<&'static str> {
    macro_rules! names {
        ($($call:ident)*) => {
            match nr {
                $( n if n == libc::$call => Some(stringify!($call).trim_start_matches("SYS_")), )*
                metadata::SETXATTRAT => Some("setxattrat"),
                metadata::REMOVEXATTRAT => Some("removexattrat"),
                _ => None,
            }
        };
    }
    names!(SYS_open SYS_openat SYS_openat2 SYS_creat SYS_rename SYS_renameat SYS_renameat2 SYS_mkdir SYS_mkdirat SYS_rmdir SYS_link
        SYS_linkat SYS_unlink SYS_unlinkat SYS_symlink SYS_symlinkat SYS_mknod SYS_mknodat SYS_truncate SYS_chmod SYS_fchmod
        SYS_fchmodat SYS_fchmodat2 SYS_chown SYS_fchown SYS_lchown SYS_fchownat SYS_utime SYS_utimes SYS_futimesat SYS_utimensat
        SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_access SYS_faccessat
        SYS_faccessat2 SYS_pidfd_open SYS_setpgid SYS_ioctl SYS_umask)
}
