//! Safe wrappers of system calls that `nix` lacks, with plain error numbers: the answers often go straight to another process.
//!
//! Paths are `CStr`, descriptors are borrowed, flags are the kernel's own integers.

mod mounts;
pub mod terminal;
pub mod xattr;

use nix::errno::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub use mounts::{AT_RECURSIVE, OPEN_TREE_CLONE, mount_attr, mount_setattr, move_mount, open_tree};

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Errno>;

/// The descriptor number that stands for the working directory.
pub const CWD: BorrowedFd<'static> = nix::fcntl::AT_FDCWD;

/// Resolution flags of [`openat2`].
pub mod resolve {
    /// Stay on the file system that the directory is on.
    pub const NO_XDEV: u64 = libc::RESOLVE_NO_XDEV;
    /// Follow no magic link of /proc.
    pub const NO_MAGICLINKS: u64 = libc::RESOLVE_NO_MAGICLINKS;
    /// Follow no symbolic link at all.
    pub const NO_SYMLINKS: u64 = libc::RESOLVE_NO_SYMLINKS;
    /// Never leave the directory.
    pub const BENEATH: u64 = libc::RESOLVE_BENEATH;
    /// Treat the directory as the root.
    pub const IN_ROOT: u64 = libc::RESOLVE_IN_ROOT;
}

/// Takes ownership of descriptor `number`, if it is open. For descriptors that were inherited at a fixed number: the caller
/// states that nothing else in this process owns it.
pub fn take_fd(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: fcntl on any number is harmless.
    if number < 0 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: the descriptor is open, and by contract nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: sets the close-on-exec flag of a descriptor that we own.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    Some(fd)
}

fn owned(rc: libc::c_long) -> Result<OwnedFd> {
    let number = Errno::result(rc)?;
    // SAFETY: only called with the answer of a call that makes a descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
}

fn done(rc: libc::c_long) -> Result<()> {
    Errno::result(rc).map(drop)
}

/// `openat2`: opens with a restricted resolution. Close-on-exec is always set.
pub fn openat2(dir: BorrowedFd<'_>, path: &CStr, flags: i32, mode: u32, resolve: u64) -> Result<OwnedFd> {
    // SAFETY: open_how is plain data, for which all zeroes is a valid value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u32 as u64;
    how.mode = mode.into();
    how.resolve = resolve;
    loop {
        // SAFETY: the kernel reads a path and one open_how of the size that is passed.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                dir.as_raw_fd(),
                path.as_ptr(),
                &how,
                size_of_val(&how),
            )
        };
        match owned(rc) {
            // EAGAIN: a rename raced with a restricted resolution. The kernel asks to try again.
            Err(Errno::EAGAIN)
                if resolve & (resolve::BENEATH | resolve::IN_ROOT) != 0 && flags & libc::O_NONBLOCK == 0 =>
            {
                continue;
            }
            other => return other,
        }
    }
}

/// `openat`. Close-on-exec is always set.
pub fn openat(dir: BorrowedFd<'_>, path: &CStr, flags: i32, mode: u32) -> Result<OwnedFd> {
    // SAFETY: the kernel reads a path.
    owned(unsafe { libc::openat(dir.as_raw_fd(), path.as_ptr(), flags | libc::O_CLOEXEC, mode) }.into())
}

/// The path under which /proc shows descriptor `fd` of this process, for calls that take only paths.
pub fn fd_path(fd: BorrowedFd<'_>) -> std::ffi::CString {
    std::ffi::CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("digits have no NUL byte")
}

/// `fchmodat2` (Linux 6.6). Flags: `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
pub fn fchmodat2(dir: BorrowedFd<'_>, path: &CStr, mode: u32, flags: i32) -> Result<()> {
    // SAFETY: the kernel reads a path.
    let made = done(unsafe { libc::syscall(libc::SYS_fchmodat2, dir.as_raw_fd(), path.as_ptr(), mode, flags) });
    match made {
        // Before Linux 6.6, and below filters that do not know it (Docker before 25): the object's name in /proc does.
        Err(Errno::ENOSYS | Errno::EPERM) if path.is_empty() => {
            let name = fd_path(dir);
            // SAFETY: the kernel reads a path.
            done(unsafe { libc::syscall(libc::SYS_chmod, name.as_ptr(), mode) })
        }
        other => other,
    }
}

