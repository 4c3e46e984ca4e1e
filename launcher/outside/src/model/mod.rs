//! The network supervisor of the model side: opens connections to the pinned upstreams and hands them to the gateway. It never
//! reads or writes what travels over them.

mod attempt;
mod upstream;

use crate::judged::{self, Broken};
use crate::lock;
use crate::resolver::{Client, ClientError, DNS_PORT, Starting, until};
use attempt::Attempt;
use nix::poll::{PollFd, PollFlags, poll};
use picktwo_confine::channel::Channel;
use picktwo_confine::process::{self, Child};
use picktwo_confine::{Errno, Role};
use picktwo_wire::gateway::{Connect, Connected, ModelStart};
use picktwo_wire::retrieval::Resolved;
use picktwo_wire::{MessageError, decode, encode};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;
use upstream::{BadUpstream, Upstream};

/// Connections that the gateway may wait for; further requests are read later.
const MAX_PENDING: usize = 64;

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
    /// The gateway does not read what it asked for.
    GatewayStalled,
    /// A message was not one.
    Message(MessageError),
    /// The gateway asked for an upstream that there is not.
    UnknownUpstream(usize),
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
            Self::GatewayStalled => f.write_str("the gateway does not take the connections that it asked for"),
            Self::Message(e) => e.fmt(f),
            Self::UnknownUpstream(index) => {
                write!(f, "the gateway asked for upstream {index}, which is not configured")
            }
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
from!(MessageError => Message, BadUpstream => Upstream, picktwo_confine::Error => Confine, ClientError => Resolver);

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
    let upstreams = start
        .upstreams
        .iter()
        .map(Upstream::new)
        .collect::<Result<Vec<_>, _>>()?;
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
        gateway,
        child,
        resolver,
        upstreams,
        pending: VecDeque::new(),
    })
}

struct Model<'a> {
    launcher: &'a Channel,
    gateway: Channel,
    child: Child,
    resolver: Option<Client>,
    upstreams: Vec<Upstream>,
    /// What the gateway asked for, in its order: answers carry no number, so they go out in that order, too.
    pending: VecDeque<Pending>,
}

struct Pending {
    upstream: usize,
    state: State,
}

enum State {
    Resolving,
    Connecting(Attempt),
    Done(Result<OwnedFd, String>),
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
            let now = Instant::now();
            for pending in &mut self.pending {
                if let State::Connecting(attempt) = &mut pending.state
                    && let Some(outcome) = attempt.advance(now)
                {
                    let to = &self.upstreams[pending.upstream];
                    pending.state = State::Done(outcome.map_err(|reason| format!("{to}: {reason}")));
                }
            }
            self.answer()?;
        }
    }

    /// Waits for the next event or deadline.
    fn wait(&self) -> Result<Ready, End> {
        let flags = PollFlags::POLLIN;
        let full = self.pending.len() >= MAX_PENDING;
        let mut entries = vec![
            PollFd::new(self.launcher.as_fd(), flags),
            PollFd::new(self.child.pidfd(), flags),
            PollFd::new(self.gateway.as_fd(), if full { PollFlags::empty() } else { flags }),
        ];
        if let Some(resolver) = &self.resolver {
            entries.push(PollFd::new(resolver.as_fd(), flags));
        }
        let mut deadline: Option<Instant> = None;
        for pending in &self.pending {
            if let State::Connecting(attempt) = &pending.state {
                entries.extend(attempt.sockets().map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
                deadline = Some(deadline.map_or(attempt.deadline(), |d| d.min(attempt.deadline())));
            }
        }
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
        let mut bytes = Vec::new();
        match self.gateway.try_recv(&mut bytes) {
            Ok(Some(_)) => {}
            // Its exit code follows.
            Ok(None) => {
                return self
                    .child
                    .wait()
                    .map_err(End::from)
                    .and_then(|exit| Err(End::Gateway(exit.code())));
            }
            Err(e) if e.errno() == Some(Errno::EAGAIN) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let Connect { upstream: index } = decode(&bytes)?;
        let upstream = self.upstreams.get(index).ok_or(End::UnknownUpstream(index))?;
        let state = match (upstream.name(), &self.resolver) {
            (Some(name), Some(resolver)) => {
                resolver.ask(name.as_str())?;
                State::Resolving
            }
            _ => State::Connecting(Attempt::start(upstream.literal().into_iter().collect(), Instant::now())),
        };
        self.pending.push_back(Pending { upstream: index, state });
        Ok(())
    }

    fn resolved(&mut self) -> Result<(), End> {
        let Some(resolver) = &self.resolver else { return Ok(()) };
        while let Some(Resolved { host, addresses, error }) = resolver.answer()? {
            for pending in &mut self.pending {
                let upstream = &self.upstreams[pending.upstream];
                if !matches!(pending.state, State::Resolving) || upstream.name().is_none_or(|n| n.as_str() != host) {
                    continue;
                }
                pending.state = match (&error, upstream.usable(&addresses)) {
                    (Some(reason), _) => State::Done(Err(format!("{upstream}: {reason}"))),
                    (None, Err(reason)) => State::Done(Err(format!("{upstream}: {reason}"))),
                    (None, Ok(to)) => State::Connecting(Attempt::start(to, Instant::now())),
                };
            }
        }
        Ok(())
    }

    /// Sends what is done, in the order of the requests.
    fn answer(&mut self) -> Result<(), End> {
        while let Some(Pending {
            state: State::Done(outcome),
            ..
        }) = self.pending.front()
        {
            let sent = match outcome {
                Ok(socket) => self.gateway.try_send(&encode(&Connected::Socket)?, &[socket.as_fd()])?,
                Err(reason) => {
                    let reason = reason.clone();
                    self.gateway.try_send(&encode(&Connected::Failed { reason })?, &[])?
                }
            };
            // Waiting for it would mean not to notice the launcher's end.
            if !sent {
                return Err(End::GatewayStalled);
            }
            self.pending.pop_front();
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
