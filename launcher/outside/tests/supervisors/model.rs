//! The model side, with a gateway that only asks for connections.

use super::Test;
use super::harness::{self, NAME_SERVER, accept_within, closes, receive};
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::process::{self, Child};
use picktwo_confine::role::Role;
use picktwo_outside::model::{FromModel, GatewayChannel};
use picktwo_wire::encode;
use picktwo_wire::gateway::{Connect, Connected, ModelStart, UpstreamAddress};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("model::literals_need_no_resolver", literals_need_no_resolver),
    (
        "model::names_are_resolved_and_metadata_is_refused",
        names_are_resolved_and_metadata_is_refused,
    ),
    (
        "model::answers_keep_the_order_of_the_requests",
        answers_keep_the_order_of_the_requests,
    ),
    ("model::what_is_not_configured_ends_it", what_is_not_configured_ends_it),
    (
        "model::a_gateway_that_takes_nothing_ends_it",
        a_gateway_that_takes_nothing_ends_it,
    ),
    (
        "model::it_ends_with_the_launcher_and_takes_the_gateway_along",
        it_ends_with_the_launcher_and_takes_the_gateway_along,
    ),
    ("model::a_bad_start_is_explained", a_bad_start_is_explained),
];

/// Test → gateway.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Ask for these upstreams at once, then report every answer, in the order in which they come.
    Ask(Vec<usize>),
    /// Ask for this host of an upstream, and report the answer.
    AskHost(usize, String),
    /// Ask for this upstream so many times, and take nothing of it.
    Flood(usize, usize),
    /// Say who you are. It does not notice by itself that its supervisor is gone.
    Pid,
}

/// Gateway → test.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Connected: so many bytes came before the end of the stream.
    Read(String),
    /// Not connected.
    Failed(String),
    /// A process id.
    Pid(i32),
}

/// The gateway of these tests: what it is connected to, it reads to the end.
pub(crate) fn gateway(outside: Channel) -> ExitCode {
    let (GatewayChannel {}, mut fds) = receive(&outside);
    let test = Channel::from(fds.pop().expect("a channel to the launcher"));
    let report = |r: &Report| test.send(&encode(r).expect("a message"), &[]).expect("the test");
    loop {
        match receive::<Order>(&test).0 {
            Order::Pid => report(&Report::Pid(std::process::id() as i32)),
            Order::Flood(upstream, times) => {
                let ask = encode(&Connect { upstream, host: None }).expect("a message");
                // Until outside has had enough.
                let _ = (0..times).try_for_each(|_| outside.send(&ask, &[]));
            }
            Order::AskHost(upstream, host) => {
                let ask = Connect {
                    upstream,
                    host: Some(host),
                };
                outside.send(&encode(&ask).expect("a message"), &[]).expect("outside");
                report(&match receive::<Connected>(&outside).0 {
                    Connected::Socket => Report::Read(String::new()),
                    Connected::Failed { reason } => Report::Failed(reason),
                });
            }
            Order::Ask(upstreams) => {
                for upstream in &upstreams {
                    outside
                        .send(
                            &encode(&Connect {
                                upstream: *upstream,
                                host: None,
                            })
                            .expect("a message"),
                            &[],
                        )
                        .expect("outside");
                }
                for _ in &upstreams {
                    let (answer, fds) = receive::<Connected>(&outside);
                    report(&match (answer, fds.into_iter().next()) {
                        (Connected::Socket, Some(fd)) => Report::Read(read(TcpStream::from(fd))),
                        (Connected::Failed { reason }, None) => Report::Failed(reason),
                        (answer, fd) => panic!("{answer:?} with {fd:?}"),
                    });
                }
            }
        }
    }
}

fn read(mut stream: TcpStream) -> String {
    assert!(stream.nodelay().expect("an option"));
    stream.set_nonblocking(false).expect("blocking");
    stream.shutdown(Shutdown::Write).expect("connected");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the end of the stream");
    text
}

struct Model {
    child: Child,
    launcher: Channel,
    gateway: Channel,
}

fn spawn(upstreams: &[&str]) -> Model {
    let exe = process::own_executable().expect("this program");
    let (child, launcher) = process::spawn_role(Role::OutsideModel, exe.as_fd()).expect("the model side");
    let (gateway, theirs) = channel::pair().expect("a channel");
    let split = |u: &&str| {
        let (host, port) = u.rsplit_once(':').expect("host:port");
        UpstreamAddress {
            host: host.to_owned(),
            port: port.parse().expect("a port"),
        }
    };
    let nameservers = vec![NAME_SERVER.parse().expect("an address")];
    let start = ModelStart {
        upstreams: upstreams.iter().map(split).collect(),
        nameservers,
    };
    launcher
        .send(&encode(&start).expect("a message"), &[theirs.as_fd()])
        .expect("the model side");
    Model {
        child,
        launcher,
        gateway,
    }
}

fn start(upstreams: &[&str]) -> Model {
    let model = spawn(upstreams);
    assert_eq!(receive::<FromModel>(&model.launcher).0, FromModel::Ready);
    model
}

