//! One pinned upstream: how requests to it are written.

use super::echo::Echo;
use super::models::Models;
use super::payload::Payload;
use super::refusal::Refusal;
use super::route::{Call, Operation, allows};
use super::schema::anthropic::BETAS;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use picktwo_wire::gateway::{Protocol, Upstream};
use std::sync::Arc;

/// Why an upstream of the start message cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum BaseError {
    /// Neither `http://` nor `https://`.
    Scheme(String),
    /// No host, or one with user, query or characters that do not belong into it.
    Host(String),
    /// A path prefix with a query, a fragment or other characters than those of segments.
    Prefix(String),
    /// The key holds bytes that no header can carry.
    Key,
}

impl std::fmt::Display for BaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scheme(base) => write!(f, "upstream {base}: only http:// and https:// are known"),
            Self::Host(base) => write!(f, "upstream {base}: no usable host and port"),
            Self::Prefix(base) => write!(f, "upstream {base}: no usable path"),
            Self::Key => write!(f, "the key of an upstream holds characters that a header cannot carry"),
        }
    }
}

impl std::error::Error for BaseError {}

/// Where an upstream is, read from scheme, host, port and path prefix.
pub(crate) struct Base {
    /// Name that its certificate has to be for; none: plain HTTP.
    pub(crate) tls: Option<String>,
    /// For messages: host and port.
    pub(crate) name: String,
    /// The `Host` field.
    pub(crate) host: HeaderValue,
    /// Before every path, without a slash at its end.
    pub(crate) prefix: String,
}

impl Base {
    /// Reads `https://host:port/prefix`.
    pub(crate) fn read(base: &str) -> Result<Self, BaseError> {
        let (tls, rest) = match (base.strip_prefix("https://"), base.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(BaseError::Scheme(base.to_owned())),
        };
        let (authority, prefix) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let bad_host = || BaseError::Host(base.to_owned());
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port.parse::<u16>().map_err(|_| bad_host())?)),
            _ => (authority, None),
        };
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let fits = match literal {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                (1..=253).contains(&name.len())
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
            }
        };
        if !fits {
            return Err(bad_host());
        }
        let prefix = prefix.trim_end_matches('/');
        if !prefix
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/-._~".contains(&b))
            || prefix.contains("..")
        {
            return Err(BaseError::Prefix(base.to_owned()));
        }
        let default = if tls { 443 } else { 80 };
        Ok(Self {
            tls: tls.then(|| literal.unwrap_or(name).to_ascii_lowercase()),
            name: format!("{name}:{}", port.unwrap_or(default)),
            host: HeaderValue::from_str(&authority.to_ascii_lowercase()).map_err(|_| bad_host())?,
            prefix: prefix.to_owned(),
        })
    }
}

/// An upstream, ready to be written to.
pub(crate) struct Target {
    pub(crate) protocol: Protocol,
    /// Name that its certificate has to be for; none: plain HTTP.
    pub(crate) tls: Option<String>,
    /// For messages: host and port.
    pub(crate) name: String,
    /// `[model.anthropic]`, for messages.
    pub(crate) section: &'static str,
    /// The key as it must never come back.
    pub(crate) echo: Arc<Echo>,
    host: HeaderValue,
    prefix: String,
    credentials: Option<(HeaderName, HeaderValue)>,
    extra_beta: Option<&'static str>,
    allow: Vec<String>,
    models: Vec<String>,
}

impl Target {
    /// Reads one upstream of the start message.
    pub(crate) fn new(upstream: &Upstream) -> Result<Self, BaseError> {
        let base = Base::read(&upstream.base)?;
        let key = upstream.key.trim();
        Ok(Self {
            protocol: upstream.protocol,
            tls: base.tls,
            name: base.name,
            section: section(upstream.protocol),
            echo: Arc::new(Echo::new(key)),
            host: base.host,
            prefix: base.prefix,
            credentials: credentials(upstream.protocol, key)?,
            extra_beta: subscription(upstream.protocol, key).then_some("oauth-2025-04-20"),
            allow: upstream.allow.clone(),
            models: upstream.models.clone(),
        })
    }

