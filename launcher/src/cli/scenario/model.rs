//! The scripted model: an API on loopback that makes the agent do what the scenario says, step by step.

use super::http::{self, Message};
use super::servers::{Notes, Report};
use picktwo_wire::control::Mode;
use serde_json::{Value, json};
use std::net::TcpStream;

/// What the agent's conversation begins with: requests without it are not the conversation.
pub(super) const PROMPT: &str = "Do what has to be done.";

/// One step with its placeholders filled in.
pub(super) struct Step {
    /// Its name.
    pub(super) name: String,
    /// The tool; `say` is the model's own words.
    pub(super) tool: String,
    /// Its arguments.
    pub(super) input: Value,
    /// What the person sets the mode to before it.
    pub(super) person: Option<Mode>,
}

/// What the person in another terminal does.
pub(super) type Person = Box<dyn Fn(Mode) -> Result<(), String> + Send>;

/// The model.
pub(super) struct Model {
    /// The steps.
    pub(super) steps: Vec<Step>,
    /// The person.
    pub(super) person: Person,
    /// What it sees is noted there.
    pub(super) notes: Notes,
}

impl Model {
    /// Answers one request.
    pub(super) fn serve(&mut self, stream: &TcpStream) {
        let request = match http::read_request(stream) {
            // A connection that was made ahead and not needed.
            Ok(request) if request.line.is_empty() => return,
            Ok(request) => request,
            Err(e) => return self.notes.lock().broken.push(format!("model: {e}")),
        };
        let reply = self.turn(&request);
        // A client that hangs up gets no answer.
        let _ = http::answer(stream, 200, "application/json", None, reply.to_string().as_bytes());
    }

    fn turn(&mut self, request: &Message) -> Value {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        self.note(request, &body);
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        if request.second() != "/v1/messages" || messages.first().is_none_or(|m| m["content"] != PROMPT) {
            return message(&json!([{"type": "text", "text": "ok"}]), "end_turn");
        }
        // Which step is next is read from the request alone: a request that is repeated gets the same answer.
        let result = last_result(messages);
        let next = result.as_ref().map_or(0, |(number, _)| number + 1);
        let fresh = next == self.notes.lock().said;
        if let (Some((number, text)), true) = (result, fresh)
            && let Some(step) = self.steps.get(number)
        {
            let name = step.name.clone();
            self.notes.lock().reports.push(Report { name, text });
        }
        let Some(step) = self.steps.get(next) else {
            return message(&json!([{"type": "text", "text": "done"}]), "end_turn");
        };
        if fresh {
            if let Some(Err(e)) = step.person.map(|mode| (self.person)(mode)) {
                self.notes.lock().broken.push(format!("the person's mode: {e}"));
            }
            self.notes.lock().said = next + 1;
        }
        let (content, stop) = said(next, step);
        message(&content, stop)
    }

    /// Keeps what arrived. What this model said itself comes back in every request and is left out: it proves nothing.
    fn note(&self, request: &Message, body: &Value) {
        let mut rest = body.clone();
        if let Some(messages) = rest["messages"].as_array_mut() {
            messages.retain(|m| {
                let own = |(n, step): (usize, &Step)| m["content"] == said(n, step).0;
                m["role"] != "assistant" || !self.steps.iter().enumerate().any(own)
            });
        }
        let mut text = format!("{}\n", request.line);
        if body.is_null() {
            text.push_str(&String::from_utf8_lossy(&request.body));
        } else {
            text.push_str(&rest.to_string());
            strings(&rest, &mut text);
        }
        let mut tools = Vec::new();
        reaching(&rest, &mut tools);
        let mut notes = self.notes.lock();
        notes.model.push(text);
        notes.tools.append(&mut tools);
        for name in ["x-api-key", "authorization"] {
            notes.keys.extend(request.header(name).map(str::to_owned));
        }
    }
}

/// What the model says at a step.
fn said(number: usize, step: &Step) -> (Value, &'static str) {
    match step.tool.as_str() {
        "say" => (json!([{"type": "text", "text": step.input["text"]}]), "end_turn"),
        tool => {
            let id = format!("toolu_{number}");
            let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": step.input}]);
            (call, "tool_use")
        }
    }
}

fn message(content: &Value, stop: &str) -> Value {
    json!({"id": "msg_scenario", "type": "message", "role": "assistant", "model": "claude-scripted", "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
}

/// The result of the last tool call in a conversation: the step's number, and what the tool said.
fn last_result(messages: &[Value]) -> Option<(usize, String)> {
    let blocks = messages.last()?["content"].as_array()?;
    let block = blocks.iter().find(|b| b["type"] == "tool_result")?;
    let number = block["tool_use_id"].as_str()?.strip_prefix("toolu_")?.parse().ok()?;
    let text = match &block["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect(),
        _ => String::new(),
    };
    Some((number, text))
}

/// Every text as it was before JSON escaped it.
fn strings(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push('\n');
            into.push_str(text);
        }
        Value::Array(items) => items.iter().for_each(|v| strings(v, into)),
        Value::Object(map) => map.values().for_each(|v| strings(v, into)),
        _ => {}
    }
}

/// By what the provider would reach out: hosted tools by their type, remote servers (`mcp:URL`), content by address (`url:URL`).
fn reaching(body: &Value, into: &mut Vec<String>) {
    let list = |key: &str| body[key].as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().map(str::to_owned);
    into.extend(
        list("tools")
            .iter()
            .filter_map(|t| text(&t["type"]))
            .filter(|kind| kind != "custom"),
    );
    into.extend(
        list("mcp_servers")
            .iter()
            .filter_map(|s| text(&s["url"]))
            .map(|url| format!("mcp:{url}")),
    );
    addresses(body, into);
}

fn addresses(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|v| addresses(v, into)),
        Value::Object(map) => {
            if value["source"]["type"] == "url" {
                into.extend(value["source"]["url"].as_str().map(|url| format!("url:{url}")));
            }
            map.values().for_each(|v| addresses(v, into));
        }
        _ => {}
    }
}
