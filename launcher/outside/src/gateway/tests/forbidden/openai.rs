//! Forbidden in OpenAI's two APIs.

use super::super::super::route::Operation;
use super::super::bodies;
use super::{Variant, cross, fields, types};
use serde_json::json;

pub(super) fn responses(out: &mut Vec<Variant>) {
    let (top, items) = (bodies::codex(), bodies::codex_without_tools());
    let mut tools = types(&[
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
        "file_search",
        "code_interpreter",
        "image_generation",
        "computer",
        "computer_use_preview",
        "local_shell",
        "apply_patch",
        "shell",
        "programmatic_tool_calling",
        "tool_search",
        "mcp",
        "x_search",
        "builtin_function",
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
    cross(
        out,
        Operation::Responses,
        &top,
        &["/tools/-", "/tools/2/tools/-"],
        &tools,
    );
    cross(
        out,
        Operation::Responses,
        &items,
        &["/input/0/tools/-", "/input/0/tools/0/tools/-"],
        &tools,
    );
    let nested = json!({"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": [{"type": "web_search"}]}]});
    let too_deep = json!({"type": "namespace", "name": "a", "tools": [{"type": "namespace", "name": "b", "tools": [
        {"type": "namespace", "name": "c", "tools": []}]}]});
    cross(
        out,
        Operation::Responses,
        &top,
        &["/tools/-"],
        &[nested.clone(), too_deep],
    );
    cross(out, Operation::Responses, &items, &["/input/0/tools/-"], &[nested]);
    let mut entries = types(&[
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "computer_call_output",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "program",
        "program_output",
        "item_reference",
        "tool_search_call",
        "tool_search_output",
        "compaction",
        "compaction_trigger",
        "shell_call",
        "apply_patch_call",
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
    cross(
        out,
        Operation::Responses,
        &top,
        &["/input/1/content/-", "/input/6/output/-"],
        &parts,
    );
    fields(
        out,
        Operation::Responses,
        &top,
        "",
        &[
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
            (
                "include",
                json!(["reasoning.encrypted_content", "file_search_call.results"]),
            ),
            ("include", json!(["code_interpreter_call.outputs"])),
            ("tool_choice", json!({"type": "web_search"})),
            ("tool_choice", json!({"type": "mcp", "server_label": "x"})),
            (
                "tool_choice",
                json!({"type": "allowed_tools", "tools": [{"type": "web_search"}]}),
            ),
            ("model", json!("o3-deep-research")),
            ("model", json!("gpt-4o-search-preview")),
            ("model", json!("computer-use-preview")),
            ("model", json!("gpt-4o-audio-preview")),
            ("model", json!("gpt-image-1")),
            ("web_search_options", json!({})),
        ],
    );
}

pub(super) fn chat(out: &mut Vec<Variant>) {
    let base = bodies::chat();
    let mut tools = types(&[
        "web_search",
        "openrouter:web_search",
        "openrouter:web_fetch",
        "openrouter:shell",
        "openrouter:image_generation",
        "openrouter:subagent",
        "mcp",
        "code_interpreter",
        "retrieval",
        "file_search",
        "web_search_preview",
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
    fields(
        out,
        Operation::Chat,
        &base,
        "/messages/3",
        &[
            ("function_call", json!({"name": "x", "arguments": ""})),
            ("audio", json!({"id": "audio_1"})),
            ("annotations", json!([])),
            (
                "tool_calls",
                json!([{"id": "1", "type": "web_search", "function": {"name": "x", "arguments": ""}}]),
            ),
            ("role", json!("function")),
        ],
    );
    fields(
        out,
        Operation::Chat,
        &base,
        "",
        &[
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
            (
                "stream_options",
                json!({"include_usage": true, "url": "https://evil.example/"}),
            ),
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
            (
                "response_format",
                json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"$ref": "https://evil.example/"}}}),
            ),
        ],
    );
}
