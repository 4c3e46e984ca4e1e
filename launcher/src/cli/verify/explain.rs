//! What the attempts are, for people and programs.

use super::catalogue;
use super::judge;
use crate::cli::output::table;
use picktwo_confine::probes::{self, Control, InTier, Place, Probe};
use serde_json::{Value, json};

/// All attempts.
pub(super) fn list(as_json: bool) -> String {
    if as_json {
        return format!("{}\n", Value::Array(probes::all().map(value).collect()));
    }
    let rows: Vec<Vec<String>> = probes::all()
        .map(|probe| vec![probe.id.to_owned(), probe.threats.to_owned(), probe.what.to_owned()])
        .collect();
    table(&rows)
}

/// One attempt.
///
/// # Errors
/// There is none of that name; a sentence.
pub(super) fn one(id: &str, as_json: bool) -> Result<String, String> {
    let probe = probes::find(id).ok_or_else(|| unknown(id))?;
    if as_json {
        return Ok(format!("{}\n", value(probe)));
    }
    let mut text = format!("{}\n\nTried: a process {}.\n", probe.id, probe.what);
    if probe.is_surface() {
        text.push_str(
            "By itself it reaches nothing: what lets it through leaves kernel surface open, or a step that attacks are made of.\n",
        );
    }
    text.push_str(match probe.control {
        Control::Plain => "Control: an ordinary process of yours does the same, and gets through.\n",
        Control::Namespaces => {
            "Control: a process in new namespaces of its own, which any process can become, does the same, and gets through.\n"
        }
    });
    for class in catalogue::of(probe) {
        text.push_str(&format!("\n{} (docs/THREATS.md): {}\n", class.id, class.what));
        for (name, cell) in [
            ("Why it is missed", class.missed),
            ("A good sandbox", class.answer),
            ("Source", class.source),
        ] {
            if cell != "-" {
                text.push_str(&format!("  {name}: {cell}\n"));
            }
        }
    }
    text.push_str("\nIn picktwo it must answer:\n");
    let mut rows = vec![
        ["  role", "full tier", "container tier", "nested tier"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(
        answers(probe)
            .into_iter()
            .map(|(place, tiers)| [vec![format!("  {place}")], tiers.iter().map(|t| told(t)).collect()].concat()),
    );
    text.push_str(&table(&rows));
    Ok(text)
}

fn told(wanted: &[String]) -> String {
    match wanted {
        [only] if only == judge::UNSEEN => "success, of which nothing is seen outside".to_owned(),
        any => any.join(" or "),
    }
}

fn unknown(id: &str) -> String {
    let class = id.split('.').next().unwrap_or(id);
    let near: Vec<&str> = probes::all()
        .filter(|probe| probe.class() == class)
        .map(|probe| probe.id)
        .collect();
    match near.as_slice() {
        [] => format!("there is no attempt `{id}`: `picktwo verify --list` lists them"),
        near => format!("there is no attempt `{id}`; of its class there are {}", near.join(", ")),
    }
}

/// Who is to get what, in each tier: full, container, nested.
fn answers(probe: &Probe) -> Vec<(String, [Vec<String>; 3])> {
    Place::ALL
        .into_iter()
        .filter_map(|place| {
            let name = match place.mode() {
                Some(mode) => format!("{}, {mode}", place.role()),
                None => place.role().to_owned(),
            };
            let full = judge::wanted(probe.expected(place)?);
            Some((name, [full, in_container(probe, place)?, in_nested(probe, place)?]))
        })
        .collect()
}

fn in_container(probe: &Probe, place: Place) -> Option<Vec<String>> {
    probe.expected_in_container(place).map(in_tier)
}

fn in_nested(probe: &Probe, place: Place) -> Option<Vec<String>> {
    if matches!(place, Place::Retriever | Place::OutsideWeb | Place::RetrieverGateway) {
        return Some(vec!["no such process".to_owned()]);
    }
    probe.expected_in_nested(place).map(in_tier)
}

fn in_tier(answer: InTier) -> Vec<String> {
    match answer {
        InTier::Expected(expected) => judge::wanted(expected),
        InTier::Weaker(why) => vec![format!("not hidden: {why}")],
        InTier::Open(why) => vec![format!("not guarded: {why}")],
    }
}

fn value(probe: &'static Probe) -> Value {
    let classes: Vec<Value> = catalogue::of(probe)
        .iter()
        .map(|class| {
            json!({
                "id": class.id,
                "what": class.what,
                "missed": class.missed,
                "answer": class.answer,
                "source": class.source,
            })
        })
        .collect();
    let expected: Vec<Value> = Place::ALL
        .into_iter()
        .filter_map(|place| {
            let wanted = judge::wanted(probe.expected(place)?);
            let (container, nested) = (in_container(probe, place)?, in_nested(probe, place)?);
            Some(json!({
                "role": place.role(),
                "mode": place.mode(),
                "answers": wanted,
                "container": container,
                "nested": nested,
            }))
        })
        .collect();
    json!({
        "id": probe.id,
        "class": probe.class(),
        "what": probe.what,
        "surface": probe.is_surface(),
        "threats": probe.threats.split(' ').collect::<Vec<_>>(),
        "classes": classes,
        "expected": expected,
    })
}
