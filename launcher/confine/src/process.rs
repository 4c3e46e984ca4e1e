//! Starting, watching and ending processes: forks that check for one thread, children that end with their parent, roles
//! executed through an open descriptor.

use crate::channel::{self, Channel};
use crate::error::{Error, Result};
use crate::limits;
use crate::role::Role;
use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::signal::Signal;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, Ordering};

/// The exit code of a forked child whose closure panicked.
pub const PANICKED: u8 = 101;

/// The process that was found to have one thread last, or that began with one (fork, exec).
static ALONE: AtomicI32 = AtomicI32::new(0);

/// Fails unless this process has exactly one thread.
///
/// Where a filter around us refuses to tell (that of a container does) and Landlock hides /proc already, what was found before that
/// counts: a process of picktwo's makes no thread between its first step of confinement and its last, and
/// [`crate::selfcheck`] reads the kernel's own count at its end wherever that was open before.
pub fn single_threaded() -> Result<()> {
    // The kernel says so itself, without any file: unsharing "the thread group" is refused with EINVAL where there are others.
    let found = match nix::sched::unshare(CloneFlags::CLONE_THREAD) {
        Ok(()) => Ok(()),
        Err(Errno::EINVAL) => Err(Error::Threads {
            count: threads().unwrap_or(2).max(2),
        }),
        // A filter around us may refuse the call.
        Err(_) => match threads() {
            Some(1) => Ok(()),
            Some(count) => Err(Error::Threads { count }),
            None if ALONE.load(Ordering::Relaxed) == own_number() => Ok(()),
            None => Err(Error::Open {
                path: "/proc/self/task".into(),
                errno: Errno::last(),
            }),
        },
    };
    if found.is_ok() {
        begun_alone();
    }
    found
}

/// States that this process has one thread, since it has just been forked or executed: to be called before it makes another.
pub fn begun_alone() {
    ALONE.store(own_number(), Ordering::Relaxed);
}

fn own_number() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// A signal stopped it (job control); it still exists.
    Stopped(i32),
    /// It goes on after a stop.
    Continued,
}

impl Exit {
    /// The exit code that a shell shows: the code, or 128 and the signal's number.
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) | Exit::Stopped(signal) => 128 + signal,
            Exit::Continued => 0,
        }
    }

    fn from_siginfo(info: &libc::siginfo_t) -> Exit {
        // SAFETY: waitid filled in the structure for a SIGCHLD, whose status field is set.
        let status = unsafe { info.si_status() };
        match info.si_code {
            libc::CLD_EXITED => Exit::Code(status),
            libc::CLD_STOPPED | libc::CLD_TRAPPED => Exit::Stopped(status),
            libc::CLD_CONTINUED => Exit::Continued,
            _ => Exit::Signal(status),
        }
    }
}

/// A process, held by a descriptor that never names another one.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    pidfd: OwnedFd,
}

impl Child {
    /// A process by its number. For a child that was not waited for yet, or where the number cannot have been reused.
    pub fn from_pid(pid: i32) -> Result<Child> {
        Ok(Child {
            pid,
            pidfd: pidfd_open(pid)?,
        })
    }

    /// A process whose descriptor came from elsewhere, for example by channel from the one who cloned it.
    pub fn from_parts(pid: i32, pidfd: OwnedFd) -> Child {
        Child { pid, pidfd }
    }

    /// Its number in our pid namespace.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its descriptor; readable once the process has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The number and the descriptor.
    pub fn into_parts(self) -> (i32, OwnedFd) {
        (self.pid, self.pidfd)
    }

    /// Waits until it ends, and reaps it. Only for our own children.
    pub fn wait(&self) -> Result<Exit> {
        loop {
            if let Some(exit) = self.wait_for(libc::WEXITED)? {
                return Ok(exit);
            }
        }
    }

    /// Reaps it if it has ended.
    pub fn try_wait(&self) -> Result<Option<Exit>> {
        self.wait_for(libc::WEXITED | libc::WNOHANG)
    }

    /// Whether it has ended, and is reaped, or has stopped.
    pub fn try_change(&self) -> Result<Option<Exit>> {
        self.wait_for(libc::WEXITED | libc::WSTOPPED | libc::WNOHANG)
    }

