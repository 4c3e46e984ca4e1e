//! One request of an API and its answer, read whole.

use super::Error;
use crate::gateway::BaseError;
use crate::gateway::echo::Echo;
use crate::gateway::payload::Payload;
use crate::gateway::pool::{Link, Pool, Unreachable};
use crate::gateway::target::Base;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use picktwo_wire::apis::{Api, FromApis, Head, Rate, Service};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use url::Url;

/// One pinned API, ready to be asked.
pub(crate) struct Upstream {
    pub(crate) service: Service,
    pub(crate) base: Base,
    /// Scheme, host, port and prefix; what is asked is appended.
    pub(crate) url: Url,
    credentials: Option<(HeaderName, HeaderValue)>,
    echo: Echo,
    /// GitHub's own API, and no place of storage.
    api: bool,
}

/// What is asked of an API.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: &'static str,
    pub(crate) body: Option<String>,
    /// The key goes along.
    pub(crate) credentials: bool,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// Where it redirects to.
    pub(crate) location: Option<String>,
}

/// Which connection a request goes over.
#[derive(Clone, Copy)]
pub(crate) struct Line<'h> {
    /// The upstream's number, for `outside`.
    pub(crate) index: usize,
    /// The host, where the upstream is a pattern. Such connections are not kept.
    pub(crate) host: Option<&'h str>,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: &'static str,
    pub(crate) reason: String,
}

impl Failure {
    pub(crate) fn new(cause: &'static str, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
        }
    }
}

impl Upstream {
    /// Reads one API of the start message.
    pub(crate) fn new(api: &Api) -> Result<Self, Error> {
        let bad = || Error::Api(BaseError::Host(api.base.clone()));
        let base = Base::read(&api.base).map_err(Error::Api)?;
        let url = Url::parse(&api.base).map_err(|_| bad())?;
        if url.cannot_be_a_base() || url.query().is_some() || url.fragment().is_some() {
            return Err(bad());
        }
        let key = api.key.trim();
        Ok(Self {
            service: api.service,
            base,
            url,
            credentials: credentials(api.service, key).map_err(|_| Error::Api(BaseError::Key))?,
            echo: Echo::new(key),
            api: api.service == Service::Github,
        })
    }

    /// A place of storage: nobody's API, and no key for it.
    pub(crate) fn bare(at: &Url) -> Option<Self> {
        let mut url = at.clone();
        url.set_path("");
        url.set_query(None);
        url.set_fragment(None);
        Some(Self {
            service: Service::Github,
            base: Base::read(url.as_str()).ok()?,
            url,
            credentials: None,
            echo: Echo::new(""),
            api: false,
        })
    }

    pub(crate) fn has_key(&self) -> bool {
        self.credentials.is_some()
    }

    /// Whether an address is one of this API's repositories: what a renamed one redirects to.
    pub(crate) fn covers(&self, to: &Url) -> bool {
        let prefix = self.url.path().trim_end_matches('/');
        let rest = to.path().strip_prefix(prefix).unwrap_or("");
        to.origin() == self.url.origin()
            && to.username().is_empty()
            && to.password().is_none()
            && (rest.starts_with("/repositories/") || rest.starts_with("/repos/"))
    }

