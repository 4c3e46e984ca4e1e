//! The network supervisor of the web side: starts one retriever per request, grants its names and connections, and tells the
//! launcher about each. It reads no content: only names, addresses, and the arguments of two system calls.

mod apis;
mod retrieval;

use crate::connections;
use crate::connections::rules::Rules;
use crate::handing::{self, BadUpstream};
use crate::image::image_files;
use crate::judged::{self, Broken};
use crate::local::{Neighbourhood, OpenError};
use crate::lock::{self, Image};
use crate::resolver::{Client, ClientError, DNS_PORT, until};
use apis::Apis;
use nix::poll::{PollFd, PollFlags, poll};
use picktwo_confine::channel::Channel;
use picktwo_confine::{Errno, Role, limits, process};
use picktwo_wire::retrieval::{FromWeb, Resolved, ToWeb, WebStart};
use picktwo_wire::{MessageError, decode, encode};
use retrieval::Retrieval;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

/// The most retrievers at the same time, whatever the launcher asks for.
pub const MAX_PARALLEL: usize = 16;
/// Retrievals that may wait for their turn.
const MAX_QUEUED: usize = 256;
/// What [`FromWeb::Ended`] says of a retriever that could not be started.
const NOT_STARTED: i32 = 125;
/// What it says of one that was stopped before its turn.
const STOPPED: i32 = 128 + nix::libc::SIGKILL;

/// Why this side ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The launcher is gone.
    Closed,
    /// The launcher's message was not one.
    Message(MessageError),
    /// A confinement step or a call on a channel failed.
    Confine(picktwo_confine::Error),
    /// The resolver failed.
    Resolver(ClientError),
    /// The routing tables cannot be read.
    Tables(OpenError),
    /// The routing tables cannot be read any more once locked.
    TablesLocked(std::io::Error),
    /// The policy's exceptions are not hosts.
    Exception(connections::rules::BadException),
    /// An API's host is neither an address nor a name.
    Upstream(BadUpstream),
    /// poll(2) failed.
    Poll(Errno),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the launcher ended"),
            Self::Message(e) => e.fmt(f),
            Self::Confine(e) => e.fmt(f),
            Self::Resolver(e) => e.fmt(f),
            Self::Tables(e) => e.fmt(f),
            Self::TablesLocked(e) => write!(f, "cannot read the routing tables once locked: {e}"),
            Self::Exception(e) => e.fmt(f),
            Self::Upstream(e) => e.fmt(f),
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
from!(MessageError => Message, picktwo_confine::Error => Confine, ClientError => Resolver, OpenError => Tables,
    connections::rules::BadException => Exception, BadUpstream => Upstream);

impl From<Broken> for End {
    fn from(e: Broken) -> Self {
        match e {
            Broken::Message(e) => Self::Message(e),
            Broken::Channel(e) => Self::Confine(e),
        }
    }
}

/// The web side: takes its start message from the channel at descriptor 3 (to the launcher), starts its resolver, locks itself, and serves until
/// the channel is closed.
#[must_use]
pub fn main_role() -> ExitCode {
    let Ok(channel) = Channel::from_parent() else {
        return ExitCode::FAILURE;
    };
    let ended = match start(&channel) {
        Ok(mut web) => web.serve(),
        Err(e) => Err(e),
    };
    match ended {
        Ok(()) | Err(End::Closed) => ExitCode::SUCCESS,
        Err(e) => {
            if let Ok(bytes) = encode(&FromWeb::Failed { reason: e.to_string() }) {
                // Nobody else could be told.
                let _ = channel.send(&bytes, &[]);
            }
            ExitCode::FAILURE
        }
    }
}

