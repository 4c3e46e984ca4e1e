//! What is local to, or on a link of, this host: addresses that are refused although they may be public ones.
//!
//! The kernel's own tables are read, and read again at every decision through descriptors that are opened before the lock:
//! a laptop changes networks while a session lives.

use nix::net::if_::InterfaceFlags;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    base: IpAddr,
    length: u8,
}

impl Range {
    fn contains(self, ip: IpAddr) -> bool {
        match (self.base, ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                base.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                base.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        }
    }
}

/// The kernel's address and routing tables of this network namespace.
pub(crate) struct Neighbourhood {
    /// `/proc/net/fib_trie`: local IPv4 addresses, of every routing table.
    fib_trie: File,
    /// `/proc/net/route`: the IPv4 main table with its devices.
    route: File,
    /// `/proc/net/ipv6_route`: IPv6 local and on-link routes; absent where IPv6 is off.
    ipv6_route: Option<File>,
    /// Addresses and networks of the interfaces when this was opened.
    interfaces: Vec<Range>,
    /// Devices whose routes lead to one far end, not to neighbours (tunnels).
    tunnels: Vec<String>,
}

/// Why the tables could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// A file of /proc/net.
    Table(&'static str, io::Error),
    /// The list of interfaces (getifaddrs(3)).
    Interfaces(nix::Error),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Table(path, e) => write!(f, "cannot open {path}: {e}"),
            Self::Interfaces(e) => write!(f, "cannot list the network interfaces: {e}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Bytes of one table that are read; a table with more entries makes every decision a refusal.
const MAX_TABLE: u64 = 4 << 20;

impl Neighbourhood {
    /// Opens the tables and lists the interfaces. To be called before the lock.
    ///
    /// # Errors
    /// [`OpenError`] with the object that could not be read.
    pub(crate) fn open() -> Result<Self, OpenError> {
        let table = |path| File::open(path).map_err(|e| OpenError::Table(path, e));
        let (interfaces, tunnels) = interfaces().map_err(OpenError::Interfaces)?;
        Ok(Self {
            fib_trie: table("/proc/net/fib_trie")?,
            route: table("/proc/net/route")?,
            ipv6_route: match table("/proc/net/ipv6_route") {
                Err(OpenError::Table(_, e)) if e.kind() == io::ErrorKind::NotFound => None,
                other => Some(other?),
            },
            interfaces,
            tunnels,
        })
    }

    /// Whether `ip` is an address of this host or of a network it is attached to, now.
    ///
    /// # Errors
    /// If a table cannot be read; the caller then refuses.
    pub(crate) fn contains(&mut self, ip: IpAddr) -> io::Result<bool> {
        let ip = ip.to_canonical();
        if self.interfaces.iter().any(|r| r.contains(ip)) {
            return Ok(true);
        }
        let ranges = match ip {
            IpAddr::V4(_) => {
                let mut ranges = local_v4(&reread(&mut self.fib_trie)?);
                ranges.extend(on_link_v4(&reread(&mut self.route)?, &self.tunnels));
                ranges
            }
            IpAddr::V6(_) => match &mut self.ipv6_route {
                Some(file) => near_v6(&reread(file)?, &self.tunnels),
                None => Vec::new(),
            },
        };
        Ok(ranges.iter().any(|r| r.contains(ip)))
    }
}

fn reread(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = String::new();
    file.take(MAX_TABLE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_TABLE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "routing table too large"));
    }
    Ok(text)
}

/// Networks of all interfaces, and the names of point-to-point ones.
fn interfaces() -> nix::Result<(Vec<Range>, Vec<String>)> {
    let (mut ranges, mut tunnels) = (Vec::new(), Vec::new());
    for interface in nix::ifaddrs::getifaddrs()? {
        let tunnel = interface.flags.contains(InterfaceFlags::IFF_POINTOPOINT);
        if tunnel && !tunnels.contains(&interface.interface_name) {
            tunnels.push(interface.interface_name.clone());
        }
        let ip = |s: Option<&nix::sys::socket::SockaddrStorage>| -> Option<IpAddr> {
            let s = s?;
            s.as_sockaddr_in()
                .map(|a| IpAddr::V4(a.ip()))
                .or_else(|| s.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        };
        let Some(base) = ip(interface.address.as_ref()) else {
            continue;
        };
        let bits = |mask: IpAddr| match mask {
            IpAddr::V4(m) => m.to_bits().count_ones(),
            IpAddr::V6(m) => m.to_bits().count_ones(),
        };
        let whole = if base.is_ipv4() { 32 } else { 128 };
        // The far side of a tunnel is not a neighbour; the own address always is.
        let length = if tunnel {
            whole
        } else {
            ip(interface.netmask.as_ref()).map_or(whole, bits)
        };
        if let Ok(length @ 1..) = u8::try_from(length) {
            ranges.push(Range { base, length });
        }
    }
    Ok((ranges, tunnels))
}

/// Local addresses of /proc/net/fib_trie: a leaf `|-- ADDRESS` is followed by lines `/LENGTH SCOPE TYPE`.
fn local_v4(text: &str) -> Vec<Range> {
    let mut ranges = Vec::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.trim().parse().ok();
        } else if let (Some(base), Some(entry)) = (leaf, line.strip_prefix('/')) {
            let mut words = entry.split_ascii_whitespace();
            let length = words.next().and_then(|w| w.parse().ok());
            let local = matches!(words.nth(1), Some("LOCAL" | "BROADCAST" | "ANYCAST" | "MULTICAST"));
            if let (Some(length @ 1..=32), true) = (length, local) {
                ranges.push(Range {
                    base: base.into(),
                    length,
                });
            }
        }
    }
    ranges
}

