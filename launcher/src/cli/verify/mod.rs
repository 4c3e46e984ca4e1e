//! `picktwo verify`: the escapes, tried from inside by each confined role, judged from outside.

mod inside;
mod judge;
mod objects;
mod report;
mod session;
mod stage;
mod tree;

use super::output::{self, Paint};
use crate::session::{id, judged, tier};
use judge::{Finding, Got};
use objects::Objects;
use picktwo_confine::Errno;
use picktwo_confine::probes::{self, Expected, Outcome, Place, Probe, SETTING_MARK};
use stage::Stage;
use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tries the escapes from inside, role by role.
///
/// Each attempt is made twice: outside, where it must succeed, and by the confined process, where it must fail with exactly the
/// expected error. Files, sockets and processes that are aimed at are watched from outside. All of it is harmless: it aims at
/// its own files in a temporary directory, its own servers on loopback, its own process.
///
/// Exit code 0 if everything held, 1 if anything escaped or was answered in an unexpected way, 125 if it cannot be tried.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this role
    #[arg(long, value_enum, value_name = "ROLE")]
    role: Option<Role>,
    /// Print every finding as JSON
    #[arg(long)]
    json: bool,
    /// Internal: make the attempts that standard input names
    #[arg(long, hide = true)]
    inside: bool,
    /// Internal: there is no session around this
    #[arg(long, hide = true, requires = "inside")]
    bare: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Agent,
    Retriever,
    Gateway,
}

impl Role {
    fn places(role: Option<Role>) -> Vec<Place> {
        match role {
            None => Place::ALL.to_vec(),
            Some(Role::Agent) => vec![Place::ReadOnly, Place::Edit],
            Some(Role::Retriever) => vec![Place::Retriever],
            Some(Role::Gateway) => vec![Place::Gateway],
        }
    }
}

impl Args {
    /// Whether this is the session's own command.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside
    }
}

pub(crate) fn main(args: Args) -> ExitCode {
    if args.inside {
        return inside::main(args.bare);
    }
    if let Err(e) = tier::full() {
        return output::fail(&e);
    }
    let findings = match verify(&Role::places(args.role)) {
        Ok(findings) => findings,
        Err(e) => return output::fail(&e),
    };
    let text = if args.json {
        format!("{}\n", report::json(&findings))
    } else {
        report::people(&findings, Paint::stdout())
    };
    let printed = output::print(&text);
    match (printed == ExitCode::SUCCESS, judge::held(&findings)) {
        (false, _) => printed,
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::FAILURE,
    }
}

/// The temporary directory of it all, removed at the end.
struct Base(PathBuf);

impl Base {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("picktwo-verify-{}", id::new()?));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let base = Self(path.canonicalize()?);
        for (file, text) in [
            ("mark", "mark\n"),
            ("state/picktwo/mark", "mark\n"),
            ("config/picktwo/policy.toml", "version = 1\n"),
        ] {
            let file = base.0.join(file);
            if let Some(dir) = file.parent() {
                std::fs::create_dir_all(dir)?;
            }
            std::fs::write(file, text)?;
        }
        Ok(base)
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        super::scratch::remove(&self.0);
    }
}

fn verify(places: &[Place]) -> Result<Vec<Finding>, String> {
    let base = Base::new().map_err(|e| format!("cannot make a temporary directory: {e}"))?;
    let objects = Objects::new(&base.0).map_err(|e| format!("cannot prepare the attempts: {e}"))?;
    let wanted: Vec<&'static Probe> = probes::all()
        .filter(|probe| places.iter().any(|&place| probe.expected(place).is_some()))
        .collect();
    let controls = {
        let stage = build(&base.0, "control", &objects)?;
        let made = session::controls(&stage, &base.0, &wanted).map_err(|e| e.to_string())?;
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
        let results = attempts(place, &base.0, &objects, &probes)?;
        for (probe, (got, effect)) in probes.into_iter().zip(results) {
            let (Some(expected), Some(control)) = (probe.expected(place), controls.get(probe.id)) else {
                continue;
            };
            findings.push(Finding {
                probe,
                place,
                expected,
                got,
                effect,
                control: control.clone(),
            });
        }
    }
    findings.sort_by_key(|f| (f.probe.class(), f.place));
    Ok(findings)
}

fn build(base: &Path, name: &str, objects: &Objects) -> Result<Stage, String> {
    Stage::new(&base.join(name), &objects.values).map_err(|e| format!("cannot prepare the attempts: {e}"))
}

fn attempts(
    place: Place,
    base: &Path,
    objects: &Objects,
    probes: &[&'static Probe],
) -> Result<Vec<(Got, Option<String>)>, String> {
    match place {
        Place::ReadOnly => {
            session::agent(&mut build(base, "read-only", objects)?, base, false, probes).map_err(|e| e.to_string())
        }
        Place::Edit => {
            session::agent(&mut build(base, "edit", objects)?, base, true, probes).map_err(|e| e.to_string())
        }
        Place::Retriever => network(&build(base, "retriever", objects)?, probes, &|lists| {
            judged::retrievers(lists)
        }),
        Place::Gateway => network(&build(base, "gateway", objects)?, probes, &|lists| {
            lists.iter().map(|list| judged::gateway(list)).collect()
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
        [Place::Retriever, Place::Gateway]
            .iter()
            .any(|&p| matches!(probe.expected(p), Some(Expected::Killed(_) | Expected::Ended)))
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
    let look = || stage.look(false).map_err(|e| e.to_string());
    let before = look()?;
    let said = start(&[list(false), list(true)])?;
    let effect = stage.effect(&before, &look()?);
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
