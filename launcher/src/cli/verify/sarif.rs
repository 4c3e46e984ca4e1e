//! What did not hold, as SARIF 2.1.0 (OASIS), for code scanning.

use super::catalogue;
use super::judge::{Finding, Judgement, Verdict};
use super::report;
use serde_json::{Value, json};

/// What a finding is shown at: the file that a project answers with.
const PLACE: &str = crate::names::PROJECT_POLICY;

/// The file's content.
pub(super) fn text(judgement: &Judgement) -> String {
    format!("{:#}\n", value(judgement))
}

fn level(finding: &Finding) -> &'static str {
    match finding.verdict() {
        Verdict::Escaped if !finding.probe.is_surface() => "error",
        Verdict::Escaped | Verdict::Unexpected => "warning",
        Verdict::Held | Verdict::Inapplicable => "none",
    }
}

fn value(judgement: &Judgement) -> Value {
    let mut ids: Vec<&str> = judgement.findings.iter().map(|f| f.probe.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let rules: Vec<Value> = ids
        .iter()
        .filter_map(|id| picktwo_confine::probes::find(id))
        .map(|probe| {
            let classes = catalogue::of(probe);
            let tags: Vec<&str> = std::iter::once("security")
                .chain(classes.iter().map(|c| c.id))
                .collect();
            json!({
                "id": probe.id,
                "shortDescription": {"text": probe.what},
                "fullDescription": {"text": catalogue::told(probe)},
                "help": {"text": format!("picktwo verify --explain {}", probe.id)},
                "defaultConfiguration": {"level": if probe.is_surface() { "warning" } else { "error" }},
                "properties": {"tags": tags},
            })
        })
        .collect();
    let failed = |f: &&Finding| matches!(f.verdict(), Verdict::Escaped | Verdict::Unexpected);
    let results: Vec<Value> = judgement
        .findings
        .iter()
        .filter(failed)
        .map(|f| {
            let place = report::place(f);
            let name = format!("{place}/{}", f.probe.id);
            json!({
                "ruleId": f.probe.id,
                "ruleIndex": ids.iter().position(|id| *id == f.probe.id),
                "kind": "fail",
                "level": level(f),
                "message": {"text": format!("{place}: {} ({})", f.probe.what, report::outcome(f))},
                "locations": [{
                    "physicalLocation": {"artifactLocation": {"uri": PLACE}, "region": {"startLine": 1}},
                    "logicalLocations": [{"fullyQualifiedName": name}],
                }],
                "partialFingerprints": {"picktwoProbe/v1": name},
            })
        })
        .collect();
    let mut run = json!({
        "tool": {"driver": {
            "name": "picktwo verify",
            "version": env!("CARGO_PKG_VERSION"),
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "informationUri": env!("CARGO_PKG_REPOSITORY"),
            "rules": rules,
        }},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": true}],
        "results": results,
    });
    if let Some(command) = &judgement.command {
        run["invocations"][0]["arguments"] = json!(command);
    }
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    })
}
