//! The gateway of the retrievers, from the side that connects for it. Its end is no end of this side: what is fetched without a ticket
//! goes on, and the launcher sees it by the gateway's own channel.

use crate::handing::{Handing, Upstream};
use crate::model::GatewayChannel;
use crate::resolver::Client;
use nix::poll::PollFlags;
use nix::sys::signal::Signal;
use picktwo_confine::Role;
use picktwo_confine::process::{self, Child};
use picktwo_wire::encode;
use picktwo_wire::retrieval::Resolved;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// What of the gateway is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The process has ended.
    Process,
    /// It wants a connection.
    Channel,
    /// A connection attempt goes on.
    Connecting,
}

/// The gateway, once it was started.
pub(super) struct Apis {
    upstreams: Vec<Upstream>,
    running: Option<(Child, Handing)>,
}

impl Apis {
    /// Not started yet.
    pub(super) fn new(upstreams: Vec<Upstream>) -> Self {
        Self {
            upstreams,
            running: None,
        }
    }

    /// Starts the gateway and hands it its channel to the launcher. What goes wrong closes that channel, which the launcher sees.
    pub(super) fn start(&mut self, exe: BorrowedFd<'_>, launcher_end: OwnedFd) {
        if self.running.is_some() {
            return;
        }
        let Ok((child, channel)) = process::spawn_role(Role::RetrieverGateway, exe) else {
            return;
        };
        let told = encode(&GatewayChannel {}).is_ok_and(|m| channel.send(&m, &[launcher_end.as_fd()]).is_ok());
        self.running = Some((child, Handing::new(channel, self.upstreams.clone())));
        if !told {
            self.end();
        }
    }

    /// The descriptors to be polled.
    pub(super) fn interests(&self) -> Vec<(Part, BorrowedFd<'_>, PollFlags)> {
        let Some((child, handing)) = &self.running else {
            return Vec::new();
        };
        let mut interests = vec![(Part::Process, child.pidfd(), PollFlags::POLLIN)];
        if handing.takes_more() {
            interests.push((Part::Channel, handing.channel(), PollFlags::POLLIN));
        }
        interests.extend(handing.sockets().map(|fd| (Part::Connecting, fd, PollFlags::POLLOUT)));
        interests
    }

    /// When [`Apis::advance`] has to be called at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.running.as_ref().and_then(|(_, handing)| handing.deadline())
    }

    /// Handles one ready part.
    pub(super) fn ready(&mut self, part: Part, resolver: &Client) {
        let Some((child, handing)) = &mut self.running else {
            return;
        };
        match part {
            Part::Process => {
                if !matches!(child.try_wait(), Ok(None)) {
                    self.running = None;
                }
            }
            Part::Channel => {
                if handing.request(Some(resolver)).is_err() {
                    self.end();
                }
            }
            // In `advance`, which follows.
            Part::Connecting => {}
        }
    }

    /// Takes an answer of the resolver.
    pub(super) fn resolved(&mut self, resolved: &Resolved) {
        if let Some((_, handing)) = &mut self.running {
            handing.resolved(resolved);
        }
    }

    /// Goes on with what is being connected.
    pub(super) fn advance(&mut self, now: Instant) {
        if let Some((_, handing)) = &mut self.running
            && handing.advance(now).is_err()
        {
            self.end();
        }
    }

    /// Ends a gateway that does not keep to its messages.
    fn end(&mut self) {
        if let Some((child, _)) = self.running.take() {
            // It may have ended by itself.
            let _ = child.signal(Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}
