//! The server on the session's socket: reads requests, refuses or forwards them, passes answers on.

use super::channel::AsyncChannel;
use super::check::rewrite;
use super::forward::Forward;
use super::json::{self, Value, write_string};
use super::payload::Payload;
use super::pool::Pool;
use super::record::Recorder;
use super::refusal::Refusal;
use super::role::tell_failure;
use super::route::{self, Ask, Call};
use super::target::{self, Target};
use super::{Error, Limits};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use picktwo_confine::channel::Channel;
use picktwo_wire::gateway::{FromGateway, GatewayStart, Protocol};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

/// Bytes of a request's body: the providers' own limit for inline images and documents.
const MAX_BODY: usize = 32 << 20;
/// Bytes of all bodies that are being read and checked at a time, in KiB.
const BODIES_KIB: usize = 96 << 10;
/// Connections of agents at a time.
const CONNECTIONS: usize = 64;
/// Bytes of a request's head, and its fields.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;
/// Longest pause in a request's body.
const BODY_PAUSE: Duration = Duration::from_secs(30);
/// How long a connection of the agent may be unused.
const CLIENT_IDLE: Duration = Duration::from_secs(900);

/// What all connections share.
pub(crate) struct Gateway {
    targets: Vec<Target>,
    phantom: Option<String>,
    models: Bytes,
    pool: Arc<Pool>,
    recorder: Recorder,
    bodies: Semaphore,
    limits: Limits,
}

/// Serves until the launcher's end of the channel is closed.
///
/// # Errors
/// What makes serving impossible; the launcher was told.
pub(crate) async fn serve(
    launcher: Channel,
    outside: Channel,
    start: GatewayStart,
    listener: std::net::TcpListener,
    limits: Limits,
) -> Result<(), Error> {
    let targets: Result<Vec<Target>, _> = start.upstreams.iter().map(Target::new).collect();
    let targets = targets
        .map_err(Error::Upstream)
        .inspect_err(|error| tell_failure(&launcher, error))?;
    let listening = |e| Error::Socket("listening socket", e);
    listener.set_nonblocking(true).map_err(listening)?;
    let listener = TcpListener::from_std(listener).map_err(listening)?;
    let launcher = Arc::new(AsyncChannel::new(launcher).map_err(|e| Error::Socket("channel to the launcher", e))?);
    let outside = AsyncChannel::new(outside).map_err(|e| Error::Socket("channel to outside", e))?;
    let serving = picktwo_wire::encode(&FromGateway::Serving).map_err(Error::Message)?;
    launcher
        .send(&serving)
        .await
        .map_err(|e| Error::Socket("channel to the launcher", e))?;
    let gateway = Arc::new(Gateway {
        models: model_list(&targets).into(),
        targets,
        phantom: start.phantom,
        pool: Arc::new(Pool::start(outside, start.roots)),
        recorder: Recorder::start(launcher.clone()),
        bodies: Semaphore::new(BODIES_KIB),
        limits,
    });
    tokio::spawn(accept(listener, gateway));
    // The launcher says nothing more: its end of the channel is the end of the session.
    match launcher.recv().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(Error::Unexpected("a second message of the launcher")),
        Err(e) => Err(Error::Socket("channel to the launcher", e)),
    }
}

