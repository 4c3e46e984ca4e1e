//! What a record tells. Bodies of model calls, page contents and keys are never part of it.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// What enforces a session's bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bounds {
    /// `cgroup`, or `rlimit`: of each process.
    pub(crate) memory: String,
    /// `cgroup`, `rlimit`, `pid namespace` or `none`.
    pub(crate) processes: String,
}

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Event {
    /// The session starts.
    Start {
        /// Session id.
        session: String,
        /// picktwo's version.
        version: String,
        /// `full`, `container` or `nested`.
        tier: String,
        /// Landlock ABI in use.
        landlock: u32,
        /// SHA-256 of the effective policy.
        policy: String,
        /// Name of the profile.
        profile: String,
        /// Absolute path of the workspace.
        workspace: String,
        /// The command line.
        command: Vec<String>,
        /// The mode it starts in.
        mode: String,
        /// What bounds it; records of earlier versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bounds: Option<Bounds>,
    },
    /// The mode was set.
    Mode {
        /// From.
        was: String,
        /// To.
        mode: String,
        /// Who asked.
        by: String,
        /// Descriptors that stayed open for writing.
        writers: usize,
        /// Descriptors whose processes were ended for it.
        ended: usize,
    },
    /// A disk was nearly full, and the session is ended for it.
    Full {
        /// What lies on it.
        path: String,
    },
    /// Changes of files were refused; one line may stand for several.
    Refused {
        /// System call.
        call: String,
        /// Path, as far as it is text.
        path: String,
        /// The answer.
        errno: String,
        /// What decided.
        rule: Option<String>,
        /// How many more refusals were not told one by one since the last line.
        more: u64,
    },
    /// The agent's side asked for something of the web side.
    Request {
        /// Number of the retrieval.
        retrieval: u64,
        /// The URL; only the host where a secret was found in it.
        url: String,
        /// The question.
        question: Option<String>,
    },
    /// The agent's side asked for a search.
    Search {
        /// Number of the retrieval.
        retrieval: u64,
        /// Who was asked.
        provider: String,
        /// The words.
        query: String,
    },
    /// The agent's side asked for something of GitHub.
    Github {
        /// Number of the retrieval.
        retrieval: u64,
        /// The operation and its arguments.
        operation: String,
        /// The question.
        question: Option<String>,
    },
    /// The retrievers' gateway asked an API.
    Asked {
        /// Number of the retrieval.
        retrieval: u64,
        /// Method.
        method: String,
        /// Host and port.
        host: String,
        /// Path without query.
        path: String,
        /// Status; 0 if there was no answer.
        status: u16,
        /// Bytes received.
        received: u64,
        /// Milliseconds.
        ms: u64,
    },
    /// A request was refused before it crossed the wall.
    Blocked {
        /// The host, as far as there is one.
        host: String,
        /// Identifier of the rule.
        rule: String,
    },
    /// A response's head arrived.
    Hop {
        /// Number of the retrieval.
        retrieval: u64,
        /// The URL that answered.
        url: String,
        /// HTTP status.
        status: u16,
        /// Where it redirected to.
        location: Option<String>,
        /// Whether the redirect was followed; the rule that refused it.
        refused: Option<String>,
    },
    /// A name was resolved.
    Resolved {
        /// Number of the retrieval.
        retrieval: u64,
        /// The name.
        host: String,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// A connection was granted or refused.
    Connection {
        /// Number of the retrieval.
        retrieval: u64,
        /// The name, empty for a literal.
        host: String,
        /// Where to.
        address: SocketAddr,
        /// What came of it.
        outcome: String,
    },
    /// A retrieval ended.
    Retrieved {
        /// Number of the retrieval.
        retrieval: u64,
        /// `answered`, or the cause of the failure.
        outcome: String,
        /// Bytes over the wire.
        wire_bytes: u64,
        /// SHA-256 of each source's body.
        sources: Vec<String>,
        /// SHA-256 of the distilled answer as it crossed the wall.
        answer: Option<String>,
        /// Identifiers of the flags.
        flags: Vec<String>,
    },
    /// The gateway forwarded a call.
    Call {
        /// Method.
        method: String,
        /// Path without query.
        path: String,
        /// Model.
        model: Option<String>,
        /// Status.
        status: u16,
        /// Bytes sent.
        sent: u64,
        /// Bytes received.
        received: u64,
        /// Milliseconds.
        ms: u64,
    },
    /// The gateway refused a call.
    CallRefused {
        /// Method.
        method: String,
        /// Path without query.
        path: String,
        /// Identifier of the rule.
        rule: String,
        /// What and why.
        reason: String,
    },
    /// A part of the session ended before the session did.
    Lost {
        /// Which part.
        part: String,
        /// Why, as far as known.
        reason: String,
    },
    /// The session ended.
    End {
        /// Exit code as a shell reports it.
        code: i32,
    },
}
