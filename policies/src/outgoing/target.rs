//! One reading of a URL, the web's own, and which names and addresses are never public.

use super::{Refusal, refuse};
use crate::address;
use std::net::IpAddr;
use url::{Host, Url};

/// Bytes of a URL that may cross the wall.
pub(crate) const MAX_URL: usize = 2048;

/// A URL as it will be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Canonical, without fragment.
    pub url: String,
    /// Name in lower-case ASCII without a trailing dot, or a literal address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// https.
    pub tls: bool,
    /// A literal address.
    pub address: Option<IpAddr>,
}

impl Target {
    /// Reads a URL. Judges its form only; see [`super::Guard::check`].
    ///
    /// # Errors
    /// A [`Refusal`] with the rule `bad-url` or `length`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = |reason: &str| refuse("bad-url", None, reason);
        if text.len() > MAX_URL {
            return refuse("length", None, format!("the URL is longer than {MAX_URL} bytes"));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return bad("the URL holds a blank, a control character or a backslash; write it in its plain form");
        }
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let Some(rest) = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://")) else {
            return bad("only absolute http and https URLs can be fetched");
        };
        if rest.starts_with('/') {
            return bad("the URL names no host");
        }
        let Ok(mut url) = Url::parse(text) else {
            return bad("the URL cannot be read; write it in its plain form");
        };
        if !url.username().is_empty()
            || url.password().is_some()
            || text.split(['/', '?', '#']).nth(2).is_some_and(|a| a.contains('@'))
        {
            return bad("the URL holds a user name or password");
        }
        url.set_fragment(None);
        let (host, address) = match url.host() {
            Some(Host::Domain(name)) => {
                let plain = name.strip_suffix('.').unwrap_or(name).to_owned();
                let label = |l: &str| {
                    !l.is_empty()
                        && l.len() <= 63
                        && l.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                };
                if plain.len() > 253 || !plain.split('.').all(label) {
                    return bad("the URL's host is no host name");
                }
                if url.set_host(Some(&plain)).is_err() {
                    return bad("the URL's host is no host name");
                }
                (plain, None)
            }
            Some(Host::Ipv4(a)) => (a.to_string(), Some(IpAddr::V4(a))),
            Some(Host::Ipv6(a)) => (a.to_string(), Some(IpAddr::V6(a))),
            None => return bad("the URL names no host"),
        };
        let Some(port) = url.port_or_known_default().filter(|p| *p != 0) else {
            return bad("the URL's port is not usable");
        };
        let tls = url.scheme() == "https";
        Ok(Self {
            url: url.into(),
            host,
            port,
            tls,
            address,
        })
    }

    /// Whether the host can be a public one.
    pub(crate) fn public(&self) -> Result<(), Refusal> {
        let host = Some(self.host.as_str());
        if let Some(address) = self.address {
            return match address::public(address) {
                Ok(()) => Ok(()),
                Err(why) => refuse(
                    "private-address",
                    host,
                    format!("{address} is not public: {why} (exceptions: retrieval.private)"),
                ),
            };
        }
        if !address::public_name(&self.host) {
            let reason = format!(
                "{} is a name of this machine, its network or of no public host; the user's policy may name it with its port in retrieval.private",
                self.host
            );
            return refuse("private-name", host, reason);
        }
        Ok(())
    }

    fn after_host(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, r)| r);
        rest.find('/').map_or("", |at| &rest[at..])
    }

    /// What follows the host.
    #[must_use]
    pub fn path_and_query(&self) -> String {
        self.after_host().to_owned()
    }

    pub(crate) fn query_bytes(&self) -> usize {
        self.after_host().split_once('?').map_or(0, |(_, q)| q.len())
    }

    /// Labels of the host, segments of the path, names and values of the query.
    pub(crate) fn pieces(&self) -> Vec<String> {
        let labels = if self.address.is_some() { "" } else { &self.host };
        let rest = self.after_host().split(['/', '?', '&', '=', ';']);
        labels
            .split('.')
            .chain(rest)
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

/// Whether two hosts belong to one site: equal, or one is a subdomain of the other, `www.` aside.
#[must_use]
pub fn same_site(a: &str, b: &str) -> bool {
    let plain = |h: &str| h.strip_prefix("www.").unwrap_or(h).to_owned();
    let (a, b) = (plain(a), plain(b));
    // A name of one label, or an address, has no subdomains.
    let below = |long: &str, short: &str| {
        short.contains('.')
            && short.parse::<IpAddr>().is_err()
            && long.strip_suffix(short).is_some_and(|rest| rest.ends_with('.'))
    };
    a == b || below(&a, &b) || below(&b, &a)
}
