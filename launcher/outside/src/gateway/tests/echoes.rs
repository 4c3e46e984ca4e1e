//! An upstream that reports the request back does not give the key away.

use super::super::echo::{Echo, Watch};
use super::super::events::{Broken, Events};
use super::super::headers::copy;
use super::super::json::{ANSWER, parse, write_string};
use super::fake::*;
use super::upstreams::{MESSAGES, SMALL, message};
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use picktwo_wire::gateway::Protocol;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

/// As long as the keys of vendors.
const LONG: &str = "sk-ant-api03-Zx9_QmK4-vB7nLr2TcYw8HdJ5pGs1FaE6uXoR3iN0kMtVbCyUzWqPlOjIhGfDsA-4e7Rt2Yw9Qa";
/// Another one that begins alike.
const OTHER: &str = "sk-ant-api03-Hq2_RnL7-wC4mKs9UdXv3GeI6oFt8ZbD1yYpS5jM2lNuWaBxTzVrQkPiJgHfEcO-8f1Su6Xv3Pb";

fn escaped(text: &str) -> String {
    text.chars().map(|c| format!("\\u{:04x}", c as u32)).collect()
}

fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|b| (0..8).rev().map(move |n| b >> n & 1))
        .collect();
    bits.chunks(6)
        .map(|six| six.iter().fold(0, |n, bit| n << 1 | usize::from(*bit)) << (6 - six.len()))
        .map(|n| char::from(ALPHABET[n]))
        .collect()
}

/// The spellings of a key that are found.
fn spellings(key: &str) -> Vec<String> {
    vec![
        key.to_owned(),
        key.to_uppercase(),
        key.replace('-', ""),
        key.replace('-', "%2D"),
        key.replace('-', "_"),
        key.bytes().map(|b| format!("%{b:02X}")).collect(),
        key.bytes().map(|b| format!("%25{b:02x}")).collect(),
        key.bytes().map(|b| format!("{b:02x}")).collect(),
        key.bytes().map(|b| format!("{b:02X} ")).collect(),
        key.bytes().map(|b| format!("\\x{b:02x}")).collect(),
        key.bytes().map(|b| format!("&#{b};")).collect(),
        key.bytes().map(|b| format!("&#x{b:x};")).collect(),
        key.chars().map(|c| format!("{c} ")).collect(),
        escaped(key),
        escaped(&escaped(key)),
        encode(key.as_bytes()),
        encode(format!("a{key}").as_bytes()),
        encode(format!("ab{key}").as_bytes()),
        encode(format!("Bearer {key}").as_bytes()),
    ]
}

/// Whether the key is found in the answer and in the only event of a stream.
fn found(key: &str, document: &str) -> bool {
    let echo = Arc::new(Echo::new(key));
    let value = parse(document.as_bytes(), ANSWER).unwrap();
    let mut watch = Watch::new(echo.clone());
    let whole = watch.bytes(document.as_bytes()) || watch.document(&value);
    let mut events = Events::new(Protocol::Anthropic, echo);
    let streamed = events.push(Bytes::from(format!("data: {document}\n\n"))) == Err(Broken::Key);
    assert_eq!(whole, streamed, "{document}");
    whole
}

#[test]
fn the_key_is_found_in_every_usual_spelling() {
    for key in [KEY, LONG] {
        for (ours, theirs) in spellings(key).iter().zip(spellings(OTHER)) {
            for shape in [r#"{"content":[{"text":@}]}"#, r#"{"content":{@:1}}"#, "[1,[@]]"] {
                let document = |text: &str| {
                    let mut written = Vec::new();
                    write_string(text, &mut written);
                    shape.replace('@', &String::from_utf8(written).unwrap())
                };
                assert!(found(key, &document(&format!("key: {ours}."))), "{ours}");
                assert!(!found(key, &document(&format!("key: {theirs}."))), "{theirs}");
            }
        }
        for (ours, theirs) in [
            (escaped(key), escaped(OTHER)),
            (key.replace('-', "\\u002d"), OTHER.replace('-', "\\u002d")),
        ] {
            assert!(found(key, &format!("{{\"a\":\"{ours}\"}}")));
            assert!(!found(key, &format!("{{\"a\":\"{theirs}\"}}")));
        }
    }
}

