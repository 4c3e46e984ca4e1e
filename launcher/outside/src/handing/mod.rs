//! Connections for a gateway: made to pinned upstreams on its request, and handed over as descriptors in the order of the requests.
//! What travels over them is never read here.

mod attempt;
mod upstream;

pub(crate) use upstream::{BadUpstream, Upstream};

use crate::resolver::{Client, ClientError};
use attempt::Attempt;
use picktwo_confine::Errno;
use picktwo_confine::channel::Channel;
use picktwo_wire::gateway::{Connect, Connected, UpstreamAddress};
use picktwo_wire::retrieval::Resolved;
use picktwo_wire::{MessageError, decode, encode};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Connections that a gateway may wait for; further requests are read later.
const MAX_PENDING: usize = 64;

/// Why a gateway is not served any more.
#[derive(Debug)]
pub(crate) enum Problem {
    /// It closed its channel.
    Closed,
    /// It does not read what it asked for.
    Stalled,
    /// It asked for an upstream that there is not.
    Unknown(usize),
    /// It asked for a host that an upstream does not cover.
    Uncovered(usize),
    /// Its message was not one.
    Message(MessageError),
    /// A call on its channel failed.
    Confine(picktwo_confine::Error),
    /// The resolver failed.
    Resolver(ClientError),
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the gateway closed its channel"),
            Self::Stalled => f.write_str("the gateway does not take the connections that it asked for"),
            Self::Unknown(index) => write!(f, "the gateway asked for upstream {index}, which is not configured"),
            Self::Uncovered(index) => write!(f, "the gateway asked for a host that upstream {index} does not cover"),
            Self::Message(e) => e.fmt(f),
            Self::Confine(e) => e.fmt(f),
            Self::Resolver(e) => e.fmt(f),
        }
    }
}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for Problem {
            fn from(e: $error) -> Self {
                Self::$variant(e)
            }
        })*
    };
}
from!(MessageError => Message, picktwo_confine::Error => Confine, ClientError => Resolver);

/// The connections of one gateway.
pub(crate) struct Handing {
    gateway: Channel,
    upstreams: Vec<Upstream>,
    /// What the gateway asked for, in its order: answers carry no number, so they go out in that order, too.
    pending: VecDeque<Pending>,
}

struct Pending {
    upstream: Upstream,
    state: State,
}

enum State {
    Resolving,
    Connecting(Attempt),
    Done(Result<OwnedFd, String>),
}

/// Reads the upstreams of a start message.
pub(crate) fn upstreams(addresses: &[UpstreamAddress]) -> Result<Vec<Upstream>, BadUpstream> {
    addresses.iter().map(Upstream::new).collect()
}

impl Handing {
    /// For a gateway at the other end of `gateway`.
    pub(crate) fn new(gateway: Channel, upstreams: Vec<Upstream>) -> Self {
        Self {
            gateway,
            upstreams,
            pending: VecDeque::new(),
        }
    }

    /// The gateway's channel.
    pub(crate) fn channel(&self) -> BorrowedFd<'_> {
        self.gateway.as_fd()
    }

    /// Whether it is to be read from: as long as not too much of it waits.
    pub(crate) fn takes_more(&self) -> bool {
        self.pending.len() < MAX_PENDING
    }

    /// The sockets that become writable once they are connected or have failed.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.attempts().flat_map(Attempt::sockets)
    }

    /// When [`Handing::advance`] has to be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.attempts().map(Attempt::deadline).min()
    }

    fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.pending.iter().filter_map(|p| match &p.state {
            State::Connecting(attempt) => Some(attempt),
            _ => None,
        })
    }

    /// Reads one request of the gateway. Without a resolver there are only upstreams by address.
    pub(crate) fn request(&mut self, resolver: Option<&Client>) -> Result<(), Problem> {
        let mut bytes = Vec::new();
        match self.gateway.try_recv(&mut bytes) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(Problem::Closed),
            Err(e) if e.errno() == Some(Errno::EAGAIN) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let Connect { upstream: index, host } = decode(&bytes)?;
        let upstream = self.upstreams.get(index).ok_or(Problem::Unknown(index))?;
        let upstream = upstream.at(host.as_deref()).ok_or(Problem::Uncovered(index))?;
        let state = match (upstream.name(), resolver) {
            (Some(name), Some(resolver)) => {
                resolver.ask(name.as_str())?;
                State::Resolving
            }
            _ => State::Connecting(Attempt::start(upstream.literal().into_iter().collect(), Instant::now())),
        };
        self.pending.push_back(Pending { upstream, state });
        Ok(())
    }

    /// Takes an answer of the resolver, if it was asked for here.
    pub(crate) fn resolved(&mut self, resolved: &Resolved) {
        for pending in &mut self.pending {
            let upstream = &pending.upstream;
            let mine = upstream.name().is_some_and(|n| n.as_str() == resolved.host);
            if !mine || !matches!(pending.state, State::Resolving) {
                continue;
            }
            pending.state = match (&resolved.error, upstream.usable(&resolved.addresses)) {
                (Some(reason), _) => State::Done(Err(format!("{upstream}: {reason}"))),
                (None, Err(reason)) => State::Done(Err(format!("{upstream}: {reason}"))),
                (None, Ok(to)) => State::Connecting(Attempt::start(to, Instant::now())),
            };
        }
    }

    /// Goes on with what is being connected, and sends what is done.
    pub(crate) fn advance(&mut self, now: Instant) -> Result<(), Problem> {
        for pending in &mut self.pending {
            if let State::Connecting(attempt) = &mut pending.state
                && let Some(outcome) = attempt.advance(now)
            {
                let to = &pending.upstream;
                pending.state = State::Done(outcome.map_err(|reason| format!("{to}: {reason}")));
            }
        }
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
                return Err(Problem::Stalled);
            }
            self.pending.pop_front();
        }
        Ok(())
    }
}