/// `renameat2`. Flags: `RENAME_NOREPLACE`, `RENAME_EXCHANGE`, `RENAME_WHITEOUT`.
pub fn renameat2(from_dir: BorrowedFd<'_>, from: &CStr, to_dir: BorrowedFd<'_>, to: &CStr, flags: u32) -> Result<()> {
    // SAFETY: the kernel reads two paths.
    done(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from_dir.as_raw_fd(),
            from.as_ptr(),
            to_dir.as_raw_fd(),
            to.as_ptr(),
            flags,
        )
    })
}

/// `linkat`. Flags: `AT_SYMLINK_FOLLOW`, `AT_EMPTY_PATH`.
pub fn linkat(from_dir: BorrowedFd<'_>, from: &CStr, to_dir: BorrowedFd<'_>, to: &CStr, flags: i32) -> Result<()> {
    // SAFETY: the kernel reads two paths.
    done(
        unsafe {
            libc::linkat(
                from_dir.as_raw_fd(),
                from.as_ptr(),
                to_dir.as_raw_fd(),
                to.as_ptr(),
                flags,
            )
        }
        .into(),
    )
}

/// `mknodat`, with the mode's type bits as the caller gave them.
pub fn mknodat(dir: BorrowedFd<'_>, path: &CStr, mode: u32, device: u64) -> Result<()> {
    // SAFETY: the kernel reads a path.
    done(unsafe { libc::mknodat(dir.as_raw_fd(), path.as_ptr(), mode, device) }.into())
}

/// `mkdirat`.
pub fn mkdirat(dir: BorrowedFd<'_>, path: &CStr, mode: u32) -> Result<()> {
    // SAFETY: the kernel reads a path.
    done(unsafe { libc::mkdirat(dir.as_raw_fd(), path.as_ptr(), mode) }.into())
}

/// `unlinkat`. Flags: `AT_REMOVEDIR`.
pub fn unlinkat(dir: BorrowedFd<'_>, path: &CStr, flags: i32) -> Result<()> {
    // SAFETY: the kernel reads a path.
    done(unsafe { libc::unlinkat(dir.as_raw_fd(), path.as_ptr(), flags) }.into())
}

/// `symlinkat`.
pub fn symlinkat(target: &CStr, dir: BorrowedFd<'_>, path: &CStr) -> Result<()> {
    // SAFETY: the kernel reads two strings.
    done(unsafe { libc::symlinkat(target.as_ptr(), dir.as_raw_fd(), path.as_ptr()) }.into())
}

/// `fchownat`. `u32::MAX` leaves an id. Flags: `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
pub fn fchownat(dir: BorrowedFd<'_>, path: &CStr, uid: u32, gid: u32, flags: i32) -> Result<()> {
    // SAFETY: the kernel reads a path.
    done(unsafe { libc::fchownat(dir.as_raw_fd(), path.as_ptr(), uid, gid, flags) }.into())
}

/// `utimensat`: access and modification time as (seconds, nanoseconds), with `UTIME_NOW` and `UTIME_OMIT` in the latter; `None`
/// sets both to now, as a null pointer does. Flags: `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
pub fn utimensat(dir: BorrowedFd<'_>, path: &CStr, times: Option<[(i64, i64); 2]>, flags: i32) -> Result<()> {
    let times = times.map(|t| t.map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec }));
    let pointer = times.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
    // SAFETY: the kernel reads a path and, if not null, two timespecs. The raw call: libc refuses some flags.
    done(unsafe { libc::syscall(libc::SYS_utimensat, dir.as_raw_fd(), path.as_ptr(), pointer, flags) })
}

