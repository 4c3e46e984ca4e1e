//! Everything by which a provider would reach out (GATEWAY §6), in every place where it could be put, is refused.

mod anthropic;
mod gemini;
mod openai;

use super::super::models::Models;
use super::super::refusal::Refusal;
use super::super::route::Operation;
use super::{bodies, pass};
use serde_json::{Value, json};

/// A forbidden body: what was put where.
pub(super) struct Variant {
    pub(super) operation: Operation,
    pub(super) name: String,
    /// Where it was put, in the notation of refusals; a refusal has to point into it.
    place: String,
    pub(super) body: Value,
    /// What was put there.
    pub(super) value: Value,
}

/// Appends to the array, or sets the member, at `pointer`.
fn put(base: &Value, pointer: &str, value: &Value) -> Value {
    let mut body = base.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}")) {
        Value::Array(items) if key == "-" => items.push(value.clone()),
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(members) => drop(members.insert(key.to_owned(), value.clone())),
        other => panic!("{parent} is {other}"),
    }
    body
}

/// `/tools/0/name` as `tools[0]`: what holds the changed member or item.
fn notation(base: &Value, pointer: &str) -> String {
    let (parent, _) = pointer.rsplit_once('/').unwrap();
    let (mut text, mut at) = (String::new(), base);
    for step in parent.split('/').skip(1) {
        if at.is_array() {
            text.push_str(&format!("[{step}]"));
        } else {
            text.push_str(if text.is_empty() { "" } else { "." });
            text.push_str(step);
        }
        at = at.pointer(&format!("/{step}")).unwrap();
    }
    text
}

pub(super) fn cross(out: &mut Vec<Variant>, operation: Operation, base: &Value, places: &[&str], values: &[Value]) {
    for place in places {
        for value in values {
            out.push(Variant {
                operation,
                name: format!("{place} = {value}"),
                place: notation(base, place),
                body: put(base, place, value),
                value: value.clone(),
            });
        }
    }
}

pub(super) fn fields(
    out: &mut Vec<Variant>,
    operation: Operation,
    base: &Value,
    place: &str,
    members: &[(&str, Value)],
) {
    for (key, value) in members {
        cross(
            out,
            operation,
            base,
            &[&format!("{place}/{key}")],
            std::slice::from_ref(value),
        );
    }
}

pub(super) fn types(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"type": name, "name": "x"})).collect()
}

/// All forbidden bodies.
pub(super) fn variants() -> Vec<Variant> {
    let mut out = Vec::new();
    anthropic::put(&mut out);
    openai::responses(&mut out);
    openai::chat(&mut out);
    gemini::put(&mut out);
    out
}

#[test]
fn nothing_by_which_a_provider_reaches_out_passes() {
    let variants = variants();
    let mut passed = Vec::new();
    for Variant {
        operation,
        name,
        place,
        body,
        ..
    } in &variants
    {
        match pass(*operation, &body.to_string()) {
            Ok(_) => passed.push(format!("{operation:?} {name}")),
            Err(refusal) => {
                assert_eq!(refusal.status, 400, "{name}");
                assert!(
                    !refusal.reason.is_empty() && refusal.rule != "malformed",
                    "{name}: {refusal:?}"
                );
                assert!(
                    refusal.place.starts_with(place.as_str()),
                    "{name}: refused for {refusal:?}"
                );
            }
        }
    }
    assert!(passed.is_empty(), "{} pass:\n{}", passed.len(), passed.join("\n"));
    assert!(variants.len() >= 170, "{}", variants.len());
}

#[test]
fn the_bodies_that_variants_start_from_pass() {
    // Otherwise the test above would prove nothing.
    for (operation, body) in bodies::all() {
        assert!(pass(operation, &body.to_string()).is_ok(), "{operation:?}");
    }
}

#[test]
fn keys_in_two_spellings_are_duplicates() {
    let mut body = bodies::gemini();
    body["generation_config"] = json!({});
    assert_eq!(
        pass(Operation::Generate, &body.to_string()).unwrap_err().rule,
        "duplicate-key"
    );
}

#[test]
fn a_list_of_models_is_exact() {
    let allowed = [
        "vendor/model:8b".to_owned(),
        "nousresearch/hermes-4".to_owned(),
        "gpt-5".to_owned(),
        "gpt-4o-search-preview".to_owned(),
    ];
    let models = Models {
        allowed: &allowed,
        section: "model.openai",
    };
    let check = |name: &str| models.check(name).map_err(|refusal: Refusal| refusal.line.is_some());
    assert_eq!(check("vendor/model:8b"), Ok(()));
    assert_eq!(check("gpt-5"), Ok(()));
    assert_eq!(check("nousresearch/hermes-4"), Ok(()));
    assert_eq!(check("gpt-5-mini"), Err(true));
    assert_eq!(check("other/model"), Err(true));
    // No list opens a model that searches.
    assert_eq!(check("gpt-4o-search-preview"), Err(false));
}
