//! The standard descriptors of a session are the person's: they are left as they were, and none is a way into the network. Oracle: whoever
//! has the other end outside. Control: the same without picktwo.

use picktwo_tests::{
    run::{self, Finished},
    scene::Scene,
};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::OwnedFd,
        unix::{
            fs::PermissionsExt as _,
            net::{UnixDatagram, UnixListener, UnixStream},
        },
    },
    process::{Output, Stdio},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);
const TIERS: [&str; 3] = ["full", "nested", "container"];

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// What is written before a command to run it in a tier.
fn prefix(scene: &Scene, tier: &str) -> String {
    format!("{} run --tier {tier} --", scene.root().join("bin/picktwo").display())
}

/// Runs a script of a person's.
fn shell(scene: &Scene, script: &str) -> Finished {
    let mut command = scene.command("bash");
    command.args(["-c", script]);
    run::run(command, LIMIT).unwrap()
}

/// The same at a terminal.
fn at_terminal(scene: &Scene, script: &str) -> Finished {
    scene.write("script", script).unwrap();
    let mut command = scene.command("script");
    command.args(["-qec", "exec bash script", "/dev/null"]);
    run::run(command, LIMIT).unwrap()
}

/// Changes the flags of standard output, and goes on doing so after the command has ended. Bare, it says who does.
const CHANGES_FLAGS: &str = "import os, fcntl, sys\n\
    change = lambda: fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)\n\
    child = os.fork()\n\
    if child == 0:\n    os.setsid()\n    while True: change()\n\
    change()\n\
    if sys.argv[1:]: open(sys.argv[1], 'w').write(str(child))\n";
const SHOWS_FLAGS: &str = "import os, fcntl, sys\n\
    flags = fcntl.fcntl(1, fcntl.F_GETFL)\n\
    print('nonblocking' * bool(flags & os.O_NONBLOCK), 'appends' * bool(flags & os.O_APPEND), file=sys.stderr)\n";

#[test]
fn flags_of_shared_streams_are_as_they_were() {
    let scene = scene();
    scene.write("change.py", CHANGES_FLAGS).unwrap();
    scene.write("show.py", SHOWS_FLAGS).unwrap();
    let flags = |run: &str, to: &str| {
        let (left, end) = if run.is_empty() {
            ("left", "kill $(cat left);")
        } else {
            ("", "")
        };
        let script =
            format!("{{ {run} python3 -I change.py {left} </dev/null 2>/dev/null; {end} python3 -I show.py; }} {to}");
        let told = shell(&scene, &script);
        told.stderr.trim().to_owned()
    };
    let pipe = "| cat";
    assert_eq!(flags("", pipe), "nonblocking");
    assert_eq!(flags("", ">> log"), "nonblocking");
    for tier in TIERS {
        let run = prefix(&scene, tier);
        assert_eq!(flags(&run, pipe), "", "{tier}");
        if tier != "nested" {
            assert_eq!(flags(&run, ">> log"), "appends", "{tier}");
            assert_eq!(flags(&run, "> other"), "", "{tier}");
        }
    }
}

#[test]
fn settings_of_the_terminal_are_as_they_were() {
    let scene = scene();
    let raw = "python3 -Ic 'import tty, os; tty.setraw(0); os.set_blocking(0, False)'";
    let settings = |run: &str| {
        let told = at_terminal(&scene, &format!("stty -g\n{run} {raw}\nstty -g\n"));
        let lines: Vec<String> = told
            .stdout
            .lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| line.contains(':') && !line.contains(' '))
            .collect();
        assert_eq!(lines.len(), 2, "{run}: {}", told.all());
        (lines[0].clone(), lines[1].clone())
    };
    let (before, after) = settings("");
    assert_ne!(before, after);
    for tier in TIERS {
        let (before, after) = settings(&prefix(&scene, tier));
        assert_eq!(before, after, "{tier}");
    }
}

/// What each kind of socket is for, by standard input.
const USES: &str = "import os, socket, sys\n\
    s = socket.socket(fileno=os.dup(0))\n\
    s.settimeout(5)\n\
    kind, to = sys.argv[1:]\n\
    address = to if to.startswith('/') else ('127.0.0.1', int(to))\n\
    if kind == 'send': s.sendto(b'from inside', address)\n\
    if kind == 'connect': s.connect(address); s.send(b'from inside')\n\
    if kind == 'accept': s.accept()[0].send(b'from inside')\n\
    if kind == 'peer': s.send(b'from inside')\n";

/// Runs [`USES`] with a socket as standard input.
fn with_socket(scene: &Scene, tier: Option<&str>, socket: OwnedFd, words: [&str; 2]) -> Output {
    let python = ["python3", "-I", "use.py", words[0], words[1]];
    let mut command = match tier {
        Some(tier) => scene.picktwo([&["run", "--tier", tier, "--"], &python[..]].concat()),
        None => {
            let mut command = scene.command(python[0]);
            command.args(&python[1..]);
            command
        }
    };
    command.stdin(Stdio::from(socket));
    command.output().unwrap()
}

