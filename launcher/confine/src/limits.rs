//! What a process gives up before it runs foreign code: privileges, capabilities, keys, core dumps, inherited descriptors.

use crate::error::{Error, Result};
use caps::CapSet;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::fd::RawFd;

/// The core size limit, in bytes. 1, not 0: a piped core handler (apport, systemd-coredump) ignores a limit of 0 and is
/// stopped by a limit of 1 (core(5), kernel `do_coredump`).
pub const CORE_LIMIT: u64 = 1;

/// Sets `no_new_privs`: no exec gives privileges from now on.
pub fn no_new_privs() -> Result<()> {
    nix::sys::prctl::set_no_new_privs().map_err(|errno| Error::ProcessControl {
        option: "PR_SET_NO_NEW_PRIVS",
        errno,
    })
}

/// Empties all five capability sets, the bounding set included where this process may, and locks the way back (ambient).
///
/// The bounding set can only be emptied with `CAP_SETPCAP`, which an ordinary user has in a user namespace of its own. Without
/// it the set stays as it is: nothing can be gained from it under `no_new_privs`. Returns whether it is empty now.
pub fn drop_all_capabilities() -> Result<bool> {
    let failed = |set| {
        move |e: caps::errors::CapsError| Error::Capabilities {
            set,
            errno: last_errno(&e),
        }
    };
    caps::clear(None, CapSet::Ambient).map_err(failed("ambient"))?;
    let may_empty_bounding =
        caps::has_cap(None, CapSet::Effective, caps::Capability::CAP_SETPCAP).map_err(failed("effective"))?;
    if may_empty_bounding {
        // By number, up to the first that the kernel does not know: newer than any list in a library.
        for number in 0..64 {
            // SAFETY: prctl with plain numbers.
            let rc = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
            match Errno::result(rc) {
                Ok(_) => {}
                Err(Errno::EINVAL) => break,
                Err(errno) => return Err(Error::Capabilities { set: "bounding", errno }),
            }
        }
    }
    clear_process_sets()?;
    Ok(may_empty_bounding)
}

/// Clears the effective, permitted and inheritable sets by number, those included that no library names yet.
fn clear_process_sets() -> Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;
    let mut header = Header {
        version: LINUX_CAPABILITY_VERSION_3,
        pid: 0,
    };
    let data = [Data::default(); 2];
    // SAFETY: version 3 reads one header and two data elements, as passed.
    let rc = unsafe { libc::syscall(libc::SYS_capset, &mut header, data.as_ptr()) };
    Errno::result(rc).map(drop).map_err(|errno| Error::Capabilities {
        set: "effective, permitted and inheritable",
        errno,
    })
}

fn last_errno(_: &caps::errors::CapsError) -> Errno {
    Errno::last()
}

/// Joins a new, anonymous session keyring: the keys of the login session are no longer possessed. User namespaces do not do
/// that. A kernel without keyrings (`ENOSYS`) has nothing to leak; where a filter of a container refuses the call (`EPERM`), it refuses
/// every use of a key to all that run below it.
pub fn new_session_keyring() -> Result<()> {
    // SAFETY: a null name asks for an anonymous keyring.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_JOIN_SESSION_KEYRING as libc::c_long,
            0,
            0,
            0,
            0,
        )
    };
    match Errno::result(rc) {
        Ok(_) | Err(Errno::ENOSYS | Errno::EPERM) => Ok(()),
        Err(errno) => Err(Error::SessionKeyring { errno }),
    }
}

/// Sets the core limit, soft and hard, to [`CORE_LIMIT`]. The agent's filter keeps it from being changed.
pub fn core_limit() -> Result<()> {
    let failed = |errno| Error::ResourceLimit {
        limit: "RLIMIT_CORE",
        errno,
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE).map_err(failed)?;
    // Who inherited a hard limit of 0 cannot raise it to 1.
    let limit = CORE_LIMIT.min(hard);
    setrlimit(Resource::RLIMIT_CORE, limit, limit).map_err(failed)
}

