//! From text to a layer: every value with its place, every unknown key and bad value reported, all at once.

mod profile;
pub(crate) mod walk;

use super::profile::Profile;
use super::values::{
    Distiller, HostPort, KeySource, Mode, Upstream, Urls, host_name, method_and_path, repository, storage,
};
use super::{SEARCH_PROVIDERS, Set};
use crate::diagnostics::{Diagnostics, Origin, Place, Source, nearest};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use walk::{Walk, variable};

/// Bytes of one policy file.
const MAX_FILE: usize = 1 << 20;

/// One policy file, read but not yet merged.
#[derive(Clone, Debug)]
pub struct Layer {
    pub(crate) source: Arc<Source>,
    /// Names of built-in files or paths, in the order written.
    pub extends: Vec<Set<String>>,
    pub(crate) read: Vec<Set<String>>,
    pub(crate) write: Vec<Set<String>>,
    pub(crate) hide: Vec<Set<String>>,
    pub(crate) protect: Vec<Set<String>>,
    pub(crate) pass: Vec<Set<String>>,
    pub(crate) set: BTreeMap<String, Set<String>>,
    pub(crate) mode: Option<Set<Mode>>,
    pub(crate) models: BTreeMap<String, RawModel>,
    pub(crate) retrieval: RawRetrieval,
    pub(crate) github: RawGithub,
    /// `budget.requests`, `limits.fetch_seconds` …
    pub(crate) numbers: BTreeMap<&'static str, Set<u64>>,
    pub(crate) profile: Option<Profile>,
    pub(crate) commands: Vec<Set<toml::Table>>,
    pub(crate) tests: Vec<Set<toml::Table>>,
}

