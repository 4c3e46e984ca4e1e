//! What a retriever tries that was taken over.

use super::*;

pub(crate) const TESTS: &[Test] = &[
    ("web::attacks::only_tcp_sockets_come_to_be", only_tcp_sockets_come_to_be),
    ("web::attacks::fast_open_does_not_connect", fast_open_does_not_connect),
    (
        "web::attacks::arguments_are_read_as_the_kernel_reads_them",
        arguments_are_read_as_the_kernel_reads_them,
    ),
    (
        "web::attacks::foreign_sockets_are_not_connected",
        foreign_sockets_are_not_connected,
    ),
    (
        "web::attacks::an_unreadable_caller_is_refused",
        an_unreadable_caller_is_refused,
    ),
    (
        "web::attacks::a_swapped_address_never_gets_through",
        a_swapped_address_never_gets_through,
    ),
    (
        "web::attacks::floods_and_garbage_end_the_retriever_only",
        floods_and_garbage_end_the_retriever_only,
    ),
    (
        "web::attacks::nothing_outlives_the_supervisor",
        nothing_outlives_the_supervisor,
    ),
    (
        "web::attacks::a_retriever_starts_no_other_program",
        a_retriever_starts_no_other_program,
    ),
];

fn only_tcp_sockets_come_to_be() {
    let web = start(&[]);
    let hostile = web.locked(1);
    assert!(
        hostile
            .socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
            .is_ok(),
        "control"
    );
    let loose = web.retriever(2);
    loose.order(&Order::Lock { plain: false });
    assert!(
        loose
            .socket_of(libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)
            .is_ok(),
        "control"
    );
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
        assert_eq!(
            hostile.call(libc::SYS_bind, vec![Int(socket), Bytes(any), Int(16)]),
            Err(Errno::EACCES),
            "bind"
        );
        assert_eq!(
            hostile.call(libc::SYS_listen, vec![Int(socket), Int(1)]),
            Err(Errno::EACCES),
            "listen"
        );
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
        let sendto = vec![
            Int(socket),
            Bytes(b"ping".to_vec()),
            Int(4),
            Int(fast),
            Bytes(to.clone()),
            Int(16),
        ];
        assert_eq!(hostile.call(libc::SYS_sendto, sendto), Err(Errno::EACCES));
        // Without the flag, but with an address: connects nothing, and is refused all the same.
        let sendto = vec![
            Int(socket),
            Bytes(b"ping".to_vec()),
            Int(4),
            Int(libc::MSG_NOSIGNAL.into()),
            Bytes(to),
            Int(16),
        ];
        assert_eq!(hostile.call(libc::SYS_sendto, sendto), Err(Errno::EACCES));
        for nr in [libc::SYS_sendmsg, libc::SYS_sendmmsg] {
            let flags = if nr == libc::SYS_sendmsg {
                vec![Int(fast)]
            } else {
                vec![Int(1), Int(fast)]
            };
            let mut args = vec![Int(socket), Bytes(vec![0; 64])];
            args.extend(flags);
            assert_eq!(hostile.call(nr, args), Err(Errno::EACCES), "{nr}");
        }
        // Deferred by an option: the first write connects, to where `connect` was granted.
        const TCP_FASTOPEN_CONNECT: i64 = 30;
        let option = vec![
            Int(socket),
            Int(libc::IPPROTO_TCP.into()),
            Int(TCP_FASTOPEN_CONNECT),
            Bytes(vec![1, 0, 0, 0]),
            Int(4),
        ];
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
    let connect =
        |fd: i64, address: Argument, length: i64| hostile.call(libc::SYS_connect, vec![Int(fd), address, Int(length)]);
    for length in [0, 1, 8, 15] {
        assert_eq!(
            connect(socket, Bytes(good.clone()), length),
            Err(Errno::EINVAL),
            "{length}"
        );
    }
    for length in [129, -1, i64::from(i32::MIN)] {
        assert_eq!(
            connect(socket, Bytes(vec![0; 256]), length),
            Err(Errno::EINVAL),
            "{length}"
        );
    }
    assert_eq!(connect(socket, Null, 16), Err(Errno::EFAULT));
    assert_eq!(
        connect(socket, Edge(8), 16),
        Err(Errno::EFAULT),
        "half of it is not there"
    );
    assert_eq!(connect(socket, Int(-8), 16), Err(Errno::EFAULT));
    assert_eq!(connect(-1, Bytes(good.clone()), 16), Err(Errno::EBADF));
    assert_eq!(connect(777, Bytes(good.clone()), 16), Err(Errno::EBADF));
    assert_eq!(connect(0, Bytes(good.clone()), 16), Err(Errno::ENOTSOCK));
    for family in [libc::AF_UNSPEC, libc::AF_UNIX, libc::AF_NETLINK, libc::AF_VSOCK] {
        let mut bytes = good.clone();
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        assert_eq!(
            hostile.connect_bytes(socket, bytes),
            Err(Errno::EAFNOSUPPORT),
            "{family}"
        );
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
    let dumpable =
        |hostile: &Hostile, on: i64| hostile.call(libc::SYS_prctl, vec![Int(libc::PR_SET_DUMPABLE.into()), Int(on)]);
    assert_eq!(
        dumpable(&locked, 0),
        Err(Errno::EACCES),
        "a retriever's own list refuses it"
    );
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
    let order = Order::Race {
        socket,
        good: words("127.0.0.1:8080"),
        bad: words("127.0.0.2:8080"),
        rounds: 250,
    };
    let seen = hostile.order(&order).seen;
    let count = |errno: Errno| seen.get(&(errno as i32)).copied().unwrap_or(0);
    let (granted, refused) = (count(Errno::ECONNREFUSED), count(Errno::ENETUNREACH));
    assert!(granted > 10 && refused > 10, "both addresses were seen: {seen:?}");
    assert_eq!(granted + refused, 250, "{seen:?}");
    nobody_came(&open);
}

fn floods_and_garbage_end_the_retriever_only() {
    const KILLED: i32 = 128 + libc::SIGKILL;
    let _dns = harness::name_server();
    let web = start(&["127.0.0.1:8080"]);
    let steady = web.locked(100);
    let garbage: [(&[u8], usize); 4] = [
        (b"{", 0),
        (b"{\"host\":\"a.example.org\",\"more\":1}", 0),
        (b"{\"host\":\"a\"}", 1),
        (b"{}", 1),
    ];
    for (id, (bytes, fds)) in (1..).zip(garbage) {
        let hostile = web.locked(id);
        hostile.provoke(&Order::Send {
            bytes: bytes.to_vec(),
            fds,
        });
        assert_eq!(web.ended(&hostile), KILLED, "{}", String::from_utf8_lossy(bytes));
    }
    // Not a listener, none, or two: before the lock nothing else may come.
    for (id, (bytes, fds)) in (11..).zip([(b"{}".as_slice(), 0), (b"{}", 2), (b"{\"host\":\"a.example.org\"}", 0)]) {
        let hostile = web.retriever(id);
        hostile.provoke(&Order::Send {
            bytes: bytes.to_vec(),
            fds,
        });
        assert_eq!(web.ended(&hostile), KILLED, "{fds} descriptors");
    }
    let hostile = web.retriever(20);
    hostile.provoke(&Order::Send {
        bytes: b"{}".to_vec(),
        fds: 1,
    });
    assert_eq!(web.ended(&hostile), KILLED, "a channel in place of a listener");
    let hostile = web.locked(21);
    let ask = Order::Send {
        bytes: b"{\"host\":\"slow.example.org\"}".to_vec(),
        fds: 0,
    };
    for _ in 0..40 {
        hostile.provoke(&ask);
    }
    assert_eq!(web.ended(&hostile), KILLED, "too many names");
    let hostile = web.locked(22);
    let socket = hostile.socket(false, false);
    for i in 0..256 {
        assert_eq!(
            hostile.connect(socket, at("127.0.0.1:81")),
            Err(Errno::ENETUNREACH),
            "{i}"
        );
    }
    let connect = vec![Int(socket), Bytes(raw(at("127.0.0.1:81"))), Int(16)];
    hostile.provoke(&Order::Call {
        nr: libc::SYS_connect,
        args: connect,
    });
    assert_eq!(web.ended(&hostile), KILLED, "too many connections");
    let hostile = web.locked(23);
    let made = (0..40)
        .map(|_| hostile.socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP))
        .collect::<Vec<_>>();
    assert_eq!(made.iter().filter(|m| m.is_ok()).count(), 32);
    assert_eq!(made.last(), Some(&Err(Errno::EMFILE)));
    let socket = vec![
        Int(libc::AF_INET.into()),
        Int(libc::SOCK_STREAM.into()),
        Int(libc::IPPROTO_TCP.into()),
    ];
    for _ in 40..1024 {
        assert_eq!(hostile.call(libc::SYS_socket, socket.clone()), Err(Errno::EMFILE));
    }
    hostile.provoke(&Order::Call {
        nr: libc::SYS_socket,
        args: socket,
    });
    assert_eq!(web.ended(&hostile), KILLED, "too many calls");
    // The other one never noticed.
    assert_eq!(steady.resolve("public.example.org").addresses.len(), 2);
}

