//! Launcher ↔ gateway of the retrievers → retriever: single-use tickets for operations of pinned APIs (search, GitHub).
//!
//! The launcher says what is asked; the gateway builds the request and adds the key; the retriever is handed the one end of a
//! channel on which the answers arrive, and on which it can say nothing. Who reads the answers so has no way out, and who has a way
//! out does not choose what is asked.

use crate::gateway::UpstreamAddress;
use crate::github::Github;
use crate::retrieval::Limits;
use serde::{Deserialize, Serialize};

/// Bytes of a search query.
pub const MAX_QUERY: usize = 400;
/// Results of one search.
pub const MAX_RESULTS: u32 = 20;
/// Bytes of an answer in one datagram of a ticket.
pub const MAX_CHUNK: usize = 64 * 1024;

/// An API that tickets are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Kagi.
    Kagi,
    /// A SearXNG instance that the policy names.
    Searxng,
    /// GitHub's REST API.
    Github,
}

impl Service {
    /// The identifier, as a policy writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Exa => "exa",
            Self::Kagi => "kagi",
            Self::Searxng => "searxng",
            Self::Github => "github",
        }
    }

    /// The name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Brave => "Brave Search",
            Self::Tavily => "Tavily",
            Self::Exa => "Exa",
            Self::Kagi => "Kagi",
            Self::Searxng => "SearXNG",
            Self::Github => "GitHub",
        }
    }

    /// The search provider that a policy names.
    #[must_use]
    pub fn search(name: &str) -> Option<Self> {
        [Self::Brave, Self::Tavily, Self::Exa, Self::Kagi, Self::Searxng]
            .into_iter()
            .find(|s| s.name() == name)
    }
}

/// Where the gateway of the retrievers may be connected to: part of [`crate::retrieval::WebStart`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiAddresses {
    /// In the order of [`ApisStart::upstreams`], then of [`ApisStart::storage`]. In the host of a place of storage a `*` stands for
    /// letters, digits and hyphens.
    pub upstreams: Vec<UpstreamAddress>,
}

/// Launcher → gateway of the retrievers: the first message on its own channel.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApisStart {
    /// The pinned APIs.
    pub upstreams: Vec<Api>,
    /// Where logs and archives may be redirected to, asked for without any key: scheme, host (with `*`) and port.
    #[serde(default)]
    pub storage: Vec<String>,
    /// Further trust anchors, DER, that the user's policy names.
    pub roots: Vec<Vec<u8>>,
    /// Instead of serving, try these escapes and report (only `picktwo verify` sets it).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
}

/// One pinned API.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Which one.
    pub service: Service,
    /// Scheme, host, port and path prefix.
    pub base: String,
    /// Its key, empty if it takes none; wiped by the launcher after sending.
    pub key: String,
}

/// Launcher → gateway of the retrievers: one operation. One descriptor comes along: the channel that the answers are written to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// Number of the retrieval within the session.
    pub id: u64,
    /// What is asked.
    pub call: Call,
    /// Bounds of all its answers together.
    pub limits: Limits,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Call {
    /// A search of the web.
    Search(Search),
    /// An operation of GitHub.
    Github(Repository),
}

/// An operation of GitHub, and what the policy says of its repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// The operation.
    pub github: Github,
    /// The policy names the repository as one that may be private.
    pub private: bool,
}

/// A search of the web.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Who is asked.
    pub service: Service,
    /// The words, at most [`MAX_QUERY`] bytes.
    pub query: String,
    /// Results wanted, at most [`MAX_RESULTS`].
    pub results: u32,
}

/// Gateway of the retrievers → launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromApis {
    /// Locked and self-checked.
    Ready,
    /// The start failed.
    Failed {
        /// One sentence.
        reason: String,
    },
    /// One request of a ticket was sent and has ended.
    Called {
        /// Number of the retrieval.
        id: u64,
        /// Method.
        method: String,
        /// Host and port.
        host: String,
        /// Path without query.
        path: String,
        /// The API's status; 0 if there was no answer.
        status: u16,
        /// Bytes of the answer.
        received: u64,
        /// Milliseconds.
        ms: u64,
    },
    /// A ticket was served: nothing more is sent for it.
    Done {
        /// Number of the retrieval.
        id: u64,
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

/// Gateway of the retrievers → retriever, over a ticket's channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Part {
    /// An answer begins; its body follows as [`Frame::Data`].
    Head(Head),
    /// All answers of the ticket have been sent.
    Done,
    /// The operation ended early.
    Failed {
        /// Stable identifier.
        cause: String,
        /// One sentence, in the gateway's own words.
        reason: String,
    },
}

/// What is kept of an answer's head: numbers, and words of a narrow grammar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// What was asked, without credentials.
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// Media type without parameters.
    pub media: String,
    /// Seconds to wait (`Retry-After`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The limit of requests that the API states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What a token would need (`X-Accepted-GitHub-Permissions`): letters and signs of a narrow grammar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// There is a next page.
    #[serde(default)]
    pub more: bool,
    /// A key went along.
    #[serde(default)]
    pub credentials: bool,
}

/// A limit of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests in its period.
    pub limit: u64,
    /// Of those, left.
    pub remaining: u64,
    /// Seconds until it begins anew.
    pub reset_in: u64,
}

/// One datagram of a ticket's channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'b> {
    /// A message.
    Part(Part),
    /// Bytes of the body of the answer that began last.
    Data(&'b [u8]),
}

const PART: u8 = 0;
const DATA: u8 = 1;

/// Writes a message as a datagram.
///
/// # Errors
/// As [`crate::encode`].
pub fn part(part: &Part) -> Result<Vec<u8>, crate::MessageError> {
    let mut bytes = vec![PART];
    bytes.extend(crate::encode(part)?);
    Ok(bytes)
}

/// Writes bytes of a body, at most [`MAX_CHUNK`], as a datagram.
#[must_use]
pub fn data(chunk: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(chunk.len() + 1);
    bytes.push(DATA);
    bytes.extend_from_slice(chunk);
    bytes
}

/// Reads a datagram.
///
/// # Errors
/// As [`crate::decode`]; an unknown kind of datagram is malformed, too.
pub fn frame(bytes: &[u8]) -> Result<Frame<'_>, crate::MessageError> {
    match bytes.split_first() {
        Some((&DATA, data)) => Ok(Frame::Data(data)),
        Some((&PART, message)) => Ok(Frame::Part(crate::decode(message)?)),
        // Not even the empty message is JSON.
        _ => crate::decode(b"").map(Frame::Part),
    }
}
