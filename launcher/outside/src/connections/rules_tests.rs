//! Decisions, over every kind of address and name that must not be reached.

use super::*;
use std::net::Ipv6Addr;

/// A host with one public address of its own and one public network on a link.
struct Here;

impl Near for Here {
    fn is_near(&mut self, ip: IpAddr) -> bool {
        matches!(ip.to_string().as_str(), "93.184.216.34" | "2606:2800::34") || ip.to_string().starts_with("81.2.69.")
    }
}

/// A host without any network.
struct Nowhere;

impl Near for Nowhere {
    fn is_near(&mut self, _: IpAddr) -> bool {
        false
    }
}

/// A host whose tables cannot be read.
struct Blind;

impl Near for Blind {
    fn is_near(&mut self, _: IpAddr) -> bool {
        true
    }
}

fn rules(private: &[&str]) -> Rules {
    let split = |p: &&str| {
        let (host, port) = p.rsplit_once(':').expect("host:port");
        HostPort {
            host: host.to_owned(),
            port: port.parse().expect("a port"),
        }
    };
    let start = WebStart {
        nameservers: vec![],
        private: private.iter().map(split).collect(),
        ports: vec![80, 443],
        parallel: 1,
        apis: Default::default(),
    };
    Rules::new(&start).unwrap_or_else(|e| panic!("{e}"))
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|t| t.parse().expect("an address")).collect()
}

fn to(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

fn pins(pairs: &[(&str, &[&str])]) -> Pins {
    let mut pins = Pins::default();
    for (host, addresses) in pairs {
        pins.pin(name(host), ips(addresses));
    }
    pins
}

#[test]
fn public_addresses_are_granted_and_named() {
    let pins = pins(&[("example.com", &["1.1.1.1", "2606:4700::1111"])]);
    let r = rules(&[]);
    assert_eq!(
        r.connect(to("1.1.1.1:443"), &pins, &mut Here),
        Ok(Some(&name("example.com")))
    );
    assert_eq!(
        r.connect(to("[::ffff:1.1.1.1]:80"), &pins, &mut Here),
        Ok(Some(&name("example.com")))
    );
    assert_eq!(
        r.connect(to("[2606:4700::1111]:443"), &pins, &mut Here),
        Ok(Some(&name("example.com")))
    );
    assert_eq!(r.connect(to("8.8.8.8:443"), &pins, &mut Here), Ok(None), "a literal");
}

#[test]
fn other_ports_are_refused() {
    let pins = pins(&[("example.com", &["1.1.1.1"])]);
    for port in [0, 22, 25, 53, 6379, 8443, 65535] {
        let address = SocketAddr::new(ips(&["1.1.1.1"])[0], port);
        assert_eq!(
            rules(&[]).connect(address, &pins, &mut Here),
            Err(Refusal::Port),
            "{port}"
        );
    }
}

#[test]
fn addresses_of_this_host_and_its_links_are_refused_although_public() {
    let r = rules(&[]);
    let pins = pins(&[("own.example.com", &["93.184.216.34"])]);
    for address in [
        "93.184.216.34:443",
        "[::ffff:93.184.216.34]:443",
        "81.2.69.142:80",
        "[2606:2800::34]:443",
    ] {
        assert_eq!(
            r.connect(to(address), &pins, &mut Here),
            Err(Refusal::Private),
            "{address}"
        );
        assert!(
            r.connect(to(address), &pins, &mut Nowhere).is_ok(),
            "{address} would be granted elsewhere"
        );
    }
    assert_eq!(r.connect(to("1.1.1.1:443"), &pins, &mut Blind), Err(Refusal::Private));
    assert!(
        r.judge(&name("own.example.com"), &ips(&["93.184.216.34"]), &mut Here)
            .is_err()
    );
    assert!(
        r.judge(&name("own.example.com"), &ips(&["93.184.216.34"]), &mut Nowhere)
            .is_ok()
    );
}

#[test]
fn a_name_is_refused_if_any_of_its_addresses_is() {
    let r = rules(&[]);
    let n = name("rebind.example.com");
    assert_eq!(r.judge(&n, &ips(&["1.1.1.1", "2606:4700::1111"]), &mut Here), Ok(()));
    for bad in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
    ] {
        let error = r.judge(&n, &ips(&["1.1.1.1", bad]), &mut Here).expect_err(bad);
        assert!(error.contains(bad) && error.contains("not public"), "{error}");
    }
}

#[test]
fn a_pin_holds_the_first_addresses() {
    let mut pins = pins(&[("a.example.com", &["1.1.1.1"])]);
    pins.pin(name("a.example.com"), ips(&["127.0.0.1"]));
    assert_eq!(pins.get(&name("a.example.com")), Some(ips(&["1.1.1.1"]).as_slice()));
}

