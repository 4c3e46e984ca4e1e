//! What an agent sent, in terms that do not depend on the protocol.

use serde_json::Value;

/// Model APIs that agents speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Google Gemini.
    Gemini,
}

impl Protocol {
    /// The protocol whose main endpoint `path` is.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        if path.ends_with("/messages") {
            Some(Self::Anthropic)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with(":streamGenerateContent") || path.ends_with(":generateContent") {
            Some(Self::Gemini)
        } else {
            None
        }
    }
}

/// A tool that the agent offers to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The namespace it is declared in (Responses).
    pub namespace: Option<String>,
    /// Whether it takes free text instead of JSON (Responses).
    pub custom: bool,
}

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// Id of the call.
    pub call: String,
    /// All of its text.
    pub text: String,
    /// Whether the agent marks it as an error; none where the protocol has no mark.
    pub error: Option<bool>,
}

/// One request of an agent.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The API it came in on.
    pub protocol: Protocol,
    /// The model's name.
    pub model: String,
    /// Whether a stream is wanted.
    pub stream: bool,
    /// Tools on offer, wherever they are declared.
    pub tools: Vec<Tool>,
    /// Results of calls, oldest first.
    pub results: Vec<ToolResult>,
    /// The whole body.
    pub body: Value,
}

impl Seen {
    /// The newest result's text; empty if there is none.
    #[must_use]
    pub fn last(&self) -> &str {
        self.results.last().map_or("", |r| &r.text)
    }

    /// Whether the newest result is marked as an error.
    #[must_use]
    pub fn last_is_error(&self) -> bool {
        self.results.last().is_some_and(|r| r.error == Some(true))
    }

    pub(super) fn read(protocol: Protocol, path: &str, body: Value) -> Self {
        let (tools, results) = match protocol {
            Protocol::Anthropic => (anthropic_tools(&body), anthropic_results(&body)),
            Protocol::Responses => (responses_tools(&body), responses_results(&body)),
            Protocol::Chat => (chat_tools(&body), chat_results(&body)),
            Protocol::Gemini => (gemini_tools(&body), gemini_results(&body)),
        };
        let stream = match protocol {
            Protocol::Gemini => path.ends_with(":streamGenerateContent"),
            _ => body["stream"] == true,
        };
        let in_path = || {
            path.rsplit('/')
                .next()
                .and_then(|last| last.split(':').next())
                .unwrap_or_default()
        };
        let model = body["model"].as_str().unwrap_or_else(in_path).to_owned();
        Self {
            protocol,
            model,
            stream,
            tools,
            results,
            body,
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A string, or the `text` members of an array.
fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|p| p["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn plain_tool(name: &Value) -> Tool {
    Tool {
        name: string(name),
        namespace: None,
        custom: false,
    }
}

fn anthropic_tools(body: &Value) -> Vec<Tool> {
    items(&body["tools"]).map(|t| plain_tool(&t["name"])).collect()
}

fn anthropic_results(body: &Value) -> Vec<ToolResult> {
    items(&body["messages"])
        .flat_map(|m| items(&m["content"]))
        .filter(|b| b["type"] == "tool_result")
        .map(|b| ToolResult {
            call: string(&b["tool_use_id"]),
            text: text(&b["content"]),
            error: Some(b["is_error"] == true),
        })
        .collect()
}

fn responses_tools(body: &Value) -> Vec<Tool> {
    let mut tools = Vec::new();
    collect_tools(&body["tools"], None, &mut tools);
    for item in items(&body["input"]).filter(|i| i["type"] == "additional_tools") {
        collect_tools(&item["tools"], None, &mut tools);
    }
    tools
}

fn collect_tools(list: &Value, namespace: Option<&str>, into: &mut Vec<Tool>) {
    for tool in items(list) {
        let name = string(&tool["name"]);
        match tool["type"].as_str() {
            Some("namespace") => collect_tools(&tool["tools"], Some(&name), into),
            Some(kind @ ("function" | "custom")) => into.push(Tool {
                name,
                namespace: namespace.map(str::to_owned),
                custom: kind == "custom",
            }),
            _ => {}
        }
    }
}

fn responses_results(body: &Value) -> Vec<ToolResult> {
    items(&body["input"])
        .filter(|i| i["type"] == "function_call_output" || i["type"] == "custom_tool_call_output")
        .map(|i| ToolResult {
            call: string(&i["call_id"]),
            text: text(&i["output"]),
            error: None,
        })
        .collect()
}

fn chat_tools(body: &Value) -> Vec<Tool> {
    items(&body["tools"])
        .map(|t| plain_tool(&t["function"]["name"]))
        .collect()
}

fn chat_results(body: &Value) -> Vec<ToolResult> {
    items(&body["messages"])
        .filter(|m| m["role"] == "tool")
        .map(|m| ToolResult {
            call: string(&m["tool_call_id"]),
            text: text(&m["content"]),
            error: None,
        })
        .collect()
}

fn gemini_tools(body: &Value) -> Vec<Tool> {
    items(&body["tools"])
        .flat_map(|t| items(&t["functionDeclarations"]))
        .map(|d| plain_tool(&d["name"]))
        .collect()
}

fn gemini_results(body: &Value) -> Vec<ToolResult> {
    items(&body["contents"])
        .flat_map(|c| items(&c["parts"]))
        .filter_map(|p| p.get("functionResponse"))
        .map(|r| {
            let response = &r["response"];
            let error = response.get("error");
            ToolResult {
                call: string(&r["id"]),
                text: error
                    .or_else(|| response.get("output"))
                    .map_or_else(|| response.to_string(), text),
                error: Some(error.is_some()),
            }
        })
        .collect()
}
