//! One look-up: both questions about a name, asked of one server after the other until each has an answer.
//!
//! Nothing here waits: the caller polls the sockets and calls in when one is ready or a deadline has passed. Every attempt
//! has its own socket, hence a source port that the kernel picked, connected to the server, and its own random number.

use super::message::{self, Kind, Reply};
use crate::names::Name;
use nix::poll::PollFlags;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long an attempt waits: the first question to each server, then every further one.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1500), Duration::from_millis(3000)];
/// How often the list of servers is gone through.
const ROUNDS: usize = 2;
/// Servers that are asked, in their order (MAXNS of resolv.conf(5)).
pub(super) const MAX_SERVERS: usize = 3;

/// What a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// IPv4 addresses before IPv6 ones, each kind in the server's order.
    pub(super) addresses: Vec<IpAddr>,
    /// Seconds for which they hold.
    pub(super) seconds: u32,
}

/// Why there are no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The name does not exist.
    NoSuchName,
    /// It exists, but has no address.
    NoAddress,
    /// No server could or would answer; holds what the last one said.
    Server(&'static str),
    /// No answer in time.
    Timeout,
    /// No server could be reached.
    Unreachable,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSuchName => "no such name",
            Self::NoAddress => "the name has no address",
            Self::Server(text) => text,
            Self::Timeout => "no name server answered in time",
            Self::Unreachable => "no name server could be reached",
        })
    }
}

/// A look-up under way.
pub(super) struct Lookup {
    pub(super) name: Name,
    questions: [Question; 2],
}

struct Question {
    kind: Kind,
    state: State,
}

enum State {
    Asking(Box<Exchange>),
    Done(Result<Found, Failure>),
}

/// One attempt at one server.
struct Exchange {
    attempt: usize,
    id: u16,
    question: Vec<u8>,
    deadline: Instant,
    transport: Transport,
}

enum Transport {
    Udp(UdpSocket),
    /// What is still to be sent and what has arrived, both with the two bytes of length (RFC 7766 §8).
    Tcp {
        stream: TcpStream,
        out: Vec<u8>,
        arrived: Vec<u8>,
    },
}

impl Lookup {
    /// Starts to ask `servers`, of which there is at least one.
    pub(super) fn start(name: Name, servers: &[SocketAddr], now: Instant) -> Self {
        let question = |kind| Question {
            kind,
            state: attempt(&name, kind, 0, Failure::Unreachable, servers, now),
        };
        let questions = [question(Kind::A), question(Kind::Aaaa)];
        Self { name, questions }
    }

    /// The sockets to be polled.
    pub(super) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.questions.iter().filter_map(|question| match &question.state {
            State::Asking(exchange) => Some(match &exchange.transport {
                Transport::Udp(socket) => (socket.as_fd(), PollFlags::POLLIN),
                Transport::Tcp { stream, out, .. } if out.is_empty() => (stream.as_fd(), PollFlags::POLLIN),
                Transport::Tcp { stream, .. } => (stream.as_fd(), PollFlags::POLLOUT),
            }),
            State::Done(_) => None,
        })
    }

    /// When [`Lookup::advance`] has to be called at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = self.questions.iter().filter_map(|question| match &question.state {
            State::Asking(exchange) => Some(exchange.deadline),
            State::Done(_) => None,
        });
        deadlines.min()
    }

    /// Reads and writes what is possible; starts the next attempt where one has failed.
    pub(super) fn advance(&mut self, servers: &[SocketAddr], now: Instant) {
        for question in &mut self.questions {
            let State::Asking(exchange) = &mut question.state else {
                continue;
            };
            let kind = question.kind;
            let tried = exchange.attempt;
            let next = match exchange.step(&self.name, kind) {
                Step::Answer(Reply::Addresses(addresses, seconds)) => State::Done(Ok(Found { addresses, seconds })),
                Step::Answer(Reply::NoSuchName) => State::Done(Err(Failure::NoSuchName)),
                Step::Answer(Reply::Refused(text)) => {
                    attempt(&self.name, kind, tried + 1, Failure::Server(text), servers, now)
                }
                // Only of a datagram: asked again over TCP, of the same server, within the same attempt's time.
                Step::Answer(Reply::Truncated) => match exchange.switch_to_tcp(servers) {
                    Ok(()) => continue,
                    Err(_) => attempt(&self.name, kind, tried + 1, Failure::Unreachable, servers, now),
                },
                Step::Answer(Reply::Foreign) | Step::Wait if now < exchange.deadline => continue,
                Step::Answer(Reply::Foreign) | Step::Wait => {
                    attempt(&self.name, kind, tried + 1, Failure::Timeout, servers, now)
                }
                Step::Broken => attempt(&self.name, kind, tried + 1, Failure::Unreachable, servers, now),
            };
            question.state = next;
        }
    }

    /// What was found, once both questions are settled: the addresses of both, or the better of the two reasons.
    pub(super) fn outcome(&self) -> Option<Result<Found, Failure>> {
        let [State::Done(v4), State::Done(v6)] = [&self.questions[0].state, &self.questions[1].state] else {
            return None;
        };
        let mut found = Found {
            addresses: Vec::new(),
            seconds: u32::MAX,
        };
        for one in [v4, v6].into_iter().flatten() {
            found.addresses.extend(&one.addresses);
            found.seconds = found.seconds.min(one.seconds);
        }
        Some(match (v4, v6) {
            _ if !found.addresses.is_empty() => Ok(found),
            (Err(Failure::NoSuchName), _) | (_, Err(Failure::NoSuchName)) => Err(Failure::NoSuchName),
            (Err(failure), _) | (_, Err(failure)) => Err(*failure),
            (Ok(_), Ok(_)) => Err(Failure::NoAddress),
        })
    }
}

