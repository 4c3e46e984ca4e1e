//! What is around a gateway's process: launcher, `outside`, upstream, agent.

use picktwo_confine::channel::{self, Channel};
use picktwo_confine::process::{self, Child};
use picktwo_confine::role::Role;
use picktwo_outside::model::FromModel;
use picktwo_wire::gateway::{
    Connect, Connected, FromGateway, GatewayStart, ModelStart, Protocol, Upstream, UpstreamAddress,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

const KEY: &str = "sk-real-key-0123456789";
pub(crate) const SMALL: &str =
    r#"{"model":"claude-opus-5-5","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#;
pub(crate) const WHOLE: &str = r#"{"type":"message","content":[{"type":"text","text":"hello"}]}"#;
/// One event of a stream.
pub(crate) const EVENT: &str =
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"abc\"}}\n\n";
/// Events of a stream, and milliseconds between them.
pub(crate) const EVENTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(2);
/// A request whose text is this gets events with the time of their writing, in nanoseconds since [`START`].
pub(crate) const TIMED: &str = "say when";
pub(crate) static START: LazyLock<Instant> = LazyLock::new(Instant::now);

const ROOT: &[u8] = include_bytes!("../../src/gateway/tests/tls/root.der");
const LEAF: &[u8] = include_bytes!("../../src/gateway/tests/tls/leaf.der");
const LEAF_KEY: &[u8] = include_bytes!("../../src/gateway/tests/tls/leaf.key.der");

/// A gateway's process.
pub(crate) struct Rig {
    child: Child,
    launcher: Option<Channel>,
    outside: Option<Channel>,
    address: Option<SocketAddr>,
}

impl Rig {
    pub(crate) fn spawn() -> Self {
        Self::spawn_with(b"{}")
    }

    /// Starts the role with this first message.
    pub(crate) fn spawn_with(first: &[u8]) -> Self {
        let exe = process::own_executable().unwrap();
        let (launcher, theirs) = channel::pair().unwrap();
        let (child, outside) = process::spawn_role(Role::Gateway, exe.as_fd()).unwrap();
        outside.send(first, &[theirs.as_fd()]).unwrap();
        Self {
            child,
            launcher: Some(launcher),
            outside: Some(outside),
            address: None,
        }
    }

    /// Starts the supervisor of the model side, which starts the gateway and connects for it to `upstream`.
    pub(crate) fn supervised(upstream: SocketAddr) -> Self {
        let exe = process::own_executable().unwrap();
        let (launcher, theirs) = channel::pair().unwrap();
        let (child, supervisor) = process::spawn_role(Role::OutsideModel, exe.as_fd()).unwrap();
        let start = ModelStart {
            upstreams: vec![UpstreamAddress {
                host: upstream.ip().to_string(),
                port: upstream.port(),
            }],
            nameservers: Vec::new(),
        };
        supervisor
            .send(&picktwo_wire::encode(&start).unwrap(), &[theirs.as_fd()])
            .unwrap();
        let mut message = Vec::new();
        supervisor.recv(&mut message).unwrap().expect("the supervisor ended");
        assert_eq!(picktwo_wire::decode::<FromModel>(&message).unwrap(), FromModel::Ready);
        Self {
            child,
            launcher: Some(launcher),
            outside: Some(supervisor),
            address: None,
        }
    }

    /// Starts a gateway that [`Rig::supervised`] has started.
    pub(crate) fn serve_supervised(&mut self, base: &str) {
        let start = self.start(base);
        self.send_start(&start);
        assert_eq!(self.event(), FromGateway::Serving);
    }

    pub(crate) fn start(&self, base: &str) -> GatewayStart {
        let upstream = Upstream {
            protocol: Protocol::Anthropic,
            base: base.to_owned(),
            key: KEY.to_owned(),
            allow: vec!["POST /v1/messages".to_owned()],
            models: Vec::new(),
        };
        GatewayStart {
            upstreams: vec![upstream],
            phantom: None,
            roots: vec![ROOT.to_vec()],
            probes: Vec::new(),
        }
    }

    /// Waits until it is locked and sends the start message with a listening socket.
    pub(crate) fn send_start(&mut self, start: &GatewayStart) {
        assert_eq!(self.event(), FromGateway::Ready);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.address = Some(listener.local_addr().unwrap());
        let message = picktwo_wire::encode(start).unwrap();
        self.launcher
            .as_ref()
            .unwrap()
            .send(&message, &[listener.as_fd()])
            .unwrap();
    }

    /// Starts it with one upstream; `outside` connects to `to`.
    pub(crate) fn serve(&mut self, base: &str, to: SocketAddr) {
        let start = self.start(base);
        self.send_start(&start);
        assert_eq!(self.event(), FromGateway::Serving);
        let outside = self.outside.take().unwrap();
        thread::spawn(move || {
            let mut message = Vec::new();
            while let Ok(Some(_)) = outside.recv(&mut message) {
                picktwo_wire::decode::<Connect>(&message).unwrap();
                let socket = TcpStream::connect(to).unwrap();
                outside
                    .send(&picktwo_wire::encode(&Connected::Socket).unwrap(), &[socket.as_fd()])
                    .unwrap();
            }
        });
    }

    pub(crate) fn event(&self) -> FromGateway {
        let mut message = Vec::new();
        self.launcher
            .as_ref()
            .unwrap()
            .recv(&mut message)
            .unwrap()
            .expect("the gateway ended");
        picktwo_wire::decode(&message).unwrap()
    }

    pub(crate) fn close_launcher(&mut self) {
        self.launcher = None;
    }

    pub(crate) fn exit_code(&mut self) -> i32 {
        assert!(self.child.ended_within(5000).unwrap(), "it did not end");
        self.child.wait().unwrap().code()
    }

    pub(crate) fn agent(&self) -> TcpStream {
        connect(self.address.unwrap())
    }

    /// A file of the process's directory in /proc; empty if it cannot be read.
    pub(crate) fn proc(&self, name: &str) -> String {
        let bytes = std::fs::read(format!("/proc/{}/{name}", self.child.pid())).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

pub(crate) fn tls() -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let chain = vec![CertificateDer::from_slice(LEAF)];
    Arc::new(
        builder
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::try_from(LEAF_KEY).unwrap())
            .unwrap(),
    )
}

/// An upstream that answers whole, or with a stream if the body asks for one.
pub(crate) fn upstream(tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    upstream_on(TcpListener::bind("127.0.0.1:0").unwrap(), tls)
}

/// The same on a listener that was made before.
pub(crate) fn upstream_on(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            socket.set_nodelay(true).unwrap();
            let tls = tls.clone();
            thread::spawn(move || match tls {
                None => answer_all(socket),
                Some(config) => answer_all(StreamOwned::new(ServerConnection::new(config).unwrap(), socket)),
            });
        }
    });
    address
}

