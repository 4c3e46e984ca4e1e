//! The gateway as the process that it is: started in its role, locked, and used by an agent that speaks to its socket.
//!
//! Each test runs in a process of its own, since roles are started while one thread exists.

mod costs;
mod rig;

use picktwo_confine::probes::{self, Expected, Place};
use picktwo_confine::role::Role;
use picktwo_outside::gateway;
use picktwo_wire::gateway::{FromGateway, Protocol};
use rig::{Rig, SMALL};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode};

const TESTS: &[(&str, fn())] = &[
    ("every_probe_is_denied", every_probe_is_denied),
    ("a_locked_gateway_serves", a_locked_gateway_serves),
    ("strangers_take_no_place", strangers_take_no_place),
    ("a_locked_gateway_speaks_tls", a_locked_gateway_speaks_tls),
    ("it_works_with_its_supervisor", it_works_with_its_supervisor),
    ("a_start_that_cannot_work_is_told", a_start_that_cannot_work_is_told),
    ("it_ends_with_either_channel", it_ends_with_either_channel),
    ("costs_plain", costs::plain),
    ("costs_encrypted", costs::encrypted),
];

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let title = args.next().unwrap_or_default();
    match Role::from_title(&title) {
        Some(Role::Gateway) => return gateway::main_role(),
        Some(Role::OutsideModel) => return picktwo_outside::model::main_role(),
        _ => {}
    }
    let only = args.find(|arg| !arg.to_string_lossy().starts_with('-'));
    if std::env::var_os("GATEWAY_TEST_CHILD").is_some() {
        let test = TESTS
            .iter()
            .find(|(name, _)| only.as_deref() == Some(name.as_ref()))
            .expect("a test of this name");
        test.1();
        return ExitCode::SUCCESS;
    }
    let exe = std::env::current_exe().expect("this program's file");
    let mut failed = 0;
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name.contains(&*only.to_string_lossy()));
    for (name, _) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        let status = Command::new(&exe)
            .arg(name)
            .env("GATEWAY_TEST_CHILD", "1")
            .status()
            .expect("started");
        println!("test {name} ... {}", if status.success() { "ok" } else { "FAILED" });
        failed += usize::from(!status.success());
    }
    println!("{failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn every_probe_is_denied() {
    let mut rig = Rig::spawn();
    let mut start = rig.start("http://127.0.0.1:1");
    let ids: Vec<String> = gateway::probe_ids().map(str::to_owned).collect();
    assert!(ids.len() >= 25);
    // What an attempt is aimed at need not exist: a locked gateway is refused before anything is looked up.
    let aims = "@work=/tmp;shared=/tmp;hidden=/tmp;home=/tmp;state=/tmp;policy=/tmp;control=/tmp/x;queue=x;abstract=x;\
                tcp=1;tcp6=1;udp=1;lan=127.0.0.1;ipc-key=1;key=1;victim=1;init=1";
    start.probes = std::iter::once(aims.to_owned()).chain(ids.clone()).collect();
    rig.send_start(&start);
    for id in ids {
        match rig.event() {
            FromGateway::Probe {
                id: done,
                outcome,
                errno,
            } => {
                assert_eq!((done.as_str(), outcome.as_str()), (id.as_str(), "denied"), "{errno}");
                let expected = probes::find(&id).and_then(|probe| probe.expected(Place::Gateway));
                let Some(Expected::Errno(errnos)) = expected else {
                    panic!("{id}: {expected:?}")
                };
                assert!(errnos.iter().any(|&e| e as i32 == errno), "{id}: {errno}");
            }
            other => panic!("{id}: {other:?}"),
        }
    }
    assert_eq!(rig.exit_code(), 0);
}

fn a_locked_gateway_serves() {
    let mut rig = Rig::spawn();
    let upstream = rig::upstream(None);
    rig.serve(&format!("http://{upstream}"), upstream);
    let mut agent = rig.agent();
    for _ in 0..3 {
        let (status, body) = rig::call(&mut agent, "/v1/messages?beta=true", SMALL);
        assert_eq!((status, body.as_str()), (200, rig::WHOLE));
        match rig.event() {
            FromGateway::Call { status: 200, model, .. } => assert_eq!(model.as_deref(), Some("claude-opus-5-5")),
            other => panic!("{other:?}"),
        }
    }
    let (status, body) = rig::call(
        &mut agent,
        "/v1/messages",
        &SMALL.replace("\"max_tokens\":1", "\"max_tokens\":1,\"stream\":true"),
    );
    assert_eq!((status, body.as_str()), (200, rig::EVENT.repeat(rig::EVENTS).as_str()));
    rig.event();
    let (status, body) = rig::call(
        &mut agent,
        "/v1/messages",
        &SMALL.replace("\"max_tokens\":1", "\"max_tokens\":1,\"mcp_servers\":[]"),
    );
    assert!(status == 400 && body.contains("mcp_servers"), "{body}");
    assert!(matches!(rig.event(), FromGateway::Refused { rule, .. } if rule == "hosted-tool"));
    // A large body.
    let large = SMALL.replace("hi", &"x".repeat(20 << 20));
    assert_eq!(rig::call(&mut agent, "/v1/messages", &large).0, 200);
    rig.event();
    assert_eq!(rig.proc("cmdline"), "picktwo: gateway\0");
    rig.close_launcher();
    assert_eq!(rig.exit_code(), 0);
}

