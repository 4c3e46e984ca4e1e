//! Profiles: what an agent needs beside the rules. Built-in ones are ordinary policy files.

use super::Set;
use super::parse::{Layer, parse};
use crate::diagnostics::{Kind, Origin};
use serde::Serialize;
use std::sync::OnceLock;

/// Name and text of every built-in policy file.
pub const BUILTIN: &[(&str, &str)] = &[
    ("system", include_str!("../../system.toml")),
    ("hosts", include_str!("../../hosts.toml")),
    ("generic", include_str!("../../profiles/generic.toml")),
    ("claude", include_str!("../../profiles/claude.toml")),
    ("codex", include_str!("../../profiles/codex.toml")),
];

/// The text of a built-in policy file.
#[must_use]
pub fn profile(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// A built-in policy file, parsed once in a process.
///
/// # Panics
/// Never: the embedded files are checked by a test.
#[must_use]
pub fn builtin(name: &str) -> Option<Layer> {
    static PARSED: [OnceLock<Layer>; BUILTIN.len()] = [const { OnceLock::new() }; BUILTIN.len()];
    let index = BUILTIN.iter().position(|(n, _)| *n == name)?;
    let layer = PARSED[index].get_or_init(|| {
        let origin = Origin::new(Kind::Builtin, format!("built-in {name}"));
        parse(BUILTIN[index].1, origin).expect("built-in policies are checked by a test")
    });
    Some(layer.clone())
}

/// The built-in profile for a command, by the last component of its name (`/usr/bin/claude` → `claude`).
#[must_use]
pub fn profile_for(command: &str) -> Option<&'static str> {
    let name = command.rsplit('/').next().unwrap_or(command);
    let applies = |l: Layer| l.profile.is_some_and(|p| p.commands.iter().any(|c| c.value == name));
    // A file that does not have the name in quotes need not be parsed for this.
    let quoted = [format!("\"{name}\""), format!("'{name}'")];
    let profiles = BUILTIN
        .iter()
        .filter(|(_, text)| quoted.iter().any(|name| text.contains(name.as_str())));
    profiles.map(|(n, _)| *n).find(|n| builtin(n).is_some_and(applies))
}

/// What the agent of a session needs; from the strongest layer that has a `[profile]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Its name; also that of the agent's private state.
    pub name: Set<String>,
    /// Commands that it applies to.
    pub commands: Vec<Set<String>>,
    /// Arguments put after the command's name. A group with a placeholder that has no value is left out as a whole.
    pub args: Vec<Vec<Set<String>>>,
    /// Directories of the private HOME that are made before the start, relative to it.
    pub state: Vec<Set<String>>,
    /// The `[model.…]` tables that the agent speaks to.
    pub models: Vec<Set<String>>,
    /// The phantom key.
    pub key: Option<PhantomKey>,
    /// Files written into the private HOME where they are absent, path relative to it.
    pub seed: Vec<Seed>,
    /// Files that exist inside, read-only, in picktwo's own directory; path is a plain name. `{mcp}` is the one called `mcp.json`.
    pub files: Vec<Seed>,
}

/// What the agent holds instead of a real key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhantomKey {
    /// The variable that carries it.
    pub env: Set<String>,
    /// Its shape; `{random}` stands for 40 random letters and digits.
    pub shape: Set<String>,
}

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seed {
    /// Where.
    pub path: Set<String>,
    /// What, with placeholders; in a `.json` file their values are escaped.
    pub content: Set<String>,
}

/// Values for `{gateway}`, `{key}`, `{key20}`, `{mcp}`, `{picktwo}`, `{home}`, `{workspace}` and `{session}`.
#[derive(Clone, Debug, Default)]
pub struct Placeholders {
    /// Base URL of the gateway, e.g. `http://127.0.0.1:8787`, without a trailing slash.
    pub gateway: Option<String>,
    /// The phantom key; `{key20}` is its last 20 characters.
    pub key: Option<String>,
    /// Path of the MCP configuration inside.
    pub mcp: Option<String>,
    /// Path of picktwo inside.
    pub picktwo: Option<String>,
    /// The private HOME inside.
    pub home: Option<String>,
    /// The workspace.
    pub workspace: Option<String>,
    /// The session's id.
    pub session: Option<String>,
}

/// Names of the placeholders.
pub(crate) const PLACEHOLDERS: &[&str] = &[
    "gateway",
    "key",
    "key20",
    "mcp",
    "picktwo",
    "home",
    "workspace",
    "session",
];

impl Placeholders {
    fn value(&self, name: &str) -> Option<String> {
        match name {
            "gateway" => self.gateway.clone(),
            "key" => self.key.clone(),
            "key20" => self
                .key
                .as_ref()
                .map(|k| k.chars().skip(k.chars().count().saturating_sub(20)).collect()),
            "mcp" => self.mcp.clone(),
            "picktwo" => self.picktwo.clone(),
            "home" => self.home.clone(),
            "workspace" => self.workspace.clone(),
            "session" => self.session.clone(),
            _ => None,
        }
    }

    /// Puts the values in; none if a placeholder has no value. Braces around anything else stay.
    #[must_use]
    pub fn expand(&self, text: &str) -> Option<String> {
        self.replace(text, |v| v)
    }

    /// As [`Self::expand`], with the values escaped for a JSON string.
    #[must_use]
    pub fn expand_json(&self, text: &str) -> Option<String> {
        self.replace(text, |v| {
            let mut out = String::new();
            for c in v.chars() {
                match c {
                    '"' => out.push_str("\\\""),
                    '\\' => out.push_str("\\\\"),
                    c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
                    c => out.push(c),
                }
            }
            out
        })
    }

    fn replace(&self, text: &str, escape: impl Fn(String) -> String) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let known = PLACEHOLDERS
                .iter()
                .find(|p| rest[open + 1..].strip_prefix(**p).is_some_and(|r| r.starts_with('}')));
            let Some(name) = known else {
                out.push_str(&rest[..=open]);
                rest = &rest[open + 1..];
                continue;
            };
            out.push_str(&rest[..open]);
            out.push_str(&escape(self.value(name)?));
            rest = &rest[open + name.len() + 2..];
        }
        out.push_str(rest);
        Some(out)
    }
}

impl Profile {
    /// The arguments to put after the command's name.
    #[must_use]
    pub fn arguments(&self, values: &Placeholders) -> Vec<String> {
        let group = |g: &Vec<Set<String>>| g.iter().map(|a| values.expand(a)).collect::<Option<Vec<_>>>();
        self.args.iter().filter_map(group).flatten().collect()
    }
}

impl Seed {
    /// The content with its placeholders filled; none if one has no value.
    #[must_use]
    pub fn fill(&self, values: &Placeholders) -> Option<String> {
        if self.path.ends_with(".json") {
            values.expand_json(&self.content)
        } else {
            values.expand(&self.content)
        }
    }
}
