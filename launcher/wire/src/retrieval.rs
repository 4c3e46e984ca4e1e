//! Launcher ↔ outside (web side) ↔ resolver and retriever.

use crate::answer::Answer;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Launcher → outside, web side: the first message, before it locks itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebStart {
    /// Name servers that the resolver may ask.
    pub nameservers: Vec<IpAddr>,
    /// Exceptions to "public addresses only": exactly these hosts (name or literal) and ports.
    pub private: Vec<HostPort>,
    /// Ports that a retriever may connect to, beside those of `private`.
    pub ports: Vec<u16>,
    /// Retrievers that may run at the same time.
    pub parallel: usize,
    /// Where the gateway of the retrievers may be connected to.
    #[serde(default)]
    pub apis: crate::apis::ApiAddresses,
}

/// A host, as a name or a literal address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPort {
    /// Name in lower-case ASCII, or a literal address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Launcher → outside, web side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToWeb {
    /// Start a retriever. One descriptor comes along: the retriever's own channel to the launcher.
    Retrieve {
        /// Number of the retrieval within the session.
        id: u64,
    },
    /// Start a retriever that is granted nothing: no name, no socket, no connection. One descriptor comes along, as for a retriever.
    Ticket {
        /// Number of the retrieval within the session.
        id: u64,
    },
    /// Start the gateway of the retrievers. One descriptor comes along: its own channel to the launcher.
    Apis {},
    /// No further name is resolved for this retrieval and no further connection made; those that stand go on.
    NoMore {
        /// Number of the retrieval.
        id: u64,
    },
    /// Name resolution and connections of this retrieval are over: the retriever may only speak from now on.
    Revoke {
        /// Number of the retrieval.
        id: u64,
    },
    /// End the retriever.
    Stop {
        /// Number of the retrieval.
        id: u64,
    },
    /// Try these escapes, report each as [`crate::judged::Report`], and end (only `picktwo verify` says this).
    Try(crate::judged::Try),
}

/// Outside, web side → launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromWeb {
    /// Locked, self-checked and ready for requests.
    Ready,
    /// The start failed; the side is closed.
    Failed {
        /// One sentence.
        reason: String,
    },
    /// A name was resolved, or not.
    Resolved {
        /// Number of the retrieval.
        id: u64,
        /// The name.
        host: String,
        /// Its addresses; empty on failure.
        addresses: Vec<IpAddr>,
    },
    /// A connection was granted or refused.
    Connection {
        /// Number of the retrieval.
        id: u64,
        /// The name that the address was resolved for; empty for a literal.
        host: String,
        /// Where to.
        address: SocketAddr,
        /// `connected`, `in-progress`, `refused-private`, `refused-unresolved`, `refused-port`, or the errno's name.
        outcome: String,
    },
    /// The retriever ended.
    Ended {
        /// Number of the retrieval.
        id: u64,
        /// Exit code, or 128 + signal.
        code: i32,
    },
}

/// Retriever ↔ outside, web side (names only; connections are granted system calls).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// A name in lower-case ASCII, at most [`crate::MAX_HOST`] bytes.
    pub host: String,
}

/// Answer to [`Resolve`], from the resolver to `outside` and from `outside` to the retriever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolved {
    /// The name that was asked for.
    pub host: String,
    /// Its addresses: every one allowed, or none.
    pub addresses: Vec<IpAddr>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Launcher → retriever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToRetriever {
    /// The one job of this process.
    Job(Box<Job>),
    /// A redirect may be followed.
    Follow,
    /// A redirect may not be followed.
    Refuse {
        /// Identifier of the rule.
        rule: String,
        /// One sentence.
        reason: String,
    },
}

/// One retrieval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Absolute http or https URL.
    pub url: String,
    /// What is wanted; none: the main content.
    pub question: Option<String>,
    /// Tokens the answer may take.
    pub budget: u32,
    /// Bounds of the fetch.
    pub limits: Limits,
    /// Further trust anchors, DER, that the user's policy names.
    pub roots: Vec<Vec<u8>>,
    /// Instead of fetching `url`, read what a ticket brings: the answer to this. One descriptor comes along, the ticket's channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<crate::apis::Call>,
    /// Instead of fetching, try these escapes and report (only `picktwo verify` sets it).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
}

/// Bounds of one fetch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Milliseconds for one connection.
    pub connect_ms: u64,
    /// Milliseconds for all of it.
    pub total_ms: u64,
    /// Bytes as they come over the wire.
    pub wire_bytes: u64,
    /// Bytes after decoding.
    pub decoded_bytes: u64,
    /// Redirects followed.
    pub redirects: u32,
    /// Bytes per second that a body must reach after the first ten seconds.
    pub min_rate: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_ms: 10_000,
            total_ms: 30_000,
            wire_bytes: 5 << 20,
            decoded_bytes: 10 << 20,
            redirects: 5,
            min_rate: 1024,
        }
    }
}

/// Retriever → launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromRetriever {
    /// Locked and self-checked: give it its job.
    Ready,
    /// A response's head has arrived.
    Hop {
        /// The URL that answered.
        url: String,
        /// HTTP status.
        status: u16,
        /// Where it redirects to, absolute; the retriever waits for [`ToRetriever::Follow`] or `Refuse`.
        location: Option<String>,
    },
    /// The last of it: what was found.
    Answer {
        /// Filtered and bounded by the retriever, checked again by the launcher.
        answer: Box<Answer>,
        /// Bytes over the wire.
        wire_bytes: u64,
    },
    /// The last of it: it did not work.
    Failed {
        /// Stable identifier.
        cause: String,
        /// One sentence, filtered.
        reason: String,
    },
    /// Result of one probe, in the order asked.
    Probe {
        /// Probe id.
        id: String,
        /// `denied`, `escaped` or `unavailable`.
        outcome: String,
        /// The errno, 0 if there was none.
        errno: i32,
    },
}