/// `readlinkat`: the target of a symbolic link, of any length.
pub fn readlinkat(dir: BorrowedFd<'_>, path: &CStr) -> Result<Vec<u8>> {
    let mut buffer = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the kernel writes at most the buffer's length.
    let rc = unsafe { libc::readlinkat(dir.as_raw_fd(), path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    let length = Errno::result(rc)? as usize;
    buffer.truncate(length);
    Ok(buffer)
}

/// What identifies an object and says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device number.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// The number of hard links.
    pub nlink: u64,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The size, in bytes.
    pub size: i64,
}

impl Identity {
    /// The type bits (`S_IFREG`, `S_IFDIR`, …).
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    /// Whether both are the same object.
    pub fn same(&self, other: &Identity) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

fn identity(call: impl FnOnce(*mut libc::stat) -> i32) -> Result<Identity> {
    // SAFETY: stat is plain data, for which all zeroes is a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    Errno::result(call(&mut stat))?;
    Ok(Identity {
        dev: stat.st_dev,
        ino: stat.st_ino,
        mode: stat.st_mode,
        nlink: stat.st_nlink,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size,
    })
}

/// `fstat`; works on path descriptors.
pub fn fstat(fd: BorrowedFd<'_>) -> Result<Identity> {
    // SAFETY: the kernel fills in one stat.
    identity(|stat| unsafe { libc::fstat(fd.as_raw_fd(), stat) })
}

/// `fstatat`. Flags: `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
pub fn fstatat(dir: BorrowedFd<'_>, path: &CStr, flags: i32) -> Result<Identity> {
    // SAFETY: the kernel reads a path and fills in one stat.
    identity(|stat| unsafe { libc::fstatat(dir.as_raw_fd(), path.as_ptr(), stat, flags) })
}

/// When an object was made (`statx`, `STATX_BTIME`): tells it from an older one of the same inode number. Zero where the file system
/// does not know.
pub fn born(fd: BorrowedFd<'_>) -> Result<(i64, u32)> {
    // SAFETY: statx is plain data, for which all zeroes is a valid value.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads an empty path and fills in one statx.
    let rc = unsafe {
        libc::statx(
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_BTIME,
            &mut answer,
        )
    };
    Errno::result(rc)?;
    Ok((answer.stx_btime.tv_sec, answer.stx_btime.tv_nsec))
}

/// The id of the mount that a descriptor is on (`statx`, `STATX_MNT_ID`).
pub fn mount_id(fd: BorrowedFd<'_>) -> Result<u64> {
    // SAFETY: statx is plain data, for which all zeroes is a valid value.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads an empty path and fills in one statx.
    let rc = unsafe {
        libc::statx(
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_MNT_ID,
            &mut answer,
        )
    };
    Errno::result(rc)?;
    Ok(answer.stx_mnt_id)
}

/// `truncate` through a path, by a descriptor's /proc link for an open path descriptor.
pub fn truncate(path: &CStr, length: i64) -> Result<()> {
    // SAFETY: the kernel reads a path.
    done(unsafe { libc::truncate(path.as_ptr(), length) }.into())
}

/// `fcntl(F_SETLEASE)`: `F_RDLCK`, `F_WRLCK` or `F_UNLCK`. A read lease is refused with `EAGAIN` while a file is open for writing
/// anywhere.
pub fn set_lease(fd: BorrowedFd<'_>, kind: i32) -> Result<()> {
    // SAFETY: a number is passed.
    done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, kind) }.into())
}

/// The status flags of a descriptor (`F_GETFL`).
pub fn status_flags(fd: BorrowedFd<'_>) -> Result<i32> {
    // SAFETY: reads flags.
    Errno::result(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })
}

/// Sets the status flags of a descriptor (`F_SETFL`).
pub fn set_status_flags(fd: BorrowedFd<'_>, flags: i32) -> Result<()> {
    // SAFETY: sets flags.
    done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }.into())
}

/// A copy of a descriptor whose number is at least `minimum`, closed on exec.
pub fn duplicate_above(fd: BorrowedFd<'_>, minimum: RawFd) -> Result<OwnedFd> {
    // SAFETY: makes a descriptor or fails.
    owned(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, minimum) }.into())
}

/// `socket`, with the numbers as a caller gave them. Close-on-exec is always set.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd> {
    // SAFETY: makes a descriptor or fails.
    owned(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) }.into())
}

/// `connect` to an address that is given as bytes, in the kernel's layout.
pub fn connect(fd: BorrowedFd<'_>, address: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads the address of the length that is passed.
    done(unsafe { libc::connect(fd.as_raw_fd(), address.as_ptr().cast(), address.len() as u32) }.into())
}

