//! What is granted, recorded, and taken back.

use super::*;

pub(crate) const TESTS: &[Test] = &[
    (
        "web::grants::starts_ready_or_says_why_not",
        starts_ready_or_says_why_not,
    ),
    (
        "web::grants::names_are_resolved_judged_and_recorded",
        names_are_resolved_judged_and_recorded,
    ),
    (
        "web::grants::an_exception_is_connected_and_data_flows",
        an_exception_is_connected_and_data_flows,
    ),
    (
        "web::grants::addresses_are_decided_on_one_by_one",
        addresses_are_decided_on_one_by_one,
    ),
    (
        "web::grants::this_host_and_its_links_are_refused_although_public",
        this_host_and_its_links_are_refused_although_public,
    ),
    (
        "web::grants::a_blocking_connection_holds_up_nobody_else",
        a_blocking_connection_holds_up_nobody_else,
    ),
    (
        "web::grants::without_further_connections_the_one_that_stands_goes_on",
        without_further_connections_the_one_that_stands_goes_on,
    ),
    (
        "web::grants::after_revocation_nothing_is_granted_or_sent",
        after_revocation_nothing_is_granted_or_sent,
    ),
    (
        "web::grants::retrievers_are_stopped_queued_and_counted",
        retrievers_are_stopped_queued_and_counted,
    ),
];

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
        assert_eq!(
            (answer.host.as_str(), &answer.addresses),
            (host, &ips(addresses)),
            "{answer:?}"
        );
        match (&answer.error, error) {
            (None, None) => {}
            (Some(found), Some(part)) => assert!(found.contains(part), "{host}: {found}"),
            other => panic!("{host}: {other:?}"),
        }
        assert_eq!(
            web.event(),
            FromWeb::Resolved {
                id: 7,
                host: host.to_owned(),
                addresses: ips(addresses)
            }
        );
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
    for private in [
        "127.0.0.1:80",
        "0.0.0.0:80",
        "[::1]:80",
        "[::]:80",
        "[::ffff:127.0.0.1]:80",
        "[::ffff:0.0.0.0]:80",
    ] {
        check(private, "", "refused-private");
    }
    for private in [
        "10.0.0.1:443",
        "169.254.169.254:80",
        "192.168.1.1:80",
        "100.64.0.1:80",
        "[fd00:ec2::254]:80",
        "[fe80::1]:80",
    ] {
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
    slow.tell(
        &Order::Call {
            nr: libc::SYS_connect,
            args: connect,
        },
        &[],
    );
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    for _ in 0..5 {
        assert_eq!(quick.fresh_connect(at("127.0.0.1:8080")), OK);
        web.connection(&quick, at("127.0.0.1:8080"), "", "connected");
        accept_within(&open, Duration::from_secs(5)).expect("a connection");
    }
    quick.resolve("public.example.org");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(
        receive_within(&slow.channel, Duration::from_millis(10)).is_none(),
        "still waiting"
    );
    // Revoked while it waits: answered at once.
    web.event();
    web.say(&ToWeb::Revoke { id: 1 }, &[]);
    web.connection(&slow, at("127.0.0.3:8080"), "", "refused-revoked");
    let (report, _) = receive::<Report>(&slow.channel);
    assert_eq!(Errno::from_raw(report.errno), Errno::ENETUNREACH);
}

