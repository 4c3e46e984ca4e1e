//! Scenarios: an attack in one file. What is served, what the model makes the agent do, what is planted where, and where it must
//! not arrive.

mod parse;
mod place;
mod shipped;

pub use parse::parse;
pub use place::{Words, fill, fill_table};
pub use shipped::{SHIPPED, Shipped, shipped};

use crate::model::{Mode, Set};
use std::collections::BTreeMap;

/// An attack and its oracle. Texts may hold placeholders ([`fill`]); every name in them is known to exist.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// One line.
    pub title: Set<String>,
    /// What the attack is, why it works elsewhere, what stops it.
    pub about: Option<Set<String>>,
    /// The mode that the session starts in.
    pub mode: Mode,
    /// How long one play may take.
    pub seconds: u64,
    /// Programs without which it cannot be tried.
    pub needs: Vec<Set<String>>,
    /// What is planted and looked for.
    pub canaries: Vec<Canary>,
    /// The model key; a random one if not given.
    pub key: Option<Set<String>>,
    /// The person's environment.
    pub env: BTreeMap<String, Set<String>>,
    /// Files, made before anything runs.
    pub files: Vec<File>,
    /// Commands of the person's, in the workspace, before the session.
    pub before: Vec<Set<String>>,
    /// Commands of the person's, in the workspace, after the session.
    pub afterwards: Vec<Set<String>>,
    /// Servers on loopback.
    pub servers: Vec<Server>,
    /// What the model makes the agent do, in this order.
    pub steps: Vec<Step>,
    /// The oracle.
    pub checks: Vec<Check>,
}

/// A value that is drawn anew for each play.
#[derive(Clone, Debug)]
pub struct Canary {
    /// Its name in placeholders.
    pub name: Set<String>,
    /// What it looks like.
    pub like: Like,
}

/// What a canary looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Like {
    /// `CANARY-` and random hexadecimal digits.
    Token,
    /// Nine digits: nothing that a filter takes for a secret.
    Number,
    /// A model key.
    Key,
}

/// A file of the person's.
#[derive(Clone, Debug)]
pub struct File {
    /// Below `{{work}}`, `{{home}}` or `{{outside}}`.
    pub path: Set<String>,
    /// Its content.
    pub text: Set<String>,
    /// Whether it is a program.
    pub executable: bool,
}

/// A server on loopback. It keeps all that arrives.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name in placeholders and checks.
    pub name: Set<String>,
    /// Whether the person's policy names it: it is fetched without a question.
    pub known: bool,
    /// Names that the scenario's name server answers with this server's address; a leading `*.` stands for all below.
    pub names: Vec<Set<String>>,
    /// What it serves; anything else is answered with 404.
    pub pages: Vec<Page>,
}

/// One answer of a server.
#[derive(Clone, Debug)]
pub struct Page {
    /// The path without its query; `*` for every path.
    pub path: Set<String>,
    /// HTTP status.
    pub status: u16,
    /// Content type.
    pub media_type: Set<String>,
    /// Where a redirect leads.
    pub location: Option<Set<String>>,
    /// The body.
    pub body: Option<Set<String>>,
}

/// One thing that the model makes the agent do.
#[derive(Clone, Debug)]
pub struct Step {
    /// Unique; checks name it.
    pub name: Set<String>,
    /// The tool, see [`TOOLS`].
    pub tool: String,
    /// Its arguments, with placeholders.
    pub input: toml::Table,
    /// What the person sets the mode to before this step.
    pub person: Option<Mode>,
}

/// The agent's tools, with their arguments; those with a `?` may be left out.
pub const TOOLS: &[(&str, &[&str])] = &[
    ("run", &["command"]),
    ("read", &["path"]),
    ("write", &["path", "text"]),
    ("send", &["address", "text"]),
    ("lookup", &["host"]),
    ("web_fetch", &["url", "question?"]),
    ("ask_model", &["text", "request?"]),
    ("say", &["text"]),
];

/// One finding of the oracle.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is tried, for people.
    pub tried: Set<String>,
    /// Whose wall it is, for people.
    pub who: Option<Set<String>>,
    /// The step whose result is shown beside it.
    pub step: Option<Set<String>>,
    /// What must hold.
    pub kind: Kind,
}

/// What must hold in the session. The first two must *not* hold in the twin: there the attack has to succeed.
#[derive(Clone, Debug)]
pub enum Kind {
    /// It arrives at none of these spots.
    Never(What, Vec<Set<Spot>>),
    /// These files are as they were, or still absent.
    Unchanged(Vec<Set<String>>),
    /// A control: it arrives at each of these spots, in the session and in the twin.
    Arrives(What, Vec<Set<Spot>>),
}

/// What is looked for.
#[derive(Clone, Debug)]
pub enum What {
    /// A canary, in any usual encoding.
    Canary(Set<String>),
    /// These very bytes.
    Text(Set<String>),
    /// Whatever it is.
    Anything,
}

/// Where things may arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A server: request lines, headers and bodies.
    Server(String),
    /// The scenario's name server: names that were asked for.
    Dns,
    /// The model provider: bodies of requests.
    Model,
    /// The model provider: kinds of tools by which it would reach out itself.
    ModelTools,
    /// The model provider: keys.
    ModelKey,
    /// What the agent's process and the person's commands print.
    Terminal,
    /// A file or a directory with all below it, with placeholders.
    File(String),
}

impl std::fmt::Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(name) => write!(f, "server.{name}"),
            Self::Dns => f.write_str("dns"),
            Self::Model => f.write_str("model"),
            Self::ModelTools => f.write_str("model.tools"),
            Self::ModelKey => f.write_str("model.key"),
            Self::Terminal => f.write_str("terminal"),
            Self::File(path) => write!(f, "file:{path}"),
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Canary(name) => write!(f, "canary `{}`", name.value),
            Self::Text(text) => write!(f, "\"{}\"", text.value),
            Self::Anything => f.write_str("anything"),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (verb, what, spots) = match self {
            Self::Never(what, spots) => ("must not arrive at", what, spots),
            Self::Arrives(what, spots) => ("has to arrive at", what, spots),
            Self::Unchanged(paths) => {
                let paths: Vec<&str> = paths.iter().map(|p| p.value.as_str()).collect();
                return write!(f, "{} must stay as it was", paths.join(", "));
            }
        };
        let spots: Vec<String> = spots.iter().map(|s| s.value.to_string()).collect();
        write!(f, "{what} {verb} {}", spots.join(", "))
    }
}