    /// Waits until it ends, stops or goes on: for job control.
    pub fn wait_change(&self) -> Result<Exit> {
        loop {
            if let Some(exit) = self.wait_for(libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED)? {
                return Ok(exit);
            }
        }
    }

    fn wait_for(&self, options: i32) -> Result<Option<Exit>> {
        // SAFETY: siginfo_t is plain data, for which all zeroes is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: the kernel fills in one siginfo_t.
            let rc = unsafe { libc::waitid(libc::P_PIDFD, self.pidfd.as_raw_fd() as libc::id_t, &mut info, options) };
            match Errno::result(rc) {
                Ok(_) if info.si_signo == 0 => return Ok(None),
                Ok(_) => return Ok(Some(Exit::from_siginfo(&info))),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(Error::Wait { pid: self.pid, errno }),
            }
        }
    }

    /// Waits until the process has ended, without reaping it; works for processes that are not our children. Milliseconds, -1
    /// for ever. `false`: the time is over.
    pub fn ended_within(&self, milliseconds: i32) -> Result<bool> {
        ended(self.pidfd(), milliseconds).map_err(|errno| Error::Wait { pid: self.pid, errno })
    }

    /// Sends a signal. A process that has ended already is no error.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match crate::sys::pidfd_signal(self.pidfd(), signal as i32) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(Error::Signal {
                pid: self.pid,
                signal: signal as i32,
                errno,
            }),
        }
    }

    /// Kills it and reaps it.
    pub fn kill_and_wait(&self) -> Result<Exit> {
        self.signal(Signal::SIGKILL)?;
        self.wait()
    }
}

/// Opens a descriptor of a process.
pub fn pidfd_open(pid: i32) -> Result<OwnedFd> {
    // SAFETY: makes a descriptor or fails.
    let rc = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = Errno::result(rc).map_err(|errno| Error::PidfdOpen { pid, errno })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Whether the process of a pidfd has ended within a time, in milliseconds.
pub fn ended(pidfd: BorrowedFd<'_>, milliseconds: i32) -> std::result::Result<bool, Errno> {
    let mut entry = libc::pollfd {
        fd: pidfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: one entry is passed and one is announced.
        let rc = unsafe { libc::poll(&mut entry, 1, milliseconds) };
        match Errno::result(rc) {
            Err(Errno::EINTR) => continue,
            other => return other.map(|n| n == 1),
        }
    }
}

/// Ends the calling process at once, without running anything of its parent's (exit handlers, buffers).
pub fn exit_now(code: u8) -> ! {
    // SAFETY: _exit does not return and touches no memory.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Runs a child's work and ends the child with its answer, whatever happens.
fn run_child(work: impl FnOnce() -> u8) -> ! {
    begun_alone();
    let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
    exit_now(code)
}

fn parent_of(rc: i64, what: &str) -> Result<i32> {
    Errno::result(rc).map(|pid| pid as i32).map_err(|errno| Error::Fork {
        what: what.into(),
        errno,
    })
}

/// Forks. The child runs `work` and exits with its answer; it has this process's memory, descriptors and confinement.
pub fn fork(work: impl FnOnce() -> u8) -> Result<Child> {
    fork_unchecked("a child", work)
}

fn fork_unchecked(what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    // SAFETY: libc's fork keeps the allocator usable in the child. Where this process has other threads, their locks may be held
    // for ever in the child: `fork_alone` and the confinement steps, which check for one thread, rule that out; plain
    // `fork` in a threaded process is for children that only use what this crate offers, which takes no such lock.
    match parent_of(unsafe { libc::fork() }.into(), what)? {
        0 => run_child(work),
        pid => Child::from_pid(pid),
    }
}

/// Like [`fork`], but the child is killed when the calling thread ends, and the caller must have one thread.
pub fn fork_bound(what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    single_threaded()?;
    let parent = pidfd_open(std::process::id() as i32)?;
    fork_unchecked(what, move || match parent_death_kill(parent.as_fd()) {
        Ok(()) => {
            drop(parent);
            work()
        }
        Err(_) => PANICKED,
    })
}

/// Like [`fork_bound`], and the child begins in a control group ([`crate::cgroup`]) if one is given: moving it there afterwards would
/// make every fork of the machine wait.
pub fn fork_bound_into(group: Option<BorrowedFd<'_>>, what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    let Some(group) = group else {
        return fork_bound(what, work);
    };
    single_threaded()?;
    let parent = pidfd_open(std::process::id() as i32)?;
    raw_clone_into(group, 0, what, move || match parent_death_kill(parent.as_fd()) {
        Ok(()) => {
            drop(parent);
            work()
        }
        Err(_) => PANICKED,
    })
}

/// Asks the kernel to kill this process when its parent ends, and ends at once if it already has. `parent` is a pidfd of the
/// parent, made by the parent before the fork: unlike `getppid`, it is right in a new pid namespace, too.
///
/// "The parent" is the *thread* that forked (PR_SET_PDEATHSIG(2const)). The setting survives exec, unless the exec gains privileges.
/// It has no effect while the parent's Landlock domain keeps signals inside and does not contain this process: see
/// [`crate::landlock::Access::allow_signals`].
pub fn parent_death_kill(parent: BorrowedFd<'_>) -> Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|errno| Error::ProcessControl {
        option: "PR_SET_PDEATHSIG",
        errno,
    })?;
    match ended(parent, 0) {
        Ok(false) => Ok(()),
        _ => Err(Error::ParentGone {}),
    }
}

