//! Findings as JUnit XML, as CI systems read it: one suite per role and mode, one case per attempt.

use super::judge::{Judgement, Verdict};
use super::report;
use crate::cli::output::xml as escaped;
use std::fmt::Write;

/// The file's content.
pub(super) fn text(judgement: &Judgement) -> String {
    let mut suites: Vec<(String, String, [usize; 4])> = Vec::new();
    for finding in &judgement.findings {
        let place = report::place(finding);
        let at = suites.iter().position(|(name, ..)| *name == place).unwrap_or_else(|| {
            suites.push((place, String::new(), [0; 4]));
            suites.len() - 1
        });
        let (_, cases, counts) = &mut suites[at];
        let verdict = finding.verdict();
        counts[verdict as usize] += 1;
        let outcome = escaped(&report::outcome(finding));
        let message = match verdict {
            Verdict::Held => String::new(),
            Verdict::Inapplicable => format!(
                "<skipped message=\"{}\"/>",
                escaped(&finding.reason().unwrap_or_default())
            ),
            Verdict::Unexpected => format!("<error type=\"unexpected\" message=\"{outcome}\"/>"),
            Verdict::Escaped => {
                let kind = if finding.probe.is_surface() {
                    "surface"
                } else {
                    "escaped"
                };
                format!("<failure type=\"{kind}\" message=\"{outcome}\"/>")
            }
        };
        let (class, id, what) = (finding.probe.class(), finding.probe.id, escaped(finding.probe.what));
        // Writing to a string does not fail.
        let _ = writeln!(
            cases,
            "    <testcase classname=\"picktwo.verify.{class}\" name=\"{id}\" time=\"0\">{message}<system-out>{what}: \
             {outcome}</system-out></testcase>"
        );
    }
    let sum = |n: usize| suites.iter().map(|(_, _, counts)| counts[n]).sum::<usize>();
    let all = judgement.findings.len();
    let subject = match &judgement.command {
        Some(command) => escaped(&command.join(" ")),
        None => "picktwo".to_owned(),
    };
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"picktwo verify: {subject}\" tests=\"{all}\" failures=\"{}\" \
         errors=\"{}\" skipped=\"{}\" time=\"0\">\n",
        sum(Verdict::Escaped as usize),
        sum(Verdict::Unexpected as usize),
        sum(Verdict::Inapplicable as usize),
    );
    for (name, cases, counts) in &suites {
        let _ = write!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"0\">\n{cases}  </testsuite>\n",
            escaped(name),
            counts.iter().sum::<usize>(),
            counts[Verdict::Escaped as usize],
            counts[Verdict::Unexpected as usize],
            counts[Verdict::Inapplicable as usize],
        );
    }
    text.push_str("</testsuites>\n");
    text
}
