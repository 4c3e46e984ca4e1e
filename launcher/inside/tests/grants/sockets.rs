//! Sockets: made by a process in the session's network namespace that stands for its init, decided on by the real supervisor.

use super::harness::{Scene, close, fd_call, open};
use nix::libc::*;
use picktwo_confine::attempt::{Arg, syscall};
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::namespace::{self, NamespaceFds};
use picktwo_confine::{Errno, limits, process, sys};
use picktwo_inside::mode::Mode;
use picktwo_inside::socket_request::{SocketReply, SocketRequest};
use picktwo_inside::sockets::{Config, Sockets};
use picktwo_inside::writers::Members;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;

/// Performs what is asked, in this network namespace.
fn init(channel: &Channel) {
    let mut message = Vec::new();
    while let Ok(Some(fds)) = channel.recv(&mut message) {
        let fd = || fds[0].as_fd();
        let done = match serde_json::from_slice(&message).unwrap() {
            SocketRequest::Socket { domain, kind, protocol } => sys::socket(domain, kind, protocol).map(Some),
            SocketRequest::Connect { address } => sys::connect(fd(), &address).map(|()| None),
            SocketRequest::Bind { address } => sys::bind(fd(), &address).map(|()| None),
            SocketRequest::End => return,
        };
        let reply = SocketReply {
            errno: done.as_ref().err().map_or(0, |e| *e as i32),
        };
        let made: Vec<_> = done.iter().flatten().map(AsFd::as_fd).collect();
        channel.send(&serde_json::to_vec(&reply).unwrap(), &made).unwrap();
    }
}

fn scene(mode: Mode) -> Scene {
    let mut scene = Scene::new(mode);
    let (ours, theirs) = channel::pair().unwrap();
    let session = NamespaceFds::open(scene.init).unwrap();
    process::fork(move || {
        if namespace::join(&session).is_err() || limits::sweep(&[theirs.as_raw_fd()]).is_err() {
            return 1;
        }
        // Without a copy of the other end it sees its end.
        init(&theirs);
        0
    })
    .unwrap();
    scene.sockets = Some(Sockets::new(Config {
        init: ours,
        session: Members::OfNamespace(scene.init),
        shared: None,
        private: vec![scene.out.join("private")],
        kept: Vec::new(),
        allowed: vec![scene.out.join("tools.sock")],
    }));
    std::fs::create_dir(scene.out.join("private")).unwrap();
    scene
}

fn socket(domain: i32, kind: i32, protocol: i32) -> Result<i64, Errno> {
    fd_call(SYS_socket, domain.into(), &[kind.into(), protocol.into()])
}

fn named(nr: i64, fd: i64, address: &[u8]) -> Result<i64, Errno> {
    syscall(
        nr,
        [
            Arg::Int(fd),
            Arg::In(address),
            Arg::Int(address.len() as i64),
            Arg::Null,
            Arg::Null,
            Arg::Null,
        ],
    )
}

fn inet(port: u16) -> Vec<u8> {
    [
        &(AF_INET as u16).to_ne_bytes()[..],
        &port.to_be_bytes(),
        &[127, 0, 0, 1],
        &[0; 8],
    ]
    .concat()
}

fn unix(path: &str) -> Vec<u8> {
    [&(AF_UNIX as u16).to_ne_bytes()[..], path.as_bytes(), b"\0"].concat()
}

fn name_of(fd: i64) -> Vec<u8> {
    let mut address = [0u8; 128];
    let mut length = 128u32.to_le_bytes();
    let _ = syscall(
        SYS_getsockname,
        [
            Arg::Int(fd),
            Arg::Out(&mut address),
            Arg::Out(&mut length),
            Arg::Null,
            Arg::Null,
            Arg::Null,
        ],
    );
    address[..(u32::from_le_bytes(length) as usize).min(128)].to_vec()
}

fn port_of(fd: i64) -> u16 {
    let name = name_of(fd);
    u16::from_be_bytes([name[2], name[3]])
}

