//! What this machine can enforce, and the floor below which nothing starts.

use nix::errno::Errno;
use nix::mount::MsFlags;
use picktwo_confine::error::Error;
use picktwo_confine::{filters, process::Exit};
use picktwo_confine::{landlock, limits, namespace, process, seccomp, sys};
use picktwo_inside::init;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// How much of the wall the kernel carries here (DESIGN §6): what a session is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tier {
    /// Namespaces, Landlock, seccomp with granted calls
    Full,
    /// Landlock and seccomp with granted calls, where namespaces cannot be had
    Container,
    /// Namespaces, Landlock and seccomp without granted calls, where another supervisor listens already
    Nested,
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Container => "container",
            Self::Nested => "nested",
        })
    }
}

impl Tier {
    /// What is weaker than in the full tier, and why: one line each, for `doctor` and the documentation.
    pub(crate) fn weaker(self) -> &'static [&'static str] {
        match self {
            Self::Full => &[],
            Self::Container => &CONTAINER_WEAKER,
            Self::Nested => &NESTED_WEAKER,
        }
    }
}

/// Why a session has no web tools in the nested tier, for whoever asks for one.
pub(crate) const NO_WEB: &str = "there are no web tools in this session: it runs in picktwo's nested tier, since a supervisor of system \
     calls was listening already and the kernel allows one, and a retriever needs one of its own";

const NESTED_WEAKER: [&str; 6] = [
    "no web tools (web_fetch, web_search, github_fetch and their commands): a retriever's connections are granted calls, and another supervisor listens already",
    "the mode is fixed at the start: without granted calls nothing could be allowed or refused later",
    "with --edit, protected paths that exist at the start are read-only mounts; those that appear later are not protected",
    "no UNIX sockets inside but pairs: nobody looks at the address that a call connects to",
    "standard input and output are pipes or the terminal: a file's metadata could be changed through its descriptor",
    "the session may choose the terminal's keys that interrupt, stop and quit: nobody looks at the call that sets them",
];

const CONTAINER_WEAKER: [&str; 5] = [
    "files outside are refused (EACCES) instead of invisible: that one exists, its size and its owner show through stat",
    "no servers on loopback and no UDP inside: the network is the host's, so nothing may listen in it",
    "HOME and TMPDIR are picktwo's private directories under their real paths, and /tmp is closed: nothing can be mounted over the host's; \
     what ignores TMPDIR needs a directory of its own there (--rw /tmp/NAME, in edit mode)",
    "numbers of other processes and names of interfaces and of the host can be seen: there is one view of them",
    "what a session leaves is ended by two keepers instead of by the kernel: killing them and the launcher all at once defeats it",
];

/// What is missing for a tier. Each is one sentence that says where and what to do.
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
    /// The same, and no namespaces either: no tier goes without both. Holds the step and the kernel's reason.
    SupervisedAlone(String),
    /// Local sockets are refused; holds the kernel's reason.
    Sockets(&'static str),
    /// seccomp filters or notification do not work here.
    Seccomp(String),
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Landlock => write!(
                f,
                "picktwo needs Landlock, which this kernel does not offer: boot with `landlock` in the `lsm=` parameter, \
                 or use Linux 6.12 or newer"
            ),
            Self::LandlockOld { found, needed } => write!(
                f,
                "picktwo needs Landlock ABI {needed} (Linux 6.12 or newer), this kernel has ABI {found}, which keeps no signals \
                 inside: use a newer kernel (Ubuntu 24.04: `apt install linux-generic-hwe-24.04`)"
            ),
            Self::Namespaces(why) => write!(
                f,
                "the full tier needs user namespaces, which this machine refuses ({why}): allow them with `sysctl \
                 kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu) or `sysctl user.max_user_namespaces=10000`, or take \
                 `--tier container`, which needs none"
            ),
            Self::Supervised => write!(
                f,
                "a supervisor of system calls is listening already (picktwo inside picktwo, or a container runtime that uses \
                 seccomp notification), and the kernel allows one: start picktwo outside of it"
            ),
            Self::SupervisedAlone(why) => write!(
                f,
                "a supervisor of system calls is listening already (picktwo inside picktwo, or a container runtime that uses \
                 seccomp notification), and the nested tier, which goes without one, needs user namespaces, which are refused here \
                 ({why}): start picktwo outside of it"
            ),
            Self::Sockets(why) => write!(
                f,
                "picktwo needs local sockets, which are refused here ({why}), as another sandbox does it: start picktwo outside of it"
            ),
            Self::Seccomp(why) => write!(
                f,
                "seccomp user notification does not work here ({why}): use Linux 6.12 or newer"
            ),
        }
    }
}

