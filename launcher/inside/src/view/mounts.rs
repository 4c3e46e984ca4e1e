//! Mounts by descriptor, with the kernel's plain answers.

use super::plan::in_memory;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::mount::MsFlags;
use nix::sys::stat::Mode;
use picktwo_confine::attempt::{self, Arg};
use picktwo_confine::sys::{self, AT_RECURSIVE, CWD, OPEN_TREE_CLONE, mount_attr};
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What every part of the host gets.
pub(crate) const SHOWN: u64 = mount_attr::RDONLY | mount_attr::NOSUID | mount_attr::NODEV;
/// What the session may write: private, but without privileges or devices.
pub(crate) const WRITABLE: u64 = mount_attr::NOSUID | mount_attr::NODEV;
/// A device node: it works on a read-only mount, and its metadata cannot be changed there.
pub(crate) const DEVICE: u64 = mount_attr::RDONLY | mount_attr::NOSUID | mount_attr::NOEXEC;
/// File systems that only inform.
pub(crate) const INFORMATION: u64 = SHOWN | mount_attr::NOEXEC;

const AT_EMPTY_PATH: u32 = 0x1000;
// linux/mount.h
const FSOPEN_CLOEXEC: i64 = 1;
const FSCONFIG_SET_STRING: i64 = 1;
const FSCONFIG_CMD_CREATE: i64 = 6;
const FSMOUNT_CLOEXEC: i64 = 1;

/// A new file system, not mounted anywhere yet.
pub(crate) fn file_system(kind: &CStr, options: &[(&CStr, &str)], attributes: u64) -> Result<OwnedFd, Errno> {
    let none = || Arg::Null;
    let kind = Arg::In(kind.to_bytes_with_nul());
    let number = attempt::syscall(
        libc_numbers::FSOPEN,
        [kind, Arg::Int(FSOPEN_CLOEXEC), none(), none(), none(), none()],
    )?;
    let context = owned(number)?;
    let fd = i64::from(context.as_raw_fd());
    for (key, value) in options {
        let value = CString::new(*value).map_err(|_| Errno::EINVAL)?;
        let (key, value) = (Arg::In(key.to_bytes_with_nul()), Arg::In(value.as_bytes_with_nul()));
        attempt::syscall(
            libc_numbers::FSCONFIG,
            [
                Arg::Int(fd),
                Arg::Int(FSCONFIG_SET_STRING),
                key,
                value,
                Arg::Int(0),
                none(),
            ],
        )?;
    }
    attempt::numbers(libc_numbers::FSCONFIG, &[fd, FSCONFIG_CMD_CREATE, 0, 0, 0])?;
    owned(attempt::numbers(
        libc_numbers::FSMOUNT,
        &[fd, FSMOUNT_CLOEXEC, attributes as i64],
    )?)
}

fn owned(number: i64) -> Result<OwnedFd, Errno> {
    i32::try_from(number).ok().and_then(sys::take_fd).ok_or(Errno::EBADF)
}

/// Changes the size of a file system of the session's own that is mounted, empty, at `place`.
pub(crate) fn resize(place: &Path, size: u64) -> Result<(), Errno> {
    let options: Vec<String> = in_memory(size)
        .iter()
        .map(|(name, value)| format!("{}={value}", name.to_string_lossy()))
        .collect();
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    nix::mount::mount(
        None::<&str>,
        place,
        None::<&str>,
        flags,
        Some(options.join(",").as_str()),
    )
}

/// Bounds the process numbers of this process's pid namespace, and so how many processes and threads there can be at the same time.
///
/// From Linux 6.14 on each pid namespace has a bound of its own; before, this is the whole machine's, and a caller that is the
/// machine's root would change it: [`super::Plan::processes`] is for newer kernels only.
pub(crate) fn limit_processes(most: u64) -> Result<(), Errno> {
    // Once they have begun anew, numbers start above those (kernel: RESERVED_PIDS).
    const RESERVED: u64 = 300;
    let proc = file_system(c"proc", &[], WRITABLE)?;
    let file = openat(
        &proc,
        "sys/kernel/pid_max",
        OFlag::O_WRONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    nix::unistd::write(&file, (most + RESERVED + 1).to_string().as_bytes()).map(drop)
}

/// A copy of the mounts at and below an open path, not mounted anywhere yet.
pub(crate) fn copy_tree(source: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    sys::open_tree(source, c"", OPEN_TREE_CLONE | AT_RECURSIVE | AT_EMPTY_PATH)
}

/// Sets attributes of one mount, or of all mounts of a tree: of each, or of none.
pub(crate) fn set_attributes(mount: BorrowedFd<'_>, attributes: u64, whole_tree: bool) -> Result<(), Errno> {
    let flags = AT_EMPTY_PATH | if whole_tree { AT_RECURSIVE } else { 0 };
    sys::mount_setattr(mount, c"", flags, attributes, 0, 0)
}

/// Cuts all mounts of this namespace off from the host's: nothing that is mounted there later appears here.
pub(crate) fn separate() -> Result<(), Errno> {
    const MS_PRIVATE: u64 = 1 << 18;
    sys::mount_setattr(CWD, c"/", AT_RECURSIVE, 0, 0, MS_PRIVATE)
}

/// Mounts a tree on the entry `name` of a directory, which is not followed if it is a link.
pub(crate) fn attach(tree: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL)?;
    sys::move_mount(tree, directory, &name)
}

/// System call numbers of x86-64.
mod libc_numbers {
    pub(super) const FSOPEN: i64 = 430;
    pub(super) const FSCONFIG: i64 = 431;
    pub(super) const FSMOUNT: i64 = 432;
}
