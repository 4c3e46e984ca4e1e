//! Bodies as eight agents were recorded to send them (GATEWAY §5): the union of the seen keys, shortened texts.

use super::super::route::Operation;
use serde_json::{Value, json};

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// All of them, with the operation they belong to.
pub(super) fn all() -> Vec<(Operation, Value)> {
    vec![
        (Operation::Messages, claude()),
        (Operation::Messages, anthropic_of_others()),
        (Operation::CountTokens, count_tokens()),
        (Operation::Responses, codex()),
        (Operation::Responses, codex_without_tools()),
        (Operation::Responses, responses_of_others()),
        (Operation::Chat, chat()),
        (Operation::Chat, chat_of_copilot()),
        (Operation::Generate, gemini_router()),
        (Operation::StreamGenerate, gemini()),
        (Operation::StreamGenerate, gemini_of_aider()),
        (
            Operation::GeminiCountTokens,
            json!({"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "application/pdf", "data": PIXEL}}]}]}),
        ),
    ]
}

pub(super) fn claude() -> Value {
    json!({
        "model": "claude-opus-5-5",
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\u{1F980} \"quoted\" \\ \n</system-reminder>"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PIXEL}},
                {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig=="},
                {"type": "text", "text": "reading"},
                {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/w/a", "n": 12345678901234567890u64},
                 "cache_control": {"type": "ephemeral"}},
                {"type": "tool_use", "id": "toolu_2", "name": "mcp__picktwo__web_fetch", "input": {"url": "https://example.org/"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "text", "is_error": true},
                {"type": "tool_result", "tool_use_id": "toolu_2", "cache_control": {"type": "ephemeral"}, "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PIXEL}},
                    {"type": "tool_reference", "tool_name": "mcp__picktwo__web_fetch"}]}]},
            {"role": "system", "content": "effort changes", "output_config": {"effort": "medium"}},
            {"role": "system", "content": [{"type": "text", "text": "again"}]},
            {"role": "user", "content": "go on"}],
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332; cc_entrypoint=sdk-cli;"},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {"name": "Bash", "description": "runs", "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object", "properties": {"command": {"type": "string"}, "$ref": {"type": "string"}, "sub": {"$ref": "#/$defs/a"}},
                "$defs": {"a": {"type": "object"}}, "required": ["command"], "additionalProperties": false}},
            {"name": "mcp__picktwo__web_fetch", "description": "", "input_schema": {"type": "object"}, "defer_loading": true},
            {"name": "Write", "description": "w", "input_schema": {"type": "object"}, "eager_input_streaming": true,
             "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": "{\"device_id\":\"f00\",\"account_uuid\":\"\",\"session_id\":\"x\"}"},
        "max_tokens": 32000,
        "thinking": {"type": "enabled", "budget_tokens": 31999, "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        "stream": true
    })
}

pub(super) fn anthropic_of_others() -> Value {
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 4096, "stream": true, "temperature": 1, "system": "s",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
                     {"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}]}],
        "tools": [{"type": "custom", "name": "t", "input_schema": {}, "strict": true, "input_examples": [{"a": 1}], "allowed_callers": ["direct"]}],
        "tool_choice": {"type": "auto"}, "thinking": {"type": "adaptive", "display": "summarized"},
        "top_p": 0.9, "top_k": 40, "stop_sequences": ["STOP"],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    })
}

pub(super) fn count_tokens() -> Value {
    json!({"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hi"}], "system": "s",
           "tools": [{"name": "t", "input_schema": {}}], "thinking": {"type": "disabled"}})
}

pub(super) fn codex() -> Value {
    json!({
        "model": "gpt-5-codex", "instructions": "i", "store": false, "stream": true, "tool_choice": "auto",
        "parallel_tool_calls": false, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0193",
        "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"},
        "client_metadata": {"session_id": "s", "x-codex-turn-metadata": "{\"workspaces\":{\"/home/u/w\":{}}}"},
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "u"},
                {"type": "input_image", "image_url": format!("data:image/png;base64,{PIXEL}"), "detail": "high"}],
             "internal_chat_message_metadata_passthrough": {"turn_id": "1", "content_item_kinds": []}},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "gAAA", "content": null},
            {"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "call_id": "call_1"},
            {"type": "function_call_output", "call_id": "call_1", "output": "a"},
            {"type": "function_call", "name": "web_fetch", "namespace": "mcp__picktwo", "arguments": "{}", "call_id": "call_2",
             "status": "completed", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "b"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done", "annotations": []}]}],
        "tools": [
            {"type": "function", "name": "exec_command", "description": "x", "strict": false, "parameters": {"type": "object"}},
            {"type": "custom", "name": "apply_patch", "description": "p",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "namespace", "name": "mcp__picktwo", "description": "", "tools": [
                {"type": "function", "name": "web_fetch", "description": "f", "strict": false, "parameters": {"type": "object"}}]}]
    })
}

