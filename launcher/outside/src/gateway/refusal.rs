//! What the gateway answers when it does not forward: one message for the person, in the error JSON of the protocol.
//!
//! Refusals are status 400: agents take every other code for a reason to retry, to compact or to blame the key.

use super::json::{Fault, write_string};
use picktwo_wire::gateway::Protocol;

/// A request that is not forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// HTTP status.
    pub(crate) status: u16,
    /// Stable identifier, for records and tests.
    pub(crate) rule: &'static str,
    /// Where in the request, e.g. `tools[2].type`; empty: the request as a whole.
    pub(crate) place: String,
    /// What was found there and why it is refused, without a final stop.
    pub(crate) reason: String,
    /// The policy line that would accept it.
    pub(crate) line: Option<String>,
    /// What to do instead, one sentence.
    pub(crate) instead: Option<&'static str>,
}

impl Refusal {
    /// A refusal of the request as a whole.
    pub(crate) fn new(rule: &'static str, reason: impl Into<String>) -> Self {
        Self {
            status: 400,
            rule,
            place: String::new(),
            reason: reason.into(),
            line: None,
            instead: None,
        }
    }

    /// The same at a place in the body.
    pub(crate) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// The same with the policy line that would accept it.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.line = Some(line.into());
        self
    }

    /// The same with advice.
    pub(crate) fn instead(mut self, instead: &'static str) -> Self {
        self.instead = Some(instead);
        self
    }

    /// The same with another status.
    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Place and reason, for the record.
    pub(crate) fn summary(&self) -> String {
        if self.place.is_empty() {
            self.reason.clone()
        } else {
            format!("{}: {}", self.place, self.reason)
        }
    }

    /// What the person reads.
    pub(crate) fn message(&self) -> String {
        let mut text = format!("picktwo refused this request ({}): {}.", self.rule, self.summary());
        match &self.line {
            Some(line) => text.push_str(&format!(" The user's policy would accept it with: {line}.")),
            None => text.push_str(" No policy line accepts it."),
        }
        if let Some(instead) = self.instead {
            text.push_str(&format!(" Instead: {instead}"));
        }
        text
    }

    /// The body to answer with.
    pub(crate) fn body(&self, dialect: Protocol) -> Vec<u8> {
        error_body(dialect, self.status, self.rule, &self.message())
    }
}

/// The error JSON of a protocol.
pub(crate) fn error_body(dialect: Protocol, status: u16, code: &str, message: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 128);
    let mut string = |before: &str, text: &str, after: &str| {
        out.extend_from_slice(before.as_bytes());
        write_string(text, &mut out);
        out.extend_from_slice(after.as_bytes());
    };
    match dialect {
        Protocol::Anthropic => {
            let kind = match status {
                400..=403 | 405..=499 => "invalid_request_error",
                404 => "not_found_error",
                _ => "api_error",
            };
            string(r#"{"type":"error","error":{"type":"#, kind, "");
            string(r#","message":"#, message, "}}");
        }
        Protocol::Openai => {
            let kind = if status < 500 {
                "invalid_request_error"
            } else {
                "server_error"
            };
            string(r#"{"error":{"message":"#, message, "");
            string(r#","type":"#, kind, r#","param":null"#);
            string(r#","code":"#, code, "}}");
        }
        Protocol::Gemini => {
            let kind = match status {
                404 => "NOT_FOUND",
                504 => "DEADLINE_EXCEEDED",
                0..500 => "INVALID_ARGUMENT",
                _ => "UNAVAILABLE",
            };
            string(&format!(r#"{{"error":{{"code":{status},"status":"#), kind, "");
            string(r#","message":"#, message, "}}");
        }
    }
    out
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Encoding { at } => Self::new("malformed", format!("the body is not UTF-8 (byte {at})")),
            Fault::Syntax { at, expected } => Self::new(
                "malformed",
                format!("the body is not JSON: byte {at}, expected {expected}"),
            ),
            Fault::LoneSurrogate { at } => Self::new(
                "malformed",
                format!("the string escape at byte {at} is half of a surrogate pair"),
            ),
            Fault::Duplicate { key, before } => {
                let key = shown(&key);
                Self::new(
                    "duplicate-key",
                    format!("the key {key} occurs twice in the object that ends at byte {before}"),
                )
            }
            Fault::TooDeep { at } => Self::new("too-deep", format!("the body nests too deep (byte {at})")),
            Fault::TooManyItems { at } => Self::new(
                "too-large",
                format!("an array or object has too many entries (byte {at})"),
            ),
            Fault::TooManyValues { at } => Self::new("too-large", format!("the body has too many values (byte {at})")),
        }
    }
}

/// A word of the agent for a message: in backquotes, short, printable ASCII only.
pub(crate) fn shown(word: &str) -> String {
    let mut text: String = word
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
        .collect();
    if word.chars().nth(64).is_some() {
        text.push_str("...");
    }
    format!("`{text}`")
}
