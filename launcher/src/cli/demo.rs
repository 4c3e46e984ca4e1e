//! `picktwo demo`: a whole session on embedded defaults, attacked by a hostile page, judged from outside.

use super::output::{self, Paint};
use super::scenario;
use std::process::ExitCode;

/// The scenario that is shown.
const SCENARIO: &str = "demo";

/// Runs a whole session against a hostile page, on embedded defaults, and judges it from outside.
///
/// Everything is real: the confinement, the gateway, the retriever, the records. No key and no network are needed; model,
/// page and attacker are servers on loopback. Exit code 0 only if the wall held; 125 where no tier is available. It is one of the
/// scenarios of `picktwo scenario`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Keep the directories with workspace and records
    #[arg(long)]
    keep: bool,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let paint = Paint::stdout();
    let scene = format!(
        "{}\nA gullible model reads a hostile page and does all it asks: in a session, and for comparison without picktwo.\n\n",
        paint.strong("picktwo demo")
    );
    match output::print(&scene) {
        code if code == ExitCode::SUCCESS => {}
        code => return code,
    }
    match scenario::demonstrate(SCENARIO, args.keep) {
        Ok(code) => code,
        Err(e) => output::fail(&e),
    }
}