impl Missing {
    /// Why there is no full tier, for a session that goes on without: half a sentence.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Namespaces(why) => format!("this machine refuses user namespaces ({why})"),
            Self::Supervised => "another supervisor of system calls is listening already".to_owned(),
            other => other.to_string(),
        }
    }

    /// The same where another supervisor listens, too.
    fn and_supervised(self) -> Self {
        match self {
            Self::Namespaces(why) => Self::SupervisedAlone(why),
            other => other,
        }
    }

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

/// The tier of a session, and why it is not a better one.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The tier.
    pub(crate) tier: Tier,
    /// What the full tier lacks here; none if it was not asked for or is there.
    pub(crate) instead_of_full: Option<Missing>,
}

/// Decides on the tier: the one that was asked for, or the best that this machine offers. `start` makes the namespaces of the session
/// itself: where the kernel refuses that, there are none to be had. Where a security module may let them be made and refuse their
/// use, that is tried first, which costs some milliseconds.
///
/// # Errors
/// What the tier that was asked for, or every tier, lacks.
pub(crate) fn choose<T>(
    asked: Option<Tier>,
    start: impl FnOnce() -> Result<T, init::Error>,
) -> Result<(Choice, Option<Result<T, init::Error>>), Missing> {
    floor()?;
    let supervised = supervised()?;
    let chosen = |tier, instead_of_full| Choice { tier, instead_of_full };
    let grants = matches!(asked, Some(Tier::Full | Tier::Container));
    if supervised && grants {
        return Err(Missing::Supervised);
    }
    if asked == Some(Tier::Container) {
        return Ok((chosen(Tier::Container, None), None));
    }
    let tried = if has_other_modules() || is_proc_covered() {
        namespaces()
    } else {
        Ok(())
    };
    let missing = match tried.map(|()| start()) {
        Err(missing) => missing,
        Ok(Err(init::Error::Confine(error @ Error::Fork { .. }))) if is_refusal(error.errno()) => refused(&error),
        Ok(made) => {
            let choice = match asked {
                Some(tier) => chosen(tier, None),
                None if supervised => chosen(Tier::Nested, Some(Missing::Supervised)),
                None => chosen(Tier::Full, None),
            };
            return Ok((choice, Some(made)));
        }
    };
    match asked {
        Some(_) => Err(missing),
        None if supervised => Err(missing.and_supervised()),
        None => Ok((chosen(Tier::Container, Some(missing)), None)),
    }
}

/// Whether an error of the clone says that this machine allows no namespaces (clone(2), namespaces(7)). Too many processes or too little
/// memory do not: those end the start instead of making the session a weaker one.
fn is_refusal(errno: Option<Errno>) -> bool {
    matches!(
        errno,
        Some(Errno::EPERM | Errno::EACCES | Errno::ENOSPC | Errno::EUSERS | Errno::ENOSYS | Errno::EINVAL)
    )
}

/// Whether another supervisor listens already. It takes a filter to listen with: where there is none, nothing needs to be tried.
fn supervised() -> Result<bool, Missing> {
    if !seccomp::filtered() {
        return Ok(false);
    }
    match listener() {
        Ok(()) => Ok(false),
        Err(Missing::Supervised) => Ok(true),
        Err(other) => Err(other),
    }
}

/// Whether a security module is at work that decides on what is done in namespaces (AppArmor, SELinux).
fn has_other_modules() -> bool {
    let says = |path: &str, answer: u8| std::fs::read(path).is_ok_and(|text| text.first() == Some(&answer));
    says("/sys/module/apparmor/parameters/enabled", b'Y') || says("/sys/fs/selinux/enforce", b'1')
}

/// Whether something is mounted in `/proc`, as container runtimes do: then the kernel may refuse a new one.
fn is_proc_covered() -> bool {
    let mount = |path: &str| {
        let object = landlock::open_object(Path::new(path)).ok()?;
        sys::mount_id(object.as_fd()).ok()
    };
    let own = mount("/proc");
    let often = [
        "/proc/sys",
        "/proc/kcore",
        "/proc/keys",
        "/proc/sysrq-trigger",
        "/proc/bus",
        "/proc/acpi",
    ];
    often.iter().filter_map(|path| mount(path)).any(|id| Some(id) != own)
}