async fn accept(listener: TcpListener, gateway: Arc<Gateway>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut strangers = Strangers::default();
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(_) => {
                // Out of descriptors, or a connection that is gone again: the next attempt decides.
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if places.available_permits() == 0 {
            strangers.send_one_away();
        }
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let client = Arc::new(Client {
            known: AtomicBool::new(gateway.phantom.is_none()),
            leave: Notify::new(),
        });
        strangers.add(&client);
        let gateway = gateway.clone();
        tokio::spawn(async move {
            let mut serving = pin!(connection(socket, gateway, &client));
            let mut leaving = pin!(client.leave.notified());
            poll_fn(|cx| {
                let over = serving.as_mut().poll(cx).is_ready() || leaving.as_mut().poll(cx).is_ready();
                if over { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            drop(place);
        });
    }
}

/// One connection.
struct Client {
    /// Whether it is the session's: it has presented the token, or nobody else reaches the socket.
    known: AtomicBool,
    leave: Notify,
}

/// Connections that have not presented the session's token yet, the oldest first: on a shared loopback, another user's must not take the
/// places of the agent's.
#[derive(Default)]
struct Strangers(VecDeque<Weak<Client>>);

impl Strangers {
    fn add(&mut self, client: &Arc<Client>) {
        let stranger = |client: &Weak<Client>| {
            client
                .upgrade()
                .is_some_and(|client| !client.known.load(Ordering::Acquire))
        };
        self.0.retain(stranger);
        self.0.push_back(Arc::downgrade(client));
    }

    fn send_one_away(&mut self) {
        while let Some(client) = self.0.pop_front() {
            if let Some(client) = client.upgrade()
                && !client.known.load(Ordering::Acquire)
            {
                client.leave.notify_one();
                return;
            }
        }
    }
}

async fn connection(socket: TcpStream, gateway: Arc<Gateway>, client: &Arc<Client>) {
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let client = Arc::clone(client);
    let service = service_fn(move |request| {
        let (gateway, client) = (gateway.clone(), client.clone());
        async move { Ok::<_, Infallible>(gateway.answer(request, &client.known).await) }
    });
    // An error of this connection is the agent's: nothing to tell, the calls on it have their own records.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CLIENT_IDLE)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

impl Gateway {
    /// Answers one request; `known` is set once its connection is the session's.
    async fn answer(&self, request: Request<Incoming>, known: &AtomicBool) -> Response<Payload> {
        let (parts, body) = request.into_parts();
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let dialect = route::dialect(path, parts.headers.contains_key("anthropic-version"));
        let refused = match self.understand(&parts.method, &parts.uri, parts.version, &parts.headers) {
            Ok(Ask::Hello) => return respond(StatusCode::OK, Bytes::new()),
            Ok(Ask::Models) => {
                known.store(true, Ordering::Release);
                return respond(StatusCode::OK, self.models.clone());
            }
            Ok(Ask::Call(call)) => {
                known.store(true, Ordering::Release);
                match self.call(call, &parts.headers, body).await {
                    Ok(response) => return response,
                    Err(refusal) => refusal,
                }
            }
            Err(refusal) => refusal,
        };
        self.recorder.refused(method, path, refused.rule, &refused.summary());
        let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = respond(status, refused.body(dialect).into());
        // The SDKs of two vendors take this as: do not try again.
        response
            .headers_mut()
            .insert("x-should-retry", HeaderValue::from_static("false"));
        response
    }

    fn understand<'u>(
        &self,
        method: &Method,
        uri: &'u hyper::Uri,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<Ask<'u>, Refusal> {
        if headers.contains_key(header::UPGRADE) || method == Method::CONNECT {
            // Codex falls back to plain requests at this status.
            return Err(Refusal::new("upgrade", "no other protocol than HTTP/1.1 is spoken here").status(426));
        }
        if uri.authority().is_some() || version != Version::HTTP_11 {
            return Err(Refusal::new(
                "path",
                "only HTTP/1.1 requests for a path are answered; this is not a proxy",
            ));
        }
        let ask = route::read(method.as_str(), uri.path(), uri.query())?;
        match &self.phantom {
            Some(phantom) if ask != Ask::Hello && !presents(headers, phantom) => Err(Refusal::new(
                "token",
                "the request does not present the token of this session, which the agent finds in its API key variable",
            )),
            _ => Ok(ask),
        }
    }

    async fn call(&self, call: Call<'_>, headers: &HeaderMap, body: Incoming) -> Result<Response<Payload>, Refusal> {
        let candidates = target::choose(&self.targets, &call)?;
        let length = framing(headers, &body)?;
        let kib = u32::try_from(length / 1024 + 1).unwrap_or(u32::MAX);
        let budget = self
            .bodies
            .acquire_many(kib)
            .await
            .map_err(|_| Refusal::new("too-large", "no room for bodies"))?;
        let body = read(body, length).await?;
        let value = json::parse(&body, json::REQUEST)?;
        let model = call.model.or_else(|| value.get("model").and_then(Value::text));
        let fits = |target: &Target| model.is_none_or(|model| target.models().check(model).is_ok());
        let (index, target) = *candidates
            .iter()
            .find(|(_, target)| fits(target))
            .unwrap_or(&candidates[0]);
        if let Some(model) = call.model {
            target.models().check(model)?;
        }
        let out = Bytes::from(rewrite(&value, call.operation.schema(), &target.models())?);
        let stream = call.query == Some("alt=sse") || matches!(value.get("stream"), Some(Value::Bool(true)));
        let betas: Vec<&str> = headers
            .get_all("anthropic-beta")
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .map(str::trim)
            .collect();
        let request = || target.request(&call, &betas, stream, out.clone());
        request()?;
        let sent = out.len() as u64;
        let Some(record) = self
            .recorder
            .call(call.path, model.map(|m| &m[..m.len().min(128)]), sent)
        else {
            return Err(Refusal::new(
                "record",
                "the launcher does not take records, and what cannot be recorded is not sent",
            ));
        };
        let forward = Forward {
            pool: &self.pool,
            recorder: &self.recorder,
            target,
            index,
            call: &call,
            limits: &self.limits,
        };
        let response = forward.run(&request, record).await;
        drop(budget);
        response
    }
}

/// Checks how the body is framed; returns its length.
fn framing(headers: &HeaderMap, body: &Incoming) -> Result<usize, Refusal> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return Err(Refusal::new(
            "encoding",
            "the body has to come with a Content-Length, not in chunks",
        ));
    }
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|value| value != "identity")
    {
        return Err(Refusal::new("encoding", "compressed bodies are not read"));
    }
    let json = headers.get(header::CONTENT_TYPE).is_none_or(|value| {
        let kind = value.to_str().unwrap_or("").split(';').next().unwrap_or("").trim();
        kind.eq_ignore_ascii_case("application/json")
    });
    if !json {
        return Err(Refusal::new("encoding", "only application/json is read"));
    }
    match body.size_hint().exact() {
        Some(length) if length <= MAX_BODY as u64 => Ok(length as usize),
        Some(length) => Err(Refusal::new(
            "too-large",
            format!("a body of {length} bytes, at most {MAX_BODY} are accepted"),
        )),
        None => Err(Refusal::new("encoding", "the body has to come with a Content-Length")),
    }
}

async fn read(mut body: Incoming, length: usize) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::with_capacity(length.min(1 << 20));
    loop {
        let next = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        match timeout(BODY_PAUSE, next).await {
            Ok(None) => return Ok(bytes),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    bytes.extend_from_slice(&data);
                }
            }
            Ok(Some(Err(error))) => return Err(Refusal::new("malformed", format!("the body broke off: {error}"))),
            Err(_) => return Err(Refusal::new("malformed", "the body stopped coming")),
        }
    }
}

