//! Conversations with a launcher that is played by a thread.

use super::*;
use std::{
    io::{BufReader, Read},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

/// A tools socket whose every connection is answered by `script`, which sees the request line.
struct Launcher {
    path: PathBuf,
}

impl Launcher {
    fn start(script: impl Fn(&str, &mut UnixStream) + Send + Sync + 'static) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("picktwo-mcp-{}-{n}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let script = Arc::clone(&script);
                thread::spawn(move || {
                    let mut line = String::new();
                    BufReader::new(stream.try_clone().unwrap())
                        .read_line(&mut line)
                        .unwrap();
                    script(line.trim_end(), &mut stream);
                });
            }
        });
        Self { path }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

const ANSWER: &str = r#"{"is":"answer","answer":{"answer":[{"kind":"text","text":"It is 42.","source":0}],"sources":[{"url":"http://127.0.0.1:1/","sha256":"ab","fetched":"2026-01-01T00:00:00Z","media_type":"text/html","bytes":9}],"truncated":false}}"#;

fn answering() -> Launcher {
    Launcher::start(|line, stream| {
        assert!(line.contains("\"do\":\"fetch\""), "{line}");
        writeln!(stream, "{{\"is\":\"progress\",\"note\":\"connecting\"}}\n{ANSWER}").unwrap();
    })
}

