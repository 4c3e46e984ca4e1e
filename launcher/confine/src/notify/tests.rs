use super::*;
use crate::attempt::{self, Arg};
use crate::channel::{self, Channel};
use crate::process::{self, Child, Exit};
use crate::seccomp::{self, Action, Filter, Rule};
use crate::{memory, sys};
use std::os::fd::FromRawFd;

fn filter(calls: &[i64]) -> Filter {
    let enosys = Action::Errno(Errno::ENOSYS);
    let rules = calls.iter().map(|&nr| Rule {
        nr,
        name: "test",
        when: vec![],
        then: Action::Notify,
        reason: "test",
    });
    Filter {
        name: "test",
        foreign: enosys,
        x32: enosys,
        newer: None,
        rules: rules.collect(),
        otherwise: Action::Allow,
    }
}

/// A child under a filter that notifies us of `calls`, and the channel on which it says what it found.
fn supervised(calls: &[i64], work: impl FnOnce() -> String) -> (Child, Listener, Channel) {
    let (ours, theirs) = channel::pair().unwrap();
    let child = process::fork(|| {
        let listener = seccomp::install_listener(&filter(calls)).unwrap();
        theirs.send(b"listener", &[listener.as_fd()]).unwrap();
        drop(listener);
        theirs.send(format!("={}", work()).as_bytes(), &[]).unwrap();
        0
    })
    .unwrap();
    drop(theirs);
    let listener = Listener::from(ours.recv(&mut Vec::new()).unwrap().unwrap().pop().unwrap());
    (child, listener, ours)
}

fn said(channel: &Channel) -> String {
    let mut message = Vec::new();
    channel.recv(&mut message).unwrap().expect("an answer");
    String::from_utf8(message[1..].to_vec()).unwrap()
}

fn next(listener: &Listener) -> Request {
    assert!(listener.wait(10_000).unwrap(), "no request came");
    listener.recv().unwrap().expect("a request")
}

#[test]
fn answers_of_every_kind_arrive() {
    let (child, listener, channel) = supervised(&[libc::SYS_umask], || {
        let ask = || attempt::describe(&attempt::numbers(libc::SYS_umask, &[7 | 1 << 40]));
        [ask(), ask(), ask(), ask(), ask()].join(" ")
    });
    listener.sync_wake_up().unwrap();
    let request = next(&listener);
    assert_eq!(
        (request.nr, request.args[0], request.int(0)),
        (libc::SYS_umask, 7 | 1 << 40, 7)
    );
    assert_eq!(request.pid, child.pid());
    assert!(listener.valid(request.id));
    assert!(!listener.valid(request.id + 1));
    listener.reply_errno(request.id, Errno::EROFS).unwrap();
    assert!(!listener.valid(request.id));
    listener.reply_value(next(&listener).id, 123).unwrap();
    listener.reply_value(next(&listener).id, 1 << 40).unwrap();
    listener.proceed(next(&listener).id).unwrap();
    listener.proceed(next(&listener).id).unwrap();
    let answer = said(&channel);
    let (answers, last) = answer.rsplit_once(' ').unwrap();
    assert!(answers.starts_with(&format!("EROFS 123 {} ", 1u64 << 40)), "{answer}");
    assert_eq!(last, "7", "the fourth call was really performed");
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
}

#[test]
fn descriptors_are_put_into_the_caller() {
    let (child, listener, channel) = supervised(&[libc::SYS_umask], || {
        let mut out = Vec::new();
        for _ in 0..2 {
            let fd = attempt::numbers(libc::SYS_umask, &[0]).unwrap() as i32;
            // SAFETY: the supervisor put this descriptor here, for us.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            let cloexec = nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_GETFD).unwrap();
            out.push(format!(
                "{} {cloexec}",
                std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
                    .unwrap()
                    .display()
            ));
        }
        out.join(" ")
    });
    let null = std::fs::File::open("/dev/null").unwrap();
    listener
        .inject_and_reply(next(&listener).id, null.as_fd(), true)
        .unwrap();
    let request = next(&listener);
    let number = listener.inject(request.id, null.as_fd(), false).unwrap();
    assert!(listener.valid(request.id), "the caller still waits");
    listener.reply_value(request.id, number.into()).unwrap();
    assert_eq!(said(&channel), "/dev/null 1 /dev/null 0");
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
}

