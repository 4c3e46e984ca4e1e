//! A model API on loopback that plays a script: it answers every request of an agent with the next turn, and keeps what it
//! was sent.
//!
//! Which turn is next is read from the request alone (how many of the script's calls it holds results for), so a repeated
//! request gets the same turn again, whatever the agent's retries do.

mod answers;
mod requests;

pub use requests::{Protocol, Seen, Tool, ToolResult};

use crate::http::{Request, Responder, Server};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// How long a turn waits at its gate.
const PATIENCE: Duration = Duration::from_secs(180);

/// What an agent is told to do, turn by turn.
#[derive(Default)]
pub struct Script {
    turns: Vec<Turn>,
}

/// One answer of the model.
pub struct Turn {
    say: Say,
    expect: Option<Expectation>,
    gate: Option<Gate>,
}

struct Expectation {
    what: String,
    holds: Box<dyn Fn(&Seen) -> bool + Send + Sync>,
}

/// What the model says.
#[derive(Clone, Debug)]
pub enum Say {
    /// Final text.
    Text(String),
    /// A tool call. For a custom tool (free text) `input` is a string.
    Call {
        /// The tool's name as offered.
        tool: String,
        /// Its arguments.
        input: Value,
    },
    /// An HTTP error with a message.
    Status(u16, String),
    /// Something a server should not do.
    Fault(Fault),
}

/// What upstreams do wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// No answer at all for that long, then the connection closes.
    Stall(Duration),
    /// The connection closes without an answer.
    Close,
    /// These bytes instead of an HTTP answer.
    Garbage(Vec<u8>),
    /// A stream that breaks off in the middle.
    Cut,
    /// A body of that many bytes.
    Endless(u64),
}

impl Script {
    /// No turns yet: everything is answered with "ok".
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a turn.
    #[must_use]
    pub fn then(mut self, turn: Turn) -> Self {
        self.turns.push(turn);
        self
    }
}

impl Turn {
    /// Says something.
    #[must_use]
    pub fn say(say: Say) -> Self {
        Self {
            say,
            expect: None,
            gate: None,
        }
    }

    /// Calls a tool.
    pub fn call(tool: impl Into<String>, input: Value) -> Self {
        Self::say(Say::Call {
            tool: tool.into(),
            input,
        })
    }

