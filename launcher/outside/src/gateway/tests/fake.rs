//! A gateway in this process with everything around it: upstream, `outside`, launcher and agent.

use super::super::{Limits, serve_unconfined};
use picktwo_confine::channel::{self, Channel};
use picktwo_wire::gateway::{Connect, Connected, FromGateway, GatewayStart, Protocol, Upstream};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub(super) const KEY: &str = "sk-real-key-0123456789";

/// A request as the upstream got it.
#[derive(Clone, Debug)]
pub(super) struct Got {
    pub(super) head: String,
    pub(super) body: String,
}

impl Got {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

pub(super) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// What an upstream does with one request; false closes the connection.
pub(super) type Handler = dyn Fn(&Got, &mut TcpStream) -> bool + Send + Sync;

/// An upstream that counts connections and keeps requests.
pub(super) struct Fake {
    pub(super) address: SocketAddr,
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) requests: Arc<Mutex<Vec<Got>>>,
}

impl Fake {
    pub(super) fn new(handler: impl Fn(&Got, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let handler: Arc<Handler> = Arc::new(handler);
        let (counted, kept) = (connections.clone(), requests.clone());
        thread::spawn(move || {
            while let Ok((mut socket, _)) = listener.accept() {
                counted.fetch_add(1, Ordering::SeqCst);
                socket.set_nodelay(true).unwrap();
                let (handler, kept) = (handler.clone(), kept.clone());
                thread::spawn(move || {
                    while let Some((head, body)) = read_message(&mut socket) {
                        let got = Got {
                            head,
                            body: String::from_utf8_lossy(&body).into_owned(),
                        };
                        kept.lock().unwrap().push(got.clone());
                        if !handler(&got, &mut socket) {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            address,
            connections,
            requests,
        }
    }

    /// Answers every request with this JSON.
    pub(super) fn json(text: &'static str) -> Self {
        Self::new(move |_, socket| {
            socket
                .write_all(whole("200 OK", "application/json", text).as_bytes())
                .is_ok()
        })
    }

    pub(super) fn last(&self) -> Got {
        self.requests
            .lock()
            .unwrap()
            .last()
            .cloned()
            .expect("no request arrived")
    }

    pub(super) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

/// A whole answer.
pub(super) fn whole(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The head of a stream in chunks.
pub(super) const STREAM: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(super) fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

/// Head and body of a request or an answer; `None` at the end of the connection.
pub(super) fn read_message(socket: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let head = read_head(socket)?;
    let mut body = Vec::new();
    if header(&head, "transfer-encoding") == Some("chunked") {
        while let Some(piece) = read_chunk(socket) {
            body.extend_from_slice(&piece);
        }
    } else if let Some(length) = header(&head, "content-length") {
        body.resize(length.parse().unwrap(), 0);
        socket.read_exact(&mut body).ok()?;
    }
    Some((head, body))
}

pub(super) fn read_head(socket: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

/// One chunk; `None` after the last one or if the stream breaks off.
pub(super) fn read_chunk(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") {
        socket.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    let length = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
    let mut data = vec![0; length + 2];
    socket.read_exact(&mut data).ok()?;
    data.truncate(length);
    (length > 0).then_some(data)
}

/// A running gateway.
pub(super) struct Harness {
    pub(super) address: SocketAddr,
    pub(super) launcher: Channel,
    /// How often `outside` was asked for a socket.
    pub(super) asked: Arc<AtomicUsize>,
}

/// Everything that may be allowed.
pub(super) fn upstream(protocol: Protocol, base: &str) -> Upstream {
    let allow: &[&str] = match protocol {
        Protocol::Anthropic => &["POST /v1/messages", "POST /v1/messages/count_tokens"],
        Protocol::Openai => &["POST /v1/responses", "POST /v1/chat/completions"],
        Protocol::Gemini => &[
            "POST /v1beta/models/{model}:generateContent",
            "POST /v1beta/models/*:streamGenerateContent",
        ],
    };
    let allow = allow.iter().map(|entry| (*entry).to_owned()).collect();
    Upstream {
        protocol,
        base: base.to_owned(),
        key: KEY.to_owned(),
        allow,
        models: Vec::new(),
    }
}

/// A start message for the three protocols at one upstream.
pub(super) fn start(address: SocketAddr) -> GatewayStart {
    let base = format!("http://{address}");
    let upstreams = [Protocol::Anthropic, Protocol::Openai, Protocol::Gemini]
        .map(|protocol| upstream(protocol, &base))
        .to_vec();
    GatewayStart {
        upstreams,
        phantom: None,
        roots: Vec::new(),
        probes: Vec::new(),
    }
}

impl Harness {
    pub(super) fn new(fake: &Fake) -> Self {
        Self::with(start(fake.address), Limits::default(), fake.address)
    }

    /// `to`: where `outside` connects, whatever the upstream is called.
    pub(super) fn with(start: GatewayStart, limits: Limits, to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ((launcher, gateway_launcher), (outside, gateway_outside)) =
            (channel::pair().unwrap(), channel::pair().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        thread::spawn(move || {
            let mut message = Vec::new();
            while let Ok(Some(_)) = outside.recv(&mut message) {
                picktwo_wire::decode::<Connect>(&message).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                match TcpStream::connect(to) {
                    Ok(socket) => outside
                        .send(&picktwo_wire::encode(&Connected::Socket).unwrap(), &[socket.as_fd()])
                        .unwrap(),
                    Err(error) => {
                        let failed = Connected::Failed {
                            reason: format!("{to}: {error}"),
                        };
                        outside.send(&picktwo_wire::encode(&failed).unwrap(), &[]).unwrap();
                    }
                }
            }
        });
        thread::spawn(move || serve_unconfined(gateway_launcher, gateway_outside, start, listener, limits));
        let harness = Self {
            address,
            launcher,
            asked,
        };
        assert_eq!(harness.event(), FromGateway::Serving);
        harness
    }

    /// The next event.
    pub(super) fn event(&self) -> FromGateway {
        let mut message = Vec::new();
        self.launcher.recv(&mut message).unwrap().expect("the gateway ended");
        picktwo_wire::decode(&message).unwrap()
    }

    /// The rule of the next event, which must be a refusal.
    pub(super) fn refusal(&self) -> String {
        match self.event() {
            FromGateway::Refused { rule, .. } => rule,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn agent(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    /// One request on a new connection; status and body of the answer.
    pub(super) fn call(&self, path: &str, headers: &str, body: &str) -> (u16, String, String) {
        call(&mut self.agent(), path, headers, body)
    }
}

pub(super) fn send(socket: &mut TcpStream, path: &str, headers: &str, body: &str) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(body.as_bytes()).unwrap();
}

/// One request; status, head and body of the answer.
pub(super) fn call(socket: &mut TcpStream, path: &str, headers: &str, body: &str) -> (u16, String, String) {
    send(socket, path, headers, body);
    answer(socket)
}

pub(super) fn answer(socket: &mut TcpStream) -> (u16, String, String) {
    let (head, body) = read_message(socket).expect("no answer");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, String::from_utf8(body).unwrap())
}
