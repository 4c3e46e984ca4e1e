//! Host names: what may be asked of a name server at all, and what a retriever may not ask for.

use picktwo_policies::address;
use picktwo_wire::MAX_HOST;
use std::net::IpAddr;

/// A host name in lower-case ASCII without a trailing dot: letters, digits and hyphens, labels of 1 to 63 bytes, at most
/// [`MAX_HOST`] bytes, and not a number in disguise (RFC 1123 §2.1, WHATWG URL "ends in a number").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a string is not a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// Nothing, or only a dot.
    Empty,
    /// More than [`MAX_HOST`] bytes.
    TooLong,
    /// A label is empty, longer than 63 bytes, or begins or ends with a hyphen.
    Label,
    /// A byte that is no letter, digit, hyphen or dot.
    Byte(u8),
    /// The last label is a number, so that some parsers would read an address.
    Number,
}

impl std::fmt::Display for BadName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("empty name"),
            Self::TooLong => write!(f, "name of more than {MAX_HOST} bytes"),
            Self::Label => f.write_str("malformed label in the name"),
            Self::Byte(b) => write!(f, "byte 0x{b:02x} in the name"),
            Self::Number => f.write_str("name that ends in a number"),
        }
    }
}

impl std::error::Error for BadName {}

impl Name {
    /// Reads a name; upper case and one trailing dot are normalised away.
    ///
    /// # Errors
    /// [`BadName`] if it is not a host name.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(BadName::Empty);
        }
        if text.len() > MAX_HOST {
            return Err(BadName::TooLong);
        }
        if let Some(byte) = text
            .bytes()
            .find(|b| !(b.is_ascii_alphanumeric() || *b == b'-' || *b == b'.'))
        {
            return Err(BadName::Byte(byte));
        }
        let well_formed =
            |label: &str| (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-');
        if !text.split('.').all(well_formed) {
            return Err(BadName::Label);
        }
        let name = text.to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        let hexadecimal = last
            .strip_prefix("0x")
            .is_some_and(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        if hexadecimal || last.bytes().all(|b| b.is_ascii_digit()) {
            return Err(BadName::Number);
        }
        Ok(Self(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name means this machine by definition (RFC 6761 §6.3): it is never asked of a name server.
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        self.is_or_below("localhost")
    }

    fn is_or_below(&self, suffix: &str) -> bool {
        self.0
            .strip_suffix(suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a name may be asked for on behalf of a retriever. Its addresses are judged as well: this only keeps questions
/// about the local network from leaving, and names the reason better than an address could.
#[must_use]
pub fn is_public(name: &Name) -> bool {
    address::public_name(name.as_str())
}

/// A host as a policy writes it: a literal address, with or without brackets, or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A literal address, IPv4-mapped ones as IPv4.
    Literal(IpAddr),
    /// A name.
    Name(Name),
}

impl Host {
    /// Reads a literal address or a name.
    ///
    /// # Errors
    /// [`BadName`] if it is neither.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(ip) => Ok(Self::Literal(ip.to_canonical())),
            Err(_) => Name::parse(text).map(Self::Name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn names_are_normalised() {
        assert_eq!(name("Docs.Example.ORG.").as_str(), "docs.example.org");
        assert_eq!(name("xn--e1awd7f.com").as_str(), "xn--e1awd7f.com");
        assert_eq!(name("a").as_str(), "a");
        let label = "a".repeat(63);
        assert_eq!(name(&label).as_str(), label);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let cases = [
            ("", BadName::Empty),
            (".", BadName::Empty),
            ("a..b", BadName::Label),
            (".a", BadName::Label),
            ("a.b..", BadName::Label),
            ("-a.b", BadName::Label),
            ("a-.b", BadName::Label),
            ("a b", BadName::Byte(b' ')),
            ("a\0.example.com", BadName::Byte(0)),
            ("a_b.example.com", BadName::Byte(b'_')),
            ("example.com@127.0.0.1", BadName::Byte(b'@')),
            ("fe80::1%eth0", BadName::Byte(b':')),
            ("①②⑦.com", BadName::Byte(0xe2)),
            ("2130706433", BadName::Number),
            ("0x7f.1", BadName::Number),
            ("127.1", BadName::Number),
            ("example.0x7f000001", BadName::Number),
            ("a.0x", BadName::Number),
        ];
        for (text, why) in cases {
            assert_eq!(Name::parse(text), Err(why), "{text:?}");
        }
        assert_eq!(Name::parse(&"a".repeat(64)), Err(BadName::Label));
        assert_eq!(Name::parse(&"a.".repeat(127)), Ok(Name("a.".repeat(126) + "a")));
        assert_eq!(Name::parse(&("a.".repeat(127) + "a")), Err(BadName::TooLong));
    }

    /// Every kind of name that must not leave: one representative per pattern.
    #[test]
    fn names_of_the_local_network_are_not_public() {
        let patterns = include_str!("../tests/data/block_names.txt");
        let mut seen = 0;
        for line in patterns.lines() {
            let pattern = line.split(' ').next().unwrap_or_default();
            // Decided by their addresses, or not a pattern.
            if line.contains("(resolves)") || line.starts_with("single-label") {
                continue;
            }
            let host = pattern.replace('*', "some.thing");
            assert!(!is_public(&name(&host)), "{host}");
            seen += 1;
        }
        assert!(seen >= 20, "only {seen} patterns were read");
        for host in [
            "router",
            "intranet",
            "a.b.LOCALHOST.",
            "printer.local",
            "x.localtest.me",
            "1.0.0.127.in-addr.arpa",
        ] {
            assert!(!is_public(&name(host)), "{host}");
        }
    }

    #[test]
    fn other_names_are_public() {
        for host in [
            "example.com",
            "docs.rs",
            "notlocalhost.com",
            "mylocal.org",
            "local.example.com",
            "homes.net",
            "a.xn--p1ai",
        ] {
            assert!(is_public(&name(host)), "{host}");
        }
    }

    #[test]
    fn literals_are_told_from_names() {
        let literal = |t: &str| Host::Literal(t.parse().expect("an address"));
        assert_eq!(Host::parse("127.0.0.1"), Ok(literal("127.0.0.1")));
        assert_eq!(Host::parse("[::1]"), Ok(literal("::1")));
        assert_eq!(Host::parse("::ffff:10.0.0.1"), Ok(literal("10.0.0.1")));
        assert_eq!(Host::parse("example.com"), Ok(Host::Name(name("example.com"))));
        assert_eq!(Host::parse("127.1"), Err(BadName::Number));
    }
}
