//! Leaving by the network.

use super::calls::{Called, attack, message, num, prepared, reach, sys, vector};
use super::{Expected, Place, Probe, Setting, Stop, Tried, probe};
use crate::attempt::Arg;
use libc::{AF_INET, AF_INET6, IPPROTO_TCP, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};
use nix::errno::Errno;
use nix::errno::Errno::{
    EACCES, EAFNOSUPPORT, ECONNREFUSED, EINPROGRESS, ENETUNREACH, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT,
};
use std::net::{Ipv4Addr, Ipv6Addr};

fn v4(address: Ipv4Addr, port: i64) -> Vec<u8> {
    let mut bytes = (AF_INET as u16).to_ne_bytes().to_vec();
    bytes.extend((port as u16).to_be_bytes());
    bytes.extend(address.octets());
    bytes.extend([0; 8]);
    bytes
}

fn v6(address: Ipv6Addr, port: i64) -> Vec<u8> {
    let mut bytes = (AF_INET6 as u16).to_ne_bytes().to_vec();
    bytes.extend((port as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(address.octets());
    bytes.extend([0; 4]);
    bytes
}

fn socket(family: i32, kind: i32, protocol: i32) -> Called {
    num(libc::SYS_socket, &[family.into(), kind.into(), protocol.into()])
}

fn connect(family: i32, address: &[u8]) -> Tried {
    let fd = socket(family, SOCK_STREAM, IPPROTO_TCP)?;
    attack(sys(
        libc::SYS_connect,
        [Arg::Int(fd), Arg::In(address), Arg::Int(address.len() as i64)],
    ))
}

fn tcp(s: &Setting, address: Ipv4Addr) -> Tried {
    connect(AF_INET, &v4(address, s.number("tcp")?))
}

fn tcp6(s: &Setting, address: Ipv6Addr, port: &'static str) -> Tried {
    connect(AF_INET6, &v6(address, s.number(port)?))
}

fn lan(s: &Setting) -> Result<Ipv4Addr, Stop> {
    s.get("lan")?
        .parse()
        .map_err(|_| Stop::Unprepared("an address of this machine", Errno::EINVAL))
}

fn fast_open(s: &Setting, message: bool) -> Tried {
    let fd = prepared("a TCP socket", socket(AF_INET, SOCK_STREAM, 0))?;
    let address = v4(Ipv4Addr::LOCALHOST, s.number("tcp")?);
    let flag = i64::from(libc::MSG_FASTOPEN);
    if !message {
        return attack(sys(
            libc::SYS_sendto,
            [
                Arg::Int(fd),
                Arg::In(b"x"),
                Arg::Int(1),
                Arg::Int(flag),
                Arg::In(&address),
                Arg::Int(16),
            ],
        ));
    }
    let mut header = [0u8; 56];
    header[..8].copy_from_slice(&(address.as_ptr() as u64).to_ne_bytes());
    header[8..12].copy_from_slice(&16u32.to_ne_bytes());
    attack(sys(libc::SYS_sendmsg, [Arg::Int(fd), Arg::In(&header), Arg::Int(flag)]))
}

fn datagram(address: &[u8], family: i32) -> Tried {
    let fd = prepared("a UDP socket", socket(family, SOCK_DGRAM, 0))?;
    attack(sys(
        libc::SYS_sendto,
        [
            Arg::Int(fd),
            Arg::In(b"picktwo"),
            Arg::Int(7),
            Arg::Int(0),
            Arg::In(address),
            Arg::Int(address.len() as i64),
        ],
    ))
}

fn deferred(s: &Setting) -> Tried {
    let fd = prepared("a TCP socket", socket(AF_INET, SOCK_STREAM, 0))?;
    let on = 1i32.to_ne_bytes();
    // TCP_FASTOPEN_CONNECT: connect only notes the address, the first send connects.
    prepared(
        "the option",
        sys(
            libc::SYS_setsockopt,
            [Arg::Int(fd), Arg::Int(6), Arg::Int(30), Arg::In(&on), Arg::Int(4)],
        ),
    )?;
    let address = v4(Ipv4Addr::LOCALHOST, s.number("tcp")?);
    sys(libc::SYS_connect, [Arg::Int(fd), Arg::In(&address), Arg::Int(16)])?;
    attack(sys(
        libc::SYS_sendto,
        [
            Arg::Int(fd),
            Arg::In(b"x"),
            Arg::Int(1),
            Arg::Int(0),
            Arg::Null,
            Arg::Int(0),
        ],
    ))
}

const MAPPED: Ipv6Addr = Ipv4Addr::LOCALHOST.to_ipv6_mapped();

pub(super) static PROBES: &[Probe] = &[
    probe(
        "net.tcp-loopback",
        "E01 E24 A20",
        "connects to a server on the host's loopback",
        |s| tcp(s, Ipv4Addr::LOCALHOST),
    )
    .agent(&[ECONNREFUSED])
    .retriever(&[ENETUNREACH])
    .gateway(&[EACCES])
    .outside(&[EACCES]),
    probe(
        "net.tcp-loopback-other",
        "E01",
        "connects to a server on the host's loopback by 127.0.0.2",
        |s| tcp(s, Ipv4Addr::new(127, 0, 0, 2)),
    )
    .agent(&[ECONNREFUSED])
    .retriever(&[ENETUNREACH])
    .gateway(&[EACCES])
    .outside(&[EACCES]),
    probe(
        "net.tcp-any",
        "E01",
        "connects to a server on the host's loopback by 0.0.0.0",
        |s| tcp(s, Ipv4Addr::UNSPECIFIED),
    )
    .agent(&[ECONNREFUSED])
    .retriever(&[ENETUNREACH])
    .gateway(&[EACCES])
    .outside(&[EACCES]),
    probe("net.tcp6-loopback", "E01", "connects to a server on ::1", |s| {
        tcp6(s, Ipv6Addr::LOCALHOST, "tcp6")
    })
    .agent(&[ECONNREFUSED])
    .retriever(&[ENETUNREACH])
    .gateway(&[EACCES])
    .outside(&[EACCES]),
    probe(
        "net.tcp6-mapped",
        "E01",
        "connects to a server on the host's loopback by ::ffff:127.0.0.1",
        |s| tcp6(s, MAPPED, "tcp"),
    )
    .agent(&[ECONNREFUSED])
    .retriever(&[ENETUNREACH])
    .gateway(&[EACCES])
    .outside(&[EACCES]),
    probe(
        "net.tcp6-any",
        "E01",
        "connects to a server on the host's loopback by ::",
        |s| tcp6(s, Ipv6Addr::UNSPECIFIED, "tcp6"),
    )
    .agent(&[ECONNREFUSED])
    .retriever(&[ENETUNREACH])
    .gateway(&[EACCES])
    .outside(&[EACCES]),
    probe(
        "net.tcp-lan",
        "E01 E19 E22",
        "connects to a server on the host's own address",
        |s| tcp(s, lan(s)?),
    )
    .agent(&[ENETUNREACH])
    .retriever(&[ENETUNREACH])
    .gateway(&[EACCES])
    .outside(&[EACCES]),
    probe(
        "net.tcp-nonblocking",
        "E01",
        "begins a connection without waiting",
        |s| {
            let fd = prepared(
                "a socket",
                socket(AF_INET, SOCK_STREAM | libc::SOCK_NONBLOCK, IPPROTO_TCP),
            )?;
            let address = v4(Ipv4Addr::LOCALHOST, s.number("tcp")?);
            reach(
                sys(libc::SYS_connect, [Arg::Int(fd), Arg::In(&address), Arg::Int(16)]),
                &[EINPROGRESS],
            )
        },
    )
    .retriever(&[ENETUNREACH]),
    probe("net.fast-open-send", "E02", "connects by a send with fast open", |s| {
        fast_open(s, false)
    })
    .agent(&[EOPNOTSUPP]),
    probe(
        "net.fast-open-message",
        "E02",
        "connects by a message with fast open",
        |s| fast_open(s, true),
    )
    .agent(&[EOPNOTSUPP]),
    probe(
        "net.fast-open-deferred",
        "E03",
        "connects by a first send, deferred",
        deferred,
    )
    .agent(&[ECONNREFUSED]),
    probe("net.multipath", "E04", "makes a multipath TCP socket", |_| {
        attack(socket(AF_INET, SOCK_STREAM, 262))
    })
    .agent(&[EPROTONOSUPPORT])
    .network(&[EACCES]),
    probe("net.sctp", "E05", "makes an SCTP socket", |_| {
        attack(socket(AF_INET, SOCK_STREAM, 132))
    })
    .agent(&[EPROTONOSUPPORT])
    .network(&[EACCES]),
    probe("net.udp", "E06", "makes a UDP socket", |_| {
        attack(socket(AF_INET, SOCK_DGRAM, 0))
    })
    .network(&[EACCES])
    .but_for(Place::Resolver),
    probe("net.udp6", "E06", "makes a UDP socket for IPv6", |_| {
        attack(socket(AF_INET6, SOCK_DGRAM, 0))
    })
    .network(&[EACCES])
    .but_for(Place::Resolver),
    probe("net.udp-send", "E06", "sends a datagram to the host's loopback", |s| {
        datagram(&v4(Ipv4Addr::LOCALHOST, s.number("udp")?), AF_INET)
    })
    .unseen(),
    probe("net.udp6-send", "E06", "sends a datagram to the host by IPv6", |s| {
        datagram(&v6(Ipv6Addr::LOCALHOST, s.number("udp6")?), AF_INET6)
    })
    .unseen(),
    probe(
        "net.udp-connected",
        "E06",
        "sends a datagram to the host on a connected socket",
        |s| {
            let fd = prepared("a UDP socket", socket(AF_INET, SOCK_DGRAM, 0))?;
            let address = v4(Ipv4Addr::LOCALHOST, s.number("udp")?);
            sys(libc::SYS_connect, [Arg::Int(fd), Arg::In(&address), Arg::Int(16)])?;
            attack(sys(libc::SYS_write, [Arg::Int(fd), Arg::In(b"picktwo"), Arg::Int(7)]))
        },
    )
    .unseen(),
    probe(
        "net.udp-many",
        "E06",
        "sends a datagram to the host by the call for many",
        |s| {
            let fd = prepared("a UDP socket", socket(AF_INET, SOCK_DGRAM, 0))?;
            let address = v4(Ipv4Addr::LOCALHOST, s.number("udp")?);
            let vector = vector(b"picktwo");
            attack(sys(
                libc::SYS_sendmmsg,
                [
                    Arg::Int(fd),
                    Arg::In(&message(&address, &vector)),
                    Arg::Int(1),
                    Arg::Int(0),
                ],
            ))
        },
    )
    .unseen(),
    probe(
        "net.udp-lan",
        "E06 E07",
        "sends a datagram to the host's own address",
        |s| datagram(&v4(lan(s)?, s.number("udp")?), AF_INET),
    )
    .agent(&[ENETUNREACH]),
    probe("net.udp-lite", "E06", "makes a UDP-Lite socket", |_| {
        attack(socket(AF_INET, SOCK_DGRAM, 136))
    })
    .agent(&[EPROTONOSUPPORT])
    .network(&[EACCES]),
    probe("net.ping", "E08", "makes a ping socket", |_| {
        attack(socket(AF_INET, SOCK_DGRAM, 1))
    })
    .agent(&[EPROTONOSUPPORT])
    .network(&[EACCES]),
    probe("net.raw", "E08", "makes a raw socket", |_| {
        attack(socket(AF_INET, SOCK_RAW, 1))
    })
    .agent(&[EPERM])
    .network(&[EACCES])
    .in_namespaces(),
    probe("net.packet", "E08", "makes a packet socket", |_| {
        attack(socket(libc::AF_PACKET, SOCK_RAW, 0))
    })
    .agent(&[EAFNOSUPPORT])
    .network(&[EACCES])
    .in_namespaces(),
    probe(
        "net.vsock",
        "E09",
        "makes a socket to the hypervisor or other machines",
        |_| attack(socket(libc::AF_VSOCK, SOCK_STREAM, 0)),
    )
    .agent(&[EAFNOSUPPORT])
    .network(&[EACCES]),
    probe(
        "net.vsock-connect",
        "E09",
        "connects to a server of the host that no network namespace confines",
        |s| {
            let fd = socket(libc::AF_VSOCK, SOCK_STREAM, 0)?;
            // SO_VM_SOCKETS_CONNECT_TIMEOUT: 300 ms, for a kernel without local connections.
            let timeout = [0i64.to_ne_bytes(), 300_000i64.to_ne_bytes()].concat();
            prepared(
                "a time limit",
                sys(
                    libc::SYS_setsockopt,
                    [
                        Arg::Int(fd),
                        Arg::Int(libc::AF_VSOCK.into()),
                        Arg::Int(6),
                        Arg::In(&timeout),
                        Arg::Int(16),
                    ],
                ),
            )?;
            // VMADDR_CID_LOCAL
            let mut address = (libc::AF_VSOCK as u16).to_ne_bytes().to_vec();
            address.extend([0; 2]);
            address.extend((s.number("vsock")? as u32).to_ne_bytes());
            address.extend(1u32.to_ne_bytes());
            address.extend([0; 4]);
            attack(sys(libc::SYS_connect, [Arg::Int(fd), Arg::In(&address), Arg::Int(16)]))
        },
    )
    .agent(&[EAFNOSUPPORT]),
    probe("net.netlink-route", "E10", "makes a routing socket", |_| {
        attack(socket(libc::AF_NETLINK, SOCK_RAW, 0))
    })
    .agent(&[EAFNOSUPPORT])
    .network(&[EACCES]),
    probe(
        "net.netlink-diagnosis",
        "E10",
        "makes a socket that lists the host's sockets",
        |_| attack(socket(libc::AF_NETLINK, SOCK_RAW, 4)),
    )
    .agent(&[EAFNOSUPPORT])
    .network(&[EACCES]),
    probe("net.netlink-generic", "E10", "makes a generic netlink socket", |_| {
        attack(socket(libc::AF_NETLINK, SOCK_RAW, 16))
    })
    .agent(&[EAFNOSUPPORT])
    .network(&[EACCES]),
    probe("net.netlink-events", "E10", "makes a socket for device events", |_| {
        attack(socket(libc::AF_NETLINK, SOCK_RAW, 15))
    })
    .agent(&[EAFNOSUPPORT]),
    probe("net.crypto", "E10", "makes a kernel crypto socket", |_| {
        attack(socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0))
    })
    .agent(&[EAFNOSUPPORT])
    .network(&[EACCES]),
    probe("net.bluetooth", "E10", "makes a Bluetooth socket", |_| {
        attack(socket(libc::AF_BLUETOOTH, SOCK_RAW, 1))
    })
    .agent(&[EAFNOSUPPORT]),
    probe("net.can", "E10", "makes a CAN socket", |_| {
        attack(socket(libc::AF_CAN, SOCK_RAW, 1))
    })
    .agent(&[EAFNOSUPPORT]),
    probe("net.tipc", "E10", "makes a TIPC socket", |_| {
        attack(socket(libc::AF_TIPC, libc::SOCK_SEQPACKET, 0))
    })
    .agent(&[EAFNOSUPPORT]),
    probe("net.smc", "E10", "makes an SMC socket", |_| {
        attack(socket(43, SOCK_STREAM, 0))
    })
    .agent(&[EAFNOSUPPORT]),
    probe("net.xdp", "E08", "makes a socket past the network stack", |_| {
        attack(socket(44, SOCK_RAW, 0))
    })
    .agent(&[EAFNOSUPPORT])
    .in_namespaces(),
    probe(
        "net.ring",
        "E11 C08 D09",
        "makes a ring of calls that no filter sees",
        |_| {
            let mut parameters = [0u8; 120];
            attack(sys(libc::SYS_io_uring_setup, [Arg::Int(1), Arg::Out(&mut parameters)]))
        },
    )
    .agent(&[ENOSYS])
    .network(&[EACCES]),
    probe(
        "net.ring-enter",
        "E11",
        "enters a ring of calls that no filter sees",
        |_| reach(num(libc::SYS_io_uring_enter, &[-1, 0, 0, 0, 0, 0]), &[Errno::EBADF]),
    )
    .agent(&[ENOSYS]),
    probe(
        "net.ring-register",
        "E11",
        "registers with a ring of calls that no filter sees",
        |_| {
            reach(
                num(libc::SYS_io_uring_register, &[-1, 0, 0, 0]),
                &[Errno::EBADF, Errno::EINVAL],
            )
        },
    )
    .agent(&[ENOSYS]),
    probe("net.connect-any", "E01", "connects a descriptor that it holds", |s| {
        let address = v4(Ipv4Addr::LOCALHOST, s.number("tcp")?);
        reach(
            sys(libc::SYS_connect, [Arg::Int(3), Arg::In(&address), Arg::Int(16)]),
            &[
                Errno::EBADF,
                Errno::ENOTSOCK,
                Errno::EISCONN,
                Errno::EINVAL,
                EAFNOSUPPORT,
            ],
        )
    })
    .at(Place::Gateway, Expected::Errno(&[EACCES])),
    probe("net.bind-any", "E17", "binds a descriptor that it holds", |_| {
        let address = v4(Ipv4Addr::LOCALHOST, 0);
        reach(
            sys(libc::SYS_bind, [Arg::Int(3), Arg::In(&address), Arg::Int(16)]),
            &[
                Errno::EBADF,
                Errno::ENOTSOCK,
                Errno::EINVAL,
                Errno::EADDRINUSE,
                EAFNOSUPPORT,
            ],
        )
    })
    .network(&[EACCES])
    .but_for(Place::Resolver),
    probe("net.listen-any", "E17", "listens on a descriptor that it holds", |_| {
        reach(
            num(libc::SYS_listen, &[3, 1]),
            &[Errno::EBADF, Errno::ENOTSOCK, Errno::EINVAL, EOPNOTSUPP],
        )
    })
    .network(&[EACCES]),
    probe(
        "net.send-address",
        "E02 E06",
        "sends with an address on a descriptor that it holds",
        |s| {
            let address = v4(Ipv4Addr::LOCALHOST, s.number("tcp")?);
            reach(
                sys(
                    libc::SYS_sendto,
                    [
                        Arg::Int(99),
                        Arg::In(b"x"),
                        Arg::Int(1),
                        Arg::Int(0),
                        Arg::In(&address),
                        Arg::Int(16),
                    ],
                ),
                &[Errno::EBADF, Errno::ENOTSOCK],
            )
        },
    )
    .network(&[EACCES]),
    probe("net.send-many", "E02 E06", "sends several messages in one call", |_| {
        reach(
            num(libc::SYS_sendmmsg, &[99, 0, 0, 0]),
            &[Errno::EBADF, Errno::ENOTSOCK],
        )
    })
    .network(&[EACCES]),
];
