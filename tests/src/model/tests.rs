//! The script itself, driven by a client that is as simple as can be.

use super::*;
use std::{
    io::{BufRead, BufReader, Read},
    net::TcpStream,
};

fn post(server: &ModelServer, path: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        line.clear();
    }
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    rest
}

fn script() -> Script {
    Script::new()
        .then(Turn::call("Read", json!({"path": "a"})))
        .then(Turn::text("done: 42").expecting("the file's text", |seen| seen.last() == "content of a"))
}

fn check(path: &str, first: &Value, second: &Value) {
    let server = ModelServer::start(script()).unwrap();
    let aside = post(&server, path, &json!({"model": "m", "messages": [], "input": []}));
    assert!(aside.contains("ok") && !aside.contains("call_turn_0"), "{aside}");
    for _ in 0..2 {
        let answer = post(&server, path, first);
        assert!(answer.contains("call_turn_0") && answer.contains("Read"), "{answer}");
    }
    let answer = post(&server, path, second);
    assert!(answer.contains("done: 42"), "{answer}");
    assert_eq!(server.problems(), Vec::<String>::new());
    assert_eq!((server.turns_said(), server.requests().len()), (2, 4));
}

#[test]
fn anthropic_is_played() {
    let tools = json!([{"name": "Read", "input_schema": {}}]);
    let result = json!([{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "call_turn_0", "content": [{"type": "text", "text": "content of a"}]}]}]);
    for stream in [true, false] {
        check(
            "/v1/messages?beta=true",
            &json!({"model": "m", "stream": stream, "tools": tools, "messages": []}),
            &json!({"model": "m", "stream": stream, "tools": tools, "messages": result}),
        );
    }
}

#[test]
fn responses_are_played_with_tools_wherever_they_are_declared() {
    let nested = json!([{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "Read"}]}]);
    let additional = json!({"type": "additional_tools", "tools": nested});
    let result = json!({"type": "function_call_output", "call_id": "call_turn_0", "output": "content of a"});
    check(
        "/v1/responses",
        &json!({"model": "m", "stream": true, "tools": nested, "input": []}),
        &json!({"model": "m", "stream": true, "input": [additional, result]}),
    );
    let server = ModelServer::start(script()).unwrap();
    let answer = post(
        &server,
        "/v1/responses",
        &json!({"model": "m", "stream": true, "input": [additional]}),
    );
    assert!(answer.contains(r#""namespace":"n""#), "{answer}");
}

#[test]
fn chat_is_played() {
    let tools = json!([{"type": "function", "function": {"name": "Read"}}]);
    let result = json!([{"role": "tool", "tool_call_id": "call_turn_0", "content": "content of a"}]);
    check(
        "/v1/chat/completions",
        &json!({"model": "m", "stream": true, "tools": tools, "messages": []}),
        &json!({"model": "m", "stream": true, "tools": tools, "messages": result}),
    );
}

#[test]
fn gemini_is_played() {
    let tools = json!([{"functionDeclarations": [{"name": "Read"}]}]);
    let result = json!([{"parts": [
        {"functionResponse": {"id": "call_turn_0", "name": "Read", "response": {"output": "content of a"}}}]}]);
    check(
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        &json!({"tools": tools, "contents": []}),
        &json!({"tools": tools, "contents": result}),
    );
}

#[test]
fn what_goes_off_the_script_is_recorded() {
    let server = ModelServer::start(script()).unwrap();
    post(&server, "/v1/messages", &json!({"tools": [{"name": "Other"}]}));
    let wrong = json!([{"content": [{"type": "tool_result", "tool_use_id": "call_turn_0", "content": "other"}]}]);
    post(
        &server,
        "/v1/messages",
        &json!({"tools": [{"name": "Read"}], "messages": wrong}),
    );
    let problems = server.problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0].contains("Read is not offered") && problems[1].contains("the file's text"),
        "{problems:?}"
    );
}

#[test]
fn a_gate_holds_the_conversation() {
    let gate = Gate::new();
    let server = ModelServer::start(Script::new().then(Turn::text("after").at(&gate))).unwrap();
    assert!(!gate.reached(Duration::from_millis(20)));
    thread::scope(|scope| {
        let asked = scope.spawn(|| post(&server, "/v1/messages", &json!({"stream": true})));
        assert!(gate.reached(Duration::from_secs(20)));
        assert!(!asked.is_finished());
        gate.open();
        assert!(asked.join().unwrap().contains("after"));
    });
}