pub(super) fn codex_without_tools() -> Value {
    json!({
        "model": "gpt-6.2-sol", "store": false, "stream": true, "tool_choice": "auto", "parallel_tool_calls": true,
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high", "context": "all_turns"},
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": [
                {"type": "namespace", "name": "functions", "description": "", "tools": [
                    {"type": "custom", "name": "exec", "description": "js", "format": {"type": "text"}},
                    {"type": "function", "name": "wait", "description": "w", "strict": false, "parameters": {"type": "object"}}]},
                {"type": "function", "name": "clock.sleep", "description": "s", "parameters": {"type": "object"}}]},
            {"type": "configuration_update", "reasoning": {"effort": "high"}},
            {"type": "custom_tool_call", "name": "exec", "namespace": "functions", "input": "x()", "call_id": "c", "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "b"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]}]
    })
}

pub(super) fn responses_of_others() -> Value {
    json!({
        "model": "gpt-5", "stream": true, "max_output_tokens": 128000, "store": false,
        "reasoning": {"effort": "minimal", "summary": "auto"},
        "input": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
                  {"role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
                  {"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{PIXEL}")}]}],
        "tools": [{"type": "function", "name": "bash", "parameters": {"type": "object"}}],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}}
    })
}

pub(super) fn chat() -> Value {
    json!({
        "model": "gpt-4o", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 8000, "temperature": 0,
        "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "reasoning_effort": "medium", "store": false,
        "tool_choice": "auto", "n": 1, "stop": ["x"], "seed": 7,
        "messages": [
            {"role": "system", "content": "s"}, {"role": "developer", "content": "d"},
            {"role": "user", "content": [{"type": "text", "text": "u"},
                {"type": "image_url", "image_url": {"url": format!("data:image/jpeg;base64,{PIXEL}")}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{PIXEL}")}}]},
            {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "r", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"type\":\"web_search\"}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "result"}],
        "tools": [{"type": "function", "function": {"name": "read_file", "description": "r", "strict": false,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}]
    })
}

pub(super) fn chat_of_copilot() -> Value {
    json!({
        "model": "gpt-5.2", "max_completion_tokens": 10, "parallel_tool_calls": true,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c", "type": "custom", "custom": {"name": "t", "input": "i"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "x", "__copilotMessageSource": {"kind": "k", "name": "n", "summary": "s"}}]
    })
}

pub(super) fn gemini() -> Value {
    json!({
        "contents": [
            {"role": "user", "parts": [{"text": "u"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
            {"role": "model", "parts": [{"text": "t", "thought": true, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "1", "name": "read_file", "args": {"path": "a"}}, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "1", "name": "read_file", "response": {"output": "o"}}}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "s"}]},
        "tools": [{"functionDeclarations": [
            {"name": "read_file", "description": "r", "parametersJsonSchema": {"type": "object", "properties": {"ref": {"type": "string"}}}},
            {"name": "old", "description": "o", "parameters": {"type": "OBJECT"}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["read_file"]}},
        "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64, "maxOutputTokens": 8192,
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": -1}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    })
}

pub(super) fn gemini_router() -> Value {
    json!({
        "contents": [{"role": "user", "parts": [{"text": "u"}]}],
        "generationConfig": {"temperature": 0, "maxOutputTokens": 1024, "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"}, "thinkingConfig": {"thinkingLevel": "HIGH"}, "candidateCount": 1, "seed": 1}
    })
}

pub(super) fn gemini_of_aider() -> Value {
    json!({
        "contents": [{"role": "user", "parts": [{"text": "u"}, {"inline_data": {"mime_type": "image/png", "data": PIXEL}}]}],
        "system_instruction": {"parts": [{"text": "s"}]},
        "generationConfig": {"temperature": 0}
    })
}