fn start(channel: &Channel) -> Result<Web<'_>, End> {
    let mut bytes = Vec::new();
    channel.recv(&mut bytes)?.ok_or(End::Closed)?;
    let start: WebStart = decode(&bytes)?;
    let rules = Rules::new(&start)?;
    let exe = process::own_executable()?;
    limits::nofile_raise()?;
    let mut near = Neighbourhood::open()?;
    let upstreams = handing::upstreams(&start.apis.upstreams)?;
    let mut ports = rules.all_ports();
    ports.extend(upstreams.iter().map(handing::Upstream::port));
    ports.sort_unstable();
    ports.dedup();
    lock::family(&[ports.as_slice(), &[DNS_PORT]].concat())?;
    let resolver = Client::start(exe.as_fd(), &start.nameservers)?;
    let image = Image {
        program: exe.as_fd(),
        files: image_files(),
    };
    lock::network(Role::OutsideWeb, Some(image), &ports)?;
    let resolver = resolver.ready()?;
    near.contains(IpAddr::V4(Ipv4Addr::BROADCAST))
        .map_err(End::TablesLocked)?;
    channel.send(&encode(&FromWeb::Ready)?, &[])?;
    Ok(Web {
        launcher: channel,
        resolver,
        shared: Shared { rules, near },
        exe,
        apis: Apis::new(upstreams),
        retrievals: Vec::new(),
        queue: VecDeque::new(),
        parallel: start.parallel.clamp(1, MAX_PARALLEL),
    })
}

/// What every decision needs.
struct Shared {
    rules: Rules,
    near: Neighbourhood,
}

struct Web<'a> {
    launcher: &'a Channel,
    resolver: Client,
    shared: Shared,
    exe: OwnedFd,
    apis: Apis,
    retrievals: Vec<Retrieval>,
    /// Retrievals that wait for their turn.
    queue: VecDeque<Queued>,
    parallel: usize,
}

/// A retrieval that waits for its turn.
struct Queued {
    id: u64,
    /// The retriever's channel to the launcher.
    channel: OwnedFd,
    /// Whether it may be granted names and connections.
    grants: bool,
}

/// What a descriptor that is ready belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Launcher,
    Resolver,
    Apis(apis::Part),
    Retrieval { index: usize, part: retrieval::Part },
}

