//! From layers to the policy in force. The last word wins for single values, lists add up, and a project may only tighten.

use super::parse::{Layer, RawModel, RawSearch};
use super::profile::{BUILTIN, builtin};
use super::{Budget, Env, Files, Github, Limits, Model, Policy, Retrieval, SEARCH_PROVIDERS, Search, Set, Upstream};
use crate::diagnostics::{Diagnostics, Kind, Place, Problem, nearest};
use std::collections::BTreeMap;

/// The layers of a session, weakest first: the generic profile, what the given layers extend (built-in names only; files that a
/// layer extends are read by the caller and given before it), the selected profile, then the given layers.
///
/// # Errors
/// A name in `extends` that is neither a built-in file nor a path, and `extends` in a project's file.
pub fn stack(selected: Option<&str>, layers: Vec<Layer>) -> Result<Vec<Layer>, Diagnostics> {
    let mut names: Vec<&str> = Vec::new();
    let mut problems = Vec::new();
    closure("generic", &mut names);
    let mut chosen: Vec<&str> = Vec::new();
    for layer in &layers {
        for e in &layer.extends {
            let known: Vec<&str> = BUILTIN.iter().map(|(n, _)| *n).collect();
            if layer.origin().kind == Kind::Project {
                problems.push(opens(&e.place, "extends"));
            } else if let Some(name) = known.iter().find(|n| **n == e.value) {
                chosen.push(name);
            } else if !is_file(&e.value) {
                let help = nearest(&e.value, &known).map(|n| format!("did you mean \"{n}\"?"));
                let help = help.unwrap_or_else(|| {
                    format!(
                        "built-in names: {}; a file needs a `/` or ends in `.toml`",
                        known.join(", ")
                    )
                });
                problems.push(Problem {
                    place: e.place.clone(),
                    message: format!("`extends` names an unknown policy \"{}\"", e.value),
                    label: String::new(),
                    help: Some(help),
                });
            }
        }
    }
    if !problems.is_empty() {
        return Err(Diagnostics { problems });
    }
    chosen.extend(selected.and_then(|s| BUILTIN.iter().map(|(n, _)| *n).find(|n| *n == s)));
    for name in chosen {
        // The strongest profile is the last one, so one that is named again moves there.
        names.retain(|n| *n != name);
        closure(name, &mut names);
    }
    Ok(names.into_iter().filter_map(builtin).chain(layers).collect())
}

/// Whether an entry of `extends` is a path that the caller has to read.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// A built-in file after what it extends.
fn closure(name: &str, names: &mut Vec<&'static str>) {
    let Some(name) = BUILTIN.iter().map(|(n, _)| *n).find(|n| *n == name) else {
        return;
    };
    if names.contains(&name) {
        return;
    }
    for e in builtin(name).iter().flat_map(|l| &l.extends) {
        closure(&e.value, names);
    }
    names.push(name);
}

fn opens(place: &Place, key: &str) -> Problem {
    Problem {
        place: place.clone(),
        message: format!("a project's policy may only tighten: `{key}` opens something"),
        label: "refused here".into(),
        help: Some(
            "put it into your own policy (picktwo/policy.toml in your configuration directory), or leave it out".into(),
        ),
    }
}

/// Merges layers, weakest first.
///
/// # Errors
/// All places where a project's file would open something; what no layer sets though it is needed.
pub fn effective(layers: &[Layer]) -> Result<Policy, Diagnostics> {
    let mut merge = Merge { problems: Vec::new() };
    for layer in layers.iter().filter(|l| l.origin().kind == Kind::Project) {
        merge.project_lists(layer);
    }
    let policy = merge.policy(layers);
    match policy {
        Some(policy) if merge.problems.is_empty() => Ok(policy),
        _ => Err(Diagnostics {
            problems: merge.problems,
        }),
    }
}

struct Merge {
    problems: Vec<Problem>,
}

