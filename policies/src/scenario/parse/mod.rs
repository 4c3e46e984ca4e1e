//! From text to a scenario: everything unknown, unused or unreachable is an error with its place.

mod oracle;
mod stage;

use crate::diagnostics::{Diagnostics, Kind as Layer, Origin, Source, nearest};
use crate::model::parse::walk::{Walk, plain, variable};
use crate::model::{Mode, Set};
use crate::scenario::place::placeholders;
use crate::scenario::{Canary, Kind, Like, Scenario, Step, TOOLS};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Bytes of one file.
const MAX_FILE: usize = 1 << 20;
/// Seconds of one play, if the file does not say.
const SECONDS: u64 = 60;
const MODES: &[(&str, Mode)] = &[("read-only", Mode::ReadOnly), ("edit", Mode::Edit)];

type Value<'i> = Spanned<DeValue<'i>>;

/// Reads a scenario. `file` is its name in messages, `name` its own.
///
/// # Errors
/// All problems of the text.
pub fn parse(text: &str, file: &str, name: &str) -> Result<Scenario, Diagnostics> {
    let source = Arc::new(Source {
        origin: Origin::new(Layer::CommandLine, file),
        text: text.to_owned(),
    });
    let mut reader = Reader {
        walk: Walk {
            source,
            problems: Vec::new(),
        },
        known: Known::default(),
    };
    let scenario = reader.read(text, name);
    let mut problems = reader.walk.problems;
    match scenario {
        Some(scenario) if problems.is_empty() => Ok(scenario),
        _ => {
            problems.sort_by_key(|p| p.place.span.start);
            Err(Diagnostics { problems })
        }
    }
}

/// What names refer to.
#[derive(Default)]
struct Known {
    canaries: Vec<String>,
    servers: Vec<String>,
    steps: Vec<String>,
    planted: BTreeSet<String>,
    checked: BTreeSet<String>,
}

struct Reader {
    walk: Walk,
    known: Known,
}

impl Reader {
    fn read(&mut self, text: &str, name: &str) -> Option<Scenario> {
        if text.len() > MAX_FILE {
            let found = format!("{} bytes, at most {MAX_FILE}", text.len());
            self.walk.problem(0..0, "the scenario is too long", found, None);
            return None;
        }
        let (document, errors) = DeTable::parse_recoverable(text);
        for e in &errors {
            let span = e.span().unwrap_or(0..0);
            self.walk
                .problem(span, "is not valid TOML", e.message().to_owned(), None);
        }
        // A broken document would only give errors that follow from the first ones.
        errors.is_empty().then(|| self.document(document.get_ref(), name))?
    }

    fn document(&mut self, t: &DeTable<'_>, name: &str) -> Option<Scenario> {
        const TOP: &[&str] = &[
            "version",
            "title",
            "about",
            "mode",
            "seconds",
            "needs",
            "key",
            "env",
            "before",
            "afterwards",
            "canary",
            "file",
            "server",
            "step",
            "check",
        ];
        self.walk.known(t, TOP, "");
        match t.get("version") {
            None => self.walk.problem(
                0..0,
                "`version` is missing",
                "",
                Some("write `version = 1` as the first line".to_owned()),
            ),
            Some(v) => {
                if self
                    .walk
                    .integer(v, "version", 0, u64::MAX)
                    .is_some_and(|n| n.value != 1)
                {
                    let message = "unknown version of the scenario format";
                    self.walk.problem(v.span(), message, "only 1 is known", None);
                }
            }
        }
        // Names first: texts refer to them.
        let canaries = self.each(t, "canary", Self::canary);
        self.known.servers = self.names(t, "server");
        self.known.steps = self.names(t, "step");

        let title = self.needed(t, 0..0, "title", "title");
        let about = self.optional(t, "about", "about");
        let mode = t.get("mode").and_then(|v| self.walk.one_of(v, "mode", MODES));
        let seconds = t.get("seconds").and_then(|v| self.walk.integer(v, "seconds", 1, 3600));
        let needs = self.walk.list(t, "needs", "needs");
        let key = self.optional(t, "key", "key");
        self.plants(key.as_ref());
        let env = self.environment(t);
        let before = self.commands(t, "before");
        let afterwards = self.commands(t, "afterwards");
        let files = self.each(t, "file", Self::file);
        let servers = self.each(t, "server", Self::server);
        let steps = self.each(t, "step", Self::step);
        let checks = self.each(t, "check", Self::check);
        if t.get("step").is_none() {
            let help = "add a [[step]]: what the model makes the agent do".to_owned();
            self.walk.problem(0..0, "the scenario has no step", "", Some(help));
        }
        for step in steps.iter().rev().skip(1).filter(|s| s.tool == "say") {
            let span = step.name.place.span.clone();
            let label = "the agent ends when its model calls no tool";
            self.walk.problem(span, "only the last step can be `say`", label, None);
        }
        let judged = |c: &crate::scenario::Check| !matches!(c.kind, Kind::Arrives(..));
        if self.walk.problems.is_empty() && !checks.iter().any(judged) {
            let help = "add a [[check]] with `never` or `unchanged`".to_owned();
            self.walk
                .problem(0..0, "nothing in the scenario can fail", "", Some(help));
        }
        self.used(&canaries);
        Some(Scenario {
            name: name.to_owned(),
            title: title?,
            about,
            mode: mode.map_or(Mode::ReadOnly, |m| m.value),
            seconds: seconds.map_or(SECONDS, |s| s.value),
            needs,
            canaries,
            key,
            env,
            files,
            before,
            afterwards,
            servers,
            steps,
            checks,
        })
    }