/// Routes of /proc/net/route without a gateway: `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses in
/// hexadecimal, in the machine's byte order.
fn on_link_v4(text: &str, tunnels: &[String]) -> Vec<Range> {
    let address = |word: &str| {
        u32::from_str_radix(word, 16)
            .ok()
            .map(|n| u32::from_be_bytes(n.to_ne_bytes()))
    };
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [device, destination, gateway, _, _, _, _, mask, ..] = words.as_slice() else {
            return None;
        };
        let mask = address(mask)?;
        let near = address(gateway)? == 0 && mask != 0 && !tunnels.iter().any(|t| t == device);
        let range = Range {
            base: Ipv4Addr::from_bits(address(destination)?).into(),
            length: u8::try_from(mask.count_ones()).ok()?,
        };
        near.then_some(range)
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// Routes of /proc/net/ipv6_route that are local or have no next hop: `destination length source length next-hop metric
/// references use flags device`, all in hexadecimal.
fn near_v6(text: &str, tunnels: &[String]) -> Vec<Range> {
    // linux/route.h and linux/ipv6_route.h.
    const RTF_REJECT: u32 = 0x0200;
    const RTF_ANYCAST: u32 = 0x0010_0000;
    const RTF_LOCAL: u32 = 0x8000_0000;
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [destination, length, _, _, next_hop, _, _, _, flags, device] = words.as_slice() else {
            return None;
        };
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let length = u8::from_str_radix(length, 16).ok()?;
        let own = flags & (RTF_LOCAL | RTF_ANYCAST) != 0;
        let on_link = u128::from_str_radix(next_hop, 16).ok()? == 0
            && flags & RTF_REJECT == 0
            && !tunnels.iter().any(|t| t == device);
        let base = Ipv6Addr::from_bits(u128::from_str_radix(destination, 16).ok()?).into();
        (length > 0 && (own || on_link)).then_some(Range { base, length })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn any(ranges: &[Range], text: &str) -> bool {
        ranges.iter().any(|r| r.contains(ip(text)))
    }

    #[test]
    fn ranges_end_where_they_end() {
        let r = Range {
            base: ip("93.184.216.128"),
            length: 25,
        };
        assert!(r.contains(ip("93.184.216.255")) && !r.contains(ip("93.184.216.127")) && !r.contains(ip("::1")));
        let r = Range {
            base: ip("2a00::"),
            length: 127,
        };
        assert!(r.contains(ip("2a00::1")) && !r.contains(ip("2a00::2")));
        assert!(
            Range {
                base: ip("1.2.3.4"),
                length: 32
            }
            .contains(ip("1.2.3.4"))
        );
    }

    #[test]
    fn local_addresses_come_from_every_table() {
        let text = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 93.184.0.0/16 2 0 2
        |-- 93.184.216.34
           /32 host LOCAL
        |-- 93.184.0.0
           /16 link UNICAST
        |-- 93.184.255.255
           /32 link BROADCAST
Id 51820:
     |-- 8.8.8.0
        /24 host LOCAL
";
        let ranges = local_v4(text);
        for inside in ["93.184.216.34", "93.184.255.255", "8.8.8.8"] {
            assert!(any(&ranges, inside), "{inside}");
        }
        for outside in ["93.184.216.35", "0.0.0.0", "1.1.1.1"] {
            assert!(!any(&ranges, outside), "{outside}");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn on_link_routes_are_those_without_gateway() {
        let text = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00D8B85D\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth0\t00010108\t0102A8C0\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0
wg0\t00000080\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0
";
        let ranges = on_link_v4(text, &["wg0".to_owned()]);
        assert_eq!(
            ranges,
            [Range {
                base: ip("93.184.216.0"),
                length: 24
            }]
        );
    }

    #[test]
    fn ipv6_routes_that_are_own_or_on_link() {
        let text = "\
2a010000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000002 00000000 00000003     eth0
2a020000000000000000000000000000 20 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000002 00000000 00000003     eth0
2a030000000000000000000000000002 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000003 00000000 80200001     wg0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
2a040000000000000000000000000000 20 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001      wg0
";
        let ranges = near_v6(text, &["wg0".to_owned()]);
        for inside in ["2a01::9", "2a03::2"] {
            assert!(any(&ranges, inside), "{inside}");
        }
        for outside in ["2a02::9", "2a03::3", "2a04::1", "2606:4700::1"] {
            assert!(!any(&ranges, outside), "{outside}");
        }
    }

    #[test]
    fn this_host_is_found_again_and_again() {
        let mut here = Neighbourhood::open().expect("tables");
        for _ in 0..3 {
            assert!(here.contains(ip("127.0.0.1")).expect("read"));
            assert!(here.contains(ip("::ffff:127.0.0.1")).expect("read"));
        }
        here.interfaces.clear();
        assert!(
            here.contains(ip("127.9.9.9")).expect("read"),
            "found through the tables alone"
        );
    }
}
