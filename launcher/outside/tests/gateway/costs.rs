//! What the gateway costs: printed, and held to bounds that a busy machine keeps, too.

use crate::rig::{self, Rig, SMALL};
use std::net::TcpStream;
use std::time::Instant;

const CALLS: usize = 400;

/// Median of microseconds.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn time_call(socket: &mut TcpStream) -> f64 {
    let begin = Instant::now();
    assert_eq!(rig::call(socket, "/v1/messages", SMALL).0, 200);
    begin.elapsed().as_secs_f64() * 1e6
}

/// How long after its writing each event arrives, in microseconds.
fn time_stream(socket: &mut TcpStream) -> Vec<f64> {
    let body = SMALL
        .replace("\"max_tokens\":1", "\"max_tokens\":1,\"stream\":true")
        .replace("hi", rig::TIMED);
    rig::send(socket, "/v1/messages", &body);
    rig::until(socket, b"\r\n\r\n").unwrap();
    let mut times = Vec::new();
    while let Some(event) = rig::read_chunk(socket) {
        let now = rig::START.elapsed().as_nanos() as f64;
        let event = String::from_utf8(event).unwrap();
        let written = event
            .split("\"text\":\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap();
        times.push((now - written.parse::<f64>().unwrap()) / 1e3);
    }
    times
}

/// Private memory of the process, in KiB.
fn private(rig: &Rig) -> u64 {
    let rollup = rig.proc("smaps_rollup");
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    private
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

pub(crate) fn plain() {
    let rig = Rig::spawn();
    let upstream = rig::upstream(None);
    costs("http", rig, &format!("http://{upstream}"), upstream);
}

/// Compared with a direct connection without TLS: what is added holds the encryption, too.
pub(crate) fn encrypted() {
    let rig = Rig::spawn();
    let upstream = rig::upstream(Some(rig::tls()));
    costs(
        "https",
        rig,
        &format!("https://model.test:{}", upstream.port()),
        upstream,
    );
}

fn costs(name: &str, mut rig: Rig, base: &str, upstream: std::net::SocketAddr) {
    rig.serve(base, upstream);
    let idle = private(&rig);
    let mut agent = rig.agent();
    let mut direct = rig::connect(rig::upstream(None));
    let (mut through, mut bare) = (Vec::new(), Vec::new());
    // Pairs, in turns, so that both see the same load.
    for _ in 0..CALLS {
        bare.push(time_call(&mut direct));
        through.push(time_call(&mut agent));
        rig.event();
    }
    let (through, bare) = (median(through[20..].to_vec()), median(bare[20..].to_vec()));
    let (stream, direct_stream) = (median(time_stream(&mut agent)), median(time_stream(&mut direct)));
    rig.event();
    let used = private(&rig);
    println!(
        "{name}: small request {through:.0} µs, direct {bare:.0} µs, added {:.0} µs; event {stream:.0} µs after its writing, direct \
         {direct_stream:.0} µs, added {:.0} µs; private memory idle {idle} KiB, after {} calls {used} KiB",
        through - bare,
        stream - direct_stream,
        CALLS + 1,
    );
    if !cfg!(debug_assertions) {
        assert!(through - bare < 2000.0, "the median request is more than 2 ms slower");
        assert!(
            stream - direct_stream < 1000.0,
            "the median event comes more than 1 ms later"
        );
    }
    // 0 where /proc does not show it: the process is not dumpable, so only root sees it.
    assert!(
        idle < 3 * 1024 && used < 4 * 1024,
        "{idle} KiB idle, {used} KiB after calls"
    );
}
