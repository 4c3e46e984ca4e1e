//! Looks into answers for what a provider's own tools leave there. No request that passed can have asked for it, so it proves
//! that the schema missed something: the answer is cut off and the launcher is told.

use super::json::Value;
use picktwo_wire::gateway::Protocol;

/// Starts of `type` values of hosted tools, their calls, results and citations.
const TYPES: &[&str] = &[
    "server_tool_use",
    "web_search",
    "web_fetch",
    "code_execution",
    "bash_code_execution",
    "text_editor_code_execution",
    "code_interpreter",
    "tool_search_tool",
    "container_upload",
    "advisor_",
    "mcp_",
    "file_search",
    "image_generation",
    "computer_call",
    "shell_call",
    "url_citation",
    "file_citation",
    "container_file_citation",
    "openrouter:",
    "file_path",
    "program",
    "builtin_function",
];

/// Members that hold the agent's own data, where any name may occur.
const OPAQUE: &[&str] = &[
    "input",
    "arguments",
    "args",
    "parameters",
    "input_schema",
    "schema",
    "parametersJsonSchema",
    "partial_json",
    "definition",
];

/// Members of Gemini's answers.
const GEMINI: &[&str] = &[
    "groundingMetadata",
    "grounding_metadata",
    "urlContextMetadata",
    "url_context_metadata",
    "executableCode",
    "executable_code",
    "codeExecutionResult",
    "code_execution_result",
    "toolCall",
    "toolResponse",
    "fileData",
    "file_data",
];

/// Members of answers of servers that are compatible with OpenAI.
const COMPATIBLE: &[&str] = &["citations", "search_results", "web_search", "executed_tools"];

/// The name of the first hosted result in an answer.
pub(crate) fn hosted_result(protocol: Protocol, value: &Value<'_>) -> Option<String> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| hosted_result(protocol, item)),
        Value::Object(members) => members.iter().find_map(|(key, member)| match (&**key, member) {
            ("type", Value::String(kind)) => {
                let plain = kind.strip_prefix("response.").unwrap_or(kind);
                TYPES
                    .iter()
                    .any(|start| plain.starts_with(start))
                    .then(|| kind.to_string())
            }
            ("server_tool_use", Value::Object(counts)) => {
                let used = |(_, count): &(_, Value<'_>)| matches!(count, Value::Number(n) if *n != "0");
                counts.iter().any(used).then(|| "server_tool_use".to_owned())
            }
            ("container", Value::Object(_)) if protocol == Protocol::Anthropic => Some("container".to_owned()),
            (key, member) if filled(member) && named(protocol, key) => Some(key.to_owned()),
            (key, _) if OPAQUE.contains(&key) => None,
            (_, member) => hosted_result(protocol, member),
        }),
        _ => None,
    }
}

fn named(protocol: Protocol, key: &str) -> bool {
    match protocol {
        Protocol::Anthropic => false,
        Protocol::Openai => COMPATIBLE.contains(&key),
        Protocol::Gemini => GEMINI.contains(&key),
    }
}

fn filled(value: &Value<'_>) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}