impl Web<'_> {
    fn serve(&mut self) -> Result<(), End> {
        loop {
            let ready = self.wait()?;
            let now = Instant::now();
            for source in ready {
                match source {
                    Source::Launcher => self.launcher_message()?,
                    Source::Resolver => self.resolver_answer()?,
                    Source::Apis(part) => self.apis.ready(part, &self.resolver),
                    Source::Retrieval { index, part } => {
                        let asked = self.retrievals[index].ready(part, &mut self.shared, self.launcher)?;
                        for name in asked {
                            self.resolver.ask(name.as_str())?;
                        }
                    }
                }
            }
            for retrieval in &mut self.retrievals {
                retrieval.tick(now, self.launcher)?;
            }
            self.apis.advance(now);
            self.reap()?;
            self.start_queued()?;
        }
    }

    /// Waits until something is ready, or for the next deadline.
    fn wait(&self) -> Result<Vec<Source>, End> {
        let mut sources = vec![Source::Launcher, Source::Resolver];
        let mut entries = vec![
            PollFd::new(self.launcher.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.resolver.as_fd(), PollFlags::POLLIN),
        ];
        for (index, retrieval) in self.retrievals.iter().enumerate() {
            for (part, fd, flags) in retrieval.interests() {
                sources.push(Source::Retrieval { index, part });
                entries.push(PollFd::new(fd, flags));
            }
        }
        for (part, fd, flags) in self.apis.interests() {
            sources.push(Source::Apis(part));
            entries.push(PollFd::new(fd, flags));
        }
        let deadlines = self.retrievals.iter().filter_map(Retrieval::deadline);
        let deadline = deadlines.chain(self.apis.deadline()).min();
        match poll(&mut entries, until(deadline)) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(Vec::new()),
            Err(e) => return Err(End::Poll(e)),
        }
        let is_ready = |entry: &PollFd<'_>| entry.revents().is_some_and(|events| !events.is_empty());
        Ok(entries
            .iter()
            .zip(sources)
            .filter(|(entry, _)| is_ready(entry))
            .map(|(_, source)| source)
            .collect())
    }

    fn launcher_message(&mut self) -> Result<(), End> {
        let mut bytes = Vec::new();
        let fds = match self.launcher.try_recv(&mut bytes) {
            Ok(fds) => fds.ok_or(End::Closed)?,
            Err(e) if e.errno() == Some(Errno::EAGAIN) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        match decode(&bytes)? {
            ToWeb::Retrieve { id } => self.enqueue(id, fds, true)?,
            ToWeb::Ticket { id } => self.enqueue(id, fds, false)?,
            ToWeb::Apis {} => {
                if let Some(channel) = fds.into_iter().next() {
                    self.apis.start(self.exe.as_fd(), channel);
                }
            }
            ToWeb::NoMore { id } => {
                if let Some(retrieval) = self.retrievals.iter_mut().find(|r| r.id() == id) {
                    retrieval.no_more(self.launcher)?;
                }
            }
            ToWeb::Revoke { id } => {
                if let Some(retrieval) = self.retrievals.iter_mut().find(|r| r.id() == id) {
                    retrieval.revoke(self.launcher)?;
                }
            }
            ToWeb::Stop { id } => {
                if let Some(retrieval) = self.retrievals.iter_mut().find(|r| r.id() == id) {
                    retrieval.kill();
                }
                if let Some(at) = self.queue.iter().position(|queued| queued.id == id) {
                    self.queue.remove(at);
                    tell(self.launcher, &FromWeb::Ended { id, code: STOPPED })?;
                }
            }
            ToWeb::Try(asked) => {
                judged::run(&asked, self.launcher)?;
                return Err(End::Closed);
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, id: u64, fds: Vec<OwnedFd>, grants: bool) -> Result<(), End> {
        match fds.into_iter().next() {
            Some(channel) if self.queue.len() < MAX_QUEUED => {
                self.queue.push_back(Queued { id, channel, grants });
                Ok(())
            }
            _ => tell(self.launcher, &FromWeb::Ended { id, code: NOT_STARTED }),
        }
    }

    fn resolver_answer(&mut self) -> Result<(), End> {
        while let Some(answer) = self.resolver.answer()? {
            self.apis.resolved(&answer);
            let Resolved { host, addresses, error } = answer;
            let outcome = match error {
                None => Ok(addresses),
                Some(reason) => Err(reason),
            };
            for retrieval in &mut self.retrievals {
                retrieval.resolved(&host, &outcome, &mut self.shared, self.launcher)?;
            }
        }
        Ok(())
    }

    /// Forgets retrievers that have ended.
    fn reap(&mut self) -> Result<(), End> {
        let mut at = 0;
        while at < self.retrievals.len() {
            match self.retrievals[at].ended() {
                None => at += 1,
                Some(code) => {
                    let id = self.retrievals.swap_remove(at).finish();
                    tell(self.launcher, &FromWeb::Ended { id, code })?;
                }
            }
        }
        Ok(())
    }

    fn start_queued(&mut self) -> Result<(), End> {
        while self.retrievals.len() < self.parallel
            && let Some(Queued { id, channel, grants }) = self.queue.pop_front()
        {
            match Retrieval::start(id, self.exe.as_fd(), channel, grants) {
                Ok(retrieval) => self.retrievals.push(retrieval),
                Err(_) => tell(self.launcher, &FromWeb::Ended { id, code: NOT_STARTED })?,
            }
        }
        Ok(())
    }
}

/// Tells the launcher, waiting for room: what cannot be recorded does not happen.
fn tell(launcher: &Channel, event: &FromWeb) -> Result<(), End> {
    launcher.send(&encode(event)?, &[]).map_err(|e| match e.errno() {
        Some(Errno::EPIPE) => End::Closed,
        _ => e.into(),
    })
}