fn without_further_connections_the_one_that_stands_goes_on() {
    let _dns = harness::name_server();
    let open = listener("127.0.0.1:8080");
    let web = start(&["127.0.0.1:8080", "dev.lan:80"]);
    let hostile = web.locked(1);
    let (to, early) = (at("127.0.0.1:8080"), hostile.socket(false, false));
    let socket = hostile.socket(false, false);
    assert_eq!(hostile.connect(socket, to), OK);
    let mut peer = accept_within(&open, Duration::from_secs(5)).expect("a connection");
    drop(web.event());
    web.say(&ToWeb::NoMore { id: 1 }, &[]);
    assert_eq!(hostile.connect(early, to), Err(Errno::ENETUNREACH));
    web.connection(&hostile, to, "", "refused-revoked");
    let answer = hostile.resolve("dev.lan");
    assert!(answer.addresses.is_empty() && answer.error.is_some(), "{answer:?}");
    assert_eq!(hostile.send(socket, 0), Ok(4));
    let mut bytes = [0; 4];
    peer.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    peer.read_exact(&mut bytes).expect("what was sent afterwards");
    assert_eq!(&bytes, b"ping");
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
    assert_eq!(
        (hostile.send(socket, 0), hostile.send(quick, 0)),
        (Ok(4), Ok(4)),
        "control"
    );
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
    for (socket, what) in [(early, "made before"), (socket, "connected before")] {
        assert_eq!(hostile.connect(socket, to), Err(Errno::ENETUNREACH), "{what}");
        web.connection(&hostile, to, "", "refused-revoked");
    }
    assert_eq!(
        hostile.socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Err(Errno::EACCES)
    );
    let answer = hostile.resolve("dev.lan");
    assert!(answer.addresses.is_empty() && answer.error.is_some(), "{answer:?}");
    assert_eq!(
        web.event(),
        FromWeb::Resolved {
            id: 1,
            host: "dev.lan".into(),
            addresses: vec![]
        }
    );
    nobody_came(&open);
}

fn retrievers_are_stopped_queued_and_counted() {
    let web = spawn(&[], 2);
    assert_eq!(web.event(), FromWeb::Ready);
    let (a, b) = (web.locked(1), web.locked(2));
    let (c, d) = (web.retriever(3), web.retriever(4));
    c.tell(&Order::Lock { plain: true }, &[]);
    assert!(
        receive_within(&c.channel, Duration::from_millis(300)).is_none(),
        "waits for its turn"
    );
    web.say(&ToWeb::Stop { id: 4 }, &[]);
    assert_eq!(web.ended(&d), 137);
    web.say(&ToWeb::Stop { id: 1 }, &[]);
    assert_eq!(web.ended(&a), 137);
    let (report, _) = receive::<Report>(&c.channel);
    assert_eq!(report.errno, 0, "has its turn");
    // Its launcher's end is closed: it ends, even if it takes no notice.
    let minute = [60_u64.to_ne_bytes(), [0; 8]].concat();
    b.tell(
        &Order::Call {
            nr: libc::SYS_nanosleep,
            args: vec![Bytes(minute), Null],
        },
        &[],
    );
    std::thread::sleep(Duration::from_millis(100));
    drop(b.channel);
    assert_eq!(web.event(), FromWeb::Ended { id: 2, code: 137 });
    // Ends by itself.
    c.tell(
        &Order::Call {
            nr: libc::SYS_exit_group,
            args: vec![Int(7)],
        },
        &[],
    );
    assert_eq!(web.ended(&c), 7);
    // No channel came along.
    web.say(&ToWeb::Retrieve { id: 9 }, &[]);
    assert_eq!(web.event(), FromWeb::Ended { id: 9, code: 125 });
}

fn this_host_and_its_links_are_refused_although_public() {
    let web = start(&[]);
    let hostile = web.locked(1);
    let check = |to: &str, outcome: &str| {
        assert_eq!(hostile.fresh_connect(at(to)), Err(Errno::ENETUNREACH), "{to}");
        web.connection(&hostile, at(to), "", outcome);
    };
    // Granted as long as they are somewhere else; this namespace only has no route to them.
    for to in ["93.184.216.34:80", "93.184.216.99:80", "[2606:2800::34]:80"] {
        check(to, "ENETUNREACH");
    }
    // The host moves into their networks while the supervisor is locked.
    harness::add_address("93.184.216.34".parse().expect("an address"), 24);
    harness::add_address("2606:2800::34".parse().expect("an address"), 64);
    let (v4, v6) = (listener("93.184.216.34:80"), listener("[2606:2800::34]:80"));
    for to in [
        "93.184.216.34:80",
        "93.184.216.99:80",
        "93.184.216.255:80",
        "[::ffff:93.184.216.34]:80",
    ] {
        check(to, "refused-private");
    }
    check("[2606:2800::34]:80", "refused-private");
    check("93.184.217.34:80", "ENETUNREACH");
    check("[2606:2800:0:1::34]:80", "ENETUNREACH");
    nobody_came(&v4);
    nobody_came(&v6);
}
