//! The scenarios' agent: a loop that does whatever its model says. It is the command of a session, or of a twin without one, and has
//! no privilege in either: what any agent could try, it tries when told to.

use super::model::PROMPT;
use super::{bare, dns, http};
use picktwo_agent::client::Client;
use picktwo_agent::render;
use picktwo_wire::tools::{Reply, Request};
use serde_json::{Value, json};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Turns after which a model that does not end is left alone.
const MAX_TURNS: usize = 200;

/// Runs the loop until the model has nothing more to say. `names` is the scenario's name server.
pub(super) fn main(names: SocketAddr) -> ExitCode {
    match converse(names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "the scenario's agent: {e}");
            ExitCode::FAILURE
        }
    }
}

fn converse(names: SocketAddr) -> Result<(), String> {
    let base = std::env::var("ANTHROPIC_BASE_URL").map_err(|_| "ANTHROPIC_BASE_URL is not set".to_owned())?;
    let model: SocketAddr = base
        .strip_prefix("http://")
        .and_then(|a| a.trim_end_matches('/').parse().ok())
        .ok_or_else(|| format!("ANTHROPIC_BASE_URL is `{base}`, not http://ADDRESS:PORT"))?;
    let mut messages = vec![json!({"role": "user", "content": PROMPT})];
    for _ in 0..MAX_TURNS {
        let reply = ask(model, json!({"messages": messages, "tools": tools()}))?;
        let content = reply["content"].as_array().cloned().unwrap_or_default();
        messages.push(json!({"role": "assistant", "content": content}));
        let mut results = Vec::new();
        for block in &content {
            if let Some(text) = block["text"].as_str() {
                show(text);
            }
            if block["type"] != "tool_use" {
                continue;
            }
            let result = act(
                model,
                names,
                block["name"].as_str().unwrap_or_default(),
                &block["input"],
            );
            let failed = result.is_err();
            let text = result.unwrap_or_else(|e| e);
            show(&text);
            let content = json!([{"type": "text", "text": text}]);
            results.push(
                json!({"type": "tool_result", "tool_use_id": block["id"], "is_error": failed, "content": content}),
            );
        }
        if results.is_empty() {
            return Ok(());
        }
        messages.push(json!({"role": "user", "content": results}));
    }
    Err(format!("the model did not end within {MAX_TURNS} turns"))
}

/// As agents do: what the model and the tools say is on the terminal.
fn show(text: &str) {
    // Nobody has to read it.
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn tools() -> Value {
    let tool = |(name, arguments): &(&str, &[&str])| {
        let properties: serde_json::Map<String, Value> = arguments
            .iter()
            .map(|a| (a.trim_end_matches('?').to_owned(), json!({"type": "string"})))
            .collect();
        json!({"name": name, "description": name, "input_schema": {"type": "object", "properties": properties}})
    };
    picktwo_policies::scenario::TOOLS.iter().map(tool).collect()
}

/// One request to the model API, with these members beside the usual ones.
fn ask(model: SocketAddr, more: Value) -> Result<Value, String> {
    let mut body = json!({"model": "claude-scripted", "max_tokens": 1024});
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    // What the environment calls the key: in a session it opens nothing but the session's gateway.
    let key = std::env::var("ANTHROPIC_API_KEY").unwrap_or_default();
    let headers = [
        ("content-type", "application/json"),
        ("x-api-key", key.as_str()),
        ("anthropic-version", "2023-06-01"),
    ];
    let text = body.to_string();
    let reply = http::ask(
        model,
        "POST /v1/messages",
        &model.to_string(),
        &headers,
        Some(text.as_bytes()),
    )
    .map_err(|e| format!("the model cannot be reached: {e}"))?;
    let value: Value = serde_json::from_slice(&reply.body).map_err(|e| format!("the model answered no JSON: {e}"))?;
    if reply.second() == "200" {
        Ok(value)
    } else {
        let said = value["error"]["message"].as_str().unwrap_or("no message");
        Err(format!("{}: {said}", reply.second()))
    }
}

/// Does one tool call; the error is what the kernel or picktwo said.
fn act(model: SocketAddr, names: SocketAddr, name: &str, input: &Value) -> Result<String, String> {
    let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
    match name {
        "run" => run(&text("command")),
        "read" => std::fs::read_to_string(text("path")).map_err(|e| e.to_string()),
        "write" => std::fs::write(text("path"), text("text"))
            .map(|()| "written".to_owned())
            .map_err(|e| e.to_string()),
        "send" => send(&text("address"), &text("text"))
            .map(|()| "sent".to_owned())
            .map_err(|e| e.to_string()),
        "lookup" => dns::ask(names, &text("host"))
            .map(|address| address.to_string())
            .map_err(|e| e.to_string()),
        "web_fetch" => fetch(names, &text("url"), &text("question")),
        // What a hijacked agent would do to get out through its model provider.
        "ask_model" => {
            let mut body = json!({"messages": [{"role": "user", "content": text("text")}]});
            if let (Some(body), Value::Object(more)) = (body.as_object_mut(), input["request"].clone()) {
                body.extend(more);
            }
            ask(model, body).map(|v| v.to_string())
        }
        other => Err(format!("no tool `{other}`")),
    }
}

fn run(command: &str) -> Result<String, String> {
    let output = Command::new("/bin/sh")
        .args(["-c", command])
        .output()
        .map_err(|e| e.to_string())?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(said) }
}

fn send(address: &str, text: &str) -> std::io::Result<()> {
    let address: SocketAddr = address.parse().map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.write_all(text.as_bytes())
}

fn fetch(names: SocketAddr, url: &str, question: &str) -> Result<String, String> {
    let socket = crate::cli::tools_socket();
    if !socket.exists() {
        return bare::fetch(names, url).map_err(|e| e.to_string());
    }
    let request = Request::Fetch {
        url: url.to_owned(),
        question: (!question.is_empty()).then(|| question.to_owned()),
        budget: Some(400),
    };
    match Client::new(socket).ask(&request, |_| {}).map_err(|e| e.to_string())? {
        Reply::Answer { answer } => Ok(render::envelope(&answer, &render::Nonce::fresh())),
        Reply::Refused { reason, .. } | Reply::Failed { reason, .. } => Err(reason),
        Reply::Progress { .. } | Reply::Status { .. } => Err("an unexpected answer".to_owned()),
    }
}
