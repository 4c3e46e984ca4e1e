//! The web side against a retriever that was taken over.

use super::Test;
use super::harness::{self, NAME_SERVER, accept_within, closes, receive, receive_within};
use super::hostile::{Argument, Order, Report};
use nix::libc;
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::process::{self, Child};
use picktwo_confine::role::Role;
use picktwo_confine::Errno;
use picktwo_wire::encode;
use picktwo_wire::retrieval::{FromWeb, HostPort, Resolved, ToWeb, WebStart};
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use Argument::{Bytes, Edge, Int, Null};

pub(crate) const TESTS: &[Test] = &[
    ("web::starts_ready_or_says_why_not", starts_ready_or_says_why_not),
    ("web::names_are_resolved_judged_and_recorded", names_are_resolved_judged_and_recorded),
    ("web::an_exception_is_connected_and_data_flows", an_exception_is_connected_and_data_flows),
    ("web::addresses_are_decided_on_one_by_one", addresses_are_decided_on_one_by_one),
    ("web::only_tcp_sockets_come_to_be", only_tcp_sockets_come_to_be),
    ("web::fast_open_does_not_connect", fast_open_does_not_connect),
    ("web::arguments_are_read_as_the_kernel_reads_them", arguments_are_read_as_the_kernel_reads_them),
    ("web::foreign_sockets_are_not_connected", foreign_sockets_are_not_connected),
    ("web::an_unreadable_caller_is_refused", an_unreadable_caller_is_refused),
    ("web::a_swapped_address_never_gets_through", a_swapped_address_never_gets_through),
    ("web::a_blocking_connection_holds_up_nobody_else", a_blocking_connection_holds_up_nobody_else),
    ("web::after_revocation_nothing_is_granted_or_sent", after_revocation_nothing_is_granted_or_sent),
    ("web::floods_and_garbage_end_the_retriever_only", floods_and_garbage_end_the_retriever_only),
    ("web::retrievers_are_stopped_queued_and_counted", retrievers_are_stopped_queued_and_counted),
    ("web::nothing_outlives_the_supervisor", nothing_outlives_the_supervisor),
    ("web::a_retriever_starts_no_other_program", a_retriever_starts_no_other_program),
];

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
    let exe = own_program();
    let (child, channel) = process::spawn_role(Role::OutsideWeb, exe.as_fd()).expect("the web side");
    let split = |p: &&str| {
        let (host, port) = p.rsplit_once(':').expect("host:port");
        HostPort { host: host.to_owned(), port: port.parse().expect("a port") }
    };
    let nameservers = vec![NAME_SERVER.parse().expect("an address")];
    let start = WebStart { nameservers, private: private.iter().map(split).collect(), ports: vec![80, 443], parallel };
    channel.send(&encode(&start).expect("a message"), &[]).expect("the web side");
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
        self.channel.send(&encode(message).expect("a message"), fds).expect("the web side");
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
        let event = FromWeb::Connection { id: hostile.id, host: name.to_owned(), address: to, outcome: result.to_owned() };
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
        self.channel.send(&encode(order).expect("a message"), fds).expect("the retriever");
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
        if report.errno == 0 { Ok(report.value) } else { Err(Errno::from_raw(report.errno)) }
    }

    fn socket_of(&self, domain: i32, kind: i32, protocol: i32) -> Result<i64, Errno> {
        self.call(libc::SYS_socket, vec![Int(domain.into()), Int(kind.into()), Int(protocol.into())])
    }

    /// A socket as HTTP clients make it.
    fn socket(&self, v6: bool, non_blocking: bool) -> i64 {
        let flags = if non_blocking { libc::SOCK_NONBLOCK } else { 0 };
        let domain = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        self.socket_of(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags, libc::IPPROTO_TCP).expect("a socket")
    }

    fn connect_bytes(&self, socket: i64, bytes: Vec<u8>) -> Result<(), Errno> {
        let length = bytes.len() as i64;
        self.call(libc::SYS_connect, vec![Int(socket), Bytes(bytes), Int(length)]).map(drop)
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
        let args = vec![Int(socket), Bytes(b"ping".to_vec()), Int(4), Int((flags | libc::MSG_NOSIGNAL).into()), Null, Int(0)];
        self.call(libc::SYS_sendto, args)
    }

    fn resolve(&self, host: &str) -> Resolved {
        self.order(&Order::Resolve { host: host.to_owned() }).resolved.expect("an answer")
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
    assert!(accept_within(listener, Duration::from_millis(100)).is_none(), "a connection got through");
}

