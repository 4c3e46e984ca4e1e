//! One retriever, from its start to its end. Everything that comes from it is hostile: it is bounded, answered without waiting,
//! and a message that it has no business to send ends it.

use super::{End, Shared, tell};
use crate::connections::call;
use crate::connections::rules::Pins;
use crate::connections::sockets::{Connecting, Sockets};
use crate::names::{Host, Name};
use crate::resolver::failure;
use nix::poll::PollFlags;
use nix::sys::signal::Signal;
use picktwo_confine::channel::Channel;
use picktwo_confine::notify::{Listener, Request};
use picktwo_confine::process::{self, Child};
use picktwo_confine::{Errno, Role};
use picktwo_wire::retrieval::{FromWeb, Resolve, Resolved};
use picktwo_wire::{decode, encode};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a retriever may take to lock itself and hand over its listener.
const LOCK_TIME: Duration = Duration::from_secs(10);
/// Names that one retriever may ask for.
pub(super) const MAX_NAMES: usize = 32;
/// `connect` calls of one retriever that are looked at; one more ends it.
pub(super) const MAX_CONNECTS: usize = 256;
/// Calls of one retriever that are answered at all; one more ends it.
pub(super) const MAX_CALLS: usize = 1024;
/// Connections that are made at the same time; further calls wait.
const MAX_CONNECTING: usize = 8;

/// Why a name is not resolved once connections are revoked.
const OVER: &str = "the connections of this retrieval are over";

/// What is recorded of a connection that revocation ended or prevented.
const REVOKED: &str = "refused-revoked";

/// Both first messages, in either direction: what matters are the descriptors that come along.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

/// What of a retrieval is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The process has ended.
    Process,
    /// The retriever sent a message, or closed its channel.
    Channel,
    /// The launcher closed its end of the retriever's channel to it.
    LauncherEnd,
    /// A system call waits for its answer.
    Call,
    /// A connection attempt has ended.
    Connecting,
}

/// A connection that is being made, and the call that waits for it.
struct Waiting {
    request: u64,
    to: SocketAddr,
    host: String,
    connecting: Connecting,
}

/// A running retriever.
pub(super) struct Retrieval {
    id: u64,
    child: Child,
    channel: Channel,
    /// A duplicate of the retriever's channel to the launcher, only to see that end closed.
    launcher_end: OwnedFd,
    listener: Option<Listener>,
    started: Instant,
    sockets: Sockets,
    pins: Pins,
    /// Names that the resolver was asked for, and as what the retriever spelled them.
    asked: Vec<(Name, String)>,
    names: usize,
    connects: usize,
    calls: usize,
    waiting: Vec<Waiting>,
    revoked: bool,
    /// Its channel is open.
    asks: bool,
    /// Killed, or done with speaking: only its end is waited for.
    over: bool,
}

impl Retrieval {
    /// Starts a retriever and hands it its channel to the launcher. Without `grants` it never gets a name, a socket or a connection:
    /// it is as if its connections had been revoked before it began.
    pub(super) fn start(id: u64, exe: BorrowedFd<'_>, launcher_end: OwnedFd, grants: bool) -> Result<Self, End> {
        let (child, channel) = process::spawn_role(Role::Retriever, exe)?;
        channel.send(&encode(&Empty {})?, &[launcher_end.as_fd()])?;
        Ok(Self {
            id,
            child,
            channel,
            launcher_end,
            listener: None,
            started: Instant::now(),
            sockets: Sockets::default(),
            pins: Pins::default(),
            asked: Vec::new(),
            names: 0,
            connects: 0,
            calls: 0,
            waiting: Vec::new(),
            revoked: !grants,
            asks: true,
            over: false,
        })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The descriptors to be polled.
    pub(super) fn interests(&self) -> Vec<(Part, BorrowedFd<'_>, PollFlags)> {
        let mut interests = vec![(Part::Process, self.child.pidfd(), PollFlags::POLLIN)];
        if self.over {
            return interests;
        }
        if self.asks {
            interests.push((Part::Channel, self.channel.as_fd(), PollFlags::POLLIN));
        }
        interests.push((Part::LauncherEnd, self.launcher_end.as_fd(), PollFlags::empty()));
        if let Some(listener) = &self.listener
            && self.waiting.len() < MAX_CONNECTING
        {
            interests.push((Part::Call, listener.as_fd(), PollFlags::POLLIN));
        }
        interests.extend(
            self.waiting
                .iter()
                .map(|w| (Part::Connecting, w.connecting.as_fd(), PollFlags::POLLIN)),
        );
        interests
    }

    /// When [`Retrieval::tick`] has to be called at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let lock = (self.listener.is_none() && !self.over).then(|| self.started + LOCK_TIME);
        self.waiting.iter().map(|w| w.connecting.deadline()).chain(lock).min()
    }