fn talk(launcher: &Launcher, input: &[u8]) -> Vec<Value> {
    let mut output = Vec::new();
    serve(input, &mut output, &Client::new(&launcher.path)).unwrap();
    String::from_utf8(output)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn one(launcher: &Launcher, message: Value) -> Value {
    let replies = talk(launcher, message.to_string().as_bytes());
    assert_eq!(replies.len(), 1, "{replies:?}");
    replies.into_iter().next().unwrap()
}

fn fetch(id: i64, arguments: Value) -> Value {
    json!({"jsonrpc":"2.0","id":id,"method":"tools/call","params":{"name":"web_fetch","arguments":arguments}})
}

#[test]
fn the_handshake_agrees_on_a_known_revision_and_offers_the_newest_otherwise() {
    let launcher = answering();
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let reply = one(
            &launcher,
            json!({"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":asked,"capabilities":{}}}),
        );
        assert_eq!(reply["result"]["protocolVersion"], agreed);
        assert_eq!(reply["id"], "a");
        assert_eq!(reply["result"]["serverInfo"]["name"], "picktwo");
        assert!(reply["result"]["capabilities"]["tools"].is_object());
    }
    let reply = one(
        &launcher,
        json!({"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}),
    );
    assert_eq!(reply["error"]["code"], -32602);
}

#[test]
fn requests_of_the_newest_revision_need_no_handshake() {
    let launcher = answering();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let reply = one(
        &launcher,
        json!({"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":meta}}),
    );
    assert_eq!(reply["result"]["resultType"], "complete");
    assert!(
        reply["result"]["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28"))
    );
    let reply = one(
        &launcher,
        json!({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":meta}}),
    );
    assert_eq!(reply["result"]["resultType"], "complete");
    assert_eq!(reply["result"]["cacheScope"], "private");
    let reply = one(
        &launcher,
        json!({"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":meta}}),
    );
    assert_eq!(reply["error"]["code"], -32601, "ping is gone in 2026-07-28");

    let mut other = meta.clone();
    other["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let reply = one(
        &launcher,
        json!({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":other}}),
    );
    assert_eq!(reply["error"]["code"], -32022);
    assert_eq!(reply["error"]["data"]["requested"], "2031-01-01");
    let bare = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let reply = one(
        &launcher,
        json!({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":bare}}),
    );
    assert_eq!(reply["error"]["code"], -32602);
}

#[test]
fn an_answer_comes_as_an_envelope_and_typed_for_programs() {
    let launcher = answering();
    let mut message = fetch(
        7,
        json!({"url":"http://127.0.0.1:1/","question":"what is it?","budget":100}),
    );
    message["params"]["_meta"] = json!({"progressToken": "p"});
    let replies = talk(&launcher, message.to_string().as_bytes());
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert_eq!(replies[0]["method"], "notifications/progress");
    assert_eq!(
        replies[0]["params"],
        json!({"progressToken":"p","progress":1,"message":"connecting"})
    );
    let result = &replies[1]["result"];
    assert_eq!(replies[1]["id"], 7);
    assert_eq!(result["isError"], false);
    assert_eq!(result["_meta"]["picktwo/answer"]["answer"][0]["text"], "It is 42.");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("<picktwo-") && text.contains("It is 42."), "{text}");
    assert!(result.get("resultType").is_none(), "unknown to older clients");
}

#[test]
fn without_a_token_there_is_no_progress() {
    let launcher = answering();
    assert_eq!(
        talk(&launcher, fetch(1, json!({"url":"https://a/"})).to_string().as_bytes()).len(),
        1
    );
}

#[test]
fn refusals_and_failures_are_results_that_the_model_reads() {
    let launcher = Launcher::start(|line, stream| {
        let reply = if line.contains("refuse") {
            r#"{"is":"refused","rule":"unknown-host","reason":"refuse.example is not known."}"#
        } else {
            r#"{"is":"failed","cause":"timeout","reason":"slow.example did not answer in 30 s."}"#
        };
        writeln!(stream, "{reply}").unwrap();
    });
    let refused = one(&launcher, fetch(1, json!({"url":"https://refuse.example/"})));
    assert_eq!(refused["result"]["isError"], true);
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("(unknown-host)") && text.contains("do not retry"),
        "{text}"
    );
    let failed = one(&launcher, fetch(1, json!({"url":"https://slow.example/"})));
    assert_eq!(failed["result"]["isError"], true);
    let text = failed["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("(timeout)") && !text.contains("do not retry"), "{text}");
}

#[test]
fn outside_a_session_the_tool_says_so() {
    let mut output = Vec::new();
    let call = fetch(1, json!({"url":"https://a/"})).to_string();
    serve(call.as_bytes(), &mut output, &Client::new("/nonexistent/tools.sock")).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(
        text.contains("\"isError\":true") && text.contains("inside a picktwo session only"),
        "{text}"
    );
}

#[test]
fn bad_arguments_never_reach_the_launcher() {
    let launcher = Launcher::start(|line, _| panic!("the launcher was asked: {line}"));
    for (arguments, says) in [
        (json!({}), "url is missing"),
        (json!({"url": 1}), "url must be a string"),
        (json!({"url": "file:///etc/passwd"}), "http:// or https://"),
        (json!({"url": format!("http://a/{}", "a".repeat(2048))}), "at most 2048"),
        (json!({"url": "http://a/", "question": 3}), "question must be a string"),
        (
            json!({"url": "http://a/", "question": "q".repeat(1025)}),
            "at most 1024",
        ),
        (json!({"url": "http://a/", "budget": 0}), "from 1 to"),
        (json!({"url": "http://a/", "budget": -1}), "from 1 to"),
        (json!({"url": "http://a/", "budget": 4_294_967_297u64}), "from 1 to"),
        (json!({"url": "http://a/", "headers": {}}), "no argument \"headers\""),
    ] {
        let reply = one(&launcher, fetch(1, arguments));
        assert_eq!(reply["result"]["isError"], true);
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(says), "{text} lacks {says}");
    }
}

#[test]
fn malformed_input_gets_json_rpc_errors_and_the_service_goes_on() {
    let launcher = answering();
    let ping = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}",
        "m".repeat(MAX_LINE)
    );
    let deep = "[".repeat(100_000);
    for (input, code, id) in [
        ("{", -32700, Value::Null),
        ("\u{1}\u{2}", -32700, Value::Null),
        (deep.as_str(), -32700, Value::Null),
        (long.as_str(), -32600, Value::Null),
        ("[]", -32600, Value::Null),
        ("3", -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600, json!(1)),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            -32602,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#,
            -32601,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash"}}"#,
            -32602,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"web_fetch","arguments":[]}}"#,
            -32602,
            json!(1),
        ),
    ] {
        let mut replies = talk(&launcher, format!("{input}\n\n{ping}").as_bytes());
        // A tool call answers from its own thread, so the ping may be first.
        replies.sort_by_key(|r| r.get("error").is_none());
        assert_eq!(replies.len(), 2, "{input:.60}: {replies:?}");
        assert_eq!(replies[0]["error"]["code"], code, "{input:.60}: {replies:?}");
        assert_eq!(replies[0]["id"], id, "{input:.60}");
        assert_eq!(replies[1], json!({"jsonrpc":"2.0","id":9,"result":{}}));
    }
}

