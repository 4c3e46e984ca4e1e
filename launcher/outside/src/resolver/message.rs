//! DNS questions and answers (RFC 1035), as far as a stub resolver needs them: A and AAAA with their chain of aliases.

use crate::names::Name;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE, header_buffer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of one kind that are taken of one answer.
const MAX_ADDRESSES: usize = 16;
/// Aliases that are followed within one answer.
const MAX_ALIASES: usize = 16;

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

impl Kind {
    fn code(self) -> TYPE {
        match self {
            Self::A => TYPE::A,
            Self::Aaaa => TYPE::AAAA,
        }
    }
}

/// What a packet from a name server means for a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Not an answer to this question, or not readable: forged, late or broken. The question stays open.
    Foreign,
    /// The answer did not fit; ask again over TCP.
    Truncated,
    /// The server says that there is no such name.
    NoSuchName,
    /// The server could not or would not answer.
    Refused(&'static str),
    /// The addresses, none if the name has none of this kind, and the seconds for which they hold.
    Addresses(Vec<IpAddr>, u32),
}

/// The bytes of a question, recursion desired.
pub(super) fn question(id: u16, name: &Name, kind: Kind) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(question_section(name, kind)?);
    packet.build_bytes_vec().ok()
}

fn question_section(name: &Name, kind: Kind) -> Option<Question<'_>> {
    let name = simple_dns::Name::new(name.as_str()).ok()?;
    Some(Question::new(
        name,
        QTYPE::TYPE(kind.code()),
        QCLASS::CLASS(CLASS::IN),
        false,
    ))
}

/// Reads what a server sent in answer to the question with `id`.
pub(super) fn read(bytes: &[u8], id: u16, name: &Name, kind: Kind) -> Reply {
    // The parser is safe code; should it panic on some packet, that packet is one more unreadable one.
    std::panic::catch_unwind(|| parse(bytes, id, name, kind))
        .ok()
        .flatten()
        .unwrap_or(Reply::Foreign)
}

fn parse(bytes: &[u8], id: u16, name: &Name, kind: Kind) -> Option<Reply> {
    if header_buffer::id(bytes).ok()? != id || !header_buffer::has_flags(bytes, PacketFlag::RESPONSE).ok()? {
        return None;
    }
    // Before the sections are read: a truncated packet's counts need not match what is there.
    if header_buffer::has_flags(bytes, PacketFlag::TRUNCATION).ok()? {
        return Some(Reply::Truncated);
    }
    let packet = Packet::parse(bytes).ok()?;
    let asked = question_section(name, kind)?;
    let [question] = packet.questions.as_slice() else {
        return None;
    };
    if question.qname != asked.qname || question.qtype != asked.qtype || question.qclass != asked.qclass {
        return None;
    }
    Some(match packet.rcode() {
        RCODE::NoError => addresses(&packet, asked.qname),
        RCODE::NameError => Reply::NoSuchName,
        RCODE::ServerFailure => Reply::Refused("the name server failed"),
        RCODE::Refused => Reply::Refused("the name server refused the question"),
        _ => Reply::Refused("the name server could not answer"),
    })
}

