//! The caller of a granted call: everything that is read about it, once, before its answer is decided.

use super::Grants;
use nix::libc;
use picktwo_confine::notify::{Listener, Request};
use picktwo_confine::sys::Identity;
use picktwo_confine::{Errno, Error, memory, sys};
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One granted call.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) grants: &'a Arc<Grants>,
    pub(crate) listener: &'a Arc<Listener>,
    pub(crate) request: &'a Request,
}

/// Where a path starts.
pub(crate) enum Base {
    /// At the session's root.
    Root,
    /// At a descriptor of the caller's, or its working directory, held as a path descriptor.
    At(Arc<OwnedFd>),
    /// At its working directory, which was found to be a place beneath a root a moment ago.
    Known(Cwd),
}

impl Base {
    /// The directory, if it is not the session's root.
    pub(crate) fn dir(&self) -> Option<&OwnedFd> {
        match self {
            Base::Root => None,
            Base::At(fd) => Some(fd),
            Base::Known(cwd) => Some(&cwd.fd),
        }
    }
}

/// A working directory and its place.
#[derive(Clone)]
pub(crate) struct Cwd {
    pid: i32,
    dev: u64,
    ino: u64,
    moves: u64,
    at: Instant,
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) root: usize,
    pub(crate) rel: Vec<u8>,
}

/// For how long a working directory's place is taken to be the same, if it is the same directory and the session moved none
/// meanwhile: a process outside of the session could.
const KNOWN_FOR: Duration = Duration::from_millis(20);

/// Remembers the place of a caller's working directory.
pub(crate) fn remember_cwd(pid: i32, identity: &Identity, moves: u64, fd: &Arc<OwnedFd>, root: usize, rel: &[u8]) {
    let known = Cwd {
        pid,
        dev: identity.dev,
        ino: identity.ino,
        moves,
        at: Instant::now(),
        fd: fd.clone(),
        root,
        rel: rel.to_vec(),
    };
    CWD.set(Some(known));
}

/// What is known of a calling thread.
struct Caller {
    pid: i32,
    /// Its directory in /proc. It belongs to this very thread: nothing is found in it once that has ended, whatever its number
    /// means by then.
    dir: OwnedFd,
    /// The last request for which that was tried.
    tried: u64,
    status: Option<File>,
    umask: Option<KnownUmask>,
}

/// The umask of a process with one thread, which therefore changes by a call of that thread only, and such calls are counted.
/// (Of two processes that share it by `CLONE_FS`, which no libc does, one may be served with the former umask of the other.)
#[derive(Clone, Copy)]
struct KnownUmask {
    mask: u32,
    /// How many such calls there had been in the session.
    at: u64,
}

/// A path argument, copied.
pub(crate) struct Target {
    pub(crate) path: Vec<u8>,
    pub(crate) base: Base,
    /// The caller, if the base is its working directory.
    pub(crate) cwd_of: Option<i32>,
}

/// What an unreadable caller gets: an error that ordinary programs cope with, never a grant.
pub(crate) fn unreadable(error: Error) -> Errno {
    match error {
        Error::UnterminatedString { .. } => Errno::ENAMETOOLONG,
        other => match other.errno() {
            Some(errno @ (Errno::EFAULT | Errno::ESRCH)) => errno,
            _ => Errno::EACCES,
        },
    }
}

