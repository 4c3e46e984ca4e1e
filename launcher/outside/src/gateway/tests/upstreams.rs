//! The server against upstreams that behave, and that do not.

use super::super::Limits;
use super::bodies;
use super::fake::*;
use picktwo_wire::gateway::{FromGateway, Protocol};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const MESSAGES: &str = "/v1/messages?beta=true";
pub(super) const SMALL: &str =
    r#"{"model":"claude-opus-5-5","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#;
pub(super) const ANSWER: &str = r#"{"id":"msg_1","type":"message","content":[{"type":"text","text":"hello"}],"usage":{"server_tool_use":{"web_search_requests":0}}}"#;

/// The message of an error in any of the protocols.
pub(super) fn message(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}"));
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_request_is_written_from_scratch() {
    let fake = Fake::json(ANSWER);
    let harness = Harness::new(&fake);
    let headers = "x-api-key: stolen\r\nauthorization: Bearer stolen\r\nx-goog-api-key: stolen\r\ncookie: a=b\r\n\
        x-codex-turn-metadata: /home/u\r\nanthropic-version: 2099-01-01\r\nopenai-organization: evil\r\naccept-encoding: gzip\r\n\
        anthropic-beta: files-api-2025-04-14, effort-2025-11-24,mcp-client-2025-11-20\r\nanthropic-beta: claude-code-20250219\r\nuser-agent: x\r\n";
    let (status, _, body) = harness.call(MESSAGES, headers, &bodies::claude().to_string());
    assert_eq!((status, body.as_str()), (200, ANSWER));
    let got = fake.last();
    assert!(
        got.head.starts_with("POST /v1/messages?beta=true HTTP/1.1\r\n"),
        "{}",
        got.head
    );
    let mut names: Vec<String> = got
        .head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(n, _)| n.to_lowercase())
        .collect();
    names.sort();
    let expected =
        "accept accept-encoding anthropic-beta anthropic-version content-length content-type host user-agent x-api-key";
    assert_eq!(names.join(" "), expected);
    assert_eq!(got.header("x-api-key"), Some(KEY));
    assert_eq!(got.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        got.header("anthropic-beta"),
        Some("claude-code-20250219,effort-2025-11-24")
    );
    assert_eq!(got.header("accept-encoding"), Some("identity"));
    assert_eq!(got.header("host"), Some(fake.address.to_string().as_str()));
    assert!(!got.head.contains("stolen") && !got.body.contains("device_id"));
    match harness.event() {
        FromGateway::Call {
            method,
            path,
            model,
            status,
            sent,
            received,
            ..
        } => {
            assert_eq!(
                (method.as_str(), path.as_str(), model.as_deref(), status),
                ("POST", "/v1/messages", Some("claude-opus-5-5"), 200)
            );
            assert_eq!((sent, received), (got.body.len() as u64, ANSWER.len() as u64));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_protocol_gets_its_key_and_path() {
    let fake = Fake::json(r#"{"ok":true}"#);
    let harness = Harness::new(&fake);
    assert_eq!(harness.call("/v1/responses", "", &bodies::codex().to_string()).0, 200);
    assert_eq!(
        fake.last().header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert!(fake.last().header("anthropic-version").is_none());
    assert_eq!(
        harness.call("/v1/chat/completions", "", &bodies::chat().to_string()).0,
        200
    );
    assert_eq!(
        harness
            .call(
                "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
                "",
                &bodies::gemini().to_string()
            )
            .0,
        200
    );
    let got = fake.last();
    assert_eq!(
        (got.header("x-goog-api-key"), got.header("authorization")),
        (Some(KEY), None)
    );
    assert!(
        got.head
            .starts_with("POST /v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse HTTP/1.1")
    );
}

#[test]
fn connections_are_kept_on_both_sides() {
    let fake = Fake::json(ANSWER);
    let harness = Harness::new(&fake);
    let mut agent = harness.agent();
    for _ in 0..20 {
        assert_eq!(call(&mut agent, MESSAGES, "", SMALL).0, 200);
    }
    assert_eq!(call(&mut harness.agent(), MESSAGES, "", SMALL).0, 200);
    assert_eq!(fake.connections.load(Ordering::SeqCst), 1);
    assert_eq!(harness.asked.load(Ordering::SeqCst), 1);
    // A refusal does not cost the connection either.
    assert_eq!(call(&mut agent, MESSAGES, "", "{}").0, 400);
    assert_eq!(call(&mut agent, MESSAGES, "", SMALL).0, 200);
}

#[test]
fn a_kept_connection_that_died_is_replaced_once() {
    // Answers one request, says that it keeps the connection, and closes it when the next one came.
    let fake = Fake::new(|got, socket| {
        let again = got.body.contains("again");
        if !again {
            socket
                .write_all(whole("200 OK", "application/json", ANSWER).as_bytes())
                .unwrap();
        }
        !again
    });
    let harness = Harness::new(&fake);
    let mut agent = harness.agent();
    assert_eq!(call(&mut agent, MESSAGES, "", SMALL).0, 200);
    std::thread::sleep(Duration::from_millis(50));
    let (status, _, body) = call(&mut agent, MESSAGES, "", &SMALL.replace("hi", "again"));
    // The second connection dies without an answer, too: no third attempt.
    assert_eq!(status, 502, "{body}");
    assert_eq!((fake.count(), harness.asked.load(Ordering::SeqCst)), (3, 2));
}

#[test]
fn an_upstream_that_refuses_is_a_clear_502() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let harness = Harness::with(start(address), Limits::default(), address);
    for (path, body) in [
        (MESSAGES, SMALL.to_owned()),
        ("/v1/responses", bodies::codex().to_string()),
    ] {
        let (status, head, text) = harness.call(path, "", &body);
        assert_eq!((status, header(&head, "retry-after")), (502, Some("2")));
        assert!(message(&text).contains("refused"), "{text}");
        assert!(matches!(
            harness.event(),
            FromGateway::Call {
                status: 0,
                received: 0,
                ..
            }
        ));
    }
}

#[test]
fn an_upstream_that_stalls_is_given_up() {
    let limits = Limits {
        first_byte: Duration::from_millis(200),
        silence: Duration::from_millis(200),
        ..Limits::default()
    };
    let mute = Fake::new(|_, socket| socket.read(&mut [0]).is_err());
    let harness = Harness::with(start(mute.address), limits, mute.address);
    let begin = Instant::now();
    let (status, _, text) = harness.call(MESSAGES, "", SMALL);
    assert!(status == 504 && message(&text).contains("no answer within"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(5));
    // A head, half a body, and nothing more.
    let half = Fake::new(|_, socket| {
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            .unwrap();
        socket.read(&mut [0]).is_err()
    });
    let harness = Harness::with(start(half.address), limits, half.address);
    let (status, _, text) = harness.call(MESSAGES, "", SMALL);
    assert!(status == 504 && message(&text).contains("in the middle"), "{text}");
}

#[test]
fn garbage_is_a_clear_502() {
    for (garbage, part) in [
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(), "not HTTP"),
        (whole("200 OK", "text/html", "<html>"), "text/html"),
        (whole("200 OK", "application/json", "{\"a\":"), "not JSON"),
        (whole("302 Found", "application/json", "{}"), "302"),
        (whole("204 No Content", "application/json", ""), "204"),
        (
            whole("200 OK", "application/json\r\ncontent-encoding: gzip", "{}"),
            "compressed",
        ),
        (
            format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000)),
            "answer",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n".to_owned(),
            "",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{}".to_owned(),
            "broke off",
        ),
    ] {
        let text = garbage.clone();
        let fake = Fake::new(move |_, socket| {
            socket.write_all(text.as_bytes()).unwrap();
            false
        });
        let harness = Harness::new(&fake);
        let (status, _, text) = harness.call(MESSAGES, "", SMALL);
        assert_eq!(status, 502, "{garbage:.60}: {text}");
        assert!(message(&text).contains(part), "{garbage:.60}: {text}");
        assert_eq!(fake.count(), 1, "{garbage:.60}");
    }
}

#[test]
fn errors_of_the_upstream_pass_and_other_texts_do_not() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let fake = Fake::new(move |_, socket| {
        let head = format!(
            "HTTP/1.1 529 Overloaded\r\ncontent-type: application/json\r\nretry-after: 7\r\nset-cookie: a=b\r\nx-ratelimit-remaining: 1\r\ncontent-length: {}\r\n\r\n{error}",
            error.len()
        );
        socket.write_all(head.as_bytes()).is_ok()
    });
    let (status, head, text) = Harness::new(&fake).call(MESSAGES, "", SMALL);
    assert_eq!((status, text.as_str()), (529, error));
    assert_eq!(
        (
            header(&head, "retry-after"),
            header(&head, "x-ratelimit-remaining"),
            header(&head, "set-cookie")
        ),
        (Some("7"), Some("1"), None)
    );
    for body in [
        "<html>bad gateway</html>".to_owned(),
        format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#),
    ] {
        let fake = Fake::new(move |_, socket| {
            socket
                .write_all(whole("401 Unauthorized", "application/json", &body).as_bytes())
                .is_ok()
        });
        let (status, _, text) = Harness::new(&fake).call(MESSAGES, "", SMALL);
        assert_eq!(status, 401);
        assert!(!text.contains(KEY) && message(&text).contains("401"), "{text}");
    }
}

