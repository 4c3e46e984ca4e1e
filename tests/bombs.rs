//! Servers that want to exhaust whoever asks them, and many retrievals at once: each ends in its bounds of time and memory.

use picktwo_tests::{
    pages::{Page, Pages},
    processes,
    run::{self, Finished, wait_until},
    scene::Scene,
};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(90);
/// Bytes of resident memory that no retriever reaches, whatever it reads.
const MEMORY: u64 = 512 << 20;

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// A server that answers each connection with the same bytes, after the request's head.
fn serve(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head);
                // Whoever hangs up has seen enough.
                let _ = answer(&mut stream);
            });
        }
    });
    port
}

fn head(fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{fields}\r\n").into_bytes()
}

fn fixed(fields: &str, body: Vec<u8>) -> u16 {
    let whole = [head(fields), body].concat();
    serve(move |s| s.write_all(&whole))
}

fn endless(start: Vec<u8>, piece: &'static [u8], pause: Duration) -> u16 {
    serve(move |s| {
        s.write_all(&start)?;
        loop {
            s.write_all(piece)?;
            thread::sleep(pause);
        }
    })
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// 512 MiB out of 16 KiB: zstd blocks that say one byte and how often.
fn zstd() -> Vec<u8> {
    let mut frame = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
    for _ in 0..4096 {
        frame.extend_from_slice(&((128u32 << 10) << 3 | 2).to_le_bytes()[..3]);
        frame.push(b'x');
    }
    frame
}

/// Name, port, scheme, cause, and a word of the reason.
fn servers() -> Vec<(&'static str, u16, &'static str, &'static str, &'static str)> {
    const HTML: &str = "content-type: text/html\r\n";
    let zero = Duration::ZERO;
    let chunked = head("content-type: text/html\r\ntransfer-encoding: chunked\r\n");
    let with = |encoding: &str| format!("{HTML}content-encoding: {encoding}\r\n");
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let itself = serve(|s| {
        s.write_all(b"HTTP/1.1 302 Found\r\nlocation: /page\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    vec![
        (
            "endless body",
            endless(head(HTML), &[b'a'; 8192], zero),
            "http",
            "too-large",
            "transferred",
        ),
        (
            "endless head",
            endless(
                b"HTTP/1.1 200 OK\r\n".to_vec(),
                b"x-a: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n",
                zero,
            ),
            "http",
            "too-large",
            "header",
        ),
        (
            "endless header line",
            endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), &[b'a'; 8192], zero),
            "http",
            "too-large",
            "header",
        ),
        (
            "one byte a second",
            endless(head(HTML), b"x", Duration::from_secs(1)),
            "http",
            "timeout",
            "ms",
        ),
        (
            "a head byte a second",
            endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), b"x", Duration::from_secs(1)),
            "http",
            "timeout",
            "ms",
        ),
        (
            "silence",
            serve(|_| {
                thread::sleep(LIMIT);
                Ok(())
            }),
            "http",
            "timeout",
            "ms",
        ),
        (
            "gzip",
            fixed(&with("gzip"), bomb.clone()),
            "http",
            "too-large",
            "decompression",
        ),
        (
            "zstd",
            fixed(&with("zstd"), zstd()),
            "http",
            "too-large",
            "decompression",
        ),
        (
            "two layers",
            fixed(&with("gzip, gzip"), gzip(&bomb)),
            "http",
            "encoding",
            "more than one layer",
        ),
        (
            "no gzip",
            fixed(&with("gzip"), b"plain".to_vec()),
            "http",
            "encoding",
            "malformed gzip",
        ),
        (
            "deep HTML",
            fixed(HTML, "<div>".repeat(200_000).into_bytes()),
            "http",
            "too-large",
            "nested",
        ),
        (
            "many elements",
            fixed(HTML, "<b></b>".repeat(500_000).into_bytes()),
            "http",
            "too-large",
            "too many elements",
        ),
        (
            "bad chunks",
            fixed(
                "content-type: text/html\r\ntransfer-encoding: chunked\r\n",
                b"zz\r\nx".to_vec(),
            ),
            "http",
            "protocol",
            "proper HTTP",
        ),
        (
            "endless small chunks",
            endless(chunked, b"1\r\nx\r\n", zero),
            "http",
            "timeout",
            "ms",
        ),
        (
            "wrong length",
            fixed("content-type: text/html\r\ncontent-length: 100\r\n", b"short".to_vec()),
            "http",
            "protocol",
            "proper HTTP",
        ),
        (
            "huge length",
            fixed(
                "content-type: text/html\r\ncontent-length: 99999999999\r\n",
                b"x".to_vec(),
            ),
            "http",
            "too-large",
            "transferred",
        ),
        ("redirects to itself", itself, "http", "redirect", "in a row"),
        ("no TLS", fixed(HTML, b"x".to_vec()), "https", "tls", "TLS"),
        ("hangs up", serve(|_| Ok(())), "http", "protocol", "proper HTTP"),
        (
            "UTF-7",
            fixed("content-type: text/html; charset=utf-7\r\n", b"+ADw-".to_vec()),
            "http",
            "encoding",
            "utf-7",
        ),
        (
            "binary as HTML",
            fixed(HTML, b"a\0b".to_vec()),
            "http",
            "content-type",
            "binary",
        ),
        (
            "no PDF",
            fixed("content-type: application/pdf\r\n", b"<html>".to_vec()),
            "http",
            "encoding",
            "PDF",
        ),
        (
            "broken PDF",
            fixed("content-type: application/pdf\r\n", b"%PDF-1.7\nnothing".to_vec()),
            "http",
            "encoding",
            "malformed",
        ),
    ]
}

