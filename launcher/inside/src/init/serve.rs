//! The init once its view stands: locks, and serves socket requests until its channel closes.

use super::{LOCK, Report, report};
use crate::socket_request::{ADDRESS_MAX, SocketReply, SocketRequest};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType};
use picktwo_confine::channel::Channel;
use picktwo_confine::selfcheck::{Denied, SelfCheck};
use picktwo_confine::{Role, filters, limits, process, seccomp, sys};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a locked init cannot do any more. Each call is harmless if it is not refused.
const DENIED: &[Denied] = &[
    Denied {
        name: "openat",
        nr: 257,
        args: [-1, 0, 0, 0, 0, 0],
        errno: Errno::EACCES,
    },
    Denied {
        name: "setns",
        nr: 308,
        args: [-1, 0, 0, 0, 0, 0],
        errno: Errno::EACCES,
    },
    Denied {
        name: "ptrace",
        nr: 101,
        args: [-1, 0, 0, 0, 0, 0],
        errno: Errno::EACCES,
    },
    Denied {
        name: "execve",
        nr: 59,
        args: [0; 6],
        errno: Errno::EACCES,
    },
];

/// Locks and serves. Exit code 0: the launcher closed the channel.
pub(super) fn run(channel: &Channel) -> u8 {
    match lock(channel) {
        Ok(true) => serve(channel),
        Ok(false) => 0,
        Err(error) => {
            let _ = report(channel, &Report::failed(&error), &[]);
            1
        }
    }
}

/// Locks this process and says so. `false`: the launcher went away.
fn lock(channel: &Channel) -> picktwo_confine::Result<bool> {
    let mut message = Vec::new();
    // Until then the launcher may still have to look into this process.
    if channel.recv(&mut message)?.is_none() || message != LOCK {
        return Ok(false);
    }
    process::set_dumpable(false)?;
    // The kernel reaps what is handed to process 1, without any call of ours.
    sys::signal_ignore(Signal::SIGCHLD as i32).map_err(|errno| picktwo_confine::Error::ProcessControl {
        option: "SIGCHLD",
        errno,
    })?;
    limits::core_limit()?;
    limits::new_session_keyring()?;
    limits::drop_all_capabilities()?;
    let check = SelfCheck::prepare()?;
    // The filter has no call that takes a path. Landlock would refuse TCP as well, which is what this process is for.
    seccomp::install(&filters::for_role(Role::Init))?;
    check.locked(true, DENIED)?;
    drop(check);
    report(channel, &Report::Locked, &[])?;
    Ok(true)
}

fn serve(channel: &Channel) -> u8 {
    let mut message = Vec::new();
    loop {
        let fds = match channel.recv(&mut message) {
            Ok(Some(fds)) => fds,
            Ok(None) => return 0,
            Err(_) => return 1,
        };
        let request = picktwo_wire::decode(&message);
        let result = match &request {
            Ok(request) => perform(request, fds),
            Err(_) => Err(Errno::EBADMSG),
        };
        let reply = SocketReply {
            errno: result.as_ref().err().map_or(0, |errno| *errno as i32),
        };
        let Ok(bytes) = picktwo_wire::encode(&reply) else {
            return 1;
        };
        let made: Vec<_> = result.iter().flatten().map(AsFd::as_fd).collect();
        if !answer(channel, &bytes, &made) || matches!(request, Ok(SocketRequest::End)) {
            return 0;
        }
    }
}