/// A socket, what is done with it, and who hears of it outside.
type Case = (OwnedFd, [String; 2], Box<dyn FnOnce() -> bool>);

/// Whether something arrives.
fn arrives(mut from: impl std::io::Read) -> bool {
    let mut text = [0; 32];
    from.read(&mut text)
        .is_ok_and(|n| text[..n].starts_with(b"from inside"))
}

/// Sockets that lead somewhere. What needs a peer outside has it.
fn sockets(scene: &Scene) -> Vec<(&'static str, Case)> {
    const SOON: Option<Duration> = Some(Duration::from_millis(500));
    let said = |port: u16| port.to_string();
    let mut cases: Vec<(&str, Case)> = Vec::new();

    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(SOON).unwrap();
    let words = ["send".into(), said(sink.local_addr().unwrap().port())];
    let heard = move || sink.recv(&mut [0; 32]).is_ok();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    cases.push(("UDP", (socket.into(), words, Box::new(heard))));

    let path = scene.root().join("sink");
    let _ = std::fs::remove_file(&path);
    let sink = UnixDatagram::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    sink.set_read_timeout(SOON).unwrap();
    let words = ["send".into(), path.display().to_string()];
    let heard = move || sink.recv(&mut [0; 32]).is_ok();
    let socket = UnixDatagram::unbound().unwrap();
    cases.push(("local datagrams", (socket.into(), words, Box::new(heard))));

    for (name, kind) in [("unconnected TCP", "connect"), ("connected TCP", "peer")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket: OwnedFd = if kind == "peer" {
            TcpStream::connect(address).unwrap().into()
        } else {
            unconnected()
        };
        listener.set_nonblocking(true).unwrap();
        let heard = move || {
            listener.accept().is_ok_and(|(stream, _)| {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(SOON).unwrap();
                arrives(stream)
            })
        };
        cases.push((name, (socket, [kind.into(), said(address.port())], Box::new(heard))));
    }

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let caller = TcpStream::connect(address).unwrap();
    caller.set_read_timeout(SOON).unwrap();
    let words = ["accept".into(), said(address.port())];
    cases.push((
        "listening TCP",
        (listener.into(), words, Box::new(move || arrives(caller))),
    ));

    let path = scene.root().join("listener");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let caller = UnixStream::connect(&path).unwrap();
    caller.set_read_timeout(SOON).unwrap();
    let words = ["accept".into(), path.display().to_string()];
    cases.push((
        "a local listener",
        (listener.into(), words, Box::new(move || arrives(caller))),
    ));
    cases
}

fn unconnected() -> OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap()
}

#[test]
fn no_socket_that_leads_out_is_a_standard_descriptor() {
    let scene = scene();
    scene.write("use.py", USES).unwrap();
    for (name, (socket, words, heard)) in sockets(&scene) {
        let told = with_socket(&scene, None, socket, [&words[0], &words[1]]);
        assert!(heard(), "{name}, bare: {told:?}");
    }
    for tier in TIERS {
        for (name, (socket, words, heard)) in sockets(&scene) {
            let told = with_socket(&scene, Some(tier), socket, [&words[0], &words[1]]);
            assert!(!heard(), "{name}, {tier}: {told:?}");
            assert_eq!(told.status.code(), Some(125), "{name}, {tier}: {told:?}");
            let said = String::from_utf8(told.stderr).unwrap();
            assert!(said.contains("standard input is a socket"), "{name}, {tier}: {said}");
            assert_eq!(said.lines().count(), 1, "{name}, {tier}: {said}");
        }
        // As output and errors, too.
        for fd in ["1", "2"] {
            let mut command = scene.picktwo(["run", "--tier", tier, "--", "true"]);
            let socket = Stdio::from(unconnected());
            let told = if fd == "1" {
                command.stdout(socket)
            } else {
                command.stderr(socket)
            };
            assert_eq!(told.status().unwrap().code(), Some(125), "{fd}, {tier}");
        }
    }
}

#[test]
fn a_connected_pair_is_a_standard_descriptor() {
    let scene = scene();
    for tier in TIERS {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = scene.picktwo(["run", "--tier", tier, "--", "cat"]);
        command
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone().unwrap())))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            // Whatever the tests' own is: a file would be refused in the nested tier.
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(command);
        (&ours).write_all(b"there and back").unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = String::new();
        (&ours).read_to_string(&mut back).unwrap();
        assert_eq!(back, "there and back", "{tier}");
        assert!(child.wait().unwrap().success(), "{tier}");
    }
}
