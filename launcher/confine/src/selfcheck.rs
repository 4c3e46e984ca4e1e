//! Checks from inside that a process is locked, before the first foreign byte or instruction.

use crate::attempt;
use crate::error::{Error, Result};
use crate::seccomp::{self, Action, Filter};
use nix::errno::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A call that must fail with exactly this error in a locked process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The call's name.
    pub name: &'static str,
    /// Its number.
    pub nr: i64,
    /// Its arguments. They make the call harmless if it is not denied.
    pub args: [i64; 6],
    /// What a locked process gets.
    pub errno: Errno,
}

/// The check, prepared before the lock: it holds what a locked process can no longer open.
#[derive(Debug)]
pub struct SelfCheck {
    /// None below a Landlock domain that hides /proc: then the calls that ask the kernel directly are used.
    status: Option<File>,
}

impl SelfCheck {
    /// To be called in the process that will be checked, before it is locked.
    pub fn prepare() -> Result<SelfCheck> {
        let path = "/proc/self/status";
        match File::open(path) {
            Ok(status) => Ok(SelfCheck { status: Some(status) }),
            Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
                crate::process::single_threaded()?;
                Ok(SelfCheck { status: None })
            }
            Err(e) => Err(Error::Open {
                path: path.into(),
                errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
            }),
        }
    }

    /// Fails unless `no_new_privs` is set, a filter is installed, all capability sets are empty, one thread exists, and every call
    /// of `denied` fails as it must.
    ///
    /// `bounding_empty` is the answer of [`crate::limits::drop_all_capabilities`].
    pub fn locked(&self, bounding_empty: bool, denied: &[Denied]) -> Result<()> {
        match &self.status {
            Some(status) => {
                let mut buffer = [0u8; 8192];
                let length = status.read_at(&mut buffer, 0).map_err(|e| Error::Read {
                    what: "/proc/self/status".into(),
                    errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
                })?;
                check_status(&String::from_utf8_lossy(&buffer[..length]), bounding_empty)?;
            }
            None => check_calls(bounding_empty)?,
        }
        for call in denied {
            let result = attempt::numbers(call.nr, &call.args);
            if result != Err(call.errno) {
                let check = format!("{} must fail with {:?}", call.name, call.errno);
                return Err(Error::NotLocked {
                    check,
                    found: attempt::describe(&result),
                });
            }
        }
        Ok(())
    }
}

impl SelfCheck {
    /// What a sweep of descriptors before the lock must keep.
    pub fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        self.status.as_ref().map(std::os::fd::AsRawFd::as_raw_fd)
    }
}

/// The calls that a process under `filter` must be refused, out of a fixed set whose members are harmless and answer something
/// else where no filter is installed.
pub fn denied_by(filter: &Filter) -> Vec<Denied> {
    CANDIDATES
        .iter()
        .filter_map(
            |&(name, nr, args)| match filter.decide(seccomp::ARCH, nr as u32, &args.map(|a| a as u64)) {
                Action::Errno(errno) => Some(Denied { name, nr, args, errno }),
                _ => None,
            },
        )
        .collect()
}

const NOTHING: i64 = -1;