/// Sends an answer. Where its descriptor cannot travel, as too many of this user's are under way between others (`ETOOMANYREFS`), the
/// asker gets an error and the session goes on. `false`: nobody is left to answer.
pub(crate) fn answer(channel: &Channel, bytes: &[u8], made: &[BorrowedFd<'_>]) -> bool {
    match channel.send(bytes, made) {
        Ok(()) => true,
        Err(picktwo_confine::Error::ChannelSend {
            errno: Errno::ETOOMANYREFS,
        }) => {
            let reply = SocketReply {
                errno: Errno::ENFILE as i32,
            };
            picktwo_wire::encode(&reply).is_ok_and(|bytes| channel.send(&bytes, &[]).is_ok())
        }
        Err(_) => false,
    }
}

/// Carries out one request: the launcher has decided on it, and this is what it can decide.
fn perform(request: &SocketRequest, mut fds: Vec<OwnedFd>) -> Result<Option<OwnedFd>, Errno> {
    let family = |number: i32| number == AddressFamily::Inet as i32 || number == AddressFamily::Inet6 as i32;
    match request {
        SocketRequest::Socket { domain, kind, protocol } => {
            let base = kind & !(SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC).bits();
            let plain = match protocol {
                0 => base == SockType::Stream as i32 || base == SockType::Datagram as i32,
                6 => base == SockType::Stream as i32,
                17 => base == SockType::Datagram as i32,
                _ => false,
            };
            // UNIX ones, too: their automatic names and their interface requests are those of the namespace that they were made in.
            let local = *domain == AddressFamily::Unix as i32 && base == SockType::Stream as i32 && *protocol == 0;
            if !local && (!family(*domain) || !plain) {
                return Err(Errno::EACCES);
            }
            sys::socket(*domain, *kind, *protocol).map(Some)
        }
        SocketRequest::Connect { address } => {
            let fd = only(&mut fds)?;
            let unspecified = family_of(address)? == AddressFamily::Unspec as i32;
            if !unspecified && !family(family_of(address)?) {
                return Err(Errno::EACCES);
            }
            // One that would wait stalls every other request of the session.
            if sys::status_flags(fd.as_fd())? & nix::fcntl::OFlag::O_NONBLOCK.bits() == 0 {
                return Err(Errno::EACCES);
            }
            sys::connect(fd.as_fd(), address).map(|()| None)
        }
        SocketRequest::Bind { address } => {
            let fd = only(&mut fds)?;
            if !family(family_of(address)?) {
                return Err(Errno::EACCES);
            }
            sys::bind(fd.as_fd(), address).map(|()| None)
        }
        SocketRequest::End => end_all().map(|()| None),
    }
}

/// Kills every process of this pid namespace but this one, and waits until none is left. One that forks meanwhile does not escape:
/// a fork does not finish in a process that has such a signal pending (`copy_process`).
fn end_all() -> Result<(), Errno> {
    let everybody = nix::unistd::Pid::from_raw(-1);
    match nix::sys::signal::kill(everybody, Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => return Err(errno),
    }
    loop {
        // With SIGCHLD ignored this waits for the last child, and says that there is none.
        match nix::sys::wait::waitpid(everybody, None) {
            Err(Errno::ECHILD) => return Ok(()),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn only(fds: &mut Vec<OwnedFd>) -> Result<OwnedFd, Errno> {
    match fds.len() {
        1 => fds.pop().ok_or(Errno::EBADF),
        _ => Err(Errno::EBADF),
    }
}

fn family_of(address: &[u8]) -> Result<i32, Errno> {
    match address {
        [first, second, ..] if address.len() <= ADDRESS_MAX => Ok(u16::from_ne_bytes([*first, *second]).into()),
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(domain: i32, kind: i32, protocol: i32) -> Result<Option<OwnedFd>, Errno> {
        perform(&SocketRequest::Socket { domain, kind, protocol }, vec![])
    }

    #[test]
    fn only_internet_stream_and_datagram_sockets_are_made() {
        let (inet, stream, datagram) = (
            AddressFamily::Inet as i32,
            SockType::Stream as i32,
            SockType::Datagram as i32,
        );
        assert!(socket(inet, stream, 0).unwrap().is_some());
        assert!(
            socket(
                AddressFamily::Inet6 as i32,
                datagram | SockFlag::SOCK_NONBLOCK.bits(),
                17
            )
            .unwrap()
            .is_some()
        );
        for (domain, kind, protocol) in [
            (AddressFamily::Unix as i32, datagram, 0),
            (AddressFamily::Netlink as i32, datagram, 0),
            (AddressFamily::Packet as i32, datagram, 0),
            (AddressFamily::Vsock as i32, stream, 0),
            (inet, SockType::Raw as i32, 1),
            (inet, stream, 17),
            // MPTCP
            (inet, stream, 262),
        ] {
            assert_eq!(
                socket(domain, kind, protocol).unwrap_err(),
                Errno::EACCES,
                "{domain} {kind} {protocol}"
            );
        }
    }

    #[test]
    fn a_socket_that_would_wait_and_foreign_addresses_are_refused() {
        let blocking = socket(AddressFamily::Inet as i32, SockType::Stream as i32, 0)
            .unwrap()
            .unwrap();
        let loopback = [2u8, 0, 0, 9, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
        let connect = |fds| {
            perform(
                &SocketRequest::Connect {
                    address: loopback.clone(),
                },
                fds,
            )
            .map(drop)
        };
        assert_eq!(connect(vec![blocking]), Err(Errno::EACCES));
        assert_eq!(connect(vec![]), Err(Errno::EBADF));
        let fd = || {
            socket(
                AddressFamily::Inet as i32,
                SockType::Stream as i32 | SockFlag::SOCK_NONBLOCK.bits(),
                0,
            )
            .unwrap()
            .unwrap()
        };
        let unix = b"\x01\x00/tmp/x\0".to_vec();
        assert_eq!(
            perform(&SocketRequest::Connect { address: unix.clone() }, vec![fd()]).map(drop),
            Err(Errno::EACCES)
        );
        assert_eq!(
            perform(&SocketRequest::Bind { address: unix }, vec![fd()]).map(drop),
            Err(Errno::EACCES)
        );
        assert_eq!(
            perform(&SocketRequest::Bind { address: vec![2] }, vec![fd()]).map(drop),
            Err(Errno::EINVAL)
        );
        assert_eq!(
            perform(&SocketRequest::Bind { address: vec![2; 200] }, vec![fd()]).map(drop),
            Err(Errno::EINVAL)
        );
    }
}