    /// Ends what has taken too long.
    pub(super) fn tick(&mut self, now: Instant, launcher: &Channel) -> Result<(), End> {
        if self.listener.is_none() && !self.over && now >= self.started + LOCK_TIME {
            self.kill();
        }
        if self.waiting.iter().any(|w| now >= w.connecting.deadline()) {
            self.connected(launcher)?;
        }
        Ok(())
    }

    /// Handles one ready part; returns the names that the resolver is to be asked for.
    pub(super) fn ready(&mut self, part: Part, shared: &mut Shared, launcher: &Channel) -> Result<Vec<Name>, End> {
        match part {
            // Reaped by the caller.
            Part::Process => {}
            _ if self.over => {}
            Part::LauncherEnd => self.kill(),
            Part::Channel => return self.message(shared, launcher),
            Part::Call => self.call(shared, launcher)?,
            Part::Connecting => self.connected(launcher)?,
        }
        Ok(Vec::new())
    }

    /// Ends the retriever.
    pub(super) fn kill(&mut self) {
        // ESRCH is no error there; anything else leaves a process that gets no grant any more and ends with this one.
        let _ = self.child.signal(Signal::SIGKILL);
        self.over = true;
    }

    /// The exit code, once the process has ended.
    pub(super) fn ended(&self) -> Option<i32> {
        self.child.try_wait().ok().flatten().map(|exit| exit.code())
    }

    /// Lets go of everything; returns the id.
    pub(super) fn finish(mut self) -> u64 {
        for waiting in self.waiting.drain(..) {
            waiting.connecting.abandon();
        }
        self.id
    }

    /// From now on nothing is granted, and what is connected is shut down.
    pub(super) fn revoke(&mut self, launcher: &Channel) -> Result<(), End> {
        self.no_more(launcher)?;
        self.sockets.shut_down();
        Ok(())
    }

    /// From now on nothing is granted; what is connected stays so, since a page's body may take its time.
    pub(super) fn no_more(&mut self, launcher: &Channel) -> Result<(), End> {
        self.revoked = true;
        for Waiting {
            request,
            to,
            host,
            connecting,
        } in std::mem::take(&mut self.waiting)
        {
            connecting.abandon();
            tell(launcher, &self.connection(host, to, REVOKED))?;
            self.refuse(request, Errno::ENETUNREACH);
        }
        Ok(())
    }

    /// Sends to the retriever without waiting: one that does not read what it asked for is ended.
    fn answer(&mut self, answer: &Resolved) {
        let sent = encode(answer).is_ok_and(|bytes| self.channel.try_send(&bytes, &[]).unwrap_or(false));
        if !sent {
            self.kill();
        }
    }

