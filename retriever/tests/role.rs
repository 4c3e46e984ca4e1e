//! The retriever as a process: locked for real, with this program in the place of the web side and of the launcher.
//!
//! It has a `main` of its own, because the program under test is this one, executed again under the role's title.

mod support;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::notify::{Listener, Request};
use picktwo_confine::probes::{self, Expected, Place, Probe};
use picktwo_confine::process::{self, Child};
use picktwo_confine::{Errno, Role, memory, sys};
use picktwo_wire::answer::Answer;
use picktwo_wire::retrieval::{FromRetriever, Job, Resolve, Resolved, ToRetriever};
use picktwo_wire::{decode, encode};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support::{Server, head, respond};

/// Names the one test that this process is to run.
const ONE: &str = "PICKTWO_ROLE_TEST";

fn main() -> ExitCode {
    let title = std::env::args_os().next().unwrap_or_default();
    if Role::from_title(&title) == Some(Role::Retriever) {
        return picktwo_retriever::main_role();
    }
    let tests: &[(&str, fn())] = &[
        (
            "a_page_is_fetched_and_answered_by_a_locked_process",
            a_page_is_fetched_and_answered_by_a_locked_process,
        ),
        ("redirects_wait_for_the_launcher", redirects_wait_for_the_launcher),
        ("a_refused_connection_is_named", a_refused_connection_is_named),
        ("probes_are_answered", probes_are_answered),
        ("it_ends_when_the_launcher_is_gone", it_ends_when_the_launcher_is_gone),
        (
            "pages_that_exhaust_are_refused_by_name",
            pages_that_exhaust_are_refused_by_name,
        ),
    ];
    // Each in a process of its own: roles are started while there is one thread, and the servers of a test have their own.
    if let Some(one) = std::env::var_os(ONE) {
        tests
            .iter()
            .filter(|(name, _)| one == *name)
            .for_each(|(_, test)| test());
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    for (name, _) in tests {
        let own = std::env::current_exe().expect("this program");
        let passed = std::process::Command::new(own)
            .env(ONE, name)
            .status()
            .expect("it runs")
            .success();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// A retriever that was started, and both of its channels.
struct Started {
    child: Child,
    outside: Channel,
    launcher: Channel,
    listener: Listener,
}

fn start() -> Started {
    let exe = process::own_executable().expect("this program");
    let (child, outside) = process::spawn_role(Role::Retriever, exe.as_fd()).expect("a process");
    let (launcher, theirs) = channel::pair().expect("a channel");
    outside.send(b"{}", &[theirs.as_fd()]).expect("its channel is sent");
    drop(theirs);
    let mut bytes = Vec::new();
    let Some(mut descriptors) = outside.recv(&mut bytes).expect("the listener") else {
        let mut reason = Vec::new();
        let _ = launcher.recv(&mut reason);
        panic!("it did not lock: {}", String::from_utf8_lossy(&reason));
    };
    assert_eq!((bytes.as_slice(), descriptors.len()), (&b"{}"[..], 1));
    let listener = Listener::from(descriptors.remove(0));
    let ready: FromRetriever = next(&launcher).expect("ready");
    assert_eq!(ready, FromRetriever::Ready);
    Started {
        child,
        outside,
        launcher,
        listener,
    }
}

fn next(channel: &Channel) -> Option<FromRetriever> {
    let mut bytes = Vec::new();
    channel.recv(&mut bytes).expect("a message")?;
    Some(decode(&bytes).expect("a message of the retriever"))
}

fn job(url: &str, question: Option<&str>) -> Job {
    Job {
        url: url.to_owned(),
        question: question.map(str::to_owned),
        budget: 200,
        limits: support::limits(),
        roots: Vec::new(),
        ticket: None,
        probes: Vec::new(),
    }
}

impl Started {
    fn send(&self, message: &ToRetriever) {
        self.launcher
            .send(&encode(message).expect("it fits"), &[])
            .expect("it is sent");
    }

    /// Plays the web side and the launcher until the last message. Names resolve to loopback; `connect` says whether a
    /// connection is granted, `follow` whether a redirect is.
    fn run(self, job: Job, connect: bool, follow: bool) -> (Vec<FromRetriever>, Option<FromRetriever>) {
        self.send(&ToRetriever::Job(Box::new(job)));
        let mut hops = Vec::new();
        let mut socket: Option<OwnedFd> = None;
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            assert!(Instant::now() < until, "it takes too long");
            let mut fds = [
                PollFd::new(self.launcher.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.outside.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
            ];
            poll(&mut fds, PollTimeout::from(1000u16)).expect("poll");
            let ready: Vec<bool> = fds
                .iter()
                .map(|f| f.revents().is_some_and(|r| r.contains(PollFlags::POLLIN)))
                .collect();
            if ready[2]
                && let Ok(Some(request)) = self.listener.recv()
            {
                self.call(&request, &mut socket, connect);
            }
            if ready[1] {
                let mut bytes = Vec::new();
                if self.outside.recv(&mut bytes).expect("a name").is_some() {
                    let asked: Resolve = decode(&bytes).expect("a name");
                    let resolved = Resolved {
                        host: asked.host,
                        addresses: vec![Ipv4Addr::LOCALHOST.into()],
                        error: None,
                    };
                    self.outside
                        .send(&encode(&resolved).expect("it fits"), &[])
                        .expect("it is sent");
                }
            }
            if !ready[0] {
                continue;
            }
            match next(&self.launcher) {
                Some(hop @ FromRetriever::Hop { .. }) => {
                    if matches!(&hop, FromRetriever::Hop { location: Some(_), .. }) {
                        let refuse = ToRetriever::Refuse {
                            rule: "unknown-host".to_owned(),
                            reason: "nobody asked for it".to_owned(),
                        };
                        self.send(if follow { &ToRetriever::Follow } else { &refuse });
                    }
                    hops.push(hop);
                }
                last => {
                    self.child.wait().expect("its end");
                    return (hops, last);
                }
            }
        }
    }

    /// Serves one granted call as the web side does, with a single socket at a time.
    fn call(&self, request: &Request, socket: &mut Option<OwnedFd>, grant: bool) {
        if request.nr == nix::libc::SYS_socket {
            let made = sys::socket(request.int(0), request.int(1), request.int(2)).expect("a socket");
            self.listener
                .inject_and_reply(request.id, made.as_fd(), true)
                .expect("it is injected");
            *socket = Some(made);
            return;
        }
        assert_eq!(request.nr, nix::libc::SYS_connect);
        if !grant {
            self.listener
                .reply_errno(request.id, Errno::EACCES)
                .expect("it is answered");
            return;
        }
        let mut address = vec![0; request.args[2] as usize];
        memory::read(request.pid, request.args[1], &mut address).expect("it is dumpable");
        let held = socket.as_ref().expect("a socket was made");
        match sys::connect(held.as_fd(), &address) {
            Ok(()) => self.listener.reply_value(request.id, 0).expect("it is answered"),
            Err(errno) => self.listener.reply_errno(request.id, errno).expect("it is answered"),
        }
    }
}

fn answer(last: Option<FromRetriever>) -> Answer {
    match last {
        Some(FromRetriever::Answer { answer, .. }) => *answer,
        other => panic!("no answer: {other:?}"),
    }
}

fn a_page_is_fetched_and_answered_by_a_locked_process() {
    let started = start();
    let server = Server::plain(|out, _| {
        respond(
            out,
            "text/html",
            b"<title>Widgets</title><main><h1>Widgets</h1><p>Widgets are sold by weight in every town of the land.</p>
            <h2>Limits</h2><p>The spindle limit is 42 per widget. Nothing else is limited.</p><p hidden>MARK</p>
            <h2>Past</h2><p>The clockmaker who made the first one lived in a house by the sea.</p></main>",
        );
    });
    let url = format!("http://site.test:{}/w", server.address.port());
    let (hops, last) = started.run(job(&url, Some("what is the spindle limit?")), true, true);
    assert_eq!(
        hops,
        [FromRetriever::Hop {
            url: url.clone(),
            status: 200,
            location: None
        }]
    );
    let answer = answer(last);
    assert_eq!(picktwo_retriever::check(&answer), Ok(answer.clone()));
    assert_eq!(answer.answer[0].headings, ["Widgets", "Limits"]);
    assert!(answer.answer[0].text.contains("42 per widget"));
    let all = serde_json::to_string(&answer).expect("JSON");
    assert!(!all.contains("MARK") && !all.contains("clockmaker"), "{all}");
    assert_eq!(answer.sources[0].url, url);
}

fn redirects_wait_for_the_launcher() {
    let (first, second) = (start(), start());
    let server = Server::plain(|out, path| match path {
        "/old" => head(out, 302, &[("location", "/new"), ("content-length", "0")]),
        _ => respond(out, "text/plain", b"moved here"),
    });
    let url = format!("http://127.0.0.1:{}/old", server.address.port());
    let (hops, last) = first.run(job(&url, None), true, true);
    assert_eq!(hops.len(), 2);
    assert_eq!(answer(last).answer[0].text, "moved here");
    let (hops, last) = second.run(job(&url, None), true, false);
    assert_eq!(hops.len(), 1);
    match last {
        Some(FromRetriever::Failed { cause, reason }) => {
            assert_eq!(cause, "refused");
            assert!(reason.contains("nobody asked for it"), "{reason}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn a_refused_connection_is_named() {
    let (_, last) = start().run(job("http://169.254.169.254/latest/meta-data", None), false, true);
    match last {
        Some(FromRetriever::Failed { cause, reason }) => {
            assert_eq!(cause, "refused");
            assert!(reason.contains("169.254.169.254"), "{reason}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn probes_are_answered() {
    let started = start();
    // Those that neither need an object of their own nor a granted call.
    let tried: Vec<&Probe> = probes::all()
        .filter(|p| p.class() == "namespace" && p.expected(Place::Retriever).is_some())
        .collect();
    assert!(tried.len() > 2, "{tried:?}");
    let mut ids: Vec<String> = tried.iter().map(|p| p.id.to_owned()).collect();
    ids.push("no.such-probe".to_owned());
    started.send(&ToRetriever::Job(Box::new(Job {
        probes: ids.clone(),
        ..job("http://site.test/", None)
    })));
    for id in ids {
        let Some(FromRetriever::Probe {
            id: named,
            outcome,
            errno,
        }) = next(&started.launcher)
        else {
            panic!("{id} was not answered");
        };
        assert_eq!(named, id);
        match probes::find(&id).and_then(|p| p.expected(Place::Retriever)) {
            Some(Expected::Errno(errnos)) => {
                assert_eq!(outcome, "denied", "{id}");
                assert!(errnos.iter().any(|e| *e as i32 == errno), "{id}: {errno}");
            }
            _ => assert_eq!((outcome.as_str(), errno), ("unavailable", 0), "{id}"),
        }
    }
    assert_eq!(next(&started.launcher), None);
    started.child.wait().expect("its end");
}

fn it_ends_when_the_launcher_is_gone() {
    let Started {
        child,
        outside,
        launcher,
        listener,
    } = start();
    drop(launcher);
    assert!(child.ended_within(5_000).expect("poll"), "it waits for nobody");
    child.wait().expect("its end");
    drop((outside, listener));
}

fn pages_that_exhaust_are_refused_by_name() {
    let retriever = start();
    let server = Server::plain(|out, _| respond(out, "text/html", "<div>".repeat(40_000).as_bytes()));
    let url = format!("http://site.test:{}/", server.address.port());
    let started = Instant::now();
    let (_, last) = retriever.run(job(&url, None), true, true);
    assert!(
        matches!(&last, Some(FromRetriever::Failed { cause, .. }) if cause == "too-large"),
        "{last:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(10));
}
