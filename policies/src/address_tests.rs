use super::*;

/// One address per range of the shared list, and its first and last one.
const RANGES: &str = include_str!("../tests/data/block_ranges.tsv");

fn ends(range: &str) -> (IpAddr, IpAddr) {
    let (address, bits) = range.split_once('/').expect("a prefix");
    let bits: u32 = bits.parse().expect("a length");
    match address.parse::<IpAddr>().expect("an address") {
        IpAddr::V4(a) => {
            let n = u32::from(a);
            let host = u32::MAX.checked_shr(bits).unwrap_or(0);
            (IpAddr::V4(n.into()), IpAddr::V4((n | host).into()))
        }
        IpAddr::V6(a) => {
            let n = u128::from(a);
            let host = u128::MAX.checked_shr(bits).unwrap_or(0);
            (IpAddr::V6(n.into()), IpAddr::V6((n | host).into()))
        }
    }
}

#[test]
fn every_listed_range_is_refused_at_both_ends() {
    let mut seen = 0;
    for line in RANGES.lines() {
        let (range, what) = line.split_once('\t').expect("two columns");
        // These are judged by the address in them; the tests below cover them.
        if range == "::ffff:0:0/96" || range == "64:ff9b::/96" {
            continue;
        }
        let (first, last) = ends(range);
        assert!(public(first).is_err(), "{first} ({range}, {what}) passed");
        assert!(public(last).is_err(), "{last} ({range}, {what}) passed");
        seen += 1;
    }
    assert!(seen > 30, "only {seen} ranges read");
}

#[test]
fn neighbours_of_refused_ranges_are_public() {
    for a in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.1",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "2001:200::1",
        "2a00:1450:4001::200e",
        "2003::1",
        "2001:db7:ffff::1",
        "2001:db9::1",
    ] {
        assert_eq!(public(a.parse().expect(a)), Ok(()), "{a}");
    }
}

#[test]
fn embedded_addresses_are_judged_by_what_they_embed() {
    for v4 in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "192.168.1.1",
        "0.0.0.0",
        "255.255.255.255",
    ] {
        let [a, b, c, d] = v4.parse::<Ipv4Addr>().expect(v4).octets();
        let (h, l) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        for s in [
            [0, 0, 0, 0, 0, 0xffff, h, l],
            [0, 0, 0, 0, 0xffff, 0, h, l],
            [0, 0, 0, 0, 0, 0, h, l],
            [0x64, 0xff9b, 0, 0, 0, 0, h, l],
            [0x64, 0xff9b, 1, 0, 0, 0, h, l],
            [0x64, 0xff9b, 1, 0xfffe, 0, 0, h, l],
            [0x2002, h, l, 0, 0, 0, 0, 1],
            [0x2001, 0, h, l, 0, 0, 0, 0],
            [0x2001, 0, 0x4136, 0xe378, 0x8000, 0x63bf, !h, !l],
            [0x2a00, 1, 2, 3, 0, 0x5efe, h, l],
            [0x2a00, 1, 2, 3, 0x0200, 0x5efe, h, l],
            [0xfe80, 0, 0, 0, 0, 0x5efe, h, l],
        ] {
            let address = IpAddr::V6(Ipv6Addr::from(s));
            assert!(public(address).is_err(), "{address} embeds {v4} and passed");
        }
    }
    assert_eq!(public("::ffff:1.1.1.1".parse().expect("mapped")), Ok(()));
    assert_eq!(public("64:ff9b::1.1.1.1".parse().expect("NAT64")), Ok(()));
    assert_eq!(public("2a00:1:2:3:0:5efe:1.1.1.1".parse().expect("ISATAP")), Ok(()));
}

#[test]
fn the_reason_names_the_range() {
    let why = public("::ffff:10.1.2.3".parse().expect("mapped")).expect_err("private");
    assert_eq!(why.to_string(), "embeds 10.1.2.3: private (10.0.0.0/8)");
}
