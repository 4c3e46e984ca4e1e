//! A retriever that reads what a ticket brings: it is granted nothing.

use super::*;

pub(crate) const TESTS: &[Test] = &[(
    "web::tickets::what_is_read_by_ticket_has_no_way_out",
    what_is_read_by_ticket_has_no_way_out,
)];

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
    reading.order(&Order::Lock { plain: true });
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
    let kept = reading.order_with(&Order::Keep, &[foreign.as_fd()]).value;
    assert!(reading.connect(kept, address).is_err());

    // The ticket's channel carries nothing back: neither words nor descriptors.
    let (reader, writer) = channel::one_way().expect("a channel");
    let kept = reading.order_with(&Order::Keep, &[reader.as_fd()]).value;
    drop(reader);
    assert_eq!(reading.send(kept, 0), Err(Errno::EPIPE));
    writer.send(b"an answer", &[]).expect("it is read");
    nobody_came(&listener);
}