    /// The URL of an operation: these segments below the base.
    pub(crate) fn at<'s>(&self, segments: impl IntoIterator<Item = &'s str>) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Asks, and reads at most `room` bytes of an answer. What was sent is told in `called`, whatever came of it.
    pub(crate) async fn exchange(
        &self,
        pool: &Arc<Pool>,
        line: Line<'_>,
        ask: &Ask,
        room: u64,
        called: &mut Called,
    ) -> Result<Answer, Failure> {
        called.begin(ask, &self.base.name);
        let outcome = self.ask(pool, line, ask, room, called).await;
        called.end();
        outcome
    }

    async fn ask(
        &self,
        pool: &Arc<Pool>,
        Line { index, host }: Line<'_>,
        ask: &Ask,
        room: u64,
        called: &mut Called,
    ) -> Result<Answer, Failure> {
        let name = &self.base.name;
        let mut kept = if host.is_none() { pool.take(index) } else { None };
        let (response, link) = loop {
            let mut link: Link = match kept.take() {
                Some(link) => link,
                None => match pool.connect(index, host, name, self.base.tls.as_deref()).await {
                    Ok(link) => link,
                    Err(Unreachable::Now(reason) | Unreachable::Always(reason)) => {
                        return Err(Failure::new("connect", reason));
                    }
                },
            };
            match link.send(self.request(ask)?).await {
                Ok(response) => break (response, link),
                // The API had closed the kept connection: nothing came back, so a fresh one is tried, once.
                Err((_, true)) if link.reused => continue,
                Err((error, _)) => {
                    let what = if error.is_parse() {
                        "the answer is not HTTP"
                    } else {
                        "no answer"
                    };
                    return Err(Failure::new("protocol", format!("{name}: {what}: {error}")));
                }
            }
        };
        let (parts, body) = response.into_parts();
        called.status = parts.status.as_u16();
        let head = self.head(ask, called.status, &parts.headers)?;
        let location = matches!(called.status, 301 | 302 | 303 | 307 | 308)
            .then(|| parts.headers.get(header::LOCATION)?.to_str().ok().map(str::to_owned))
            .flatten();
        let body = read(Response::new(body), name, room, &mut called.received).await?;
        if host.is_none() {
            pool.give_back(link);
        }
        // An API that reports requests back would give the key to whoever reads the answer.
        if self.echo.is_in(&body) {
            return Err(Failure::new(
                "key-echo",
                format!("{name}: the answer holds the key it was asked with; it was dropped"),
            ));
        }
        Ok(Answer { head, body, location })
    }

    fn request(&self, ask: &Ask) -> Result<Request<Payload>, Failure> {
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(&ask.url[url::Position::BeforePath..url::Position::AfterQuery])
            .header(header::HOST, self.base.host.clone())
            .header(header::ACCEPT, ask.accept)
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::USER_AGENT, concat!("picktwo/", env!("CARGO_PKG_VERSION")));
        if ask.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if self.api {
            request = request.header("x-github-api-version", "2022-11-28");
        }
        if let Some((name, value)) = self.credentials.as_ref().filter(|_| ask.credentials) {
            request = request.header(name.clone(), value.clone());
        }
        request
            .body(Payload::full(ask.body.clone().unwrap_or_default()))
            .map_err(|e| Failure::new("protocol", format!("the request cannot be written: {e}")))
    }

    /// Numbers, and words of a narrow grammar: nothing of a stranger's that could be more.
    fn head(&self, ask: &Ask, status: u16, headers: &HeaderMap) -> Result<Head, Failure> {
        let text = |name: &'static str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("").trim();
        let encoding = text("content-encoding");
        if !matches!(encoding, "" | "identity") {
            let reason = format!(
                "{}: the answer is compressed although that was not asked for",
                self.base.name
            );
            return Err(Failure::new("protocol", reason));
        }
        let media = text("content-type")
            .split(';')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase();
        let plain = media.len() <= 100
            && media
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"/.+-_".contains(&b));
        Ok(Head {
            url: ask.url.to_string(),
            status,
            media: if plain { media } else { String::new() },
            retry_after: text("retry-after").parse().ok(),
            rate: rate(&text),
            permissions: Some(text("x-accepted-github-permissions"))
                .filter(|p| {
                    let known = |b: u8| b.is_ascii_lowercase() || b"_=,; ".contains(&b);
                    (1..=200).contains(&p.len()) && p.bytes().all(known)
                })
                .map(str::to_owned),
            more: text("link").contains("rel=\"next\""),
            credentials: ask.credentials && self.has_key(),
        })
    }
}

/// The limit that GitHub states. It names the moment of its end; what is told is how far that is.
fn rate<'h>(text: &impl Fn(&'static str) -> &'h str) -> Option<Rate> {
    let number = |name: &'static str| text(name).parse::<u64>().ok();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Some(Rate {
        limit: number("x-ratelimit-limit")?,
        remaining: number("x-ratelimit-remaining")?,
        reset_in: number("x-ratelimit-reset")?.saturating_sub(now),
    })
}

async fn read(response: Response<Incoming>, name: &str, room: u64, received: &mut u64) -> Result<Vec<u8>, Failure> {
    let mut body = response.into_body();
    let large = || Failure::new("too-large", format!("{name}: the answer has more than {room} bytes"));
    if body.size_hint().lower() > room {
        return Err(large());
    }
    let mut whole = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|e| Failure::new("protocol", format!("{name}: the answer broke off: {e}")))?;
        let Ok(chunk): Result<Bytes, _> = frame.into_data() else {
            continue;
        };
        *received += chunk.len() as u64;
        if whole.len() as u64 + chunk.len() as u64 > room {
            return Err(large());
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

fn credentials(service: Service, key: &str) -> Result<Option<(HeaderName, HeaderValue)>, header::InvalidHeaderValue> {
    if key.is_empty() {
        return Ok(None);
    }
    let (name, text) = match service {
        Service::Brave => (HeaderName::from_static("x-subscription-token"), key.to_owned()),
        Service::Exa => (HeaderName::from_static("x-api-key"), key.to_owned()),
        Service::Kagi => (header::AUTHORIZATION, format!("Bot {key}")),
        Service::Tavily | Service::Searxng | Service::Github => (header::AUTHORIZATION, format!("Bearer {key}")),
    };
    let mut value = HeaderValue::from_str(&text)?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

/// What the launcher is told of one request.
pub(crate) struct Called {
    id: u64,
    method: String,
    host: String,
    path: String,
    status: u16,
    received: u64,
    started: Instant,
    reports: tokio::sync::mpsc::Sender<FromApis>,
    open: bool,
}

impl Called {
    pub(crate) fn new(id: u64, reports: tokio::sync::mpsc::Sender<FromApis>) -> Self {
        Self {
            id,
            method: String::new(),
            host: String::new(),
            path: String::new(),
            status: 0,
            received: 0,
            started: Instant::now(),
            reports,
            open: false,
        }
    }

    fn begin(&mut self, ask: &Ask, host: &str) {
        self.method = ask.method.to_string();
        self.host = host.to_owned();
        self.path = ask.url.path().to_owned();
        (self.status, self.received, self.started) = (0, 0, Instant::now());
        self.open = true;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            let report = FromApis::Called {
                id: self.id,
                method: self.method.clone(),
                host: self.host.clone(),
                path: self.path.clone(),
                status: self.status,
                received: self.received,
                ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            };
            // A full queue means that the launcher reads nothing: it has ended, or is about to end this.
            let _ = self.reports.try_send(report);
        }
    }
}

impl Drop for Called {
    // A request that was given up on in the middle was sent all the same.
    fn drop(&mut self) {
        self.end();
    }
}
