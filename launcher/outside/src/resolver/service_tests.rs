//! The resolver against name servers on loopback that behave well, badly or not at all.

use super::super::message::tests::{a, alias, answer, record};
use super::*;
use simple_dns::rdata::{AAAA, RData};
use simple_dns::{Packet, QTYPE, RCODE, ResourceRecord, TYPE};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Records = Vec<ResourceRecord<'static>>;
/// What a fake server sends back for a question, if anything; `true` for questions over TCP.
type Script = dyn Fn(&[u8], TYPE, bool) -> Vec<Vec<u8>> + Send + Sync;

/// A name server on one loopback port, UDP and TCP, that counts its questions.
struct Fake {
    address: SocketAddr,
    udp: Arc<AtomicUsize>,
    tcp: Arc<AtomicUsize>,
}

fn asked(question: &[u8]) -> TYPE {
    match Packet::parse(question).expect("a question").questions[0].qtype {
        QTYPE::TYPE(t) => t,
        other => panic!("{other:?}"),
    }
}

impl Fake {
    fn start(script: impl Fn(&[u8], TYPE, bool) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let script: Arc<Script> = Arc::new(script);
        // The same number has to be free for both.
        let (socket, listener) = loop {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let address = socket.local_addr().expect("bound");
            if let Ok(listener) = TcpListener::bind(address) {
                break (socket, listener);
            }
        };
        let address = socket.local_addr().expect("bound");
        let (udp, tcp) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, run) = (udp.clone(), script.clone());
        std::thread::spawn(move || {
            let mut packet = [0; 2048];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                count.fetch_add(1, Ordering::SeqCst);
                for reply in run(&packet[..length], asked(&packet[..length]), false) {
                    let _ = socket.send_to(&reply, from);
                }
            }
        });
        let count = tcp.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                count.fetch_add(1, Ordering::SeqCst);
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                let mut packet = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut packet).expect("a question");
                for reply in script(&packet, asked(&packet), true) {
                    // Piece by piece: the reader has to put them together.
                    let bytes = [
                        &u16::try_from(reply.len()).expect("short").to_be_bytes(),
                        reply.as_slice(),
                    ]
                    .concat();
                    for piece in bytes.chunks(7) {
                        let _ = stream.write_all(piece);
                        let _ = stream.flush();
                    }
                }
            }
        });
        Self { address, udp, tcp }
    }

    fn udp(&self) -> usize {
        self.udp.load(Ordering::SeqCst)
    }
}

fn silent() -> Fake {
    Fake::start(|_, _, _| vec![])
}

/// Answers A with these records and AAAA with none.
fn plain(records: impl Fn() -> Records + Send + Sync + 'static) -> Fake {
    Fake::start(move |q, t, _| vec![answer(q, if t == TYPE::A { records() } else { vec![] }, RCODE::NoError)])
}

/// Runs the service, without a channel, until `host` has its answer.
fn resolve(service: &mut Service, host: &str) -> Resolved {
    if let Some(answer) = service.ask(host, Instant::now()) {
        return answer;
    }
    let (_here, there) = picktwo_confine::channel::pair().expect("a channel");
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        for answer in service.advance(Instant::now()) {
            if answer.host == host {
                return answer;
            }
        }
        service.wait(&there).expect("poll");
    }
    panic!("{host} was never answered");
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|t| t.parse().expect("an address")).collect()
}

#[test]
fn both_kinds_of_addresses_are_found() {
    let server = Fake::start(|q, t, _| {
        let aaaa = RData::AAAA(AAAA {
            address: 0x2606_4700 << 96 | 1,
        });
        let records = match t {
            TYPE::A => vec![
                alias("www.example.org", 60, "cdn.example.net"),
                a("cdn.example.net", 60, [93, 184, 216, 34]),
            ],
            _ => vec![record("www.example.org", 60, aaaa)],
        };
        vec![answer(q, records, RCODE::NoError)]
    });
    let mut service = Service::new(vec![server.address]);
    let answer = resolve(&mut service, "www.example.org");
    assert_eq!(
        answer,
        Resolved {
            host: "www.example.org".into(),
            addresses: ips(&["93.184.216.34", "2606:4700::1"]),
            error: None
        }
    );
    assert_eq!(server.udp(), 2);
}

#[test]
fn an_answer_is_kept_for_its_time_and_no_longer() {
    let server = plain(|| vec![a("kept.example.org", 2, [1, 2, 3, 4])]);
    let mut service = Service::new(vec![server.address]);
    for _ in 0..3 {
        assert_eq!(resolve(&mut service, "kept.example.org").addresses, ips(&["1.2.3.4"]));
    }
    assert_eq!(server.udp(), 2);
    assert!(
        service
            .ask("kept.example.org", Instant::now() + Duration::from_secs(1))
            .is_some()
    );
    assert!(
        service
            .ask("kept.example.org", Instant::now() + Duration::from_secs(3))
            .is_none(),
        "over"
    );
}

