//! The kinds of values in a policy, each with its own reading.

use serde::{Serialize, Serializer};
use std::net::IpAddr;
use url::{Host, Url};

/// Whether the agent may change the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It may not.
    ReadOnly,
    /// It may, except protected paths.
    Edit,
}

/// Which URLs may be asked for, strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Urls {
    /// Known hosts, search results, and links of pages already fetched to the same site.
    Known,
    /// Also links of pages already fetched to other sites.
    Seen,
    /// Everything that is public.
    Any,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HostPort {
    /// Name in lower-case ASCII, or a literal address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl HostPort {
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let (host, port) = text.rsplit_once(':').ok_or("is no host:port")?;
        let port = port
            .parse()
            .ok()
            .filter(|p| *p != 0)
            .ok_or("has no port from 1 to 65535")?;
        Ok(Self {
            host: host_name(host)?,
            port,
        })
    }
}

/// A host as the web reads it: lower-case ASCII without a trailing dot, addresses without brackets.
pub(crate) fn host_name(text: &str) -> Result<String, &'static str> {
    match Host::parse(text) {
        Ok(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
            let label = |l: &str| {
                !l.is_empty()
                    && l.len() <= 63
                    && l.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            };
            if name.len() <= 253 && name.split('.').all(label) {
                Ok(name)
            } else {
                Err("is no host name")
            }
        }
        Ok(Host::Ipv4(a)) => Ok(a.to_string()),
        Ok(Host::Ipv6(a)) => Ok(a.to_string()),
        Err(_) => Err("is no host name"),
    }
}

/// A model API's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The URL without a trailing slash.
    pub url: String,
    /// Whether TLS is used.
    pub tls: bool,
    /// Name or literal address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Serialize for Upstream {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.url.serialize(serializer)
    }
}

impl Upstream {
    /// Reads the URL of an API.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let url = Url::parse(text).map_err(|_| "is no URL")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("may not hold a user or password; use `key`");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("may not hold a query or fragment");
        }
        let host = host_name(url.host_str().ok_or("has no host")?.trim_matches(['[', ']'])).or_else(|e| {
            // An address in brackets was already read by the URL parser.
            url.host_str()
                .map(|h| h.trim_matches(['[', ']']).to_owned())
                .filter(|h| h.parse::<IpAddr>().is_ok())
                .ok_or(e)
        })?;
        let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|a| a.is_loopback());
        let tls = match url.scheme() {
            "https" => true,
            "http" if loopback => false,
            "http" => return Err("may use http on loopback only: the key would be readable on the way"),
            _ => return Err("is neither https nor http"),
        };
        let port = url.port_or_known_default().ok_or("has no port")?;
        Ok(Self {
            url: url.as_str().trim_end_matches('/').to_owned(),
            tls,
            host,
            port,
        })
    }
}

/// Where the launcher reads a key. The source never reaches the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeySource {
    /// A variable of the launcher's environment.
    Env(String),
    /// A file; its first line.
    File(String),
    /// A command run before the launcher locks itself; the first line it prints.
    Command(String),
    /// An entry of the desktop's key ring.
    Keyring(String),
}

impl KeySource {
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let (kind, rest) = text
            .split_once(':')
            .ok_or("names no source: write env:NAME, file:PATH, command:COMMAND or keyring:NAME")?;
        if rest.trim().is_empty() {
            return Err("names nothing after the colon");
        }
        let rest = rest.to_owned();
        match kind {
            "env" if rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => Ok(Self::Env(rest)),
            "env" => Err("is no name of an environment variable"),
            "file" => Ok(Self::File(rest)),
            "command" => Ok(Self::Command(rest)),
            "keyring" => Ok(Self::Keyring(rest)),
            _ => Err("names no known source: write env:NAME, file:PATH, command:COMMAND or keyring:NAME"),
        }
    }
}

/// Who makes the answer of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distiller {
    /// The embedded one: no key, no model.
    Extractive,
    /// A model of `[model.…]`.
    Model {
        /// Name of the `[model.…]` table.
        model: String,
        /// Name of the model.
        name: String,
    },
}

/// `owner/name` or `owner/*`.
pub(crate) fn repository(text: &str) -> Result<String, &'static str> {
    let (owner, name) = text.split_once('/').ok_or("is not owner/name or owner/*")?;
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if plain(owner) && (name == "*" || plain(name)) {
        Ok(text.to_owned())
    } else {
        Err("is not owner/name or owner/*")
    }
}

/// `https://host`, in whose first label a `*` may stand for letters, digits and hyphens.
pub(crate) fn storage(text: &str) -> Result<String, &'static str> {
    if text.matches('*').count() > 1 {
        return Err("may hold one *");
    }
    if let Some((_, after)) = text.split_once('*')
        && after.trim_start_matches('.').matches('.').count() < 1
    {
        return Err("leaves open whose host it is");
    }
    let plain = Upstream::read(&text.replace('*', "x"))?;
    if Url::parse(&plain.url).is_ok_and(|u| u.path() != "/") {
        return Err("is a host, without a path");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// `METHOD /path`.
pub(crate) fn method_and_path(text: &str) -> Result<(), &'static str> {
    let (method, path) = text.split_once(' ').ok_or("is not `METHOD /path`")?;
    if !matches!(method, "GET" | "POST") {
        return Err("may only use GET or POST");
    }
    let plain = path.starts_with('/') && !path.contains("..") && !path.contains("//");
    if !plain
        || !path
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.' | b':' | b'*'))
    {
        return Err("has no plain path");
    }
    Ok(())
}