/// Clones a child into new namespaces; it runs `work` and exits with its answer. The child is killed when the calling thread
/// ends. With `CLONE_NEWUSER` it has all capabilities over the new namespaces and no mapped ids yet.
pub fn clone_namespaces(flags: CloneFlags, what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    single_threaded()?;
    let parent = pidfd_open(std::process::id() as i32)?;
    raw_clone(
        flags.bits() as u64 | libc::SIGCHLD as u64,
        what,
        move || match parent_death_kill(parent.as_fd()) {
            Ok(()) => {
                drop(parent);
                work()
            }
            Err(_) => PANICKED,
        },
    )
}

/// Clones a child that becomes a child of *our parent*, in the pid namespace for children (see [`crate::namespace::join`]). Only
/// the parent can wait for it: hand it the parts of the answer. `work` must call [`parent_death_kill`] itself, with a pidfd of
/// the new parent. It begins in the control group, if one is given.
pub fn clone_into_parent(group: Option<BorrowedFd<'_>>, what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    single_threaded()?;
    let flags = libc::CLONE_PARENT as u64;
    match group {
        None => raw_clone(flags | libc::SIGCHLD as u64, what, work),
        Some(group) => raw_clone_into(group, flags, what, work),
    }
}

fn raw_clone(flags: u64, what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    let mut pidfd: RawFd = -1;
    let flags = flags | libc::CLONE_PIDFD as u64;
    // SAFETY: without CLONE_VM and with a null stack, clone behaves as fork: the child runs on a copy of this stack. One thread
    // exists (checked by the callers), so no lock is held by another one. CLONE_PIDFD makes the kernel write one int.
    let rc = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &mut pidfd as *mut RawFd, 0, 0) };
    after_clone(rc, &mut pidfd, what, work)
}

/// Whether children can be made in a control group: a filter around us may refuse clone3 altogether, since it cannot look into it.
pub fn has_clone_into_group() -> bool {
    // SAFETY: no argument at all is refused before anything is made.
    let rc = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<libc::clone_args>(), 0) };
    Errno::result(rc) == Err(Errno::EINVAL)
}

/// Only clone3 takes a control group (clone(2), Linux 5.7).
fn raw_clone_into(group: BorrowedFd<'_>, flags: u64, what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain data, for which all zeroes is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flags | libc::CLONE_PIDFD as u64 | CLONE_INTO_CGROUP;
    // With CLONE_PARENT the signal is the parent's own, and naming one is refused.
    args.exit_signal = if flags & libc::CLONE_PARENT as u64 == 0 {
        libc::SIGCHLD as u64
    } else {
        0
    };
    args.pidfd = &raw mut pidfd as u64;
    args.cgroup = group.as_raw_fd() as u64;
    // SAFETY: as in `raw_clone`: no CLONE_VM, no stack, one thread. The kernel reads one structure of the size that is passed, and
    // writes one int to `pidfd`, which outlives the call.
    let rc = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    after_clone(rc, &mut pidfd, what, work)
}

