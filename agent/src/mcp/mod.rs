//! The MCP server `picktwo mcp`: newline-delimited JSON-RPC 2.0 over standard input and output.
//!
//! Both generations of the protocol are spoken: the handshake (`initialize`, revisions 2024-11-05 to 2025-11-25) and the
//! self-contained requests of 2026-07-28 (version in every request's `_meta`, `server/discover`). Written by hand because the
//! official crate costs 85 seconds of processor time to build and an asynchronous runtime, for four methods.
//!
//! Source: <https://modelcontextprotocol.io/specification/>.

mod protocol;
mod tools;

use crate::client::{Client, Line, read_line};
use protocol::{Call, Era, Fault, Id, Incoming};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    sync::{Mutex, PoisonError},
    thread,
};

/// Bytes of one message from the agent.
pub const MAX_LINE: usize = 1 << 20;
/// Calls that may be under way at once; the launcher has its own bounds.
pub const MAX_CALLS: usize = 16;

/// Serves until `input` ends, then waits for the calls that are under way.
///
/// # Errors
/// Reading `input` failed. An `output` that nobody reads any more ends the service without an error.
pub fn serve(mut input: impl BufRead, output: impl Write + Send, client: &Client) -> io::Result<()> {
    let server = Server {
        client,
        output: Mutex::new(output),
        running: Mutex::new(HashMap::new()),
    };
    thread::scope(|scope| {
        loop {
            let line = match read_line(&mut input, MAX_LINE)? {
                Line::End => return Ok(()),
                Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Line::Whole(line) => line,
                Line::TooLong(n) => {
                    let fault =
                        Fault::invalid_request(format!("message of {n} bytes, at most {MAX_LINE} are accepted"));
                    if server.send(&fault.reply(None)).is_err() {
                        return Ok(());
                    }
                    continue;
                }
            };
            let going = match protocol::parse(&line) {
                Ok(Incoming::Call(call)) => server.start(scope, call),
                Ok(Incoming::Batch(items)) => {
                    let server = &server;
                    scope.spawn(move || server.batch(items));
                    Ok(())
                }
                Ok(Incoming::Cancelled(id)) => {
                    server.cancel(&id);
                    Ok(())
                }
                Ok(Incoming::Nothing) => Ok(()),
                Err((id, fault)) => server.send(&fault.reply(id.as_ref())),
            };
            if going.is_err() {
                server.cancel_all();
                return Ok(());
            }
        }
    })
}

struct Server<'c, W> {
    client: &'c Client,
    output: Mutex<W>,
    /// Calls under way, so that they can be cancelled.
    running: Mutex<HashMap<Id, tools::Running>>,
}

impl<W: Write + Send> Server<'_, W> {
    /// Answers at once what needs no waiting; a tool call gets its own thread.
    fn start<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>, call: Call) -> io::Result<()> {
        if call.method != "tools/call" {
            return self.send(&self.answer(&call));
        }
        match self.admit(&call.id) {
            Ok(()) => {
                scope.spawn(move || {
                    let reply = self.answer(&call);
                    // A cancelled request gets no reply.
                    let cancelled = lock(&self.running).remove(&call.id).is_some_and(|r| r.cancelled());
                    if !cancelled {
                        let _ = self.send(&reply);
                    }
                });
                Ok(())
            }
            Err(fault) => self.send(&fault.reply(Some(&call.id))),
        }
    }

    fn admit(&self, id: &Id) -> Result<(), Fault> {
        let mut running = lock(&self.running);
        if running.contains_key(id) {
            return Err(Fault::invalid_request(format!("a call with id {id} is under way")));
        }
        if running.len() >= MAX_CALLS {
            return Err(Fault::busy(format!(
                "{MAX_CALLS} calls are under way; wait for one of them"
            )));
        }
        running.insert(id.clone(), tools::Running::default());
        Ok(())
    }

    /// One reply for all: revision 2025-03-26 asks for it.
    fn batch(&self, items: Vec<Result<Incoming, (Option<Id>, Fault)>>) {
        let mut replies = Vec::new();
        for item in items {
            match item {
                Ok(Incoming::Call(call)) => replies.push(match self.admit(&call.id) {
                    Ok(()) => {
                        let reply = self.answer(&call);
                        lock(&self.running).remove(&call.id);
                        reply
                    }
                    Err(fault) => fault.reply(Some(&call.id)),
                }),
                Ok(Incoming::Cancelled(id)) => self.cancel(&id),
                Ok(Incoming::Batch(_) | Incoming::Nothing) => {}
                Err((id, fault)) => replies.push(fault.reply(id.as_ref())),
            }
        }
        if !replies.is_empty() {
            let _ = self.send(&Value::Array(replies));
        }
    }

    fn answer(&self, call: &Call) -> Value {
        match self.result(call) {
            Ok(mut result) => {
                if call.era == Era::SelfContained {
                    result["resultType"] = json!("complete");
                }
                json!({"jsonrpc": "2.0", "id": call.id, "result": result})
            }
            Err(fault) => fault.reply(Some(&call.id)),
        }
    }

    fn result(&self, call: &Call) -> Result<Value, Fault> {
        match (call.method.as_str(), call.era) {
            ("initialize", _) => protocol::initialize(&call.params),
            ("server/discover", _) => Ok(protocol::discover()),
            ("ping", Era::Handshake) => Ok(json!({})),
            ("tools/list", era) => {
                let mut list = json!({"tools": tools::list()});
                if era == Era::SelfContained {
                    list["ttlMs"] = json!(0);
                    list["cacheScope"] = json!("private");
                }
                Ok(list)
            }
            ("tools/call", _) => {
                let progress = |n: u64, note: &str| {
                    if let Some(token) = &call.progress {
                        let _ = self.send(&protocol::progress(token, n, note));
                    }
                };
                tools::call(self.client, &call.params, progress, |canceller| {
                    if let Some(running) = lock(&self.running).get_mut(&call.id) {
                        running.started(canceller);
                    }
                })
            }
            (method, _) => Err(Fault::method_not_found(method)),
        }
    }

    fn cancel(&self, id: &Id) {
        if let Some(running) = lock(&self.running).get_mut(id) {
            running.cancel();
        }
    }

    fn cancel_all(&self) {
        for running in lock(&self.running).values_mut() {
            running.cancel();
        }
    }

    fn send(&self, message: &Value) -> io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        let mut output = lock(&self.output);
        output.write_all(line.as_bytes())?;
        output.flush()
    }
}

/// A thread that panicked while holding one of these locks left a whole value behind.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
