//! `picktwo doctor`: what this machine can enforce, and why.

use super::output::{self, Paint};
use crate::session::bounds::Means;
use crate::session::tier::{self, Tier};
use picktwo_confine::landlock;
use std::process::ExitCode;

/// Shows the tier that sessions run in on this machine, what holds in it, and what is missing.
///
/// Exit code 0 if sessions can run here, in whatever tier; 125 if they cannot.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print a JSON object: tier, landlock, missing, weaker, limits, kernel
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let best = tier::best();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim();
    let abi = landlock::abi().ok();
    let missing = match &best {
        Ok(choice) => choice.instead_of_full.as_ref(),
        Err(missing) => Some(missing),
    };
    let weaker: &[&str] = match &best {
        Ok(choice) => choice.tier.weaker(),
        Err(_) => &[],
    };
    let means = best.as_ref().ok().map(|choice| Means::find(choice.tier));
    let text = if args.json {
        let value = serde_json::json!({
            "tier": best.as_ref().map(|choice| choice.tier.to_string()).ok(),
            "landlock": abi,
            "landlock_floor": landlock::FLOOR,
            "kernel": kernel,
            "missing": missing.map(ToString::to_string),
            "weaker": weaker,
            "limits": means.as_ref().map(|means| serde_json::json!({
                "memory": means.of_memory(),
                "processes": means.of_processes(),
            })),
        });
        format!("{value:#}\n")
    } else {
        let paint = Paint::stdout();
        let mut rows = vec![
            vec!["kernel".to_owned(), kernel.to_owned()],
            vec![
                "Landlock".to_owned(),
                abi.map_or("none".to_owned(), |n| format!("ABI {n} (needed: {})", landlock::FLOOR)),
            ],
        ];
        let tier = match best.as_ref().map(|choice| choice.tier) {
            Ok(Tier::Full) => "full: namespaces, Landlock, seccomp with granted calls; everything holds".to_owned(),
            Ok(Tier::Container) => "container: Landlock, seccomp with granted calls; no namespaces".to_owned(),
            Ok(Tier::Nested) => {
                "nested: namespaces, Landlock, seccomp; no granted calls, so read-only sessions without web tools"
                    .to_owned()
            }
            Err(e) => format!("none: {e}"),
        };
        rows.push(vec!["tier".to_owned(), tier]);
        if let (Ok(_), Some(missing)) = (&best, missing) {
            rows.push(vec!["why".to_owned(), missing.to_string()]);
        }
        rows.extend(weaker.iter().map(|line| vec!["weaker".to_owned(), (*line).to_owned()]));
        let bounds = means.iter().flat_map(Means::describe);
        rows.extend(bounds.map(|line| vec!["limits".to_owned(), line]));
        if let Some(note) = newer_rights(abi) {
            rows.push(vec!["newer".to_owned(), note]);
        }
        let table = output::table(&rows);
        match &best {
            Ok(_) => format!("{table}\n{}\n", paint.good("Sessions can run here.")),
            Err(_) => format!("{table}\n{}\n", paint.bad("Sessions cannot run here.")),
        }
    };
    match (output::print(&text), best) {
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
