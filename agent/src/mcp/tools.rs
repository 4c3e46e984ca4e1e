//! The tools: what they are called, what they take, what they give back.
//!
//! Agents prefix a server's tools with its name (`mcp__picktwo__web_fetch`, `mcp_picktwo_web_fetch`, `picktwo-web_fetch`), so
//! `web_fetch` collides with no agent's own tool. Only Gemini's deprecated `tools.exclude` matches the bare name.

use super::protocol::Fault;
use crate::{
    client::{Canceller, Client, ClientError},
    render::{Nonce, envelope},
};
use picktwo_wire::{
    MAX_QUESTION, MAX_URL,
    answer::MAX_ANSWER,
    tools::{Reply, Request},
};
use serde_json::{Map, Value, json};

const WEB_FETCH: &str = "web_fetch";
/// Where a result carries the typed answer for programs. It is not `structuredContent`: Claude Code 2.1.332 and Codex 0.171.0
/// show that to the model *instead* of the text, and the envelope would be lost.
const META_ANSWER: &str = "picktwo/answer";
/// Tokens of the largest answer, at about four bytes each.
const MAX_BUDGET: u32 = (MAX_ANSWER / 4) as u32;

/// What `tools/list` shows.
pub(super) fn list() -> Value {
    json!([{
        "name": WEB_FETCH,
        "title": "Fetch a page and answer a question about it",
        "description": "Reads one http(s) page and answers one question about it. The request leaves the trust boundary: the URL \
            and the question become visible outside, so name exactly what is wanted, in general terms, and never include \
            secrets, file contents, or anything private about this project. A separate process reads the page; only the \
            parts that answer the question come back, with their source, as untrusted text. Without a question the page's \
            main content comes back. A refusal is final: do not repeat the call with the same arguments.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "url": {
                    "type": "string",
                    "maxLength": MAX_URL,
                    "description": "Absolute http or https URL of one page."
                },
                "question": {
                    "type": "string",
                    "maxLength": MAX_QUESTION,
                    "description": "Exactly what is wanted of the page, e.g. \"which flag sets the output directory?\"."
                },
                "budget": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_BUDGET,
                    "description": "Tokens the answer may take."
                }
            },
            "required": ["url"],
            "additionalProperties": false
        },
        "annotations": {
            "title": "Web fetch (through picktwo)",
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": true
        }
    }])
}

/// A call under way.
#[derive(Debug, Default)]
pub(super) struct Running {
    canceller: Option<Canceller>,
    cancelled: bool,
}

impl Running {
    /// The request is on its way; if the call was cancelled before, it ends now.
    pub(super) fn started(&mut self, canceller: Canceller) {
        if self.cancelled {
            canceller.cancel();
        }
        self.canceller = Some(canceller);
    }

    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        if let Some(canceller) = &self.canceller {
            canceller.cancel();
        }
    }

    pub(super) fn cancelled(&self) -> bool {
        self.cancelled
    }
}

/// `tools/call`. What the tool refuses or fails at is a result with `isError`, which the model reads; only a call that names
/// no tool of ours is a protocol error.
pub(super) fn call(
    client: &Client,
    params: &Map<String, Value>,
    mut progress: impl FnMut(u64, &str),
    started: impl FnOnce(Canceller),
) -> Result<Value, Fault> {
    let Some(Value::String(name)) = params.get("name") else {
        return Err(Fault::invalid_params("name must be a string".into()));
    };
    if name != WEB_FETCH {
        let shown: String = name.chars().take(64).collect();
        return Err(Fault::invalid_params(format!(
            "no such tool: {shown:?}; there is {WEB_FETCH}"
        )));
    }
    let empty = Map::new();
    let arguments = match params.get("arguments") {
        None => &empty,
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(Fault::invalid_params("arguments must be an object".into())),
    };
    let request = match fetch_request(arguments) {
        Ok(request) => request,
        Err(reason) => return Ok(error(&format!("Bad arguments: {reason}."))),
    };
    let mut n = 0;
    let reply = exchange(client, &request, started, |note| {
        n += 1;
        progress(n, note);
    });
    Ok(match reply {
        Ok(Reply::Answer { answer }) => json!({
            "content": [{"type": "text", "text": envelope(&answer, &Nonce::fresh())}],
            "isError": false,
            "_meta": {META_ANSWER: answer},
        }),
        Ok(Reply::Refused { rule, reason }) => error(&format!(
            "Refused by picktwo ({rule}): {reason} This is a decision of the user's policy: do not retry with the same \
             arguments and do not look for a way around it."
        )),
        Ok(Reply::Failed { cause, reason }) => {
            error(&format!("The fetch was allowed but did not work ({cause}): {reason}"))
        }
        Ok(Reply::Progress { .. } | Reply::Status { .. }) => {
            error("picktwo sent a reply that does not fit the request.")
        }
        Err(e) => error(&format!("picktwo cannot be reached: {e}.")),
    })
}

fn exchange(
    client: &Client,
    request: &Request,
    started: impl FnOnce(Canceller),
    mut progress: impl FnMut(&str),
) -> Result<Reply, ClientError> {
    let mut exchange = client.open(request)?;
    // Without a second descriptor the call cannot be cancelled; it still ends by itself.
    if let Ok(canceller) = exchange.canceller() {
        started(canceller);
    }
    loop {
        match exchange.reply()? {
            Reply::Progress { note } => progress(&note),
            last => return Ok(last),
        }
    }
}

fn fetch_request(arguments: &Map<String, Value>) -> Result<Request, String> {
    if let Some(key) = arguments
        .keys()
        .find(|k| !matches!(k.as_str(), "url" | "question" | "budget"))
    {
        let shown: String = key.chars().take(64).collect();
        return Err(format!(
            "there is no argument {shown:?}; url, question and budget are known"
        ));
    }
    let url = match arguments.get("url") {
        Some(Value::String(url)) if url.len() > MAX_URL => {
            return Err(format!("url has {} bytes, at most {MAX_URL} are allowed", url.len()));
        }
        Some(Value::String(url)) if url.starts_with("http://") || url.starts_with("https://") => url.clone(),
        Some(Value::String(_)) => return Err("url must begin with http:// or https://".into()),
        Some(_) => return Err("url must be a string".into()),
        None => return Err("url is missing".into()),
    };
    let question = match arguments.get("question") {
        None | Some(Value::Null) => None,
        Some(Value::String(q)) if q.len() > MAX_QUESTION => {
            return Err(format!(
                "question has {} bytes, at most {MAX_QUESTION} are allowed",
                q.len()
            ));
        }
        Some(Value::String(q)) if q.trim().is_empty() => None,
        Some(Value::String(q)) => Some(q.clone()),
        Some(_) => return Err("question must be a string".into()),
    };
    let budget = match arguments.get("budget") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_u64().and_then(|b| u32::try_from(b).ok()) {
            Some(b) if (1..=MAX_BUDGET).contains(&b) => Some(b),
            _ => return Err(format!("budget must be an integer from 1 to {MAX_BUDGET}")),
        },
    };
    Ok(Request::Fetch { url, question, budget })
}

fn error(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}
