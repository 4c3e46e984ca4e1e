//! picktwo itself, judged role by role.

use super::Tier;
use super::base::Base;
use super::judge::{Finding, Got, Judgement, Rule, Weaker};
use super::objects::Objects;
use super::progress::Progress;
use super::session;
use super::stage::{Layout, Stage};
use super::terminal::Terminal;
use crate::session::judged;
use picktwo_confine::Errno;
use picktwo_confine::probes::{Expected, InTier, Outcome, Place, Probe, SETTING_MARK};
use std::collections::HashMap;
use std::path::Path;

/// Tries every escape at these places.
///
/// # Errors
/// What kept them from being tried, as a sentence.
pub(super) fn verify(
    places: &[Place],
    tier: Tier,
    selected: &[&'static Probe],
    terminal: Option<&Terminal>,
    progress: &Progress,
) -> Result<Judgement, String> {
    let base = Base::new(&std::env::temp_dir()).map_err(|e| format!("cannot make a temporary directory: {e}"))?;
    let objects = Objects::new(base.path(), terminal).map_err(|e| format!("cannot prepare the attempts: {e}"))?;
    let wanted: Vec<&'static Probe> = selected
        .iter()
        .copied()
        .filter(|probe| places.iter().any(|&place| probe.expected(place).is_some()))
        .collect();
    let controls = {
        let stage = build(base.path(), "control", &objects)?;
        let made = session::controls(&stage, base.path(), &wanted, false, progress).map_err(|e| e.to_string())?;
        let made = made.into_iter().map(|(control, _)| control);
        wanted.iter().map(|probe| probe.id).zip(made).collect::<HashMap<_, _>>()
    };
    // The retrievers last: the launcher's end of the web side is a thread, and everything before starts while there is one.
    let mut order = places.to_vec();
    order.sort_by_key(|place| *place == Place::Retriever);
    let mut findings = Vec::new();
    for place in order {
        let probes: Vec<&'static Probe> = wanted
            .iter()
            .copied()
            .filter(|probe| probe.expected(place).is_some())
            .collect();
        let results = attempts(place, base.path(), &objects, &probes, tier, progress)?;
        for (probe, (got, effect)) in probes.into_iter().zip(results) {
            let (Some(full), Some(control)) = (probe.expected(place), controls.get(probe.id)) else {
                continue;
            };
            let in_tier = match tier {
                Tier::Full => None,
                Tier::Container => probe.expected_in_container(place),
                Tier::Nested => probe.expected_in_nested(place),
            };
            let weaker = |what, changes| (full, Some(Weaker { what, changes }));
            let (expected, weaker) = match in_tier {
                Some(InTier::Expected(expected)) => (expected, None),
                Some(InTier::Weaker(what)) => weaker(what, false),
                Some(InTier::Open(what)) => weaker(what, true),
                None => (full, None),
            };
            findings.push(Finding {
                probe,
                place,
                expected,
                rule: Rule::Exact,
                got,
                effect,
                control: control.clone(),
                weaker,
            });
        }
    }
    findings.sort_by_key(|f| (f.probe.class(), f.place));
    Ok(Judgement {
        command: None,
        tier: Some(tier.name()),
        findings,
    })
}

fn build(base: &Path, name: &str, objects: &Objects) -> Result<Stage, String> {
    Stage::new(&base.join(name), Layout::Apart, objects).map_err(|e| format!("cannot prepare the attempts: {e}"))
}

fn attempts(
    place: Place,
    base: &Path,
    objects: &Objects,
    probes: &[&'static Probe],
    tier: Tier,
    progress: &Progress,
) -> Result<Vec<(Got, Option<String>)>, String> {
    match place {
        Place::ReadOnly | Place::Edit => {
            let edit = place == Place::Edit;
            let mut stage = build(base, if edit { "edit" } else { "read-only" }, objects)?;
            session::agent(&mut stage, base, edit, tier, probes, progress).map_err(|e| e.to_string())
        }
        Place::Retriever => network(&build(base, "retriever", objects)?, probes, &|lists| {
            judged::retrievers(lists)
        }),
        Place::Gateway => network(&build(base, "gateway", objects)?, probes, &|lists| {
            lists.iter().map(|list| judged::gateway(list)).collect()
        }),
        Place::RetrieverGateway => network(&build(base, "retriever-gateway", objects)?, probes, &|lists| {
            lists.iter().map(|list| judged::retriever_gateway(list)).collect()
        }),
        Place::OutsideWeb => network(&build(base, "outside-web", objects)?, probes, &|lists| {
            lists.iter().map(|list| judged::outside_web(list)).collect()
        }),
        Place::Resolver => network(&build(base, "resolver", objects)?, probes, &|lists| {
            lists.iter().map(|list| judged::resolver(list)).collect()
        }),
        Place::OutsideModel => network(&build(base, "outside-model", objects)?, probes, &|lists| {
            lists.iter().map(|list| judged::outside_model(list)).collect()
        }),
    }
}

/// Starts a role with series of attempts, and gives what it said of each.
type Start<'a> = dyn Fn(&[Vec<String>]) -> Result<Vec<judged::Said>, String> + 'a;

/// An attempt that is answered before one that ends the process, so that the end is known to be that one's.
const SIGN_OF_LIFE: &str = "read.passwd";

/// Roles that cannot fork try everything in one process, and what ends it in another one.
fn network(stage: &Stage, probes: &[&'static Probe], start: &Start<'_>) -> Result<Vec<(Got, Option<String>)>, String> {
    let ends = |probe: &Probe| {
        Place::ALL
            .iter()
            .any(|&place| matches!(probe.expected(place), Some(Expected::Killed(_) | Expected::Ended)))
    };
    let list = |ending: bool| {
        let names = probes
            .iter()
            .filter(|probe| ends(probe) == ending)
            .map(|probe| probe.id.to_owned());
        let mut entries = vec![format!("{SETTING_MARK}{}", stage.setting.text())];
        entries.extend(ending.then(|| SIGN_OF_LIFE.to_owned()));
        entries.extend(names);
        entries
    };
    let look = || stage.look().map_err(|e| e.to_string());
    let before = look()?;
    let said = start(&[list(false), list(true)])?;
    let effect = stage.effect(&before, &look()?, false);
    let reports: HashMap<&str, &judged::Report> = said
        .iter()
        .flat_map(|s| &s.reports)
        .map(|report| (report.id.as_str(), report))
        .collect();
    let alive = said
        .last()
        .is_some_and(|s| s.reports.iter().any(|report| report.id == SIGN_OF_LIFE));
    let signal = said.last().and_then(|s| s.signal).filter(|_| alive);
    let mut results: Vec<(Got, Option<String>)> = Vec::with_capacity(probes.len());
    for probe in probes {
        let got = match (reports.get(probe.id), signal) {
            (Some(report), _) => Got::Outcome(outcome(report)),
            (None, Some(signal)) if ends(probe) => Got::Outcome(Outcome::Killed(signal)),
            (None, _) => Got::Nothing,
        };
        results.push((got, None));
    }
    // An effect is one of the series, not of one attempt: it spoils the first.
    if let Some(first) = results.first_mut() {
        first.1 = effect;
    }
    Ok(results)
}

fn outcome(report: &judged::Report) -> Outcome {
    match report.outcome.as_str() {
        "escaped" => Outcome::Escaped,
        "denied" => Outcome::Refused(Errno::from_raw(report.errno)),
        _ => Outcome::Unprepared("attempt".to_owned(), Errno::from_raw(report.errno)),
    }
}
