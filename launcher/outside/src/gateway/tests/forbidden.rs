//! Everything by which a provider would reach out (GATEWAY §6), in every place where it could be put, is refused.

use super::super::json::{REQUEST, parse};
use super::super::models::Models;
use super::super::refusal::Refusal;
use super::super::route::Operation;
use super::{bodies, pass};
use serde_json::{Value, json};

/// A forbidden body: what was put where.
pub(super) struct Variant {
    pub(super) operation: Operation,
    pub(super) name: String,
    /// Where it was put, in the notation of refusals; a refusal has to point into it.
    place: String,
    pub(super) body: Value,
    /// What was put there.
    pub(super) value: Value,
}

/// Appends to the array, or sets the member, at `pointer`.
fn put(base: &Value, pointer: &str, value: &Value) -> Value {
    let mut body = base.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}")) {
        Value::Array(items) if key == "-" => items.push(value.clone()),
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(members) => drop(members.insert(key.to_owned(), value.clone())),
        other => panic!("{parent} is {other}"),
    }
    body
}

/// `/tools/0/name` as `tools[0]`: what holds the changed member or item.
fn notation(base: &Value, pointer: &str) -> String {
    let (parent, _) = pointer.rsplit_once('/').unwrap();
    let (mut text, mut at) = (String::new(), base);
    for step in parent.split('/').skip(1) {
        if at.is_array() {
            text.push_str(&format!("[{step}]"));
        } else {
            text.push_str(if text.is_empty() { "" } else { "." });
            text.push_str(step);
        }
        at = at.pointer(&format!("/{step}")).unwrap();
    }
    text
}

fn cross(out: &mut Vec<Variant>, operation: Operation, base: &Value, places: &[&str], values: &[Value]) {
    for place in places {
        for value in values {
            out.push(Variant {
                operation,
                name: format!("{place} = {value}"),
                place: notation(base, place),
                body: put(base, place, value),
                value: value.clone(),
            });
        }
    }
}

fn fields(out: &mut Vec<Variant>, operation: Operation, base: &Value, place: &str, members: &[(&str, Value)]) {
    for (key, value) in members {
        cross(out, operation, base, &[&format!("{place}/{key}")], std::slice::from_ref(value));
    }
}

fn types(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"type": name, "name": "x"})).collect()
}