/// The next attempt that can be started, or the end with `reason`.
fn attempt(name: &Name, kind: Kind, first: usize, reason: Failure, servers: &[SocketAddr], now: Instant) -> State {
    let servers = &servers[..servers.len().min(MAX_SERVERS)];
    for attempt in first..servers.len() * ROUNDS {
        let patience = PATIENCE[usize::from(attempt >= servers.len())];
        let Some((id, question)) = random_id().and_then(|id| Some((id, message::question(id, name, kind)?))) else {
            break;
        };
        if let Ok(socket) = udp(servers[attempt % servers.len()])
            && socket.send(&question).is_ok()
        {
            let transport = Transport::Udp(socket);
            return State::Asking(Box::new(Exchange {
                attempt,
                id,
                question,
                deadline: now + patience,
                transport,
            }));
        }
    }
    State::Done(Err(reason))
}

fn random_id() -> Option<u16> {
    let mut bytes = [0; 2];
    picktwo_confine::sys::random(&mut bytes).ok()?;
    Some(u16::from_ne_bytes(bytes))
}

fn open(kind: SockType, server: SocketAddr) -> nix::Result<OwnedFd> {
    let family = if server.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    socket::socket(family, kind, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
}

fn udp(server: SocketAddr) -> nix::Result<UdpSocket> {
    use std::os::fd::AsRawFd;
    let socket = open(SockType::Datagram, server)?;
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(server))?;
    Ok(socket.into())
}

enum Step {
    Answer(Reply),
    Wait,
    Broken,
}

impl Exchange {
    fn switch_to_tcp(&mut self, servers: &[SocketAddr]) -> nix::Result<()> {
        use std::os::fd::AsRawFd;
        let server = servers[self.attempt % servers.len().min(MAX_SERVERS)];
        let stream = open(SockType::Stream, server)?;
        match socket::connect(stream.as_raw_fd(), &SockaddrStorage::from(server)) {
            Ok(()) | Err(nix::Error::EINPROGRESS) => {}
            Err(e) => return Err(e),
        }
        let length = u16::try_from(self.question.len()).map_err(|_| nix::Error::EMSGSIZE)?;
        let out = [&length.to_be_bytes(), self.question.as_slice()].concat();
        self.transport = Transport::Tcp {
            stream: stream.into(),
            out,
            arrived: Vec::new(),
        };
        Ok(())
    }

    fn step(&mut self, name: &Name, kind: Kind) -> Step {
        match &mut self.transport {
            Transport::Udp(socket) => {
                let mut packet = [0; 4096];
                match socket.recv(&mut packet) {
                    Ok(length) => Step::Answer(message::read(&packet[..length], self.id, name, kind)),
                    Err(e) if would_block(&e) => Step::Wait,
                    Err(_) => Step::Broken,
                }
            }
            Transport::Tcp { stream, out, arrived } => match tcp_step(stream, out, arrived) {
                // A stream that carries anything else than the answer is of no use.
                Ok(Some(packet)) => match message::read(&packet, self.id, name, kind) {
                    Reply::Foreign | Reply::Truncated => Step::Broken,
                    reply => Step::Answer(reply),
                },
                Ok(None) => Step::Wait,
                Err(_) => Step::Broken,
            },
        }
    }
}

fn would_block(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Sends what is left, then reads up to the end of the first packet.
fn tcp_step(stream: &mut TcpStream, out: &mut Vec<u8>, arrived: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    while !out.is_empty() {
        match stream.write(out) {
            Ok(sent) => drop(out.drain(..sent)),
            // Still connecting.
            Err(e) if would_block(&e) || e.kind() == io::ErrorKind::NotConnected => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    loop {
        if let [high, low, packet @ ..] = arrived.as_slice() {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if packet.len() >= length {
                return Ok(Some(packet[..length].to_vec()));
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => arrived.extend_from_slice(&piece[..length]),
            Err(e) if would_block(&e) => return Ok(None),
            Err(e) => return Err(e),
        }
    }
}