impl Merge {
    /// What a project's file may not say at all.
    fn project_lists(&mut self, l: &Layer) {
        let mut each = |key: &str, places: Vec<&Place>| self.problems.extend(places.into_iter().map(|p| opens(p, key)));
        each("files.read", l.read.iter().map(|v| &v.place).collect());
        each("files.write", l.write.iter().map(|v| &v.place).collect());
        each("env.pass", l.pass.iter().map(|v| &v.place).collect());
        each("env.set", l.set.values().map(|v| &v.place).collect());
        each("model", l.models.values().map(|m| &m.place).collect());
        each(
            "retrieval.private",
            l.retrieval.private.iter().map(|v| &v.place).collect(),
        );
        each("retrieval.hosts", l.retrieval.hosts.iter().map(|v| &v.place).collect());
        each("retrieval.ports", l.retrieval.ports.iter().map(|v| &v.place).collect());
        each("retrieval.roots", l.retrieval.roots.iter().map(|v| &v.place).collect());
        each(
            "retrieval.distiller",
            l.retrieval.distiller.iter().map(|v| &v.place).collect(),
        );
        each(
            "retrieval.search",
            l.retrieval.search.iter().map(|v| &v.place).collect(),
        );
        each("github.upstream", l.github.upstream.iter().map(|v| &v.place).collect());
        each("github.key", l.github.key.iter().map(|v| &v.place).collect());
        each("github.private", l.github.private.iter().map(|v| &v.place).collect());
        each("github.storage", l.github.storage.iter().map(|v| &v.place).collect());
        each("extends", l.extends.iter().map(|v| &v.place).collect());
        each("profile", l.profile.iter().map(|p| &p.name.place).collect());
        each("command", l.commands.iter().map(|v| &v.place).collect());
    }

    /// The last value; a project's may not be above the one before it.
    fn last<T: Clone + PartialOrd>(&mut self, key: &str, values: impl Iterator<Item = Set<T>>) -> Option<Set<T>> {
        let mut now: Option<Set<T>> = None;
        for next in values {
            if next.place.kind() == Kind::Project && now.as_ref().is_none_or(|n| next.value > n.value) {
                self.problems.push(opens(&next.place, key));
            }
            now = Some(next);
        }
        now
    }

    fn needed<T>(&mut self, layers: &[Layer], key: &str, value: Option<Set<T>>) -> Option<Set<T>> {
        if value.is_none()
            && let Some(l) = layers.last()
        {
            let place = Place {
                source: l.source.clone(),
                span: 0..0,
            };
            let message = format!("no policy file sets `{key}`");
            self.problems.push(Problem {
                place,
                message,
                label: String::new(),
                help: Some("the built-in profile \"generic\" does".into()),
            });
        }
        value
    }

    fn number(&mut self, layers: &[Layer], key: &'static str) -> Option<Set<u64>> {
        let value = self.last(key, layers.iter().filter_map(|l| l.numbers.get(key).cloned()));
        self.needed(layers, key, value)
    }