#[test]
fn a_full_descriptor_table_of_the_caller_is_its_errno() {
    let (child, listener, _channel) = supervised(&[libc::SYS_umask], || {
        crate::limits::nofile(3, 3).unwrap();
        attempt::describe(&attempt::numbers(libc::SYS_umask, &[0]))
    });
    let null = std::fs::File::open("/dev/null").unwrap();
    let request = next(&listener);
    assert_eq!(listener.inject(request.id, null.as_fd(), true), Err(Errno::EMFILE));
    assert_eq!(
        listener.inject_and_reply(request.id, null.as_fd(), true),
        Err(Errno::EMFILE)
    );
    listener.reply_errno(request.id, Errno::EMFILE).unwrap();
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
}

#[test]
fn the_callers_memory_is_read_while_it_waits() {
    let path = b"a/path\xff\0";
    let (child, listener, _channel) = supervised(&[libc::SYS_mkdir], || {
        attempt::describe(&attempt::syscall(
            libc::SYS_mkdir,
            [Arg::In(path), Arg::Int(0), Arg::Null, Arg::Null, Arg::Null, Arg::Null],
        ))
    });
    let request = next(&listener);
    assert_eq!(memory::read_path(request.pid, request.args[0]).unwrap(), b"a/path\xff");
    assert!(listener.valid(request.id));
    listener.reply_errno(request.id, Errno::EROFS).unwrap();
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
}

#[test]
fn a_caller_that_died_is_no_error_and_no_request() {
    let (child, listener, _channel) = supervised(&[libc::SYS_umask], || {
        attempt::describe(&attempt::numbers(libc::SYS_umask, &[0]))
    });
    let request = next(&listener);
    assert!(!listener.ended());
    assert_eq!(child.kill_and_wait().unwrap(), Exit::Signal(libc::SIGKILL));
    assert!(!listener.valid(request.id));
    listener.reply_errno(request.id, Errno::EPERM).unwrap();
    listener.reply_value(request.id, 1).unwrap();
    listener.proceed(request.id).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(listener.inject(request.id, null.as_fd(), true), Err(Errno::ENOENT));
    assert!(listener.ended());
    assert!(!listener.wait(0).unwrap());
}

/// A signal that is handled does not interrupt a call that the supervisor has taken: it would be performed twice.
#[test]
fn a_received_call_is_not_interrupted_by_handled_signals() {
    let (child, listener, channel) = supervised(&[libc::SYS_umask], || {
        extern "C" fn nothing(_: i32) {}
        let action = nix::sys::signal::SigAction::new(
            nix::sys::signal::SigHandler::Handler(nothing),
            nix::sys::signal::SaFlags::empty(),
            nix::sys::signal::SigSet::empty(),
        );
        // SAFETY: the handler does nothing.
        unsafe { nix::sys::signal::sigaction(nix::sys::signal::SIGUSR1, &action) }.unwrap();
        [0; 2]
            .map(|_| attempt::describe(&attempt::numbers(libc::SYS_umask, &[0])))
            .join(" ")
    });
    let request = next(&listener);
    child.signal(nix::sys::signal::SIGUSR1).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(listener.valid(request.id));
    listener.reply_value(request.id, 1).unwrap();
    listener.reply_value(next(&listener).id, 2).unwrap();
    assert_eq!(said(&channel), "1 2");
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
}

/// An error of a stacked filter wins over the notification, in either order of installing.
#[test]
fn a_stacked_refusal_wins_over_a_notification() {
    let refusal = Filter {
        rules: vec![Rule {
            nr: libc::SYS_umask,
            name: "umask",
            when: vec![],
            then: Action::Errno(Errno::EXDEV),
            reason: "test",
        }],
        ..filter(&[])
    };
    for first in [true, false] {
        let said = crate::testing::child_says(|| {
            if first {
                seccomp::install(&refusal).unwrap();
            }
            let _listener = if first {
                seccomp::install_listener(&filter(&[libc::SYS_umask])).unwrap()
            } else {
                seccomp::install_both(&refusal, &filter(&[libc::SYS_umask])).unwrap()
            };
            attempt::describe(&attempt::numbers(libc::SYS_umask, &[0]))
        });
        assert_eq!(said, "EXDEV");
    }
}

