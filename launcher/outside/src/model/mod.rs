//! The network supervisor of the model side: opens connections to the pinned upstreams and hands them to the gateway. It never
//! reads or writes what travels over them.

use crate::handing::{self, BadUpstream, Handing, Problem, Upstream};
use crate::judged::{self, Broken};
use crate::lock;
use crate::resolver::{Client, ClientError, DNS_PORT, Starting, until};
use nix::poll::{PollFd, PollFlags, poll};
use picktwo_confine::channel::Channel;
use picktwo_confine::process::{self, Child};
use picktwo_confine::{Errno, Role};
use picktwo_wire::gateway::ModelStart;
use picktwo_wire::{MessageError, decode, encode};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

/// Supervisor → gateway: the first message. One descriptor comes along: the gateway's own channel to the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayChannel {}

/// Supervisor → launcher: the answer to [`ModelStart`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromModel {
    /// Locked, self-checked, and serving the gateway.
    Ready,
    /// The start failed, or the side had to end.
    Failed {
        /// One sentence.
        reason: String,
    },
}

/// Why this side ends.
#[derive(Debug)]
enum End {
    /// The launcher is gone.
    Closed,
    /// The launcher's first message brought no channel for the gateway.
    NoGatewayChannel,
    /// The gateway ended, with this exit code.
    Gateway(i32),
    /// The gateway cannot be served.
    Handing(Problem),
    /// A message was not one.
    Message(MessageError),
    /// An upstream is neither an address nor a name.
    Upstream(BadUpstream),
    /// A confinement step or a call on a channel failed.
    Confine(picktwo_confine::Error),
    /// The resolver failed.
    Resolver(ClientError),
    /// poll(2) failed.
    Poll(Errno),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the launcher ended"),
            Self::NoGatewayChannel => f.write_str("the start message came without the gateway's channel"),
            Self::Gateway(code) => write!(f, "the gateway ended with exit code {code}"),
            Self::Handing(e) => e.fmt(f),
            Self::Message(e) => e.fmt(f),
            Self::Upstream(e) => e.fmt(f),
            Self::Confine(e) => e.fmt(f),
            Self::Resolver(e) => e.fmt(f),
            Self::Poll(e) => write!(f, "poll failed: {e}"),
        }
    }
}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for End {
            fn from(e: $error) -> Self {
                Self::$variant(e)
            }
        })*
    };
}
from!(MessageError => Message, BadUpstream => Upstream, picktwo_confine::Error => Confine, ClientError => Resolver, Problem => Handing);

impl From<Broken> for End {
    fn from(e: Broken) -> Self {
        match e {
            Broken::Message(e) => Self::Message(e),
            Broken::Channel(e) => Self::Confine(e),
        }
    }
}

/// The model side: takes its start message from the channel at descriptor 3 (to the launcher), starts its resolver and the gateway, locks itself,
/// answers [`FromModel`], and connects on the gateway's request until the channel is closed.
#[must_use]
pub fn main_role() -> ExitCode {
    let Ok(channel) = Channel::from_parent() else {
        return ExitCode::FAILURE;
    };
    let ended = match start(&channel) {
        Ok(mut model) => model.serve(),
        Err(e) => Err(e),
    };
    match ended {
        Ok(()) | Err(End::Closed) => ExitCode::SUCCESS,
        Err(e) => {
            if let Ok(bytes) = encode(&FromModel::Failed { reason: e.to_string() }) {
                // Nobody else could be told.
                let _ = channel.send(&bytes, &[]);
            }
            ExitCode::FAILURE
        }
    }
}

