//! The resolver's loop: one thread, one channel, and the sockets of the look-ups that are under way.

use super::lookup::Lookup;
use super::{DNS_PORT, MAX_ACTIVE, MAX_WAITING, Start, Started, failure};
use crate::judged::{self, Broken};
use crate::lock;
use crate::names::Name;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use picktwo_confine::channel::Channel;
use picktwo_confine::{Errno, Role};
use picktwo_wire::retrieval::{Resolve, Resolved};
use picktwo_wire::{MessageError, decode, encode};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The longest time that an answer is kept for the next question; shorter if the name server says so.
const KEEP: Duration = Duration::from_secs(60);
/// Answers that are kept.
const MAX_KEPT: usize = 256;

/// Why the resolver stops.
#[derive(Debug)]
enum End {
    /// The supervisor is gone.
    Closed,
    /// The supervisor's message was not one.
    Message(MessageError),
    /// A call on the channel failed.
    Channel(picktwo_confine::Error),
    /// poll(2) failed.
    Poll(Errno),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the supervisor ended"),
            Self::Message(e) => e.fmt(f),
            Self::Channel(e) => e.fmt(f),
            Self::Poll(e) => write!(f, "poll failed: {e}"),
        }
    }
}

impl From<Broken> for End {
    fn from(e: Broken) -> Self {
        match e {
            Broken::Message(e) => Self::Message(e),
            Broken::Channel(e) => Self::Channel(e),
        }
    }
}

impl From<picktwo_confine::Error> for End {
    fn from(e: picktwo_confine::Error) -> Self {
        Self::Channel(e)
    }
}

impl From<MessageError> for End {
    fn from(e: MessageError) -> Self {
        Self::Message(e)
    }
}

/// The resolver process: takes its start message from the channel at descriptor 3, locks itself, and answers until the channel
/// is closed.
#[must_use]
pub fn main_role() -> ExitCode {
    match Channel::from_parent()
        .map_err(End::from)
        .and_then(|channel| run(&channel))
    {
        Ok(()) | Err(End::Closed) => ExitCode::SUCCESS,
        Err(e) => {
            // Seen only where somebody runs the role by hand: its standard error is /dev/null otherwise.
            eprintln!("{}: {e}", Role::Resolver.title());
            ExitCode::FAILURE
        }
    }
}

fn run(channel: &Channel) -> Result<(), End> {
    let mut bytes = Vec::new();
    if channel.recv(&mut bytes)?.is_none() {
        return Err(End::Closed);
    }
    let start: Start = decode(&bytes)?;
    let started = match lock::network(Role::Resolver, None, &[DNS_PORT]) {
        Ok(()) => Started::Ready,
        Err(e) => Started::Failed { reason: e.to_string() },
    };
    channel.send(&encode(&started)?, &[])?;
    if started != Started::Ready {
        return Ok(());
    }
    let servers = start
        .nameservers
        .into_iter()
        .map(|ip| SocketAddr::new(ip, DNS_PORT))
        .collect();
    Service::new(servers).serve(channel)
}

pub(super) struct Service {
    servers: Vec<SocketAddr>,
    active: Vec<Lookup>,
    waiting: VecDeque<Name>,
    kept: HashMap<Name, (Instant, Vec<IpAddr>)>,
}

