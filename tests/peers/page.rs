//! The page: the table, who escapes by which class, and the commands.

use crate::{Judged, list::Tools};
use serde_json::Value;
use std::{collections::BTreeSet, process::Command};

/// Counts of one judgement.
struct Counts {
    held: usize,
    reached: usize,
    surface: usize,
    unanswered: usize,
    inapplicable: usize,
}

fn probes(findings: &Value) -> impl Iterator<Item = &Value> {
    findings["probes"].as_array().into_iter().flatten()
}

fn counts(findings: &Value) -> Counts {
    let count = |verdict: &str, surface: Option<bool>| {
        probes(findings)
            .filter(|p| p["verdict"] == verdict && surface.is_none_or(|s| p["surface"] == s))
            .count()
    };
    Counts {
        held: count("held", None),
        reached: count("escaped", Some(false)),
        surface: count("escaped", Some(true)),
        unanswered: count("unexpected", None),
        inapplicable: count("inapplicable", None),
    }
}

/// Escapes of a class that reach something.
fn of_class(findings: &Value, class: &str) -> usize {
    probes(findings)
        .filter(|p| p["verdict"] == "escaped" && p["surface"] == false && p["class"] == class)
        .count()
}

fn output(program: &str, args: &[&str]) -> String {
    Command::new(program).args(args).output().map_or_else(
        |_| "unknown".to_owned(),
        |o| String::from_utf8_lossy(&o.stdout).trim().to_owned(),
    )
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn head(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|c| (*c).to_owned()).collect();
    row(&cells) + &row(&vec!["---".to_owned(); cells.len()])
}

/// The whole page.
pub(crate) fn text(judged: &[Judged], tools: &Tools) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut text = format!(
        "# Other sandboxes, by the same attempts\n\nMade by `cargo run -p picktwo-tests --bin peers -- --write docs/PEERS.md` \
         (`tests/peers/install` first) on {}, Linux {}, as an ordinary user. Each sandbox is judged by `picktwo verify -- CMD`: \
         every attempt is made bare, where it must succeed, and inside; files, servers, daemons and processes that it aims at are \
         watched from the host. Any refusal holds.\n\n\"Reach something\" counts escapes that read, change or speak to something outside, \
         or write what a person's tools run later; \"kernel surface\" counts what is left open and reaches nothing by itself \
         (namespaces, unusual sockets, calls that exploits need). Sandboxes differ in what they promise: one whose manual says that it reads \
         everything is not broken because it does. The table says what an agent in it can do, not whose fault that is. What another \
         configuration would stop, it does not say either. picktwo's container tier, which needs no namespaces, shows metadata of files that it \
         does not let be opened: its escapes are those, as `picktwo doctor` says.\n\n",
        output("date", &["-u", "+%Y-%m-%d"]),
        kernel.trim()
    );
    text.push_str(&head(&[
        "sandbox",
        "version",
        "mode",
        "held",
        "reach something",
        "kernel surface",
        "unanswered",
        "inapplicable here",
    ]));
    for Judged { peer, findings } in judged {
        let mut cells = vec![peer.name.to_owned(), peer.version.clone(), peer.mode.to_owned()];
        match findings {
            Ok(findings) => {
                let c = counts(findings);
                cells.extend([c.held, c.reached, c.surface, c.unanswered, c.inapplicable].map(|n| n.to_string()));
            }
            Err(why) => {
                cells.push(why.replace('|', "/"));
                cells.extend(vec!["-".to_owned(); 4]);
            }
        }
        text.push_str(&row(&cells));
    }
    let classes: BTreeSet<&str> = judged
        .iter()
        .filter_map(|j| j.findings.as_ref().ok())
        .flat_map(probes)
        .filter(|p| p["surface"] == false)
        .filter_map(|p| p["class"].as_str())
        .collect();
    text.push_str(
        "\n## What they reach, by class\n\n`picktwo verify --list` names the attempts of a class, `picktwo verify --explain ID` explains \
         one.\n\n",
    );
    let mut names = vec!["sandbox", "mode"];
    names.extend(&classes);
    text.push_str(&head(&names));
    for Judged { peer, findings } in judged {
        if let Ok(findings) = findings {
            let mut cells = vec![peer.name.to_owned(), peer.mode.to_owned()];
            cells.extend(classes.iter().map(|class| of_class(findings, class).to_string()));
            text.push_str(&row(&cells));
        }
    }
    text.push_str(
        "\n## Commands\n\n`{workspace}`, `{shared}` and `{home}` stand for directories that the judge makes. The settings of \
         sandbox-runtime are written by `tests/peers/install`.\n\n",
    );
    text.push_str(&head(&["sandbox", "mode", "command"]));
    for Judged { peer, .. } in judged {
        let command: Vec<&str> = peer.shown.split_whitespace().collect();
        text.push_str(&row(&[
            peer.name.to_owned(),
            peer.mode.to_owned(),
            format!("`{}`", command.join(" ")),
        ]));
    }
    if tools.bwrap.is_none() {
        text.push_str("\nbubblewrap is not installed on this machine: nothing above that builds on it was judged.\n");
    }
    text
}
