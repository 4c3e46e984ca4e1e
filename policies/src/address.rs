//! Which addresses are public. Everything that is not is refused to a retriever, in every form that embeds it.
//!
//! Sources: the IANA special-purpose registries (RFC 6890 and its updates), RFC 6052 (NAT64), RFC 3056 (6to4), RFC 4380
//! (Teredo), RFC 5214 (ISATAP), and the metadata services of the large clouds. Whether an address is local or on-link for
//! this host is not known here: the process that connects checks that as well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The range, e.g. `10.0.0.0/8`.
    pub range: &'static str,
    /// What it is for, e.g. `private`.
    pub what: &'static str,
    /// The IPv4 address that an IPv6 address embeds, if that is what was refused.
    pub embedded: Option<Ipv4Addr>,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(v4) = self.embedded {
            write!(f, "embeds {v4}: ")?;
        }
        write!(f, "{} ({})", self.what, self.range)
    }
}

impl std::error::Error for Why {}

struct V4(u32, u32, &'static str, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32, range: &'static str, what: &'static str) -> V4 {
    V4(u32::from_be_bytes([a, b, c, d]), bits, range, what)
}

const IPV4: &[V4] = &[
    v4(0, 0, 0, 0, 8, "0.0.0.0/8", "this network"),
    v4(10, 0, 0, 0, 8, "10.0.0.0/8", "private"),
    v4(
        100,
        64,
        0,
        0,
        10,
        "100.64.0.0/10",
        "shared by carriers; a cloud's metadata service",
    ),
    v4(127, 0, 0, 0, 8, "127.0.0.0/8", "loopback"),
    v4(
        169,
        254,
        0,
        0,
        16,
        "169.254.0.0/16",
        "link-local; a cloud's metadata service",
    ),
    v4(172, 16, 0, 0, 12, "172.16.0.0/12", "private"),
    v4(
        192,
        0,
        0,
        0,
        24,
        "192.0.0.0/24",
        "protocol assignments; a cloud's metadata service",
    ),
    v4(192, 0, 2, 0, 24, "192.0.2.0/24", "documentation"),
    v4(192, 88, 99, 0, 24, "192.88.99.0/24", "6to4 relay"),
    v4(192, 168, 0, 0, 16, "192.168.0.0/16", "private"),
    v4(198, 18, 0, 0, 15, "198.18.0.0/15", "benchmarking"),
    v4(198, 51, 100, 0, 24, "198.51.100.0/24", "documentation"),
    v4(203, 0, 113, 0, 24, "203.0.113.0/24", "documentation"),
    v4(168, 63, 129, 16, 32, "168.63.129.16/32", "a cloud's host agent"),
    v4(224, 0, 0, 0, 4, "224.0.0.0/4", "multicast"),
    v4(240, 0, 0, 0, 4, "240.0.0.0/4", "reserved or broadcast"),
];

struct V6([u16; 8], u32, &'static str, &'static str);

const IPV6: &[V6] = &[
    V6([0, 0, 0, 0, 0, 0, 0, 0], 128, "::/128", "unspecified"),
    V6([0, 0, 0, 0, 0, 0, 0, 1], 128, "::1/128", "loopback"),
    V6([0, 0, 0, 0, 0, 0, 0, 0], 96, "::/96", "IPv4-compatible"),
    V6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "::ffff:0:0:0/96", "IPv4-translated"),
    V6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "64:ff9b:1::/48", "local NAT64"),
    V6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "100::/64", "discard"),
    V6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, "100:0:0:1::/64", "dummy prefix"),
    V6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "2001::/32", "Teredo"),
    V6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "2001::/23", "protocol assignments"),
    V6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "2001:db8::/32", "documentation"),
    V6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "2002::/16", "6to4"),
    V6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "3fff::/20", "documentation"),
    V6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "5f00::/16", "segment routing"),
    V6(
        [0xfc00, 0, 0, 0, 0, 0, 0, 0],
        7,
        "fc00::/7",
        "unique local; a cloud's metadata service",
    ),
    V6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "fe80::/10", "link-local"),
    V6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "fec0::/10", "site-local"),
    V6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "ff00::/8", "multicast"),
];

/// Whether an address may be connected to as a public one.
///
/// An IPv4-mapped address and one of the well-known NAT64 prefix are judged by the IPv4 address in them. Of IPv6 only
/// 2000::/3 is public, without the ranges of the table and without ISATAP identifiers of addresses that are not public.
///
/// # Errors
/// [`Why`] it is not public.
pub fn public(address: IpAddr) -> Result<(), Why> {
    match address {
        IpAddr::V4(v4) => public_v4(v4),
        IpAddr::V6(v6) => public_v6(v6),
    }
}

fn public_v4(address: Ipv4Addr) -> Result<(), Why> {
    let bits = u32::from(address);
    match IPV4.iter().find(|r| (bits ^ r.0) >> (32 - r.1) == 0) {
        Some(r) => Err(Why {
            range: r.2,
            what: r.3,
            embedded: None,
        }),
        None => Ok(()),
    }
}

fn embedded(high: u16, low: u16) -> Result<(), Why> {
    let v4 = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    public_v4(v4).map_err(|why| Why {
        embedded: Some(v4),
        ..why
    })
}

fn public_v6(address: Ipv6Addr) -> Result<(), Why> {
    let s = address.segments();
    if s[..6] == [0, 0, 0, 0, 0, 0xffff] || s[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return embedded(s[6], s[7]);
    }
    let bits = u128::from(address);
    for r in IPV6 {
        if (bits ^ u128::from(Ipv6Addr::from(r.0))) >> (128 - r.1) == 0 {
            return Err(Why {
                range: r.2,
                what: r.3,
                embedded: None,
            });
        }
    }
    if s[0] >> 13 != 1 {
        return Err(Why {
            range: "outside 2000::/3",
            what: "not global unicast",
            embedded: None,
        });
    }
    if (s[4] & !0x0200) == 0 && s[5] == 0x5efe {
        return embedded(s[6], s[7]);
    }
    Ok(())
}

/// Names, and everything below them, that belong to the local machine or network by registration or by long use, to a cloud's
/// metadata, or that resolve to whatever address they contain (RFC 6761, RFC 6762, RFC 7686, RFC 8375, RFC 9476).
const LOCAL_NAMES: &[&str] = &[
    "alt",
    "arpa",
    "cluster.local",
    "corp",
    "docker.internal",
    "home",
    "instance-data",
    "internal",
    "intranet",
    "invalid",
    "ip6-localhost",
    "ip6-loopback",
    "kubernetes.default.svc",
    "lacolhost.com",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "localtest.me",
    "lvh.me",
    "metadata.azure.com",
    "metadata.oci.oraclecloud.com",
    "metadata.packet.net",
    "nip.io",
    "onion",
    "private",
    "sslip.io",
    "svc",
    "test",
    "vcap.me",
    "xip.io",
];

/// Whether a name, in lower-case ASCII without a trailing dot, may be asked for on behalf of a page. Its addresses are judged as
/// well ([`public`]): this keeps questions about the local network from leaving, and names the reason better than an address
/// could.
#[must_use]
pub fn public_name(name: &str) -> bool {
    let within = |suffix: &&str| {
        name.strip_suffix(*suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    name.contains('.') && !LOCAL_NAMES.iter().any(within)
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
