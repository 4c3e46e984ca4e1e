//! Inside the command's process: what it gives up, in order, and the check that it is gone.

use super::{Command, GO, Report, failed, report};
use crate::view::Clock;
use crate::view::Inode;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{AddressFamily, SockType};
use nix::sys::stat::Mode;
use picktwo_confine::channel::Channel;
use picktwo_confine::landlock::{self, Access, Rights};
use picktwo_confine::selfcheck::{Denied, SelfCheck};
use picktwo_confine::{Error, Result, limits, process, sys};
use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where a program is looked up if the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// What runs a script without a first line that names its interpreter, as shells do it.
const SHELL: &str = "/bin/sh";
/// Device files that may be written and controlled, beside the session's own pseudoterminals.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// What no process of a session can do. Each call is harmless if it is not refused.
const DENIED: &[Denied] = &[
    Denied {
        name: "unshare",
        nr: 272,
        args: [0x1000_0000, 0, 0, 0, 0, 0],
        errno: Errno::EPERM,
    },
    Denied {
        name: "setns",
        nr: 308,
        args: [-1, 0, 0, 0, 0, 0],
        errno: Errno::EPERM,
    },
    Denied {
        name: "umount2",
        nr: 166,
        args: [0; 6],
        errno: Errno::EPERM,
    },
    Denied {
        name: "mount_setattr",
        nr: 442,
        args: [-1, 0, 0, 0, 0, 0],
        errno: Errno::EPERM,
    },
    Denied {
        name: "keyctl",
        nr: 250,
        args: [0; 6],
        errno: Errno::EPERM,
    },
    Denied {
        name: "io_uring_setup",
        nr: 425,
        args: [0; 6],
        errno: Errno::ENOSYS,
    },
    Denied {
        name: "clone3",
        nr: 435,
        args: [0; 6],
        errno: Errno::ENOSYS,
    },
];

/// The process's life until it executes the command. The answer is its exit code if it does not.
pub(super) fn run(command: &Command, channel: &Channel, launcher: BorrowedFd<'_>) -> u8 {
    let error = match prepare(command, channel, launcher) {
        Ok(()) => match await_go(channel) {
            Ok(true) => match execute(command) {
                Ok(never) => match never {},
                Err(errno) => {
                    let _ = report(channel, &Report::Program { errno: errno as i32 }, &[]);
                    return 126;
                }
            },
            Ok(false) => return 125,
            Err(error) => error,
        },
        Err(error) => error,
    };
    let _ = report(channel, &failed(&error), &[]);
    125
}

fn prepare(command: &Command, channel: &Channel, launcher: BorrowedFd<'_>) -> Result<()> {
    let mut clock = Clock::new();
    process::parent_death_kill(launcher)?;
    if command.own_session {
        nix::unistd::setsid().map_err(|errno| Error::NewSession { errno })?;
    }
    let named = |path: &Path| path.display().to_string();
    nix::unistd::chdir(&command.directory).map_err(|errno| Error::Open {
        path: named(&command.directory),
        errno,
    })?;
    signals(&command.ignored)?;
    limits::core_limit()?;
    command.bounds.apply()?;
    limits::new_session_keyring()?;
    clock.step("limits");
    // From here on this process owns the channel and the standard descriptors, and nothing else is open.
    limits::sweep(&[0, 1, 2, channel.as_raw_fd()])?;
    super::streams::no_way_out()?;
    let check = SelfCheck::prepare()?;
    let bounding_empty = limits::drop_all_capabilities()?;
    clock.step("capabilities");
    match &command.rights {
        None => {
            view_holds(command)?;
            if command.filters.notify.is_none() {
                super::streams::shield()?;
            }
            clock.step("view check");
            landlock::restrict(access(command)?)?;
        }
        Some(rights) => {
            landlock::restrict(super::allow_container(Access::none(), rights)?)?;
            // With no filter in the way yet, whose granted calls nobody serves at this time.
            super::container::domain_holds(command)?;
        }
    }
    clock.step("landlock");
    let filters = &command.filters;
    // The second filter forbids what the first needed: a listener.
    let listener = match &filters.notify {
        Some(notify) => Some(notify.install_listener_below(&filters.plain)?),
        None => {
            filters.plain.install()?;
            None
        }
    };
    clock.step("seccomp");
    check.locked(bounding_empty, DENIED)?;
    drop(check);
    clock.step("check");
    let listener: Vec<_> = listener.iter().map(AsFd::as_fd).collect();
    report(channel, &Report::Prepared { steps: clock.steps }, &listener)
}

