//! Verdicts for people and for programs.

use super::judge::{self, Outcome, Verdict};
use crate::cli::output::{self, Paint};
use serde_json::json;
use std::fmt::Write;

fn painted(verdict: Verdict, text: &str, paint: Paint) -> String {
    match verdict {
        Verdict::Held => paint.good(text),
        Verdict::Arrived => paint.bad(text),
        Verdict::Untried => paint.warn(text),
    }
}

/// Every check of one scenario, with what the agent heard and why it is that verdict.
pub(super) fn details(outcome: &Outcome, paint: Paint) -> String {
    let mut rows = vec![["", "WHO", "TRIED"].map(str::to_owned).to_vec()];
    for f in &outcome.checks {
        rows.push([f.verdict.name(), &f.who, &f.tried].map(str::to_owned).to_vec());
    }
    let table = output::table(&rows);
    let mut lines = table.lines();
    // Writing to a string does not fail, here and below.
    let mut out = format!("{}\n", paint.faint(lines.next().unwrap_or_default()));
    for (line, f) in lines.zip(&outcome.checks) {
        let (mark, rest) = line.split_at(f.verdict.name().len());
        let _ = writeln!(out, "{}{rest}", painted(f.verdict, mark, paint));
        for note in f.heard.iter().chain([&f.reason]) {
            let _ = writeln!(out, "      {}", paint.faint(&format!("→ {}", output::plain(note))));
        }
    }
    for problem in &outcome.problems {
        let _ = writeln!(out, "{} {}", paint.warn("problem"), output::plain(problem));
    }
    for dir in &outcome.kept {
        let _ = writeln!(out, "kept: {}", output::plain(&dir.display().to_string()));
    }
    out
}

/// One line.
pub(super) fn line(outcome: &Outcome, width: usize, paint: Paint) -> String {
    let mark = format!("{:7}", outcome.verdict.name());
    let held = outcome.checks.iter().filter(|f| f.verdict == Verdict::Held).count();
    format!(
        "{}  {:width$}  {}  {}\n",
        painted(outcome.verdict, &mark, paint),
        output::plain(&outcome.name),
        output::plain(&outcome.title),
        paint.faint(&format!("{held} of {}", outcome.checks.len())),
    )
}

/// The sentence that counts.
pub(super) fn sentence(outcomes: &[Outcome], paint: Paint) -> String {
    let count = |verdict| outcomes.iter().filter(|o| o.verdict == verdict).count();
    let (arrived, untried, all) = (count(Verdict::Arrived), count(Verdict::Untried), outcomes.len());
    let scenarios = if all == 1 { "scenario" } else { "scenarios" };
    let checks: usize = outcomes.iter().map(|o| o.checks.len()).sum();
    let seconds = judge::total(outcomes).as_secs_f64();
    match (arrived, untried) {
        (0, 0) => format!(
            "{} {all} {scenarios}, {checks} checks, judged from outside; without picktwo every attack succeeds ({seconds:.1} s).\n",
            paint.good("The wall held.")
        ),
        (0, _) => format!(
            "{} {untried} of {all} {scenarios} prove nothing here.\n",
            paint.warn("Not tried.")
        ),
        _ => format!(
            "{} {arrived} of {all} {scenarios}: something arrived.\n",
            paint.bad("The wall did NOT hold.")
        ),
    }
}

/// For programs.
pub(super) fn json(outcomes: &[Outcome], tier: &str) -> String {
    let held = outcomes.iter().all(|o| o.verdict == Verdict::Held);
    format!(
        "{:#}\n",
        json!({"version": 1, "tier": tier, "held": held, "scenarios": outcomes})
    )
}

/// As JUnit XML: one suite per scenario, one case per check; what proves nothing is an error.
pub(super) fn junit(outcomes: &[Outcome]) -> String {
    let escaped = output::xml;
    let mut suites = String::new();
    let mut sums = [0; 3];
    for o in outcomes {
        let mut cases = String::new();
        let mut counts = [0; 3];
        let mut add = |name: &str, verdict: Verdict, text: &str| {
            let inner = match verdict {
                Verdict::Held => format!("<system-out>{}</system-out>", escaped(text)),
                Verdict::Arrived => format!("<failure type=\"arrived\" message=\"{}\"/>", escaped(text)),
                Verdict::Untried => format!("<error type=\"untried\" message=\"{}\"/>", escaped(text)),
            };
            counts[0] += 1;
            counts[1] += usize::from(verdict == Verdict::Arrived);
            counts[2] += usize::from(verdict == Verdict::Untried);
            let _ = writeln!(
                cases,
                "    <testcase classname=\"picktwo.scenario.{}\" name=\"{}\" file=\"{}\" time=\"0\">{inner}</testcase>",
                escaped(&o.name),
                escaped(name),
                escaped(&o.file)
            );
        };
        for f in &o.checks {
            add(&f.tried, f.verdict, &f.reason);
        }
        // A scenario that was not played at all must not look as if it had passed.
        for problem in &o.problems {
            let verdict = if o.verdict == Verdict::Arrived {
                Verdict::Arrived
            } else {
                Verdict::Untried
            };
            add("the play", verdict, problem);
        }
        let _ = write!(
            suites,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{}\">\n{cases}  </testsuite>\n",
            escaped(&o.name),
            counts[0],
            counts[1],
            counts[2],
            o.seconds
        );
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"picktwo scenario\" tests=\"{}\" failures=\"{}\" errors=\"{}\" \
         skipped=\"0\" time=\"{:.2}\">\n{suites}</testsuites>\n",
        sums[0],
        sums[1],
        sums[2],
        judge::total(outcomes).as_secs_f64()
    )
}
