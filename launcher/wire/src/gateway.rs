//! Launcher ↔ outside (model side) ↔ gateway.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Launcher → outside, model side: the first message, before it locks itself. One descriptor comes along: the gateway's own
/// channel to the launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelStart {
    /// The upstreams that may be connected to, in the order of [`GatewayStart::upstreams`].
    pub upstreams: Vec<UpstreamAddress>,
    /// Name servers that the resolver may ask.
    pub nameservers: Vec<IpAddr>,
}

/// Where one upstream listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamAddress {
    /// Name in lower-case ASCII, or a literal address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Launcher → gateway: the first message on its own channel, after the gateway said [`FromGateway::Ready`]. One descriptor comes
/// along: the listening socket of the session.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayStart {
    /// Upstreams by path prefix of the protocol.
    pub upstreams: Vec<Upstream>,
    /// What the agent has to present as its key; none: nothing is asked (full tier, the socket is only reachable inside).
    pub phantom: Option<String>,
    /// Further trust anchors, DER, that the user's policy names.
    pub roots: Vec<Vec<u8>>,
    /// Instead of serving, try these escapes and report (only `picktwo verify` sets it).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
}

/// One pinned model API.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Which API it speaks.
    pub protocol: Protocol,
    /// Scheme, host, port and path prefix, e.g. `https://api.anthropic.com`.
    pub base: String,
    /// The real key; wiped by the launcher after sending.
    pub key: String,
    /// Allowed methods and paths, e.g. `POST /v1/messages`; a query is only ever what the protocol needs.
    pub allow: Vec<String>,
    /// Allowed model names; empty: every name that the protocol's rule for names accepts.
    pub models: Vec<String>,
}

/// Model APIs the gateway understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions and Responses.
    Openai,
    /// Google Gemini `generateContent`.
    Gemini,
}

/// Gateway → launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromGateway {
    /// Locked and self-checked: send it its start message.
    Ready,
    /// Listening.
    Serving,
    /// The start failed.
    Failed {
        /// One sentence.
        reason: String,
    },
    /// A call was forwarded and has ended.
    Call {
        /// Method.
        method: String,
        /// Path without query.
        path: String,
        /// Model name, if any.
        model: Option<String>,
        /// The upstream's status; 0 if there was no answer.
        status: u16,
        /// Bytes of the forwarded body.
        sent: u64,
        /// Bytes of the answer.
        received: u64,
        /// Milliseconds.
        ms: u64,
    },
    /// A call was refused and not forwarded.
    Refused {
        /// Method.
        method: String,
        /// Path without query, shortened.
        path: String,
        /// Stable identifier, e.g. `hosted-tool`, `unknown-field`, `path`, `model`, `duplicate-key`.
        rule: String,
        /// Where in the body and why.
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

/// Gateway → outside, model side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// Index of the upstream.
    pub upstream: usize,
    /// The host, where the upstream is a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Outside, model side → gateway; on success one connected socket comes along.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Connected {
    /// A descriptor comes along.
    Socket,
    /// No connection.
    Failed {
        /// One sentence, e.g. `api.anthropic.com:443: connection refused`.
        reason: String,
    },
}
