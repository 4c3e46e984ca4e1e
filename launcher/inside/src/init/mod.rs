//! Process 1 of a session: makes the namespaces' view, then holds them, makes the session's internet sockets and reaps.
//!
//! The launcher calls [`start`] while it has one thread, before it restricts itself **and before it reads any credential**:
//! the init keeps a copy of the launcher's memory of that moment. It builds the view, of which the first part needs nothing that the
//! launcher has to find out first, reports, wipes the command line and environment
//! that came with the copy, and locks itself before it serves. It executes nothing: that would cost a session a fifth of
//! its start and protect nothing, since there is no secret to leave behind. When its channel closes it exits, and the kernel
//! ends every process of the session.

mod serve;

pub(crate) use serve::answer;

use crate::view::{self, Base, Plan, Steps};
use nix::errno::Errno;
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::namespace::{self, NamespaceFds};
use picktwo_confine::process::{self, Child};
use picktwo_confine::{Role, sys};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

/// Connections that may wait on the gateway's listening socket.
const GATEWAY_BACKLOG: i32 = 1024;
/// Connections that may wait on the tools' listening socket.
const TOOLS_BACKLOG: i32 = 128;

/// What the init tells the launcher, before it answers [`crate::socket_request::SocketRequest`]s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) enum Report {
    /// The view stands; the host's tree is about to be taken out of it. Descriptors: the root, then the gateway's and the tools' listening sockets where there are any.
    Ready {
        gateway: Option<u16>,
        tools: bool,
        steps: Steps,
    },
    /// It could not be built, or the init could not lock itself; it has ended.
    Failed { sentence: String, errno: Option<i32> },
    /// The view is closed, and the init is locked and serves.
    Locked,
}

impl Report {
    /// What a step of confinement says when it fails.
    pub(crate) fn failed(error: &picktwo_confine::Error) -> Self {
        Self::Failed {
            sentence: error.to_string(),
            errno: error.errno().map(|e| e as i32),
        }
    }
}

/// What the launcher tells the init once it has opened its namespaces.
pub(crate) const LOCK: &[u8] = b"lock";

/// Why a session's namespaces or view could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A step on the launcher's side: the clone itself (`ENOSPC`, `EPERM`: this host allows no namespaces), the channel.
    Confine(picktwo_confine::Error),
    /// The plan cannot be sent; holds the reason.
    Plan(String),
    /// The init reported a failure.
    Failed {
        /// One sentence with the object and the reason.
        sentence: String,
        /// The kernel's answer, if a call failed.
        errno: Option<Errno>,
    },
    /// The init ended without a report, or said something else than it should.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confine(error) => error.fmt(f),
            Self::Plan(reason) => write!(f, "the session's plan names too much: {reason}"),
            Self::Failed { sentence, .. } => f.write_str(sentence),
            Self::Ended => f.write_str("the session's first process ended unexpectedly while it started"),
        }
    }
}

impl std::error::Error for Error {}

impl From<picktwo_confine::Error> for Error {
    fn from(error: picktwo_confine::Error) -> Self {
        Self::Confine(error)
    }
}

/// An init that builds its view while the launcher does something else.
#[derive(Debug)]
pub struct Starting {
    child: Child,
    channel: Channel,
}

/// A session's namespaces, with its view in place.
#[derive(Debug)]
pub struct Namespaces {
    /// The init. It ends with the calling thread, and when `channel` is closed.
    pub child: Child,
    /// For [`crate::socket_request`], after [`Namespaces::locked`].
    pub channel: Channel,
    /// The session's root directory, as a path descriptor.
    pub root: OwnedFd,
    /// The namespaces, for [`crate::agent::start`].
    pub namespaces: NamespaceFds,
    /// The gateway's port on the session's loopback and its listening socket.
    pub gateway: Option<(u16, OwnedFd)>,
    /// The listening socket at [`view::TOOLS_SOCKET`].
    pub tools: Option<OwnedFd>,
    /// What each step of building cost, in microseconds.
    pub steps: Steps,
}

/// Clones the init into new namespaces, where it builds what needs no plan at once.
///
/// # Errors
/// [`Error::Confine`] if the clone is refused.
pub fn start(base: &Base) -> Result<Starting, Error> {
    let (ours, theirs) = channel::pair()?;
    let child = process::clone_namespaces(namespace::SESSION, "the session's namespaces", || first(base, theirs))?;
    Ok(Starting { child, channel: ours })
}

