//! Streams: event by event, cut off where they must be.

use super::super::Limits;
use super::super::echo::Echo;
use super::super::events::{Broken, Events};
use super::bodies;
use super::fake::*;
use hyper::body::Bytes;
use picktwo_wire::gateway::{FromGateway, Protocol};
use std::io::{Read, Write};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const MESSAGES: &str = "/v1/messages?beta=true";
const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";

fn request() -> String {
    bodies::claude().to_string()
}

#[test]
fn events_pass_one_by_one_while_the_upstream_waits() {
    // The upstream sends the next event only when the agent has the one before: anything held back would hang.
    let (seen, go) = mpsc::channel::<()>();
    let go = std::sync::Mutex::new(go);
    let fake = Fake::new(move |_, socket| {
        socket.write_all(STREAM).unwrap();
        for n in 0..20 {
            socket
                .write_all(&chunk(&DELTA.replace("\"a\"", &format!("\"{n}\""))))
                .unwrap();
            go.lock()
                .unwrap()
                .recv_timeout(Duration::from_secs(10))
                .expect("the agent did not get the event");
        }
        socket.write_all(b"0\r\n\r\n").is_ok()
    });
    let harness = Harness::new(&fake);
    let mut agent = harness.agent();
    send(&mut agent, MESSAGES, "", &request());
    let head = read_head(&mut agent).unwrap();
    assert_eq!(header(&head, "content-type"), Some("text/event-stream; charset=utf-8"));
    for n in 0..20 {
        let event = read_chunk(&mut agent).unwrap();
        assert_eq!(
            String::from_utf8(event).unwrap(),
            DELTA.replace("\"a\"", &format!("\"{n}\""))
        );
        seen.send(()).unwrap();
    }
    assert_eq!(read_chunk(&mut agent), None);
    assert!(matches!(harness.event(), FromGateway::Call { status: 200, received, .. } if received > 1000));
    // Both connections go on.
    assert_eq!(fake.last().header("accept"), Some("text/event-stream"));
    send(&mut agent, MESSAGES, "", &request());
    assert!(read_head(&mut agent).unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(fake.connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}

/// The whole stream that the agent gets for a stream of the upstream.
fn through(path: &str, request: &str, stream: &'static str, close: bool) -> (String, FromGateway) {
    let fake = Fake::new(move |_, socket| {
        socket.write_all(STREAM).unwrap();
        socket.write_all(&chunk(stream)).unwrap();
        !close && socket.write_all(b"0\r\n\r\n").is_ok()
    });
    let limits = Limits {
        silence: Duration::from_millis(500),
        ..Limits::default()
    };
    let harness = Harness::with(start(fake.address), limits, fake.address);
    let (status, _, body) = harness.call(path, "", request);
    assert_eq!(status, 200);
    (body, harness.event())
}

#[test]
fn a_hosted_result_cuts_the_stream_and_is_told() {
    let gemini = "/v1beta/models/g:streamGenerateContent?alt=sse";
    for (path, request, stream, end) in [
        (
            MESSAGES,
            request(),
            "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"server_tool_use\",\"input\":{}}}\n\n",
            "event: error\ndata: {\"type\":\"error\"",
        ),
        (
            "/v1/responses",
            bodies::codex().to_string(),
            "event: x\ndata: {\"type\":\"response.web_search_call.searching\"}\n\n",
            "event: response.failed\n",
        ),
        (
            "/v1/responses",
            bodies::codex().to_string(),
            "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"mcp_call\"}}\n\n",
            "\"code\":\"invalid_prompt\"",
        ),
        (
            "/v1/chat/completions",
            bodies::chat().to_string(),
            "data: {\"choices\":[{\"delta\":{\"annotations\":[{\"type\":\"url_citation\"}]}}]}\n\n",
            "data: {\"error\":{\"message\"",
        ),
        (
            gemini,
            bodies::gemini().to_string(),
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"executableCode\":{\"code\":\"x\"}}]}}]}\r\n\r\n",
            "data: {\"error\":{\"code\":400",
        ),
    ] {
        let (body, event) = through(path, &request, stream, false);
        assert!(
            !body.contains(stream.trim()) && body.contains(end) && body.ends_with("\n\n"),
            "{body}"
        );
        assert!(
            matches!(event, FromGateway::Refused { ref rule, .. } if rule == "hosted-result"),
            "{event:?}"
        );
    }
}

#[test]
fn what_is_only_said_passes() {
    let calls = "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"name\":\"t\",\"input\":{\"type\":\"mcp_call\"}}}\n\n\
        : comment\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\ndata: {\"type\":\"future_event\",\"x\":{\"y\":[1]}}\n\n\
        data: {\"type\":\"message_delta\",\"usage\":{\"server_tool_use\":{\"web_search_requests\":0}}}\n\ndata: [DONE]\n\n";
    let (body, event) = through(MESSAGES, &request(), calls, false);
    assert_eq!(body, calls);
    assert!(matches!(event, FromGateway::Call { .. }));
}

#[test]
fn broken_streams_end_with_an_error_event() {
    for (stream, close, part) in [
        (DELTA, true, "broke off"),
        ("data: {\"type\":\n\n", false, "not JSON"),
        ("<html>\n\n", false, "not one of an event stream"),
    ] {
        let (body, _) = through(MESSAGES, &request(), stream, close);
        assert!(
            body.contains("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"")
                && body.contains(part),
            "{body}"
        );
    }
    let (body, event) = through(
        MESSAGES,
        &request(),
        concat!("data: {\"type\":\"x\",\"text\":\"", "sk-real-key-0123456789", "\"}\n\n"),
        false,
    );
    assert!(!body.contains(KEY) && body.contains("model key"), "{body}");
    assert!(matches!(event, FromGateway::Refused { ref rule, .. } if rule == "key-echo"));
}

#[test]
fn a_silent_stream_is_given_up() {
    let fake = Fake::new(|_, socket| {
        socket.write_all(STREAM).unwrap();
        socket.write_all(&chunk(DELTA)).unwrap();
        socket.read(&mut [0]).is_err()
    });
    let limits = Limits {
        silence: Duration::from_millis(200),
        ..Limits::default()
    };
    let harness = Harness::with(start(fake.address), limits, fake.address);
    let (_, _, body) = harness.call(MESSAGES, "", &request());
    assert!(body.starts_with(DELTA) && body.contains("was silent for"), "{body}");
}

#[test]
fn an_endless_stream_is_cut() {
    let fake = Fake::new(|_, socket| {
        let events = chunk(&DELTA.repeat(4000));
        socket.write_all(STREAM).unwrap();
        while socket.write_all(&events).is_ok() {}
        false
    });
    let limits = Limits {
        stream: 8 << 20,
        ..Limits::default()
    };
    let harness = Harness::with(start(fake.address), limits, fake.address);
    let mut agent = harness.agent();
    send(&mut agent, MESSAGES, "", &request());
    read_head(&mut agent).unwrap();
    let (mut total, mut last) = (0, Vec::new());
    while let Some(data) = read_chunk(&mut agent) {
        total += data.len();
        last = data;
    }
    assert!((7 << 20..=9 << 20).contains(&total), "{total}");
    assert!(String::from_utf8(last).unwrap().contains("larger than 8388608 bytes"));
}

#[test]
fn an_agent_that_leaves_ends_the_call() {
    let (closed, wait) = mpsc::channel();
    let closed = std::sync::Mutex::new(closed);
    let fake = Fake::new(move |_, socket| {
        socket.write_all(STREAM).unwrap();
        while socket.write_all(&chunk(DELTA)).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        closed.lock().unwrap().send(()).unwrap();
        false
    });
    let harness = Harness::new(&fake);
    let mut agent = harness.agent();
    send(&mut agent, MESSAGES, "", &request());
    read_head(&mut agent).unwrap();
    drop(agent);
    wait.recv_timeout(Duration::from_secs(10))
        .expect("the upstream still sends");
    assert!(matches!(harness.event(), FromGateway::Call { status: 200, .. }));
}

#[test]
fn events_are_cut_the_same_wherever_the_pieces_end() {
    let echo = Arc::new(Echo::new(KEY));
    let streams = [
        DELTA.repeat(3),
        DELTA.replace('\n', "\r\n").repeat(3),
        format!("{}data: [DONE]", DELTA),
        "data: {\"a\":\ndata: 1}\n\n".to_owned(),
    ];
    for stream in streams {
        for size in 1..stream.len() {
            let mut events = Events::new(Protocol::Anthropic, echo.clone());
            let mut out = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                out.extend_from_slice(&events.push(Bytes::copy_from_slice(piece)).unwrap());
            }
            out.extend_from_slice(&events.finish().unwrap());
            assert_eq!(out, stream.as_bytes(), "{size}");
        }
    }
    let bad = format!(
        "{DELTA}data: {{\"type\":\"content_block_start\",\"content_block\":{{\"type\":\"mcp_tool_use\"}}}}\n\n{DELTA}"
    );
    for size in 1..bad.len() {
        let mut events = Events::new(Protocol::Anthropic, echo.clone());
        let result = bad.as_bytes().chunks(size).try_for_each(|piece| {
            let out = events.push(Bytes::copy_from_slice(piece))?;
            assert!(!out.windows(3).any(|w| w == b"mcp"));
            Ok(())
        });
        assert_eq!(result, Err(Broken::Hosted("mcp_tool_use".to_owned())), "{size}");
    }
}