thread_local! {
    /// The umask of this thread, once the thread has one of its own.
    static UMASK: Cell<Option<u32>> = const { Cell::new(None) };
    /// What this thread took for its call, where it cannot have a umask of its own.
    static ASSUMED: RefCell<Option<Assumed>> = const { RefCell::new(None) };
    /// The working directory of the last caller.
    static CWD: RefCell<Option<Cwd>> = const { RefCell::new(None) };
    /// What is known of the last caller.
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

impl Call<'_> {
    /// Argument `index` as an `int`.
    pub(crate) fn int(&self, index: usize) -> i32 {
        self.request.int(index)
    }

    /// Argument `index` in full.
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.request.args[index]
    }

    /// The calling thread.
    pub(crate) fn pid(&self) -> i32 {
        self.request.pid
    }

    /// Fails if the caller went away: then what was read may be another process's.
    pub(crate) fn alive(&self) -> Result<(), Errno> {
        if self.listener.valid(self.request.id) {
            Ok(())
        } else {
            Err(Errno::ESRCH)
        }
    }

    /// Copies a path.
    pub(crate) fn path(&self, index: usize) -> Result<Vec<u8>, Errno> {
        memory::read_path(self.pid(), self.word(index)).map_err(unreadable)
    }

    /// Copies exactly this many bytes.
    pub(crate) fn bytes<const N: usize>(&self, index: usize) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        memory::read_exact(self.pid(), self.word(index), &mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }

    /// A path argument with the place where it starts. `dirfd`: the index of the directory argument, if the call has one.
    /// An empty path is `ENOENT`.
    pub(crate) fn target(&self, dirfd: Option<usize>, path: usize) -> Result<Target, Errno> {
        let target = self.target_or_empty(dirfd, path)?;
        if target.path.is_empty() {
            Err(Errno::ENOENT)
        } else {
            Ok(target)
        }
    }

    /// Like [`Call::target`], but an empty path stands for the directory argument itself (`AT_EMPTY_PATH`).
    pub(crate) fn target_or_empty(&self, dirfd: Option<usize>, path: usize) -> Result<Target, Errno> {
        let path = self.path(path)?;
        let mut cwd_of = None;
        let base = if path.first() == Some(&b'/') {
            Base::Root
        } else {
            match dirfd.map(|index| self.int(index)) {
                None | Some(libc::AT_FDCWD) => {
                    cwd_of = Some(self.pid());
                    match self.known_cwd() {
                        Some(cwd) => Base::Known(cwd),
                        None => Base::At(Arc::new(self.cwd()?)),
                    }
                }
                Some(fd) => Base::At(Arc::new(self.object(fd)?)),
            }
        };
        self.alive()?;
        Ok(Target { path, base, cwd_of })
    }

    /// The caller's working directory, if it is the one whose place was found a moment ago. The descriptor that is kept for it
    /// keeps its inode number from being used again.
    fn known_cwd(&self) -> Option<Cwd> {
        CWD.with_borrow(|known| {
            let known = known
                .as_ref()
                .filter(|known| known.pid == self.pid() && known.at.elapsed() < KNOWN_FOR)?;
            if known.moves != self.grants.moves.load(Ordering::Acquire) {
                return None;
            }
            let now = self.look_at_cwd().ok()?;
            (now.nlink > 0 && (now.dev, now.ino) == (known.dev, known.ino)).then(|| known.clone())
        })
    }

    /// What the caller's working directory is. Tells that the caller is still the thread that is known.
    fn look_at_cwd(&self) -> Result<Identity, Errno> {
        self.with_caller(|caller| {
            let now = sys::fstatat(caller.dir.as_fd(), c"cwd", 0)?;
            caller.tried = self.request.id;
            Ok(now)
        })
    }

    /// Runs `ask` on what is known of the caller; anew, if its number had been another thread's.
    fn with_caller<T>(&self, ask: impl Fn(&mut Caller) -> Result<T, Errno>) -> Result<T, Errno> {
        CALLER.with_borrow_mut(|known| {
            if let Some(caller) = known
                && caller.pid == self.pid()
                && let Ok(answer) = ask(caller)
            {
                return Ok(answer);
            }
            let path = CString::new(self.pid().to_string()).map_err(|_| Errno::EINVAL)?;
            let dir = sys::openat(
                self.grants.proc.as_fd(),
                &path,
                libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC,
                0,
            )?;
            let caller = known.insert(Caller {
                pid: self.pid(),
                dir,
                tried: 0,
                status: None,
                umask: None,
            });
            ask(caller)
        })
    }

    /// The caller's working directory.
    pub(crate) fn cwd(&self) -> Result<OwnedFd, Errno> {
        self.open_proc("cwd", libc::O_PATH)
    }

    /// What a descriptor of the caller's refers to, as a path descriptor.
    pub(crate) fn object(&self, fd: i32) -> Result<OwnedFd, Errno> {
        if fd < 0 {
            return Err(Errno::EBADF);
        }
        match self.open_proc(&format!("fd/{fd}"), libc::O_PATH) {
            Err(Errno::ENOENT) => Err(Errno::EBADF),
            other => other,
        }
    }

    /// Whether a descriptor of the caller's was opened with `O_PATH`: its link in /proc has no permission bits then.
    pub(crate) fn is_path_descriptor(&self, fd: i32) -> Result<bool, Errno> {
        let path = CString::new(format!("{}/fd/{fd}", self.pid())).map_err(|_| Errno::EINVAL)?;
        let link =
            sys::fstatat(self.grants.proc.as_fd(), &path, libc::AT_SYMLINK_NOFOLLOW).map_err(|_| Errno::EBADF)?;
        Ok(link.mode & 0o700 == 0)
    }

    /// Opens something in the caller's /proc directory, in our own /proc.
    pub(crate) fn open_proc(&self, name: &str, flags: i32) -> Result<OwnedFd, Errno> {
        let path = CString::new(format!("{}/{name}", self.pid())).map_err(|_| Errno::EINVAL)?;
        sys::openat(self.grants.proc.as_fd(), &path, flags, 0).map_err(|errno| match errno {
            Errno::EPERM => Errno::EACCES,
            other => other,
        })
    }

    /// One line of the caller's status file, by its title (`Umask:`).
    pub(crate) fn status(&self, title: &str) -> Result<String, Errno> {
        let mut text = String::new();
        let fd = self.open_proc("status", 0)?;
        File::from(fd).read_to_string(&mut text).map_err(|_| Errno::EACCES)?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(title))
            .ok_or(Errno::EACCES)?;
        Ok(line.trim().to_owned())
    }

    /// The caller's umask.
    fn umask(&self) -> Result<u32, Errno> {
        let changes = self.grants.umasks.load(Ordering::Acquire);
        self.with_caller(|caller| {
            if let Some(known) = caller.umask
                && known.at == changes
            {
                if caller.tried != self.request.id {
                    sys::fstatat(caller.dir.as_fd(), c"cwd", 0)?;
                }
                return Ok(known.mask);
            }
            let status = match &caller.status {
                Some(status) => status,
                None => caller
                    .status
                    .insert(sys::openat(caller.dir.as_fd(), c"status", libc::O_CLOEXEC, 0)?.into()),
            };
            let mut bytes = [0; 2048];
            let n = status.read_at(&mut bytes, 0).map_err(|_| Errno::EACCES)?;
            let mask = number(&bytes[..n], b"\nUmask:\t", 8).ok_or(Errno::EACCES)? & 0o7777;
            let alone = number(&bytes[..n], b"\nThreads:\t", 10) == Some(1);
            caller.umask = alone.then_some(KnownUmask { mask, at: changes });
            Ok(mask)
        })
    }

    /// Makes this thread create files with the caller's umask. The kernel then applies default ACLs as it would for the caller.
    /// To be followed by [`give_back_state`] when the call is done.
    pub(crate) fn assume_umask(&self) -> Result<(), Errno> {
        let wanted = self.umask()?;
        self.alive()?;
        match own_state() {
            Ok(()) if UMASK.get() != Some(wanted) => {
                sys::umask(wanted);
                UMASK.set(Some(wanted));
            }
            Ok(()) => {}
            // A container's filter refuses it: then the process's own, by one call at a time.
            Err(_) => ASSUMED.with_borrow_mut(|assumed| {
                let held = assumed.get_or_insert_with(|| Assumed {
                    former: None,
                    _alone: STATE.lock().unwrap_or_else(PoisonError::into_inner),
                });
                let found = sys::umask(wanted);
                held.former.get_or_insert(found);
            }),
        }
        Ok(())
    }

    /// The caller's thread and process number in its own pid namespace.
    pub(crate) fn own_numbers(&self) -> Result<[i32; 2], Errno> {
        let last = |line: String| {
            line.split_whitespace()
                .last()
                .and_then(|n| n.parse().ok())
                .ok_or(Errno::EACCES)
        };
        Ok([last(self.status("NSpid:")?)?, last(self.status("NStgid:")?)?])
    }
}