fn after_clone(rc: i64, pidfd: &mut RawFd, what: &str, work: impl FnOnce() -> u8) -> Result<Child> {
    match parent_of(rc, what)? {
        0 => run_child(work),
        pid => {
            // SAFETY: the kernel made this descriptor for us; it belongs to nobody else.
            let pidfd = unsafe { OwnedFd::from_raw_fd(*pidfd) };
            Ok(Child { pid, pidfd })
        }
    }
}

/// Executes what `fd` refers to. Only returns if that fails.
pub fn exec_fd(fd: BorrowedFd<'_>, argv: &[CString], envp: &[CString]) -> Error {
    let flags = nix::fcntl::AtFlags::AT_EMPTY_PATH;
    let what = argv
        .first()
        .map(|a| a.to_string_lossy().into_owned())
        .unwrap_or_default();
    match nix::unistd::execveat(fd, c"", argv, envp, flags) {
        Ok(never) => match never {},
        Err(errno) => Error::Execute { what, errno },
    }
}

/// Executes a program by path, without looking it up. Only returns if that fails.
pub fn exec_path(path: &CStr, argv: &[CString], envp: &[CString]) -> Error {
    match nix::unistd::execve(path, argv, envp) {
        Ok(never) => match never {},
        Err(errno) => Error::Execute {
            what: path.to_string_lossy().into_owned(),
            errno,
        },
    }
}

/// An open descriptor of this program's own file, to start roles through, whatever happens to its name.
pub fn own_executable() -> Result<OwnedFd> {
    let path = "/proc/self/exe";
    File::open(path).map(OwnedFd::from).map_err(|e| Error::Open {
        path: path.into(),
        errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
    })
}

/// Turns this process, a forked child, into a role: descriptors 0 to 2 on /dev/null, the channel at
/// [`channel::PARENT_FD`], everything else closed, an empty environment, and the program executed with the role's title as its
/// only argument. Only returns if that fails.
pub fn become_role(role: Role, exe: OwnedFd, channel: Channel) -> Error {
    match prepare_role(exe, channel) {
        Ok(exe) => {
            let title = CString::new(role.title()).expect("titles have no NUL byte");
            exec_fd(exe.as_fd(), &[title], &[])
        }
        Err(error) => error,
    }
}

fn prepare_role(exe: OwnedFd, channel: Channel) -> Result<OwnedFd> {
    // First out of the way of the fixed numbers.
    let exe = move_above(exe)?;
    let kept = exe.as_raw_fd();
    fixed_descriptors(channel, &[kept])?;
    Ok(exe)
}

/// Descriptors 0 to 2 on /dev/null, the channel at [`channel::PARENT_FD`], everything else but `kept` closed.
fn fixed_descriptors(channel: Channel, kept: &[RawFd]) -> Result<()> {
    let dev_null = "/dev/null";
    let null = File::options()
        .read(true)
        .write(true)
        .open(dev_null)
        .map_err(|e| Error::Open {
            path: dev_null.into(),
            errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
        })?;
    // First out of the way of the fixed numbers, then onto them.
    let (null, channel) = (move_above(null.into())?, move_above(channel.into())?);
    for (from, to) in [(&null, 0), (&null, 1), (&null, 2), (&channel, channel::PARENT_FD)] {
        // SAFETY: replaces a standard descriptor or the fixed channel number in a child that is becoming a role and runs nothing
        // of its parent's any more; the owned descriptors above all have other numbers.
        let rc = unsafe { libc::dup2(from.as_raw_fd(), to) };
        Errno::result(rc).map_err(|errno| Error::Duplicate {
            fd: from.as_raw_fd(),
            errno,
        })?;
    }
    let mut keep = vec![0, 1, 2, channel::PARENT_FD];
    keep.extend(kept);
    limits::sweep(&keep)?;
    // The sweep closed these numbers already.
    std::mem::forget((null, channel));
    Ok(())
}