/// `bind` to an address that is given as bytes, in the kernel's layout.
pub fn bind(fd: BorrowedFd<'_>, address: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads the address of the length that is passed.
    done(unsafe { libc::bind(fd.as_raw_fd(), address.as_ptr().cast(), address.len() as u32) }.into())
}

/// `listen`.
pub fn listen(fd: BorrowedFd<'_>, backlog: i32) -> Result<()> {
    // SAFETY: numbers are passed.
    done(unsafe { libc::listen(fd.as_raw_fd(), backlog) }.into())
}

/// `accept4`. Close-on-exec is always set. Flags: `SOCK_NONBLOCK`.
pub fn accept(fd: BorrowedFd<'_>, flags: i32) -> Result<OwnedFd> {
    let null = std::ptr::null_mut();
    // SAFETY: no address is asked for; makes a descriptor or fails.
    owned(unsafe { libc::accept4(fd.as_raw_fd(), null, null.cast(), flags | libc::SOCK_CLOEXEC) }.into())
}

/// The local address of a socket, in the kernel's layout.
pub fn socket_name(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let mut address = vec![0u8; size_of::<libc::sockaddr_storage>()];
    let mut length = address.len() as u32;
    // SAFETY: the kernel writes at most `length` bytes.
    Errno::result(unsafe { libc::getsockname(fd.as_raw_fd(), address.as_mut_ptr().cast(), &mut length) })?;
    address.truncate(length as usize);
    Ok(address)
}

/// A socket option that is an `int`.
pub fn socket_option(fd: BorrowedFd<'_>, level: i32, name: i32) -> Result<i32> {
    let (mut value, mut length) = (0i32, size_of::<i32>() as u32);
    // SAFETY: the kernel writes at most the four bytes of an int.
    Errno::result(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &mut length) })?;
    Ok(value)
}

/// Sets a socket option that is an `int`.
pub fn set_socket_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> Result<()> {
    // SAFETY: the kernel reads the four bytes of an int.
    done(
        unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<i32>() as u32,
            )
        }
        .into(),
    )
}

/// Who is at the other end of a UNIX socket, as the kernel noted it when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process, in our pid namespace; 0 if it is not visible here. It may have ended: see [`peer_pidfd`].
    pub pid: i32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// `SO_PEERCRED`.
pub fn peer_credentials(fd: BorrowedFd<'_>) -> Result<PeerCredentials> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of_val(&peer) as u32;
    // SAFETY: the kernel writes one ucred.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut length,
        )
    };
    Errno::result(rc)?;
    Ok(PeerCredentials {
        pid: peer.pid,
        uid: peer.uid,
        gid: peer.gid,
    })
}

/// `SO_PEERPIDFD` (Linux 6.5): a descriptor of the process at the other end, which no reused number can fool.
pub fn peer_pidfd(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    owned(socket_option(fd, libc::SOL_SOCKET, libc::SO_PEERPIDFD)?.into())
}

/// `pidfd_send_signal`; signal 0 only asks whether it may be sent.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<()> {
    let null = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: no siginfo is passed.
    done(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, null, 0) })
}

/// The number of the process behind a pidfd, in the pid namespace of our /proc; `None` once it was reaped.
pub fn pidfd_pid(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("Pid:"))?
        .trim()
        .parse()
        .ok()?;
    (pid > 0).then_some(pid)
}

/// Fills the buffer with random bytes.
pub fn random(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the kernel writes at most the buffer's length.
        match Errno::result(unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) }) {
            Ok(n) => filled += n as usize,
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Gives the calling thread its own working directory, root and umask, apart from the process's other threads.
pub fn own_thread_filesystem_state() -> Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS)
}

/// Sets the umask (of the process, or of the thread after [`own_thread_filesystem_state`]) and returns the former one.
pub fn umask(mask: u32) -> u32 {
    // SAFETY: a number is passed; the call cannot fail.
    unsafe { libc::umask(mask) }
}

/// Lets a signal have its default effect again.
pub fn signal_default(signal: i32) -> Result<()> {
    // SAFETY: installs no handler of ours.
    if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

/// Ignores a signal.
pub fn signal_ignore(signal: i32) -> Result<()> {
    // SAFETY: installs no handler of ours.
    if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
