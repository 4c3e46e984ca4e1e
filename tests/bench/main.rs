//! `cargo run --release -p picktwo-tests --bin bench`: what picktwo costs, as ratios against something run beside it in the same
//! minutes. Nothing here decides anything: figures of a busy machine are read, not asserted.
//!
//! Needs `target/release/picktwo` (or its path as the first argument). What is not installed is left out by name.

mod gateway;
mod inside;
mod measure;
mod memory;
mod work;

use measure::{Bench, find};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    if first.as_deref() == Some(std::ffi::OsStr::new("--inside")) {
        return inside::main(args);
    }
    let picktwo = first.map(PathBuf::from).unwrap_or_else(|| {
        let own = std::env::current_exe().unwrap_or_default();
        own.with_file_name("picktwo")
    });
    if !picktwo.is_file() {
        eprintln!(
            "bench: {} is not there: run `cargo build --release` first",
            picktwo.display()
        );
        return ExitCode::from(125);
    }
    match run(picktwo) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(picktwo: PathBuf) -> std::io::Result<()> {
    let bench = Bench::new(picktwo)?;
    println!(
        "Medians of interleaved runs; ratios are of paired runs. Directory: {}\n",
        bench.dir().display()
    );
    start_up(&bench)?;
    inside::calls(&bench)?;
    work::all(&bench)?;
    gateway::latency(&bench)?;
    memory::idle(&bench)
}

/// `/bin/true`: bare, under bubblewrap, in a session without and with a gateway.
fn start_up(bench: &Bench) -> std::io::Result<()> {
    println!("start-up of /bin/true");
    let bare = || bench.bare("/bin/true", &[]);
    let session = || bench.session(&[], "/bin/true", &[]);
    let with_gateway = || bench.session_with_gateway("http://127.0.0.1:9", "/bin/true", &[]);
    measure::pair("picktwo run / bare", 30, session, bare)?;
    if let Some(bwrap) = find("bwrap") {
        let peer = || {
            let mut command = bench.bare(
                &bwrap,
                &[
                    "--unshare-all",
                    "--ro-bind",
                    "/",
                    "/",
                    "--dev",
                    "/dev",
                    "--proc",
                    "/proc",
                    "/bin/true",
                ],
            );
            command.current_dir("/");
            command
        };
        measure::pair("picktwo run / bwrap", 30, session, peer)?;
    } else {
        println!("  not run: bwrap is not installed");
    }
    measure::pair("with a gateway / without", 20, with_gateway, session)
}
