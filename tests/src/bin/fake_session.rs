//! `picktwo mcp` without a session: the real MCP server in front of a launcher that is played by a thread and gives every
//! fetch the same answer. For checking agents and their scripts without any confinement.

use picktwo_agent::{client::Client, mcp};
use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    process::ExitCode,
    thread,
};

const ANSWER: &str = "There are at most 4711 widgets.";

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "{e}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("picktwo-fake-session-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            if BufReader::new(&stream).read_line(&mut line).is_ok() {
                let _ = writeln!(stream, "{}", reply(&line));
            }
        }
    });
    let served = mcp::serve(io::stdin().lock(), io::stdout(), &Client::new(&path));
    let removed = std::fs::remove_file(&path);
    served.and(removed)
}

fn reply(request: &str) -> serde_json::Value {
    let request: serde_json::Value = serde_json::from_str(request).unwrap_or_default();
    serde_json::json!({"is": "answer", "answer": {
        "answer": [{"kind": "text", "headings": ["Limits"], "text": ANSWER, "source": 0}],
        "sources": [{
            "url": request["url"], "title": "Limits", "sha256": "00", "fetched": "2026-01-01T00:00:00Z",
            "media_type": "text/html", "bytes": 100,
        }],
        "truncated": false,
    }})
}
