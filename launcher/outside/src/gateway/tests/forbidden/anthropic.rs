//! Forbidden in Anthropic Messages.

use super::super::super::route::Operation;
use super::super::bodies;
use super::{Variant, cross, fields, types};
use serde_json::{Value, json};

pub(super) fn put(out: &mut Vec<Variant>) {
    let base = bodies::claude();
    let mut tools = types(&[
        "web_search_20250305",
        "web_search_20260209",
        "web_search_20260318",
        "web_fetch_20250910",
        "web_fetch_20260209",
        "web_fetch_20260309",
        "web_fetch_20260318",
        "code_execution_20250522",
        "code_execution_20250825",
        "code_execution_20260120",
        "code_execution_20260521",
        "advisor_20260301",
        "tool_search_tool_regex_20251119",
        "tool_search_tool_bm25_20251119",
        "bash_20250124",
        "text_editor_20250728",
        "computer_20250124",
        "memory_20250818",
        "computer_toolset_20260801",
        "browser_toolset_20260801",
        "Custom",
        "",
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
        tool(
            "input_schema",
            json!({"properties": {"a": {"anyOf": [{"$ref": "//evil.example/s"}]}}}),
        ),
        tool("input_schema", json!({"$dynamicRef": "http://evil.example/#a"})),
        tool("input_schema", json!({"$schema": "https://evil.example/schema"})),
    ]);
    cross(out, Operation::Messages, &base, &["/tools/-"], &tools);
    cross(
        out,
        Operation::CountTokens,
        &bodies::count_tokens(),
        &["/tools/-"],
        &tools[..6],
    );
    let mut blocks = types(&[
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "tool_addition",
        "tool_removal",
        "container_upload",
        "search_result",
        "compaction",
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
    cross(
        out,
        Operation::Messages,
        &base,
        &[
            "/messages/0/content/-",
            "/messages/1/content/-",
            "/messages/2/content/1/content/-",
        ],
        &blocks,
    );
    cross(
        out,
        Operation::Messages,
        &base,
        &["/system/-", "/messages/4/content/-"],
        &blocks[14..17],
    );
    let members = [
        (
            "mcp_servers",
            json!([{"type": "url", "url": "https://evil.example/mcp", "name": "x"}]),
        ),
        ("container", json!("container_1")),
        (
            "container",
            json!({"skills": [{"type": "anthropic", "skill_id": "pdf", "version": "latest"}]}),
        ),
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
        (
            "output_config",
            json!({"format": {"type": "json_schema", "schema": {"$ref": "https://evil.example/"}}}),
        ),
        ("max_tokens", json!(1e300)),
    ];
    fields(out, Operation::Messages, &base, "", &members);
    fields(out, Operation::CountTokens, &bodies::count_tokens(), "", &members[..3]);
}