    fn policy(&mut self, layers: &[Layer]) -> Option<Policy> {
        let mode = self.last("mode", layers.iter().filter_map(|l| l.mode.clone()));
        let mode = self.needed(layers, "mode", mode);
        let urls = self.last("retrieval.urls", layers.iter().filter_map(|l| l.retrieval.urls.clone()));
        let urls = self.needed(layers, "retrieval.urls", urls);
        let raw = self.last("retrieval.raw", layers.iter().filter_map(|l| l.retrieval.raw.clone()));
        let raw = self.needed(layers, "retrieval.raw", raw);
        let distiller = layers.iter().rev().find_map(|l| l.retrieval.distiller.clone());
        let distiller = self.needed(layers, "retrieval.distiller", distiller);
        let profile = layers.iter().rev().find_map(|l| l.profile.clone());
        let budget = Budget {
            requests: self.number(layers, "requests")?,
            requests_per_host: self.number(layers, "requests_per_host")?,
            bits_per_host: self.number(layers, "bits_per_host")?,
            bits: self.number(layers, "bits")?,
            query_bytes: self.number(layers, "query_bytes")?,
        };
        let limits = Limits {
            connect_seconds: self.number(layers, "connect_seconds")?,
            fetch_seconds: self.number(layers, "fetch_seconds")?,
            wire_bytes: self.number(layers, "wire_bytes")?,
            decoded_bytes: self.number(layers, "decoded_bytes")?,
            redirects: self.number(layers, "redirects")?,
            parallel: self.number(layers, "parallel")?,
            memory_bytes: self.number(layers, "memory_bytes")?,
            memory_percent: self.number(layers, "memory_percent")?,
            processes: self.number(layers, "processes")?,
            open_files: self.number(layers, "open_files")?,
            file_bytes: self.number(layers, "file_bytes")?,
            tmp_bytes: self.number(layers, "tmp_bytes")?,
            shm_bytes: self.number(layers, "shm_bytes")?,
            disk_percent: self.number(layers, "disk_percent")?,
        };
        let models = self.models(layers);
        let search = self.search(layers);
        let mut set = BTreeMap::new();
        for l in layers {
            set.extend(l.set.clone());
        }
        Some(Policy {
            files: Files {
                read: union(layers, |l| &l.read),
                write: union(layers, |l| &l.write),
                hide: union(layers, |l| &l.hide),
                protect: union(layers, |l| &l.protect),
            },
            env: Env {
                pass: union(layers, |l| &l.pass),
                set,
            },
            mode: mode?,
            models,
            retrieval: Retrieval {
                private: union(layers, |l| &l.retrieval.private),
                urls: urls?,
                hosts: union(layers, |l| &l.retrieval.hosts),
                ports: union(layers, |l| &l.retrieval.ports),
                distiller: distiller?,
                roots: union(layers, |l| &l.retrieval.roots),
                raw: raw?,
                search,
                budget,
            },
            github: github(layers),
            limits,
            profile: profile?,
            commands: layers.iter().flat_map(|l| l.commands.clone()).collect(),
            tests: layers.iter().flat_map(|l| l.tests.clone()).collect(),
        })
    }

    /// The search provider. As for models, a key is never sent to another place than the one it was named for.
    fn search(&mut self, layers: &[Layer]) -> Option<Search> {
        let mut now: Option<RawSearch> = None;
        for new in layers
            .iter()
            .filter(|l| l.origin().kind != Kind::Project)
            .filter_map(|l| l.retrieval.search.as_ref())
        {
            let Some(old) = &mut now else {
                now = Some(new.clone());
                continue;
            };
            let differs = |a: Option<&str>, b: Option<&str>| b.is_some() && a != b;
            let provider = |s: &RawSearch| s.provider.as_ref().map(|p| p.value.clone());
            let place = |s: &RawSearch| s.upstream.as_ref().map(|u| u.url.clone());
            if differs(provider(old).as_deref(), provider(new).as_deref()) {
                old.upstream = None;
                old.key = None;
            }
            if differs(place(old).as_deref(), place(new).as_deref()) {
                old.key = None;
            }
            old.place = new.place.clone();
            old.provider = new.provider.clone().or(old.provider.take());
            old.upstream = new.upstream.clone().or(old.upstream.take());
            old.key = new.key.clone().or(old.key.take());
        }
        let raw = now?;
        let mut lacks = |what: &str, help: &str| {
            self.problems.push(Problem {
                place: raw.place.clone(),
                message: format!("`retrieval.search` has no `{what}`"),
                label: String::new(),
                help: Some(help.to_owned()),
            });
            None
        };
        let Some(provider) = raw.provider.clone() else {
            return lacks("provider", "write e.g. provider = \"brave\"");
        };
        let usual = SEARCH_PROVIDERS
            .iter()
            .find(|(name, _)| *name == provider.value)
            .and_then(|(_, url)| *url);
        let upstream = raw.upstream.clone().or_else(|| {
            Some(Set {
                value: Upstream::read(usual?).ok()?,
                place: provider.place.clone(),
            })
        });
        let Some(upstream) = upstream else {
            return lacks(
                "upstream",
                "write where your own instance is, e.g. upstream = \"https://searx.example.org\"",
            );
        };
        if raw.key.is_none() && usual.is_some() {
            let help = format!("write e.g. key = \"env:{}_API_KEY\"", provider.to_ascii_uppercase());
            return lacks("key", &help);
        }
        Some(Search {
            provider,
            upstream,
            key: raw.key,
        })
    }