fn anthropic(out: &mut Vec<Variant>) {
    let base = bodies::claude();
    let mut tools = types(&[
        "web_search_20250305", "web_search_20260209", "web_search_20260318", "web_fetch_20250910", "web_fetch_20260209",
        "web_fetch_20260309", "web_fetch_20260318", "code_execution_20250522", "code_execution_20250825", "code_execution_20260120",
        "code_execution_20260521", "advisor_20260301", "tool_search_tool_regex_20251119", "tool_search_tool_bm25_20251119",
        "bash_20250124", "text_editor_20250728", "computer_20250124", "memory_20250818", "computer_toolset_20260801",
        "browser_toolset_20260801", "Custom", "",
    ]);
    tools.push(json!({"type": "mcp_toolset", "mcp_server_name": "x"}));
    let tool = |key: &str, value: Value| json!({"name": "x", "input_schema": {}, key: value});
    tools.extend([
        tool("allowed_callers", json!(["code_execution_20260120"])),
        tool("allowed_callers", json!(["direct", "code_execution_20250825"])),
        tool("allowed_callers", json!("direct")),
        tool("type", json!(null)),
        tool("type", json!(["custom"])),
        tool("max_uses", json!(8)),
        tool("url", json!("https://evil.example/")),
        tool("authorization_token", json!("x")),
        tool("input_schema", json!({"$ref": "https://evil.example/s"})),
        tool("input_schema", json!({"properties": {"a": {"anyOf": [{"$ref": "//evil.example/s"}]}}})),
        tool("input_schema", json!({"$dynamicRef": "http://evil.example/#a"})),
        tool("input_schema", json!({"$schema": "https://evil.example/schema"})),
    ]);
    cross(out, Operation::Messages, &base, &["/tools/-"], &tools);
    cross(out, Operation::CountTokens, &bodies::count_tokens(), &["/tools/-"], &tools[..6]);
    let mut blocks = types(&[
        "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
        "bash_code_execution_tool_result", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "tool_addition", "tool_removal",
        "container_upload", "search_result", "compaction",
    ]);
    blocks.extend([
        json!({"type": "tool_addition", "tool": {"definition": {"type": "web_search_20250305", "name": "web_search"}}}),
        json!({"type": "image", "source": {"type": "url", "url": "https://evil.example/a.png"}}),
        json!({"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "https://evil.example/"}}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA", "url": "https://evil.example/"}}),
        json!({"type": "document", "source": {"type": "url", "url": "https://evil.example/a.pdf"}}),
        json!({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
        json!({"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": {"type": "url", "url": "https://evil.example/"}}]}}),
        json!({"type": "text", "text": "x", "file_id": "file_1"}),
    ]);
    cross(out, Operation::Messages, &base, &["/messages/0/content/-", "/messages/1/content/-", "/messages/2/content/1/content/-"], &blocks);
    cross(out, Operation::Messages, &base, &["/system/-", "/messages/4/content/-"], &blocks[14..17]);
    let members = [
        ("mcp_servers", json!([{"type": "url", "url": "https://evil.example/mcp", "name": "x"}])),
        ("container", json!("container_1")),
        ("container", json!({"skills": [{"type": "anthropic", "skill_id": "pdf", "version": "latest"}]})),
        ("skills", json!([])),
        ("fallbacks", json!([{"model": "x"}])),
        ("thread", json!({"type": "create"})),
        ("diagnostics", json!({})),
        ("service_tier", json!("auto")),
        ("betas", json!(["mcp-client-2025-11-20"])),
        ("context_management", json!({"edits": [{"type": "compact_20260112"}]})),
        ("context_management", json!({"edits": [], "x": 1})),
        ("model", json!("claude-opus-5-5:online")),
        ("Tools", json!([{"type": "web_search_20250305", "name": "x"}])),
        ("tool_choice", json!({"type": "tool", "name": "x", "server_name": "y"})),
        ("thinking", json!({"type": "enabled", "budget_tokens": 1, "tools": []})),
        ("output_config", json!({"format": {"type": "json_schema", "schema": {"$ref": "https://evil.example/"}}})),
        ("max_tokens", json!(1e300)),
    ];
    fields(out, Operation::Messages, &base, "", &members);
    fields(out, Operation::CountTokens, &bodies::count_tokens(), "", &members[..3]);
}

fn responses(out: &mut Vec<Variant>) {
    let (top, items) = (bodies::codex(), bodies::codex_without_tools());
    let mut tools = types(&[
        "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "file_search", "code_interpreter",
        "image_generation", "computer", "computer_use_preview", "local_shell", "apply_patch", "shell", "programmatic_tool_calling",
        "tool_search", "mcp", "x_search", "builtin_function",
    ]);
    tools.extend([
        json!({"type": "web_search", "external_web_access": false}),
        json!({"type": "mcp", "server_label": "x", "server_url": "https://evil.example/mcp"}),
        json!({"type": "mcp", "server_label": "x", "connector_id": "connector_gmail"}),
        json!({"type": "shell", "environment": {"type": "container_auto", "network_policy": {"type": "allowlist"}}}),
        json!({"type": "function", "name": "x", "parameters": {"$ref": "https://evil.example/"}}),
        json!({"type": "function", "name": "x", "server_url": "https://evil.example/"}),
        json!({"name": "x"}),
    ]);
    cross(out, Operation::Responses, &top, &["/tools/-", "/tools/2/tools/-"], &tools);
    cross(out, Operation::Responses, &items, &["/input/0/tools/-", "/input/0/tools/0/tools/-"], &tools);
    let nested = json!({"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": [{"type": "web_search"}]}]});
    let too_deep = json!({"type": "namespace", "name": "a", "tools": [{"type": "namespace", "name": "b", "tools": [
        {"type": "namespace", "name": "c", "tools": []}]}]});
    cross(out, Operation::Responses, &top, &["/tools/-"], &[nested.clone(), too_deep]);
    cross(out, Operation::Responses, &items, &["/input/0/tools/-"], &[nested]);
    let mut entries = types(&[
        "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call", "computer_call_output",
        "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "program", "program_output", "item_reference",
        "tool_search_call", "tool_search_output", "compaction", "compaction_trigger", "shell_call", "apply_patch_call",
    ]);
    entries.extend([
        json!({"id": "msg_1"}),
        json!({"type": null, "id": "msg_1"}),
        json!({"type": "tool_search_output", "tools": [{"type": "web_search"}]}),
        json!({"type": "computer_call_output", "output": {"image_url": "https://evil.example/"}}),
    ]);
    cross(out, Operation::Responses, &top, &["/input/-"], &entries);
    let parts = [
        json!({"type": "input_image", "image_url": "https://evil.example/a.png"}),
        json!({"type": "input_image", "image_url": "HTTPS://evil.example/a.png"}),
        json!({"type": "input_image", "image_url": "data:text/html;base64,AAAA"}),
        json!({"type": "input_image", "image_url": "data:image/png,https://evil.example/"}),
        json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA https://evil.example"}),
        json!({"type": "input_image", "image_url": {"url": "https://evil.example/"}}),
        json!({"type": "input_image", "file_id": "file_1"}),
        json!({"type": "input_file", "file_url": "https://evil.example/a.pdf"}),
        json!({"type": "input_file", "file_id": "file_1"}),
        json!({"type": "input_file", "file_data": "https://evil.example/"}),
        json!({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}),
        json!({"type": "output_text", "text": "x", "annotations": [{"type": "url_citation", "url": "https://evil.example/"}]}),
    ];
    cross(out, Operation::Responses, &top, &["/input/1/content/-", "/input/6/output/-"], &parts);
    fields(out, Operation::Responses, &top, "", &[
        ("store", json!(true)),
        ("store", json!(null)),
        ("background", json!(true)),
        ("background_options", json!({})),
        ("conversation", json!("conv_1")),
        ("previous_response_id", json!("resp_1")),
        ("prompt", json!({"id": "pmpt_1"})),
        ("max_tool_calls", json!(1)),
        ("access_programs", json!([])),
        ("moderation", json!({})),
        ("metadata", json!({"a": "b"})),
        ("service_tier", json!("flex")),
        ("context_management", json!([{"type": "compaction"}])),
        ("include", json!(["web_search_call.action.sources"])),
        ("include", json!(["reasoning.encrypted_content", "file_search_call.results"])),
        ("include", json!(["code_interpreter_call.outputs"])),
        ("tool_choice", json!({"type": "web_search"})),
        ("tool_choice", json!({"type": "mcp", "server_label": "x"})),
        ("tool_choice", json!({"type": "allowed_tools", "tools": [{"type": "web_search"}]})),
        ("model", json!("o3-deep-research")),
        ("model", json!("gpt-4o-search-preview")),
        ("model", json!("computer-use-preview")),
        ("model", json!("gpt-4o-audio-preview")),
        ("model", json!("gpt-image-1")),
        ("web_search_options", json!({})),
    ]);
}

