//! Why a fetch did not work, in the words that reach the agent and the record.

use crate::filter;
use picktwo_wire::retrieval::Limits;

/// Why a page could not be fetched or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The URL is not one that may be fetched; says why.
    Url(String),
    /// The name was not resolved.
    Dns {
        /// The name.
        host: String,
        /// The resolver's reason.
        reason: String,
    },
    /// No connection.
    Connect {
        /// Host and port.
        host: String,
        /// The system's reason.
        reason: String,
    },
    /// The wall refused the connection: the address is not public, or not one that the name was resolved to.
    RefusedAddress {
        /// Host and port.
        host: String,
    },
    /// The launcher refused a redirect.
    RefusedRedirect {
        /// Identifier of the rule.
        rule: String,
        /// Its reason.
        reason: String,
    },
    /// TLS failed.
    Tls {
        /// Host and port.
        host: String,
        /// What did not hold.
        reason: String,
    },
    /// It took too long; names what did.
    Timeout(Slow),
    /// It was too large; names what was.
    TooLarge(Large),
    /// The server answered with an error.
    Status {
        /// The URL that answered.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// A document of a kind that is not read.
    ContentType {
        /// The media type, or what the bytes look like.
        media: String,
    },
    /// The body could not be decoded; says why.
    Encoding(String),
    /// A redirect that is never followed; says why.
    Redirect(String),
    /// The server does not speak HTTP as it should.
    Protocol {
        /// Host and port.
        host: String,
        /// What was wrong.
        reason: String,
    },
    /// An API did not do what was asked of it, or did not answer.
    Api {
        /// Stable identifier.
        cause: &'static str,
        /// One sentence.
        reason: String,
    },
    /// The other side of a channel is gone or does not keep to its messages.
    Channel(String),
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Connecting, in milliseconds.
    Connect(u64),
    /// All of it, in milliseconds.
    Total(u64),
    /// The body, in bytes per second.
    Rate(u64),
    /// Reading what had arrived, in seconds.
    Reading(u64),
}

/// What was too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Large {
    /// The response's header fields.
    Headers,
    /// The body as transferred, in bytes.
    Wire(u64),
    /// The body after decoding, in bytes.
    Decoded(u64),
    /// The number of elements.
    Elements,
    /// Elements inside each other.
    Nesting,
}

impl FetchError {
    /// Stable identifier, as [`picktwo_wire::tools::Reply::Failed`] carries it.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Dns { .. } => "dns",
            Self::Connect { .. } => "connect",
            Self::RefusedAddress { .. } | Self::RefusedRedirect { .. } => "refused",
            Self::Tls { .. } => "tls",
            Self::Timeout(_) => "timeout",
            Self::TooLarge(_) => "too-large",
            Self::Status { .. } => "status",
            Self::ContentType { .. } => "content-type",
            Self::Encoding(_) => "encoding",
            Self::Redirect(_) => "redirect",
            Self::Protocol { .. } => "protocol",
            Self::Api { cause, .. } => cause,
            Self::Channel(_) => "internal",
        }
    }

    /// One sentence, filtered: parts of it come from servers.
    #[must_use]
    pub fn reason(&self) -> String {
        filter::line(&self.to_string(), filter::MAX_NOTE, &mut filter::Removed::default())
    }
}

