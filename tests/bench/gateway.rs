//! What the gateway adds: small requests and streamed events, through it and directly to the same server.

use crate::measure::{Bench, median};
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

const REQUESTS: usize = 200;
const EVENTS: usize = 100;

/// Prints the medians.
pub(crate) fn latency(bench: &Bench) -> Result<()> {
    println!("\ngateway, {REQUESTS} requests on one connection and {EVENTS} streamed events, through it / direct");
    if crate::measure::find("python3").is_none() {
        println!("  not run: python3 is not installed (the client inside)");
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(&stream));
        }
    });
    let client = bench.dir().join("work/client.py");
    std::fs::create_dir_all(bench.work())?;
    std::fs::write(&client, CLIENT)?;
    let upstream = format!("http://{address}");
    let read = |mut command: std::process::Command| -> Result<Vec<f64>> {
        let output = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?
            .wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.split_whitespace().filter_map(|v| v.parse().ok()).collect())
    };
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        through.push(read(bench.session_with_gateway(&upstream, "python3", &["client.py"]))?);
        let mut bare = bench.bare("python3", &["client.py"]);
        bare.env("ANTHROPIC_BASE_URL", &upstream);
        direct.push(read(bare)?);
    }
    for (i, name) in ["request", "event lag"].iter().enumerate() {
        let column = |rows: &[Vec<f64>]| median(&mut rows.iter().filter_map(|r| r.get(i).copied()).collect::<Vec<_>>());
        let (ours, theirs) = (column(&through), column(&direct));
        println!(
            "  {name:<34} {ours:>9.3} ms {theirs:>9.3} ms   {:>+8.3} ms",
            ours - theirs
        );
    }
    Ok(())
}

/// Answers messages: streamed ones with events that carry the time they were written at.
fn serve(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let streamed = body.windows(13).any(|w| w == b"\"stream\":true");
        let done = if streamed {
            stream_events(stream)
        } else {
            answer(stream)
        };
        if done.is_err() {
            return;
        }
    }
}

fn answer(mut stream: &TcpStream) -> Result<()> {
    let body = r#"{"id":"m","type":"message","role":"assistant","model":"claude-bench","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}"#;
    stream.write_all(
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    )
}

fn stream_events(mut stream: &TcpStream) -> Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    for _ in 0..EVENTS {
        std::thread::sleep(Duration::from_millis(3));
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        let event = format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{now}\"}}}}\n\n"
        );
        stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
    }
    stream.write_all(b"0\r\n\r\n")?;
    Ok(())
}

/// Prints the median request and the median lag of an event, in milliseconds.
const CLIENT: &str = r#"
import http.client, json, os, re, statistics, time, urllib.parse
url = urllib.parse.urlparse(os.environ["ANTHROPIC_BASE_URL"])
c = http.client.HTTPConnection(url.hostname, url.port)
c.connect()
c.sock.setsockopt(6, 1, 1)
def ask(stream):
    body = {"model": "claude-bench", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    if stream:
        body["stream"] = True
    c.request("POST", "/v1/messages", json.dumps(body, separators=(",", ":")), {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "k"})
    return c.getresponse()
times = []
for i in range(220):
    t = time.perf_counter()
    r = ask(False)
    r.read()
    assert r.status == 200, r.status
    if i >= 20:
        times.append((time.perf_counter() - t) * 1e3)
lags = []
r = ask(True)
for line in r:
    m = re.search(rb'"text":"(\d+)"', line)
    if m:
        lags.append((time.time_ns() - int(m.group(1))) / 1e6)
print(statistics.median(times), statistics.median(lags))
"#;
