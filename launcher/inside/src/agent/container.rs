//! The check from inside where there is no view: the Landlock domain refuses what a view would not show.

use super::Command;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockType};
use nix::sys::stat::Mode;
use picktwo_confine::{Error, Result, sys};
use std::os::fd::AsFd;
use std::path::Path;

/// Checks that the kernel itself refuses to change the roots, to open what is hidden, to look into the launcher or to signal it, and
/// to connect.
pub(super) fn domain_holds(command: &Command) -> Result<()> {
    for root in &command.roots {
        let probe = root.join(format!(".picktwo-check-{}", std::process::id()));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let made = nix::fcntl::open(&probe, flags, Mode::from_bits_truncate(0o600));
        if made.is_ok() {
            let _ = nix::unistd::unlink(&probe);
        }
        // A file system that nobody may write says so first.
        let read_only = matches!(made, Err(Errno::EROFS));
        if !read_only {
            refused(&format!("{} must be read-only", root.display()), made.map(drop))?;
        }
    }
    for hidden in &command.hidden {
        let opened = open(&hidden.path);
        if !matches!(opened, Err(Errno::ENOENT | Errno::ENOTDIR)) {
            refused(&format!("{} must not be readable", hidden.path.display()), opened)?;
        }
    }
    let launcher = nix::unistd::getppid();
    refused(
        "the launcher's memory must not be readable",
        open(Path::new(&format!("/proc/{launcher}/environ"))),
    )?;
    match kill(launcher, None) {
        Err(Errno::EPERM) => {}
        other => return Err(wrong("no signal must reach the launcher", &format!("{other:?}"))),
    }
    let socket = sys::socket(AddressFamily::Inet as i32, SockType::Stream as i32, 0)
        .map_err(|errno| wrong("a socket can be made", &format!("{errno:?}")))?;
    // 127.0.0.1, discard: refused before anything is sent.
    let mut address = [0u8; 16];
    address[..2].copy_from_slice(&(AddressFamily::Inet as u16).to_ne_bytes());
    address[2..8].copy_from_slice(&[0, 9, 127, 0, 0, 1]);
    refused("no network must be reachable", sys::connect(socket.as_fd(), &address))
}

fn open(path: &Path) -> std::result::Result<(), Errno> {
    nix::fcntl::open(
        path,
        OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK,
        Mode::empty(),
    )
    .map(drop)
}

fn refused(check: &str, outcome: std::result::Result<(), Errno>) -> Result<()> {
    match outcome {
        Err(Errno::EACCES) => Ok(()),
        other => Err(wrong(check, &format!("{other:?}"))),
    }
}

fn wrong(check: &str, found: &str) -> Error {
    Error::NotLocked {
        check: check.to_owned(),
        found: found.to_owned(),
    }
}
