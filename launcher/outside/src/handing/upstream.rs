//! Where the model side may connect to: exactly what the person's policy names.

use crate::names::{BadName, Host, Name};
use picktwo_wire::gateway::UpstreamAddress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A pinned upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    host: Place,
    port: u16,
    /// One of a pattern's hosts: nobody wrote its name, so only public addresses are used.
    covered: bool,
}

/// Its host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    One(Host),
    /// A name in which one `*` stands for letters, digits and hyphens.
    Pattern(String, String),
}

/// An upstream whose host is neither an address nor a name.
#[derive(Debug)]
pub(crate) struct BadUpstream {
    host: String,
    why: BadName,
}

impl std::fmt::Display for BadUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "upstream host {:?}: {}", self.host, self.why)
    }
}

impl std::fmt::Display for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Place::One(Host::Name(name)) => write!(f, "{name}:{}", self.port),
            Place::One(Host::Literal(ip)) => SocketAddr::new(*ip, self.port).fmt(f),
            Place::Pattern(before, after) => write!(f, "{before}*{after}:{}", self.port),
        }
    }
}

impl Upstream {
    pub(crate) fn new(address: &UpstreamAddress) -> Result<Self, BadUpstream> {
        let bad = |why| BadUpstream {
            host: address.host.clone(),
            why,
        };
        let host = match address.host.split_once('*') {
            None => Place::One(Host::parse(&address.host).map_err(bad)?),
            Some((before, after)) => {
                // Every host that it covers is a name if one is.
                Host::parse(&format!("{before}x{after}")).map_err(bad)?;
                Place::Pattern(before.to_owned(), after.to_owned())
            }
        };
        Ok(Self {
            host,
            port: address.port,
            covered: false,
        })
    }