fn mib(bytes: u64) -> String {
    match bytes {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    }
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Api { reason, .. } => f.write_str(reason),
            Self::Url(why) => write!(f, "this URL cannot be fetched: {why}"),
            Self::Dns { host, reason } => write!(f, "{host} could not be resolved: {reason}"),
            Self::Connect { host, reason } => write!(f, "no connection to {host}: {reason}"),
            Self::RefusedAddress { host } => {
                write!(
                    f,
                    "the connection to {host} was refused: only public addresses that its name resolves to may be reached"
                )
            }
            Self::RefusedRedirect { rule, reason } => write!(f, "a redirect was refused ({rule}): {reason}"),
            Self::Tls { host, reason } => write!(f, "TLS with {host} failed: {reason}"),
            Self::Timeout(Slow::Connect(ms)) => write!(f, "no connection within {ms} ms"),
            Self::Timeout(Slow::Total(ms)) => write!(f, "the page did not arrive within {ms} ms"),
            Self::Timeout(Slow::Rate(rate)) => write!(f, "the page arrived at less than {rate} bytes per second"),
            Self::Timeout(Slow::Reading(s)) => write!(f, "the document could not be read within {s} s of computing"),
            Self::TooLarge(Large::Headers) => write!(
                f,
                "the response's header fields are larger than {}",
                mib(super::MAX_HEADERS as u64)
            ),
            Self::TooLarge(Large::Wire(n)) => write!(f, "the page is larger than {} as transferred", mib(*n)),
            Self::TooLarge(Large::Elements) => f.write_str("the page has too many elements"),
            Self::TooLarge(Large::Nesting) => f.write_str("the page's elements are nested too deeply"),
            Self::TooLarge(Large::Decoded(n)) => write!(f, "the page is larger than {} after decompression", mib(*n)),
            Self::Status { url, status } => {
                let name = reqwest::StatusCode::from_u16(*status)
                    .ok()
                    .and_then(|s| s.canonical_reason())
                    .unwrap_or("an error");
                write!(f, "{url} answered {status} {name}")
            }
            Self::ContentType { media } => write!(f, "documents of type {media} are not read"),
            Self::Encoding(why) => write!(f, "the page could not be decoded: {why}"),
            Self::Redirect(why) => write!(f, "a redirect was not followed: {why}"),
            Self::Protocol { host, reason } => write!(f, "{host} did not answer with proper HTTP: {reason}"),
            Self::Channel(why) => write!(f, "the retriever lost its connection to the launcher: {why}"),
        }
    }
}

impl std::error::Error for FetchError {}

/// A name that was not resolved, on its way through the HTTP library.
#[derive(Debug)]
pub(crate) struct DnsFailure {
    pub(crate) host: String,
    pub(crate) reason: String,
}

impl std::fmt::Display for DnsFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for DnsFailure {}

/// Sorts the HTTP library's error by what lies at the bottom of it.
pub(crate) fn classify(error: &reqwest::Error, host: &str, limits: &Limits) -> FetchError {
    let host = host.to_owned();
    let mut deepest = String::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = cause {
        if let Some(dns) = e.downcast_ref::<DnsFailure>() {
            return FetchError::Dns {
                host: dns.host.clone(),
                reason: dns.reason.clone(),
            };
        }
        if let Some(tls) = e.downcast_ref::<rustls::Error>() {
            return FetchError::Tls {
                host,
                reason: tls.to_string(),
            };
        }
        if let Some(io) = e.downcast_ref::<std::io::Error>() {
            // `source` of an I/O error skips the error it was made of.
            let mut inner = io.get_ref();
            while let Some(e) = inner {
                if let Some(tls) = e.downcast_ref::<rustls::Error>() {
                    return FetchError::Tls {
                        host,
                        reason: tls.to_string(),
                    };
                }
                inner = e.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            }
            if error.is_connect() && io.kind() == std::io::ErrorKind::PermissionDenied {
                return FetchError::RefusedAddress { host };
            }
        }
        deepest = e.to_string();
        cause = e.source();
    }
    let lower = deepest.to_ascii_lowercase();
    if error.is_timeout() {
        return FetchError::Timeout(Slow::Connect(limits.connect_ms));
    }
    if error.is_connect() {
        return FetchError::Connect { host, reason: deepest };
    }
    // Neither hyper nor h2 gives these a type that can be asked for.
    if lower.contains("head is too large") || lower.contains("header list") || lower.contains("too many headers") {
        return FetchError::TooLarge(Large::Headers);
    }
    FetchError::Protocol { host, reason: deepest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_filtered_line() {
        let error = FetchError::Tls {
            host: "a.example:443".to_owned(),
            reason: "bad\n\u{1b}[31mcert\u{202e}".to_owned(),
        };
        assert_eq!(error.reason(), "TLS with a.example:443 failed: bad cert");
        assert_eq!(error.cause(), "tls");
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(
            FetchError::TooLarge(Large::Wire(5 << 20)).reason(),
            "the page is larger than 5 MiB as transferred"
        );
        assert_eq!(
            FetchError::Status {
                url: "https://a.example/".to_owned(),
                status: 404
            }
            .reason(),
            "https://a.example/ answered 404 Not Found"
        );
    }
}