/// The most memory that any retriever of `pid` was seen with.
fn watch(running: &mut run::Running, peak: &AtomicU64) {
    let pid = running.pid();
    wait_until(LIMIT, || {
        for process in processes::family(pid)
            .iter()
            .filter(|p| p.title == "picktwo: retriever")
        {
            let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
            let high = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
            let kib = high.and_then(|h| h.trim().trim_end_matches(" kB").parse::<u64>().ok());
            peak.fetch_max(kib.unwrap_or(0) << 10, Ordering::Relaxed);
        }
        running.ended().unwrap()
    });
}

#[test]
fn each_hostile_server_ends_in_bounds_and_with_its_own_message() {
    let scene = scene();
    let servers = servers();
    let private: Vec<String> = servers
        .iter()
        .map(|(_, port, ..)| format!("\"127.0.0.1:{port}\""))
        .collect();
    let policy = format!(
        "version = 1\n[retrieval]\nprivate = [{}]\n[limits]\nfetch_seconds = 8\n",
        private.join(", ")
    );
    scene.policy(&policy).unwrap();
    let peak = AtomicU64::new(0);
    // A few at a time: what is measured is their bounds, not the machine's.
    for few in servers.chunks(6) {
        thread::scope(|scope| {
            for (name, port, scheme, cause, word) in few {
                let (scene, peak) = (&scene, &peak);
                scope.spawn(move || {
                    let url = format!("{scheme}://127.0.0.1:{port}/page");
                    let mut running = run::start(scene.picktwo(["fetch", "--json", &url]), b"").unwrap();
                    watch(&mut running, peak);
                    let finished: Finished = running.finish(LIMIT).unwrap();
                    assert_eq!(finished.code(), 1, "{name}: {}", finished.all());
                    assert!(finished.took < Duration::from_secs(40), "{name}: {}", finished.all());
                    let reply: serde_json::Value = serde_json::from_str(&finished.stdout).expect(name);
                    assert_eq!(reply["cause"], *cause, "{name}: {}", finished.all());
                    assert!(
                        reply["reason"].as_str().unwrap_or("").contains(word),
                        "{name}: {}",
                        finished.all()
                    );
                });
            }
        });
    }
    let peak = peak.load(Ordering::Relaxed);
    assert!(peak > 0 && peak < MEMORY, "a retriever took {peak} bytes");
}

#[test]
fn a_hundred_retrievals_of_one_session_are_all_answered() {
    let scene = scene();
    let pages = Pages::start([(
        "/page",
        Page::html("<main><h1>Limits</h1><p>The spindle limit is 42 per widget.</p></main>"),
    )])
    .unwrap();
    let policy = format!("version = 1\n[retrieval]\nprivate = [\"{}\"]\n", pages.address());
    scene.policy(&policy).unwrap();
    let script = format!(
        "for i in $(seq 100); do picktwo fetch {}?n=$i > /tmp/out.$i 2>&1 & done; wait; grep -l '42 per widget' /tmp/out.* | wc -l; \
         grep -L '42 per widget' /tmp/out.* | head -n 3 | xargs -r cat",
        pages.url("/page")
    );
    let peak = AtomicU64::new(0);
    let mut running = run::start(scene.picktwo(["run", "--", "sh", "-c", &script]), b"").unwrap();
    watch(&mut running, &peak);
    let finished = running.finish(LIMIT).unwrap();
    assert_eq!(finished.stdout.trim(), "100", "{}", finished.all());
    assert_eq!(pages.requests().len(), 100);
    let peak = peak.load(Ordering::Relaxed);
    assert!(peak > 0 && peak < MEMORY / 4, "a retriever took {peak} bytes");
}
