//! The broker: makes the internet sockets of a session without a network namespace, and connects them to the gateway, the one
//! address that there is for it.
//!
//! It is forked before the launcher reads any credential and confines itself: the launcher's own domain allows no TCP, and whatever
//! is below that domain cannot connect either. Its own allows the gateway's port. It holds the gateway's listening socket, too, so
//! that nobody else on this machine can get that port while the session lives, whatever becomes of the gateway.

use crate::init::{Error, LOCK, Report, gateway_socket, receive, report};
use crate::socket_request::{ADDRESS_MAX, SocketReply, SocketRequest};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType};
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::landlock::{self, Access};
use picktwo_confine::process::{self, Child};
use picktwo_confine::selfcheck::{self, SelfCheck};
use picktwo_confine::{Role, filters, limits, seccomp, sys};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

/// A broker that is up, and locks itself.
#[derive(Debug)]
pub struct Broker {
    /// It ends with the calling thread, and when `channel` is closed.
    pub child: Child,
    /// For [`crate::socket_request`], after [`crate::init::locked`].
    pub channel: Channel,
    /// The gateway's port on the host's loopback and its listening socket.
    pub gateway: Option<(u16, OwnedFd)>,
}

/// Forks it. With `gateway` it makes a listening socket first.
///
/// # Errors
/// The step that failed, here or there.
pub fn start(gateway: bool) -> Result<Broker, Error> {
    let (ours, theirs) = channel::pair()?;
    let child = process::fork_bound("the session's broker", || first(gateway, theirs))?;
    let (Report::Ready { gateway: port, .. }, mut fds) = receive(&ours)? else {
        return Err(Error::Ended);
    };
    let gateway = match (port, fds.pop()) {
        (Some(port), Some(fd)) => Some((port, fd)),
        (None, None) => None,
        _ => return Err(Error::Ended),
    };
    ours.send(LOCK, &[])?;
    Ok(Broker {
        child,
        channel: ours,
        gateway,
    })
}

fn first(gateway: bool, channel: Channel) -> u8 {
    // Out of the terminal's reach: signals of its keys are for the command.
    let _ = nix::unistd::setsid();
    let channel = match process::become_role_in_place(Role::Broker, channel) {
        Ok(channel) => channel,
        Err(error) => {
            // If that failed late, the channel is where a role has it.
            if let Ok(channel) = Channel::from_parent() {
                let _ = report(&channel, &Report::failed(&error), &[]);
            }
            return 1;
        }
    };
    let socket = match gateway.then(gateway_socket).transpose() {
        Ok(socket) => socket,
        Err(error) => {
            let failed = Report::Failed {
                sentence: error.to_string(),
                errno: error.errno().map(|e| e as i32),
            };
            let _ = report(&channel, &failed, &[]);
            return 1;
        }
    };
    let port = socket.as_ref().map(|(port, _)| *port);
    let ready = Report::Ready {
        gateway: port,
        tools: false,
        steps: Vec::new(),
    };
    let fds: Vec<_> = socket.iter().map(|(_, fd)| fd.as_fd()).collect();
    if report(&channel, &ready, &fds).is_err() {
        return 1;
    }
    match lock(&channel, port) {
        Ok(true) => serve(&channel, port),
        Ok(false) => 0,
        Err(error) => {
            let _ = report(&channel, &Report::failed(&error), &[]);
            1
        }
    }
}

/// Locks this process and says so. `false`: the launcher went away.
fn lock(channel: &Channel, port: Option<u16>) -> picktwo_confine::Result<bool> {
    let mut message = Vec::new();
    if channel.recv(&mut message)?.is_none() || message != LOCK {
        return Ok(false);
    }
    process::set_dumpable(false)?;
    limits::core_limit()?;
    limits::new_session_keyring()?;
    limits::no_new_privs()?;
    let check = SelfCheck::prepare()?;
    let bounding_empty = limits::drop_all_capabilities()?;
    let access = port.into_iter().fold(Access::none(), Access::connect_port);
    landlock::restrict(access)?;
    let filter = filters::for_role(Role::Broker);
    seccomp::install(&filter)?;
    check.locked(bounding_empty, &selfcheck::denied_by(&filter))?;
    drop(check);
    report(channel, &Report::Locked, &[])?;
    Ok(true)
}