fn starts_ready_or_says_why_not() {
    let web = start(&[]);
    drop(web.channel);
    assert_eq!(web.child.wait().expect("a child").code(), 0, "ends with its launcher");
    let web = spawn(&["127.1:80"], 1);
    match web.event() {
        FromWeb::Failed { reason } => assert!(reason.contains("127.1"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(web.child.wait().expect("a child").code(), 1);
    assert!(closes(&web.channel));
}

fn names_are_resolved_judged_and_recorded() {
    let _dns = harness::name_server();
    let web = start(&["dev.lan:8080", "127.0.0.9:8080"]);
    let hostile = web.locked(7);
    let check = |host: &str, addresses: &[&str], error: Option<&str>| {
        let answer = hostile.resolve(host);
        assert_eq!((answer.host.as_str(), &answer.addresses), (host, &ips(addresses)), "{answer:?}");
        match (&answer.error, error) {
            (None, None) => {}
            (Some(found), Some(part)) => assert!(found.contains(part), "{host}: {found}"),
            other => panic!("{host}: {other:?}"),
        }
        assert_eq!(web.event(), FromWeb::Resolved { id: 7, host: host.to_owned(), addresses: ips(addresses) });
    };
    check("public.example.org", &["1.1.1.1", "2606:4700:4700::1111"], None);
    check("OTHER.example.org.", &["8.8.8.8"], None);
    check("half.example.org", &[], Some("127.0.0.1, which is not public"));
    check("rebound.example.org", &[], Some("not public"));
    check("mapped.example.org", &[], Some("not public"));
    check("meta.example.org", &[], Some("169.254.169.254"));
    check("none.example.org", &[], Some("no such name"));
    check("empty.example.org", &[], Some("no address"));
    check("dev.lan", &["127.0.0.7"], None);
    check("other.lan", &[], Some("local network"));
    check("localhost", &[], Some("local network"));
    check("printer", &[], Some("local network"));
    check("127.1", &[], Some("number"));
    check("a b", &[], Some("byte"));
    check("1.1.1.1", &["1.1.1.1"], None);
    check("127.0.0.9", &["127.0.0.9"], None);
    check("127.0.0.1", &[], Some("not public"));
    check("[::1]", &[], Some("not public"));
    // Once more: answered from what was pinned, without a second event.
    assert_eq!(hostile.resolve("public.example.org").addresses.len(), 2);
    check("nowhere.example.org", &[], Some("no such name"));
}

fn an_exception_is_connected_and_data_flows() {
    let _dns = harness::name_server();
    let by_address = listener("127.0.0.1:8080");
    let by_name = listener("127.0.0.7:9090");
    let v6 = listener("[::1]:8080");
    let web = start(&["127.0.0.1:8080", "dev.lan:9090", "[::1]:8080"]);
    let hostile = web.locked(1);
    for (listener, to) in [(&by_address, "127.0.0.1:8080"), (&v6, "[::1]:8080")] {
        let to = at(to);
        let socket = hostile.socket(to.is_ipv6(), false);
        assert_eq!(hostile.connect(socket, to), OK);
        web.connection(&hostile, to, "", "connected");
        assert_eq!(hostile.send(socket, 0), Ok(4));
        let mut stream = accept_within(listener, Duration::from_secs(5)).expect("a connection");
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).expect("data");
        assert_eq!(&bytes, b"ping");
        assert_eq!(hostile.connect(socket, to), Err(Errno::EISCONN), "connected already");
        web.connection(&hostile, to, "", "EISCONN");
    }
    // By name: not before it was asked for.
    let to = at("127.0.0.7:9090");
    assert_eq!(hostile.fresh_connect(to), Err(Errno::ENETUNREACH));
    web.connection(&hostile, to, "", "refused-port");
    nobody_came(&by_name);
    assert_eq!(hostile.resolve("dev.lan").addresses, ips(&["127.0.0.7"]));
    web.event();
    // Not blocking, as an HTTP client does it.
    let socket = hostile.socket(false, true);
    assert_eq!(hostile.connect(socket, to), Err(Errno::EINPROGRESS));
    web.connection(&hostile, to, "dev.lan", "in-progress");
    accept_within(&by_name, Duration::from_secs(5)).expect("a connection");
    // A refused connection may be tried again on the same socket.
    drop(by_address);
    let (socket, to) = (hostile.socket(false, false), at("127.0.0.1:8080"));
    for _ in 0..2 {
        assert_eq!(hostile.connect(socket, to), Err(Errno::ECONNREFUSED));
        web.connection(&hostile, to, "", "ECONNREFUSED");
    }
}

fn addresses_are_decided_on_one_by_one() {
    let _dns = harness::name_server();
    let secret = listener("127.0.0.1:80");
    let secret6 = listener("[::1]:80");
    let web = start(&["127.0.0.1:8080"]);
    let hostile = web.locked(1);
    let check = |to: &str, name: &str, outcome: &str| {
        let to = at(to);
        // Without a route, the kernel says the same: what was decided shows in the record.
        assert_eq!(hostile.fresh_connect(to), Err(Errno::ENETUNREACH), "{to}");
        web.connection(&hostile, to, name, outcome);
    };
    for private in ["127.0.0.1:80", "0.0.0.0:80", "[::1]:80", "[::]:80", "[::ffff:127.0.0.1]:80", "[::ffff:0.0.0.0]:80"] {
        check(private, "", "refused-private");
    }
    for private in ["10.0.0.1:443", "169.254.169.254:80", "192.168.1.1:80", "100.64.0.1:80", "[fd00:ec2::254]:80", "[fe80::1]:80"] {
        check(private, "", "refused-private");
    }
    check("127.0.0.1:81", "", "refused-port");
    check("127.0.0.2:8080", "", "refused-port");
    check("1.1.1.1:22", "", "refused-port");
    check("1.1.1.1:0", "", "refused-port");
    // Granted: the kernel then has no route in this namespace.
    check("1.1.1.1:443", "", "ENETUNREACH");
    hostile.resolve("public.example.org");
    web.event();
    check("1.1.1.1:443", "public.example.org", "ENETUNREACH");
    check("[2606:4700:4700::1111]:443", "public.example.org", "ENETUNREACH");
    // A name whose addresses were refused opens nothing.
    hostile.resolve("rebound.example.org");
    web.event();
    check("127.0.0.1:80", "", "refused-private");
    nobody_came(&secret);
    nobody_came(&secret6);
}

fn only_tcp_sockets_come_to_be() {
    let web = start(&[]);
    let hostile = web.locked(1);
    assert!(hostile.socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP).is_ok(), "control");
    let loose = web.retriever(2);
    loose.order(&Order::Lock { plain: false });
    assert!(loose.socket_of(libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0).is_ok(), "control");
    const MPTCP: i32 = 262;
    for (name, domain, kind, protocol) in [
        ("UDP", libc::AF_INET, libc::SOCK_DGRAM, 0),
        ("UDP over IPv6", libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        ("MPTCP", libc::AF_INET, libc::SOCK_STREAM, MPTCP),
        ("SCTP", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        ("ping", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        ("UNIX", libc::AF_UNIX, libc::SOCK_STREAM, 0),
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW, 0),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("crypto", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    ] {
        for hostile in [&hostile, &loose] {
            assert_eq!(hostile.socket_of(domain, kind, protocol), Err(Errno::EACCES), "{name}");
        }
    }
    for hostile in [&hostile, &loose] {
        let socket = hostile.socket(false, false);
        let any = raw(at("0.0.0.0:0"));
        assert_eq!(hostile.call(libc::SYS_bind, vec![Int(socket), Bytes(any), Int(16)]), Err(Errno::EACCES), "bind");
        assert_eq!(hostile.call(libc::SYS_listen, vec![Int(socket), Int(1)]), Err(Errno::EACCES), "listen");
    }
}

fn fast_open_does_not_connect() {
    let open = listener("127.0.0.1:8080");
    let web = start(&["127.0.0.1:8080"]);
    let locked = web.locked(1);
    let loose = web.retriever(2);
    loose.order(&Order::Lock { plain: false });
    for hostile in [&locked, &loose] {
        let socket = hostile.socket(false, false);
        let to = raw(at("127.0.0.1:8080"));
        let fast = i64::from(libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL);
        let sendto = vec![Int(socket), Bytes(b"ping".to_vec()), Int(4), Int(fast), Bytes(to.clone()), Int(16)];
        assert_eq!(hostile.call(libc::SYS_sendto, sendto), Err(Errno::EACCES));
        // Without the flag, but with an address: connects nothing, and is refused all the same.
        let sendto = vec![Int(socket), Bytes(b"ping".to_vec()), Int(4), Int(libc::MSG_NOSIGNAL.into()), Bytes(to), Int(16)];
        assert_eq!(hostile.call(libc::SYS_sendto, sendto), Err(Errno::EACCES));
        for nr in [libc::SYS_sendmsg, libc::SYS_sendmmsg] {
            let flags = if nr == libc::SYS_sendmsg { vec![Int(fast)] } else { vec![Int(1), Int(fast)] };
            let mut args = vec![Int(socket), Bytes(vec![0; 64])];
            args.extend(flags);
            assert_eq!(hostile.call(nr, args), Err(Errno::EACCES), "{nr}");
        }
        // Deferred by an option: the first write connects, to where `connect` was granted.
        const TCP_FASTOPEN_CONNECT: i64 = 30;
        let option = vec![Int(socket), Int(libc::IPPROTO_TCP.into()), Int(TCP_FASTOPEN_CONNECT), Bytes(vec![1, 0, 0, 0]), Int(4)];
        let _ = hostile.call(libc::SYS_setsockopt, option);
        assert_eq!(hostile.connect(socket, at("127.0.0.2:80")), Err(Errno::ENETUNREACH));
        assert_eq!(hostile.send(socket, 0), Err(Errno::EPIPE), "connected to nothing");
    }
    nobody_came(&open);
}

fn arguments_are_read_as_the_kernel_reads_them() {
    let open = listener("127.0.0.1:8080");
    let web = start(&["127.0.0.1:8080"]);
    let hostile = web.locked(1);
    let socket = hostile.socket(false, false);
    let good = raw(at("127.0.0.1:8080"));
    let connect = |fd: i64, address: Argument, length: i64| hostile.call(libc::SYS_connect, vec![Int(fd), address, Int(length)]);
    for length in [0, 1, 8, 15] {
        assert_eq!(connect(socket, Bytes(good.clone()), length), Err(Errno::EINVAL), "{length}");
    }
    for length in [129, -1, i64::from(i32::MIN)] {
        assert_eq!(connect(socket, Bytes(vec![0; 256]), length), Err(Errno::EINVAL), "{length}");
    }
    assert_eq!(connect(socket, Null, 16), Err(Errno::EFAULT));
    assert_eq!(connect(socket, Edge(8), 16), Err(Errno::EFAULT), "half of it is not there");
    assert_eq!(connect(socket, Int(-8), 16), Err(Errno::EFAULT));
    assert_eq!(connect(-1, Bytes(good.clone()), 16), Err(Errno::EBADF));
    assert_eq!(connect(777, Bytes(good.clone()), 16), Err(Errno::EBADF));
    assert_eq!(connect(0, Bytes(good.clone()), 16), Err(Errno::ENOTSOCK));
    for family in [libc::AF_UNSPEC, libc::AF_UNIX, libc::AF_NETLINK, libc::AF_VSOCK] {
        let mut bytes = good.clone();
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        assert_eq!(hostile.connect_bytes(socket, bytes), Err(Errno::EAFNOSUPPORT), "{family}");
    }
    let mut scoped = raw(at("[::1]:8080"));
    scoped[24] = 1;
    assert_eq!(hostile.connect_bytes(socket, scoped), Err(Errno::ENETUNREACH));
    nobody_came(&open);
    // Longer than needed, and with rubbish in the upper half of the registers, as the kernel takes it.
    let mut long = good;
    long.resize(128, 0xff);
    assert_eq!(connect(socket | 1 << 33, Bytes(long), 128 | 1 << 40), Ok(0));
    accept_within(&open, Duration::from_secs(5)).expect("a connection");
}

fn foreign_sockets_are_not_connected() {
    let open = listener("127.0.0.1:8080");
    let web = start(&["127.0.0.1:8080"]);
    let hostile = web.locked(1);
    let given = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Stream,
        nix::sys::socket::SockFlag::empty(),
        None,
    )
    .expect("a socket");
    let number = hostile.order_with(&Order::Keep, &[given.as_fd()]).value;
    assert!(number > 3);
    assert_eq!(hostile.connect(number, at("127.0.0.1:8080")), Err(Errno::EACCES));
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let number = hostile.order_with(&Order::Keep, &[udp.as_fd()]).value;
    assert_eq!(hostile.connect(number, at("127.0.0.1:8080")), Err(Errno::EACCES));
    // Its channels are sockets as well.
    assert_eq!(hostile.connect(3, at("127.0.0.1:8080")), Err(Errno::EACCES));
    nobody_came(&open);
    assert_eq!(hostile.fresh_connect(at("127.0.0.1:8080")), OK, "control");
}

fn an_unreadable_caller_is_refused() {
    let open = listener("127.0.0.1:8080");
    let web = start(&["127.0.0.1:8080"]);
    let locked = web.locked(1);
    let dumpable = |hostile: &Hostile, on: i64| hostile.call(libc::SYS_prctl, vec![Int(libc::PR_SET_DUMPABLE.into()), Int(on)]);
    assert_eq!(dumpable(&locked, 0), Err(Errno::EACCES), "a retriever's own list refuses it");
    let loose = web.retriever(2);
    loose.order(&Order::Lock { plain: false });
    let socket = loose.socket(false, false);
    assert_eq!(dumpable(&loose, 0), Ok(0));
    assert_eq!(loose.connect(socket, at("127.0.0.1:8080")), Err(Errno::EACCES));
    nobody_came(&open);
    assert_eq!(dumpable(&loose, 1), Ok(0));
    assert_eq!(loose.connect(socket, at("127.0.0.1:8080")), OK, "control");
}

fn a_swapped_address_never_gets_through() {
    // The granted address refuses, the other one would take anything.
    let open = listener("127.0.0.2:8080");
    let web = start(&["127.0.0.1:8080"]);
    let hostile = web.retriever(1);
    hostile.order(&Order::Lock { plain: false });
    let words = |to: &str| {
        let bytes = raw(at(to));
        [0, 8].map(|i| u64::from_ne_bytes(bytes[i..i + 8].try_into().expect("eight bytes")))
    };
    let socket = hostile.socket(false, false);
    let order = Order::Race { socket, good: words("127.0.0.1:8080"), bad: words("127.0.0.2:8080"), rounds: 250 };
    let seen = hostile.order(&order).seen;
    let count = |errno: Errno| seen.get(&(errno as i32)).copied().unwrap_or(0);
    let (granted, refused) = (count(Errno::ECONNREFUSED), count(Errno::ENETUNREACH));
    assert!(granted > 10 && refused > 10, "both addresses were seen: {seen:?}");
    assert_eq!(granted + refused, 250, "{seen:?}");
    nobody_came(&open);
}

/// A listener whose queue is full: whoever connects waits.
fn stalled(address: &str) -> (std::os::fd::OwnedFd, Vec<std::os::fd::OwnedFd>) {
    use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage};
    use std::os::fd::AsRawFd;
    let make = |flags| socket::socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
    let to = SockaddrStorage::from(at(address));
    let listening = make(SockFlag::SOCK_CLOEXEC);
    socket::bind(listening.as_raw_fd(), &to).expect("bind");
    socket::listen(&listening, Backlog::new(0).expect("a backlog")).expect("listen");
    let fill = |_| {
        let filler = make(SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
        let _ = socket::connect(filler.as_raw_fd(), &to);
        filler
    };
    (listening, (0..4).map(fill).collect())
}

fn a_blocking_connection_holds_up_nobody_else() {
    let _dns = harness::name_server();
    let open = listener("127.0.0.1:8080");
    let _stalled = stalled("127.0.0.3:8080");
    let web = start(&["127.0.0.1:8080", "127.0.0.3:8080"]);
    let (slow, quick) = (web.locked(1), web.locked(2));
    let socket = slow.socket(false, false);
    let connect = vec![Int(socket), Bytes(raw(at("127.0.0.3:8080"))), Int(16)];
    slow.tell(&Order::Call { nr: libc::SYS_connect, args: connect }, &[]);
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    for _ in 0..5 {
        assert_eq!(quick.fresh_connect(at("127.0.0.1:8080")), OK);
        web.connection(&quick, at("127.0.0.1:8080"), "", "connected");
        accept_within(&open, Duration::from_secs(5)).expect("a connection");
    }
    quick.resolve("public.example.org");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(receive_within(&slow.channel, Duration::from_millis(10)).is_none(), "still waiting");
    // Revoked while it waits: answered at once.
    web.event();
    web.say(&ToWeb::Revoke { id: 1 }, &[]);
    web.connection(&slow, at("127.0.0.3:8080"), "", "refused-revoked");
    let (report, _) = receive::<Report>(&slow.channel);
    assert_eq!(Errno::from_raw(report.errno), Errno::ENETUNREACH);
}

fn after_revocation_nothing_is_granted_or_sent() {
    let _dns = harness::name_server();
    let open = listener("127.0.0.1:8080");
    let web = start(&["127.0.0.1:8080", "dev.lan:80"]);
    let hostile = web.locked(1);
    let (to, early) = (at("127.0.0.1:8080"), hostile.socket(false, false));
    let (socket, quick) = (hostile.socket(false, false), hostile.socket(false, true));
    assert_eq!(hostile.connect(socket, to), OK);
    assert_eq!(hostile.connect(quick, to), Err(Errno::EINPROGRESS));
    assert_eq!((hostile.send(socket, 0), hostile.send(quick, 0)), (Ok(4), Ok(4)), "control");
    let peers = [0; 2].map(|_| accept_within(&open, Duration::from_secs(5)).expect("a connection"));
    (0..2).for_each(|_| drop(web.event()));
    web.say(&ToWeb::Revoke { id: 1 }, &[]);
    for mut peer in peers {
        let mut bytes = Vec::new();
        peer.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        peer.read_to_end(&mut bytes).expect("the end of the stream");
        assert_eq!(bytes, b"ping", "what was sent before, and nothing after");
    }
    for socket in [socket, quick] {
        assert_eq!(hostile.send(socket, 0), Err(Errno::EPIPE));
    }
    assert_eq!(hostile.connect(early, to), Err(Errno::EACCES), "made before");
    assert_eq!(hostile.connect(socket, to), Err(Errno::EACCES), "connected before");
    assert_eq!(hostile.socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP), Err(Errno::EACCES));
    let answer = hostile.resolve("dev.lan");
    assert!(answer.addresses.is_empty() && answer.error.is_some(), "{answer:?}");
    assert_eq!(web.event(), FromWeb::Resolved { id: 1, host: "dev.lan".into(), addresses: vec![] });
    nobody_came(&open);
}

fn floods_and_garbage_end_the_retriever_only() {
    const KILLED: i32 = 128 + libc::SIGKILL;
    let _dns = harness::name_server();
    let web = start(&["127.0.0.1:8080"]);
    let steady = web.locked(100);
    let garbage: [(&[u8], usize); 4] = [(b"{", 0), (b"{\"host\":\"a.example.org\",\"more\":1}", 0), (b"{\"host\":\"a\"}", 1), (b"{}", 1)];
    for (id, (bytes, fds)) in (1..).zip(garbage) {
        let hostile = web.locked(id);
        hostile.provoke(&Order::Send { bytes: bytes.to_vec(), fds });
        assert_eq!(web.ended(&hostile), KILLED, "{}", String::from_utf8_lossy(bytes));
    }
    // Not a listener, none, or two: before the lock nothing else may come.
    for (id, (bytes, fds)) in (11..).zip([(b"{}".as_slice(), 0), (b"{}", 2), (b"{\"host\":\"a.example.org\"}", 0)]) {
        let hostile = web.retriever(id);
        hostile.provoke(&Order::Send { bytes: bytes.to_vec(), fds });
        assert_eq!(web.ended(&hostile), KILLED, "{fds} descriptors");
    }
    let hostile = web.retriever(20);
    hostile.provoke(&Order::Send { bytes: b"{}".to_vec(), fds: 1 });
    assert_eq!(web.ended(&hostile), KILLED, "a channel in place of a listener");
    let hostile = web.locked(21);
    let ask = Order::Send { bytes: b"{\"host\":\"slow.example.org\"}".to_vec(), fds: 0 };
    for _ in 0..40 {
        hostile.provoke(&ask);
    }
    assert_eq!(web.ended(&hostile), KILLED, "too many names");
    let hostile = web.locked(22);
    let socket = hostile.socket(false, false);
    for i in 0..256 {
        assert_eq!(hostile.connect(socket, at("127.0.0.1:81")), Err(Errno::ENETUNREACH), "{i}");
    }
    let connect = vec![Int(socket), Bytes(raw(at("127.0.0.1:81"))), Int(16)];
    hostile.provoke(&Order::Call { nr: libc::SYS_connect, args: connect });
    assert_eq!(web.ended(&hostile), KILLED, "too many connections");
    let hostile = web.locked(23);
    let made = (0..40).map(|_| hostile.socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)).collect::<Vec<_>>();
    assert_eq!(made.iter().filter(|m| m.is_ok()).count(), 32);
    assert_eq!(made.last(), Some(&Err(Errno::EMFILE)));
    // The other one never noticed.
    assert_eq!(steady.resolve("public.example.org").addresses.len(), 2);
}

fn retrievers_are_stopped_queued_and_counted() {
    let web = spawn(&[], 2);
    assert_eq!(web.event(), FromWeb::Ready);
    let (a, b) = (web.locked(1), web.locked(2));
    let (c, d) = (web.retriever(3), web.retriever(4));
    c.tell(&Order::Lock { plain: true }, &[]);
    assert!(receive_within(&c.channel, Duration::from_millis(300)).is_none(), "waits for its turn");
    web.say(&ToWeb::Stop { id: 4 }, &[]);
    assert_eq!(web.ended(&d), 137);
    web.say(&ToWeb::Stop { id: 1 }, &[]);
    assert_eq!(web.ended(&a), 137);
    let (report, _) = receive::<Report>(&c.channel);
    assert_eq!(report.errno, 0, "has its turn");
    // Its launcher's end is closed: it ends, whatever it does.
    drop(b.channel);
    assert_eq!(web.event(), FromWeb::Ended { id: 2, code: 137 });
    // Ends by itself.
    c.tell(&Order::Call { nr: libc::SYS_exit_group, args: vec![Int(7)] }, &[]);
    assert_eq!(web.ended(&c), 7);
    // No channel came along.
    web.say(&ToWeb::Retrieve { id: 9 }, &[]);
    assert_eq!(web.event(), FromWeb::Ended { id: 9, code: 125 });
}

fn nothing_outlives_the_supervisor() {
    let web = start(&[]);
    let hostile = web.locked(1);
    let pid = hostile.call(libc::SYS_getpid, vec![]).expect("a number") as i32;
    let retriever = Child::from_pid(pid).expect("the retriever");
    assert!(!retriever.ended_within(0).expect("a process"));
    web.child.kill_and_wait().expect("the web side");
    assert!(retriever.ended_within(5_000).expect("a process"), "the retriever ended, too");
    assert!(closes(&hostile.channel));
}

fn a_retriever_starts_no_other_program() {
    let web = start(&[]);
    let loose = web.retriever(1);
    loose.order(&Order::Lock { plain: false });
    let path = |text: &str| Bytes(format!("{text}\0").into_bytes());
    for file in ["/etc/passwd", "/", "/proc/self/environ", "/usr/bin"] {
        let open = vec![Int(libc::AT_FDCWD.into()), path(file), Int(libc::O_RDONLY.into())];
        assert_eq!(loose.call(libc::SYS_openat, open), Err(Errno::EACCES), "{file}");
    }
    let open = vec![Int(libc::AT_FDCWD.into()), path("/tmp/picktwo-test"), Int((libc::O_CREAT | libc::O_WRONLY).into()), Int(0o600)];
    assert_eq!(loose.call(libc::SYS_openat, open), Err(Errno::EACCES));
    for program in ["/bin/sh", "/usr/bin/env"] {
        assert_eq!(loose.call(libc::SYS_execve, vec![path(program), Null, Null]), Err(Errno::EACCES), "{program}");
    }
    let locked = web.locked(2);
    assert_eq!(locked.call(libc::SYS_execve, vec![path("/proc/self/exe"), Null, Null]), Err(Errno::EACCES), "not even its own");
    assert_eq!(locked.call(libc::SYS_fork, vec![]), Err(Errno::EACCES));
}