fn addresses<'a>(packet: &Packet<'a>, mut owner: simple_dns::Name<'a>) -> Reply {
    let mut seconds = u32::MAX;
    for _ in 0..MAX_ALIASES {
        let alias = packet.answers.iter().find_map(|record| match &record.rdata {
            RData::CNAME(target) if record.name == owner => Some((target.0.clone(), record.ttl)),
            _ => None,
        });
        let Some((target, ttl)) = alias else { break };
        seconds = seconds.min(ttl);
        owner = target;
    }
    let mut found = Vec::new();
    for record in packet
        .answers
        .iter()
        .filter(|r| r.class == CLASS::IN && r.name == owner)
    {
        let ip: IpAddr = match &record.rdata {
            RData::A(a) => Ipv4Addr::from_bits(a.address).into(),
            RData::AAAA(a) => Ipv6Addr::from_bits(a.address).into(),
            _ => continue,
        };
        seconds = seconds.min(record.ttl);
        if found.len() < MAX_ADDRESSES && !found.contains(&ip) {
            found.push(ip);
        }
    }
    Reply::Addresses(found, seconds)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use simple_dns::rdata::{A, AAAA, CNAME};
    use simple_dns::{ResourceRecord, rdata::NS};

    pub(crate) fn dns(text: &str) -> simple_dns::Name<'_> {
        simple_dns::Name::new(text).expect("a name")
    }

    pub(crate) fn record(owner: &'static str, ttl: u32, rdata: RData<'static>) -> ResourceRecord<'static> {
        ResourceRecord::new(dns(owner), CLASS::IN, ttl, rdata)
    }

    pub(crate) fn a(owner: &'static str, ttl: u32, ip: [u8; 4]) -> ResourceRecord<'static> {
        record(
            owner,
            ttl,
            RData::A(A {
                address: u32::from_be_bytes(ip),
            }),
        )
    }

    pub(crate) fn alias(owner: &'static str, ttl: u32, target: &'static str) -> ResourceRecord<'static> {
        record(owner, ttl, RData::CNAME(CNAME(dns(target))))
    }

    /// An answer to `question` with these records.
    pub(crate) fn answer(question: &[u8], records: Vec<ResourceRecord<'static>>, rcode: RCODE) -> Vec<u8> {
        let asked = Packet::parse(question).expect("a question");
        let mut packet = Packet::new_reply(asked.id());
        packet.set_flags(PacketFlag::RECURSION_AVAILABLE);
        *packet.rcode_mut() = rcode;
        packet.questions = asked.questions.clone();
        packet.answers = records;
        packet.build_bytes_vec().expect("an answer")
    }

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn ask() -> (Name, Vec<u8>) {
        let name = name("www.example.org");
        let question = question(77, &name, Kind::A).expect("a question");
        (name, question)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_question_is_what_rfc_1035_says() {
        let (_, bytes) = ask();
        let mut expected = vec![0, 77, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        expected.extend(b"\x03www\x07example\x03org\x00\x00\x01\x00\x01");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn aliases_are_followed_and_the_shortest_time_counts() {
        let (name, question) = ask();
        let records = vec![
            a("unrelated.example.net", 1, [6, 6, 6, 6]),
            alias("c.example.net", 50, "d.example.net"),
            a("d.example.net", 300, [1, 2, 3, 4]),
            a("d.example.net", 200, [1, 2, 3, 5]),
            a("d.example.net", 200, [1, 2, 3, 4]),
            alias("WWW.example.ORG", 90, "c.example.net"),
        ];
        let bytes = answer(&question, records, RCODE::NoError);
        assert_eq!(
            read(&bytes, 77, &name, Kind::A),
            Reply::Addresses(vec![ip("1.2.3.4"), ip("1.2.3.5")], 50)
        );
    }

    #[test]
    fn an_alias_that_circles_has_no_addresses() {
        let (name, question) = ask();
        let records = vec![
            alias("www.example.org", 9, "b.org"),
            alias("b.org", 9, "www.example.org"),
        ];
        let bytes = answer(&question, records, RCODE::NoError);
        assert_eq!(read(&bytes, 77, &name, Kind::A), Reply::Addresses(vec![], 9));
    }

    #[test]
    fn addresses_of_other_names_and_other_records_are_ignored() {
        let (name, question) = ask();
        let records = vec![
            a("example.org", 9, [1, 1, 1, 1]),
            record("www.example.org", 9, RData::NS(NS(dns("ns.example.org")))),
            record("www.example.org", 9, RData::AAAA(AAAA { address: 1 << 100 })),
        ];
        let bytes = answer(&question, records, RCODE::NoError);
        assert_eq!(
            read(&bytes, 77, &name, Kind::A),
            Reply::Addresses(vec![IpAddr::V6(Ipv6Addr::from_bits(1 << 100))], 9)
        );
        let bytes = answer(
            &question,
            vec![a("www.example.org.example.org", 9, [1, 1, 1, 1])],
            RCODE::NoError,
        );
        assert_eq!(read(&bytes, 77, &name, Kind::A), Reply::Addresses(vec![], u32::MAX));
    }

    #[test]
    fn no_more_addresses_than_the_limit_are_taken() {
        let (name, question) = ask();
        let records = (0..40).map(|i| a("www.example.org", 9, [1, 2, 3, i])).collect();
        match read(&answer(&question, records, RCODE::NoError), 77, &name, Kind::A) {
            Reply::Addresses(found, _) => assert_eq!(found.len(), MAX_ADDRESSES),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_answers_another_question_is_foreign() {
        let (name, question) = ask();
        let good = answer(&question, vec![a("www.example.org", 9, [1, 2, 3, 4])], RCODE::NoError);
        assert!(matches!(read(&good, 77, &name, Kind::A), Reply::Addresses(..)));
        assert_eq!(read(&good, 78, &name, Kind::A), Reply::Foreign, "another id");
        assert_eq!(read(&good, 77, &name, Kind::Aaaa), Reply::Foreign, "another type");
        assert_eq!(
            read(&good, 77, &super::tests::name("www.example.com"), Kind::A),
            Reply::Foreign,
            "another name"
        );
        assert_eq!(read(&question, 77, &name, Kind::A), Reply::Foreign, "a question");
        for length in 0..good.len() {
            assert_eq!(
                read(&good[..length], 77, &name, Kind::A),
                Reply::Foreign,
                "cut at {length}"
            );
        }
    }

    #[test]
    fn result_codes_are_told_apart() {
        let (name, question) = ask();
        let reply = |rcode| read(&answer(&question, vec![], rcode), 77, &name, Kind::A);
        assert_eq!(reply(RCODE::NameError), Reply::NoSuchName);
        assert!(matches!(reply(RCODE::ServerFailure), Reply::Refused(_)));
        assert!(matches!(reply(RCODE::Refused), Reply::Refused(_)));
        assert_eq!(reply(RCODE::NoError), Reply::Addresses(vec![], u32::MAX));
        let mut cut = answer(&question, vec![], RCODE::NoError);
        cut[2] |= 0x02;
        assert_eq!(read(&cut[..20], 77, &name, Kind::A), Reply::Truncated);
    }

    /// Whatever bytes come: an answer or `Foreign`, never a panic and never an endless loop.
    #[test]
    fn damaged_packets_do_no_harm() {
        let (name, question) = ask();
        let records = vec![alias("www.example.org", 9, "b.org"), a("b.org", 9, [1, 2, 3, 4])];
        let good = answer(&question, records, RCODE::NoError);
        let mut state = 0x2545_f491_u32;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as usize
        };
        let mut foreign = 0;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..1 + next() % 4 {
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
            }
            foreign += usize::from(read(&bytes, 77, &name, Kind::A) == Reply::Foreign);
        }
        assert!(foreign > 1000);
        // A name that points at itself.
        let mut circle = good[..12].to_vec();
        circle.extend([0xc0, 12, 0, 1, 0, 1]);
        assert_eq!(read(&circle, 77, &name, Kind::A), Reply::Foreign);
    }
}
