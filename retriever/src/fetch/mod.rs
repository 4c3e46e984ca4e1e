//! Fetches one document over HTTP: `GET` only, no cookies, no referer, redirects one by one and only after the launcher agreed.

mod decode;
mod error;
mod media;

pub use error::{FetchError, Large, Slow};
pub use media::Kind;

use error::{DnsFailure, classify};
use picktwo_wire::MAX_URL;
use picktwo_wire::retrieval::{Limits, Resolved};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of all header fields of one response.
pub const MAX_HEADERS: usize = 64 * 1024;
/// Header fields of one response.
const MAX_FIELDS: usize = 200;
/// How long a body may be slower than the least rate.
const GRACE: Duration = Duration::from_secs(10);

/// A document as it was fetched.
#[derive(Clone, Debug)]
pub struct Document {
    /// The URL that answered, after redirects.
    pub url: Url,
    /// How it is to be read.
    pub kind: Kind,
    /// Media type without parameters; empty if the server named none.
    pub media: String,
    /// The decoded bytes.
    pub body: Vec<u8>,
    /// Its text.
    pub text: String,
    /// Characters that could not be decoded.
    pub undecodable: u64,
    /// Bytes of the bodies as transferred.
    pub wire_bytes: u64,
}

/// Who is told about every hop and asked about every redirect.
pub trait Hops {
    /// A response's head has arrived. With a `location`, the answer says whether to follow it.
    fn hop(&mut self, url: &str, status: u16, location: Option<&str>) -> impl Future<Output = Result<(), FetchError>>;
}

/// Who turns names into addresses.
pub trait Names: Send + Sync + 'static {
    /// Resolves a lower-case ASCII name.
    fn resolve(&self, host: String) -> Pin<Box<dyn Future<Output = Result<Resolved, String>> + Send>>;
}