/// Raises the soft limit of open descriptors to the hard one and returns it.
pub fn nofile_raise() -> Result<u64> {
    let failed = |errno| Error::ResourceLimit {
        limit: "RLIMIT_NOFILE",
        errno,
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(failed)?;
    Ok(hard)
}

/// Sets the limit of open descriptors, soft and hard.
pub fn nofile(soft: u64, hard: u64) -> Result<()> {
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).map_err(|errno| Error::ResourceLimit {
        limit: "RLIMIT_NOFILE",
        errno,
    })
}

/// What bounds each process that the command is or starts (getrlimit(2)). None of it can be raised again without capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Open descriptors, soft and hard.
    pub open_files: (u64, u64),
    /// Processes and threads of this user in this user namespace and those below it. The kernel excepts the machine's root.
    pub processes: Option<u64>,
    /// Bytes of data of one process: what it has mapped privately and writable. Not the address space, of which V8, Go and
    /// sanitizers reserve terabytes that they never touch.
    pub data: Option<u64>,
    /// Bytes that one file can grow to.
    pub file: u64,
}

impl Bounds {
    /// Sets them for this process and what it starts; what is lower already stays.
    pub fn apply(&self) -> Result<()> {
        nofile(self.open_files.0, self.open_files.1)?;
        at_most(Resource::RLIMIT_FSIZE, "RLIMIT_FSIZE", self.file)?;
        if let Some(data) = self.data {
            at_most(Resource::RLIMIT_DATA, "RLIMIT_DATA", data)?;
        }
        if let Some(processes) = self.processes {
            at_most(Resource::RLIMIT_NPROC, "RLIMIT_NPROC", processes)?;
        }
        Ok(())
    }
}

fn at_most(resource: Resource, limit: &'static str, most: u64) -> Result<()> {
    let failed = |errno| Error::ResourceLimit { limit, errno };
    let (soft, hard) = getrlimit(resource).map_err(failed)?;
    setrlimit(resource, soft.min(most), hard.min(most)).map_err(failed)
}

/// How readily the kernel ends the children of this process where memory runs out (proc_pid_oom_score_adj(5)): before everything
/// of the host that holds less than half of it.
#[derive(Debug)]
pub struct FirstToGo {
    file: std::fs::File,
    own: String,
}

impl FirstToGo {
    /// To be opened before this process closes /proc. `None` where /proc does not offer it.
    pub fn open() -> Option<FirstToGo> {
        use std::io::Read;
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/proc/self/oom_score_adj")
            .ok()?;
        let mut own = String::new();
        file.read_to_string(&mut own).ok()?;
        Some(FirstToGo {
            file,
            own: own.trim().to_owned(),
        })
    }

    /// For children that are made from now on. They cannot go back: nobody inside can write to /proc.
    pub fn raise(&mut self) {
        const RAISED: i32 = 500;
        let own: i32 = self.own.parse().unwrap_or(0);
        self.set(&own.max(RAISED).to_string());
    }

    /// For this process, once they are made: going back to what it was needs no privilege.
    pub fn restore(&mut self) {
        let own = self.own.clone();
        self.set(&own);
    }

    fn set(&mut self, value: &str) {
        use std::io::{Seek, Write};
        // Without it everything else still holds.
        let _ = self.file.rewind().and_then(|()| self.file.write_all(value.as_bytes()));
    }
}

/// The soft and hard limit of open descriptors.
pub fn nofile_limits() -> Result<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).map_err(|errno| Error::ResourceLimit {
        limit: "RLIMIT_NOFILE",
        errno,
    })
}

/// Closes every descriptor that is not in `keep`: nothing inherited from whoever started us survives.
///
/// To be used in a child that is about to exec or that owns all of its descriptors: values of type `OwnedFd` that are still
/// alive would close their number a second time.
pub fn sweep(keep: &[RawFd]) -> Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter(|&&fd| fd >= 0).map(|&fd| fd as u32).collect();
    keep.sort_unstable();
    keep.dedup();
    let mut first = 0;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1)?;
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX)
}

fn close_range(first: u32, last: u32) -> Result<()> {
    // SAFETY: closes numbers; the contract of `sweep` covers who owned them.
    let rc = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    Errno::result(rc)
        .map(drop)
        .map_err(|errno| Error::CloseRange { first, last, errno })
}

#[cfg(test)]
mod tests;
