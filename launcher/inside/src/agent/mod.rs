//! The start of the confined command: a child of the launcher, in the session's namespaces, locked and checked before it
//! executes its first foreign instruction.
//!
//! [`start`] is called by the launcher while it has one thread and **after it has restricted itself with Landlock**: the
//! command's domain must be a descendant of the launcher's, or the launcher could not serve its calls. That domain must allow
//! what the command may do: see [`allow_session`]. The command waits until [`Prepared::go`], so that the launcher can lock
//! itself and start its supervisors.
//!
//! The command stays in the launcher's process group, session and terminal, unless [`Command::own_session`] says otherwise. It ends when
//! the launcher's calling thread ends.

mod child;
mod container;
mod streams;

pub use streams::{leads_out, unfit};

use crate::container::Rights;
use crate::container::keeper::{self, Keeper};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::filters::{self, Grants};
use picktwo_confine::landlock::{self, Access};
use picktwo_confine::limits;
use picktwo_confine::namespace::{self, NamespaceFds};
use picktwo_confine::notify::Listener;
use picktwo_confine::process::{self, Child};
use picktwo_confine::seccomp::Compiled;
use picktwo_confine::sys;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What is started, and as what.
#[derive(Debug)]
pub struct Command {
    /// The program and its arguments. A name without `/` is looked up in `env`'s PATH, inside the view.
    pub argv: Vec<OsString>,
    /// The environment, exactly.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, in the view.
    pub directory: PathBuf,
    /// The private home's path.
    pub home: PathBuf,
    /// The user id, for `/run/user/UID`.
    pub uid: u32,
    /// The workspace and further directories that only grants change: checked from inside to be read-only.
    pub roots: Vec<PathBuf>,
    /// Directories of the host that must not be in the view, as they are outside: checked from inside.
    pub hidden: Vec<crate::view::ReadOnly>,
    /// What bounds each of its processes. Open descriptors: not more than the person's own limits, which the launcher has raised.
    pub bounds: limits::Bounds,
    /// The control group that it runs in.
    pub group: Option<OwnedFd>,
    /// Whether it begins in a session of its own (setsid(2)): without a controlling terminal, and in no process group that others are in.
    pub own_session: bool,
    /// Signals that the person's shell had ignored when picktwo started (`nohup`), and that stay ignored.
    pub ignored: Vec<i32>,
    /// Which calls become granted calls.
    pub filters: Filters,
    /// What it may open by itself, where there is no view: for [`start_in_container`].
    pub rights: Option<Rights>,
    /// Without granted calls: whether it changes the roots by itself.
    pub changes: bool,
    /// Then: what of them is mounted read-only, checked from inside.
    pub protected: Vec<PathBuf>,
}

/// The command's system call filters, compiled: the launcher does that while it waits for the view.
#[derive(Clone, Debug)]
pub struct Filters {
    /// None where nobody can listen.
    notify: Option<Compiled>,
    plain: Compiled,
}

impl Filters {
    /// Compiles both.
    ///
    /// # Errors
    /// A table that does not compile.
    pub fn compile(grants: Grants) -> Result<Filters, picktwo_confine::Error> {
        Ok(Filters {
            notify: Some(Compiled::new(&filters::agent_notify(grants))?),
            plain: Compiled::new(&filters::agent_plain())?,
        })
    }

    /// Compiles the one of a session without granted calls.
    ///
    /// # Errors
    /// A table that does not compile.
    pub fn compile_without_grants() -> Result<Filters, picktwo_confine::Error> {
        Ok(Filters {
            notify: None,
            plain: Compiled::new(&filters::agent_nested())?,
        })
    }

    /// Compiles those of a session without namespaces.
    ///
    /// # Errors
    /// A table that does not compile.
    pub fn compile_for_container() -> Result<Filters, picktwo_confine::Error> {
        Ok(Filters {
            notify: Some(Compiled::new(&filters::agent_notify(Grants::CONTAINER))?),
            plain: Compiled::new(&filters::agent_container())?,
        })
    }
}

/// Why the command did not start. Nothing foreign has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A step on the launcher's side.
    Confine(picktwo_confine::Error),
    /// A step in the new process, or its check from inside, failed.
    Failed {
        /// One sentence with the object and the reason.
        sentence: String,
        /// The kernel's answer, if a call failed.
        errno: Option<Errno>,
    },
    /// The program could not be executed.
    Program {
        /// The program as it was asked for.
        program: PathBuf,
        /// The kernel's answer: `ENOENT` if it was not found.
        errno: Errno,
    },
    /// The process ended without a report.
    Ended,
}