impl Service {
    pub(super) fn new(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers,
            active: Vec::new(),
            waiting: VecDeque::new(),
            kept: HashMap::new(),
        }
    }

    /// Answers until the channel is closed or carries something that is no question.
    fn serve(&mut self, channel: &Channel) -> Result<(), End> {
        let mut bytes = Vec::new();
        loop {
            if self.wait(channel)? {
                match channel.try_recv(&mut bytes) {
                    Ok(None) => return Ok(()),
                    Ok(Some(_)) => {
                        let asked: Resolve = match (decode(&bytes), decode(&bytes)) {
                            (Ok(asked), _) => asked,
                            (Err(_), Ok(asked)) => {
                                judged::run(&asked, channel)?;
                                return Err(End::Closed);
                            }
                            (Err(e), Err(_)) => return Err(e.into()),
                        };
                        if let Some(answer) = self.ask(&asked.host, Instant::now()) {
                            channel.send(&encode(&answer)?, &[])?;
                        }
                    }
                    Err(e) if e.errno() == Some(Errno::EAGAIN) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            for answer in self.advance(Instant::now()) {
                channel.send(&encode(&answer)?, &[])?;
            }
        }
    }

    /// Waits for a message (true), for a socket, or for the next deadline.
    fn wait(&self, channel: &Channel) -> Result<bool, End> {
        let mut entries = vec![PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
        let interests = self.active.iter().flat_map(Lookup::interests);
        entries.extend(interests.map(|(fd, flags)| PollFd::new(fd, flags)));
        let deadline = self.active.iter().filter_map(Lookup::deadline).min();
        match poll(&mut entries, until(deadline)) {
            Ok(_) => Ok(entries[0].revents().is_some_and(|events| !events.is_empty())),
            Err(Errno::EINTR) => Ok(false),
            Err(e) => Err(End::Poll(e)),
        }
    }

    /// Takes a question; an answer that is already known comes back at once.
    pub(super) fn ask(&mut self, host: &str, now: Instant) -> Option<Resolved> {
        let name = match Name::parse(host) {
            Ok(name) if name.as_str() == host => name,
            Ok(_) => return Some(failure(host, "the name is not in lower case without a trailing dot")),
            Err(e) => return Some(failure(host, e)),
        };
        if name.is_localhost() {
            let addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Some(Resolved {
                host: host.to_owned(),
                addresses,
                error: None,
            });
        }
        if let Some((until, addresses)) = self.kept.get(&name)
            && now < *until
        {
            return Some(Resolved {
                host: host.to_owned(),
                addresses: addresses.clone(),
                error: None,
            });
        }
        if self.servers.is_empty() {
            return Some(failure(host, "no name server is configured"));
        }
        let known = self.active.iter().any(|l| l.name == name) || self.waiting.contains(&name);
        if !known && self.waiting.len() >= MAX_WAITING {
            return Some(failure(host, "too many names at once"));
        }
        if !known {
            self.waiting.push_back(name);
        }
        None
    }

    /// Moves all look-ups on and returns the answers of those that have ended.
    pub(super) fn advance(&mut self, now: Instant) -> Vec<Resolved> {
        while self.active.len() < MAX_ACTIVE
            && let Some(name) = self.waiting.pop_front()
        {
            self.active.push(Lookup::start(name, &self.servers, now));
        }
        let mut answers = Vec::new();
        let (servers, kept) = (&self.servers, &mut self.kept);
        self.active.retain_mut(|lookup| {
            lookup.advance(servers, now);
            let Some(outcome) = lookup.outcome() else { return true };
            let host = lookup.name.as_str();
            answers.push(match outcome {
                Ok(found) => {
                    let until = now + Duration::from_secs(found.seconds.into()).min(KEEP);
                    if kept.len() >= MAX_KEPT {
                        kept.retain(|_, (until, _)| now < *until);
                    }
                    if kept.len() < MAX_KEPT {
                        kept.insert(lookup.name.clone(), (until, found.addresses.clone()));
                    }
                    Resolved {
                        host: host.to_owned(),
                        addresses: found.addresses,
                        error: None,
                    }
                }
                Err(e) => failure(host, e),
            });
            false
        });
        answers
    }
}

/// A poll timeout that ends not before `deadline`.
pub(crate) fn until(deadline: Option<Instant>) -> PollTimeout {
    let Some(deadline) = deadline else {
        return PollTimeout::NONE;
    };
    let left = deadline.saturating_duration_since(Instant::now()).as_millis() + 1;
    PollTimeout::try_from(left.min(60_000) as i32).unwrap_or(PollTimeout::ZERO)
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