fn chat(out: &mut Vec<Variant>) {
    let base = bodies::chat();
    let mut tools = types(&[
        "web_search", "openrouter:web_search", "openrouter:web_fetch", "openrouter:shell", "openrouter:image_generation",
        "openrouter:subagent", "mcp", "code_interpreter", "retrieval", "file_search", "web_search_preview",
    ]);
    tools.extend([
        json!({"type": "builtin_function", "function": {"name": "$web_search"}}),
        json!({"type": "function", "function": {"name": "$web_search"}}),
        json!({"type": "function", "function": {"name": "x"}, "web_search": {"enable": true}}),
        json!({"type": "function", "function": {"name": "x", "parameters": {"$ref": "https://evil.example/"}}}),
        json!({"function": {"name": "x"}}),
        json!({"google_search": {}}),
    ]);
    cross(out, Operation::Chat, &base, &["/tools/-"], &tools);
    let parts = [
        json!({"type": "image_url", "image_url": {"url": "https://evil.example/a.png"}}),
        json!({"type": "image_url", "image_url": {"url": "ftp://evil.example/a.png"}}),
        json!({"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,AAAA"}}),
        json!({"type": "image_url", "image_url": "https://evil.example/a.png"}),
        json!({"type": "file", "file": {"file_id": "file_1"}}),
        json!({"type": "file", "file": {"filename": "a", "file_data": "https://evil.example/a.pdf"}}),
        json!({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}),
        json!({"type": "video_url", "video_url": {"url": "https://evil.example/"}}),
        json!({"type": "text", "text": "x", "image_url": "https://evil.example/"}),
    ];
    cross(out, Operation::Chat, &base, &["/messages/2/content/-"], &parts);
    fields(out, Operation::Chat, &base, "/messages/3", &[
        ("function_call", json!({"name": "x", "arguments": ""})),
        ("audio", json!({"id": "audio_1"})),
        ("annotations", json!([])),
        ("tool_calls", json!([{"id": "1", "type": "web_search", "function": {"name": "x", "arguments": ""}}])),
        ("role", json!("function")),
    ]);
    fields(out, Operation::Chat, &base, "", &[
        ("web_search_options", json!({})),
        ("plugins", json!([{"id": "web"}])),
        ("transforms", json!(["middle-out"])),
        ("models", json!(["a"])),
        ("route", json!("fallback")),
        ("provider", json!({"order": []})),
        ("preset", json!("x")),
        ("extra_body", json!({"enable_search": true})),
        ("search_parameters", json!({"mode": "on"})),
        ("enable_search", json!(true)),
        ("web_search", json!(true)),
        ("functions", json!([])),
        ("function_call", json!("auto")),
        ("audio", json!({"voice": "x"})),
        ("modalities", json!(["text", "audio"])),
        ("prediction", json!({"type": "content", "content": ""})),
        ("store", json!(true)),
        ("metadata", json!({})),
        ("service_tier", json!("auto")),
        ("n", json!(2)),
        ("stream_options", json!({"include_usage": true, "url": "https://evil.example/"})),
        ("model", json!("openai/gpt-4o:online")),
        ("model", json!("gpt-4o:online")),
        ("model", json!("@preset/x")),
        ("model", json!("gpt-4o-mini-search-preview")),
        ("model", json!("sonar-pro")),
        ("model", json!("groq/compound")),
        ("model", json!("GPT-4o")),
        ("model", json!("")),
        ("model", json!(null)),
        ("model", json!(["gpt-4o"])),
        ("response_format", json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"$ref": "https://evil.example/"}}})),
    ]);
}

