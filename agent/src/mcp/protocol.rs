//! Messages: reading what comes in, the fixed answers, and errors.

use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt;

/// Revisions that begin with `initialize`, oldest first.
const HANDSHAKE: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The revision whose requests carry their version themselves.
const SELF_CONTAINED: &str = "2026-07-28";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

const INSTRUCTIONS: &str = "This session has no network. The tools of this server are the only way to read the web: each call \
    is checked, leaves the trust boundary, and is answered by a separate process that reads the page and returns only what \
    answers the question. Never put secrets, file contents or names of private things into an argument.";

/// How a request says which revision it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// Agreed once by `initialize`.
    Handshake,
    /// Named in each request.
    SelfContained,
}

/// A request's id; JSON-RPC's null is not allowed by MCP.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub(super) enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    Text(String),
}

impl Id {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Number(n) => n.as_i64().map(Self::Number),
            Value::String(s) if s.len() <= 256 => Some(Self::Text(s.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(s) => write!(f, "{s:?}"),
        }
    }
}

/// A request that wants a reply.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
    pub(super) era: Era,
    /// Where progress is to be reported.
    pub(super) progress: Option<Value>,
}

/// One message from the agent.
#[derive(Debug)]
pub(super) enum Incoming {
    Call(Call),
    Batch(Vec<Result<Incoming, (Option<Id>, Fault)>>),
    /// The call with this id is not wanted any more.
    Cancelled(Id),
    /// A notification that changes nothing here, or a reply to something we never ask.
    Nothing,
}

/// A JSON-RPC error.
#[derive(Debug)]
pub(super) struct Fault {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl Fault {
    fn new(code: i32, message: String) -> Self {
        Self {
            code,
            message,
            data: None,
        }
    }

    pub(super) fn invalid_request(message: String) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(-32601, format!("no such method: {shown:?}"))
    }

    pub(super) fn invalid_params(message: String) -> Self {
        Self::new(-32602, message)
    }

    /// In the range that JSON-RPC leaves to servers.
    pub(super) fn busy(message: String) -> Self {
        Self::new(-32000, message)
    }

    fn version(requested: &str) -> Self {
        let requested: String = requested.chars().take(64).collect();
        Self {
            code: -32022,
            message: "Unsupported protocol version".into(),
            data: Some(json!({"requested": requested, "supported": versions()})),
        }
    }

    /// The reply that carries it; without an id if none could be read.
    pub(super) fn reply(&self, id: Option<&Id>) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

fn versions() -> Vec<&'static str> {
    HANDSHAKE.iter().copied().chain([SELF_CONTAINED]).collect()
}

/// Reads one line.
pub(super) fn parse(line: &[u8]) -> Result<Incoming, (Option<Id>, Fault)> {
    let value: Value =
        serde_json::from_slice(line).map_err(|e| (None, Fault::new(-32700, format!("not JSON: {e}"))))?;
    match value {
        Value::Array(items) if items.is_empty() => Err((None, Fault::invalid_request("an empty batch".into()))),
        Value::Array(items) => Ok(Incoming::Batch(
            items
                .into_iter()
                .map(|item| match item {
                    Value::Object(object) => message(object),
                    _ => Err((None, Fault::invalid_request("not an object".into()))),
                })
                .collect(),
        )),
        Value::Object(object) => message(object),
        _ => Err((None, Fault::invalid_request("not an object".into()))),
    }
}

fn message(mut object: Map<String, Value>) -> Result<Incoming, (Option<Id>, Fault)> {
    let id = match object.get("id") {
        None => None,
        Some(value) => match Id::of(value) {
            Some(id) => Some(id),
            // Only a reply to something unreadable has no usable id, and we send no requests.
            None if !object.contains_key("method") => return Ok(Incoming::Nothing),
            None => {
                return Err((
                    None,
                    Fault::invalid_request("an id is an integer or a string of at most 256 bytes".into()),
                ));
            }
        },
    };
    let bad = |text: &str| (id.clone(), Fault::invalid_request(text.into()));
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(bad("jsonrpc must be \"2.0\""));
    }
    let method = match object.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(bad("method must be a string")),
        None if object.contains_key("result") || object.contains_key("error") => {
            return Ok(Incoming::Nothing);
        }
        None => return Err(bad("method is missing")),
    };
    let params = match object.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err((id, Fault::invalid_params("params must be an object".into()))),
    };
    let Some(id) = id else {
        return Ok(match params.get("requestId").and_then(Id::of) {
            Some(id) if method == "notifications/cancelled" => Incoming::Cancelled(id),
            _ => Incoming::Nothing,
        });
    };
    let meta = params.get("_meta");
    let progress = meta
        .and_then(|m| m.get("progressToken"))
        .filter(|t| Id::of(t).is_some())
        .cloned();
    let era = match era(&method, meta) {
        Ok(era) => era,
        Err(fault) => return Err((Some(id), fault)),
    };
    Ok(Incoming::Call(Call {
        id,
        method,
        params,
        era,
        progress,
    }))
}

fn era(method: &str, meta: Option<&Value>) -> Result<Era, Fault> {
    if method == "initialize" {
        return Ok(Era::Handshake);
    }
    let version = meta.and_then(|m| m.get(META_VERSION));
    match version {
        None if method == "server/discover" => Err(Fault::invalid_params(format!("_meta lacks {META_VERSION}"))),
        None => Ok(Era::Handshake),
        Some(Value::String(v)) if HANDSHAKE.contains(&v.as_str()) && method != "server/discover" => Ok(Era::Handshake),
        Some(Value::String(v))
            if v == SELF_CONTAINED || method == "server/discover" && HANDSHAKE.contains(&v.as_str()) =>
        {
            if meta
                .and_then(|m| m.get(META_CAPABILITIES))
                .is_some_and(Value::is_object)
            {
                Ok(Era::SelfContained)
            } else {
                Err(Fault::invalid_params(format!("_meta lacks {META_CAPABILITIES}")))
            }
        }
        Some(Value::String(v)) => Err(Fault::version(v)),
        Some(_) => Err(Fault::invalid_params(format!("{META_VERSION} must be a string"))),
    }
}

/// The handshake: the agent's revision if it has one, else the newest that has a handshake.
pub(super) fn initialize(params: &Map<String, Value>) -> Result<Value, Fault> {
    let Some(Value::String(wanted)) = params.get("protocolVersion") else {
        return Err(Fault::invalid_params("protocolVersion must be a string".into()));
    };
    let version = HANDSHAKE
        .iter()
        .find(|v| *v == wanted)
        .unwrap_or(&HANDSHAKE[HANDSHAKE.len() - 1]);
    Ok(json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    }))
}

/// What a client of the newest revision asks instead of the handshake.
pub(super) fn discover() -> Value {
    json!({
        "supportedVersions": versions(),
        "capabilities": {"tools": {}},
        "instructions": INSTRUCTIONS,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {META_SERVER: server_info()},
    })
}

fn server_info() -> Value {
    json!({"name": "picktwo", "title": "picktwo", "version": env!("CARGO_PKG_VERSION")})
}

/// A progress notification; `n` grows with every one of a call.
pub(super) fn progress(token: &Value, n: u64, note: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": token, "progress": n, "message": note},
    })
}