impl Starting {
    /// Sends the rest of the plan. What the init says of it, [`Starting::ready`] answers.
    ///
    /// # Errors
    /// [`Error::Plan`] if the plan is too long for a message.
    pub fn build(&self, plan: &Plan) -> Result<(), Error> {
        let message = picktwo_wire::encode(plan).map_err(|e| Error::Plan(e.to_string()))?;
        // An init that has ended said why, and that is what counts.
        let _ = self.channel.send(&message, &[]);
        Ok(())
    }

    /// Waits until the view stands, and opens what the launcher needs of it. The init locks itself from here on.
    ///
    /// # Errors
    /// What the init reported, or that it ended.
    pub fn ready(self) -> Result<Namespaces, Error> {
        // They exist since the clone. Where the init has not made itself readable yet, there is a second attempt.
        let namespaces = NamespaceFds::open(self.child.pid());
        let (report, mut fds) = receive(&self.channel)?;
        let Report::Ready { gateway, tools, steps } = report else {
            return Err(Error::Ended);
        };
        if fds.len() != 1 + usize::from(gateway.is_some()) + usize::from(tools) {
            return Err(Error::Ended);
        }
        let tools = if tools { fds.pop() } else { None };
        let gateway = gateway.and_then(|port| fds.pop().map(|fd| (port, fd)));
        let root = fds.pop().ok_or(Error::Ended)?;
        let namespaces = namespaces.or_else(|_| NamespaceFds::open(self.child.pid()))?;
        self.channel.send(LOCK, &[])?;
        Ok(Namespaces {
            child: self.child,
            channel: self.channel,
            root,
            namespaces,
            gateway,
            tools,
            steps,
        })
    }
}

impl Namespaces {
    /// Waits until the init has locked itself. To be called once, before the first foreign instruction.
    ///
    /// # Errors
    /// What the init reported, or that it ended.
    pub fn locked(&self) -> Result<(), Error> {
        locked(&self.channel)
    }
}

/// Waits for the report of whoever makes the session's sockets that it has locked itself.
///
/// # Errors
/// What it reported, or that it ended.
pub fn locked(channel: &Channel) -> Result<(), Error> {
    match receive(channel)? {
        (Report::Locked, _) => Ok(()),
        _ => Err(Error::Ended),
    }
}

pub(crate) fn receive(channel: &Channel) -> Result<(Report, Vec<OwnedFd>), Error> {
    let mut message = Vec::new();
    let fds = channel.recv(&mut message)?.ok_or(Error::Ended)?;
    match picktwo_wire::decode(&message) {
        Ok(Report::Failed { sentence, errno }) => Err(Error::Failed {
            sentence,
            errno: errno.map(Errno::from_raw),
        }),
        Ok(report) => Ok((report, fds)),
        Err(_) => Err(Error::Ended),
    }
}