    fn message(&mut self, shared: &mut Shared, launcher: &Channel) -> Result<Vec<Name>, End> {
        let mut bytes = Vec::new();
        let mut fds = match self.channel.try_recv(&mut bytes) {
            Ok(Some(fds)) => fds,
            Err(e) if e.errno() == Some(Errno::EAGAIN) => return Ok(Vec::new()),
            // Closed: it will ask for no more names.
            Ok(None) if self.listener.is_some() => {
                self.asks = false;
                return Ok(Vec::new());
            }
            Ok(None) | Err(_) => {
                self.kill();
                return Ok(Vec::new());
            }
        };
        if self.listener.is_none() {
            match (decode::<Empty>(&bytes), fds.pop(), fds.is_empty()) {
                (Ok(Empty {}), Some(fd), true) => {
                    let listener = Listener::from(fd);
                    // Cheap wake-ups; whatever does not know them is no listener of a kernel that the full tier takes.
                    match listener.sync_wake_up() {
                        Ok(()) => self.listener = Some(listener),
                        Err(_) => self.kill(),
                    }
                }
                _ => self.kill(),
            }
            return Ok(Vec::new());
        }
        let Ok(Resolve { host }) = decode(&bytes) else {
            self.kill();
            return Ok(Vec::new());
        };
        self.names += 1;
        if self.names > MAX_NAMES || !fds.is_empty() {
            self.kill();
            return Ok(Vec::new());
        }
        self.resolve(host, shared, launcher)
    }

    fn resolve(&mut self, host: String, shared: &mut Shared, launcher: &Channel) -> Result<Vec<Name>, End> {
        let name = match Host::parse(&host) {
            _ if self.revoked => Err(OVER.to_owned()),
            Err(e) => Err(e.to_string()),
            // Its own address. Clients need not ask for it; its connection is decided on in either case.
            Ok(Host::Literal(ip)) => {
                let outcome = shared.rules.judge_literal(ip, &mut shared.near).map(|()| vec![ip]);
                self.report(&host, outcome, launcher)?;
                return Ok(Vec::new());
            }
            Ok(Host::Name(name)) => shared.rules.may_ask(&name).map(|()| name),
        };
        let name = match name {
            Ok(name) => name,
            Err(reason) => {
                self.report(&host, Err(reason), launcher)?;
                return Ok(Vec::new());
            }
        };
        if let Some(addresses) = self.pins.get(&name) {
            let answer = Resolved {
                host,
                addresses: addresses.to_vec(),
                error: None,
            };
            self.answer(&answer);
            return Ok(Vec::new());
        }
        self.asked.push((name.clone(), host));
        Ok(vec![name])
    }

