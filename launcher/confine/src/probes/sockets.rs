//! Asking somebody outside by a local socket, and inherited sockets.

use super::calls::{attack, message, num, on, open, prepared, sys, two, vector};
use super::{Place, Probe, Stop, Tried, probe};
use crate::attempt::Arg;
use libc::{AF_UNIX, O_PATH, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM};
use nix::errno::Errno;
use nix::errno::Errno::{EACCES, EBADF, ECONNREFUSED, ENOENT, EPERM, EROFS};

/// A socket address of that path.
pub(super) fn path_address(path: &str) -> Result<Vec<u8>, Stop> {
    if path.len() > 107 {
        return Err(Stop::Unprepared(
            "a path that fits a socket address",
            Errno::ENAMETOOLONG,
        ));
    }
    let mut address = (AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(path.as_bytes());
    address.push(0);
    Ok(address)
}

/// An address of a path in a directory that the session sees: from within it, where the path is too long for an address.
pub(super) fn near_address(path: &str) -> Result<Vec<u8>, Stop> {
    match (path_address(path), path.rsplit_once('/')) {
        (Err(_), Some((directory, name))) => {
            prepared("the directory", on(libc::SYS_chdir, directory, &[]))?;
            path_address(name)
        }
        (address, _) => address,
    }
}

fn socket(kind: i32) -> super::calls::Called {
    num(libc::SYS_socket, &[AF_UNIX.into(), kind.into(), 0])
}

/// Connects a socket to an address.
pub(super) fn connect_to(fd: i64, address: &[u8]) -> Tried {
    attack(sys(
        libc::SYS_connect,
        [Arg::Int(fd), Arg::In(address), Arg::Int(address.len() as i64)],
    ))
}

/// Connects to a path.
pub(super) fn connect(path: &str) -> Tried {
    let fd = socket(SOCK_STREAM)?;
    match (path_address(path), path.rsplit_once('/')) {
        // Too long for an address: from its directory.
        (Err(_), Some((directory, name))) => {
            on(libc::SYS_chdir, directory, &[])?;
            connect_to(fd, &path_address(name)?)
        }
        (address, _) => connect_to(fd, &address?),
    }
}

/// An address in the abstract space.
pub(super) fn abstract_named(name: &str) -> Vec<u8> {
    let mut address = (AF_UNIX as u16).to_ne_bytes().to_vec();
    address.push(0);
    address.extend_from_slice(name.as_bytes());
    address
}

fn pair(kind: i32, fds: &mut [u8; 8]) -> super::calls::Called {
    sys(
        libc::SYS_socketpair,
        [
            Arg::Int(AF_UNIX.into()),
            Arg::Int(kind.into()),
            Arg::Int(0),
            Arg::Out(fds),
        ],
    )
}

pub(super) static PROBES: &[Probe] = &[
    probe(
        "socket.connect-hidden",
        "A01 A03",
        "connects to a daemon's socket outside the view",
        |s| connect(&s.hidden("daemon.sock")?),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "socket.connect-visible",
        "A01 A09 A13",
        "connects to a daemon's socket in a directory that it sees",
        |s| connect(&s.shared("daemon.sock")?),
    )
    .agent(&[EACCES]),
    probe(
        "socket.connect-workspace",
        "A13 A12",
        "connects to a daemon's socket in the workspace",
        |s| connect(&s.work("daemon.sock")?),
    )
    .agent(&[EACCES]),
    probe(
        "socket.connect-link",
        "A16",
        "connects to a daemon's socket through a link of the workspace",
        |s| connect(&s.work("to-daemon")?),
    )
    .agent(&[EACCES]),
    probe(
        "socket.connect-descriptor",
        "A16",
        "connects to a daemon's socket through a path descriptor",
        |s| {
            let fd = prepared("a path descriptor", open(&s.shared("daemon.sock")?, O_PATH))?;
            connect(&format!("/proc/self/fd/{fd}"))
        },
    )
    .agent(&[EACCES]),
    probe(
        "socket.connect-relative",
        "A16",
        "connects to a daemon's socket by a relative path",
        |s| {
            prepared("the directory", on(libc::SYS_chdir, s.get("shared")?, &[]))?;
            connect("daemon.sock")
        },
    )
    .agent(&[EACCES]),
    probe(
        "socket.connect-renamed-link",
        "A16",
        "connects to a daemon's socket through a link of its private directory",
        |s| {
            let private = std::env::var("TMPDIR").unwrap_or_else(|_| "/tmp".to_owned());
            let link = format!("{private}/picktwo-link-{}", std::process::id());
            prepared("a link", two(libc::SYS_symlink, &s.shared("daemon.sock")?, &link))?;
            let tried = connect(&link);
            prepared("its end", on(libc::SYS_unlink, &link, &[]))?;
            tried
        },
    )
    .agent(&[EACCES]),
    probe(
        "socket.connect-control",
        "A19",
        "connects to its session's control socket",
        |s| connect(s.get("control")?),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "socket.connect-abstract",
        "A10 A15",
        "connects to an abstract socket of the host",
        |s| connect_to(socket(SOCK_STREAM)?, &abstract_named(s.get("abstract")?)),
    )
    .agent(&[EACCES, ECONNREFUSED])
    .network(&[EACCES]),
    probe("socket.stream", "A01", "makes a local socket", |_| {
        attack(socket(SOCK_STREAM))
    })
    .network(&[EACCES]),
    probe(
        "socket.datagram",
        "A14",
        "makes a local datagram socket, which names its receiver in every send",
        |_| attack(socket(SOCK_DGRAM)),
    )
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "socket.sequenced",
        "A16",
        "makes a local socket of sequenced packets",
        |_| attack(socket(SOCK_SEQPACKET)),
    )
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "socket.send-to-path",
        "A14",
        "sends a datagram to a daemon's path",
        |s| {
            let fd = socket(SOCK_DGRAM)?;
            let address = near_address(&s.shared("daemon.dgram")?)?;
            attack(sys(
                libc::SYS_sendto,
                [
                    Arg::Int(fd),
                    Arg::In(b"x"),
                    Arg::Int(1),
                    Arg::Int(0),
                    Arg::In(&address),
                    Arg::Int(address.len() as i64),
                ],
            ))
        },
    )
    .agent(&[EPERM]),
    probe(
        "socket.message-to-path",
        "A14",
        "sends a message to a daemon's path",
        |s| {
            let fd = socket(SOCK_DGRAM)?;
            let address = near_address(&s.shared("daemon.dgram")?)?;
            let vector = vector(b"x");
            attack(sys(
                libc::SYS_sendmsg,
                [Arg::Int(fd), Arg::In(&message(&address, &vector)), Arg::Int(0)],
            ))
        },
    )
    .agent(&[EPERM]),
    probe(
        "socket.pair-to-path",
        "A15",
        "sends on one of a pair of datagram sockets to a daemon's path",
        |s| {
            let mut fds = [0u8; 8];
            pair(SOCK_DGRAM, &mut fds)?;
            let fd = i32::from_ne_bytes([fds[0], fds[1], fds[2], fds[3]]);
            let address = near_address(&s.shared("daemon.dgram")?)?;
            // AF_UNSPEC: the pair is parted first.
            sys(
                libc::SYS_connect,
                [Arg::Int(fd.into()), Arg::In(&[0u8; 16]), Arg::Int(16)],
            )?;
            attack(sys(
                libc::SYS_sendto,
                [
                    Arg::Int(fd.into()),
                    Arg::In(b"x"),
                    Arg::Int(1),
                    Arg::Int(0),
                    Arg::In(&address),
                    Arg::Int(address.len() as i64),
                ],
            ))
        },
    )
    .agent(&[EPERM]),
    probe(
        "socket.pair-datagram",
        "A15",
        "makes a pair of datagram sockets, which can be aimed elsewhere",
        |_| attack(pair(SOCK_DGRAM, &mut [0; 8])),
    )
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "socket.pair-sequenced",
        "A15",
        "makes a pair of sequenced sockets",
        |_| attack(pair(SOCK_SEQPACKET, &mut [0; 8])),
    )
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe("socket.bind-workspace", "D12", "binds a socket in the workspace", |s| {
        let fd = prepared("a socket", socket(SOCK_STREAM))?;
        let address = near_address(&s.work("new.sock")?)?;
        attack(sys(
            libc::SYS_bind,
            [Arg::Int(fd), Arg::In(&address), Arg::Int(address.len() as i64)],
        ))
    })
    .read_only(&[EROFS]),
    probe(
        "socket.bind-visible",
        "D12",
        "binds a socket in a directory that it sees",
        |s| {
            let fd = prepared("a socket", socket(SOCK_STREAM))?;
            let address = near_address(&s.shared("new.sock")?)?;
            attack(sys(
                libc::SYS_bind,
                [Arg::Int(fd), Arg::In(&address), Arg::Int(address.len() as i64)],
            ))
        },
    )
    .agent(&[EROFS]),
    probe(
        "socket.inherited",
        "E14",
        "sends on a connection that the launcher had open",
        |s| {
            attack(sys(
                libc::SYS_sendto,
                [
                    Arg::Int(s.number("fd-socket")?),
                    Arg::In(b"x"),
                    Arg::Int(1),
                    Arg::Int(0),
                    Arg::Null,
                    Arg::Int(0),
                ],
            ))
        },
    )
    .agent(&[EBADF]),
];