fn serve(channel: &Channel, port: Option<u16>) -> u8 {
    let mut message = Vec::new();
    loop {
        let fds = match channel.recv(&mut message) {
            Ok(Some(fds)) => fds,
            Ok(None) => return 0,
            Err(_) => return 1,
        };
        let result = match picktwo_wire::decode(&message) {
            Ok(request) => perform(&request, fds, port),
            Err(_) => Err(Errno::EBADMSG),
        };
        let reply = SocketReply {
            errno: result.as_ref().err().map_or(0, |errno| *errno as i32),
        };
        let Ok(bytes) = picktwo_wire::encode(&reply) else {
            return 1;
        };
        let made: Vec<_> = result.iter().flatten().map(AsFd::as_fd).collect();
        if !crate::init::answer(channel, &bytes, &made) {
            return 0;
        }
    }
}

/// Carries out one request, if it is one that a session without namespaces may have.
fn perform(request: &SocketRequest, fds: Vec<OwnedFd>, port: Option<u16>) -> Result<Option<OwnedFd>, Errno> {
    match request {
        SocketRequest::Socket { domain, kind, protocol } => {
            let internet = [AddressFamily::Inet as i32, AddressFamily::Inet6 as i32].contains(domain);
            let base = kind & !(SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC).bits();
            if !internet || base != SockType::Stream as i32 || ![0, 6].contains(protocol) {
                return Err(Errno::EACCES);
            }
            sys::socket(*domain, *kind, *protocol).map(Some)
        }
        SocketRequest::Connect { address } => {
            let [fd] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| Errno::EBADF)?;
            if address.len() > ADDRESS_MAX || port.is_none() || gateway_port(address) != port {
                return Err(Errno::ENETUNREACH);
            }
            // One that would wait stalls every other request of the session.
            if sys::status_flags(fd.as_fd())? & nix::fcntl::OFlag::O_NONBLOCK.bits() == 0 {
                return Err(Errno::EACCES);
            }
            sys::connect(fd.as_fd(), address).map(|()| None)
        }
        // It ends no process: the keeper does.
        SocketRequest::Bind { .. } | SocketRequest::End => Err(Errno::EACCES),
    }
}

/// The port that an address names on 127.0.0.1, spelled as an IPv4 address or as the IPv6 one that stands for it. Anything else is
/// no gateway's.
pub(crate) fn gateway_port(address: &[u8]) -> Option<u16> {
    const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
    const MAPPED: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
    let (family, rest) = address.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let is_gateway = match i32::from(u16::from_ne_bytes(*family)) {
        // sockaddr_in: address, eight bytes that the kernel ignores.
        family if family == AddressFamily::Inet as i32 => rest.len() >= 12 && rest[..4] == LOOPBACK,
        // sockaddr_in6: flow, address, scope.
        family if family == AddressFamily::Inet6 as i32 => rest.len() >= 24 && rest[4..20] == MAPPED,
        _ => false,
    };
    is_gateway.then(|| u16::from_be_bytes(*port))
}

