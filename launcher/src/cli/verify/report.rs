//! What was found, for people and for programs.

use super::judge::{self, Control, Finding, Got, Judgement, Rule, Verdict};
use crate::cli::output::{Paint, table};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn outcome(finding: &Finding) -> String {
    let got = match &finding.got {
        Got::Outcome(outcome) => judge::shown(outcome),
        Got::Nothing => "no answer".to_owned(),
    };
    match &finding.effect {
        Some(effect) => format!("{got}; {effect}"),
        None => got,
    }
}

pub(super) fn place(finding: &Finding) -> String {
    match finding.place.mode() {
        Some(mode) => format!("{}, {mode}", finding.place.role()),
        None => finding.place.role().to_owned(),
    }
}

/// How many findings have each verdict.
pub(super) fn counts<'a>(findings: impl Iterator<Item = &'a Finding>) -> [usize; 4] {
    let mut counts = [0; 4];
    for finding in findings {
        counts[finding.verdict() as usize] += 1;
    }
    counts
}

/// Counts of distinct probes per role: one is held if it is in every mode in which it is tried.
pub(super) fn by_role(findings: &[Finding]) -> BTreeMap<&'static str, [usize; 4]> {
    let mut worst: BTreeMap<(&str, &str), Verdict> = BTreeMap::new();
    for finding in findings {
        let entry = worst
            .entry((finding.place.role(), finding.probe.id))
            .or_insert(Verdict::Held);
        *entry = (*entry).max(finding.verdict());
    }
    let mut roles: BTreeMap<&'static str, [usize; 4]> = BTreeMap::new();
    for finding in findings {
        roles.entry(finding.place.role()).or_default();
    }
    for ((role, _), verdict) in worst {
        if let Some(counts) = roles.get_mut(role) {
            counts[verdict as usize] += 1;
        }
    }
    roles
}

/// The table, the names of everything that was not held, and one sentence.
pub(super) fn people(judgement: &Judgement, paint: Paint) -> String {
    let findings = &judgement.findings;
    let mut groups: Vec<(&str, String)> = Vec::new();
    for finding in findings {
        let key = (finding.probe.class(), place(finding));
        if !groups.contains(&key) {
            groups.push(key);
        }
    }
    groups.sort();
    let head = ["class", "role", "held", "inapplicable", "unexpected", "escaped"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (class, role) in &groups {
        let of = findings
            .iter()
            .filter(|f| f.probe.class() == *class && place(f) == *role);
        let mut row = vec![(*class).to_owned(), role.clone()];
        row.extend(counts(of).map(|n| n.to_string()));
        rows.push(row);
    }
    let mut text = table(&rows);
    for (verdict, title) in [
        (Verdict::Escaped, "Escaped"),
        (Verdict::Unexpected, "Not answered as they must be"),
        (Verdict::Inapplicable, "Inapplicable on this machine (not counted)"),
    ] {
        let lines: Vec<Vec<String>> = findings.iter().filter(|f| f.verdict() == verdict).map(line).collect();
        if lines.is_empty() {
            continue;
        }
        let title = if verdict == Verdict::Inapplicable {
            paint.warn(title)
        } else {
            paint.bad(title)
        };
        text.push_str(&format!("\n{title}\n"));
        text.push_str(&table(&lines));
    }
    text.push_str(&format!("\n{}\n", conclusion(judgement, paint)));
    text
}

fn conclusion(judgement: &Judgement, paint: Paint) -> String {
    let findings = &judgement.findings;
    let held = judge::held(findings);
    if judgement.command.is_some() {
        let [held_count, inapplicable, unexpected, escaped] = counts(findings.iter());
        let verdict = if held {
            paint.good("the sandbox held")
        } else {
            paint.bad("the sandbox did not hold")
        };
        let mode = findings.iter().find_map(|f| f.place.mode()).unwrap_or_default();
        return format!(
            "{verdict}, judged in {mode} mode: {held_count} held, {escaped} escaped ({} of them kernel surface only), {unexpected} \
             unanswered, {inapplicable} inapplicable; `picktwo verify --explain ID` explains one",
            surface(findings)
        );
    }
    let roles = by_role(findings);
    let named: Vec<String> = roles
        .iter()
        .map(|(role, [held, ..])| format!("{held} as {role}"))
        .collect();
    let sum: usize = roles.values().map(|counts| counts[0]).sum();
    let verdict = if held {
        paint.good("the wall held")
    } else {
        paint.bad("the wall did not hold")
    };
    format!(
        "{verdict}: {sum} escapes refused that succeed outside ({})",
        named.join(", ")
    )
}

/// Escapes that reach nothing by themselves.
fn surface(findings: &[Finding]) -> usize {
    let through = |f: &&Finding| f.verdict() == Verdict::Escaped && f.probe.is_surface();
    findings.iter().filter(through).count()
}

fn line(finding: &Finding) -> Vec<String> {
    let last = match finding.reason() {
        Some(reason) => reason,
        None => {
            let wanted = judge::wanted(finding.expected).join(" or ");
            match finding.rule {
                Rule::Exact => format!("must be {wanted}"),
                Rule::AnyRefusal { .. } => format!("in picktwo {wanted}"),
            }
        }
    };
    vec![
        format!("  {}", finding.probe.id),
        place(finding),
        outcome(finding),
        last,
        finding.probe.what.to_owned(),
    ]
}

/// The stable form, described in docs/VERIFY.md: `probes` in a fixed order, `summary` per role.
pub(super) fn json(judgement: &Judgement) -> Value {
    let findings = &judgement.findings;
    let probes: Vec<Value> = findings
        .iter()
        .map(|f| {
            json!({
                "id": f.probe.id,
                "class": f.probe.class(),
                "threats": f.probe.threats.split(' ').collect::<Vec<_>>(),
                "what": f.probe.what,
                "surface": f.probe.is_surface(),
                "role": f.place.role(),
                "mode": f.place.mode(),
                "verdict": f.verdict().word(),
                "reason": f.reason(),
                "expected": judge::wanted(f.expected),
                "got": match &f.got { Got::Outcome(o) => judge::shown(o), Got::Nothing => "no answer".to_owned() },
                "effect": f.effect,
                "control": match &f.control { Control::Succeeded => "succeeded".to_owned(), Control::Failed(o) => judge::shown(o) },
            })
        })
        .collect();
    let summary: BTreeMap<&str, Value> = by_role(findings)
        .into_iter()
        .map(|(role, [held, inapplicable, unexpected, escaped])| {
            (
                role,
                json!({"held": held, "inapplicable": inapplicable, "unexpected": unexpected, "escaped": escaped}),
            )
        })
        .collect();
    json!({
        "version": 1,
        "command": judgement.command,
        "tier": judgement.tier,
        "held": judge::held(findings),
        "summary": summary,
        "probes": probes,
    })
}