impl Error {
    /// The exit code for it: 126 or 127 for a program as a shell says it, 125 for what is picktwo's own.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program {
                errno: Errno::ENOENT | Errno::ENOTDIR,
                ..
            } => 127,
            Self::Program { .. } => 126,
            _ => 125,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confine(error) => error.fmt(f),
            Self::Failed { sentence, .. } => f.write_str(sentence),
            Self::Program {
                program,
                errno: Errno::ENOENT,
            } if program.components().count() == 1 => {
                write!(f, "{}: command not found in the session", program.display())
            }
            Self::Program { program, errno } => write!(
                f,
                "cannot execute {} in the session: {}",
                program.display(),
                errno.desc()
            ),
            Self::Ended => f.write_str("the command's process ended unexpectedly while it started"),
        }
    }
}

impl std::error::Error for Error {}

impl From<picktwo_confine::Error> for Error {
    fn from(error: picktwo_confine::Error) -> Self {
        Self::Confine(error)
    }
}

/// What the new process tells the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Report {
    /// From the process in between: the command's process exists. Descriptor: its pidfd.
    Cloned { pid: i32 },
    /// The command's process is locked and checked, and waits. Descriptor: the listener of its granted calls, if it has any.
    Prepared { steps: crate::view::Steps },
    /// A step failed; the process has ended.
    Failed { sentence: String, errno: Option<i32> },
    /// The program could not be executed; the process has ended.
    Program { errno: i32 },
}

const GO: &[u8] = b"go";

/// The command's process, locked, checked and waiting.
#[derive(Debug)]
pub struct Prepared {
    /// The process: the launcher's own child.
    pub child: Child,
    /// What each step cost, in microseconds.
    pub steps: crate::view::Steps,
    channel: Channel,
    program: PathBuf,
}

/// Adds to the launcher's own Landlock access what its session's command needs, since the command's rights can only be a part
/// of the launcher's: everything in the session's view, whose host part is on read-only mounts, and the files that are its
/// input and output. `root` is the session's root ([`crate::init::Namespaces::root`]).
///
/// Let the launcher's access also allow signals out of its domain: the init was started before it, and the signal that ends
/// the init with the launcher counts as the launcher's.
///
/// # Errors
/// A standard descriptor that cannot be duplicated.
pub fn allow_session(access: Access, root: OwnedFd) -> Result<Access, picktwo_confine::Error> {
    allow_streams(access.fd(landlock::Rights::Write, root, Path::new("the session's root")))
}

/// The same for a session without namespaces.
///
/// # Errors
/// A standard descriptor that cannot be duplicated, a path of `rights` that cannot be opened.
pub fn allow_container(access: Access, rights: &Rights) -> Result<Access, picktwo_confine::Error> {
    allow_streams(rights.add_to(access)?)
}

/// Whether no times of the host's can be set through a standard descriptor: each is an anonymous pipe, a socket or a terminal. A
/// named pipe, a device, a file or a directory has times that are its owner's.
pub fn streams_have_no_times() -> bool {
    use std::io::IsTerminal;
    // linux/magic.h
    const PIPEFS: i64 = 0x5049_5045;
    const SOCKFS: i64 = 0x534f_434b;
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let anonymous =
        |fd| nix::sys::statfs::fstatfs(fd).is_ok_and(|fs| [PIPEFS, SOCKFS].contains(&fs.filesystem_type().0));
    [
        (input.is_terminal(), anonymous(&input.as_fd())),
        (output.is_terminal(), anonymous(&output.as_fd())),
        (errors.is_terminal(), anonymous(&errors.as_fd())),
    ]
    .iter()
    .all(|(terminal, anonymous)| *terminal || *anonymous)
}

