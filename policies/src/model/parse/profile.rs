//! The `[profile]` table.

use super::walk::Walk;
use crate::model::Set;
use crate::model::profile::{PLACEHOLDERS, PhantomKey, Profile, Seed};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Value<'i> = Spanned<DeValue<'i>>;

impl Walk {
    pub(super) fn profile(&mut self, p: &DeTable<'_>, span: Range<usize>) -> Option<Profile> {
        self.known(
            p,
            &["name", "commands", "args", "state", "models", "key", "seed", "file"],
            "profile",
        );
        let Some(name) = p.get("name").and_then(|v| self.string(v, "profile.name")) else {
            self.problem(span, "this profile has no `name`", "", None);
            return None;
        };
        if name.is_empty()
            || !name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        {
            self.problem(
                name.place.span.clone(),
                "a profile's name is made of a-z, 0-9 and -",
                "",
                None,
            );
        }
        let mut args = Vec::new();
        for group in self.array(p, "args", "profile.args") {
            let DeValue::Array(items) = group.get_ref() else {
                self.wrong(group, "profile.args", "an array of arrays of text");
                continue;
            };
            let items: Vec<_> = items.iter().filter_map(|v| self.template(v, "profile.args")).collect();
            args.push(items);
        }
        let key = self.table(p, "key", "profile.key").and_then(|k| {
            self.known(k, &["env", "shape"], "profile.key");
            let env = k.get("env").and_then(|v| self.string(v, "profile.key.env"))?;
            let shape = k.get("shape").and_then(|v| self.string(v, "profile.key.shape"))?;
            Some(PhantomKey { env, shape })
        });
        let state = self.inner_paths(p, "state");
        Some(Profile {
            name,
            commands: self.list(p, "commands", "profile.commands"),
            args,
            state,
            models: self.list(p, "models", "profile.models"),
            key,
            seed: self.seeds(p, "seed"),
            files: self.seeds(p, "file"),
        })
    }

    fn seeds(&mut self, p: &DeTable<'_>, key: &str) -> Vec<Seed> {
        let what = format!("profile.{key}");
        let mut seeds = Vec::new();
        for v in self.array(p, key, &what) {
            let DeValue::Table(t) = v.get_ref() else {
                self.wrong(v, &what, "a table");
                continue;
            };
            self.known(t, &["path", "content"], &what);
            let path = t.get("path").and_then(|v| self.string(v, "path"));
            let content = t.get("content").and_then(|v| self.template(v, "content"));
            match (path, content) {
                (Some(path), Some(content)) => {
                    self.inner_path(&path);
                    seeds.push(Seed { path, content });
                }
                _ => self.problem(
                    v.span(),
                    format!("an entry of `{what}` needs `path` and `content`"),
                    "",
                    None,
                ),
            }
        }
        seeds
    }

    fn inner_paths(&mut self, p: &DeTable<'_>, key: &str) -> Vec<Set<String>> {
        let list = self.list(p, key, key);
        for path in &list {
            self.inner_path(path);
        }
        list
    }

    /// A path relative to the private HOME.
    fn inner_path(&mut self, path: &Set<String>) {
        if path.is_empty() || path.starts_with('/') || path.split('/').any(|c| matches!(c, ".." | ".")) {
            self.problem(
                path.place.span.clone(),
                "this path has to stay in the private HOME",
                "relative, without `..`",
                None,
            );
        }
    }

    /// Text in which `{…}` has to be a placeholder.
    fn template(&mut self, v: &Value<'_>, what: &str) -> Option<Set<String>> {
        let text = self.string(v, what)?;
        for (at, _) in text.value.match_indices('{') {
            let rest = &text.value[at + 1..];
            let word: &str = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
            if !word.is_empty() && rest[word.len()..].starts_with('}') && !PLACEHOLDERS.contains(&word) {
                let known = PLACEHOLDERS.join(", ");
                self.problem(
                    text.place.span.clone(),
                    format!("unknown placeholder `{{{word}}}`"),
                    "",
                    Some(format!("known ones: {known}")),
                );
            }
        }
        Some(text)
    }
}