#[test]
fn hosted_results_and_the_key_do_not_come_back() {
    for (protocol, path, request, answer) in [
        (
            Protocol::Anthropic,
            MESSAGES,
            SMALL.to_owned(),
            r#"{"content":[{"type":"web_search_tool_result","content":[]}]}"#.to_owned(),
        ),
        (
            Protocol::Openai,
            "/v1/responses",
            bodies::codex().to_string(),
            r#"{"output":[{"type":"mcp_call","output":"x"}]}"#.to_owned(),
        ),
        (
            Protocol::Gemini,
            "/v1beta/models/g:generateContent",
            bodies::gemini().to_string(),
            r#"{"candidates":[{"groundingMetadata":{"webSearchQueries":["x"]}}]}"#.to_owned(),
        ),
        (
            Protocol::Anthropic,
            MESSAGES,
            SMALL.to_owned(),
            format!(r#"{{"content":[{{"type":"text","text":"{KEY}"}}]}}"#),
        ),
    ] {
        let fake = Fake::new(move |_, socket| {
            socket
                .write_all(whole("200 OK", "application/json", &answer).as_bytes())
                .is_ok()
        });
        let harness = Harness::new(&fake);
        let (status, _, text) = harness.call(path, "", &request);
        assert_eq!(status, 400, "{protocol:?}");
        assert!(!text.contains(KEY));
        assert!(["hosted-result", "key-echo"].contains(&harness.refusal().as_str()));
    }
}

#[test]
fn a_huge_answer_is_bounded() {
    let fake = Fake::new(|_, socket| {
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10000000000\r\n\r\n")
            .unwrap();
        let block = vec![b' '; 1 << 20];
        let mut written = 0u64;
        while socket.write_all(&block).is_ok() {
            written += block.len() as u64;
            assert!(written < 1 << 30, "the gateway read a gigabyte");
        }
        false
    });
    let (status, _, text) = Harness::new(&fake).call(MESSAGES, "", SMALL);
    assert!(status == 502 && message(&text).contains("larger than"), "{text}");
}

#[test]
fn a_base_of_a_compatible_server_is_joined_once() {
    let fake = Fake::json(r#"{"ok":true}"#);
    let mut start = start(fake.address);
    start.upstreams[1].base = format!("http://{}/openai/v1/", fake.address);
    let harness = Harness::with(start, Limits::default(), fake.address);
    assert_eq!(
        harness.call("/v1/chat/completions", "", &bodies::chat().to_string()).0,
        200
    );
    assert!(
        fake.last()
            .head
            .starts_with("POST /openai/v1/chat/completions HTTP/1.1"),
        "{}",
        fake.last().head
    );
}

#[test]
fn the_gateway_ends_with_the_launcher() {
    let fake = Fake::json(ANSWER);
    let Harness { address, launcher, .. } = Harness::new(&fake);
    drop(launcher);
    let end = Instant::now() + Duration::from_secs(5);
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < end, "it still listens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_launcher_that_does_not_read_stops_calls_not_data() {
    let fake = Fake::json(ANSWER);
    let harness = Harness::new(&fake);
    let mut agent = harness.agent();
    let mut status = 200;
    for _ in 0..20_000 {
        status = call(&mut agent, MESSAGES, "", SMALL).0;
        if status != 200 {
            break;
        }
    }
    assert_eq!(status, 400, "calls were forwarded that nobody can record");
    let forwarded = fake.count();
    let events = (0..forwarded)
        .filter(|_| matches!(harness.event(), FromGateway::Call { status: 200, .. }))
        .count();
    assert_eq!(events, forwarded);
}