/// Name, number and arguments. No pointer is valid and no descriptor is open: none of them does anything if it is not refused,
/// but for a socket that is made and a personality that is set in a process that then ends.
const CANDIDATES: &[(&str, i64, [i64; 6])] = &[
    ("io_uring_setup", libc::SYS_io_uring_setup, [0; 6]),
    ("clone3", libc::SYS_clone3, [0; 6]),
    (
        "unshare",
        libc::SYS_unshare,
        [libc::CLONE_NEWUSER as i64, 0, 0, 0, 0, 0],
    ),
    ("setns", libc::SYS_setns, [NOTHING, 0, 0, 0, 0, 0]),
    ("chroot", libc::SYS_chroot, [0; 6]),
    ("open_tree", libc::SYS_open_tree, [NOTHING, 0, 0, 0, 0, 0]),
    (
        "ptrace",
        libc::SYS_ptrace,
        [libc::PTRACE_ATTACH as i64, NOTHING, 0, 0, 0, 0],
    ),
    (
        "process_vm_writev",
        libc::SYS_process_vm_writev,
        [NOTHING, 0, 0, 0, 0, 0],
    ),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, [NOTHING, NOTHING, 0, 0, 0, 0]),
    ("kcmp", libc::SYS_kcmp, [NOTHING, NOTHING, 0, 0, 0, 0]),
    ("add_key", libc::SYS_add_key, [0; 6]),
    ("perf_event_open", libc::SYS_perf_event_open, [0; 6]),
    (
        "personality",
        libc::SYS_personality,
        [libc::ADDR_COMPAT_LAYOUT as i64, 0, 0, 0, 0, 0],
    ),
    ("openat", libc::SYS_openat, [NOTHING, 0, 0, 0, 0, 0]),
    ("execve", libc::SYS_execve, [0; 6]),
    ("execveat", libc::SYS_execveat, [NOTHING, 0, 0, 0, 0, 0]),
    (
        "socket(netlink)",
        libc::SYS_socket,
        [libc::AF_NETLINK as i64, libc::SOCK_RAW as i64, 0, 0, 0, 0],
    ),
    (
        "socket(vsock)",
        libc::SYS_socket,
        [libc::AF_VSOCK as i64, libc::SOCK_STREAM as i64, 0, 0, 0, 0],
    ),
    (
        "socket(unix, datagram)",
        libc::SYS_socket,
        [libc::AF_UNIX as i64, libc::SOCK_DGRAM as i64, 0, 0, 0, 0],
    ),
    (
        "socket(inet, tcp)",
        libc::SYS_socket,
        [libc::AF_INET as i64, libc::SOCK_STREAM as i64, 0, 0, 0, 0],
    ),
    (
        "socket(inet, udp)",
        libc::SYS_socket,
        [libc::AF_INET as i64, libc::SOCK_DGRAM as i64, 0, 0, 0, 0],
    ),
    (
        "socket(mptcp)",
        libc::SYS_socket,
        [libc::AF_INET as i64, libc::SOCK_STREAM as i64, 262, 0, 0, 0],
    ),
    (
        "socketpair(datagram)",
        libc::SYS_socketpair,
        [libc::AF_UNIX as i64, libc::SOCK_DGRAM as i64, 0, 0, 0, 0],
    ),
    ("connect", libc::SYS_connect, [NOTHING, 0, 0, 0, 0, 0]),
    ("bind", libc::SYS_bind, [NOTHING, 0, 0, 0, 0, 0]),
    ("listen", libc::SYS_listen, [NOTHING, 0, 0, 0, 0, 0]),
    (
        "sendto(fast open)",
        libc::SYS_sendto,
        [NOTHING, 0, 0, 0x2000_0000, 0, 0],
    ),
    (
        "sendmsg(fast open)",
        libc::SYS_sendmsg,
        [NOTHING, 0, 0x2000_0000, 0, 0, 0],
    ),
    (
        "ioctl(TIOCSTI)",
        libc::SYS_ioctl,
        [NOTHING, libc::TIOCSTI as i64, 0, 0, 0, 0],
    ),
    (
        "ioctl(TIOCSTI), high bits set",
        libc::SYS_ioctl,
        [NOTHING, libc::TIOCSTI as i64 | 1 << 32, 0, 0, 0, 0],
    ),
    (
        "ioctl(FS_IOC_SETFLAGS)",
        libc::SYS_ioctl,
        [NOTHING, 0x4008_6602, 0, 0, 0, 0],
    ),
    (
        "fcntl(F_SETOWN) of a group",
        libc::SYS_fcntl,
        [NOTHING, libc::F_SETOWN as i64, -5, 0, 0, 0],
    ),
    (
        "prlimit64 of another process",
        libc::SYS_prlimit64,
        [NOTHING, 0, 0, 0, 0, 0],
    ),
    (
        "ioprio_set of a group",
        libc::SYS_ioprio_set,
        [2, 0, 0x7fff_ffff, 0, 0, 0],
    ),
];

fn check_status(status: &str, bounding_empty: bool) -> Result<()> {
    let mut expected = vec![
        ("Threads", "1"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapInh", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
    ];
    if bounding_empty {
        expected.push(("CapBnd", "0000000000000000"));
    }
    for (key, value) in expected {
        let found = status
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .map(str::trim);
        if found != Some(value) {
            return Err(Error::NotLocked {
                check: format!("{key} must be {value}"),
                found: found.unwrap_or("nothing").into(),
            });
        }
    }
    Ok(())
}

/// As [`check_status`], asked by calls instead of read from a file.
fn check_calls(bounding_empty: bool) -> Result<()> {
    let fail = |check: &str, found: String| {
        Err(Error::NotLocked {
            check: check.to_owned(),
            found,
        })
    };
    if nix::sys::prctl::get_no_new_privs() != Ok(true) {
        return fail("NoNewPrivs must be 1", "something else".to_owned());
    }
    let seccomp = attempt::numbers(libc::SYS_prctl, &[libc::PR_GET_SECCOMP as i64, 0, 0, 0, 0, 0]);
    if seccomp != Ok(libc::SECCOMP_MODE_FILTER as i64) {
        return fail("Seccomp must be 2", attempt::describe(&seccomp));
    }
    let mut sets = vec![
        ("inheritable", caps::CapSet::Inheritable),
        ("permitted", caps::CapSet::Permitted),
        ("effective", caps::CapSet::Effective),
        ("ambient", caps::CapSet::Ambient),
    ];
    if bounding_empty {
        sets.push(("bounding", caps::CapSet::Bounding));
    }
    for (name, set) in sets {
        match caps::read(None, set) {
            Ok(held) if held.is_empty() => {}
            Ok(held) => return fail(&format!("the {name} capability set must be empty"), format!("{held:?}")),
            Err(e) => return fail(&format!("the {name} capability set must be empty"), e.to_string()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