    /// A canary that is nowhere, or is looked for nowhere, makes a check that cannot fail.
    fn used(&mut self, canaries: &[Canary]) {
        for canary in canaries {
            let name = &canary.name.value;
            let span = canary.name.place.span.clone();
            if !self.known.planted.contains(name) {
                let help = format!(
                    "write {{{{canary.{name}}}}} into a file, the environment, the key, a page or a command of `before`"
                );
                self.walk.problem(
                    span.clone(),
                    format!("canary `{name}` is planted nowhere"),
                    "",
                    Some(help),
                );
            }
            if !self.known.checked.contains(name) {
                self.walk.problem(
                    span,
                    format!("canary `{name}` is looked for nowhere"),
                    "",
                    Some(format!("add a [[check]] with `canary = \"{name}\"`")),
                );
            }
        }
    }

    fn each<T>(
        &mut self,
        t: &DeTable<'_>,
        key: &str,
        read: impl Fn(&mut Self, &DeTable<'_>, Range<usize>) -> Option<T>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for v in self.walk.array(t, key, key) {
            match v.get_ref() {
                DeValue::Table(table) => all.extend(read(self, table, v.span())),
                _ => self.walk.wrong(v, key, "a table"),
            }
        }
        all
    }

    /// The names of an array's tables, which have to be distinct.
    fn names(&mut self, t: &DeTable<'_>, key: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let tables: Vec<&Value<'_>> = match t.get(key).map(Spanned::get_ref) {
            Some(DeValue::Array(items)) => items.iter().collect(),
            _ => Vec::new(),
        };
        for v in tables {
            let DeValue::Table(table) = v.get_ref() else { continue };
            let Some(at) = table.get("name") else { continue };
            if let DeValue::String(name) = at.get_ref() {
                if names.iter().any(|n| **n == **name) {
                    let message = format!("two tables of `{key}` have this name");
                    self.walk.problem(at.span(), message, "the second", None);
                }
                names.push(name.to_string());
            }
        }
        names
    }

    /// A text with its placeholders checked.
    fn text(&mut self, v: &Value<'_>, what: &str) -> Option<Set<String>> {
        let text = self.walk.string(v, what)?;
        self.placeholders(&text.value, v.span());
        Some(text)
    }

    fn placeholders(&mut self, text: &str, span: Range<usize>) {
        for (_, name) in placeholders(text) {
            let known = match name.split_once('.') {
                Some(("canary" | "base64" | "hex" | "reversed", rest)) => self.known.canaries.iter().any(|c| c == rest),
                Some(("url" | "address" | "port", rest)) => self.known.servers.iter().any(|s| s == rest),
                Some(_) => false,
                None => matches!(name, "work" | "home" | "outside" | "dns" | "query"),
            };
            if known {
                continue;
            }
            let written = format!("{{{{{name}}}}}");
            // In a text with escapes it may be written otherwise: then the whole text is marked.
            let source = self.walk.source.text.get(span.clone()).unwrap_or_default();
            let at = source
                .find(&written)
                .map_or(span.clone(), |at| span.start + at..span.start + at + written.len());
            let mut all: Vec<String> = ["work", "home", "outside", "dns", "query"].map(str::to_owned).to_vec();
            for canary in &self.known.canaries {
                all.extend(["canary", "base64", "hex", "reversed"].map(|kind| format!("{kind}.{canary}")));
            }
            for server in &self.known.servers {
                all.extend(["url", "address", "port"].map(|kind| format!("{kind}.{server}")));
            }
            let words: Vec<&str> = all.iter().map(String::as_str).collect();
            let help = match nearest(name, &words) {
                Some(near) => format!("did you mean {{{{{near}}}}}?"),
                None => format!("known: {}", words.join(", ")),
            };
            self.walk
                .problem(at, format!("unknown placeholder `{written}`"), "not known", Some(help));
        }
    }

    fn optional(&mut self, t: &DeTable<'_>, key: &str, what: &str) -> Option<Set<String>> {
        t.get(key).and_then(|v| self.text(v, what))
    }

    fn needed(&mut self, t: &DeTable<'_>, span: Range<usize>, key: &str, what: &str) -> Option<Set<String>> {
        if t.get(key).is_none() {
            self.walk.problem(span, format!("`{what}` is missing"), "", None);
        }
        self.optional(t, key, what)
    }

    fn flag(&mut self, t: &DeTable<'_>, key: &str, what: &str) -> bool {
        match t.get(key).map(|v| (v, v.get_ref())) {
            None => false,
            Some((_, DeValue::Boolean(value))) => *value,
            Some((v, _)) => {
                self.walk.wrong(v, what, "true or false");
                false
            }
        }
    }