#[test]
fn notifications_and_stray_replies_are_not_answered() {
    let launcher = answering();
    let input = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n\
                 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}\n";
    assert_eq!(talk(&launcher, input.as_bytes()), Vec::<Value>::new());
}

#[test]
fn a_batch_gets_one_array() {
    let launcher = answering();
    let input = json!([
        {"jsonrpc":"2.0","id":1,"method":"ping"},
        {"jsonrpc":"2.0","method":"notifications/initialized"},
        5,
        fetch(2, json!({"url":"http://a/"})),
    ]);
    let replies = talk(&launcher, input.to_string().as_bytes());
    assert_eq!(replies.len(), 1);
    let replies = replies[0].as_array().unwrap();
    assert_eq!(replies.len(), 3, "{replies:?}");
    assert_eq!(replies[0]["id"], 1);
    assert_eq!(replies[1]["error"]["code"], -32600);
    assert_eq!(replies[2]["result"]["isError"], false);
}

#[test]
fn a_cancelled_call_closes_its_connection_and_gets_no_reply() {
    let (asked, was_asked) = mpsc::channel();
    let (closed, was_closed) = mpsc::channel();
    let channels = Mutex::new((asked, closed));
    let launcher = Launcher::start(move |_, stream| {
        let (asked, closed) = channels.lock().unwrap().clone();
        asked.send(()).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        closed.send(()).unwrap();
    });
    let (mut agent, input) = UnixStream::pair().unwrap();
    let client = Client::new(&launcher.path);
    let server = thread::spawn(move || {
        let mut output = Vec::new();
        serve(BufReader::new(input), &mut output, &client).unwrap();
        output
    });
    writeln!(agent, "{}", fetch(5, json!({"url":"http://a/"}))).unwrap();
    was_asked.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    writeln!(agent, "{}", fetch(5, json!({"url":"http://a/"}))).unwrap();
    writeln!(
        agent,
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":5}}}}"#
    )
    .unwrap();
    was_closed.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    drop(agent);
    let output = String::from_utf8(server.join().unwrap()).unwrap();
    let replies: Vec<Value> = output.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        replies.len(),
        1,
        "only the call that reused the id is answered: {output}"
    );
    assert_eq!(replies[0]["error"]["code"], -32600);
}

#[test]
fn too_many_calls_at_once_are_turned_away() {
    let launcher = Launcher::start(|_, stream| {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    });
    let (mut agent, input) = UnixStream::pair().unwrap();
    let (output, replies) = UnixStream::pair().unwrap();
    let client = Client::new(&launcher.path);
    let server = thread::spawn(move || serve(BufReader::new(input), output, &client).unwrap());
    let calls = i64::try_from(MAX_CALLS).unwrap();
    for id in 0..=calls {
        writeln!(agent, "{}", fetch(id, json!({"url":"http://a/"}))).unwrap();
    }
    let mut line = String::new();
    BufReader::new(replies).read_line(&mut line).unwrap();
    let reply: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(calls), &json!(-32000)));
    for id in 0..calls {
        writeln!(
            agent,
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        )
        .unwrap();
    }
    drop(agent);
    server.join().unwrap();
}