    /// A table that is given again changes only the keys it sets.
    fn models(&mut self, layers: &[Layer]) -> BTreeMap<String, Model> {
        let mut raw: BTreeMap<String, RawModel> = BTreeMap::new();
        for (name, new) in layers
            .iter()
            .filter(|l| l.origin().kind != Kind::Project)
            .flat_map(|l| &l.models)
        {
            let Some(old) = raw.get_mut(name) else {
                raw.insert(name.clone(), new.clone());
                continue;
            };
            // A key that was meant for one upstream is never sent to another one.
            if let (Some(a), Some(b)) = (&old.upstream, &new.upstream)
                && a.value != b.value
            {
                old.key = None;
            }
            old.place = new.place.clone();
            old.protocol = new.protocol.clone().or(old.protocol.take());
            old.upstream = new.upstream.clone().or(old.upstream.take());
            old.key = new.key.clone().or(old.key.take());
            old.allow = new.allow.clone().or(old.allow.take());
            old.models = new.models.clone().or(old.models.take());
        }
        let mut models = BTreeMap::new();
        for (name, m) in raw {
            let upstream = m.upstream.or_else(|| usual_upstream(&name, m.protocol.as_ref()?));
            let (Some(protocol), Some(upstream)) = (m.protocol, upstream) else {
                let message = format!("`model.{name}` has no `upstream`");
                self.problems.push(Problem {
                    place: m.place,
                    message,
                    label: String::new(),
                    help: Some("write e.g. upstream = \"https://api.example.com\"".into()),
                });
                continue;
            };
            let allow = m.allow.unwrap_or_else(|| usual_calls(&protocol));
            if allow.is_empty() {
                let message = format!("`model.{name}` allows nothing");
                let help = Some("write e.g. allow = [\"POST /v1/messages\"]".into());
                self.problems.push(Problem {
                    place: m.place,
                    message,
                    label: String::new(),
                    help,
                });
                continue;
            }
            models.insert(
                name,
                Model {
                    protocol,
                    upstream,
                    key: m.key,
                    allow,
                    models: m.models.unwrap_or_default(),
                },
            );
        }
        models
    }
}

/// As for models, a token is never sent to another place than the one it was named for.
fn github(layers: &[Layer]) -> Github {
    let mut upstream: Option<Set<Upstream>> = None;
    let mut key = None;
    for new in layers.iter().map(|l| &l.github) {
        if let Some(to) = &new.upstream {
            if upstream.as_ref().is_none_or(|u| u.value != to.value) {
                key = None;
            }
            upstream = Some(to.clone());
        }
        key = new.key.clone().or(key);
    }
    Github {
        upstream,
        key,
        private: union(layers, |l| &l.github.private),
        storage: union(layers, |l| &l.github.storage),
    }
}

/// All values in order, each once.
fn union<'l, T: Clone + PartialEq + 'l>(
    layers: &'l [Layer],
    list: impl Fn(&'l Layer) -> &'l Vec<Set<T>>,
) -> Vec<Set<T>> {
    let mut all: Vec<Set<T>> = Vec::new();
    for v in layers.iter().flat_map(list) {
        if !all.iter().any(|a| a.value == v.value) {
            all.push(v.clone());
        }
    }
    all
}

/// Where an API is by itself, so that naming another key does not take naming its address again.
fn usual_upstream(name: &str, protocol: &Set<String>) -> Option<Set<Upstream>> {
    let url = match name {
        "anthropic" => "https://api.anthropic.com",
        "openai" => "https://api.openai.com",
        "gemini" => "https://generativelanguage.googleapis.com",
        _ => return None,
    };
    let value = Upstream::read(url).ok()?;
    Some(Set {
        value,
        place: protocol.place.clone(),
    })
}

/// What an agent needs of an API, where a policy names none: no stored files, no batches, no hosted sessions.
fn usual_calls(protocol: &Set<String>) -> Vec<Set<String>> {
    let calls: &[&str] = match protocol.as_str() {
        "anthropic" => &["POST /v1/messages", "POST /v1/messages/count_tokens"],
        "openai" => &["POST /v1/responses", "POST /v1/chat/completions"],
        "gemini" => &["POST /v1beta/models/*"],
        _ => &[],
    };
    calls
        .iter()
        .map(|c| Set {
            value: (*c).to_owned(),
            place: protocol.place.clone(),
        })
        .collect()
}