fn answer_all(mut stream: impl Read + Write) {
    while let Some((_, body)) = read_message(&mut stream) {
        let sent = if body.contains("\"stream\":true") {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                .unwrap();
            let timed = body.contains(TIMED);
            for _ in 0..EVENTS {
                thread::sleep(PAUSE);
                let now = || format!("{:012}", START.elapsed().as_nanos());
                let event = if timed {
                    EVENT.replace("abc", &now())
                } else {
                    EVENT.to_owned()
                };
                let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                stream
                    .write_all(chunk.as_bytes())
                    .and_then(|()| stream.flush())
                    .unwrap();
            }
            stream.write_all(b"0\r\n\r\n")
        } else {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{WHOLE}",
                WHOLE.len()
            );
            stream.write_all(head.as_bytes())
        };
        if sent.and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

pub(crate) fn send(socket: &mut TcpStream, path: &str, body: &str) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
}

/// Status and body of the answer.
pub(crate) fn call(socket: &mut TcpStream, path: &str, body: &str) -> (u16, String) {
    send(socket, path, body);
    let (head, body) = read_message(socket).expect("no answer");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

pub(crate) fn read_message(stream: &mut impl Read) -> Option<(String, String)> {
    let head = until(stream, b"\r\n\r\n")?;
    let field = |name: &str| {
        head.lines()
            .filter_map(|l| l.split_once(": "))
            .find(|(k, _)| k.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.to_owned())
    };
    let mut body = Vec::new();
    if field("transfer-encoding").is_some() {
        while let Some(chunk) = read_chunk(stream) {
            body.extend_from_slice(&chunk);
        }
    } else {
        body.resize(field("content-length")?.parse().unwrap(), 0);
        stream.read_exact(&mut body).ok()?;
    }
    Some((head, String::from_utf8(body).unwrap()))
}

pub(crate) fn read_chunk(stream: &mut impl Read) -> Option<Vec<u8>> {
    let length = usize::from_str_radix(until(stream, b"\r\n")?.trim(), 16).unwrap();
    let mut data = vec![0; length + 2];
    stream.read_exact(&mut data).ok()?;
    data.truncate(length);
    (length > 0).then_some(data)
}

/// Reads up to and with an end.
pub(crate) fn until(stream: &mut impl Read, end: &[u8]) -> Option<String> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(end) {
        stream.read_exact(&mut byte).ok()?;
        text.push(byte[0]);
    }
    String::from_utf8(text).ok()
}