#[test]
fn exceptions_are_exact() {
    let r = rules(&["127.0.0.1:8080", "[::1]:9000", "dev.lan:3000"]);
    let none = Pins::default();
    assert_eq!(r.connect(to("127.0.0.1:8080"), &none, &mut Here), Ok(None));
    assert_eq!(
        r.connect(to("[::ffff:127.0.0.1]:8080"), &none, &mut Here),
        Ok(None),
        "the same place"
    );
    assert_eq!(r.connect(to("[::1]:9000"), &none, &mut Here), Ok(None));
    assert_eq!(r.connect(to("127.0.0.1:8081"), &none, &mut Here), Err(Refusal::Port));
    assert_eq!(r.connect(to("127.0.0.1:80"), &none, &mut Here), Err(Refusal::Private));
    assert_eq!(r.connect(to("127.0.0.2:8080"), &none, &mut Here), Err(Refusal::Port));
    assert_eq!(r.connect(to("[::1]:8080"), &none, &mut Here), Err(Refusal::Port));
    // By name: only once it was asked for, only its addresses, only the port.
    assert_eq!(r.connect(to("192.168.7.7:3000"), &none, &mut Here), Err(Refusal::Port));
    let asked = pins(&[("dev.lan", &["192.168.7.7"]), ("example.com", &["192.168.7.8"])]);
    assert_eq!(
        r.connect(to("192.168.7.7:3000"), &asked, &mut Here),
        Ok(Some(&name("dev.lan")))
    );
    assert_eq!(
        r.connect(to("192.168.7.7:443"), &asked, &mut Here),
        Err(Refusal::Private)
    );
    assert_eq!(r.connect(to("192.168.7.8:3000"), &asked, &mut Here), Err(Refusal::Port));
    assert_eq!(r.may_ask(&name("dev.lan")), Ok(()));
    assert!(r.may_ask(&name("other.lan")).is_err());
    assert!(r.may_ask(&name("localhost")).is_err());
    assert_eq!(r.judge(&name("dev.lan"), &ips(&["192.168.7.7"]), &mut Here), Ok(()));
    assert_eq!(r.all_ports(), [80, 443, 3000, 8080, 9000]);
}

#[test]
fn an_exception_that_is_no_host_is_named() {
    let private = vec![HostPort {
        host: "127.1".into(),
        port: 1,
    }];
    let start = WebStart {
        nameservers: vec![],
        private,
        ports: vec![],
        parallel: 1,
        apis: Default::default(),
    };
    let error = Rules::new(&start).expect_err("no host").to_string();
    assert!(error.contains("127.1"), "{error}");
}

/// First and last address of a range, and the ones in between that a mask error would let through.
fn samples(range: &str) -> Vec<IpAddr> {
    let (base, length) = range.split_once('/').expect("a range");
    let length: u32 = length.parse().expect("a length");
    match base.parse().expect("an address") {
        IpAddr::V4(ip) => {
            let host = u32::MAX.checked_shr(length).unwrap_or(0);
            [0, 1, host / 2, host]
                .map(|n| IpAddr::from((ip.to_bits() | (n & host)).to_be_bytes()))
                .to_vec()
        }
        IpAddr::V6(ip) => {
            let host = u128::MAX.checked_shr(length).unwrap_or(0);
            [0, 1, host / 2, host]
                .map(|n| Ipv6Addr::from_bits(ip.to_bits() | (n & host)).into())
                .to_vec()
        }
    }
}

/// Ranges that are decoded: an address in them is as good as the IPv4 address it embeds.
const DECODED: [&str; 2] = ["::ffff:0:0/96", "64:ff9b::/96"];

#[test]
fn no_address_of_a_special_range_is_reached() {
    let r = rules(&[]);
    let mut ranges = 0;
    for line in include_str!("../../tests/data/block_ranges.tsv").lines() {
        let range = line.split('\t').next().expect("a range");
        ranges += 1;
        if DECODED.contains(&range) {
            continue;
        }
        for ip in samples(range) {
            for port in [80, 443] {
                let address = SocketAddr::new(ip, port);
                assert_eq!(
                    r.connect(address, &Pins::default(), &mut Nowhere),
                    Err(Refusal::Private),
                    "{address} of {range}"
                );
            }
        }
    }
    assert!(ranges >= 35, "only {ranges} ranges were read");
    // Embedded IPv4 addresses are judged as themselves.
    for (v6, reached) in [
        ("::ffff:127.0.0.1", false),
        ("::ffff:169.254.169.254", false),
        ("64:ff9b::10.0.0.1", false),
        ("64:ff9b::169.254.169.254", false),
        ("::ffff:1.1.1.1", true),
    ] {
        let address = SocketAddr::new(ips(&[v6])[0], 443);
        assert_eq!(
            r.connect(address, &Pins::default(), &mut Nowhere).is_ok(),
            reached,
            "{v6}"
        );
    }
}

/// The host of a URL as a WHATWG parser would hand it over, for those vectors whose host is an address or a plain name.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    Some(match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => host.split(':').next()?,
    })
}

/// Whatever of the vectors reaches this side, as a literal or as a name, is refused; the allowed ones pass.
#[test]
fn vectors_are_judged_as_they_say() {
    let r = rules(&[]);
    let (mut blocked, mut allowed) = (0, 0);
    for line in include_str!("../../tests/data/vectors.tsv").lines() {
        let (url, verdict) = line.split_once('\t').expect("a vector");
        let Some(host) = host_of(url) else { continue };
        let granted = match Host::parse(host) {
            Ok(Host::Literal(ip)) => r
                .connect(SocketAddr::new(ip, 80), &Pins::default(), &mut Nowhere)
                .is_ok(),
            Ok(Host::Name(n)) => r.may_ask(&n).is_ok(),
            // Never reaches a name server nor a socket in this form.
            Err(_) => false,
        };
        match verdict {
            "block" => {
                assert!(!granted, "{url}");
                blocked += 1;
            }
            "allow" | "allow-normalised" | "allow-show-punycode" => {
                assert!(granted, "{url}");
                allowed += 1;
            }
            // Decided by whoever reads URLs (schemes, user information, ports, control characters).
            _ => {}
        }
    }
    assert!(blocked >= 50 && allowed >= 4, "{blocked} blocked, {allowed} allowed");
}
