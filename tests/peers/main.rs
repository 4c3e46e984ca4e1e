//! The sandboxes that people put in front of agents, judged by `picktwo verify`, as a table: `cargo run -p picktwo-tests --bin
//! peers [-- --write docs/PEERS.md]`. What is not installed is named, not left out; tests/peers/install brings what it can.

mod list;
mod page;

use list::{Peer, Tools};
use picktwo_tests::{run, scene::Scene};
use serde_json::Value;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// A sandbox that takes half a second to start is started some hundred times.
const LIMIT: Duration = Duration::from_secs(900);

/// What was found of one sandbox, or why nothing was.
pub(crate) struct Judged {
    /// Who.
    pub(crate) peer: Peer,
    /// What `picktwo verify --json` says, or one sentence.
    pub(crate) findings: Result<Value, String>,
}

fn main() -> ExitCode {
    match judge() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "peers: {e}");
            ExitCode::FAILURE
        }
    }
}

fn judge() -> Result<(), String> {
    let mut write = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next()) {
            ("--write", Some(file)) => write = Some(PathBuf::from(file)),
            _ => return Err("usage: peers [--write FILE]".to_owned()),
        }
    }
    let picktwo = std::env::current_exe()
        .map_err(|e| e.to_string())?
        .with_file_name("picktwo");
    if !picktwo.is_file() {
        return Err(format!("{} is not built: cargo build", picktwo.display()));
    }
    let scene = Scene::new(&picktwo).map_err(|e| format!("no place to judge in: {e}"))?;
    let tools = Tools::find(&scene);
    let mut judged = Vec::new();
    for peer in list::peers(&tools) {
        let _ = writeln!(io::stderr(), "judging {} …", peer.name);
        let findings = findings(&scene, &tools, &peer);
        judged.push(Judged { peer, findings });
    }
    let page = page::text(&judged, &tools);
    match write {
        Some(file) => std::fs::write(&file, page).map_err(|e| format!("cannot write {}: {e}", file.display())),
        None => io::stdout().write_all(page.as_bytes()).map_err(|e| e.to_string()),
    }
}

fn findings(scene: &Scene, tools: &Tools, peer: &Peer) -> Result<Value, String> {
    let wrapper = peer.wrapper.as_ref().map_err(Clone::clone)?;
    let mut command = scene.picktwo(["verify", "--json", "--mode", peer.mode, "--"]);
    command.args(wrapper).env("PATH", &tools.path);
    let finished = run::run(command, LIMIT).map_err(|e| e.to_string())?;
    if finished.timed_out || !matches!(finished.code(), 0 | 1) {
        let said = finished.stderr.lines().last().unwrap_or("it said nothing");
        return Err(said.trim_start_matches("picktwo: ").to_owned());
    }
    serde_json::from_str(&finished.stdout).map_err(|e| e.to_string())
}
