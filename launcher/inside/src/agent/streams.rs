//! The standard descriptors of a session, which come from the person: in no tier a way into the network, and without granted calls nothing
//! whose metadata nobody would guard.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getpeername, getsockname, getsockopt, sockopt,
};
use nix::sys::stat::{Mode, SFlag, fstat, stat};
use nix::sys::statfs::{FsType, fstatfs};
use picktwo_confine::{Error, Result, sys};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Devices that may be behind a standard descriptor, as the view shows them: on read-only mounts.
const DEVICES: &[&str] = &[
    "/dev/console",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];
/// `PIPEFS_MAGIC`
const PIPES: FsType = FsType(0x5049_5045);

/// What a standard descriptor is, as far as it matters here.
enum Stream {
    /// An object without a name: nothing of the host changes with its metadata.
    Nameless,
    /// A device, which can be opened again on a read-only mount.
    Device,
    /// Closed.
    Closed,
}

/// Why a session without granted calls cannot have one of this process's standard descriptors, if so. One sentence, with the remedy.
pub fn unfit() -> Option<String> {
    let streams = [
        ("standard input", "cat FILE | picktwo …"),
        ("standard output", "picktwo … | cat > FILE"),
        ("standard error", "picktwo … 2>&1 | cat > FILE"),
    ];
    first(|fd| kind(fd).err()).map(|(at, what)| {
        let (name, instead) = streams[at];
        format!(
            "{name} is {what}, whose metadata nothing would guard in the nested tier: put a pipe between (`{instead}`)"
        )
    })
}

/// Why no session can have one of this process's standard descriptors, if so. One sentence, with the remedy. Calls on a socket need no
/// Landlock right: one of the network, or one that still takes an address or a connection, is a way out of the session.
pub fn leads_out() -> Option<String> {
    let streams = [
        ("standard input", "cat | picktwo …"),
        ("standard output", "picktwo … | cat"),
        ("standard error", "picktwo … 2>&1 | cat"),
    ];
    first(|fd| is_way_out(fd).then_some(())).map(|(at, ())| {
        let (name, instead) = streams[at];
        format!(
            "{name} is a socket other than a connected local one, by which the command would have a network: put a pipe between (`{instead}`)"
        )
    })
}

/// The same from within the command's process.
///
/// # Errors
/// Such a descriptor.
pub(super) fn no_way_out() -> Result<()> {
    match first(|fd| is_way_out(fd).then_some(())) {
        None => Ok(()),
        Some((at, ())) => Err(Error::NotLocked {
            check: format!("descriptor {at} must lead to no network"),
            found: "a socket that is not a connected local one".into(),
        }),
    }
}

/// The first standard descriptor of which there is something to say.
fn first<T>(say: impl Fn(BorrowedFd<'_>) -> Option<T>) -> Option<(usize, T)> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let fds = [input.as_fd(), output.as_fd(), errors.as_fd()];
    fds.into_iter().enumerate().find_map(|(at, fd)| Some((at, say(fd)?)))
}

/// Whether it is a socket that is not a connected pair. One that cannot be looked at is nothing that calls work on.
fn is_way_out(fd: BorrowedFd<'_>) -> bool {
    let is_socket =
        |what: nix::sys::stat::FileStat| SFlag::from_bits_truncate(what.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK;
    fstat(fd).is_ok_and(is_socket) && !is_connected_pair(fd)
}

fn kind(fd: BorrowedFd<'_>) -> std::result::Result<Stream, &'static str> {
    let what = match fstat(fd) {
        Err(Errno::EBADF) => return Ok(Stream::Closed),
        other => other.map_err(|_| "nothing that can be looked at")?,
    };
    match SFlag::from_bits_truncate(what.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFIFO if fstatfs(fd).is_ok_and(|fs| fs.filesystem_type() == PIPES) => Ok(Stream::Nameless),
        SFlag::S_IFIFO => Err("a named pipe"),
        SFlag::S_IFSOCK if is_connected_pair(fd) => Ok(Stream::Nameless),
        SFlag::S_IFSOCK => Err("a socket of the host's network"),
        SFlag::S_IFCHR if is_terminal(fd) || of_view(what.st_rdev).is_some() => Ok(Stream::Device),
        SFlag::S_IFCHR => Err("a device"),
        SFlag::S_IFREG => Err("a file"),
        _ => Err("a directory"),
    }
}

fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    nix::unistd::isatty(fd) == Ok(true)
}

/// A local stream that has its peer: the kernel connects it to no other, whatever becomes of that one.
fn is_connected_pair(fd: BorrowedFd<'_>) -> bool {
    let local = getsockname::<SockaddrStorage>(fd.as_raw_fd());
    local.is_ok_and(|name| name.family() == Some(AddressFamily::Unix))
        && getsockopt(&fd, sockopt::SockType) == Ok(SockType::Stream)
        && getpeername::<SockaddrStorage>(fd.as_raw_fd()).is_ok()
}

/// Where a device is in the view.
fn of_view(number: u64) -> Option<&'static str> {
    DEVICES
        .iter()
        .copied()
        .find(|path| stat(*path).is_ok_and(|found| found.st_rdev == number))
}

/// Opens each device behind a standard descriptor again, as the view shows it. To be called in the view.
///
/// # Errors
/// A descriptor that must not be there, or a device that is not in the view.
pub(super) fn shield() -> Result<()> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    for fd in [input.as_fd(), output.as_fd(), errors.as_fd()] {
        let refused = |found: &str| Error::NotLocked {
            check: format!("descriptor {} must be a pipe or a device of the view", fd.as_raw_fd()),
            found: found.into(),
        };
        match kind(fd).map_err(refused)? {
            Stream::Nameless | Stream::Closed => continue,
            Stream::Device => {}
        }
        let number = fstat(fd).map_err(|e| refused(e.desc()))?.st_rdev;
        let path = of_view(number).ok_or_else(|| refused("a device that the view has not got"))?;
        let failed = |errno| Error::Open {
            path: path.into(),
            errno,
        };
        let flags = OFlag::from_bits_truncate(sys::status_flags(fd).map_err(failed)?);
        let kept = OFlag::O_ACCMODE | OFlag::O_APPEND | OFlag::O_NONBLOCK;
        let again = nix::fcntl::open(path, (flags & kept) | OFlag::O_NOCTTY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(failed)?;
        match fd.as_raw_fd() {
            0 => nix::unistd::dup2_stdin(&again),
            1 => nix::unistd::dup2_stdout(&again),
            _ => nix::unistd::dup2_stderr(&again),
        }
        .map_err(failed)?;
    }
    Ok(())
}
