//! The model's answers in the form of each protocol, as streams and as whole documents.

use super::{
    Say,
    requests::{Protocol, Seen},
};
use crate::http::Responder;
use serde_json::{Value, json};
use std::io;

const PREFIX: &str = "call_turn_";

fn id_of(number: usize) -> String {
    format!("{PREFIX}{number}")
}

/// The turn that a call id belongs to.
pub(super) fn number_of(id: &str) -> Option<usize> {
    id.strip_prefix(PREFIX)?.parse().ok()
}

/// Sends text or a call as turn `number`.
pub(super) fn send(seen: &Seen, number: usize, say: &Say, to: &mut Responder<'_>) -> io::Result<()> {
    let events = match seen.protocol {
        Protocol::Anthropic => anthropic(seen, number, say),
        Protocol::Responses => responses(seen, number, say),
        Protocol::Chat => chat(seen, number, say),
        Protocol::Gemini => gemini(seen, number, say),
    };
    if !seen.stream {
        return to.full(
            200,
            &[("content-type", "application/json")],
            events.whole.to_string().as_bytes(),
        );
    }
    to.chunked(
        200,
        &[("content-type", "text/event-stream"), ("cache-control", "no-cache")],
    )?;
    for event in &events.stream {
        // Anthropic and Responses name each event after its type; the others do not name them.
        let name = match (seen.protocol, event["type"].as_str()) {
            (Protocol::Anthropic | Protocol::Responses, Some(kind)) => format!("event: {kind}\n"),
            _ => String::new(),
        };
        to.chunk(format!("{name}data: {event}\n\n").as_bytes())?;
    }
    if seen.protocol == Protocol::Chat {
        to.chunk(b"data: [DONE]\n\n")?;
    }
    to.end()
}

struct Events {
    stream: Vec<Value>,
    whole: Value,
}

fn anthropic(seen: &Seen, number: usize, say: &Say) -> Events {
    let (block, empty, delta, stop) = match say {
        Say::Call { tool, input } => (
            json!({"type": "tool_use", "id": id_of(number), "name": tool, "input": input}),
            json!({"type": "tool_use", "id": id_of(number), "name": tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            "tool_use",
        ),
        other => {
            let text = text_of(other);
            (
                json!({"type": "text", "text": text}),
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": text}),
                "end_turn",
            )
        }
    };
    let message = |content: Value, stop: Value| {
        json!({
            "id": format!("msg_turn_{number}"), "type": "message", "role": "assistant", "model": seen.model,
            "content": content, "stop_reason": stop, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        })
    };
    Events {
        stream: vec![
            json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
            json!({"type": "content_block_start", "index": 0, "content_block": empty}),
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({
                "type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
                "usage": {"output_tokens": 5},
            }),
            json!({"type": "message_stop"}),
        ],
        whole: message(json!([block]), json!(stop)),
    }
}

fn responses(seen: &Seen, number: usize, say: &Say) -> Events {
    let item = match say {
        Say::Call { tool, input } => {
            let declared = seen.tools.iter().find(|t| t.name == *tool);
            let mut item = match (declared.is_some_and(|t| t.custom), input) {
                (true, Value::String(text)) => {
                    json!({"type": "custom_tool_call", "id": format!("ctc_turn_{number}"), "input": text})
                }
                _ => {
                    json!({"type": "function_call", "id": format!("fc_turn_{number}"), "arguments": input.to_string()})
                }
            };
            item["call_id"] = json!(id_of(number));
            item["name"] = json!(tool);
            item["status"] = json!("completed");
            if let Some(namespace) = declared.and_then(|t| t.namespace.as_ref()) {
                item["namespace"] = json!(namespace);
            }
            item
        }
        other => json!({
            "type": "message", "id": format!("msg_turn_{number}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text_of(other), "annotations": []}],
        }),
    };
    let response = |status: &str, output: Value| {
        json!({
            "id": format!("resp_turn_{number}"), "object": "response", "created_at": 1_700_000_000, "status": status,
            "model": seen.model, "output": output, "parallel_tool_calls": false, "tool_choice": "auto", "tools": [],
            "usage": {
                "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
            },
        })
    };
    let mut stream = vec![
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
    ];
    if let Say::Text(text) = say {
        stream.push(json!({
            "type": "response.output_text.delta", "item_id": item["id"], "output_index": 0, "content_index": 0,
            "delta": text,
        }));
    }
    stream.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    let whole = response("completed", json!([item]));
    stream.push(json!({"type": "response.completed", "response": whole}));
    for (i, event) in stream.iter_mut().enumerate() {
        event["sequence_number"] = json!(i);
    }
    Events { stream, whole }
}

fn chat(seen: &Seen, number: usize, say: &Say) -> Events {
    let (message, mut delta, finish) = match say {
        Say::Call { tool, input } => {
            let call = json!({
                "id": id_of(number), "type": "function",
                "function": {"name": tool, "arguments": input.to_string()},
            });
            let mut part = call.clone();
            part["index"] = json!(0);
            (
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                json!({"tool_calls": [part]}),
                "tool_calls",
            )
        }
        other => {
            let text = text_of(other);
            (
                json!({"role": "assistant", "content": text}),
                json!({"content": text}),
                "stop",
            )
        }
    };
    delta["role"] = json!("assistant");
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let with = |object: &str, choices: Value, usage: Value| {
        json!({
            "id": format!("chatcmpl-turn-{number}"), "object": object, "created": 1_700_000_000, "model": seen.model,
            "choices": choices, "usage": usage,
        })
    };
    let chunk = |choices: Value, usage: Value| with("chat.completion.chunk", choices, usage);
    Events {
        stream: vec![
            chunk(
                json!([{"index": 0, "delta": delta, "finish_reason": null}]),
                Value::Null,
            ),
            chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null),
            chunk(json!([]), usage.clone()),
        ],
        whole: with(
            "chat.completion",
            json!([{"index": 0, "message": message, "finish_reason": finish}]),
            usage,
        ),
    }
}

fn gemini(seen: &Seen, number: usize, say: &Say) -> Events {
    let part = match say {
        Say::Call { tool, input } => {
            json!({"functionCall": {"id": id_of(number), "name": tool, "args": input}})
        }
        other => json!({"text": text_of(other)}),
    };
    let whole = json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": seen.model,
        "responseId": format!("resp-turn-{number}"),
    });
    Events {
        stream: vec![whole.clone()],
        whole,
    }
}

fn text_of(say: &Say) -> &str {
    match say {
        Say::Text(text) | Say::Status(_, text) => text,
        Say::Call { .. } | Say::Fault(_) => "",
    }
}