#[test]
fn failures_are_told_apart_and_not_kept() {
    let server = Fake::start(|q, _, _| vec![answer(q, vec![], RCODE::NameError)]);
    let mut service = Service::new(vec![server.address]);
    for _ in 0..2 {
        assert_eq!(
            resolve(&mut service, "no.example.org").error.as_deref(),
            Some("no such name")
        );
    }
    assert_eq!(server.udp(), 4);
    let server = plain(Vec::new);
    let mut service = Service::new(vec![server.address]);
    assert_eq!(
        resolve(&mut service, "empty.example.org").error.as_deref(),
        Some("the name has no address")
    );
    let answer = resolve(&mut Service::new(vec![]), "a.example.org");
    assert_eq!(answer.error.as_deref(), Some("no name server is configured"));
}

#[test]
fn the_next_server_is_asked_when_one_fails_or_is_silent() {
    let broken = Fake::start(|q, _, _| vec![answer(q, vec![], RCODE::ServerFailure)]);
    let good = plain(|| vec![a("a.example.org", 60, [1, 2, 3, 4])]);
    let mut service = Service::new(vec![broken.address, good.address]);
    assert_eq!(resolve(&mut service, "a.example.org").addresses, ips(&["1.2.3.4"]));
    let closed = UdpSocket::bind("127.0.0.1:0")
        .expect("a socket")
        .local_addr()
        .expect("bound");
    let mut service = Service::new(vec![closed, silent().address, good.address]);
    let start = Instant::now();
    assert_eq!(resolve(&mut service, "a.example.org").addresses, ips(&["1.2.3.4"]));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn silence_ends_in_time() {
    let server = silent();
    let mut service = Service::new(vec![server.address]);
    let start = Instant::now();
    assert_eq!(
        resolve(&mut service, "a.example.org").error.as_deref(),
        Some("no name server answered in time")
    );
    assert!((4..6).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(server.udp(), 4, "two questions, two rounds");
}

#[test]
fn a_truncated_answer_is_fetched_over_tcp() {
    let server = Fake::start(|q, t, tcp| {
        let records = || (0..12).map(|i| a("big.example.org", 60, [1, 2, 3, i])).collect();
        let mut bytes = answer(q, if t == TYPE::A { records() } else { vec![] }, RCODE::NoError);
        if t == TYPE::A && !tcp {
            bytes[2] |= 0x02;
            bytes.truncate(40);
        }
        vec![bytes]
    });
    let mut service = Service::new(vec![server.address]);
    assert_eq!(resolve(&mut service, "big.example.org").addresses.len(), 12);
    assert_eq!(server.tcp.load(Ordering::SeqCst), 1);
}

#[test]
fn forged_answers_are_ignored() {
    let server = Fake::start(|q, t, _| {
        let forged = |id: u8| {
            let mut bytes = answer(q, vec![a("a.example.org", 60, [6, 6, 6, 6])], RCODE::NoError);
            bytes[0] ^= id;
            bytes
        };
        let other = super::super::message::question(
            u16::from_be_bytes([q[0], q[1]]),
            &Name::parse("b.example.org").expect("a name"),
            super::super::message::Kind::A,
        )
        .expect("a question");
        let other = answer(&other, vec![a("a.example.org", 60, [6, 6, 6, 6])], RCODE::NoError);
        let good = answer(
            q,
            if t == TYPE::A {
                vec![a("a.example.org", 60, [1, 2, 3, 4])]
            } else {
                vec![]
            },
            RCODE::NoError,
        );
        vec![
            forged(1),
            vec![0; 3],
            other,
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            forged(128),
            good,
        ]
    });
    let mut service = Service::new(vec![server.address]);
    assert_eq!(resolve(&mut service, "a.example.org").addresses, ips(&["1.2.3.4"]));
}

#[test]
fn names_that_are_none_never_reach_a_server() {
    let server = plain(Vec::new);
    let mut service = Service::new(vec![server.address]);
    for host in [
        "",
        "a b",
        "127.1",
        "A.example.org",
        "a.example.org.",
        "xn--\u{e9}",
        "a\0b.org",
    ] {
        let answer = resolve(&mut service, host);
        assert!(
            answer.error.is_some() && answer.addresses.is_empty(),
            "{host:?}: {answer:?}"
        );
    }
    assert_eq!(resolve(&mut service, "localhost").addresses, ips(&["127.0.0.1", "::1"]));
    assert_eq!(
        resolve(&mut service, "x.localhost").addresses,
        ips(&["127.0.0.1", "::1"])
    );
    assert_eq!(server.udp(), 0);
}

#[test]
fn many_slow_names_do_not_hold_up_each_other_and_are_bounded() {
    let server = silent();
    let mut service = Service::new(vec![server.address]);
    let now = Instant::now();
    for i in 0..MAX_WAITING {
        assert_eq!(service.ask(&format!("n{i}.example.org"), now), None);
    }
    let over = service.ask("one-more.example.org", now).expect("refused");
    assert_eq!(over.error.as_deref(), Some("too many names at once"));
    assert_eq!(service.ask("n3.example.org", now), None, "asked twice, looked up once");
    assert!(service.advance(now).is_empty());
    assert_eq!(
        (service.active.len(), service.waiting.len()),
        (MAX_ACTIVE, MAX_WAITING - MAX_ACTIVE)
    );
}
