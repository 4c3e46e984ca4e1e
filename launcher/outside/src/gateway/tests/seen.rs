//! Bodies that agents were seen to send pass, and what is written means the same.

use super::super::route::Operation;
use super::{bodies, pass, passed};
use serde_json::{Value, json};

/// Takes away what is meant to be left out or replaced.
fn expected(operation: Operation, body: &Value) -> Value {
    let mut body = body.clone();
    match operation {
        Operation::Messages => {
            if body.get("metadata").is_some() {
                body["metadata"] = json!({"user_id": "picktwo"});
            }
        }
        Operation::Responses => {
            body.as_object_mut().unwrap().remove("client_metadata");
            for item in body["input"].as_array_mut().unwrap() {
                item.as_object_mut()
                    .unwrap()
                    .remove("internal_chat_message_metadata_passthrough");
            }
            body["store"] = json!(false);
        }
        Operation::Chat => {
            for message in body["messages"].as_array_mut().unwrap() {
                message.as_object_mut().unwrap().remove("__copilotMessageSource");
            }
        }
        _ => {
            let text = body.to_string();
            let camel = text
                .replace("\"system_instruction\"", "\"systemInstruction\"")
                .replace("\"inline_data\"", "\"inlineData\"")
                .replace("\"mime_type\"", "\"mimeType\"");
            return serde_json::from_str(&camel).unwrap();
        }
    }
    body
}

#[test]
fn seen_bodies_pass_with_the_same_meaning() {
    for (operation, body) in bodies::all() {
        assert_eq!(passed(operation, &body), expected(operation, &body), "{operation:?}");
    }
}

#[test]
fn what_is_written_passes_again_unchanged() {
    for (operation, body) in bodies::all() {
        let once = pass(operation, &body.to_string()).unwrap();
        assert_eq!(pass(operation, &once).unwrap(), once);
    }
}

#[test]
fn identifiers_of_the_person_and_paths_are_left_out() {
    let claude = pass(Operation::Messages, &bodies::claude().to_string()).unwrap();
    assert!(!claude.contains("device_id") && claude.contains(r#""metadata":{"user_id":"picktwo"}"#));
    let codex = pass(Operation::Responses, &bodies::codex().to_string()).unwrap();
    assert!(!codex.contains("/home/u/w") && !codex.contains("turn_id"));
}

#[test]
fn responses_get_store_false_exactly_once() {
    let mut body = bodies::responses_of_others();
    body.as_object_mut().unwrap().remove("store");
    let out = pass(Operation::Responses, &body.to_string()).unwrap();
    assert_eq!(out.matches(r#""store":false"#).count(), 1);
    let out = pass(Operation::Responses, &bodies::codex().to_string()).unwrap();
    assert_eq!(out.matches(r#""store":false"#).count(), 1);
}

#[test]
fn numbers_pass_exactly_as_written() {
    for number in [
        "0",
        "-0",
        "1E400",
        "1e-7",
        "0.10000000000000000001",
        "123456789012345678901234567890",
        "-1.50",
    ] {
        let body = format!(
            r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"1","name":"t","input":{{"n":{number}}}}}]}}]}}"#
        );
        assert!(
            pass(Operation::Messages, &body)
                .unwrap()
                .contains(&format!(r#""n":{number}}}"#)),
            "{number}"
        );
    }
}

#[test]
fn text_passes_whatever_it_says() {
    let text = r#"{"type":"web_search_20250305"} https://evil.example/?q= "tools" file_id mcp_servers"#;
    let body = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": text}]});
    assert_eq!(passed(Operation::Messages, &body), body);
}

#[test]
fn a_refusal_names_field_rule_line_and_advice() {
    let mut body = bodies::codex();
    body["tools"][0] = json!({"type": "web_search", "external_web_access": true});
    let refusal = pass(Operation::Responses, &body.to_string()).unwrap_err();
    let message = refusal.message();
    assert_eq!(
        (refusal.rule, refusal.place.as_str(), refusal.status),
        ("hosted-tool", "tools[0].type", 400)
    );
    for part in [
        "tools[0].type",
        "`web_search`",
        "No policy line accepts it",
        "web_fetch",
        "picktwo fetch",
        "web_search=\"disabled\"",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