impl Layer {
    /// Where it comes from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.source.origin
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RawModel {
    pub(crate) place: Place,
    pub(crate) protocol: Option<Set<String>>,
    pub(crate) upstream: Option<Set<Upstream>>,
    pub(crate) key: Option<Set<KeySource>>,
    pub(crate) allow: Option<Vec<Set<String>>>,
    pub(crate) models: Option<Vec<Set<String>>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RawRetrieval {
    pub(crate) private: Vec<Set<HostPort>>,
    pub(crate) urls: Option<Set<Urls>>,
    pub(crate) hosts: Vec<Set<String>>,
    pub(crate) ports: Vec<Set<u16>>,
    pub(crate) distiller: Option<Set<Distiller>>,
    pub(crate) roots: Vec<Set<String>>,
    pub(crate) raw: Option<Set<bool>>,
    pub(crate) search: Option<RawSearch>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RawGithub {
    pub(crate) upstream: Option<Set<Upstream>>,
    pub(crate) key: Option<Set<KeySource>>,
    pub(crate) private: Vec<Set<String>>,
    pub(crate) storage: Vec<Set<String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct RawSearch {
    pub(crate) place: Place,
    pub(crate) provider: Option<Set<String>>,
    pub(crate) upstream: Option<Set<Upstream>>,
    pub(crate) key: Option<Set<KeySource>>,
}

/// The numbers of `[retrieval.budget]` and `[limits]` with their bounds.
pub(crate) const NUMBERS: &[(&str, &str, u64, u64)] = &[
    ("retrieval.budget", "requests", 0, 100_000),
    ("retrieval.budget", "requests_per_host", 0, 100_000),
    ("retrieval.budget", "bits_per_host", 0, 1 << 32),
    ("retrieval.budget", "bits", 0, 1 << 32),
    ("retrieval.budget", "query_bytes", 0, 2048),
    ("limits", "connect_seconds", 1, 300),
    ("limits", "fetch_seconds", 1, 3600),
    ("limits", "wire_bytes", 1024, 1 << 30),
    ("limits", "decoded_bytes", 1024, 1 << 30),
    ("limits", "redirects", 0, 20),
    ("limits", "parallel", 1, 64),
    ("limits", "memory_bytes", 64 << 20, 1 << 50),
    ("limits", "memory_percent", 1, 100),
    ("limits", "processes", 16, 4_000_000),
    ("limits", "open_files", 64, 1 << 30),
    ("limits", "file_bytes", 1 << 20, 1 << 50),
    ("limits", "tmp_bytes", 1 << 20, 1 << 50),
    ("limits", "shm_bytes", 64 << 10, 1 << 50),
    ("limits", "disk_percent", 1, 100),
];

type Value<'i> = Spanned<DeValue<'i>>;

/// Reads one policy file.
///
/// # Errors
/// All problems of the text: syntax, unknown keys, values of a wrong kind.
pub fn parse(text: &str, origin: Origin) -> Result<Layer, Diagnostics> {
    let source = Arc::new(Source {
        origin,
        text: text.to_owned(),
    });
    let mut walk = Walk {
        source: source.clone(),
        problems: Vec::new(),
    };
    if text.len() > MAX_FILE {
        walk.problem(
            0..0,
            "the policy is too long",
            format!("{} bytes, at most {MAX_FILE}", text.len()),
            None,
        );
        return Err(Diagnostics {
            problems: walk.problems,
        });
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for e in errors {
        walk.problem(
            e.span().unwrap_or(0..0),
            "is not valid TOML",
            e.message().to_owned(),
            None,
        );
    }
    // A broken document would only give errors that follow from the first ones.
    if !walk.problems.is_empty() {
        return Err(Diagnostics {
            problems: walk.problems,
        });
    }
    let layer = walk.document(document.get_ref());
    if walk.problems.is_empty() {
        return Ok(layer);
    }
    walk.problems.sort_by_key(|p| p.place.span.start);
    Err(Diagnostics {
        problems: walk.problems,
    })
}

impl Walk {
    fn document(&mut self, t: &DeTable<'_>) -> Layer {
        const TOP: &[&str] = &[
            "version",
            "extends",
            "files",
            "env",
            "mode",
            "model",
            "retrieval",
            "github",
            "limits",
            "profile",
            "command",
            "test",
        ];
        self.known(t, TOP, "");
        match t.get("version") {
            None => self.problem(
                0..0,
                "`version` is missing",
                "",
                Some("write `version = 1` as the first line".into()),
            ),
            Some(v) => {
                if self.integer(v, "version", 0, u64::MAX).is_some_and(|n| n.value != 1) {
                    self.problem(
                        v.span(),
                        "unknown version of the policy format",
                        "only 1 is known",
                        None,
                    );
                }
            }
        }
        let mut layer = Layer {
            source: self.source.clone(),
            extends: self.list(t, "extends", "extends"),
            read: Vec::new(),
            write: Vec::new(),
            hide: Vec::new(),
            protect: Vec::new(),
            pass: Vec::new(),
            set: BTreeMap::new(),
            mode: t
                .get("mode")
                .and_then(|v| self.one_of(v, "mode", &[("read-only", Mode::ReadOnly), ("edit", Mode::Edit)])),
            models: BTreeMap::new(),
            retrieval: RawRetrieval::default(),
            github: RawGithub::default(),
            numbers: BTreeMap::new(),
            profile: None,
            commands: self.opaque(t, "command"),
            tests: self.opaque(t, "test"),
        };
        if let Some(files) = self.table(t, "files", "files") {
            self.known(files, &["read", "write", "hide", "protect"], "files");
            layer.read = self.paths(files, "read", "files.read");
            layer.write = self.paths(files, "write", "files.write");
            layer.hide = self.list(files, "hide", "files.hide");
            layer.protect = self.list(files, "protect", "files.protect");
            for p in layer.protect.clone() {
                if let Err(bad) = crate::protect::Protected::pattern(&p.value) {
                    self.problem(p.place.span, "this protected path cannot be used", bad, None);
                }
            }
        }
        if let Some(env) = self.table(t, "env", "env") {
            self.known(env, &["pass", "set"], "env");
            layer.pass = self.list(env, "pass", "env.pass");
            for p in layer.pass.clone() {
                if !variable(p.value.strip_suffix('*').unwrap_or(&p.value)) || p.value == "*" {
                    self.problem(
                        p.place.span,
                        "is no name of an environment variable",
                        "a trailing * stands for any rest",
                        None,
                    );
                }
            }
            if let Some(set) = self.table(env, "set", "env.set") {
                for (k, v) in set {
                    if !variable(k.get_ref()) {
                        self.problem(k.span(), "is no name of an environment variable", "", None);
                    }
                    if let Some(v) = self.string(v, "env.set") {
                        layer.set.insert(k.get_ref().to_string(), v);
                    }
                }
            }
        }
        if let Some(models) = self.table(t, "model", "model") {
            for (name, v) in models {
                self.model(name, v, &mut layer.models);
            }
        }
        if let Some(r) = self.table(t, "retrieval", "retrieval") {
            layer.retrieval = self.retrieval(r, &mut layer.numbers);
        }
        if let Some(g) = self.table(t, "github", "github") {
            layer.github = self.github(g);
        }
        if let Some(l) = self.table(t, "limits", "limits") {
            self.numbers(l, "limits", &[], &mut layer.numbers);
        }
        if let Some(p) = self.table(t, "profile", "profile") {
            layer.profile = self.profile(p, t["profile"].span());
        }
        layer
    }

    fn model(
        &mut self,
        name: &Spanned<toml::de::DeString<'_>>,
        v: &Value<'_>,
        models: &mut BTreeMap<String, RawModel>,
    ) {
        let DeValue::Table(m) = v.get_ref() else {
            return self.wrong(v, &format!("model.{}", name.get_ref()), "a table");
        };
        let what = format!("model.{}", name.get_ref());
        self.known(m, &["protocol", "upstream", "key", "allow", "models"], &what);
        let protocols = &["anthropic", "openai", "gemini"];
        let protocol = match m.get("protocol") {
            Some(v) => self.one_of(v, "protocol", &protocols.map(|p| (p, p.to_owned()))),
            None if protocols.contains(&&**name.get_ref()) => Some(Set {
                value: name.get_ref().to_string(),
                place: self.place(name.span()),
            }),
            None => {
                let help = nearest(name.get_ref(), protocols)
                    .map(|n| format!("did you mean `model.{n}`? Otherwise set `protocol`"));
                let help = help.unwrap_or_else(|| "set `protocol` to anthropic, openai or gemini".into());
                self.problem(
                    name.span(),
                    "this model gateway has no protocol",
                    "no built-in name",
                    Some(help),
                );
                None
            }
        };
        let upstream = m.get("upstream").and_then(|v| self.read(v, "upstream", Upstream::read));
        let key = m.get("key").and_then(|v| self.read(v, "key", KeySource::read));
        let allow = m.contains_key("allow").then(|| {
            let list = self.list(m, "allow", "allow");
            for a in &list {
                if let Err(reason) = method_and_path(a) {
                    self.problem(
                        a.place.span.clone(),
                        format!("an entry of `allow` {reason}"),
                        "",
                        Some("write e.g. \"POST /v1/messages\"".into()),
                    );
                }
            }
            list
        });
        let models_list = m.contains_key("models").then(|| self.list(m, "models", "models"));
        let place = self.place(name.span());
        models.insert(
            name.get_ref().to_string(),
            RawModel {
                place,
                protocol,
                upstream,
                key,
                allow,
                models: models_list,
            },
        );
    }

    fn retrieval(&mut self, r: &DeTable<'_>, numbers: &mut BTreeMap<&'static str, Set<u64>>) -> RawRetrieval {
        self.known(
            r,
            &[
                "private",
                "urls",
                "hosts",
                "ports",
                "distiller",
                "roots",
                "raw",
                "search",
                "budget",
            ],
            "retrieval",
        );
        let mut raw = RawRetrieval {
            urls: r.get("urls").and_then(|v| {
                self.one_of(
                    v,
                    "urls",
                    &[("known", Urls::Known), ("seen", Urls::Seen), ("any", Urls::Any)],
                )
            }),
            roots: self.paths(r, "roots", "retrieval.roots"),
            raw: r.get("raw").and_then(|v| match v.get_ref() {
                DeValue::Boolean(b) => Some(Set {
                    value: *b,
                    place: self.place(v.span()),
                }),
                _ => {
                    self.wrong(v, "retrieval.raw", "true or false");
                    None
                }
            }),
            distiller: r.get("distiller").and_then(|v| self.distiller(v)),
            ..RawRetrieval::default()
        };
        for v in self.array(r, "private", "retrieval.private") {
            raw.private.extend(self.read(v, "private", HostPort::read));
        }
        for v in self.array(r, "hosts", "retrieval.hosts") {
            raw.hosts.extend(self.read(v, "hosts", host_name));
        }
        for v in self.array(r, "ports", "retrieval.ports") {
            if let Some(n) = self.integer(v, "retrieval.ports", 1, 65535) {
                raw.ports.push(Set {
                    value: n.value as u16,
                    place: n.place,
                });
            }
        }
        if let Some(s) = self.table(r, "search", "retrieval.search") {
            raw.search = Some(self.search(s, r["search"].span()));
        }
        if let Some(b) = self.table(r, "budget", "retrieval.budget") {
            self.numbers(b, "retrieval.budget", &[], numbers);
        }
        raw
    }

    fn github(&mut self, g: &DeTable<'_>) -> RawGithub {
        self.known(g, &["upstream", "key", "private", "storage"], "github");
        let mut raw = RawGithub {
            upstream: g
                .get("upstream")
                .and_then(|v| self.read(v, "github.upstream", Upstream::read)),
            key: g.get("key").and_then(|v| self.read(v, "github.key", KeySource::read)),
            ..RawGithub::default()
        };
        for v in self.array(g, "private", "github.private") {
            raw.private.extend(self.read(v, "github.private", repository));
        }
        for v in self.array(g, "storage", "github.storage") {
            raw.storage.extend(self.read(v, "github.storage", storage));
        }
        raw
    }

    fn search(&mut self, s: &DeTable<'_>, span: Range<usize>) -> RawSearch {
        self.known(s, &["provider", "upstream", "key"], "retrieval.search");
        let providers: Vec<(&str, String)> = SEARCH_PROVIDERS.iter().map(|(p, _)| (*p, (*p).to_owned())).collect();
        RawSearch {
            place: self.place(span),
            provider: s
                .get("provider")
                .and_then(|v| self.one_of(v, "retrieval.search.provider", &providers)),
            upstream: s
                .get("upstream")
                .and_then(|v| self.read(v, "retrieval.search.upstream", Upstream::read)),
            key: s
                .get("key")
                .and_then(|v| self.read(v, "retrieval.search.key", KeySource::read)),
        }
    }

    fn distiller(&mut self, v: &Value<'_>) -> Option<Set<Distiller>> {
        let place = self.place(v.span());
        match v.get_ref() {
            DeValue::String(s) if s == "extractive" => Some(Set {
                value: Distiller::Extractive,
                place,
            }),
            DeValue::Table(t) => {
                self.known(t, &["model", "name"], "retrieval.distiller");
                let mut text = |k: &str| t.get(k).and_then(|v| self.string(v, k));
                match (text("model"), text("name")) {
                    (Some(model), Some(name)) => Some(Set {
                        value: Distiller::Model {
                            model: model.value,
                            name: name.value,
                        },
                        place,
                    }),
                    _ => {
                        self.problem(
                            v.span(),
                            "this distiller is incomplete",
                            "needs `model` and `name`",
                            None,
                        );
                        None
                    }
                }
            }
            _ => {
                self.wrong(v, "retrieval.distiller", "\"extractive\" or { model = …, name = … }");
                None
            }
        }
    }

    fn numbers(
        &mut self,
        t: &DeTable<'_>,
        table: &'static str,
        more: &[&str],
        numbers: &mut BTreeMap<&'static str, Set<u64>>,
    ) {
        let names: Vec<&str> = NUMBERS
            .iter()
            .filter(|n| n.0 == table)
            .map(|n| n.1)
            .chain(more.iter().copied())
            .collect();
        self.known(t, &names, table);
        for (_, name, low, high) in NUMBERS.iter().filter(|n| n.0 == table) {
            if let Some(n) = t.get(*name).and_then(|v| self.integer(v, name, *low, *high)) {
                numbers.insert(name, n);
            }
        }
    }
}