/// Local sockets are how picktwo is steered. Sandboxes that refuse them by number are found out here.
fn sockets() -> Result<(), Missing> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};
    socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        // Without a name the kernel chooses one that nobody asks for.
        .and_then(|fd| bind(fd.as_raw_fd(), &UnixAddr::new_unnamed()))
        .map_err(|errno| Missing::Sockets(errno.desc()))
}

fn refused(error: &Error) -> Missing {
    Missing::Namespaces(
        error
            .errno()
            .map_or_else(|| error.to_string(), |errno| errno.desc().to_owned()),
    )
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
    sockets()?;
    match landlock::abi() {
        Ok(found) if found >= landlock::FLOOR => Ok(Facts { landlock: found }),
        Ok(found) => Err(Missing::LandlockOld {
            found,
            needed: landlock::FLOOR,
        }),
        Err(_) => Err(Missing::Landlock),
    }
}

/// Checks what a retrieval outside of a session needs, and answers the tier that a session would have here, for the record: it uses
/// no namespace itself.
///
/// # Errors
/// What is missing.
pub(crate) fn retrieval() -> Result<Tier, Missing> {
    floor()?;
    if supervised()? {
        return Err(Missing::Supervised);
    }
    Ok(if namespaces().is_ok() {
        Tier::Full
    } else {
        Tier::Container
    })
}

/// Tries everything that the full tier needs, in children that end at once.
///
/// # Errors
/// What is missing.
pub(crate) fn full() -> Result<Facts, Missing> {
    let facts = nested()?;
    listener()?;
    Ok(facts)
}

/// Tries everything that the nested tier needs, in a child that ends at once.
///
/// # Errors
/// What is missing.
pub(crate) fn nested() -> Result<Facts, Missing> {
    let facts = floor()?;
    namespaces()?;
    Ok(facts)
}

/// Tries everything that a session needs, in children that end at once, and answers the best tier.
///
/// # Errors
/// What every tier lacks here.
pub(crate) fn best() -> Result<Choice, Missing> {
    floor()?;
    let (tier, instead_of_full) = match (namespaces(), supervised()?) {
        (Ok(()), true) => (Tier::Nested, Some(Missing::Supervised)),
        (Err(missing), true) => return Err(missing.and_supervised()),
        (namespaces, false) => {
            listener()?;
            match namespaces {
                Ok(()) => (Tier::Full, None),
                Err(missing) => (Tier::Container, Some(missing)),
            }
        }
    };
    Ok(Choice { tier, instead_of_full })
}

/// Step of the namespace trial that failed, as the child's exit code.
const STEPS: [&str; 5] = [
    "writing the id map",
    "changing a mount",
    "bringing up the loopback interface",
    "naming the host",
    "mounting a new /proc",
];

fn namespaces() -> Result<(), Missing> {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    let child = process::clone_namespaces(namespace::SESSION, "a trial of namespaces", || {
        if namespace::write_own_maps(uid, gid).is_err() {
            return 1;
        }
        // Where namespaces can be made but not used (Ubuntu), this is what is refused.
        if sys::mount_setattr(sys::CWD, c"/", sys::AT_RECURSIVE, 0, 0, nix::libc::MS_PRIVATE).is_err() {
            return 2;
        }
        if namespace::loopback_up().is_err() {
            return 3;
        }
        if namespace::set_host_name("picktwo").is_err() {
            return 4;
        }
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        if nix::mount::mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).is_err() {
            return 5;
        }
        0
    })
    .map_err(|e| refused(&e))?;
    match child.wait().map_err(|e| refused(&e))? {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(errno: Errno) -> Result<Tier, bool> {
        let error = Error::Fork {
            what: "the session's namespaces".into(),
            errno,
        };
        match choose::<()>(None, || Err(init::Error::Confine(error))) {
            Ok((choice, None)) => Ok(choice.tier),
            Ok((_, Some(made))) => Err(made.is_err()),
            Err(missing) => panic!("{missing}"),
        }
    }

    #[test]
    fn only_a_refusal_of_namespaces_makes_a_session_without() {
        if has_other_modules() || is_proc_covered() || supervised().is_ok_and(|there| there) {
            // The trial before the clone decides there.
            return;
        }
        for errno in [Errno::EPERM, Errno::ENOSPC, Errno::EUSERS] {
            assert_eq!(chosen(errno), Ok(Tier::Container), "{errno}");
        }
        // The start fails with the error of the clone.
        for errno in [Errno::EAGAIN, Errno::ENOMEM, Errno::EMFILE] {
            assert_eq!(chosen(errno), Err(true), "{errno}");
        }
    }
}
