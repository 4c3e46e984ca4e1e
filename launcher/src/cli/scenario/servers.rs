//! The servers of a play, all on loopback, all outside of the attacked processes. What they receive is the evidence.

use super::dns;
use super::http;
use super::model::Model;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use picktwo_policies::scenario::{self, Server, Words};
use std::collections::BTreeMap;
use std::io::{Read, Result};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a server waits for more of a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Milliseconds until it is noticed that a play is over.
const TICK: u8 = 20;
/// Bytes of one connection that are kept.
const MAX: u64 = 1 << 20;

/// What the agent reported for one step: shown to people, relied on for nothing.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The step.
    pub(super) name: String,
    /// What the tool said.
    pub(super) text: String,
}

/// What arrived.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Per server: what each connection brought, in the order of their arrival.
    pub(super) servers: BTreeMap<String, Vec<Vec<u8>>>,
    /// Names that the name server was asked for.
    pub(super) dns: Vec<String>,
    /// Requests that reached the model provider, without what the model itself had said.
    pub(super) model: Vec<String>,
    /// Kinds of tools, remote servers and addresses by which the provider would reach out.
    pub(super) tools: Vec<String>,
    /// Keys that reached the model provider.
    pub(super) keys: Vec<String>,
    /// Results of the steps.
    pub(super) reports: Vec<Report>,
    /// How many steps the model has said.
    pub(super) said: usize,
    /// What went wrong on stage.
    pub(super) broken: Vec<String>,
}

/// What is shared between servers and judge.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Evidence>>);

impl Notes {
    /// The evidence so far.
    pub(super) fn lock(&self) -> MutexGuard<'_, Evidence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sockets that listen already and serve nothing yet: placeholders need their addresses.
pub(super) struct Bound {
    model: TcpListener,
    dns: UdpSocket,
    servers: Vec<(String, TcpListener)>,
}

fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Bound {
    /// Binds on loopback.
    pub(super) fn new(servers: &[Server]) -> Result<Self> {
        let dns = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        dns.set_nonblocking(true)?;
        Ok(Self {
            model: listen()?,
            dns,
            servers: servers
                .iter()
                .map(|s| Ok((s.name.value.clone(), listen()?)))
                .collect::<Result<_>>()?,
        })
    }

    /// Where the model provider is.
    pub(super) fn model(&self) -> Result<SocketAddr> {
        self.model.local_addr()
    }

    /// Where the name server is.
    pub(super) fn dns(&self) -> Result<SocketAddr> {
        self.dns.local_addr()
    }

    /// Where a server is.
    pub(super) fn server(&self, name: &str) -> Option<SocketAddr> {
        let (_, listener) = self.servers.iter().find(|(n, _)| n == name)?;
        listener.local_addr().ok()
    }

    /// The TCP ports of all, as a list with commas.
    pub(super) fn ports(&self) -> Result<String> {
        let listeners = self.servers.iter().map(|(_, listener)| listener);
        let ports: Result<Vec<String>> = listeners
            .chain([&self.model])
            .map(|listener| Ok(listener.local_addr()?.port().to_string()))
            .collect();
        Ok(ports?.join(","))
    }

    /// Starts to serve.
    pub(super) fn serve(self, servers: &[Server], words: &Arc<dyn Words + Send + Sync>, mut model: Model) -> Serving {
        let stop = Arc::new(AtomicBool::new(false));
        let notes = model.notes.clone();
        let mut threads = Vec::new();
        for ((name, listener), server) in self.servers.into_iter().zip(servers) {
            let (stop, notes, words, server) = (stop.clone(), notes.clone(), words.clone(), server.clone());
            notes.lock().servers.insert(name.clone(), Vec::new());
            threads.push(std::thread::spawn(move || {
                accept(&listener, &stop, |stream| {
                    let bytes = receive(&stream);
                    answer(&stream, &bytes, &server, &*words);
                    notes.lock().servers.entry(name.clone()).or_default().push(bytes);
                });
            }));
        }
        let names: Vec<String> = servers
            .iter()
            .flat_map(|s| s.names.iter().map(|n| n.value.to_lowercase()))
            .collect();
        let (socket, ended, seen) = (self.dns, stop.clone(), notes.clone());
        threads.push(std::thread::spawn(move || name_server(&socket, &ended, &names, &seen)));
        let (listener, ended) = (self.model, stop.clone());
        threads.push(std::thread::spawn(move || {
            accept(&listener, &ended, |stream| model.serve(&stream));
        }));
        Serving { stop, threads, notes }
    }
}

/// Servers at work.
pub(super) struct Serving {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    notes: Notes,
}

impl Serving {
    /// Takes in what has arrived until now, ends the servers, and gives the evidence.
    pub(super) fn end(self) -> Evidence {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            if thread.join().is_err() {
                self.notes.lock().broken.push("a server broke".to_owned());
            }
        }
        std::mem::take(&mut *self.notes.lock())
    }
}

