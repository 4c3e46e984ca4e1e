//! Landlock: which files a process may reach by itself, no TCP, and no signals or abstract sockets out of its domain.
//!
//! What the tier needs is demanded ([`landlock::CompatLevel::HardRequirement`]); what newer kernels add is taken where it is there,
//! and [`Report::dropped`] names what is not.

use crate::error::{Error, Result};
use crate::process;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::errno::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The Landlock ABI that every tier needs: 6 has the scopes of signals and abstract sockets (Linux 6.12), which the processes of the
/// network's side and the container tier's keeper rely on (docs/decisions/0011).
pub const FLOOR: u32 = 6;
/// The newest ABI whose rights are used where the kernel has them. ABI 10 (UDP) is not: sessions send datagrams on their own
/// loopback and the resolver to its servers, which its rights by port cannot tell apart; network namespaces, seccomp and granted
/// sockets decide on UDP.
pub const NEWEST: u32 = 9;

const FLOOR_ABI: ABI = ABI::V6;
const NEWEST_ABI: ABI = ABI::V9;

/// The Landlock ABI of the running kernel.
pub fn abi() -> Result<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with a null attribute and size 0 the call only answers its version.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    Errno::result(rc)
        .map(|version| version as u32)
        .map_err(|errno| Error::LandlockVersion { errno })
}

/// The errata that the running kernel has fixed, as a bit mask; 0 where it cannot tell (before Linux 6.15).
pub fn errata() -> u32 {
    const LANDLOCK_CREATE_RULESET_ERRATA: u32 = 2;
    // SAFETY: with a null attribute and size 0 the call only answers its errata.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_CREATE_RULESET_ERRATA,
        )
    };
    u32::try_from(rc).unwrap_or(0)
}

/// What is allowed at and below a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Read files, list directories.
    Read,
    /// Read, and execute files.
    Execute,
    /// Read, execute, and every change: create, write, truncate, rename, remove, device ioctls.
    Write,
    /// Read and change files and directories, but execute nothing.
    WriteNoExecute,
    /// Open a device or file for reading and writing, with its ioctls.
    Device,
    /// Remove empty directories, and nothing else.
    RemoveDirectories,
}

impl Rights {
    fn bits(self) -> BitFlags<AccessFs> {
        let all = AccessFs::from_all(NEWEST_ABI);
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        match self {
            Rights::Read => read,
            Rights::Execute => read | AccessFs::Execute,
            Rights::Write => all,
            Rights::WriteNoExecute => all & !BitFlags::from(AccessFs::Execute),
            Rights::RemoveDirectories => AccessFs::RemoveDir.into(),
            Rights::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev | AccessFs::Truncate,
        }
    }
}

#[derive(Debug)]
struct PathRule {
    rights: Rights,
    object: PathBuf,
    fd: OwnedFd,
}

/// Everything that a process may still do under Landlock. A new value allows nothing.
#[derive(Debug)]
pub struct Access {
    floor: u32,
    paths: Vec<PathRule>,
    connect: Vec<u16>,
    bind: Vec<u16>,
    tcp: bool,
    unix_connect: bool,
    scope_signals: bool,
    scope_abstract: bool,
}

impl Default for Access {
    fn default() -> Access {
        Access::none()
    }
}

impl Access {
    /// Allows nothing: no file, no TCP port, no UNIX socket by path, no signal or abstract socket out of the domain.
    pub fn none() -> Access {
        Access {
            floor: FLOOR,
            paths: Vec::new(),
            connect: Vec::new(),
            bind: Vec::new(),
            tcp: false,
            unix_connect: false,
            scope_signals: true,
            scope_abstract: true,
        }
    }

    /// Allows `rights` at and below `path`, which is opened now; an absent path is an error.
    pub fn path(self, rights: Rights, path: &Path) -> Result<Access> {
        Ok(self.fd(rights, open_object(path)?, path))
    }

    /// Allows `rights` at and below an open file or directory; `object` names it in errors.
    pub fn fd(mut self, rights: Rights, fd: OwnedFd, object: &Path) -> Access {
        self.paths.push(PathRule {
            rights,
            object: object.into(),
            fd,
        });
        self
    }

    /// Allows TCP connections to a port.
    pub fn connect_port(mut self, port: u16) -> Access {
        self.connect.push(port);
        self
    }

    /// Allows binding TCP sockets to a port.
    pub fn bind_port(mut self, port: u16) -> Access {
        self.bind.push(port);
        self
    }

    /// Leaves TCP to the network namespace: for what lives in one that holds a loopback interface and nothing else.
    pub fn allow_tcp(mut self) -> Access {
        self.tcp = true;
        self
    }

    /// Leaves `connect` to UNIX sockets by path to other layers: for the launcher, which connects on its session's behalf.
    pub fn allow_unix_connect(mut self) -> Access {
        self.unix_connect = true;
        self
    }

    /// Lets signals leave the domain: for a process that started others *before* this domain and whose end must be theirs. The
    /// signal of a parent's death ([`crate::process::parent_death_kill`]) counts as sent by the parent: the scope would hold it back
    /// from children that are not below the domain, and they would live on.
    pub fn allow_signals(mut self) -> Access {
        self.scope_signals = false;
        self
    }