/// Default dispositions and nothing blocked, as after a login; what the person's shell ignores stays ignored.
fn signals(ignored: &[i32]) -> Result<()> {
    let failed = |errno| Error::ProcessControl {
        option: "signal",
        errno,
    };
    for signal in 1..=64 {
        if signal == Signal::SIGKILL as i32 || signal == Signal::SIGSTOP as i32 {
            continue;
        }
        let set = if ignored.contains(&signal) {
            sys::signal_ignore(signal)
        } else {
            sys::signal_default(signal)
        };
        match set {
            // Numbers that the C library keeps for itself.
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    SigSet::empty().thread_set_mask().map_err(failed)
}

/// The second layer under the mounts: what the session may write by itself, and read and execute everywhere.
fn access(command: &Command) -> Result<Access> {
    let mut access = Access::none().path(Rights::Execute, Path::new("/"))?;
    let runtime = PathBuf::from(format!("/run/user/{}", command.uid));
    for place in [
        command.home.as_path(),
        Path::new("/tmp"),
        Path::new("/dev/shm"),
        Path::new("/dev/pts"),
        &runtime,
    ] {
        access = access.path(Rights::Write, place)?;
    }
    // A granted descriptor is of the host's mount, which is not below the view's root: opened again by its name in /proc, its
    // file has to be readable as it is in the view.
    let of_roots = if command.changes {
        Rights::Write
    } else {
        Rights::Execute
    };
    for root in &command.roots {
        access = access.path(of_roots, root)?;
    }
    if command.filters.notify.is_none() {
        // Nobody connects on its behalf. There is nothing but its own loopback.
        access = access.allow_tcp();
    }
    for device in DEVICES {
        access = access.path(Rights::Device, Path::new(device))?;
    }
    let console = Path::new("/dev/console");
    if console.exists() {
        access = access.path(Rights::Device, console)?;
    }
    super::allow_streams(access)
}

/// Checks from inside, with no filter in the way yet: the kernel itself refuses to change the roots, hidden paths do not exist,
/// no network is reachable, and this is not the host's pid namespace.
fn view_holds(command: &Command) -> Result<()> {
    let wrong = |check: String, found: String| Err(Error::NotLocked { check, found });
    for root in command.roots.iter().filter(|_| !command.changes) {
        let probe = root.join(format!(".picktwo-check-{}", std::process::id()));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        match nix::fcntl::open(&probe, flags, Mode::from_bits_truncate(0o600)) {
            Err(Errno::EROFS) => {}
            Err(errno) => return wrong(format!("{} must be read-only", root.display()), format!("{errno:?}")),
            Ok(_) => {
                let _ = nix::unistd::unlink(&probe);
                return wrong(
                    format!("{} must be read-only", root.display()),
                    "a file could be made".into(),
                );
            }
        }
    }
    for path in &command.protected {
        let stat = nix::sys::statvfs::statvfs(path).map_err(|errno| Error::Open {
            path: path.display().to_string(),
            errno,
        })?;
        if !stat.flags().contains(nix::sys::statvfs::FsFlags::ST_RDONLY) {
            return wrong(
                format!("{} must be read-only", path.display()),
                "a writable mount".into(),
            );
        }
    }
    for hidden in &command.hidden {
        // What an earlier session made at that place in its private home is its own affair.
        match nix::sys::stat::lstat(&hidden.path) {
            Ok(stat) if hidden.inode == Some(Inode::from(&stat)) => {
                return wrong(
                    format!("{} must not be visible", hidden.path.display()),
                    "the directory of the host".into(),
                );
            }
            Ok(_) | Err(Errno::ENOENT | Errno::EACCES | Errno::ENOTDIR | Errno::ELOOP) => {}
            Err(errno) => {
                return wrong(
                    format!("{} must not be visible", hidden.path.display()),
                    format!("{errno:?}"),
                );
            }
        }
    }
    let datagram =
        sys::socket(AddressFamily::Inet as i32, SockType::Datagram as i32, 0).map_err(|errno| Error::NotLocked {
            check: "a socket can be made".into(),
            found: format!("{errno:?}"),
        })?;
    // 192.0.2.1 (RFC 5737: documentation only). Connecting a datagram socket sends nothing: it asks for a route.
    let mut address = [0u8; 16];
    address[..2].copy_from_slice(&(AddressFamily::Inet as u16).to_ne_bytes());
    address[2..8].copy_from_slice(&[0, 9, 192, 0, 2, 1]);
    match sys::connect(datagram.as_fd(), &address) {
        Err(Errno::ENETUNREACH) => {}
        other => return wrong("no network must be reachable".into(), format!("{other:?}")),
    }
    if nix::unistd::getppid().as_raw() != 0 {
        return wrong(
            "the pid namespace must be the session's own".into(),
            format!("parent {}", nix::unistd::getppid()),
        );
    }
    Ok(())
}

/// Waits for the launcher. `false`: it has gone.
fn await_go(channel: &Channel) -> Result<bool> {
    let mut message = Vec::new();
    Ok(channel.recv(&mut message)?.is_some() && message == GO)
}

/// Executes the command. Answers only if that fails: as a shell does, with the most telling of the errors.
fn execute(command: &Command) -> std::result::Result<Infallible, Errno> {
    let c = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL);
    let argv: Vec<CString> = command
        .argv
        .iter()
        .map(|a| c(a))
        .collect::<std::result::Result<_, _>>()?;
    let environment = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| {
        let mut entry = name.clone().into_vec();
        entry.push(b'=');
        entry.extend(value.as_bytes());
        CString::new(entry).map_err(|_| Errno::EINVAL)
    };
    let envp: Vec<CString> = command
        .env
        .iter()
        .map(environment)
        .collect::<std::result::Result<_, _>>()?;
    let program = command.argv.first().ok_or(Errno::EINVAL)?;
    let mut answer = Errno::ENOENT;
    for candidate in candidates(program, &command.env) {
        let path = c(candidate.as_os_str())?;
        let errno = match process::exec_path(&path, &argv, &envp) {
            Error::Execute {
                errno: Errno::ENOEXEC, ..
            } => {
                let mut script = vec![c(OsStr::new(SHELL))?, path];
                script.extend(argv.iter().skip(1).cloned());
                process::exec_path(&script[0], &script, &envp)
                    .errno()
                    .unwrap_or(Errno::ENOEXEC)
            }
            error => error.errno().unwrap_or(Errno::EINVAL),
        };
        match errno {
            // Go on looking; a file that is there but cannot be executed says more than one that is absent.
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::EACCES => answer = errno,
            other => return Err(other),
        }
    }
    Err(answer)
}

/// The paths to try: the program itself if it names a path, or its name in each absolute directory of PATH.
fn candidates(program: &OsStr, env: &[(std::ffi::OsString, std::ffi::OsString)]) -> Vec<PathBuf> {
    if program.is_empty() {
        return Vec::new();
    }
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    let path = env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value);
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(program))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_in_absolute_directories_only() {
        let env = |path: &str| vec![("PATH".into(), path.into())];
        assert_eq!(
            candidates(OsStr::new("ls"), &env("/a:.::b:/c")),
            [Path::new("/a/ls"), Path::new("/c/ls")]
        );
        assert_eq!(candidates(OsStr::new("./ls"), &env("/a")), [Path::new("./ls")]);
        assert_eq!(candidates(OsStr::new(""), &env("/a")), Vec::<PathBuf>::new());
        assert_eq!(candidates(OsStr::new("ls"), &[]).len(), 3);
    }
}