#[test]
fn nobody_listening_is_enosys() {
    let said = crate::testing::child_says(|| {
        drop(seccomp::install_listener(&filter(&[libc::SYS_umask])).unwrap());
        attempt::describe(&attempt::numbers(libc::SYS_umask, &[0]))
    });
    assert_eq!(said, "ENOSYS");
}

/// What the retriever's supervisor does: make the socket, keep a duplicate, connect that.
#[test]
fn a_socket_is_made_and_connected_on_behalf_of_the_retrievers_list() {
    use std::net::TcpListener;
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let (ours, theirs) = channel::pair().unwrap();
    let child = process::fork(|| {
        let plain = crate::filters::for_role(crate::Role::Retriever);
        let listener = seccomp::install_both(&plain, &crate::filters::retriever_notify()).unwrap();
        theirs.send(b"listener", &[listener.as_fd()]).unwrap();
        drop(listener);
        let tcp = |protocol| {
            attempt::numbers(
                libc::SYS_socket,
                &[libc::AF_INET.into(), libc::SOCK_STREAM.into(), protocol],
            )
        };
        let refused = attempt::describe(&tcp(0));
        let fd = tcp(6).unwrap();
        let mut sockaddr = vec![2, 0];
        sockaddr.extend(address.port().to_be_bytes());
        sockaddr.extend([127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let connect = attempt::syscall(
            libc::SYS_connect,
            [
                Arg::Int(fd),
                Arg::In(&sockaddr),
                Arg::Int(16),
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        );
        let sent = attempt::syscall(
            libc::SYS_sendto,
            [
                Arg::Int(fd),
                Arg::In(b"hi"),
                Arg::Int(2),
                Arg::Int(0x4000),
                Arg::Null,
                Arg::Int(0),
            ],
        );
        let named = attempt::syscall(
            libc::SYS_sendto,
            [
                Arg::Int(fd),
                Arg::In(b"hi"),
                Arg::Int(2),
                Arg::Int(0),
                Arg::In(&sockaddr),
                Arg::Int(16),
            ],
        );
        theirs
            .send(format!("={refused} {connect:?} {sent:?} {named:?}").as_bytes(), &[])
            .unwrap();
        0
    })
    .unwrap();
    drop(theirs);
    let listener = Listener::from(ours.recv(&mut Vec::new()).unwrap().unwrap().pop().unwrap());
    let request = next(&listener);
    assert_eq!(
        (request.nr, request.int(0), request.int(2)),
        (libc::SYS_socket, libc::AF_INET, 6)
    );
    let socket = sys::socket(request.int(0), request.int(1), request.int(2)).unwrap();
    listener.inject_and_reply(request.id, socket.as_fd(), true).unwrap();
    let request = next(&listener);
    assert_eq!(request.nr, libc::SYS_connect);
    let mut copy = [0; 16];
    memory::read_exact(request.pid, request.args[1], &mut copy).unwrap();
    assert!(listener.valid(request.id));
    // The caller's descriptor and our duplicate are one socket.
    let link = std::ffi::CString::new(format!("/proc/{}/fd/{}", request.pid, request.int(0))).unwrap();
    let theirs = sys::openat(sys::CWD, &link, libc::O_PATH, 0).unwrap();
    assert!(
        sys::fstat(theirs.as_fd())
            .unwrap()
            .same(&sys::fstat(socket.as_fd()).unwrap())
    );
    sys::connect(socket.as_fd(), &copy).unwrap();
    listener.reply_value(request.id, 0).unwrap();
    assert_eq!(said(&ours), "EACCES Ok(0) Ok(2) Err(EACCES)");
    let mut bytes = [0; 2];
    std::io::Read::read_exact(&mut server.accept().unwrap().0, &mut bytes).unwrap();
    assert_eq!((&bytes, child.wait().unwrap()), (b"hi", Exit::Code(0)));
}
