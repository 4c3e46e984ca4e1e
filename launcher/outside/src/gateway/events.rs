//! Server-sent events: an answer is passed on event by event, as soon as an event is whole and was looked at.

use super::echo::{Echo, Watch};
use super::inspect::hosted_result;
use super::json::{ANSWER, parse};
use super::refusal::error_body;
use hyper::body::Bytes;
use picktwo_wire::gateway::Protocol;
use std::sync::Arc;

/// Bytes of one event. The last event of a Responses stream repeats the whole answer.
const MAX_EVENT: usize = 16 << 20;

/// Why a stream is cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The result of a hosted tool.
    Hosted(String),
    /// An event that is not of the protocol.
    Garbage(&'static str),
    /// The key came back.
    Key,
}

/// Cuts a stream into events and looks into each.
pub(crate) struct Events {
    protocol: Protocol,
    watch: Watch,
    /// An event that is not whole yet.
    pending: Vec<u8>,
    /// Bytes of `pending` that hold no end of an event.
    searched: usize,
}

impl Events {
    /// Events of one answer; the key that `echo` knows must not occur in it.
    pub(crate) fn new(protocol: Protocol, echo: Arc<Echo>) -> Self {
        Self {
            protocol,
            watch: Watch::new(echo),
            pending: Vec::new(),
            searched: 0,
        }
    }

    /// Takes bytes of the stream; returns what may be passed on now, possibly nothing.
    pub(crate) fn push(&mut self, data: Bytes) -> Result<Bytes, Broken> {
        if self.pending.is_empty() {
            let end = last_end(&data, 0);
            self.look(&data[..end])?;
            if end < data.len() {
                self.pending.extend_from_slice(&data[end..]);
                self.searched = self.pending.len().saturating_sub(3);
            }
            return Ok(data.slice(..end));
        }
        self.pending.extend_from_slice(&data);
        let end = last_end(&self.pending, self.searched);
        if end == 0 {
            if self.pending.len() > MAX_EVENT {
                return Err(Broken::Garbage("an event is larger than 16 MiB"));
            }
            self.searched = self.pending.len().saturating_sub(3);
            return Ok(Bytes::new());
        }
        let rest = self.pending.split_off(end);
        let whole = std::mem::replace(&mut self.pending, rest);
        self.searched = self.pending.len().saturating_sub(3);
        self.look(&whole)?;
        Ok(Bytes::from(whole))
    }

    /// What is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> Result<Bytes, Broken> {
        let rest = std::mem::take(&mut self.pending);
        self.look(&rest)?;
        Ok(Bytes::from(rest))
    }

    /// Looks into whole events.
    fn look(&mut self, events: &[u8]) -> Result<(), Broken> {
        if events.is_empty() {
            return Ok(());
        }
        if self.watch.bytes(events) {
            return Err(Broken::Key);
        }
        let mut data: Option<std::borrow::Cow<'_, [u8]>> = None;
        for line in lines(events) {
            if line.is_empty() {
                self.event(data.take().as_deref())?;
            } else if let Some(text) = field(line, b"data") {
                match &mut data {
                    None => data = Some(text.into()),
                    Some(joined) => {
                        let joined = joined.to_mut();
                        joined.push(b'\n');
                        joined.extend_from_slice(text);
                    }
                }
            } else if self.watch.line(line) {
                return Err(Broken::Key);
            } else if !known(line) {
                return Err(Broken::Garbage("a line is not one of an event stream"));
            }
        }
        self.event(data.as_deref())
    }

    fn event(&mut self, data: Option<&[u8]>) -> Result<(), Broken> {
        let Some(data) = data
            .map(<[u8]>::trim_ascii)
            .filter(|data| !data.is_empty() && *data != b"[DONE]")
        else {
            return Ok(());
        };
        let value = parse(data, ANSWER).map_err(|_| Broken::Garbage("the data of an event is not JSON"))?;
        if self.watch.document(&value) {
            return Err(Broken::Key);
        }
        match hosted_result(self.protocol, &value) {
            Some(name) => Err(Broken::Hosted(name)),
            None => Ok(()),
        }
    }
}

/// Lines with any of the three ends of the format.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.filter(|text| !text.is_empty())?;
        match text.iter().position(|b| *b == b'\n' || *b == b'\r') {
            Some(at) => {
                let after = if text[at..].starts_with(b"\r\n") {
                    at + 2
                } else {
                    at + 1
                };
                rest = Some(&text[after..]);
                Some(&text[..at])
            }
            None => {
                rest = None;
                Some(text)
            }
        }
    })
}

fn field<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest.strip_prefix(b":") {
        Some(value) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        None if rest.is_empty() => Some(rest),
        None => None,
    }
}

fn known(line: &[u8]) -> bool {
    line.starts_with(b":")
        || [&b"event"[..], b"id", b"retry"]
            .iter()
            .any(|name| field(line, name).is_some())
}

/// The end of the last whole event at or after `from`: behind a blank line.
fn last_end(text: &[u8], from: usize) -> usize {
    let ends: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\r\r"];
    let mut at = text.len();
    while at > from {
        if matches!(text[at - 1], b'\n' | b'\r') && ends.iter().any(|end| text[..at].ends_with(end)) {
            // Half of "\r\n" must not begin the next event.
            return if text[..at].ends_with(b"\r\r") && text.get(at) == Some(&b'\n') {
                at + 1
            } else {
                at
            };
        }
        at -= 1;
    }
    0
}

/// The last event of a stream that is cut off: an error in the protocol's own words.
pub(crate) fn error_event(protocol: Protocol, responses: bool, status: u16, code: &str, message: &str) -> Vec<u8> {
    let body = error_body(protocol, status, code, message);
    let mut out = Vec::with_capacity(body.len() + 128);
    match protocol {
        Protocol::Anthropic => out.extend_from_slice(b"event: error\ndata: "),
        Protocol::Openai if responses => {
            // Codex gives up on `invalid_prompt` and tries again on anything else.
            let code = if status < 500 { "invalid_prompt" } else { "server_error" };
            out.extend_from_slice(b"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"object\":\"response\",\"status\":\"failed\",\"output\":[],\"error\":{\"code\":\"");
            out.extend_from_slice(code.as_bytes());
            out.extend_from_slice(b"\",\"message\":");
            super::json::write_string(message, &mut out);
            out.extend_from_slice(b"}}}\n\n");
            return out;
        }
        Protocol::Openai | Protocol::Gemini => out.extend_from_slice(b"data: "),
    }
    out.extend_from_slice(&body);
    out.extend_from_slice(b"\n\n");
    out
}