pub(crate) fn report(
    channel: &Channel,
    report: &Report,
    fds: &[std::os::fd::BorrowedFd<'_>],
) -> Result<(), picktwo_confine::Error> {
    let message = picktwo_wire::encode(report).unwrap_or_else(|_| b"\"ended\"".to_vec());
    channel.send(&message, fds)
}

/// The init's whole life.
fn first(base: &Base, channel: Channel) -> u8 {
    match make(base, &channel) {
        Ok(true) => {}
        // The launcher decided against a session, and is gone or will be.
        Ok(false) => return 0,
        Err(error) => {
            let failed = Report::Failed {
                sentence: error.to_string(),
                errno: error.errno().map(|e| e as i32),
            };
            let _ = report(&channel, &failed, &[]);
            return 1;
        }
    }
    match process::become_role_in_place(Role::Init, channel) {
        Ok(channel) => serve::run(&channel),
        Err(error) => {
            // If that failed late, the channel is where a role has it.
            if let Ok(channel) = Channel::from_parent() {
                let _ = report(&channel, &Report::failed(&error), &[]);
            }
            1
        }
    }
}

/// Makes everything that the launcher gets, hands it over, and closes the view while the launcher goes on: it lets nothing run
/// before it hears that the init is locked. `false`: no plan came.
fn make(base: &Base, channel: &Channel) -> Result<bool, view::Error> {
    let Some(prepared) = prepare(base, channel)? else {
        return Ok(false);
    };
    let Prepared {
        root,
        gateway,
        tools,
        steps,
    } = prepared;
    let mut fds = vec![root.as_fd()];
    fds.extend(gateway.iter().map(|(_, fd)| fd.as_fd()));
    fds.extend(tools.iter().map(AsFd::as_fd));
    let ready = Report::Ready {
        gateway: gateway.as_ref().map(|(port, _)| *port),
        tools: tools.is_some(),
        steps,
    };
    report(channel, &ready, &fds)?;
    view::close(root.as_fd())?;
    Ok(true)
}

struct Prepared {
    root: OwnedFd,
    gateway: Option<(u16, OwnedFd)>,
    tools: Option<OwnedFd>,
    steps: Steps,
}

/// Makes everything that the launcher gets. `None`: no plan came.
fn prepare(base: &Base, channel: &Channel) -> Result<Option<Prepared>, view::Error> {
    let mut clock = view::Clock::new();
    // A launcher that keeps others out of its memory passes that on; the maps need /proc/self to be ours.
    process::set_dumpable(true)?;
    // Modes of what the view is made of are as stated; the command has the person's own umask.
    sys::umask(0o022);
    namespace::write_own_maps(base.identity.uid, base.identity.gid)?;
    // Out of the terminal's reach: signals of its keys are for the command.
    let _ = nix::unistd::setsid();
    namespace::set_host_name(view::HOST_NAME)?;
    namespace::loopback_up()?;
    clock.step("namespaces");
    let started = view::start(base, &mut clock)?;
    let mut message = Vec::new();
    if channel.recv(&mut message)?.is_none() {
        return Ok(None);
    }
    let plan: Plan = picktwo_wire::decode(&message).map_err(|e| view::Error::Message(e.to_string()))?;
    clock.step("plan");
    let root = view::finish(started, &plan, &mut clock)?;
    let gateway = plan.gateway.then(gateway_socket).transpose()?;
    let tools = plan.tools.then(tools_socket).transpose()?;
    clock.step("sockets");
    Ok(Some(Prepared {
        root,
        gateway,
        tools,
        steps: clock.steps,
    }))
}

/// A listening TCP socket on the session's loopback, at a port that the kernel chooses.
pub(crate) fn gateway_socket() -> Result<(u16, OwnedFd), view::Error> {
    const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
    let failed = |call| {
        move |errno| view::Error::Socket {
            what: "the gateway's socket",
            call,
            errno,
        }
    };
    let family = nix::sys::socket::AddressFamily::Inet as u16;
    let fd = sys::socket(family.into(), nix::sys::socket::SockType::Stream as i32, 0).map_err(failed("socket"))?;
    // sockaddr_in: family, port, address, eight bytes of nothing.
    let mut address = [0u8; 16];
    address[..2].copy_from_slice(&family.to_ne_bytes());
    address[4..8].copy_from_slice(&LOOPBACK);
    sys::bind(fd.as_fd(), &address).map_err(failed("bind"))?;
    sys::listen(fd.as_fd(), GATEWAY_BACKLOG).map_err(failed("listen"))?;
    let name = sys::socket_name(fd.as_fd()).map_err(failed("getsockname"))?;
    Ok((u16::from_be_bytes([name[2], name[3]]), fd))
}

/// The listening UNIX socket at which the session's tools reach the launcher.
fn tools_socket() -> Result<OwnedFd, view::Error> {
    let failed = |call| {
        move |errno| view::Error::Socket {
            what: "the tools' socket",
            call,
            errno,
        }
    };
    let family = nix::sys::socket::AddressFamily::Unix as u16;
    let fd = sys::socket(family.into(), nix::sys::socket::SockType::Stream as i32, 0).map_err(failed("socket"))?;
    let mut address = family.to_ne_bytes().to_vec();
    address.extend(view::TOOLS_SOCKET.as_bytes());
    address.push(0);
    sys::bind(fd.as_fd(), &address).map_err(failed("bind"))?;
    sys::listen(fd.as_fd(), TOOLS_BACKLOG).map_err(failed("listen"))?;
    Ok(fd)
}
