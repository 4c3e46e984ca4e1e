//! What this machine can enforce, and the floor below which nothing starts.

use picktwo_confine::error::Error;
use picktwo_confine::{filters, process::Exit};
use picktwo_confine::{landlock, limits, namespace, process, seccomp};

/// What is missing for the full tier. Each is one sentence that says where and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// No Landlock at all, or disabled at boot.
    Landlock,
    /// Landlock is older than the floor.
    LandlockOld { found: u32, needed: u32 },
    /// User namespaces cannot be made or used; holds the step and the kernel's reason.
    Namespaces(String),
    /// Another supervisor listens already (a container runtime, or another picktwo).
    Supervised,
    /// seccomp filters or notification do not work here.
    Seccomp(String),
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Landlock => write!(
                f,
                "the full tier needs Landlock, which this kernel does not offer: boot with `landlock` in the `lsm=` parameter, \
                 or use Linux 6.12 or newer"
            ),
            Self::LandlockOld { found, needed } => write!(
                f,
                "the full tier needs Landlock ABI {needed} (Linux 6.12 or newer), this kernel has ABI {found}: use a newer kernel"
            ),
            Self::Namespaces(why) => write!(
                f,
                "the full tier needs user namespaces, which this machine refuses ({why}): allow them with `sysctl \
                 kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu) or `sysctl user.max_user_namespaces=10000`; inside \
                 a container, run picktwo on its host"
            ),
            Self::Supervised => write!(
                f,
                "a supervisor of system calls is listening already (picktwo inside picktwo, or a container runtime that uses \
                 seccomp notification), and the kernel allows one: start picktwo outside of it"
            ),
            Self::Seccomp(why) => write!(
                f,
                "seccomp user notification does not work here ({why}): use Linux 6.12 or newer"
            ),
        }
    }
}

impl Missing {
    /// What a failed step of the start says about this machine, if it does.
    pub(crate) fn behind(error: &Error) -> Option<Self> {
        match error {
            Error::SecondListener { .. } => Some(Self::Supervised),
            Error::LandlockVersion { .. } => Some(Self::Landlock),
            Error::LandlockFloor { needed, found } => Some(Self::LandlockOld {
                found: *found,
                needed: *needed,
            }),
            Error::Fork { .. } | Error::WriteMap { .. } => Some(Self::Namespaces(error.to_string())),
            Error::InstallFilter { .. } => Some(Self::Seccomp(error.to_string())),
            _ => None,
        }
    }
}

/// What the machine offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Landlock ABI.
    pub(crate) landlock: u32,
}

/// Checks what costs nothing to ask: done before every start.
///
/// # Errors
/// What is missing.
pub(crate) fn floor() -> Result<Facts, Missing> {
    match landlock::abi() {
        Ok(found) if found >= landlock::FLOOR => Ok(Facts { landlock: found }),
        Ok(found) => Err(Missing::LandlockOld {
            found,
            needed: landlock::FLOOR,
        }),
        Err(_) => Err(Missing::Landlock),
    }
}

/// Tries the whole tier in children that end at once: namespaces with their id maps, and a listener.
///
/// # Errors
/// What is missing.
pub(crate) fn full() -> Result<Facts, Missing> {
    let facts = floor()?;
    namespaces()?;
    listener()?;
    Ok(facts)
}

/// Step of the namespace trial that failed, as the child's exit code.
const STEPS: [&str; 3] = [
    "writing the id map",
    "bringing up the loopback interface",
    "naming the host",
];

fn namespaces() -> Result<(), Missing> {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    let child = process::clone_namespaces(namespace::SESSION, "a trial of namespaces", || {
        if namespace::write_own_maps(uid, gid).is_err() {
            return 1;
        }
        if namespace::loopback_up().is_err() {
            return 2;
        }
        if namespace::set_host_name("picktwo").is_err() {
            return 3;
        }
        0
    })
    .map_err(|e| Missing::Namespaces(e.to_string()))?;
    match child.wait().map_err(|e| Missing::Namespaces(e.to_string()))? {
        Exit::Code(0) => Ok(()),
        Exit::Code(n) => {
            let step = STEPS
                .get(usize::try_from(n).unwrap_or(0).wrapping_sub(1))
                .copied()
                .unwrap_or("starting");
            Err(Missing::Namespaces(format!("{step} failed")))
        }
        other => Err(Missing::Namespaces(format!("the trial ended with {other:?}"))),
    }
}

fn listener() -> Result<(), Missing> {
    let child = process::fork_bound("a trial of notification", || {
        if limits::no_new_privs().is_err() {
            return 3;
        }
        match seccomp::install_listener(&filters::agent_notify(filters::Grants::ALL)) {
            Ok(_) => 0,
            Err(Error::SecondListener { .. }) => 1,
            Err(_) => 2,
        }
    })
    .map_err(|e| Missing::Seccomp(e.to_string()))?;
    match child.wait().map_err(|e| Missing::Seccomp(e.to_string()))? {
        Exit::Code(0) => Ok(()),
        Exit::Code(1) => Err(Missing::Supervised),
        other => Err(Missing::Seccomp(format!("the trial ended with {other:?}"))),
    }
}