struct Resolver(Arc<dyn Names>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
        let asked = self.0.resolve(host.clone());
        Box::pin(async move {
            let failed = |reason: String| {
                Box::new(DnsFailure {
                    host: host.clone(),
                    reason,
                }) as Box<dyn std::error::Error + Send + Sync>
            };
            let resolved = asked.await.map_err(failed)?;
            if resolved.host != host {
                return Err(failed("the answer is for another name".to_owned()));
            }
            if resolved.addresses.is_empty() {
                return Err(failed(resolved.error.unwrap_or_else(|| "it has no address".to_owned())));
            }
            let addresses: Vec<SocketAddr> = resolved.addresses.into_iter().map(|a| SocketAddr::new(a, 0)).collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Fetches `url`.
///
/// # Errors
/// [`FetchError`], one kind for each way in which it can go wrong.
pub async fn fetch(
    url: &str,
    limits: &Limits,
    roots: &[Vec<u8>],
    names: Arc<dyn Names>,
    hops: &mut impl Hops,
) -> Result<Document, FetchError> {
    let mut url = judge(url)?;
    let client = client(limits, roots, names)?;
    let mut deadline = Instant::now() + Duration::from_millis(limits.total_ms);
    for followed in 0..=limits.redirects {
        let response = within(deadline, limits, get(&client, &url, limits)).await?;
        let status = response.status().as_u16();
        let Some(next) = redirect(&response, &url)? else {
            hops.hop(url.as_str(), status, None).await?;
            return receive(response, url, deadline, limits).await;
        };
        if followed == limits.redirects {
            hops.hop(url.as_str(), status, None).await?;
            return Err(FetchError::Redirect(format!("more than {} in a row", limits.redirects)));
        }
        drop(response);
        // Somebody may have to be asked: that time is not the server's.
        let asked = Instant::now();
        hops.hop(url.as_str(), status, Some(next.as_str())).await?;
        deadline += asked.elapsed();
        url = next;
    }
    Err(FetchError::Redirect(format!("more than {} in a row", limits.redirects)))
}

/// Reads a URL as the web does and refuses what a retriever never fetches. Whether its host may be reached is decided by the
/// launcher before, and by the granted connection after.
///
/// # Errors
/// [`FetchError::Url`] with the reason.
pub fn judge(url: &str) -> Result<Url, FetchError> {
    let refused = |why: &str| Err(FetchError::Url(why.to_owned()));
    if url.len() > MAX_URL {
        return refused("it is too long");
    }
    if url.chars().any(|c| c.is_control()) {
        return refused("it contains control characters");
    }
    let parsed = Url::parse(url).map_err(|e| FetchError::Url(e.to_string()))?;
    check(&parsed)?;
    Ok(parsed)
}

fn check(url: &Url) -> Result<(), FetchError> {
    let refused = |why: &str| Err(FetchError::Url(why.to_owned()));
    match url.scheme() {
        "http" | "https" => {}
        other => return Err(FetchError::Url(format!("its scheme is “{other}”, not http or https"))),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused("it carries a user name or password");
    }
    if url
        .host_str()
        .is_none_or(|h| h.is_empty() || h.len() > picktwo_wire::MAX_HOST + 1)
    {
        return refused("it has no proper host");
    }
    if url.as_str().len() > MAX_URL {
        return refused("it is too long");
    }
    Ok(())
}

/// A document out of bytes that came by another way than a fetch: its kind is told by its path.
///
/// # Errors
/// [`FetchError::ContentType`] for what is not read, [`FetchError::Encoding`] for what cannot be.
pub(crate) fn document(url: Url, path: &str, body: Vec<u8>) -> Result<Document, FetchError> {
    let kind = media::kind("text/plain", path, &body)?;
    let (text, undecodable) = media::text(kind, None, &body)?;
    Ok(Document {
        url,
        kind,
        media: "text/plain".to_owned(),
        wire_bytes: body.len() as u64,
        body,
        text,
        undecodable,
    })
}

/// Host and port, for people.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("");
    url.port_or_known_default()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn client(limits: &Limits, roots: &[Vec<u8>], names: Arc<dyn Names>) -> Result<Client, FetchError> {
    let mut headers = HeaderMap::new();
    let accept = "text/html,application/xhtml+xml,text/markdown,text/plain,application/json,application/xml;q=0.9,application/pdf;q=0.8,text/*;q=0.8,*/*;q=0.1";
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(decode::ACCEPTED));
    headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static("en,*;q=0.5"));
    Client::builder()
        .tls_backend_preconfigured(tls(roots)?)
        .dns_resolver(Resolver(names))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .default_headers(headers)
        .user_agent(concat!("picktwo/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_millis(limits.connect_ms))
        .http1_max_headers(MAX_FIELDS)
        .http2_max_header_list_size(MAX_HEADERS as u32)
        .build()
        .map_err(|e| FetchError::Channel(format!("the HTTP client could not be made: {e}")))
}

/// TLS with the compiled-in roots and those of the user's policy.
fn tls(roots: &[Vec<u8>]) -> Result<rustls::ClientConfig, FetchError> {
    let mut store = rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    for der in roots {
        store
            .add(der.clone().into())
            .map_err(|e| FetchError::Channel(format!("a root certificate of the policy is malformed: {e}")))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| FetchError::Channel(format!("TLS could not be set up: {e}")))?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn within<T>(
    deadline: Instant,
    limits: &Limits,
    work: impl Future<Output = Result<T, FetchError>>,
) -> Result<T, FetchError> {
    match tokio::time::timeout_at(deadline.into(), work).await {
        Ok(done) => done,
        Err(_) => Err(FetchError::Timeout(Slow::Total(limits.total_ms))),
    }
}

async fn get(client: &Client, url: &Url, limits: &Limits) -> Result<Response, FetchError> {
    let response = client
        .get(url.clone())
        .send()
        .await
        .map_err(|e| classify(&e, &host(url), limits))?;
    let size: usize = response
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    if size > MAX_HEADERS {
        return Err(FetchError::TooLarge(Large::Headers));
    }
    Ok(response)
}

/// Where a response redirects to, if it does.
fn redirect(response: &Response, from: &Url) -> Result<Option<Url>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(header::LOCATION) else {
        return Ok(None);
    };
    let location = std::str::from_utf8(location.as_bytes())
        .map_err(|_| FetchError::Redirect("its address is not text".to_owned()))?;
    let next = from
        .join(location)
        .map_err(|e| FetchError::Redirect(format!("its address is malformed: {e}")))?;
    check(&next).map_err(|e| FetchError::Redirect(e.to_string()))?;
    if from.scheme() == "https" && next.scheme() != "https" {
        return Err(FetchError::Redirect(format!(
            "it leads from https to http on {}",
            host(&next)
        )));
    }
    Ok(Some(next))
}

async fn receive(response: Response, url: Url, deadline: Instant, limits: &Limits) -> Result<Document, FetchError> {
    let status = response.status().as_u16();
    if !response.status().is_success() {
        return Err(FetchError::Status {
            url: url.to_string(),
            status,
        });
    }
    let named = |name| {
        response
            .headers()
            .get_all(name)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .collect::<Vec<_>>()
            .join(",")
    };
    let encoding = named(header::CONTENT_ENCODING);
    let (media, charset) = media::parse(
        response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or(""),
    );
    // What is certain to be refused is not downloaded first.
    media::kind(&media, url.path(), b"")?;
    if response.content_length().is_some_and(|n| n > limits.wire_bytes) {
        return Err(FetchError::TooLarge(Large::Wire(limits.wire_bytes)));
    }

    let wire = within(deadline, limits, body(response, &url, limits)).await?;
    let wire_bytes = wire.len() as u64;
    let bounds = decode::Bounds {
        bytes: limits.decoded_bytes,
        deadline: Some((deadline, limits.total_ms)),
    };
    let body = decode::decode(&encoding, wire, bounds)?;
    let kind = media::kind(&media, url.path(), &body)?;
    let (text, undecodable) = media::text(kind, charset.as_deref(), &body)?;
    Ok(Document {
        url,
        kind,
        media,
        body,
        text,
        undecodable,
        wire_bytes,
    })
}

async fn body(mut response: Response, url: &Url, limits: &Limits) -> Result<Vec<u8>, FetchError> {
    let started = Instant::now();
    let mut wire: Vec<u8> = Vec::new();
    let slow = FetchError::Timeout(Slow::Rate(limits.min_rate));
    loop {
        // After the grace, a second without the bytes that are due ends it.
        let due = started + GRACE + Duration::from_secs_f64((wire.len() + 1) as f64 / limits.min_rate.max(1) as f64);
        let chunk = match tokio::time::timeout_at(due.into(), response.chunk()).await {
            Err(_) => return Err(slow),
            Ok(chunk) => chunk.map_err(|e| classify(&e, &host(url), limits))?,
        };
        let Some(chunk) = chunk else { return Ok(wire) };
        if wire.len() as u64 + chunk.len() as u64 > limits.wire_bytes {
            return Err(FetchError::TooLarge(Large::Wire(limits.wire_bytes)));
        }
        wire.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_judged_as_parsed() {
        assert_eq!(
            judge("HTTP://Ex\u{e4}mple.org:80/a b").map(|u| u.to_string()),
            Ok("http://xn--exmple-cua.org/a%20b".to_owned())
        );
        assert_eq!(judge("http://0x7f.1/").map(|u| host(&u)), Ok("127.0.0.1:80".to_owned()));
        for (url, why) in [
            ("ftp://a.example/", "scheme"),
            ("file:///etc/passwd", "scheme"),
            ("javascript:alert(1)", "scheme"),
            ("https://user@a.example/", "user name"),
            ("https://a.example@b.example/", "user name"),
            ("https://:pw@a.example/", "user name"),
            ("https://", "empty host"),
            ("/relative", "relative URL"),
            ("https://a.example/\r\nHost: b", "control"),
            (&format!("https://a.example/{}", "x".repeat(MAX_URL)), "too long"),
            (&format!("https://a.example/{}", "é".repeat(MAX_URL / 4)), "too long"),
        ] {
            let error = judge(url).expect_err(url);
            assert!(error.reason().contains(why), "{url}: {}", error.reason());
        }
    }
}