#[test]
fn what_only_resembles_the_key_passes() {
    for text in [
        "sk-ant-api03-...",
        "sk-ant-api03-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "set ANTHROPIC_API_KEY=sk-ant-api03-YOUR_KEY_HERE",
        "c2stYW50LWFwaTAzLQ==",
        "736b2d616e742d61706930332d",
        &LONG[..30],
    ] {
        assert!(!found(LONG, &format!("{{\"text\":\"{text}\"}}")), "{text}");
    }
    assert!(found(LONG, &format!("{{\"text\":\"{}\"}}", &LONG[..40])));
    assert!(found(LONG, &format!("{{\"text\":\"{}\"}}", &LONG[40..])));
    // A key of words is found as it is written only, a short one not at all, and of a token what all tokens have in common passes.
    assert!(found("not-needed-here", r#"["Not-needed-here"]"#));
    assert!(!found("not-needed-here", r#"["not needed here"]"#));
    assert!(!found("ollama", r#"["ollama"]"#) && !found("", r#"["", "a"]"#));
    let token =
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.Zx9QmK4vB7nLr2TcYw8HdJ5pGs1FaE6uXoR3iN0k";
    assert!(!found(
        token,
        r#"["eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0"]"#
    ));
    assert!(found(token, &format!("[\"{token}\"]")));
}

#[test]
fn a_key_in_pieces_is_found() {
    let delta = |index: usize, text: &str| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    };
    let chat = |index: usize, text: &str| {
        format!("data: {{\"id\":\"c1\",\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let line = |_: usize, text: &str| format!(": {text}\n\n");
    let pieces = |key: &str, size: usize, event: &dyn Fn(usize, &str) -> String, turns: usize| -> String {
        let pieces: Vec<String> = key
            .as_bytes()
            .chunks(size)
            .map(|piece| String::from_utf8(piece.to_vec()).unwrap())
            .collect();
        // With turns, another block says something in between.
        pieces
            .iter()
            .map(|piece| event(0, piece) + &(1..turns).map(|n| event(n, "other words")).collect::<String>())
            .collect()
    };
    let result = |stream: &str| {
        let mut events = Events::new(Protocol::Anthropic, Arc::new(Echo::new(LONG)));
        let mut passed = String::new();
        for event in stream.split_inclusive("\n\n") {
            match events.push(Bytes::copy_from_slice(event.as_bytes())) {
                Ok(bytes) => passed.push_str(std::str::from_utf8(&bytes).unwrap()),
                Err(broken) => return Err((broken, passed.matches("data: ").count())),
            }
        }
        Ok(())
    };
    for size in [1, 5, 20] {
        for (event, turns) in [
            (&delta as &dyn Fn(usize, &str) -> String, 1),
            (&delta, 2),
            (&chat, 1),
            (&chat, 3),
            (&line, 1),
        ] {
            let (broken, passed) = result(&pieces(LONG, size, event, turns)).unwrap_err();
            assert_eq!(broken, Broken::Key);
            // Less than half of it went out.
            assert!(passed / turns * size < LONG.len() / 2, "{passed} pieces of {size}");
            assert_eq!(result(&pieces(OTHER, size, event, turns)), Ok(()));
        }
    }
    // Several lines of one event, several texts of one answer.
    for key in [LONG, OTHER] {
        let (a, b) = key.split_at(40);
        let (b, c) = b.split_at(10);
        let lines = format!(
            "data: [\"{}\",\ndata: \"{}\",\ndata: \"{}\"]\n\n",
            escaped(&a[20..]),
            b,
            escaped(&c[..10])
        );
        assert_eq!(result(&lines).is_err(), key == LONG);
        let blocks = format!(
            r#"{{"content":[{{"type":"text","text":"{}"}},{{"type":"text","text":"{b}"}},{{"type":"text","text":"{}"}}]}}"#,
            &a[20..],
            &c[..10]
        );
        assert_eq!(found(LONG, &blocks), key == LONG);
    }
}

#[test]
fn headers_that_do_not_look_as_they_should_are_left_out() {
    let echo = Echo::new(KEY);
    let copied = |name: &str, value: &str| {
        let (mut from, mut to) = (HeaderMap::new(), HeaderMap::new());
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        from.insert(&name, HeaderValue::from_str(value).unwrap());
        copy(&from, &mut to, &echo);
        to.get(name).is_some_and(|copy| copy == value)
    };
    for (name, value) in [
        ("retry-after", "7"),
        ("retry-after", "0.5"),
        ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("retry-after-ms", "1500"),
        ("x-should-retry", "true"),
        ("request-id", "req_011CSHoEeqs5C35K2UUqR7Fy"),
        ("x-request-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("x-ratelimit-reset-requests", "12ms"),
        ("x-ratelimit-reset-requests", "1h2m3.5s"),
        ("anthropic-ratelimit-requests-reset", "2026-01-27T12:00:00Z"),
        ("anthropic-ratelimit-tokens-reset", "2026-01-27T12:00:00.25+01:00"),
        ("anthropic-ratelimit-unified-status", "allowed_warning"),
        ("anthropic-ratelimit-unified-5h-utilization", "0.25"),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
    ] {
        assert!(copied(name, value), "{name}: {value}");
    }
    for name in [
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "request-id",
        "x-request-id",
        "x-ratelimit-limit-requests",
        "anthropic-ratelimit-unified-status",
    ] {
        for key in spellings(KEY) {
            assert!(!copied(name, key.trim_end()), "{name}: {key}");
        }
    }
    for (name, value) in [
        ("x-ratelimit-sk-real-key-0123456789", "1"),
        ("anthropic-ratelimit-", "1"),
        ("retry-after", "soon"),
        ("retry-after", "12345678901234567890"),
        ("retry-after", "Sun, 06 Xyz 1994 08:49:37 GMT"),
        ("retry-after-ms", "1s"),
        ("x-ratelimit-reset-tokens", "6x"),
        ("x-ratelimit-reset-tokens", "."),
        ("anthropic-ratelimit-requests-reset", "2026-01-27T12:00:00Zabc"),
        ("anthropic-ratelimit-unified-status", "anything"),
        ("request-id", "a b"),
        ("request-id", ""),
        ("set-cookie", "a=b"),
        ("location", "/"),
    ] {
        assert!(!copied(name, value), "{name}: {value}");
    }
    assert!(!copied("request-id", &"a".repeat(65)) && copied("request-id", &"a".repeat(64)));
}

#[test]
fn an_upstream_that_reports_the_request_back_shows_no_key() {
    for (status, kind, stream) in [
        ("200 OK", "application/json", false),
        ("200 OK", "text/@", false),
        ("200 OK", "@/json", false),
        ("200 OK", "text/event-stream", true),
        ("302 Found", "@", false),
        ("401 Unauthorized", "application/json", false),
        ("401 Unauthorized", "text/@", false),
    ] {
        for spelling in spellings(KEY).iter().chain([&"harmless".to_owned()]) {
            let mut body = b"{\"type\":\"message\",\"text\":".to_vec();
            write_string(&format!("key {spelling}"), &mut body);
            let body = String::from_utf8(body).unwrap() + "}";
            let body = if stream { format!("data: {body}\n\n") } else { body };
            let head = spelling.trim_end();
            let kind = kind.replace('@', head);
            let headers = format!(
                "{kind}\r\nx-echo: {head}\r\nrequest-id: {head}\r\nretry-after: {head}\r\nx-ratelimit-reset-tokens: {head}\r\n\
                 location: /{head}\r\nset-cookie: k={head}"
            );
            let answer = whole(status, &headers, &body);
            let fake = Fake::new(move |_, socket| socket.write_all(answer.as_bytes()).is_ok());
            let (_, head, text) = Harness::new(&fake).call(MESSAGES, "", SMALL);
            let all = format!("{head}{text}");
            assert_eq!(
                all.contains(spelling.trim_end()),
                spelling == "harmless" && (kind == "application/json" || stream || head.contains("harmless")),
                "{status} {kind}: {all}"
            );
            assert!(!Echo::new(KEY).is_in(all.as_bytes()), "{status} {kind}: {all}");
            assert_eq!(
                head.contains("request-id: harmless"),
                spelling == "harmless" && !all.contains("picktwo: ")
            );
            if kind.starts_with("text/") && status.starts_with("200") && !stream {
                assert!(message(&text).contains("not known"), "{text}");
            }
        }
    }
}

#[test]
fn looking_for_the_key_takes_little() {
    let text = "A sentence of a model, with skills and antennas, is looked at. ".repeat(64 << 10);
    let document = format!("{{\"text\":\"{text}\"}}");
    let begin = Instant::now();
    assert!(!found(LONG, &document));
    let one = begin.elapsed() / 2;
    println!("{} MiB: {one:?}", document.len() >> 20);
    assert!(one.as_secs() < 10, "{one:?}");
}
