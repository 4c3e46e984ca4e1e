//! What the server refuses, and in which words.

use super::super::Limits;
use super::super::route::allows;
use super::bodies;
use super::fake::*;
use super::upstreams::{ANSWER, MESSAGES, SMALL, message};
use serde_json::Value;
use std::io::Write;

#[test]
fn refusals_are_in_the_protocols_words_and_recorded() {
    let fake = Fake::json(ANSWER);
    let harness = Harness::new(&fake);
    let mut body = bodies::claude();
    body["tools"][0] = serde_json::json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8});
    let (status, head, text) = harness.call(MESSAGES, "anthropic-version: 2023-06-01\r\n", &body.to_string());
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &answer["type"], &answer["error"]["type"]),
        (400, &"error".into(), &"invalid_request_error".into())
    );
    assert_eq!(header(&head, "x-should-retry"), Some("false"));
    assert!(
        message(&text).contains("tools[0].type: `web_search_20250305`"),
        "{text}"
    );
    assert_eq!(harness.refusal(), "hosted-tool");
    let (status, _, text) = harness.call(
        "/v1/responses",
        "",
        r#"{"model":"gpt-5","input":"x","background":true}"#,
    );
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &answer["error"]["type"], &answer["error"]["code"]),
        (400, &"invalid_request_error".into(), &"stored".into())
    );
    assert_eq!(harness.refusal(), "stored");
    let (status, _, text) = harness.call(
        "/v1beta/models/gemini-2.5-pro:generateContent",
        "",
        r#"{"contents":[],"tools":[{"googleSearch":{}}]}"#,
    );
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &answer["error"]["code"], &answer["error"]["status"]),
        (400, &400.into(), &"INVALID_ARGUMENT".into())
    );
    assert_eq!(harness.refusal(), "hosted-tool");
    assert_eq!(fake.count(), 0);
}

#[test]
fn paths_queries_and_framing_are_by_list() {
    let fake = Fake::json(ANSWER);
    let harness = Harness::new(&fake);
    for (path, status, rule) in [
        ("/v1/files", 404, "path"),
        ("/v1/alpha/search", 404, "path"),
        ("/v1/messages/batches", 404, "path"),
        ("/v1/messages/", 404, "path"),
        ("//v1/messages", 404, "path"),
        ("/v1/../v1/messages", 404, "path"),
        ("/v1/messages%3Fbeta=true", 404, "path"),
        ("/v1/Messages", 404, "path"),
        ("/v1beta/cachedContents", 404, "path"),
        ("/v1beta/models/gemini-2.5-pro:batchGenerateContent", 404, "path"),
        ("/upload/v1beta/files", 404, "path"),
        // Known, but not in this policy's list.
        ("/v1beta/models/gemini-2.5-pro:countTokens", 404, "path"),
        ("/v1beta/models/a:b:generateContent", 404, "path"),
        ("/v1beta/models/..:generateContent", 400, "model"),
        ("/v1beta/models/gemini-2.5-pro:generateContent?key=stolen", 400, "query"),
        ("/v1/messages?beta=true&x=1", 400, "query"),
        ("/v1/responses?beta=true", 400, "query"),
        ("http://api.anthropic.com/v1/messages", 400, "path"),
    ] {
        let (got, _, text) = harness.call(path, "", SMALL);
        assert_eq!(got, status, "{path}: {text}");
        assert!(!message(&text).contains("stolen"));
        assert_eq!(harness.refusal(), rule, "{path}");
    }
    for (headers, status, rule) in [
        ("content-encoding: gzip\r\n", 400, "encoding"),
        ("content-type: text/plain\r\n", 400, "encoding"),
        ("upgrade: websocket\r\nconnection: upgrade\r\n", 426, "upgrade"),
    ] {
        let mut agent = harness.agent();
        let head = format!(
            "POST {MESSAGES} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\r\n{SMALL}",
            SMALL.len()
        );
        agent.write_all(head.as_bytes()).unwrap();
        assert_eq!(answer(&mut agent).0, status, "{headers}");
        assert_eq!(harness.refusal(), rule);
    }
    let mut agent = harness.agent();
    agent
        .write_all(
            format!(
                "POST {MESSAGES} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{SMALL}\r\n0\r\n\r\n",
                SMALL.len()
            )
            .as_bytes(),
        )
        .unwrap();
    assert_eq!(answer(&mut agent).0, 400);
    let mut agent = harness.agent();
    agent
        .write_all(format!("POST {MESSAGES} HTTP/1.1\r\nhost: x\r\ncontent-length: 33554433\r\n\r\n").as_bytes())
        .unwrap();
    let (status, _, text) = answer(&mut agent);
    assert!(status == 400 && text.contains("33554433"), "{text}");
    assert_eq!(fake.count(), 0);
}

