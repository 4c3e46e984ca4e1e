//! Connecting to the first of several addresses that answers, without waiting in any call.

use nix::sys::socket::{self, AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, sockopt};
use picktwo_confine::Errno;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long it may take in all.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long one address is waited for before the next is tried as well (RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);
/// Idle seconds before the first probe of a kept-alive connection, seconds between probes, and how many may stay unanswered.
const KEEP_ALIVE: (u32, u32, u32) = (60, 15, 4);

/// Attempts at one upstream's addresses.
pub(crate) struct Attempt {
    left: VecDeque<SocketAddr>,
    open: Vec<OwnedFd>,
    next: Instant,
    end: Instant,
    failed: Errno,
}

impl Attempt {
    /// Starts with the first address.
    pub(crate) fn start(addresses: Vec<SocketAddr>, now: Instant) -> Self {
        Self {
            left: addresses.into(),
            open: Vec::new(),
            next: now,
            end: now + CONNECT_TIME,
            failed: Errno::EADDRNOTAVAIL,
        }
    }

    /// The sockets that become writable once they are connected or have failed.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(AsFd::as_fd)
    }

    /// When [`Attempt::advance`] has to be called at the latest.
    pub(crate) fn deadline(&self) -> Instant {
        if self.left.is_empty() {
            self.end
        } else {
            self.next.min(self.end)
        }
    }

    /// Goes on; the outcome, if there is one.
    pub(crate) fn advance(&mut self, now: Instant) -> Option<Result<OwnedFd, String>> {
        loop {
            if let Some(socket) = self.connected(now) {
                return Some(Ok(socket));
            }
            if now >= self.end {
                return Some(Err("no connection within 10 seconds".to_owned()));
            }
            match self.left.pop_front_if(|_| now >= self.next) {
                Some(to) => match connect(to) {
                    Ok(socket) => {
                        self.open.push(socket);
                        self.next = now + HEAD_START;
                    }
                    Err(errno) => self.failed = errno,
                },
                None if self.open.is_empty() && self.left.is_empty() => {
                    return Some(Err(self.failed.desc().to_lowercase()));
                }
                None => return None,
            }
        }
    }

    /// A socket that is connected. Those that failed are let go, and the next address need not be waited for.
    fn connected(&mut self, now: Instant) -> Option<OwnedFd> {
        let mut at = 0;
        while at < self.open.len() {
            match state(&self.open[at]) {
                Ok(true) => return Some(self.open.swap_remove(at)),
                Ok(false) => at += 1,
                Err(errno) => {
                    drop(self.open.swap_remove(at));
                    self.failed = errno;
                    self.next = now;
                }
            }
        }
        None
    }
}

fn connect(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(family, SockType::Stream, flags, SockProtocol::Tcp)?;
    socket::setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    socket::setsockopt(&socket, sockopt::KeepAlive, &true)?;
    let (idle, interval, probes) = KEEP_ALIVE;
    socket::setsockopt(&socket, sockopt::TcpKeepIdle, &idle)?;
    socket::setsockopt(&socket, sockopt::TcpKeepInterval, &interval)?;
    socket::setsockopt(&socket, sockopt::TcpKeepCount, &probes)?;
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Whether a socket is connected; the reason if it has failed, which the kernel tells once.
fn state(socket: &OwnedFd) -> Result<bool, Errno> {
    match socket::getsockopt(socket, sockopt::SocketError)? {
        0 => match socket::getpeername::<SockaddrStorage>(socket.as_raw_fd()) {
            Ok(_) => Ok(true),
            Err(Errno::ENOTCONN) => Ok(false),
            Err(errno) => Err(errno),
        },
        errno => Err(Errno::from_raw(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, poll};
    use std::net::TcpListener;

    fn run(addresses: &[SocketAddr]) -> (Result<OwnedFd, String>, Duration) {
        let start = Instant::now();
        let mut attempt = Attempt::start(addresses.to_vec(), start);
        loop {
            if let Some(outcome) = attempt.advance(Instant::now()) {
                return (outcome, start.elapsed());
            }
            let mut entries: Vec<PollFd<'_>> = attempt
                .sockets()
                .map(|fd| PollFd::new(fd, PollFlags::POLLOUT))
                .collect();
            poll(&mut entries, crate::resolver::until(Some(attempt.deadline()))).expect("poll");
        }
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    /// A port on which nobody listens.
    fn closed() -> SocketAddr {
        listener().1
    }

    /// A listener whose queue is full: further connections are never answered.
    fn stalled() -> (OwnedFd, Vec<OwnedFd>, SocketAddr) {
        let socket =
            socket::socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(any)).expect("bind");
        socket::listen(&socket, socket::Backlog::new(0).expect("a backlog")).expect("listen");
        let name: SockaddrStorage = socket::getsockname(socket.as_raw_fd()).expect("a name");
        let address: SocketAddr = name.as_sockaddr_in().map(|a| (a.ip(), a.port()).into()).expect("IPv4");
        let full = (0..4).filter_map(|_| connect(address).ok()).collect();
        std::thread::sleep(Duration::from_millis(50));
        (socket, full, address)
    }

    #[test]
    fn the_first_that_answers_is_taken_with_its_options() {
        let (_listener, address) = listener();
        let (outcome, time) = run(&[closed(), address]);
        let socket = outcome.expect("connected");
        let peer: SockaddrStorage = socket::getpeername(socket.as_raw_fd()).expect("connected");
        assert_eq!(peer.as_sockaddr_in().map(|a| a.port()), Some(address.port()));
        assert!(socket::getsockopt(&socket, sockopt::TcpNoDelay).expect("an option"));
        assert!(socket::getsockopt(&socket, sockopt::KeepAlive).expect("an option"));
        assert!(time < Duration::from_millis(200), "{time:?}");
    }

    #[test]
    fn a_silent_address_is_overtaken() {
        let (_socket, _full, silent) = stalled();
        let (_listener, address) = listener();
        let (outcome, time) = run(&[silent, address]);
        assert!(outcome.is_ok());
        assert!(time >= HEAD_START && time < Duration::from_secs(2), "{time:?}");
    }

    #[test]
    fn silence_ends_in_time() {
        let (_socket, _full, silent) = stalled();
        let start = Instant::now();
        let mut attempt = Attempt::start(vec![silent], start);
        assert!(attempt.advance(start).is_none());
        assert!(
            attempt
                .advance(start + CONNECT_TIME - Duration::from_millis(1))
                .is_none()
        );
        let outcome = attempt.advance(start + CONNECT_TIME).expect("over").map(drop);
        assert_eq!(outcome, Err("no connection within 10 seconds".to_owned()));
    }

    #[test]
    fn refusals_are_named() {
        let (outcome, _) = run(&[closed(), closed()]);
        assert_eq!(outcome.map(drop), Err("connection refused".to_owned()));
        let (outcome, _) = run(&[]);
        assert!(outcome.is_err());
    }
}