fn start(launcher: &Channel) -> Result<Model<'_>, End> {
    let mut bytes = Vec::new();
    let mut fds = launcher.recv(&mut bytes)?.ok_or(End::Closed)?;
    let start: ModelStart = decode(&bytes)?;
    let gateway_end: OwnedFd = fds.pop().ok_or(End::NoGatewayChannel)?;
    let upstreams = handing::upstreams(&start.upstreams)?;
    let exe = process::own_executable()?;
    let mut ports: Vec<u16> = upstreams.iter().map(Upstream::port).collect();
    ports.sort_unstable();
    ports.dedup();
    lock::family(&[ports.as_slice(), &[DNS_PORT]].concat())?;
    let named = upstreams.iter().any(|u| u.name().is_some());
    let resolver = named
        .then(|| Client::start(exe.as_fd(), &start.nameservers))
        .transpose()?;
    let (child, gateway) = process::spawn_role(Role::Gateway, exe.as_fd())?;
    gateway.send(&encode(&GatewayChannel {})?, &[gateway_end.as_fd()])?;
    drop((gateway_end, exe));
    // Everybody locks at the same time: a session waits for the slowest only.
    lock::network(Role::OutsideModel, None, &ports)?;
    let resolver = resolver.map(Starting::ready).transpose()?;
    launcher.send(&encode(&FromModel::Ready)?, &[])?;
    Ok(Model {
        launcher,
        child,
        resolver,
        handing: Handing::new(gateway, upstreams),
    })
}

struct Model<'a> {
    launcher: &'a Channel,
    child: Child,
    resolver: Option<Client>,
    handing: Handing,
}

impl Model<'_> {
    fn serve(&mut self) -> Result<(), End> {
        loop {
            let ready = self.wait()?;
            if ready.launcher {
                let mut bytes = Vec::new();
                if let Ok(fds) = self.launcher.try_recv(&mut bytes) {
                    // The launcher has nothing else to say after the start: it closed the channel, or is not to be understood.
                    if let (Some(_), Ok(asked)) = (fds, decode(&bytes)) {
                        judged::run(&asked, self.launcher)?;
                    }
                    return Err(End::Closed);
                }
            }
            if ready.gateway_process
                && let Some(exit) = self.child.try_wait()?
            {
                return Err(End::Gateway(exit.code()));
            }
            if ready.gateway {
                self.request()?;
            }
            if ready.resolver {
                self.resolved()?;
            }
            self.handing.advance(Instant::now())?;
        }
    }

    /// Waits for the next event or deadline.
    fn wait(&self) -> Result<Ready, End> {
        let flags = PollFlags::POLLIN;
        let reads = if self.handing.takes_more() {
            flags
        } else {
            PollFlags::empty()
        };
        let mut entries = vec![
            PollFd::new(self.launcher.as_fd(), flags),
            PollFd::new(self.child.pidfd(), flags),
            PollFd::new(self.handing.channel(), reads),
        ];
        if let Some(resolver) = &self.resolver {
            entries.push(PollFd::new(resolver.as_fd(), flags));
        }
        entries.extend(self.handing.sockets().map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        let deadline = self.handing.deadline();
        match poll(&mut entries, until(deadline)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(End::Poll(e)),
        }
        let at = |index: usize| entries[index].revents().is_some_and(|events| !events.is_empty());
        Ok(Ready {
            launcher: at(0),
            gateway_process: at(1),
            gateway: at(2),
            resolver: self.resolver.is_some() && at(3),
        })
    }

    fn request(&mut self) -> Result<(), End> {
        match self.handing.request(self.resolver.as_ref()) {
            // Its exit code follows.
            Err(Problem::Closed) => {
                let exit = self.child.wait()?;
                Err(End::Gateway(exit.code()))
            }
            other => Ok(other?),
        }
    }

    fn resolved(&mut self) -> Result<(), End> {
        let Some(resolver) = &self.resolver else { return Ok(()) };
        while let Some(resolved) = resolver.answer()? {
            self.handing.resolved(&resolved);
        }
        Ok(())
    }
}

struct Ready {
    launcher: bool,
    gateway_process: bool,
    gateway: bool,
    resolver: bool,
}