#[test]
fn the_policy_line_for_a_path_or_model_is_named() {
    let fake = Fake::json(ANSWER);
    let mut start = start(fake.address);
    start.upstreams[0].models = vec!["claude-haiku-5-5".to_owned()];
    start.upstreams.truncate(1);
    let harness = Harness::with(start, Limits::default(), fake.address);
    let (status, _, text) = harness.call(MESSAGES, "", SMALL);
    assert_eq!(status, 400);
    assert!(
        message(&text).contains(r#"models = ["claude-opus-5-5"] in [model.anthropic]"#),
        "{text}"
    );
    assert_eq!(harness.call(MESSAGES, "", &SMALL.replace("opus", "haiku")).0, 200);
    let (status, _, text) = harness.call("/v1/responses", "", "{}");
    assert!(status == 404 && message(&text).contains("[model.openai]"), "{text}");
    let mut agent = harness.agent();
    agent
        .write_all(b"GET /v1/models?limit=9 HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let (status, _, text) = answer(&mut agent);
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &list["data"][0]["id"]), (200, &"claude-haiku-5-5".into()));
    agent.write_all(b"HEAD /api/hello HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(read_head(&mut agent).unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(fake.count(), 1);
}

#[test]
fn the_phantom_token_is_asked_for() {
    let fake = Fake::json(ANSWER);
    let mut start = start(fake.address);
    start.phantom = Some("phantom-0123456789".to_owned());
    let harness = Harness::with(start, Limits::default(), fake.address);
    for headers in [
        "",
        "x-api-key: phantom-0123456788\r\n",
        "authorization: phantom-0123456789\r\n",
        "x-api-key: \r\n",
    ] {
        assert_eq!(harness.call(MESSAGES, headers, SMALL).0, 400, "{headers}");
        assert_eq!(harness.refusal(), "token");
    }
    for headers in [
        "x-api-key: phantom-0123456789\r\n",
        "authorization: Bearer phantom-0123456789\r\n",
        "x-goog-api-key: phantom-0123456789\r\n",
    ] {
        assert_eq!(harness.call(MESSAGES, headers, SMALL).0, 200, "{headers}");
    }
    assert!(
        fake.requests
            .lock()
            .unwrap()
            .iter()
            .all(|got| !got.head.contains("phantom"))
    );
}

#[test]
fn an_entry_of_allow_names_one_method_and_path_or_a_pattern() {
    let stream = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
    for (entry, path, allowed) in [
        ("POST /v1/messages", "/v1/messages", true),
        ("POST /v1/messages", "/v1/messages/count_tokens", false),
        ("GET /v1/messages", "/v1/messages", false),
        ("POST", "/v1/messages", false),
        ("/v1/messages", "/v1/messages", false),
        ("POST /v1beta/models/{model}:streamGenerateContent", stream, true),
        ("POST /v1beta/models/*:streamGenerateContent", stream, true),
        ("POST /v1beta/models/*:generateContent", stream, false),
        ("POST /v1beta/models/gemini-2.5-pro:streamGenerateContent", stream, true),
        ("POST /v1beta/models/*", stream, true),
        ("POST /v1/*", stream, false),
        ("POST }{", stream, false),
        ("POST /v1beta/models/*:x", "/v1beta/models/a/../b:x", false),
    ] {
        assert_eq!(allows(entry, "POST", path), allowed, "{entry} {path}");
    }
}