    /// Ends with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::say(Say::Text(text.into()))
    }

    /// What the request that leads here has to look like, usually the result of the call before. If it does not, that is
    /// recorded as a problem and the conversation ends.
    #[must_use]
    pub fn expecting(mut self, what: &str, holds: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Self {
        self.expect = Some(Expectation {
            what: what.into(),
            holds: Box::new(holds),
        });
        self
    }

    /// Before it answers, the server reports at `gate` and waits until it is opened.
    #[must_use]
    pub fn at(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

/// A moment at which the agent waits for its model and the test does something.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    reached: bool,
    open: bool,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until the conversation is here; says whether it came within `limit`.
    #[must_use]
    pub fn reached(&self, limit: Duration) -> bool {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        changed
            .wait_timeout_while(state, limit, |s| !s.reached)
            .is_ok_and(|(s, _)| s.reached)
    }

    /// Lets the conversation go on.
    pub fn open(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        changed.notify_all();
    }

    fn pass(&self) -> bool {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reached = true;
        changed.notify_all();
        changed
            .wait_timeout_while(state, PATIENCE, |s| !s.open)
            .is_ok_and(|(s, _)| s.open)
    }
}

/// A running model API.
pub struct ModelServer {
    server: Server,
    state: Arc<State>,
}

struct State {
    script: Script,
    requests: Mutex<Vec<Request>>,
    problems: Mutex<Vec<String>>,
    furthest: AtomicUsize,
    log: Option<PathBuf>,
}

impl ModelServer {
    /// Serves `script` on every protocol. With `PICKTWO_TEST_LOG=DIR` every request is also written to a file
    /// there, in a directory of this server's.
    ///
    /// # Errors
    /// Those of `bind`.
    pub fn start(script: Script) -> io::Result<Self> {
        let state = Arc::new(State {
            script,
            requests: Mutex::new(Vec::new()),
            problems: Mutex::new(Vec::new()),
            furthest: AtomicUsize::new(0),
            log: std::env::var_os("PICKTWO_TEST_LOG").map(|dir| log_directory(Path::new(&dir))),
        });
        let served = Arc::clone(&state);
        let server = Server::start(move |request, responder| served.handle(request, responder))?;
        Ok(Self { server, state })
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.state
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What did not go by the script.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.state
            .problems
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many turns were said.
    #[must_use]
    pub fn turns_said(&self) -> usize {
        self.state.furthest.load(Ordering::Acquire)
    }
}

impl State {
    fn handle(&self, request: &Request, responder: &mut Responder<'_>) -> io::Result<()> {
        const JSON: (&str, &str) = ("content-type", "application/json");
        self.keep(request);
        let path = request.path();
        let Some(protocol) = Protocol::of(path) else {
            return match (request.method.as_str(), path) {
                ("HEAD", _) => responder.full(200, &[], b""),
                ("GET", p) if p.ends_with("/models") => responder.full(200, &[JSON], br#"{"object":"list","data":[]}"#),
                (_, p) if p.ends_with("/count_tokens") => responder.full(200, &[JSON], br#"{"input_tokens":100}"#),
                (_, p) if p.ends_with(":countTokens") => responder.full(200, &[JSON], br#"{"totalTokens":100}"#),
                _ => responder.full(
                    404,
                    &[JSON],
                    br#"{"error":{"type":"not_found_error","message":"no such path"}}"#,
                ),
            };
        };
        let body: Value = match serde_json::from_slice(&request.body) {
            Ok(body) => body,
            Err(e) => {
                self.problem(format!("{path}: the body is not JSON: {e}"));
                return responder.full(
                    400,
                    &[JSON],
                    br#"{"error":{"type":"invalid_request_error","message":"not JSON"}}"#,
                );
            }
        };
        let seen = Seen::read(protocol, path, body);
        let (number, say) = self.choose(&seen);
        match &say {
            Say::Text(_) | Say::Call { .. } => answers::send(&seen, number, &say, responder),
            Say::Status(status, message) => {
                let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
                responder.full(*status, &[JSON], error.to_string().as_bytes())
            }
            Say::Fault(fault) => misbehave(fault, responder),
        }
    }

    fn choose(&self, seen: &Seen) -> (usize, Say) {
        let answered = seen.results.iter().filter_map(|r| answers::number_of(&r.call)).max();
        let number = answered.map_or(0, |n| n + 1);
        let aside = (number, Say::Text("ok".into()));
        let Some(turn) = self.script.turns.get(number) else {
            return aside;
        };
        if let Say::Call { tool, .. } = &turn.say {
            if seen.tools.is_empty() {
                return aside; // a title, a summary, a check: not the conversation
            }
            if !seen.tools.iter().any(|t| t.name == *tool) {
                let names: Vec<&str> = seen.tools.iter().map(|t| t.name.as_str()).collect();
                self.problem(format!("turn {number}: the tool {tool} is not offered, only {names:?}"));
                return (number, Say::Text("the script is broken".into()));
            }
        }
        if let Some(expected) = &turn.expect
            && !(expected.holds)(seen)
        {
            let last = seen.results.last();
            self.problem(format!(
                "turn {number}: expected {}, but the last result is {last:?}",
                expected.what
            ));
            return (number, Say::Text("the script is broken".into()));
        }
        if let Some(gate) = &turn.gate
            && !gate.pass()
        {
            self.problem(format!("turn {number}: nobody opened its gate"));
        }
        self.furthest.fetch_max(number + 1, Ordering::AcqRel);
        (number, turn.say.clone())
    }

    fn keep(&self, request: &Request) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = &self.log {
            let path = dir.join(format!("{:03}.http", requests.len()));
            if let Err(e) = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, request.bytes())) {
                self.problem(format!("{}: {e}", path.display()));
            }
        }
        requests.push(request.clone());
    }

    fn problem(&self, text: String) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// One directory for each server of each test process.
fn log_directory(base: &Path) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    base.join(format!(
        "{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ))
}

fn misbehave(fault: &Fault, responder: &mut Responder<'_>) -> io::Result<()> {
    match fault {
        Fault::Stall(time) => {
            thread::sleep(*time);
            responder.raw().flush()
        }
        Fault::Close => responder.raw().flush(),
        Fault::Garbage(bytes) => responder.raw().write_all(bytes),
        Fault::Cut => {
            responder.chunked(200, &[("content-type", "text/event-stream")])?;
            responder.chunk(b"event: message_start\ndata: {\"type\":\"mess")?;
            responder.raw().flush()
        }
        Fault::Endless(bytes) => {
            responder.chunked(200, &[("content-type", "text/event-stream")])?;
            let block = b": keep going\n\n".repeat(4096);
            let mut left = *bytes;
            while left > 0 {
                let n = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                responder.chunk(&block[..n])?;
                left -= n as u64;
            }
            responder.end()
        }
    }
}

#[cfg(test)]
mod tests;