/// Where the loopback is shared, other users reach the socket as well.
fn strangers_take_no_place() {
    const TOKEN: &str = "sk-ant-api03-of-this-session";
    let mut rig = Rig::spawn();
    let mut start = rig.start("http://127.0.0.1:1");
    start.phantom = Some(TOKEN.to_owned());
    rig.send_start(&start);
    assert_eq!(rig.event(), FromGateway::Serving);
    let strangers = |rig: &Rig| -> Vec<TcpStream> {
        let mut sockets: Vec<TcpStream> = (0..100).map(|_| rig.agent()).collect();
        for socket in &mut sockets {
            // One that was sent away already breaks here.
            let _ = socket.write_all(b"GET /v1/mod");
        }
        sockets
    };
    let models = |socket: &mut TcpStream| {
        let request = format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        rig::read_message(socket).expect("no answer").0
    };
    let before = strangers(&rig);
    let mut agent = rig.agent();
    assert!(models(&mut agent).starts_with("HTTP/1.1 200"));
    // One that has shown the token stays, whatever comes.
    let after = strangers(&rig);
    assert!(models(&mut agent).starts_with("HTTP/1.1 200"));
    let mut second = rig.agent();
    assert!(models(&mut second).starts_with("HTTP/1.1 200"));
    drop((before, after));
    rig.close_launcher();
    assert_eq!(rig.exit_code(), 0);
}

fn a_locked_gateway_speaks_tls() {
    let mut rig = Rig::spawn();
    let upstream = rig::upstream(Some(rig::tls()));
    rig.serve(&format!("https://model.test:{}", upstream.port()), upstream);
    let mut agent = rig.agent();
    for _ in 0..3 {
        let (status, body) = rig::call(&mut agent, "/v1/messages", SMALL);
        assert_eq!((status, body.as_str()), (200, rig::WHOLE));
        rig.event();
    }
}

fn it_works_with_its_supervisor() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut rig = Rig::supervised(address);
    rig.serve_supervised(&format!("http://{address}"));
    let mut agent = rig.agent();
    // Nobody listens any more: the supervisor's words reach the agent.
    drop(listener);
    let (status, body) = rig::call(&mut agent, "/v1/messages", SMALL);
    assert!(status == 502 && body.contains("refused"), "{body}");
    rig.event();
    rig::upstream_on(TcpListener::bind(address).expect("the same port"), None);
    for _ in 0..3 {
        let (status, body) = rig::call(&mut agent, "/v1/messages", SMALL);
        assert_eq!((status, body.as_str()), (200, rig::WHOLE));
        assert!(matches!(rig.event(), FromGateway::Call { status: 200, .. }));
    }
}

fn a_start_that_cannot_work_is_told() {
    for (base, part) in [
        ("ftp://x", "only http"),
        ("https://a b", "host"),
        ("https://u@x", "host"),
        ("http://x/../y", "path"),
        ("https://x?q", "host"),
    ] {
        let mut rig = Rig::spawn();
        let start = rig.start(base);
        rig.send_start(&start);
        match rig.event() {
            FromGateway::Failed { reason } => assert!(reason.contains(part), "{base}: {reason}"),
            other => panic!("{base}: {other:?}"),
        }
        assert_eq!(rig.exit_code(), 125);
    }
    let mut rig = Rig::spawn();
    let mut start = rig.start("https://x");
    start.upstreams[0].key = "a\nb".to_owned();
    start.upstreams[0].protocol = Protocol::Gemini;
    rig.send_start(&start);
    assert!(
        matches!(rig.event(), FromGateway::Failed { reason } if reason.contains("key") && !reason.contains("a\nb"))
    );
}

fn it_ends_with_either_channel() {
    let mut rig = Rig::spawn();
    rig.close_launcher();
    assert_eq!(rig.exit_code(), 125);
    let mut rig = Rig::spawn_with(b"{\"x\":1}");
    assert_eq!(rig.exit_code(), 125);
}