fn gemini(out: &mut Vec<Variant>) {
    let base = bodies::gemini();
    let kinds = [
        "googleSearch", "google_search", "googleSearchRetrieval", "google_search_retrieval", "enterpriseWebSearch",
        "enterprise_web_search", "exaAiSearch", "exa_ai_search", "parallelAiSearch", "urlContext", "url_context", "googleMaps", "google_maps",
        "retrieval", "fileSearch", "file_search", "mcpServers", "mcp_servers", "codeExecution", "code_execution", "computerUse",
        "computer_use",
    ];
    let alone: Vec<Value> = kinds.iter().map(|kind| json!({*kind: {}})).collect();
    cross(out, Operation::StreamGenerate, &base, &["/tools/-"], &alone);
    for kind in kinds {
        // Beside declarations that would pass.
        cross(out, Operation::Generate, &base, &[&format!("/tools/0/{kind}")], &[json!({})]);
    }
    let declaration = |parameters: Value| json!({"functionDeclarations": [{"name": "x", "parameters": parameters}]});
    cross(out, Operation::Generate, &base, &["/tools/-"], &[
        json!({}),
        json!({"function_declarations": [{"name": "x"}], "google_search": {}}),
        declaration(json!({"ref": "https://evil.example/"})),
        declaration(json!({"properties": {"a": {"$ref": "https://evil.example/"}}})),
    ]);
    let parts = [
        json!({"fileData": {"fileUri": "https://youtu.be/x", "mimeType": "video/mp4"}}),
        json!({"file_data": {"file_uri": "gs://b/o", "mime_type": "text/plain"}}),
        json!({"text": "x", "fileData": {"fileUri": "https://evil.example/"}}),
        json!({"executableCode": {"language": "PYTHON", "code": "x"}}),
        json!({"executable_code": {"language": "PYTHON", "code": "x"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}),
        json!({"toolCall": {"toolType": "GOOGLE_SEARCH"}}),
        json!({"toolResponse": {}}),
        json!({"functionResponse": {"name": "x", "response": {}, "parts": [{"fileData": {"fileUri": "https://evil.example/"}}]}}),
        json!({"functionResponse": {"name": "x", "response": {}, "fileData": {}}}),
        json!({"inlineData": {"mimeType": "text/html", "data": "AAAA"}}),
        json!({"inlineData": {"mimeType": "image/png", "data": "https://evil.example/"}}),
        json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "inline_data": {"mime_type": "image/png", "data": "AAAA"}}),
    ];
    cross(out, Operation::Generate, &base, &["/contents/0/parts/-", "/systemInstruction/parts/-"], &parts);
    cross(out, Operation::GeminiCountTokens, &json!({"contents": [{"parts": []}]}), &["/contents/0/parts/-"], &parts[..3]);
    let members = [
        ("cachedContent", json!("cachedContents/x")),
        ("cached_content", json!("cachedContents/x")),
        ("store", json!(true)),
        ("labels", json!({"a": "b"})),
        ("modelArmorConfig", json!({})),
        ("routingConfig", json!({})),
        ("includeServerSideToolInvocations", json!(true)),
        ("model", json!("models/gemini-2.5-pro")),
        ("toolConfig", json!({"retrievalConfig": {"latLng": {}}})),
        ("toolConfig", json!({"functionCallingConfig": {"mode": "AUTO"}, "includeServerSideToolInvocations": true})),
        ("tool_config", json!({"retrieval_config": {}})),
        ("system_instruction", json!({"parts": []})),
        ("generationConfig", json!({"candidateCount": 2})),
        ("generationConfig", json!({"responseModalities": ["IMAGE"]})),
        ("generationConfig", json!({"routingConfig": {}})),
        ("generationConfig", json!({"responseSchema": {"ref": "https://evil.example/"}})),
        ("generation_config", json!({})),
    ];
    fields(out, Operation::Generate, &base, "", &members);
}