    /// The upstream to connect to, for a request that names this host, or none.
    pub(crate) fn at(&self, host: Option<&str>) -> Option<Self> {
        match (&self.host, host) {
            (Place::One(_), None) => Some(self.clone()),
            (Place::Pattern(before, after), Some(host)) => {
                let free = host.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                let fits = (1..=63).contains(&free.len())
                    && free
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
                match Host::parse(host) {
                    Ok(name @ Host::Name(_)) if fits => Some(Self {
                        host: Place::One(name),
                        port: self.port,
                        covered: true,
                    }),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The name to be resolved, if it is no literal.
    pub(crate) fn name(&self) -> Option<&Name> {
        match &self.host {
            Place::One(Host::Name(name)) => Some(name),
            Place::One(Host::Literal(_)) | Place::Pattern(..) => None,
        }
    }

    /// The address, if it is a literal: the person wrote it, so it is used as it is.
    pub(crate) fn literal(&self) -> Option<SocketAddr> {
        match &self.host {
            Place::One(Host::Literal(ip)) => Some(SocketAddr::new(*ip, self.port)),
            Place::One(Host::Name(_)) | Place::Pattern(..) => None,
        }
    }

    /// The addresses of a resolved name, in the order in which they are tried: the kinds in turn (RFC 8305 §4), IPv6 first.
    /// The name is the person's choice, so loopback and private networks are fine; addresses that no model API has
    /// are left out, so that a name server cannot point the model key's carrier at a metadata service.
    pub(crate) fn usable(&self, addresses: &[IpAddr]) -> Result<Vec<SocketAddr>, String> {
        let never = |ip: IpAddr| match never(ip) {
            None if self.covered => picktwo_policies::address::public(ip).err().map(|_| "not public"),
            other => other,
        };
        let usable = |ip: &&IpAddr| never(ip.to_canonical()).is_none();
        let (v4, v6): (Vec<&IpAddr>, Vec<&IpAddr>) = addresses.iter().filter(usable).partition(|ip| ip.is_ipv4());
        let (mut v4, mut v6) = (v4.into_iter(), v6.into_iter());
        let mut ordered = Vec::new();
        loop {
            let pair = [v6.next(), v4.next()];
            if pair == [None, None] {
                break;
            }
            ordered.extend(pair.into_iter().flatten().map(|ip| SocketAddr::new(*ip, self.port)));
        }
        match (ordered.is_empty(), addresses.first()) {
            (false, _) => Ok(ordered),
            (true, None) => Err("the name has no address".to_owned()),
            (true, Some(ip)) => {
                let what = never(ip.to_canonical()).unwrap_or("not usable");
                Err(format!("its address {ip} is refused: {what}"))
            }
        }
    }
}

/// Why no model API has this address.
fn never(ip: IpAddr) -> Option<&'static str> {
    // Metadata services of clouds outside the link-local ranges.
    const METADATA_V4: [Ipv4Addr; 3] = [
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(168, 63, 129, 16),
        Ipv4Addr::new(192, 0, 0, 192),
    ];
    const METADATA_V6: [Ipv6Addr; 3] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    ];
    let (link_local, metadata) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), METADATA_V4.contains(&ip) || ip.is_broadcast()),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), METADATA_V6.contains(&ip)),
    };
    match () {
        () if link_local => Some("link-local"),
        () if metadata => Some("a metadata service"),
        () if ip.is_multicast() => Some("multicast"),
        () if ip.is_unspecified() => Some("unspecified"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(host: &str) -> Upstream {
        Upstream::new(&UpstreamAddress {
            host: host.to_owned(),
            port: 443,
        })
        .unwrap_or_else(|e| panic!("{e}"))
    }

    fn usable(addresses: &[&str]) -> Result<Vec<String>, String> {
        let addresses: Vec<IpAddr> = addresses.iter().map(|t| t.parse().expect("an address")).collect();
        upstream("api.example.com")
            .usable(&addresses)
            .map(|a| a.iter().map(SocketAddr::to_string).collect())
    }

    #[test]
    fn literals_and_names_are_told_apart() {
        assert_eq!(
            upstream("[::1]").literal(),
            Some("[::1]:443".parse().expect("an address"))
        );
        assert_eq!(
            upstream("169.254.1.1").literal(),
            Some("169.254.1.1:443".parse().expect("an address")),
            "as written"
        );
        assert_eq!(upstream("127.0.0.1").to_string(), "127.0.0.1:443");
        assert_eq!(upstream("::1").to_string(), "[::1]:443");
        let named = upstream("API.example.com");
        assert_eq!(
            (named.literal(), named.to_string().as_str()),
            (None, "api.example.com:443")
        );
        assert!(
            Upstream::new(&UpstreamAddress {
                host: "a b".into(),
                port: 1
            })
            .is_err()
        );
    }

    #[test]
    fn kinds_take_turns() {
        let ordered = usable(&["1.1.1.1", "1.1.1.2", "1.1.1.3", "2606:4700::1"]).expect("usable");
        assert_eq!(
            ordered,
            ["[2606:4700::1]:443", "1.1.1.1:443", "1.1.1.2:443", "1.1.1.3:443"]
        );
    }

    #[test]
    fn private_is_the_persons_choice_but_metadata_is_nobodys() {
        assert_eq!(
            usable(&["127.0.0.1", "10.0.0.1"]).expect("usable"),
            ["127.0.0.1:443", "10.0.0.1:443"]
        );
        assert_eq!(usable(&["::1", "fd00::1"]).expect("usable").len(), 2);
        for bad in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "224.0.0.1",
            "ff02::1",
            "0.0.0.0",
            "::",
            "255.255.255.255",
        ] {
            assert!(usable(&[bad]).expect_err(bad).contains(bad), "{bad}");
            assert_eq!(
                usable(&[bad, "1.1.1.1"]).expect("one is left"),
                ["1.1.1.1:443"],
                "{bad}"
            );
        }
        assert_eq!(usable(&[]), Err("the name has no address".to_owned()));
    }

    #[test]
    fn a_pattern_covers_its_names_at_public_addresses_only() {
        let pattern = upstream("sa*.blob.example.net");
        assert_eq!(
            (pattern.name(), pattern.literal(), pattern.at(None)),
            (None, None, None)
        );
        let one = pattern.at(Some("sa12.blob.example.net")).expect("covered");
        assert_eq!(one.to_string(), "sa12.blob.example.net:443");
        for host in [
            "sa.blob.example.net",
            "sa1.x.blob.example.net",
            "sa1.blob.example.net.evil.example",
            "sa1/.blob.example.net",
            "SA1.blob.example.net",
            "evil.example",
            "127.0.0.1",
            "",
        ] {
            assert_eq!(pattern.at(Some(host)), None, "{host}");
        }
        assert_eq!(upstream("api.example.org").at(Some("api.example.org")), None);
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "169.254.169.254",
            "::1",
            "fd00::1",
            "::ffff:192.168.0.1",
        ] {
            let ip: IpAddr = private.parse().expect("an address");
            assert!(one.usable(&[ip]).is_err(), "{private}");
        }
        let public: IpAddr = "93.184.216.34".parse().expect("an address");
        assert!(one.usable(&[public]).is_ok());
    }
}