    /// Whether the policy allows this path here.
    pub(crate) fn allows(&self, method: &str, path: &str) -> bool {
        self.allow.iter().any(|entry| allows(entry, method, path))
    }

    /// The rule for model names here.
    pub(crate) fn models(&self) -> Models<'_> {
        Models {
            allowed: &self.models,
            section: self.section,
        }
    }

    /// Names for the list of models.
    pub(crate) fn listed(&self) -> &[String] {
        &self.models
    }

    /// Writes the request; nothing of the agent's headers goes in but known beta names.
    pub(crate) fn request(
        &self,
        call: &Call<'_>,
        betas: &[&str],
        stream: bool,
        body: Bytes,
    ) -> Result<Request<Payload>, Refusal> {
        let path = call.path;
        // A base like https://host/openai/v1 already ends with the version that the agent's path starts with.
        let path = if self.prefix.ends_with("/v1") && path.starts_with("/v1/") {
            &path[3..]
        } else {
            path
        };
        let query = call.query.map_or(String::new(), |query| format!("?{query}"));
        let accept = if stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        let mut request = Request::post(format!("{}{path}{query}", self.prefix))
            .header(header::HOST, self.host.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::USER_AGENT, concat!("picktwo/", env!("CARGO_PKG_VERSION")));
        if let Some((name, value)) = &self.credentials {
            request = request.header(name.clone(), value.clone());
        }
        if self.protocol == Protocol::Anthropic {
            request = request.header("anthropic-version", "2023-06-01");
            let mut kept: Vec<&str> = BETAS.iter().filter(|beta| betas.contains(*beta)).copied().collect();
            kept.extend(self.extra_beta);
            if !kept.is_empty() {
                request = request.header("anthropic-beta", kept.join(","));
            }
        }
        request
            .body(Payload::full(body))
            .map_err(|e| Refusal::new("path", format!("the request cannot be written: {e}")))
    }
}

fn section(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => "model.anthropic",
        Protocol::Openai => "model.openai",
        Protocol::Gemini => "model.gemini",
    }
}

/// Tokens of a subscription are presented in another way than API keys.
fn subscription(protocol: Protocol, key: &str) -> bool {
    protocol == Protocol::Anthropic && key.starts_with("sk-ant-oat")
}

fn credentials(protocol: Protocol, key: &str) -> Result<Option<(HeaderName, HeaderValue)>, BaseError> {
    if key.is_empty() {
        return Ok(None);
    }
    let (name, text) = match protocol {
        Protocol::Anthropic if !subscription(protocol, key) => (HeaderName::from_static("x-api-key"), key.to_owned()),
        Protocol::Anthropic | Protocol::Openai => (header::AUTHORIZATION, format!("Bearer {key}")),
        Protocol::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| BaseError::Key)?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

/// The upstream for a call.
///
/// # Errors
/// 404 if no upstream speaks the protocol or none allows the path; the policy line that would is named.
pub(crate) fn choose<'t>(targets: &'t [Target], call: &Call<'_>) -> Result<Vec<(usize, &'t Target)>, Refusal> {
    let protocol = call.operation.protocol();
    let speaking: Vec<(usize, &Target)> = targets
        .iter()
        .enumerate()
        .filter(|(_, target)| target.protocol == protocol)
        .collect();
    if speaking.is_empty() {
        let section = section(protocol);
        return Err(Refusal::new(
            "path",
            format!("the policy names no upstream for this protocol ([{section}])"),
        )
        .status(404)
        .line(format!("upstream, key and allow in [{section}]")));
    }
    let allowing: Vec<(usize, &Target)> = speaking
        .into_iter()
        .filter(|(_, target)| target.allows("POST", call.path))
        .collect();
    if allowing.is_empty() {
        let pattern = match call.operation {
            Operation::Generate => "/v1beta/models/{model}:generateContent",
            Operation::StreamGenerate => "/v1beta/models/{model}:streamGenerateContent",
            Operation::GeminiCountTokens => "/v1beta/models/{model}:countTokens",
            _ => call.path,
        };
        return Err(Refusal::new("path", format!("POST {pattern} is not allowed"))
            .status(404)
            .line(format!("allow = [\"POST {pattern}\"] in [{}]", section(protocol))));
    }
    Ok(allowing)
}
