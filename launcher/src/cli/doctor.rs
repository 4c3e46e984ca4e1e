//! `picktwo doctor`: what this machine can enforce, and why.

use super::output::{self, Paint};
use crate::session::tier;
use picktwo_confine::landlock;
use std::process::ExitCode;

/// Shows the tier that sessions run in on this machine, what holds in it, and what is missing.
///
/// Exit code 0 if the full tier is available, 125 if not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print a JSON object: tier, landlock, missing, kernel
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let full = tier::full();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim();
    let abi = landlock::abi().ok();
    let text = if args.json {
        let value = serde_json::json!({
            "tier": full.as_ref().map(|_| "full").ok(),
            "landlock": abi,
            "landlock_floor": landlock::FLOOR,
            "kernel": kernel,
            "missing": full.as_ref().err().map(ToString::to_string),
        });
        format!("{value:#}\n")
    } else {
        let paint = Paint::stdout();
        let mut rows = vec![
            vec!["kernel".to_owned(), kernel.to_owned()],
            vec![
                "Landlock".to_owned(),
                abi.map_or("none".to_owned(), |n| {
                    format!("ABI {n} (the full tier needs {})", landlock::FLOOR)
                }),
            ],
        ];
        rows.push(match &full {
            Ok(_) => vec![
                "tier".to_owned(),
                "full: namespaces, Landlock, seccomp with granted calls; everything holds".to_owned(),
            ],
            Err(e) => vec!["tier".to_owned(), format!("none: {e}")],
        });
        if let Some(note) = newer_rights(abi) {
            rows.push(vec!["newer".to_owned(), note]);
        }
        let table = output::table(&rows);
        match &full {
            Ok(_) => format!("{table}\n{}\n", paint.good("Sessions can run here.")),
            Err(_) => format!("{table}\n{}\n", paint.bad("Sessions cannot run here.")),
        }
    };
    match (output::print(&text), full) {
        (code, Ok(_)) => code,
        (_, Err(_)) => ExitCode::from(super::EXIT_FAILED),
    }
}

/// What newer kernels add and who does it instead here.
fn newer_rights(abi: Option<u32>) -> Option<String> {
    match abi? {
        n if n >= landlock::NEWEST => None,
        _ => Some("UNIX sockets (ABI 9) are decided on by granted calls instead".to_owned()),
    }
}
