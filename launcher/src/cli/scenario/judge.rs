//! The verdict: what arrived in the session, and whether the same attack succeeds without one.

use super::play::{self, Play, Seen, Way};
use super::stage;
use crate::session::tier::Tier;
use picktwo_policies::model::Mode;
use picktwo_policies::scenario::{Check, Kind, Scenario};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a check or a scenario comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// The attack failed in the session and succeeded in the twin.
    Held,
    /// The attack succeeded in the session.
    Arrived,
    /// It proves nothing: the attack was not made, or succeeds nowhere.
    Untried,
}

impl Verdict {
    /// As people read it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Arrived => "ARRIVED",
            Self::Untried => "untried",
        }
    }
}

/// One check's verdict.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// Whose wall.
    pub(super) who: String,
    /// What was tried.
    pub(super) tried: String,
    /// `never`, `unchanged` or `arrives`.
    pub(super) kind: &'static str,
    /// The verdict.
    pub(super) verdict: Verdict,
    /// Why it is that verdict.
    pub(super) reason: String,
    /// What the agent heard in the session; for people.
    pub(super) heard: Option<String>,
}

/// One scenario's verdict.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// Its name.
    pub(super) name: String,
    /// Its title.
    pub(super) title: String,
    /// Where it is written.
    pub(super) file: String,
    /// The mode that its session started in.
    pub(super) mode: Mode,
    /// The worst of all.
    pub(super) verdict: Verdict,
    /// Check by check.
    pub(super) checks: Vec<Finding>,
    /// What went wrong beside the checks.
    pub(super) problems: Vec<String>,
    /// The session.
    pub(super) session: Option<String>,
    /// Directories that were kept.
    pub(super) kept: Vec<PathBuf>,
    /// How long both plays took.
    pub(super) seconds: f64,
}

/// Plays a scenario in a session and bare, and compares.
pub(super) fn judge(scenario: &Scenario, file: &str, tier: Option<Tier>, policy: Option<&Path>, keep: bool) -> Outcome {
    let since = Instant::now();
    let mut outcome = Outcome {
        name: scenario.name.clone(),
        title: scenario.title.value.clone(),
        file: file.to_owned(),
        mode: scenario.mode,
        verdict: Verdict::Untried,
        checks: Vec::new(),
        problems: Vec::new(),
        session: None,
        kept: Vec::new(),
        seconds: 0.0,
    };
    let missing = stage::missing(scenario.needs.iter().map(|n| n.value.as_str()));
    if !missing.is_empty() {
        outcome
            .problems
            .push(format!("it needs {}, which is not installed", missing.join(", ")));
        return outcome;
    }
    let session = play::play(scenario, Way::Session { tier, policy }, keep);
    let bare = play::play(scenario, Way::Bare, keep);
    let mut altered = false;
    for (play, where_) in [(&session, "in the session"), (&bare, "without picktwo")] {
        match play {
            Ok(play) => {
                let problems = play.problems.iter().map(|p| format!("{where_}: {p}"));
                outcome.problems.extend(problems);
                outcome.kept.extend(play.kept.clone());
                altered |= play.record == Some(false);
            }
            Err(e) => outcome.problems.push(format!("{where_}: {e}")),
        }
    }
    if altered {
        let problem = "in the session: the record does not verify";
        outcome.problems.push(problem.to_owned());
    }
    if let Ok(session) = session {
        outcome.checks = findings(&scenario.checks, &session, bare.as_ref().ok());
        outcome.session = session.session;
    }
    let is = |verdict| outcome.checks.iter().any(|f| f.verdict == verdict);
    outcome.verdict = if is(Verdict::Arrived) || altered {
        Verdict::Arrived
    } else if is(Verdict::Untried) || !outcome.problems.is_empty() || outcome.checks.is_empty() {
        Verdict::Untried
    } else {
        Verdict::Held
    };
    outcome.seconds = (since.elapsed().as_secs_f64() * 100.0).round() / 100.0;
    outcome
}

fn findings(checks: &[Check], session: &Play, bare: Option<&Play>) -> Vec<Finding> {
    let nothing = Seen::default();
    let each = checks.iter().enumerate().zip(&session.seen);
    each.map(|((n, check), inside)| {
        let outside = bare.and_then(|b| b.seen.get(n));
        let (kind, verdict, reason) = decide(&check.kind, inside, outside.unwrap_or(&nothing), outside.is_some());
        Finding {
            who: check.who.as_ref().map_or("agent", |w| &w.value).to_owned(),
            tried: check.tried.value.clone(),
            kind,
            verdict,
            reason,
            heard: heard(check, &session.heard),
        }
    })
    .collect()
}

fn decide(kind: &Kind, inside: &Seen, outside: &Seen, twin: bool) -> (&'static str, Verdict, String) {
    let (name, done, undone) = match kind {
        Kind::Arrives(..) => ("arrives", "arrived at", "did not arrive at"),
        Kind::Never(..) => ("never", "arrived at", "does not arrive at"),
        Kind::Unchanged(_) => ("unchanged", "changed:", "does not change:"),
    };
    let control = matches!(kind, Kind::Arrives(..));
    let (verdict, reason) = if control && !inside.missed.is_empty() {
        let spots = inside.missed.join(", ");
        (
            Verdict::Untried,
            format!("a control: in the session it {undone} {spots}"),
        )
    } else if !control && !inside.hit.is_empty() {
        (Verdict::Arrived, format!("{done} {}", inside.hit.join(", ")))
    } else if !twin {
        (Verdict::Untried, "there was no twin to compare with".to_owned())
    } else if !outside.missed.is_empty() {
        let spots = outside.missed.join(", ");
        (Verdict::Untried, format!("without picktwo it {undone} {spots} either"))
    } else if control {
        (Verdict::Held, format!("{done} {}", inside.hit.join(", ")))
    } else {
        (
            Verdict::Held,
            format!("without picktwo: {done} {}", outside.hit.join(", ")),
        )
    };
    (name, verdict, reason)
}

fn heard(check: &Check, heard: &BTreeMap<String, String>) -> Option<String> {
    let text = heard.get(&check.step.as_ref()?.value)?;
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("nothing").trim();
    let mut short: String = line.chars().filter(|c| !c.is_control()).take(76).collect();
    if line.chars().count() > 76 {
        short.push('…');
    }
    Some(short)
}

/// Time that all plays took.
pub(super) fn total(outcomes: &[Outcome]) -> Duration {
    Duration::from_secs_f64(outcomes.iter().map(|o| o.seconds).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(hit: &[&str], missed: &[&str]) -> Seen {
        let owned = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect();
        Seen {
            hit: owned(hit),
            missed: owned(missed),
        }
    }

    #[test]
    fn an_attack_that_succeeds_nowhere_holds_nothing() {
        let never = Kind::Unchanged(Vec::new());
        let verdict = |inside: &Seen, outside: &Seen| decide(&never, inside, outside, true).1;
        assert_eq!(verdict(&seen(&[], &["a"]), &seen(&["a"], &[])), Verdict::Held);
        assert_eq!(verdict(&seen(&["a"], &[]), &seen(&["a"], &[])), Verdict::Arrived);
        assert_eq!(verdict(&seen(&[], &["a"]), &seen(&[], &["a"])), Verdict::Untried);
        assert_eq!(
            verdict(&seen(&[], &["a", "b"]), &seen(&["a"], &["b"])),
            Verdict::Untried
        );
        assert_eq!(
            decide(&never, &seen(&[], &["a"]), &seen(&["a"], &[]), false).1,
            Verdict::Untried
        );
    }
}
