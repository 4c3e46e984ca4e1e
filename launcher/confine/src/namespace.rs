//! Namespaces as an ordinary user: making them is [`crate::process::clone_namespaces`]; here is what follows.

use crate::error::{Error, Result};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// All the namespaces of a session.
pub const SESSION: CloneFlags = CloneFlags::CLONE_NEWUSER
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWPID)
    .union(CloneFlags::CLONE_NEWNET)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS)
    .union(CloneFlags::CLONE_NEWCGROUP);

/// Maps the ids `uid` and `gid` of the parent user namespace onto themselves, from inside a new user namespace. Supplementary
/// groups stay unmapped and `setgroups` is denied for good.
///
/// Call it in the new namespace's first process before anything else there, with the ids from before the clone: inside,
/// `getuid` says 65534 until the map exists. Needs /proc.
pub fn write_own_maps(uid: u32, gid: u32) -> Result<()> {
    for (file, content) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1\n")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1\n")),
    ] {
        File::options()
            .write(true)
            .open(file)
            .and_then(|mut f| f.write_all(content.as_bytes()))
            .map_err(|e| Error::WriteMap {
                file: file.into(),
                errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
            })?;
    }
    Ok(())
}

/// Brings up `lo` in a network namespace that this process has `CAP_NET_ADMIN` over.
pub fn loopback_up() -> Result<()> {
    let failed = |step| move |errno| Error::Loopback { step, errno };
    // SAFETY: makes a descriptor or fails.
    let fd = Errno::result(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
        .map_err(failed("socket"))?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    // SAFETY: the kernel reads and writes one ifreq.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) };
    Errno::result(rc).map_err(failed("SIOCGIFFLAGS"))?;
    // SAFETY: SIOCGIFFLAGS filled in the flags member of the union.
    unsafe { request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short };
    // SAFETY: as above.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request) };
    Errno::result(rc).map(drop).map_err(failed("SIOCSIFFLAGS"))
}

/// Sets the host name in a UTS namespace of our own.
pub fn set_host_name(name: &str) -> Result<()> {
    nix::unistd::sethostname(name).map_err(|errno| Error::HostName {
        name: name.into(),
        errno,
    })
}

/// Descriptors of the namespaces of a process, for joining them later, even from below a Landlock domain that could no longer
/// open them.
#[derive(Debug)]
pub struct NamespaceFds {
    fds: Vec<(&'static str, CloneFlags, OwnedFd)>,
}

/// In the order of joining: the user namespace gives the capabilities for the others; the mount namespace comes last because it
/// changes root and directory.
const ORDER: [(&str, CloneFlags); 7] = [
    ("user", CloneFlags::CLONE_NEWUSER),
    ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("net", CloneFlags::CLONE_NEWNET),
    ("pid", CloneFlags::CLONE_NEWPID),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

impl NamespaceFds {
    /// Opens all seven namespaces of `pid`. Must happen before the caller restricts itself with Landlock.
    pub fn open(pid: i32) -> Result<NamespaceFds> {
        let mut fds = Vec::new();
        for (name, flag) in ORDER {
            let path = format!("/proc/{pid}/ns/{name}");
            let fd = File::open(&path).map_err(|e| Error::Open {
                path,
                errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
            })?;
            fds.push((name, flag, OwnedFd::from(fd)));
        }
        Ok(NamespaceFds { fds })
    }

    /// The user namespace's descriptor, for example for id-mapped mounts.
    pub fn user(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fds[0].2.as_fd()
    }
}

/// Joins all namespaces. The pid namespace is that of children forked from now on. The calling process must have one thread;
/// afterwards its root and working directory are those of the mount namespace.
pub fn join(namespaces: &NamespaceFds) -> Result<()> {
    crate::process::single_threaded()?;
    for (namespace, flag, fd) in &namespaces.fds {
        setns(fd, *flag).map_err(|errno| Error::JoinNamespace { namespace, errno })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
