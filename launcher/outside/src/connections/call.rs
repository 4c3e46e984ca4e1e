//! The arguments of a retriever's `socket` and `connect`, copied once and read strictly.

use nix::sys::socket::{AddressFamily, SockFlag};
use picktwo_confine::notify::Request;
use picktwo_confine::{Errno, memory};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

// linux/socket.h, linux/in6.h: sizes of the address structures.
const SOCKADDR_STORAGE: usize = 128;
const SOCKADDR_IN: usize = 16;
/// Without `sin6_scope_id` (RFC 2133): what the kernel still takes.
const SOCKADDR_IN6_SHORT: usize = 24;
const SOCKADDR_IN6: usize = 28;
// linux/net.h: the type is in the low four bits.
const TYPE_MASK: i32 = 0xf;

/// A `socket` call that may be made on the caller's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSocket {
    /// `Inet` or `Inet6`.
    pub(crate) family: AddressFamily,
    /// `SOCK_CLOEXEC` and `SOCK_NONBLOCK`, as asked.
    pub(crate) flags: SockFlag,
}

/// Reads the arguments of `socket(2)`, all of them ints: only TCP over IPv4 or IPv6.
pub(crate) fn socket(request: &Request) -> Result<NewSocket, Errno> {
    let [domain, kind, protocol] = [0, 1, 2].map(|i| request.int(i));
    let family = match domain {
        nix::libc::AF_INET => AddressFamily::Inet,
        nix::libc::AF_INET6 => AddressFamily::Inet6,
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    let flags = SockFlag::from_bits(kind & !TYPE_MASK).ok_or(Errno::EINVAL)?;
    if kind & TYPE_MASK != nix::libc::SOCK_STREAM || !matches!(protocol, 0 | nix::libc::IPPROTO_TCP) {
        return Err(Errno::EACCES);
    }
    Ok(NewSocket { family, flags })
}

/// Reads the address of `connect(2)`: copied once, whole, as many bytes as announced.
pub(crate) fn address(request: &Request) -> Result<SocketAddr, Errno> {
    let length = usize::try_from(request.int(2)).map_err(|_| Errno::EINVAL)?;
    if length > SOCKADDR_STORAGE {
        return Err(Errno::EINVAL);
    }
    let mut bytes = [0; SOCKADDR_STORAGE];
    let bytes = &mut bytes[..length];
    memory::read_exact(request.pid, request.args[1], bytes).map_err(|e| match e.errno() {
        // As the kernel; whoever made itself unreadable is refused.
        Some(Errno::EFAULT) => Errno::EFAULT,
        _ => Errno::EACCES,
    })?;
    parse(bytes)
}

fn parse(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    if bytes.len() < SOCKADDR_IN {
        return Err(Errno::EINVAL);
    }
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
        nix::libc::AF_INET => Ok(SocketAddr::from((
            Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]),
            port,
        ))),
        nix::libc::AF_INET6 => {
            let ip = bytes
                .get(8..SOCKADDR_IN6_SHORT)
                .and_then(|b| <[u8; 16]>::try_from(b).ok())
                .ok_or(Errno::EINVAL)?;
            let scope = bytes
                .get(24..SOCKADDR_IN6)
                .and_then(|b| <[u8; 4]>::try_from(b).ok())
                .map_or(0, u32::from_ne_bytes);
            // Only link-local addresses have a zone, and those are never granted.
            if scope != 0 {
                return Err(Errno::ENETUNREACH);
            }
            Ok(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, 0).into())
        }
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(args: [u64; 6]) -> Request {
        Request {
            id: 1,
            pid: std::process::id() as i32,
            nr: 0,
            args,
        }
    }

    #[test]
    fn only_tcp_sockets_are_made() {
        let call = |d: i64, t: i64, p: i64| socket(&request([d as u64, t as u64, p as u64, 0, 0, 0]));
        let (none, all) = (SockFlag::empty(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
        assert_eq!(
            call(2, 1, 0),
            Ok(NewSocket {
                family: AddressFamily::Inet,
                flags: none
            })
        );
        assert_eq!(
            call(10, 1 | 0o2004000, 6),
            Ok(NewSocket {
                family: AddressFamily::Inet6,
                flags: all
            })
        );
        // The high half of the registers is not part of an int.
        assert_eq!(
            call(2 | 1 << 32, 1 | 7 << 40, -1 << 32),
            Ok(NewSocket {
                family: AddressFamily::Inet,
                flags: none
            })
        );
        for family in [0, 1, 16, 17, 38, 40, -1] {
            assert_eq!(call(family, 1, 0), Err(Errno::EAFNOSUPPORT), "{family}");
        }
        for (kind, protocol) in [
            (2, 0),
            (2, 17),
            (3, 1),
            (5, 132),
            (1, 132),
            (1, 262),
            (1, 1),
            (1, -1),
            (10, 0),
        ] {
            assert_eq!(call(2, kind, protocol), Err(Errno::EACCES), "{kind} {protocol}");
        }
        assert_eq!(call(2, 1 | 1 << 5, 0), Err(Errno::EINVAL));
    }

    fn v4() -> Vec<u8> {
        let mut bytes = 2_u16.to_ne_bytes().to_vec();
        bytes.extend([0x1f, 0x90, 127, 0, 0, 1]);
        bytes.resize(16, 0xee);
        bytes
    }

    fn v6(scope: u32) -> Vec<u8> {
        let mut bytes = 10_u16.to_ne_bytes().to_vec();
        bytes.extend([0, 80, 9, 9, 9, 9]);
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend(scope.to_ne_bytes());
        bytes
    }

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let long = |mut bytes: Vec<u8>| {
            bytes.resize(128, 7);
            bytes
        };
        for (bytes, expected) in [
            (v4(), "127.0.0.1:8080"),
            (long(v4()), "127.0.0.1:8080"),
            (v6(0), "[::1]:80"),
            (v6(0)[..24].to_vec(), "[::1]:80"),
            (long(v6(0)), "[::1]:80"),
        ] {
            assert_eq!(parse(&bytes), Ok(expected.parse().expect("an address")), "{bytes:?}");
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for length in 0..16 {
            assert_eq!(parse(&v4()[..length]), Err(Errno::EINVAL), "{length}");
        }
        for length in 16..24 {
            assert_eq!(parse(&v6(0)[..length]), Err(Errno::EINVAL), "{length}");
        }
        assert_eq!(parse(&v6(2)), Err(Errno::ENETUNREACH));
        for family in [0_u16, 1, 16, 38, 40, 0x0200] {
            let bytes = [family.to_ne_bytes().as_slice(), &[0; 14]].concat();
            assert_eq!(parse(&bytes), Err(Errno::EAFNOSUPPORT), "{family}");
        }
    }

    #[test]
    fn the_address_is_copied_from_the_caller() {
        let bytes = v4();
        let at = bytes.as_ptr() as u64;
        let read = |address: u64, length: i64| address_of(address, length as u64);
        assert_eq!(read(at, 16), Ok("127.0.0.1:8080".parse().expect("an address")));
        assert_eq!(
            read(at, 16 | 5 << 32),
            Ok("127.0.0.1:8080".parse().expect("an address"))
        );
        assert_eq!(read(at, 15), Err(Errno::EINVAL));
        assert_eq!(read(at, -1), Err(Errno::EINVAL));
        assert_eq!(read(at, 129), Err(Errno::EINVAL));
        assert_eq!(read(0, 16), Err(Errno::EFAULT));
    }

    fn address_of(pointer: u64, length: u64) -> Result<SocketAddr, Errno> {
        address(&request([0, pointer, length, 0, 0, 0]))
    }
}
