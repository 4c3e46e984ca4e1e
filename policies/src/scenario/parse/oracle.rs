//! Reading `[[check]]`: what is looked for, and where.

use super::{Reader, Value};
use crate::diagnostics::nearest;
use crate::model::Set;
use crate::scenario::{Check, Kind, Spot, What};
use std::ops::Range;
use toml::de::DeTable;

impl Reader {
    pub(super) fn check(&mut self, t: &DeTable<'_>, span: Range<usize>) -> Option<Check> {
        const KEYS: &[&str] = &[
            "tried",
            "who",
            "step",
            "canary",
            "text",
            "anything",
            "never",
            "arrives",
            "unchanged",
        ];
        self.walk.known(t, KEYS, "check");
        let tried = self.needed(t, span.clone(), "tried", "check.tried");
        let who = self.optional(t, "who", "check.who");
        let step = self.optional(t, "step", "check.step");
        if let Some(step) = &step
            && !self.known.steps.contains(&step.value)
        {
            let names: Vec<&str> = self.known.steps.iter().map(String::as_str).collect();
            let help = nearest(&step.value, &names).map(|n| format!("did you mean \"{n}\"?"));
            self.walk
                .problem(step.place.span.clone(), "no step has this name", "", help);
        }
        let what = self.what(t, span.clone());
        let verbs: Vec<&str> = ["never", "arrives", "unchanged"]
            .into_iter()
            .filter(|k| t.get(*k).is_some())
            .collect();
        let kind = match verbs.as_slice() {
            ["unchanged"] => {
                if what.is_some() {
                    let help = "`unchanged` takes neither canary nor text".to_owned();
                    self.walk
                        .problem(span, "this check looks for two things", "", Some(help));
                }
                let mut paths = Vec::new();
                for v in self.walk.array(t, "unchanged", "check.unchanged") {
                    paths.extend(self.text(v, "check.unchanged"));
                }
                for path in &paths {
                    self.own_path(path);
                }
                Some(Kind::Unchanged(paths))
            }
            [verb @ ("never" | "arrives")] => {
                let mut spots = Vec::new();
                for v in self.walk.array(t, verb, verb) {
                    spots.extend(self.spot(v));
                }
                match what {
                    None => {
                        let help = "add `canary`, `text` or `anything = true`".to_owned();
                        self.walk.problem(span, "this check looks for nothing", "", Some(help));
                        None
                    }
                    Some(what) if *verb == "never" => Some(Kind::Never(what, spots)),
                    Some(what) => Some(Kind::Arrives(what, spots)),
                }
            }
            _ => {
                let help = "exactly one of `never`, `arrives` and `unchanged`".to_owned();
                self.walk
                    .problem(span, "this check says not what must hold", "", Some(help));
                None
            }
        }?;
        let empty = match &kind {
            Kind::Never(_, spots) | Kind::Arrives(_, spots) => spots.is_empty(),
            Kind::Unchanged(paths) => paths.is_empty(),
        };
        if empty && let Some(v) = verbs.first().and_then(|verb| t.get(*verb)) {
            self.walk.problem(v.span(), "this check looks nowhere", "", None);
        }
        Some(Check {
            tried: tried?,
            who,
            step,
            kind,
        })
    }

    fn what(&mut self, t: &DeTable<'_>, span: Range<usize>) -> Option<What> {
        let mut all = Vec::new();
        if let Some(canary) = self.optional(t, "canary", "check.canary") {
            if self.known.canaries.contains(&canary.value) {
                self.known.checked.insert(canary.value.clone());
            } else {
                let names: Vec<&str> = self.known.canaries.iter().map(String::as_str).collect();
                let help = nearest(&canary.value, &names).map(|n| format!("did you mean \"{n}\"?"));
                self.walk
                    .problem(canary.place.span.clone(), "no canary has this name", "", help);
            }
            all.push(What::Canary(canary));
        }
        if let Some(text) = self.optional(t, "text", "check.text") {
            if text.is_empty() {
                let span = text.place.span.clone();
                self.walk.problem(span, "an empty text arrives everywhere", "", None);
            }
            all.push(What::Text(text));
        }
        if self.flag(t, "anything", "check.anything") {
            all.push(What::Anything);
        }
        if all.len() > 1 {
            let help = "one of `canary`, `text` and `anything`".to_owned();
            self.walk
                .problem(span, "this check looks for two things", "", Some(help));
        }
        all.pop()
    }

    fn spot(&mut self, v: &Value<'_>) -> Option<Set<Spot>> {
        let text = self.text(v, "spot")?;
        let value = match text.value.as_str() {
            "dns" => Some(Spot::Dns),
            "model" => Some(Spot::Model),
            "model.tools" => Some(Spot::ModelTools),
            "model.key" => Some(Spot::ModelKey),
            "terminal" => Some(Spot::Terminal),
            other => match (other.strip_prefix("server."), other.strip_prefix("file:")) {
                (Some(name), _) if self.known.servers.iter().any(|s| s == name) => Some(Spot::Server(name.to_owned())),
                (_, Some(path)) => {
                    self.own_path(&Set {
                        value: path.to_owned(),
                        place: text.place.clone(),
                    });
                    Some(Spot::File(path.to_owned()))
                }
                _ => None,
            },
        };
        if value.is_none() {
            let mut known: Vec<String> = ["dns", "model", "model.tools", "model.key", "terminal", "file:PATH"]
                .map(str::to_owned)
                .to_vec();
            known.extend(self.known.servers.iter().map(|s| format!("server.{s}")));
            let help = format!("known: {}", known.join(", "));
            self.walk
                .problem(v.span(), "nothing can arrive there", "not known", Some(help));
        }
        Some(Set {
            value: value?,
            place: text.place,
        })
    }
}