    /// Demands at least this ABI instead of [`FLOOR`]. Below 6 the scopes, below 5 device ioctls, below 4 TCP are taken only where
    /// the kernel has them.
    pub fn floor(mut self, abi: u32) -> Access {
        self.floor = abi;
        self
    }
}

/// Opens a file or directory for [`Access::fd`].
///
/// # Errors
/// It cannot be opened, not even as a path.
pub fn open_object(path: &Path) -> Result<OwnedFd> {
    File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)
        .map(OwnedFd::from)
        .map_err(|e| Error::Open {
            path: path.display().to_string(),
            errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
        })
}

/// What was enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The ABI of the running kernel.
    pub abi: u32,
    /// Rights that newer kernels could restrict and this one cannot. Other layers must close them.
    pub dropped: Vec<&'static str>,
}

/// Rights that came after [`FLOOR`], with the ABI that brought them.
const NEWER: [(u32, &str); 1] = [(9, "connect to UNIX sockets by path")];

/// Restricts this process, which must have one thread, to `access`, for good. Sets `no_new_privs`.
pub fn restrict(access: Access) -> Result<Report> {
    process::single_threaded()?;
    let found = abi()?;
    if found < access.floor {
        return Err(Error::LandlockFloor {
            needed: access.floor,
            found,
        });
    }
    let floor = abi_of(access.floor.min(FLOOR));
    let failed = |step: &'static str, object: &str, reason: &dyn std::fmt::Display| Error::Landlock {
        step,
        object: object.into(),
        reason: reason.to_string(),
    };

    let hard_fs = AccessFs::from_all(floor);
    let mut newer_fs = AccessFs::from_all(NEWEST_ABI) & !hard_fs;
    if access.unix_connect {
        newer_fs &= !BitFlags::from(AccessFs::ResolveUnix);
    }
    let (mut hard_net, mut newer_net) = (
        AccessNet::from_all(floor),
        AccessNet::from_all(NEWEST_ABI) & !AccessNet::from_all(floor),
    );
    if access.tcp {
        (hard_net, newer_net) = (BitFlags::empty(), BitFlags::empty());
    }
    let mut scopes = BitFlags::<Scope>::empty();
    if access.scope_signals {
        scopes |= Scope::Signal;
    }
    if access.scope_abstract {
        scopes |= Scope::AbstractUnixSocket;
    }
    let hard_scopes = scopes & Scope::from_all(floor);
    let newer_scopes = scopes & !hard_scopes;

    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset = ruleset
        .handle_access(hard_fs)
        .map_err(|e| failed("handle", "file rights", &e))?;
    if !hard_net.is_empty() {
        ruleset = ruleset
            .handle_access(hard_net)
            .map_err(|e| failed("handle", "TCP rights", &e))?;
    }
    if !hard_scopes.is_empty() {
        ruleset = ruleset.scope(hard_scopes).map_err(|e| failed("handle", "scopes", &e))?;
    }
    ruleset = ruleset.set_compatibility(CompatLevel::BestEffort);
    if !newer_fs.is_empty() {
        ruleset = ruleset
            .handle_access(newer_fs)
            .map_err(|e| failed("handle", "newer file rights", &e))?;
    }
    if !newer_net.is_empty() {
        ruleset = ruleset
            .handle_access(newer_net)
            .map_err(|e| failed("handle", "newer network rights", &e))?;
    }
    if !newer_scopes.is_empty() {
        ruleset = ruleset
            .scope(newer_scopes)
            .map_err(|e| failed("handle", "newer scopes", &e))?;
    }
    let mut created = ruleset.create().map_err(|e| failed("create", "the ruleset", &e))?;

    for rule in &access.paths {
        let object = rule.object.display().to_string();
        let mut bits = rule.rights.bits();
        if access.unix_connect {
            bits &= !BitFlags::from(AccessFs::ResolveUnix);
        }
        // Rights for directories are refused by the kernel on anything else.
        let directory = crate::sys::fstat(std::os::fd::AsFd::as_fd(&rule.fd))
            .map_err(|errno| Error::Open {
                path: object.clone(),
                errno,
            })?
            .kind()
            == libc::S_IFDIR;
        if !directory {
            bits &= AccessFs::from_file(NEWEST_ABI);
        }
        created = created
            .add_rule(PathBeneath::new(&rule.fd, bits))
            .map_err(|e| failed("allow", &object, &e))?;
    }
    for (ports, right) in [
        (&access.connect, AccessNet::ConnectTcp),
        (&access.bind, AccessNet::BindTcp),
    ] {
        for &port in ports {
            created = created
                .add_rule(NetPort::new(port, right))
                .map_err(|e| failed("allow", &format!("TCP port {port}"), &e))?;
        }
    }
    let status = created
        .restrict_self()
        .map_err(|e| failed("restrict", "this process", &e))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(failed("restrict", "this process", &format!("{:?}", status.ruleset)));
    }
    let dropped = NEWER
        .iter()
        .filter(|(since, name)| found < *since && !(access.unix_connect && name.contains("UNIX")))
        .map(|(_, name)| *name)
        .collect();
    Ok(Report { abi: found, dropped })
}

fn abi_of(number: u32) -> ABI {
    match number {
        0 | 1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => FLOOR_ABI,
    }
}

#[cfg(test)]
mod tests;