/// The number behind a title of a status file.
fn number(text: &[u8], title: &[u8], radix: u32) -> Option<u32> {
    let at = text.windows(title.len()).position(|w| w == title)? + title.len();
    let digits = text[at..].iter().map_while(|b| char::from(*b).to_digit(radix));
    let mut digits = digits.peekable();
    digits.peek()?;
    Some(digits.fold(0, |number, digit| number.wrapping_mul(radix).wrapping_add(digit)))
}

/// Gives this thread its own umask and working directory, apart from the process's other threads. To be called where the
/// thread starts; a thread that did not is given them by its first creating call.
pub(crate) fn own_state() -> Result<(), Errno> {
    if UMASK.get().is_none() {
        sys::own_thread_filesystem_state()?;
        let mask = sys::umask(0o077);
        sys::umask(mask);
        UMASK.set(Some(mask));
    }
    Ok(())
}

/// Whether this thread may change its working directory for a moment: it has one of its own, or holds the process's.
pub(crate) fn may_change_directory() -> bool {
    own_state().is_ok() || ASSUMED.with_borrow(Option::is_some)
}

/// Lets other threads have the process's umask and working directory again, if this one took them for its call.
pub(crate) fn give_back_state() {
    ASSUMED.take();
}

/// The process's umask and working directory, where threads cannot have their own.
static STATE: Mutex<()> = Mutex::new(());

/// Holds them.
struct Assumed {
    former: Option<u32>,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Assumed {
    fn drop(&mut self) {
        if let Some(former) = self.former {
            sys::umask(former);
        }
    }
}
