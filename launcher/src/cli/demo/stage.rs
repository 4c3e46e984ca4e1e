//! The stage around the demonstration's session: a scripted model, a hostile page and the attacker's own server, all on loopback,
//! all outside the session. What they receive is the evidence; the attacked processes are not asked.

use super::http::{self, Request};
use serde_json::{Value, json};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One step of the script: what the model tells the agent to do.
pub(super) struct Step {
    /// Stable name, by which the judge finds the result.
    pub(super) name: &'static str,
    /// Tool and input.
    pub(super) call: (&'static str, Value),
    /// Whether the person flips the session to edit before this step.
    pub(super) edit_first: bool,
}

/// What the agent reported for one step. Shown to people; the judge relies on it only for the controls that must succeed.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The step.
    pub(super) name: &'static str,
    /// Whether the tool failed.
    pub(super) failed: bool,
    /// What it said.
    pub(super) text: String,
}

/// What arrived at the servers.
#[derive(Default)]
pub(super) struct Evidence {
    /// Bodies that reached the model provider.
    pub(super) provider: Vec<String>,
    /// Keys that reached the model provider.
    pub(super) keys: Vec<String>,
    /// Requests that reached the page's host: line and headers.
    pub(super) page: Vec<String>,
    /// Bytes that reached the attacker.
    pub(super) attacker: Vec<Vec<u8>>,
    /// Results of the steps.
    pub(super) reports: Vec<Report>,
    /// What went wrong on stage; any entry spoils the demonstration.
    pub(super) broken: Vec<String>,
}

fn listen() -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Binds the three servers; the model starts to answer with [`Bound::play`].
pub(super) struct Bound {
    model: (TcpListener, SocketAddr),
    page: (TcpListener, SocketAddr),
    attacker: (TcpListener, SocketAddr),
}

impl Bound {
    /// Binds on loopback.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            model: listen()?,
            page: listen()?,
            attacker: listen()?,
        })
    }

    /// Where the page will be.
    pub(super) fn page(&self) -> SocketAddr {
        self.page.1
    }

    /// Where the attacker will listen.
    pub(super) fn attacker(&self) -> SocketAddr {
        self.attacker.1
    }

    /// Where the model provider will be.
    pub(super) fn model(&self) -> SocketAddr {
        self.model.1
    }

    /// Starts the servers. `edit` is what the person does between two steps.
    pub(super) fn play(
        self,
        script: Vec<Step>,
        html: String,
        edit: Box<dyn Fn() -> Result<(), String> + Send>,
    ) -> Arc<Mutex<Evidence>> {
        let evidence = Arc::new(Mutex::new(Evidence::default()));
        let seen = Arc::clone(&evidence);
        std::thread::spawn(move || accept(&self.page.0, |stream| serve_page(&stream, &html, &seen)));
        let seen = Arc::clone(&evidence);
        std::thread::spawn(move || accept(&self.attacker.0, |stream| take_loot(stream, &seen)));
        let seen = Arc::clone(&evidence);
        std::thread::spawn(move || {
            let mut model = Model {
                script,
                next: 0,
                edit,
                evidence: seen,
            };
            accept(&self.model.0, |stream| model.serve(&stream));
        });
        evidence
    }
}

fn accept(listener: &TcpListener, mut serve: impl FnMut(TcpStream)) {
    for stream in listener.incoming().flatten() {
        serve(stream);
    }
}

fn note(evidence: &Mutex<Evidence>, write: impl FnOnce(&mut Evidence)) {
    write(&mut evidence.lock().unwrap_or_else(PoisonError::into_inner));
}

fn serve_page(stream: &TcpStream, html: &str, evidence: &Mutex<Evidence>) {
    match http::read_request(stream) {
        Ok(request) => {
            note(evidence, |e| e.page.push(format!("{}\n{}", request.line, request.head)));
            // A client that hangs up has what it wanted.
            let _ = http::answer(stream, "200 OK", "text/html; charset=utf-8", html.as_bytes());
        }
        Err(e) => note(evidence, |seen| seen.broken.push(format!("page server: {e}"))),
    }
}

fn take_loot(mut stream: TcpStream, evidence: &Mutex<Evidence>) {
    let mut loot = vec![0; 4096];
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let n = stream.read(&mut loot).unwrap_or(0);
    loot.truncate(n);
    note(evidence, |e| e.attacker.push(loot));
}

struct Model {
    script: Vec<Step>,
    next: usize,
    edit: Box<dyn Fn() -> Result<(), String> + Send>,
    evidence: Arc<Mutex<Evidence>>,
}

impl Model {
    fn serve(&mut self, stream: &TcpStream) {
        let request = match http::read_request(stream) {
            Ok(request) => request,
            Err(e) => return note(&self.evidence, |seen| seen.broken.push(format!("model server: {e}"))),
        };
        let reply = self.turn(&request);
        let _ = http::answer(stream, "200 OK", "application/json", reply.to_string().as_bytes());
    }

    fn turn(&mut self, request: &Request) -> Value {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let result = last_result(&body);
        note(&self.evidence, |e| {
            e.provider.push(format!(
                "{} {}",
                request.target(),
                String::from_utf8_lossy(&request.body)
            ));
            e.keys.push(request.header("x-api-key").unwrap_or_default().to_owned());
            if let (Some((failed, text)), Some(step)) =
                (result, self.next.checked_sub(1).and_then(|i| self.script.get(i)))
            {
                e.reports.push(Report {
                    name: step.name,
                    failed,
                    text,
                });
            }
        });
        let Some(step) = self.script.get(self.next) else {
            return message(&json!([{"type": "text", "text": "done"}]), "end_turn");
        };
        if step.edit_first
            && let Err(e) = (self.edit)()
        {
            note(&self.evidence, |seen| seen.broken.push(format!("mode: {e}")));
        }
        self.next += 1;
        let id = format!("toolu_{}", self.next);
        message(
            &json!([{"type": "tool_use", "id": id, "name": step.call.0, "input": step.call.1}]),
            "tool_use",
        )
    }
}

fn message(content: &Value, stop: &str) -> Value {
    json!({"id": "msg_demo", "type": "message", "role": "assistant", "model": "claude-demo", "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
}

/// The result of the last tool call in a request, if there is one: whether it failed, and what it said.
fn last_result(body: &Value) -> Option<(bool, String)> {
    let last = body["messages"].as_array()?.last()?;
    let block = last["content"]
        .as_array()?
        .iter()
        .find(|b| b["type"] == "tool_result")?;
    let text = match &block["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect(),
        _ => String::new(),
    };
    Some((block["is_error"].as_bool().unwrap_or(false), text))
}