/// Whether the agent presents the session's token in any of the ways that it may present a key.
fn presents(headers: &HeaderMap, phantom: &str) -> bool {
    let presented = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let bearer = presented("authorization").and_then(|value| value.strip_prefix(b"Bearer "));
    [presented("x-api-key"), presented("x-goog-api-key"), bearer]
        .into_iter()
        .fold(false, |found, value| {
            found | value.is_some_and(|value| same(value, phantom.as_bytes()))
        })
}

/// Compares in a time that depends on the lengths only.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .fold(0, |difference, (x, y)| black_box(difference | (x ^ y)))
            == 0
}

/// The list of models that the policy names, in the shape that both vendors' clients read.
fn model_list(targets: &[Target]) -> Vec<u8> {
    let mut out = br#"{"object":"list","data":["#.to_vec();
    let names = targets
        .iter()
        .filter(|target| target.protocol != Protocol::Gemini)
        .flat_map(Target::listed);
    for (n, name) in names.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"id":"#);
        write_string(name, &mut out);
        out.extend_from_slice(br#","object":"model","type":"model","created":0,"owned_by":"policy","display_name":"#);
        write_string(name, &mut out);
        out.extend_from_slice(br#","created_at":"1970-01-01T00:00:00Z"}"#);
    }
    out.extend_from_slice(br#"],"has_more":false}"#);
    out
}

/// A whole JSON answer.
pub(crate) fn respond(status: StatusCode, body: Bytes) -> Response<Payload> {
    let mut response = Response::new(Payload::full(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