#[test]
fn internet_sockets() {
    let scene = scene(Mode::ReadOnly);
    scene.run(|s| {
        let server = s.granted("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        s.equal(
            "close on exec",
            fd_call(SYS_fcntl, server, &[F_GETFD.into()]),
            Ok(FD_CLOEXEC.into()),
        );
        s.granted("bind", named(SYS_bind, server, &inet(0)));
        s.granted("listen", fd_call(SYS_listen, server, &[8]));
        let port = port_of(server);
        let client = s.granted("socket", socket(AF_INET, SOCK_STREAM, IPPROTO_TCP));
        s.granted("connect", named(SYS_connect, client, &inet(port)));
        s.equal(
            "blocking still",
            fd_call(SYS_fcntl, client, &[F_GETFL.into()]).map(|f| f as i32 & O_NONBLOCK),
            Ok(0),
        );
        s.refused("again", named(SYS_connect, client, &inet(port)), Errno::EISCONN);
        let accepted = s.granted("accept", fd_call(SYS_accept4, server, &[0, 0, 0]));
        s.granted("send", super::harness::write_fd(client, "hello"));
        let mut bytes = [0u8; 8];
        s.equal(
            "received",
            syscall(
                SYS_read,
                [
                    Arg::Int(accepted),
                    Arg::Out(&mut bytes),
                    Arg::Int(8),
                    Arg::Null,
                    Arg::Null,
                    Arg::Null,
                ],
            ),
            Ok(5),
        );
        close(client);
        s.equal(
            "the end is seen",
            syscall(
                SYS_read,
                [
                    Arg::Int(accepted),
                    Arg::Out(&mut bytes),
                    Arg::Int(8),
                    Arg::Null,
                    Arg::Null,
                    Arg::Null,
                ],
            ),
            Ok(0),
        );

        let second = s.granted("socket", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        let got = named(SYS_connect, second, &inet(port));
        s.equal("non-blocking", matches!(got, Ok(0) | Err(Errno::EINPROGRESS)), true);

        close(server);
        let late = s.granted("socket", socket(AF_INET, SOCK_STREAM, 0));
        s.refused(
            "a closed listener does not answer",
            named(SYS_connect, late, &inet(port)),
            Errno::ECONNREFUSED,
        );
        let own = s.granted("socket", socket(AF_INET, SOCK_STREAM, 0));
        s.granted("bind first", named(SYS_bind, own, &inet(0)));
        s.refused(
            "then connect",
            named(SYS_connect, own, &inet(port)),
            Errno::ECONNREFUSED,
        );
        let bound = port_of(own);
        close(own);
        let again = s.granted("socket", socket(AF_INET, SOCK_STREAM, 0));
        s.granted("a closed socket's port", named(SYS_bind, again, &inet(bound)));

        let udp = s.granted("UDP", socket(AF_INET, SOCK_DGRAM, 0));
        s.granted("connect", named(SYS_connect, udp, &inet(9)));
        s.granted("and elsewhere", named(SYS_connect, udp, &inet(10)));
    });
}

#[test]
fn errors_of_sockets() {
    let scene = scene(Mode::Edit);
    scene.write("f", "f");
    scene.run(|s| {
        s.refused("MPTCP", socket(AF_INET, SOCK_STREAM, 262), Errno::EPROTONOSUPPORT);
        s.refused("SCTP", socket(AF_INET, SOCK_STREAM, 132), Errno::EPROTONOSUPPORT);
        s.refused("ICMP", socket(AF_INET, SOCK_DGRAM, 1), Errno::EPROTONOSUPPORT);
        let fd = s.granted("socket", socket(AF_INET, SOCK_STREAM, 0));
        s.refused("no descriptor", named(SYS_connect, 999, &inet(1)), Errno::EBADF);
        let file = s.granted("file", open("f", O_RDONLY, 0));
        s.refused("no socket", named(SYS_connect, file, &inet(1)), Errno::ENOTSOCK);
        s.refused("empty", named(SYS_connect, fd, b""), Errno::EINVAL);
        s.refused("one byte", named(SYS_connect, fd, b"x"), Errno::EINVAL);
        s.refused("short", named(SYS_connect, fd, &inet(1)[..8]), Errno::EINVAL);
        s.refused("long", named(SYS_connect, fd, &[2; 129]), Errno::EINVAL);
        s.refused(
            "negative",
            syscall(
                SYS_connect,
                [
                    Arg::Int(fd),
                    Arg::In(b"xx"),
                    Arg::Int(-1),
                    Arg::Null,
                    Arg::Null,
                    Arg::Null,
                ],
            ),
            Errno::EINVAL,
        );
        s.refused(
            "bad pointer",
            syscall(
                SYS_connect,
                [Arg::Int(fd), Arg::Bad, Arg::Int(16), Arg::Null, Arg::Null, Arg::Null],
            ),
            Errno::EFAULT,
        );
        s.refused(
            "another family",
            named(SYS_connect, fd, &unix("f")),
            Errno::EAFNOSUPPORT,
        );
        let path = s.granted("socket", socket(AF_UNIX, SOCK_STREAM, 0));
        s.refused("another family", named(SYS_connect, path, &inet(1)), Errno::EINVAL);
    });
}

#[test]
fn unix_sockets_are_those_of_the_session() {
    let scene = scene(Mode::Edit);
    let host = UnixListener::bind(scene.w.join("host.sock")).unwrap();
    let _elsewhere = UnixListener::bind(scene.out.join("elsewhere.sock")).unwrap();
    let _tools = UnixListener::bind(scene.out.join("tools.sock")).unwrap();
    let _private = UnixListener::bind(scene.out.join("private/own.sock")).unwrap();
    std::os::unix::fs::symlink("host.sock", scene.w.join("link.sock")).unwrap();
    std::fs::write(scene.w.join("CLAUDE.md"), "").unwrap();
    let out = |name: &str| scene.out.join(name).to_string_lossy().into_owned();
    let (elsewhere, tools, private, absolute) = (
        out("elsewhere.sock"),
        out("tools.sock"),
        out("private/own.sock"),
        scene.w.join("abs.sock").to_string_lossy().into_owned(),
    );
    scene.run(|s| {
        let make = || s.granted("socket", socket(AF_UNIX, SOCK_STREAM, 0));
        for (path, errno) in [
            ("host.sock", Errno::EACCES),
            ("link.sock", Errno::EACCES),
            (&elsewhere, Errno::EACCES),
            ("none", Errno::ENOENT),
            ("CLAUDE.md", Errno::ECONNREFUSED),
            ("\0abstract", Errno::EACCES),
        ] {
            s.refused(path, named(SYS_connect, make(), &unix(path)), errno);
        }
        s.granted("the tools' socket", named(SYS_connect, make(), &unix(&tools)));
        s.granted("a private directory", named(SYS_connect, make(), &unix(&private)));
        for path in ["own.sock", &absolute] {
            let server = make();
            s.granted(path, named(SYS_bind, server, &unix(path)));
            s.granted("listen", fd_call(SYS_listen, server, &[1]));
            s.equal("its name", name_of(server), unix(path));
            s.refused("in use", named(SYS_bind, make(), &unix(path)), Errno::EADDRINUSE);
            let client = make();
            s.granted("connect", named(SYS_connect, client, &unix(path)));
            s.refused("again", named(SYS_connect, client, &unix(path)), Errno::EISCONN);
            close(server);
            s.refused("closed", named(SYS_connect, make(), &unix(path)), Errno::ECONNREFUSED);
        }
        s.refused("protected", named(SYS_bind, make(), &unix(".envrc")), Errno::EACCES);
        s.refused("abstract", named(SYS_bind, make(), &unix("\0abstract")), Errno::EACCES);
        s.refused(
            "the kernel's choice",
            named(SYS_bind, make(), &(AF_UNIX as u16).to_ne_bytes()),
            Errno::EACCES,
        );
        s.refused(
            "over a file",
            named(SYS_bind, make(), &unix("CLAUDE.md")),
            Errno::EADDRINUSE,
        );
    });
    host.set_nonblocking(true).unwrap();
    assert!(host.accept().is_err(), "nobody reached the host's socket");
    scene.grants.set_mode(Mode::ReadOnly);
    scene.run(|s| {
        let fd = s.granted("socket", socket(AF_UNIX, SOCK_STREAM, 0));
        s.refused("read-only", named(SYS_bind, fd, &unix("new.sock")), Errno::EROFS);
    });
}