/// Allows to open the files and terminals behind the standard descriptors by name again (`/dev/stdout`), as far as they are
/// open: they lie outside of the view. Pipes need no rule.
fn allow_streams(mut access: Access) -> Result<Access, picktwo_confine::Error> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    for fd in [input.as_fd(), output.as_fd(), errors.as_fd()] {
        let (Ok(what), Ok(flags)) = (sys::fstat(fd), sys::status_flags(fd)) else {
            continue;
        };
        if ![SFlag::S_IFREG, SFlag::S_IFCHR].contains(&SFlag::from_bits_truncate(what.kind())) {
            continue;
        }
        let reads = flags & OFlag::O_ACCMODE.bits() == OFlag::O_RDONLY.bits();
        let rights = if reads {
            landlock::Rights::Read
        } else {
            landlock::Rights::Device
        };
        let copy = sys::duplicate_above(fd, 3).map_err(|errno| picktwo_confine::Error::Duplicate {
            fd: fd.as_raw_fd(),
            errno,
        })?;
        access = access.fd(rights, copy, Path::new("a redirected standard descriptor"));
    }
    Ok(access)
}

/// A command's process that joins the session and locks itself while the launcher does something else.
#[derive(Debug)]
pub struct Starting {
    between: Between,
    channel: Channel,
    program: PathBuf,
}

/// The process that clones the command's.
#[derive(Debug)]
enum Between {
    /// One that has nothing else to do.
    Joined(Child),
    /// The keeper, which stays; and the launcher, for it to watch.
    Keeper(Keeper, OwnedFd),
}

impl Starting {
    fn new(between: Between, channel: Channel, command: &Command) -> Starting {
        Starting {
            between,
            channel,
            program: command.argv.first().map(PathBuf::from).unwrap_or_default(),
        }
    }
}

/// Makes the command's process. The launcher may lock itself further from here on: nothing of that is inherited any more.
///
/// # Errors
/// The channel or the process in between cannot be made.
pub fn start(command: &Command, namespaces: &NamespaceFds) -> Result<Starting, Error> {
    let (ours, theirs) = channel::pair()?;
    let launcher = process::pidfd_open(i32::try_from(std::process::id()).unwrap_or(i32::MAX))?;
    // It begins in the group, and the command with it: once it has joined the session's namespaces, it could not reach the group.
    let group = command.group.as_ref().map(AsFd::as_fd);
    let between = process::fork_bound_into(group, "the command's process", || {
        join_and_clone(command, namespaces, &theirs, launcher.as_fd())
    })?;
    Ok(Starting::new(Between::Joined(between), ours, command))
}

/// The same where there is no namespace. The keeper that is started with it ends what the command leaves. `exe` is picktwo's own
/// binary ([`process::own_executable`]).
///
/// # Errors
/// The channels or the keeper cannot be made.
pub fn start_in_container(command: &Command, exe: OwnedFd) -> Result<Starting, Error> {
    let (ours, theirs) = channel::pair()?;
    let (keeper_ours, keeper_theirs) = channel::pair()?;
    let launcher = process::pidfd_open(i32::try_from(std::process::id()).unwrap_or(i32::MAX))?;
    // Not bound to this process's life: it has to outlive it for a moment.
    let keeper = process::fork(|| keep_and_clone(command, (theirs, launcher.as_fd()), exe, keeper_theirs))?;
    let keeper = Keeper::new(keeper, keeper_ours);
    Ok(Starting::new(Between::Keeper(keeper, launcher), ours, command))
}

impl Starting {
    /// Waits until the process is ready to execute. The listener is where its granted calls arrive, if it has any: somebody must serve
    /// them before [`Prepared::go`]. A keeper watches from then on.
    ///
    /// # Errors
    /// The first step that failed, here or there. The process has been reaped then.
    pub fn ready(self) -> Result<(Prepared, Option<Listener>, Option<Keeper>), Error> {
        let mut arrived = Arrived::default();
        let outcome = arrived.collect(&self.channel);
        // It has nothing left to do, whatever happened.
        let (reaped, keeper) = match self.between {
            Between::Joined(between) => (between.wait().map(drop).map_err(Error::from), None),
            Between::Keeper(mut keeper, launcher) => (keeper.ready(launcher.as_fd()), Some(keeper)),
        };
        match (outcome.and(reaped), arrived) {
            (
                Ok(()),
                Arrived {
                    child: Some(child),
                    listener,
                    steps: Some(steps),
                },
            ) => {
                let prepared = Prepared {
                    child,
                    steps,
                    channel: self.channel,
                    program: self.program,
                };
                Ok((prepared, listener, keeper))
            }
            (outcome, Arrived { child, .. }) => {
                if let Some(child) = child {
                    child.kill_and_wait()?;
                }
                Err(outcome.err().unwrap_or(Error::Ended))
            }
        }
    }
}