/// All forbidden bodies.
pub(super) fn variants() -> Vec<Variant> {
    let mut out = Vec::new();
    anthropic(&mut out);
    responses(&mut out);
    chat(&mut out);
    gemini(&mut out);
    out
}

#[test]
fn nothing_by_which_a_provider_reaches_out_passes() {
    let variants = variants();
    let mut passed = Vec::new();
    for Variant { operation, name, place, body, .. } in &variants {
        match pass(*operation, &body.to_string()) {
            Ok(_) => passed.push(format!("{operation:?} {name}")),
            Err(refusal) => {
                assert_eq!(refusal.status, 400, "{name}");
                assert!(!refusal.reason.is_empty() && refusal.rule != "malformed", "{name}: {refusal:?}");
                assert!(refusal.place.starts_with(place.as_str()), "{name}: refused for {refusal:?}");
            }
        }
    }
    assert!(passed.is_empty(), "{} pass:\n{}", passed.len(), passed.join("\n"));
    assert!(variants.len() >= 170, "{}", variants.len());
}

#[test]
fn the_bodies_that_variants_start_from_pass() {
    // Otherwise the test above would prove nothing.
    for (operation, body) in bodies::all() {
        assert!(pass(operation, &body.to_string()).is_ok(), "{operation:?}");
    }
}

#[test]
fn keys_in_two_spellings_are_duplicates() {
    let mut body = bodies::gemini();
    body["generation_config"] = json!({});
    assert_eq!(pass(Operation::Generate, &body.to_string()).unwrap_err().rule, "duplicate-key");
}

#[test]
fn a_list_of_models_is_exact() {
    let allowed = ["vendor/model:8b".to_owned(), "gpt-5".to_owned(), "gpt-4o-search-preview".to_owned()];
    let models = Models { allowed: &allowed, section: "model.openai" };
    let check = |name: &str| models.check(name).map_err(|refusal: Refusal| refusal.line.is_some());
    assert_eq!(check("vendor/model:8b"), Ok(()));
    assert_eq!(check("gpt-5"), Ok(()));
    assert_eq!(check("gpt-5-mini"), Err(true));
    assert_eq!(check("other/model"), Err(true));
    // No list opens a model that searches.
    assert_eq!(check("gpt-4o-search-preview"), Err(false));
    assert!(parse(b"{}", REQUEST).is_ok());
}
