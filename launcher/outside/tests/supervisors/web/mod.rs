//! The web side and a retriever that does what a test tells it.

pub(crate) mod attacks;
pub(crate) mod grants;
pub(crate) mod tickets;

use super::Test;
use super::harness::{self, NAME_SERVER, accept_within, closes, receive, receive_within};
use super::hostile::{Argument, Order, Report};
use Argument::{Bytes, Edge, Int, Null};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::process::{self, Child};
use picktwo_confine::role::Role;
use picktwo_wire::apis::ApiAddresses;
use picktwo_wire::encode;
use picktwo_wire::gateway::UpstreamAddress;
use picktwo_wire::retrieval::{FromWeb, HostPort, Resolved, ToWeb, WebStart};
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

const OK: Result<(), Errno> = Ok(());

/// The web side under test.
struct Web {
    child: Child,
    channel: Channel,
}

/// A hostile retriever.
struct Hostile {
    id: u64,
    channel: Channel,
}

fn own_program() -> std::os::fd::OwnedFd {
    process::own_executable().expect("this program")
}

fn spawn(private: &[&str], parallel: usize) -> Web {
    spawn_with(private, parallel, Vec::new())
}

fn spawn_with(private: &[&str], parallel: usize, upstreams: Vec<UpstreamAddress>) -> Web {
    let exe = own_program();
    let (child, channel) = process::spawn_role(Role::OutsideWeb, exe.as_fd()).expect("the web side");
    let split = |p: &&str| {
        let (host, port) = p.rsplit_once(':').expect("host:port");
        HostPort {
            host: host.to_owned(),
            port: port.parse().expect("a port"),
        }
    };
    let nameservers = vec![NAME_SERVER.parse().expect("an address")];
    let start = WebStart {
        nameservers,
        private: private.iter().map(split).collect(),
        ports: vec![80, 443],
        parallel,
        apis: ApiAddresses { upstreams },
    };
    channel
        .send(&encode(&start).expect("a message"), &[])
        .expect("the web side");
    Web { child, channel }
}

fn start(private: &[&str]) -> Web {
    let web = spawn(private, 4);
    assert_eq!(web.event(), FromWeb::Ready);
    web
}

impl Web {
    fn event(&self) -> FromWeb {
        receive(&self.channel).0
    }

    fn say(&self, message: &ToWeb, fds: &[BorrowedFd<'_>]) {
        self.channel
            .send(&encode(message).expect("a message"), fds)
            .expect("the web side");
    }

    /// Starts a retriever that is not locked yet.
    fn retriever(&self, id: u64) -> Hostile {
        let (ours, theirs) = channel::pair().expect("a channel");
        self.say(&ToWeb::Retrieve { id }, &[theirs.as_fd()]);
        Hostile { id, channel: ours }
    }

    /// Starts a retriever with all filters.
    fn locked(&self, id: u64) -> Hostile {
        let hostile = self.retriever(id);
        hostile.order(&Order::Lock { plain: true });
        hostile
    }

    /// The next event must be this connection's.
    fn connection(&self, hostile: &Hostile, to: SocketAddr, name: &str, result: &str) {
        let event = FromWeb::Connection {
            id: hostile.id,
            host: name.to_owned(),
            address: to,
            outcome: result.to_owned(),
        };
        assert_eq!(self.event(), event);
    }

    fn ended(&self, hostile: &Hostile) -> i32 {
        loop {
            match self.event() {
                FromWeb::Ended { id, code } if id == hostile.id => return code,
                FromWeb::Ended { id, .. } => panic!("retriever {id} ended"),
                _ => {}
            }
        }
    }
}

impl Hostile {
    fn order_with(&self, order: &Order, fds: &[BorrowedFd<'_>]) -> Report {
        self.tell(order, fds);
        receive(&self.channel).0
    }

    fn tell(&self, order: &Order, fds: &[BorrowedFd<'_>]) {
        self.channel
            .send(&encode(order).expect("a message"), fds)
            .expect("the retriever");
    }

    /// Gives an order that may be the last one.
    fn provoke(&self, order: &Order) {
        let _ = self.channel.send(&encode(order).expect("a message"), &[]);
    }

    fn order(&self, order: &Order) -> Report {
        self.order_with(order, &[])
    }

    fn call(&self, nr: i64, args: Vec<Argument>) -> Result<i64, Errno> {
        let report = self.order(&Order::Call { nr, args });
        if report.errno == 0 {
            Ok(report.value)
        } else {
            Err(Errno::from_raw(report.errno))
        }
    }

    fn socket_of(&self, domain: i32, kind: i32, protocol: i32) -> Result<i64, Errno> {
        self.call(
            libc::SYS_socket,
            vec![Int(domain.into()), Int(kind.into()), Int(protocol.into())],
        )
    }

    /// A socket as HTTP clients make it.
    fn socket(&self, v6: bool, non_blocking: bool) -> i64 {
        let flags = if non_blocking { libc::SOCK_NONBLOCK } else { 0 };
        let domain = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        self.socket_of(
            domain,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags,
            libc::IPPROTO_TCP,
        )
        .expect("a socket")
    }

    fn connect_bytes(&self, socket: i64, bytes: Vec<u8>) -> Result<(), Errno> {
        let length = bytes.len() as i64;
        self.call(libc::SYS_connect, vec![Int(socket), Bytes(bytes), Int(length)])
            .map(drop)
    }

    fn connect(&self, socket: i64, to: SocketAddr) -> Result<(), Errno> {
        self.connect_bytes(socket, raw(to))
    }

    fn fresh_connect(&self, to: SocketAddr) -> Result<(), Errno> {
        let socket = self.socket(to.is_ipv6(), false);
        let outcome = self.connect(socket, to);
        self.call(libc::SYS_close, vec![Int(socket)]).expect("close");
        outcome
    }

    fn send(&self, socket: i64, flags: i32) -> Result<i64, Errno> {
        let args = vec![
            Int(socket),
            Bytes(b"ping".to_vec()),
            Int(4),
            Int((flags | libc::MSG_NOSIGNAL).into()),
            Null,
            Int(0),
        ];
        self.call(libc::SYS_sendto, args)
    }

    fn resolve(&self, host: &str) -> Resolved {
        self.order(&Order::Resolve { host: host.to_owned() })
            .resolved
            .expect("an answer")
    }
}

/// The kernel's form of an address.
fn raw(to: SocketAddr) -> Vec<u8> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend(to.port().to_be_bytes());
    match to.ip() {
        IpAddr::V4(ip) => {
            bytes.extend(ip.octets());
            bytes.extend([0; 8]);
        }
        IpAddr::V6(ip) => {
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
            bytes.extend([0; 4]);
        }
    }
    bytes
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|t| t.parse().expect("an address")).collect()
}

/// A listener, and the positive control: from outside of the confinement it is reachable.
fn listener(address: &str) -> TcpListener {
    let listener = TcpListener::bind(address).expect("a listener");
    let _control = TcpStream::connect(listener.local_addr().expect("bound")).expect("reachable without confinement");
    accept_within(&listener, Duration::from_secs(5)).expect("a connection");
    listener
}

fn nobody_came(listener: &TcpListener) {
    assert!(
        accept_within(listener, Duration::from_millis(100)).is_none(),
        "a connection got through"
    );
}