/// Turns this process, a forked child, into a role *without* executing anything: descriptors as after [`become_role`], and the
/// command line and environment that it was copied with overwritten, so that neither can be read from it or shows in /proc. Answers
/// the channel. The rest of the memory stays a copy of the parent's: only for a child that was forked before its parent read
/// anything worth stealing. To be called once, as the last thing that uses a descriptor of the parent's.
pub fn become_role_in_place(role: Role, channel: Channel) -> Result<Channel> {
    wipe_arguments(role.title())?;
    fixed_descriptors(channel, &[])?;
    set_name(role.title())?;
    Channel::from_parent()
}

/// Overwrites the argument and environment strings that the kernel copied onto this process's stack (proc(5): fields 48 to 51 of
/// `stat`), and leaves `title` as the only argument. For a forked child, which has one thread.
pub fn wipe_arguments(title: &str) -> Result<()> {
    let path = "/proc/self/stat";
    let failed = |errno| Error::Read {
        what: path.into(),
        errno,
    };
    let stat =
        std::fs::read_to_string(path).map_err(|e| failed(Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO))))?;
    // The name in brackets may hold anything; field 3 follows the last bracket.
    let fields: Vec<usize> = stat
        .rsplit_once(") ")
        .map(|(_, rest)| {
            rest.split(' ')
                .skip(45)
                .take(4)
                .filter_map(|f| f.trim().parse().ok())
                .collect()
        })
        .unwrap_or_default();
    let &[arg_start, arg_end, env_start, env_end] = fields.as_slice() else {
        return Err(failed(Errno::EBADMSG));
    };
    if arg_start == 0 || arg_end < arg_start || env_start == 0 || env_end < env_start {
        return Err(failed(Errno::EBADMSG));
    }
    // SAFETY: one thread runs in this child (its fork was checked), and nothing of it reads the environment any more; libc only
    // forgets its table of pointers.
    unsafe { libc::clearenv() };
    for (start, end) in [(arg_start, arg_end), (env_start, env_end)] {
        // SAFETY: the kernel says that these bytes of our own stack hold the strings of the last execve; they are mapped and
        // writable, belong to no Rust object, and the only thread is this one.
        unsafe { std::ptr::write_bytes(start as *mut u8, 0, end - start) };
    }
    let length = title.len().min((arg_end - arg_start).saturating_sub(1));
    // SAFETY: `length` bytes lie within the argument strings as above, and `title` does not.
    unsafe { std::ptr::copy_nonoverlapping(title.as_ptr(), arg_start as *mut u8, length) };
    Ok(())
}

/// The same descriptor under a number above the fixed ones.
fn move_above(fd: OwnedFd) -> Result<OwnedFd> {
    crate::sys::duplicate_above(fd.as_fd(), channel::PARENT_FD + 1).map_err(|errno| Error::Duplicate {
        fd: fd.as_raw_fd(),
        errno,
    })
}

/// Starts a role as a child that ends with the calling thread: in a session of its own, so that the terminal's signals do not
/// reach it. Answers the child and our end of the channel.
pub fn spawn_role(role: Role, exe: BorrowedFd<'_>) -> Result<(Child, Channel)> {
    let (ours, theirs) = channel::pair()?;
    let exe = exe.try_clone_to_owned().map_err(|_| Error::Duplicate {
        fd: exe.as_raw_fd(),
        errno: Errno::last(),
    })?;
    let child = fork_bound(role.title(), move || {
        if nix::unistd::setsid().is_err() {
            return PANICKED;
        }
        let _error = become_role(role, exe, theirs);
        126
    })?;
    Ok((child, ours))
}

/// Sets the short name that `ps` and /proc show (15 bytes).
pub fn set_name(name: &str) -> Result<()> {
    let name = CString::new(name).map_err(|_| Error::NulByte { what: "a process name" })?;
    nix::sys::prctl::set_name(&name).map_err(|errno| Error::ProcessControl {
        option: "PR_SET_NAME",
        errno,
    })
}

/// Whether other processes of the same user may look into this one (ptrace, /proc). A process that has its own calls served by a
/// supervisor must stay dumpable.
pub fn set_dumpable(dumpable: bool) -> Result<()> {
    nix::sys::prctl::set_dumpable(dumpable).map_err(|errno| Error::ProcessControl {
        option: "PR_SET_DUMPABLE",
        errno,
    })
}

#[cfg(test)]
mod tests;