#[test]
fn no_damaged_message_breaks_the_service() {
    let launcher = answering();
    let whole = fetch(1, json!({"url":"http://a/","question":"q","budget":5}))
        .to_string()
        .into_bytes();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..300 {
        let mut line = whole.clone();
        for _ in 0..=next(4) {
            let at = next(line.len());
            match next(3) {
                0 => line[at] = b"\"{}[]:,\\0 \xff\x00e-"[next(14)],
                1 => line.truncate(at + 1),
                _ => line.insert(at, b"\"{}[]:,"[next(7)]),
            }
        }
        for reply in talk(&launcher, &line) {
            let answered = reply.get("result").is_some() != reply.get("error").is_some();
            assert!(
                reply["jsonrpc"] == "2.0" && answered,
                "{reply} to {}",
                String::from_utf8_lossy(&line)
            );
        }
    }
}

#[test]
fn a_search_reaches_the_launcher_as_one_and_bad_arguments_do_not() {
    let search = |arguments: Value| json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"web_search","arguments":arguments}});
    let launcher = Launcher::start(|line, stream| {
        assert_eq!(line, r#"{"do":"search","query":"widget limits","results":5}"#);
        writeln!(stream, "{ANSWER}").unwrap();
    });
    let reply = one(&launcher, search(json!({"query": "widget limits", "results": 5})));
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("<picktwo-"), "{reply}");
    for (arguments, why) in [
        (json!({}), "query is missing"),
        (json!({"query": "  "}), "query is missing"),
        (json!({"query": 1}), "query must be a string"),
        (json!({"query": "q".repeat(401)}), "at most 400"),
        (json!({"query": "q", "results": 21}), "from 1 to 20"),
        (json!({"query": "q", "url": "https://a/"}), "no argument \"url\""),
    ] {
        let reply = one(&launcher, search(arguments));
        assert_eq!(reply["result"]["isError"], true, "{reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(why), "{why}: {text}");
    }
}

#[test]
fn an_operation_of_github_reaches_the_launcher_checked() {
    let github = |arguments: Value| json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"github_fetch","arguments":arguments}});
    let launcher = Launcher::start(|line, stream| {
        assert_eq!(
            line,
            r#"{"do":"github","github":{"op":"file","repository":"o/n","ref":"main","path":"src/a.rs","lines":[3,9]},"question":"why?"}"#
        );
        writeln!(stream, "{ANSWER}").unwrap();
    });
    let arguments = json!({"operation": "file", "repository": "o/n", "ref": "main", "path": "src/a.rs", "lines": "3-9", "question": "why?"});
    let reply = one(&launcher, github(arguments));
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    for (arguments, why) in [
        (json!({}), "operation is missing"),
        (
            json!({"operation": "clone", "repository": "o/n"}),
            "no operation \"clone\"",
        ),
        (json!({"operation": "file", "repository": "o/n"}), "file needs path"),
        (
            json!({"operation": "file", "repository": "../n", "path": "a"}),
            "owner/name",
        ),
        (
            json!({"operation": "tags", "repository": "o/n", "lines": "1-2"}),
            "takes no lines",
        ),
        (
            json!({"operation": "issue", "repository": "o/n", "number": "7"}),
            "integer",
        ),
        (
            json!({"operation": "issues", "repository": "o/n", "state": "new"}),
            "open, closed or all",
        ),
        (
            json!({"operation": "repo", "repository": "o/n", "url": "https://a/"}),
            "no argument \"url\"",
        ),
    ] {
        let reply = one(&launcher, github(arguments));
        assert_eq!(reply["result"]["isError"], true, "{reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(why), "{why}: {text}");
    }
    let tools = one(&launcher, json!({"jsonrpc":"2.0","id":1,"method":"tools/list"}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["web_fetch", "web_search", "github_fetch"]);
}