/// The keeper before it executes itself anew: enters the session's domain and clones the command's process in it, as the launcher's
/// child.
fn keep_and_clone(
    command: &Command,
    (channel, launcher): (Channel, std::os::fd::BorrowedFd<'_>),
    exe: OwnedFd,
    own: Channel,
) -> u8 {
    let cloned = keeper::enter_domain(launcher).and_then(|()| {
        // The keeper itself stays outside: it goes on where the session has reached its bounds.
        let group = command.group.as_ref().map(AsFd::as_fd);
        process::clone_into_parent(group, "the command's process", || {
            child::run(command, &channel, launcher)
        })
    });
    let sent = match cloned {
        Ok(child) => {
            let (pid, pidfd) = child.into_parts();
            report(&channel, &Report::Cloned { pid }, &[pidfd.as_fd()])
        }
        Err(error) => report(&channel, &failed(&error), &[]),
    };
    if sent.is_err() {
        return 1;
    }
    drop(channel);
    // Out of the terminal's reach: signals of its keys are for the command.
    let _ = nix::unistd::setsid();
    let _failed = process::become_role(picktwo_confine::Role::Keeper, exe, own);
    1
}

#[derive(Default)]
struct Arrived {
    child: Option<Child>,
    listener: Option<Listener>,
    /// Once it is prepared.
    steps: Option<crate::view::Steps>,
}

impl Arrived {
    /// Takes the two reports, which come from two processes in any order.
    fn collect(&mut self, channel: &Channel) -> Result<(), Error> {
        let mut failure = None;
        while self.child.is_none() || (self.steps.is_none() && failure.is_none()) {
            let mut message = Vec::new();
            let Some(mut fds) = channel.recv(&mut message)? else {
                break;
            };
            match picktwo_wire::decode(&message) {
                Ok(Report::Cloned { pid }) => self.child = fds.pop().map(|fd| Child::from_parts(pid, fd)),
                Ok(Report::Prepared { steps }) => {
                    self.listener = fds.pop().map(Listener::from);
                    self.steps = Some(steps);
                }
                Ok(Report::Failed { sentence, errno }) => {
                    failure = Some(Error::Failed {
                        sentence,
                        errno: errno.map(Errno::from_raw),
                    });
                }
                _ => return Err(Error::Ended),
            }
        }
        match failure {
            Some(error) => Err(error),
            None if self.child.is_some() && self.steps.is_some() => Ok(()),
            None => Err(Error::Ended),
        }
    }
}

impl Prepared {
    /// Lets the command execute, and answers once it has.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be executed; the process has been reaped then.
    pub fn go(self) -> Result<Child, Error> {
        self.channel.send(GO, &[])?;
        let mut message = Vec::new();
        // The channel closes on exec.
        if self.channel.recv(&mut message)?.is_none() {
            return Ok(self.child);
        }
        self.child.wait()?;
        match picktwo_wire::decode(&message) {
            Ok(Report::Program { errno }) => Err(Error::Program {
                program: self.program,
                errno: Errno::from_raw(errno),
            }),
            Ok(Report::Failed { sentence, errno }) => Err(Error::Failed {
                sentence,
                errno: errno.map(Errno::from_raw),
            }),
            _ => Err(Error::Ended),
        }
    }
}

/// The process in between: joins the session's namespaces, and clones the command's process as the launcher's child there.
fn join_and_clone(
    command: &Command,
    namespaces: &NamespaceFds,
    channel: &Channel,
    launcher: std::os::fd::BorrowedFd<'_>,
) -> u8 {
    let cloned = namespace::join(namespaces).and_then(|()| {
        process::clone_into_parent(None, "the command's process", || child::run(command, channel, launcher))
    });
    let sent = match cloned {
        Ok(child) => {
            let (pid, pidfd) = child.into_parts();
            report(channel, &Report::Cloned { pid }, &[pidfd.as_fd()])
        }
        Err(error) => report(channel, &failed(&error), &[]),
    };
    u8::from(sent.is_err())
}

fn failed(error: &picktwo_confine::Error) -> Report {
    Report::Failed {
        sentence: error.to_string(),
        errno: error.errno().map(|e| e as i32),
    }
}

fn report(
    channel: &Channel,
    report: &Report,
    fds: &[std::os::fd::BorrowedFd<'_>],
) -> Result<(), picktwo_confine::Error> {
    let message = picktwo_wire::encode(report).unwrap_or_else(|_| b"\"too_long\"".to_vec());
    channel.send(&message, fds)
}