    /// Takes the resolver's answer for a name, if it was asked for here.
    pub(super) fn resolved(
        &mut self,
        host: &str,
        outcome: &Result<Vec<IpAddr>, String>,
        shared: &mut Shared,
        launcher: &Channel,
    ) -> Result<(), End> {
        let (mine, others) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|(name, _)| name.as_str() == host);
        self.asked = others;
        let mine: Vec<(Name, String)> = mine;
        for (name, spelled) in mine {
            let judged = match outcome {
                _ if self.revoked => Err(OVER.to_owned()),
                Ok(addresses) => shared
                    .rules
                    .judge(&name, addresses, &mut shared.near)
                    .map(|()| addresses.clone()),
                Err(reason) => Err(format!("{name}: {reason}")),
            };
            if let Ok(addresses) = &judged {
                self.pins.pin(name, addresses.clone());
            }
            if !self.over {
                self.report(&spelled, judged, launcher)?;
            }
        }
        Ok(())
    }

    /// Tells the launcher, then the retriever.
    fn report(&mut self, host: &str, outcome: Result<Vec<IpAddr>, String>, launcher: &Channel) -> Result<(), End> {
        let answer = match outcome {
            Ok(addresses) => Resolved {
                host: host.to_owned(),
                addresses,
                error: None,
            },
            Err(reason) => failure(host, reason),
        };
        let host = shortened(host);
        tell(
            launcher,
            &FromWeb::Resolved {
                id: self.id,
                host,
                addresses: answer.addresses.clone(),
            },
        )?;
        self.answer(&answer);
        Ok(())
    }

    /// Answers one call of the retriever. It is never continued.
    fn call(&mut self, shared: &mut Shared, launcher: &Channel) -> Result<(), End> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let request = match listener.recv() {
            Ok(Some(request)) => request,
            Ok(None) => {
                // No process is left under the filter: its end follows.
                if listener.ended() {
                    self.over = true;
                }
                return Ok(());
            }
            Err(_) => {
                self.kill();
                return Ok(());
            }
        };
        self.calls += 1;
        if self.calls > MAX_CALLS {
            self.kill();
            return Ok(());
        }
        match request.nr {
            nix::libc::SYS_socket => {
                let made = if self.revoked {
                    Err(Errno::EACCES)
                } else {
                    call::socket(&request)
                }
                .and_then(|new| self.sockets.make(new, listener, request.id));
                if let Err(errno) = made {
                    self.refuse(request.id, errno);
                }
            }
            nix::libc::SYS_connect => self.connect(&request, shared, launcher)?,
            _ => self.refuse(request.id, Errno::EACCES),
        }
        Ok(())
    }

    fn connect(&mut self, request: &Request, shared: &mut Shared, launcher: &Channel) -> Result<(), End> {
        self.connects += 1;
        if self.connects > MAX_CONNECTS {
            self.kill();
            return Ok(());
        }
        if self.revoked {
            if let Ok(to) = call::address(request) {
                tell(launcher, &self.connection(String::new(), to, REVOKED))?;
            }
            self.refuse(request.id, Errno::ENETUNREACH);
            return Ok(());
        }
        // Everything is read once, from a caller that is valid afterwards. As in the kernel, the descriptor comes first.
        let read = self
            .sockets
            .find(request.pid, request.int(0))
            .and_then(|s| Ok((s, call::address(request)?)));
        if !self.listener.as_ref().is_some_and(|l| l.valid(request.id)) {
            return Ok(());
        }
        let (socket, to) = match read {
            Ok(read) => read,
            Err(errno) => {
                self.refuse(request.id, errno);
                return Ok(());
            }
        };
        let decided = shared.rules.connect(to, &self.pins, &mut shared.near);
        let host = match decided {
            Ok(name) => name.map(Name::to_string).unwrap_or_default(),
            Err(refusal) => {
                tell(launcher, &self.connection(String::new(), to, refusal.outcome()))?;
                self.refuse(request.id, Errno::ENETUNREACH);
                return Ok(());
            }
        };
        match self.sockets.connect(socket, to) {
            Ok(connecting) => self.waiting.push(Waiting {
                request: request.id,
                to,
                host,
                connecting,
            }),
            Err(errno) => {
                tell(launcher, &self.connection(host, to, &format!("{errno:?}")))?;
                self.refuse(request.id, errno);
            }
        }
        Ok(())
    }

    /// Answers the calls whose connection was made or failed.
    fn connected(&mut self, launcher: &Channel) -> Result<(), End> {
        let mut at = 0;
        while at < self.waiting.len() {
            let Some(outcome) = self.waiting[at].connecting.outcome() else {
                at += 1;
                continue;
            };
            let Waiting { request, to, host, .. } = self.waiting.swap_remove(at);
            let text = match outcome {
                Ok(()) => "connected".to_owned(),
                Err(Errno::EINPROGRESS) => "in-progress".to_owned(),
                Err(errno) => format!("{errno:?}"),
            };
            // Recorded before the retriever can use it.
            tell(launcher, &self.connection(host, to, &text))?;
            match (outcome, &self.listener) {
                (Ok(()), Some(listener)) => {
                    if listener.reply_value(request, 0).is_err() {
                        self.kill();
                    }
                }
                (Err(errno), _) => self.refuse(request, errno),
                (Ok(()), None) => {}
            }
        }
        Ok(())
    }

    fn refuse(&mut self, request: u64, errno: Errno) {
        if self
            .listener
            .as_ref()
            .is_some_and(|l| l.reply_errno(request, errno).is_err())
        {
            self.kill();
        }
    }

    fn connection(&self, host: String, address: SocketAddr, outcome: &str) -> FromWeb {
        FromWeb::Connection {
            id: self.id,
            host,
            address,
            outcome: outcome.to_owned(),
        }
    }
}

/// What is recorded of a name that may be anything.
fn shortened(host: &str) -> String {
    host.chars().take(picktwo_wire::MAX_HOST).collect()
}
