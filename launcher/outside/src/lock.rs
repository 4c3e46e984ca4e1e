//! How the processes of this side lock themselves, and check that it holds.

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use picktwo_confine::landlock::{self, Access, Rights};
use picktwo_confine::selfcheck::{self, SelfCheck};
use picktwo_confine::{Errno, Error, Result, Role, filters, limits, seccomp};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// The device that a started role has in place of its standard streams.
const NULL: &str = "/dev/null";

/// Puts a supervisor and what it is about to start into one family: signals and abstract sockets stay within it, TCP is left
/// to `ports`, files are left as they are.
///
/// A process can only signal what is inside of its own Landlock domain, and that holds for the signal that its death sends to
/// its children, too: without this, children that were started before the lock would outlive a supervisor that is killed.
///
/// # Errors
/// The step that failed.
pub(crate) fn family(ports: &[u16]) -> Result<()> {
    let access = Access::none().path(Rights::Write, Path::new("/"))?;
    landlock::restrict(allow_ports(access, ports)).map(drop)
}

/// What a process may execute after its lock.
pub(crate) struct Image<'a> {
    /// The program, whatever became of its name.
    pub(crate) program: BorrowedFd<'a>,
    /// Its loader and libraries.
    pub(crate) files: Vec<PathBuf>,
}

/// Locks this process, which has one thread, as `role`: no files but `image` (to read and execute, with [`NULL`] for the roles
/// that are started from it), TCP connections to `ports` only, no capabilities, the role's system calls. Then tries what
/// must not work any more. The signals of a supervisor stay in its [`family`].
///
/// # Errors
/// The step that failed; the process is to end then.
pub(crate) fn network(role: Role, image: Option<Image<'_>>, ports: &[u16]) -> Result<()> {
    let check = SelfCheck::prepare()?;
    let mut access = allow_ports(Access::none(), ports);
    if let Some(Image { program, files }) = image {
        let number = program.as_raw_fd();
        let program = program.try_clone_to_owned().map_err(|_| Error::Duplicate {
            fd: number,
            errno: Errno::last(),
        })?;
        access = access.fd(Rights::Execute, program, Path::new("its own program"));
        for path in &files {
            access = access.path(Rights::Execute, path)?;
        }
        access = access.path(Rights::Device, Path::new(NULL))?;
    }
    if matches!(role, Role::OutsideModel | Role::OutsideWeb) {
        access = access.allow_signals();
    }
    limits::no_new_privs()?;
    let bounding_empty = limits::drop_all_capabilities()?;
    limits::new_session_keyring()?;
    limits::core_limit()?;
    landlock::restrict(access)?;
    let filter = filters::for_role(role);
    seccomp::install(&filter)?;
    check.locked(bounding_empty, &selfcheck::denied_by(&filter))?;
    no_files()?;
    no_other_port(ports)
}

fn allow_ports(access: Access, ports: &[u16]) -> Access {
    ports.iter().fold(access, |access, port| access.connect_port(*port))
}

fn expect(check: &str, outcome: std::result::Result<(), Errno>, expected: &[Errno]) -> Result<()> {
    match outcome {
        Err(errno) if expected.contains(&errno) => Ok(()),
        Err(errno) => Err(Error::NotLocked {
            check: check.to_owned(),
            found: errno.to_string(),
        }),
        Ok(()) => Err(Error::NotLocked {
            check: check.to_owned(),
            found: "success".to_owned(),
        }),
    }
}

/// Neither Landlock (EACCES) nor the filter (EACCES, EPERM) may let a directory be opened.
fn no_files() -> Result<()> {
    let outcome = std::fs::File::open("/")
        .map(drop)
        .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)));
    expect("opening / must be refused", outcome, &[Errno::EACCES, Errno::EPERM])
}

/// A port that is not allowed is refused before anything leaves.
fn no_other_port(ports: &[u16]) -> Result<()> {
    let Some(port) = (1..=u16::MAX).find(|port| !ports.contains(port)) else {
        return Ok(());
    };
    let socket =
        socket::socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).map_err(|errno| {
            Error::NotLocked {
                check: "a TCP socket must be possible".to_owned(),
                found: errno.to_string(),
            }
        })?;
    let to = SockaddrStorage::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let outcome = socket::connect(socket.as_raw_fd(), &to);
    expect(
        &format!("connecting to port {port} must be refused"),
        outcome,
        &[Errno::EACCES],
    )
}