impl Model {
    fn order(&self, order: &Order) {
        self.gateway
            .send(&encode(order).expect("a message"), &[])
            .expect("the gateway");
    }

    fn report(&self) -> Report {
        receive(&self.gateway).0
    }
}

/// Takes one connection and says its name.
fn greet(listener: &TcpListener, name: &str) {
    use std::io::Write;
    let mut stream = accept_within(listener, Duration::from_secs(5)).expect("a connection");
    stream.write_all(name.as_bytes()).expect("a peer");
}

fn literals_need_no_resolver() {
    let a = TcpListener::bind("127.0.0.1:8443").expect("a listener");
    let b = TcpListener::bind("[::1]:8443").expect("a listener");
    // No name server listens: a resolver would not help.
    let model = start(&["127.0.0.1:8443", "[::1]:8443", "127.0.0.2:9"]);
    for (index, listener, name) in [(0, &a, "first"), (1, &b, "second")] {
        model.order(&Order::Ask(vec![index]));
        greet(listener, name);
        assert_eq!(model.report(), Report::Read(name.to_owned()));
    }
    model.order(&Order::Ask(vec![2]));
    assert_eq!(
        model.report(),
        Report::Failed("127.0.0.2:9: connection refused".to_owned())
    );
}

fn names_are_resolved_and_metadata_is_refused() {
    let _dns = harness::name_server();
    let api = TcpListener::bind("127.0.0.7:8443").expect("a listener");
    let model = start(&[
        "api.example.org:8443",
        "meta.example.org:8443",
        "none.example.org:8443",
        "half.example.org:8443",
    ]);
    model.order(&Order::Ask(vec![0]));
    greet(&api, "api");
    assert_eq!(model.report(), Report::Read("api".to_owned()));
    let expected = [
        (
            1,
            "meta.example.org:8443: its address 169.254.169.254 is refused: link-local",
        ),
        (2, "none.example.org:8443: no such name"),
        // 1.1.1.1 has no route here, 127.0.0.1 nobody who listens.
        (3, "half.example.org:8443: connection refused"),
    ];
    for (index, reason) in expected {
        model.order(&Order::Ask(vec![index]));
        assert_eq!(model.report(), Report::Failed(reason.to_owned()));
    }
}

fn answers_keep_the_order_of_the_requests() {
    let _dns = harness::name_server();
    let api = TcpListener::bind("127.0.0.7:8443").expect("a listener");
    let model = start(&["slow.example.org:8443", "127.0.0.7:8443", "api.example.org:8443"]);
    let start = Instant::now();
    model.order(&Order::Ask(vec![0, 1, 2, 1]));
    // All are connected at once, although the first has to wait for a name that never comes.
    let mut peers: Vec<TcpStream> = (0..3)
        .map(|_| accept_within(&api, Duration::from_secs(2)).expect("a connection"))
        .collect();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    peers
        .iter_mut()
        .for_each(|peer| peer.shutdown(Shutdown::Write).expect("a peer"));
    assert_eq!(
        model.report(),
        Report::Failed("slow.example.org:8443: no name server answered in time".to_owned())
    );
    for _ in 0..3 {
        assert_eq!(model.report(), Report::Read(String::new()));
    }
}

fn what_is_not_configured_ends_it() {
    let model = start(&["127.0.0.1:8443"]);
    model.order(&Order::Ask(vec![1]));
    match receive::<FromModel>(&model.launcher).0 {
        FromModel::Failed { reason } => assert!(reason.contains("upstream 1"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(model.child.wait().expect("a child").code(), 1);
    assert!(closes(&model.gateway), "the gateway ended, too");
}

fn it_ends_with_the_launcher_and_takes_the_gateway_along() {
    for kill in [false, true] {
        let model = start(&["127.0.0.1:8443"]);
        model.order(&Order::Pid);
        let Report::Pid(pid) = model.report() else {
            panic!("no process id")
        };
        let gateway = Child::from_pid(pid).expect("the gateway");
        if kill {
            model.child.kill_and_wait().expect("the model side");
        } else {
            drop(model.launcher);
            assert_eq!(model.child.wait().expect("a child").code(), 0);
        }
        assert!(
            gateway.ended_within(5_000).expect("a process"),
            "the gateway ended, too"
        );
    }
}

fn a_bad_start_is_explained() {
    let model = spawn(&["no host:443"]);
    match receive::<FromModel>(&model.launcher).0 {
        FromModel::Failed { reason } => assert!(reason.contains("no host"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(model.child.wait().expect("a child").code(), 1);
}

fn a_gateway_that_takes_nothing_ends_it() {
    // Nobody listens: every request is answered at once.
    let model = start(&["127.0.0.2:9"]);
    model.order(&Order::Flood(0, 100_000));
    match receive::<FromModel>(&model.launcher).0 {
        FromModel::Failed { reason } => assert!(reason.contains("does not take"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(model.child.wait().expect("a child").code(), 1);
}
