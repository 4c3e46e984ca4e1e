//! Forbidden in Gemini.

use super::super::super::route::Operation;
use super::super::bodies;
use super::{Variant, cross, fields};
use serde_json::{Value, json};

pub(super) fn put(out: &mut Vec<Variant>) {
    let base = bodies::gemini();
    let kinds = [
        "googleSearch",
        "google_search",
        "googleSearchRetrieval",
        "google_search_retrieval",
        "enterpriseWebSearch",
        "enterprise_web_search",
        "exaAiSearch",
        "exa_ai_search",
        "parallelAiSearch",
        "urlContext",
        "url_context",
        "googleMaps",
        "google_maps",
        "retrieval",
        "fileSearch",
        "file_search",
        "mcpServers",
        "mcp_servers",
        "codeExecution",
        "code_execution",
        "computerUse",
        "computer_use",
    ];
    let alone: Vec<Value> = kinds.iter().map(|kind| json!({*kind: {}})).collect();
    cross(out, Operation::StreamGenerate, &base, &["/tools/-"], &alone);
    for kind in kinds {
        // Beside declarations that would pass.
        cross(
            out,
            Operation::Generate,
            &base,
            &[&format!("/tools/0/{kind}")],
            &[json!({})],
        );
    }
    let declaration = |parameters: Value| json!({"functionDeclarations": [{"name": "x", "parameters": parameters}]});
    cross(
        out,
        Operation::Generate,
        &base,
        &["/tools/-"],
        &[
            json!({}),
            json!({"function_declarations": [{"name": "x"}], "google_search": {}}),
            declaration(json!({"ref": "https://evil.example/"})),
            declaration(json!({"properties": {"a": {"$ref": "https://evil.example/"}}})),
        ],
    );
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
    cross(
        out,
        Operation::Generate,
        &base,
        &["/contents/0/parts/-", "/systemInstruction/parts/-"],
        &parts,
    );
    cross(
        out,
        Operation::GeminiCountTokens,
        &json!({"contents": [{"parts": []}]}),
        &["/contents/0/parts/-"],
        &parts[..3],
    );
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
        (
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "AUTO"}, "includeServerSideToolInvocations": true}),
        ),
        ("tool_config", json!({"retrieval_config": {}})),
        ("system_instruction", json!({"parts": []})),
        ("generationConfig", json!({"candidateCount": 2})),
        ("generationConfig", json!({"responseModalities": ["IMAGE"]})),
        ("generationConfig", json!({"routingConfig": {}})),
        (
            "generationConfig",
            json!({"responseSchema": {"ref": "https://evil.example/"}}),
        ),
        ("generation_config", json!({})),
    ];
    fields(out, Operation::Generate, &base, "", &members);
}
