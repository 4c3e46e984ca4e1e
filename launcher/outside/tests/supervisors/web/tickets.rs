//! A retriever that reads what a ticket brings: it is granted nothing.

use super::super::hostile;
use super::super::model::{Order, Report};
use super::*;

pub(crate) const TESTS: &[Test] = &[
    (
        "web::tickets::what_is_read_by_ticket_has_no_way_out",
        what_is_read_by_ticket_has_no_way_out,
    ),
    (
        "web::tickets::the_gateway_is_connected_to_what_is_pinned_only",
        the_gateway_is_connected_to_what_is_pinned_only,
    ),
];

/// A web side with these upstreams for its gateway, and a gateway that was taken over.
fn with_gateway(upstreams: &[(&str, u16)]) -> (Web, Channel) {
    let upstreams = upstreams.iter().map(|(host, port)| UpstreamAddress {
        host: (*host).to_owned(),
        port: *port,
    });
    let web = spawn_with(&[], 4, upstreams.collect());
    assert_eq!(web.event(), FromWeb::Ready);
    let (gateway, theirs) = channel::pair().expect("a channel");
    web.say(&ToWeb::Apis {}, &[theirs.as_fd()]);
    (web, gateway)
}

fn order(gateway: &Channel, order: &Order) -> Report {
    gateway
        .send(&encode(order).expect("a message"), &[])
        .expect("the gateway");
    receive(gateway).0
}

fn the_gateway_is_connected_to_what_is_pinned_only() {
    let pinned = listener("127.0.0.1:0");
    let other = listener("127.0.0.1:0");
    let port = |l: &TcpListener| l.local_addr().expect("bound").port();
    let upstreams = [("127.0.0.1", port(&pinned)), ("sa*.blob.example.net", port(&other))];
    // What is pinned by address is connected to; what a pattern covers is looked up, and is nowhere here.
    let (web, gateway) = with_gateway(&upstreams);
    let asked = encode(&Order::Ask(vec![0])).expect("a message");
    gateway.send(&asked, &[]).expect("the gateway");
    drop(accept_within(&pinned, Duration::from_secs(5)).expect("a connection"));
    assert_eq!(receive::<Report>(&gateway).0, Report::Read(String::new()));
    let Report::Failed(reason) = order(&gateway, &Order::AskHost(1, "sa12.blob.example.net".to_owned())) else {
        panic!("connected");
    };
    assert!(reason.starts_with("sa12.blob.example.net:"), "{reason}");
    drop((web, gateway));
    // What is not covered ends the gateway, and nothing else: retrievals go on.
    for ask in [
        Order::AskHost(1, "evil.example".to_owned()),
        Order::AskHost(1, "127.0.0.1".to_owned()),
        Order::AskHost(0, "127.0.0.1".to_owned()),
        Order::Ask(vec![1]),
        Order::Ask(vec![7]),
    ] {
        let (web, gateway) = with_gateway(&upstreams);
        gateway
            .send(&encode(&ask).expect("a message"), &[])
            .expect("the gateway");
        assert!(closes(&gateway), "{ask:?}");
        let fetching = web.locked(1);
        assert!(
            fetching
                .socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
                .is_ok(),
            "{ask:?}"
        );
    }
    nobody_came(&other);
}

fn what_is_read_by_ticket_has_no_way_out() {
    let listener = listener("127.0.0.1:0");
    let address = listener.local_addr().expect("bound");
    let web = start(&[&address.to_string()]);
    // The control: a retriever that fetches is granted all of it.
    let fetching = web.locked(1);
    assert_eq!(fetching.fresh_connect(address), OK);
    web.connection(&fetching, address, "", "connected");
    accept_within(&listener, Duration::from_secs(5)).expect("a connection");
    assert!(!fetching.resolve(&address.ip().to_string()).addresses.is_empty());

    let (ours, theirs) = channel::pair().expect("a channel");
    web.say(&ToWeb::Ticket { id: 2 }, &[theirs.as_fd()]);
    drop(theirs);
    let reading = Hostile { id: 2, channel: ours };
    reading.order(&hostile::Order::Lock { plain: true });
    assert_eq!(
        reading.socket_of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Err(Errno::EACCES)
    );
    for host in ["docs.example.org", "127.0.0.1"] {
        let answer = reading.resolve(host);
        assert!(
            answer.addresses.is_empty() && answer.error.is_some(),
            "{host}: {answer:?}"
        );
    }
    // Not even over a socket that it came by in another way.
    let foreign = TcpStream::connect(address).expect("a connection of the test's own");
    accept_within(&listener, Duration::from_secs(5)).expect("a connection");
    let kept = reading.order_with(&hostile::Order::Keep, &[foreign.as_fd()]).value;
    assert!(reading.connect(kept, address).is_err());

    // The ticket's channel carries nothing back: neither words nor descriptors.
    let (reader, writer) = channel::one_way().expect("a channel");
    let kept = reading.order_with(&hostile::Order::Keep, &[reader.as_fd()]).value;
    drop(reader);
    assert_eq!(reading.send(kept, 0), Err(Errno::EPIPE));
    writer.send(b"an answer", &[]).expect("it is read");
    nobody_came(&listener);
}