/// Serves until the play is over *and* nothing more is waiting.
fn accept(listener: &TcpListener, stop: &AtomicBool, mut serve: impl FnMut(TcpStream)) {
    loop {
        let over = stop.load(Ordering::Acquire);
        match listener.accept() {
            Ok((stream, _)) => serve(stream),
            Err(_) if over => return,
            Err(_) => wait(listener),
        }
    }
}

fn wait(socket: &impl AsFd) {
    // Whatever comes of it, the caller looks again.
    let _ = nix::poll::poll(
        &mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)],
        PollTimeout::from(TICK),
    );
}

/// What a connection brings: a whole HTTP request, or all until its end or a silence.
fn receive(stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut block = [0; 8192];
    if stream.set_read_timeout(Some(PATIENCE)).is_err() {
        return bytes;
    }
    let mut limited = stream.take(MAX);
    while !http::is_whole(&bytes) {
        match limited.read(&mut block) {
            Ok(n @ 1..) => bytes.extend_from_slice(&block[..n]),
            Ok(0) | Err(_) => break,
        }
    }
    bytes
}

fn answer(stream: &TcpStream, request: &[u8], server: &Server, words: &dyn Words) {
    let Some(target) = http::target(request) else { return };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let page = server
        .pages
        .iter()
        .find(|p| p.path.value == path || p.path.value == "*");
    let with_query = |name: &str| {
        if name == "query" {
            Some(query.to_owned())
        } else {
            words.word(name)
        }
    };
    // A client that hangs up has what it wanted.
    let _ = match page {
        None => http::answer(stream, 404, "text/plain", None, b"there is nothing here\n"),
        Some(page) => {
            let fill = |text: &str| scenario::fill(text, &with_query);
            let location = page.location.as_ref().map(|l| fill(l));
            let body = page.body.as_ref().map(|b| fill(b)).unwrap_or_default();
            let media_type = fill(&page.media_type);
            http::answer(stream, page.status, &media_type, location.as_deref(), body.as_bytes())
        }
    };
}

fn name_server(socket: &UdpSocket, stop: &AtomicBool, names: &[String], notes: &Notes) {
    let known = |name: &str| {
        names.iter().any(|n| match n.strip_prefix("*.") {
            Some(parent) => name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
            None => n == name,
        })
    };
    let mut message = [0; 2048];
    loop {
        let over = stop.load(Ordering::Acquire);
        match socket.recv_from(&mut message) {
            Ok((n, peer)) => {
                let query = &message[..n];
                let name = dns::name_of(query).unwrap_or_else(|| String::from_utf8_lossy(query).into_owned());
                let address = known(&name).then_some(Ipv4Addr::LOCALHOST);
                notes.lock().dns.push(name);
                if let Some(reply) = dns::reply(query, address) {
                    let _ = socket.send_to(&reply, peer);
                }
            }
            Err(_) if over => return,
            Err(_) => wait(socket),
        }
    }
}