/// Whether an internet address names this machine: its loopback, or no address in particular.
pub(crate) fn is_loopback(address: &[u8]) -> bool {
    let Some((family, rest)) = address.split_first_chunk::<2>() else {
        return false;
    };
    match i32::from(u16::from_ne_bytes(*family)) {
        family if family == AddressFamily::Inet as i32 => {
            let ip = rest
                .get(2..6)
                .and_then(|ip| <[u8; 4]>::try_from(ip).ok())
                .map(Ipv4Addr::from);
            ip.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified())
        }
        family if family == AddressFamily::Inet6 as i32 => {
            let ip = rest
                .get(6..22)
                .and_then(|ip| <[u8; 16]>::try_from(ip).ok())
                .map(Ipv6Addr::from);
            ip.is_some_and(|ip| {
                let mapped = ip
                    .to_ipv4_mapped()
                    .is_some_and(|ip| ip.is_loopback() || ip.is_unspecified());
                ip.is_loopback() || ip.is_unspecified() || mapped
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(address: [u8; 4], port: u16) -> Vec<u8> {
        [&2u16.to_ne_bytes()[..], &port.to_be_bytes(), &address, &[0; 8]].concat()
    }

    fn inet6(address: std::net::Ipv6Addr, port: u16) -> Vec<u8> {
        [
            &10u16.to_ne_bytes()[..],
            &port.to_be_bytes(),
            &[0; 4],
            &address.octets(),
            &[0; 4],
        ]
        .concat()
    }

    #[test]
    fn one_address_is_the_gateways() {
        assert_eq!(gateway_port(&inet([127, 0, 0, 1], 80)), Some(80));
        assert_eq!(gateway_port(&inet6("::ffff:127.0.0.1".parse().unwrap(), 80)), Some(80));
        for other in [
            inet([127, 0, 0, 2], 80),
            inet([0, 0, 0, 0], 80),
            inet([192, 0, 2, 1], 80),
            inet6("::1".parse().unwrap(), 80),
            inet6("::127.0.0.1".parse().unwrap(), 80),
            inet([127, 0, 0, 1], 80)[..15].to_vec(),
            [&1u16.to_ne_bytes()[..], b"/tmp/x\0"].concat(),
            vec![2],
            vec![],
        ] {
            assert_eq!(gateway_port(&other), None, "{other:?}");
        }
    }

    #[test]
    fn this_machines_own_addresses() {
        for own in [
            inet([127, 0, 0, 1], 1),
            inet([127, 9, 9, 9], 1),
            inet([0; 4], 1),
            inet6("::1".parse().unwrap(), 1),
            inet6("::".parse().unwrap(), 1),
            inet6("::ffff:127.0.0.2".parse().unwrap(), 1),
        ] {
            assert!(is_loopback(&own), "{own:?}");
        }
        for other in [
            inet([192, 0, 2, 1], 1),
            inet6("2001:db8::1".parse().unwrap(), 1),
            vec![2],
            vec![],
        ] {
            assert!(!is_loopback(&other), "{other:?}");
        }
    }

    #[test]
    fn only_tcp_sockets_are_made_and_only_the_gateways_port_is_connected() {
        let stream = SockType::Stream as i32;
        let socket = |domain, kind, protocol| {
            perform(&SocketRequest::Socket { domain, kind, protocol }, vec![], Some(9)).map(|fd| fd.is_some())
        };
        assert_eq!(socket(AddressFamily::Inet as i32, stream, 6), Ok(true));
        for (domain, kind, protocol) in [
            (AddressFamily::Inet as i32, SockType::Datagram as i32, 0),
            (AddressFamily::Inet as i32, SockType::Raw as i32, 1),
            (AddressFamily::Inet as i32, stream, 262),
            (AddressFamily::Unix as i32, stream, 0),
            (AddressFamily::Vsock as i32, stream, 0),
        ] {
            assert_eq!(
                socket(domain, kind, protocol),
                Err(Errno::EACCES),
                "{domain} {kind} {protocol}"
            );
        }
        let connect = |port, gateway| {
            let fd = sys::socket(AddressFamily::Inet as i32, stream | SockFlag::SOCK_NONBLOCK.bits(), 0).unwrap();
            let address = inet([127, 0, 0, 1], port);
            perform(&SocketRequest::Connect { address }, vec![fd], gateway).map(drop)
        };
        assert_eq!(connect(9, Some(10)), Err(Errno::ENETUNREACH));
        assert_eq!(connect(9, None), Err(Errno::ENETUNREACH));
        let (port, _listening) = gateway_socket().unwrap();
        assert!(matches!(connect(port, Some(port)), Ok(()) | Err(Errno::EINPROGRESS)));
        let bind = SocketRequest::Bind {
            address: inet([127, 0, 0, 1], 0),
        };
        assert!(matches!(perform(&bind, vec![], Some(port)), Err(Errno::EACCES)));
    }
}