    fn plants(&mut self, text: Option<&Set<String>>) {
        let Some(text) = text else { return };
        for (_, name) in placeholders(&text.value) {
            self.known
                .planted
                .extend(name.strip_prefix("canary.").map(str::to_owned));
        }
    }

    fn canary(&mut self, t: &DeTable<'_>, span: Range<usize>) -> Option<Canary> {
        self.walk.known(t, &["name", "like"], "canary");
        let name = self.needed(t, span, "name", "canary.name")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.value.chars().all(plain) {
            let span = name.place.span.clone();
            let label = "letters, digits, - and _";
            self.walk.problem(span, "is no name of a canary", label, None);
            return None;
        }
        if self.known.canaries.contains(&name.value) {
            let span = name.place.span.clone();
            self.walk
                .problem(span, "two canaries have this name", "the second", None);
        }
        self.known.canaries.push(name.value.clone());
        let words = [("token", Like::Token), ("number", Like::Number), ("key", Like::Key)];
        let like = t.get("like").and_then(|v| self.walk.one_of(v, "canary.like", &words));
        Some(Canary {
            name,
            like: like.map_or(Like::Token, |l| l.value),
        })
    }

    fn environment(&mut self, t: &DeTable<'_>) -> BTreeMap<String, Set<String>> {
        let mut env = BTreeMap::new();
        let Some(table) = self.walk.table(t, "env", "env") else {
            return env;
        };
        for (k, v) in table {
            if !variable(k.get_ref()) {
                self.walk
                    .problem(k.span(), "is no name of an environment variable", "", None);
            }
            if matches!(&**k.get_ref(), "HOME" | "PATH") || k.get_ref().starts_with("XDG_") {
                let label = "every play has its own";
                self.walk.problem(k.span(), "this variable cannot be set", label, None);
            }
            let value = self.text(v, "env");
            self.plants(value.as_ref());
            env.extend(value.map(|value| (k.get_ref().to_string(), value)));
        }
        env
    }

    fn commands(&mut self, t: &DeTable<'_>, key: &str) -> Vec<Set<String>> {
        let mut all = Vec::new();
        for v in self.walk.array(t, key, key) {
            let command = self.text(v, key);
            if key == "before" {
                self.plants(command.as_ref());
            }
            all.extend(command);
        }
        all
    }

    /// A path must lie in one of the play's own directories.
    fn own_path(&mut self, path: &Set<String>) {
        let below = ["{{work}}", "{{home}}", "{{outside}}"]
            .iter()
            .find_map(|root| path.value.strip_prefix(root));
        let plain =
            |rest: &str| rest.is_empty() || (rest.starts_with('/') && !rest.split('/').any(|part| part == ".."));
        if !below.is_some_and(plain) {
            self.walk.problem(
                path.place.span.clone(),
                "this path does not lie in the scenario's own directories",
                "",
                Some("start with {{work}}/, {{home}}/ or {{outside}}/, without ..".to_owned()),
            );
        }
    }

    fn step(&mut self, t: &DeTable<'_>, span: Range<usize>) -> Option<Step> {
        let name = self.needed(t, span.clone(), "name", "step.name");
        let person = t.get("person").and_then(|v| self.walk.one_of(v, "step.person", MODES));
        if t.get("tool").is_none() {
            let tools: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
            let help = format!("one of {}", tools.join(", "));
            self.walk
                .problem(span.clone(), "`step.tool` is missing", "", Some(help));
        }
        let words: Vec<(&str, usize)> = TOOLS.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
        let tool = t.get("tool").and_then(|v| self.walk.one_of(v, "step.tool", &words))?;
        let (tool, arguments) = TOOLS[tool.value];
        let mut keys: Vec<&str> = arguments.iter().map(|a| a.trim_end_matches('?')).collect();
        keys.extend(["name", "tool", "person"]);
        self.walk.known(t, &keys, &format!("step with {tool}"));
        let mut input = toml::Table::new();
        for argument in arguments {
            let key = argument.trim_end_matches('?');
            let what = format!("step.{key}");
            let value = match t.get(key) {
                None if argument.ends_with('?') => None,
                Some(v) if key == "request" => match plain(v.get_ref()) {
                    Some(table @ toml::Value::Table(_)) => {
                        self.texts(&table, v.span());
                        Some(table)
                    }
                    _ => {
                        self.walk.wrong(v, &what, "a table");
                        None
                    }
                },
                _ => self
                    .needed(t, span.clone(), key, &what)
                    .map(|text| toml::Value::String(text.value)),
            };
            input.extend(value.map(|value| (key.to_owned(), value)));
        }
        Some(Step {
            name: name?,
            tool: tool.to_owned(),
            input,
            person: person.map(|p| p.value),
        })
    }

    fn texts(&mut self, value: &toml::Value, span: Range<usize>) {
        match value {
            toml::Value::String(text) => self.placeholders(text, span),
            toml::Value::Array(items) => items.iter().for_each(|v| self.texts(v, span.clone())),
            toml::Value::Table(table) => table.values().for_each(|v| self.texts(v, span.clone())),
            _ => {}
        }
    }
}
