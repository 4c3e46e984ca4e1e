//! Agent's side ↔ launcher, over the session's tools socket: one request line, one or more reply lines, in order.

use crate::answer::Answer;
use serde::{Deserialize, Serialize};

/// Name of the file that lies where the tools socket would, in a session without tools; holds the reason as one sentence.
pub const NO_TOOLS: &str = "no-tools";

/// What the agent's side may ask of the launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Fetch a page and answer a question about it.
    Fetch {
        /// Absolute http or https URL, at most [`crate::MAX_URL`] bytes.
        url: String,
        /// What is wanted of the page, at most [`crate::MAX_QUESTION`] bytes; none: the main content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// Tokens the answer may take (about four bytes each).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<u32>,
    },
    /// Search the web.
    Search {
        /// The words, at most [`crate::apis::MAX_QUERY`] bytes.
        query: String,
        /// Results wanted, at most [`crate::apis::MAX_RESULTS`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        results: Option<u32>,
    },
    /// Read something of GitHub.
    Github {
        /// What.
        github: crate::github::Github,
        /// What is wanted of it, at most [`crate::MAX_QUESTION`] bytes; none: all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// Tokens the answer may take (about four bytes each).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<u32>,
    },
    /// The session's identity and mode.
    Status,
}

/// What the launcher answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// The retrieval is under way; more lines follow.
    Progress {
        /// One short phrase, e.g. `connecting to docs.example.org`.
        note: String,
    },
    /// The retrieval succeeded.
    Answer {
        /// What was found.
        answer: Box<Answer>,
    },
    /// Policy refused; trying again with the same arguments is useless.
    Refused {
        /// Stable identifier of the rule, e.g. `unknown-host`, `secret`, `private-address`, `budget`.
        rule: String,
        /// One sentence: what, why, and what to do instead. Never echoes a secret.
        reason: String,
    },
    /// It was allowed but did not work (refused connection, timeout, bad document …).
    Failed {
        /// Stable identifier, e.g. `connect`, `timeout`, `status`, `content-type`, `dns`.
        cause: String,
        /// One sentence.
        reason: String,
    },
    /// The session's identity and mode.
    Status {
        /// Session id.
        session: String,
        /// `read-only` or `edit`.
        mode: String,
        /// `full`, `container` or `nested`.
        tier: String,
    },
}