fn nothing_outlives_the_supervisor() {
    let web = start(&[]);
    let hostile = web.locked(1);
    let pid = hostile.call(libc::SYS_getpid, vec![]).expect("a number") as i32;
    let retriever = Child::from_pid(pid).expect("the retriever");
    assert!(!retriever.ended_within(0).expect("a process"));
    web.child.kill_and_wait().expect("the web side");
    assert!(
        retriever.ended_within(5_000).expect("a process"),
        "the retriever ended, too"
    );
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
    let open = vec![
        Int(libc::AT_FDCWD.into()),
        path("/tmp/picktwo-test"),
        Int((libc::O_CREAT | libc::O_WRONLY).into()),
        Int(0o600),
    ];
    assert_eq!(loose.call(libc::SYS_openat, open), Err(Errno::EACCES));
    for program in ["/bin/sh", "/usr/bin/env"] {
        assert_eq!(
            loose.call(libc::SYS_execve, vec![path(program), Null, Null]),
            Err(Errno::EACCES),
            "{program}"
        );
    }
    let locked = web.locked(2);
    assert_eq!(
        locked.call(libc::SYS_execve, vec![path("/proc/self/exe"), Null, Null]),
        Err(Errno::EACCES),
        "not even its own"
    );
    assert_eq!(locked.call(libc::SYS_fork, vec![]), Err(Errno::EACCES));
}
