//! The policy that is in force: typed values, each with the file and line that set it.

mod effective;
pub(crate) mod parse;
mod profile;
mod values;

pub use effective::{effective, stack};
pub use parse::{Layer, parse};
pub use profile::{BUILTIN, PhantomKey, Placeholders, Profile, Seed, builtin, profile, profile_for};
pub use values::{Distiller, HostPort, KeySource, Mode, Upstream, Urls};

use crate::diagnostics::Place;
use serde::Serialize;
use std::collections::BTreeMap;

/// A value and what set it. Serialises as the value alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set<T> {
    /// The value.
    pub value: T,
    /// The file and line that set it.
    pub place: Place,
}

impl<T: Serialize> Serialize for Set<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T> std::ops::Deref for Set<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// The effective policy. Its serialisation has no provenance and is what a session's policy hash is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    /// Paths.
    pub files: Files,
    /// The environment of the command.
    pub env: Env,
    /// The mode a session starts in.
    pub mode: Set<Mode>,
    /// Model gateways by name.
    pub models: BTreeMap<String, Model>,
    /// Retrievals.
    pub retrieval: Retrieval,
    /// GitHub.
    pub github: Github,
    /// Bounds.
    pub limits: Limits,
    /// What the agent of this session needs.
    pub profile: Profile,
    /// `[[command]]` entries, kept as written.
    pub commands: Vec<Set<toml::Table>>,
    /// `[[test]]` entries, kept as written.
    pub tests: Vec<Set<toml::Table>>,
}

/// Paths: absolute, `~/…`, or relative to the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Files {
    /// Readable beside the workspace. A path of a built-in file that does not exist is skipped, any other is an error.
    pub read: Vec<Set<String>>,
    /// Writable in edit mode beside the workspace, granted like it.
    pub write: Vec<Set<String>>,
    /// Not readable.
    pub hide: Vec<Set<String>>,
    /// Protected names, see [`crate::protect`].
    pub protect: Vec<Set<String>>,
}

/// The environment of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Env {
    /// Names that are passed on; a trailing `*` stands for any rest.
    pub pass: Vec<Set<String>>,
    /// Values that are set, with placeholders ([`Placeholders`]); an entry whose placeholder has no value is left out.
    pub set: BTreeMap<String, Set<String>>,
}

impl Env {
    /// Whether a variable of the launcher's environment is passed on.
    #[must_use]
    pub fn passes(&self, name: &str) -> bool {
        self.pass.iter().any(|p| match p.value.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == p.value,
        })
    }
}

/// A model API that the agent's gateway pins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// Which API it speaks: `anthropic`, `openai` or `gemini`.
    pub protocol: Set<String>,
    /// Scheme, host, port and path prefix.
    pub upstream: Set<Upstream>,
    /// Where the launcher reads the key; none: the upstream takes none.
    pub key: Option<Set<KeySource>>,
    /// Allowed `METHOD /path`.
    pub allow: Vec<Set<String>>,
    /// Allowed model names; empty: every name that the protocol's rule for names accepts.
    pub models: Vec<Set<String>>,
}

/// What retrievals may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retrieval {
    /// Exceptions to "public addresses only". A host named here counts as known.
    pub private: Vec<Set<HostPort>>,
    /// Which URLs may be asked for.
    pub urls: Set<Urls>,
    /// Known hosts: a name with its subdomains.
    pub hosts: Vec<Set<String>>,
    /// Ports beside those of `private`.
    pub ports: Vec<Set<u16>>,
    /// Who distils.
    pub distiller: Set<Distiller>,
    /// Files with further trust anchors (PEM).
    pub roots: Vec<Set<String>>,
    /// Whether raw pages are kept in the record.
    pub raw: Set<bool>,
    /// Who searches the web; none: there is no search.
    pub search: Option<Search>,
    /// What may leave in one session.
    pub budget: Budget,
}

/// A search provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Search {
    /// One of [`SEARCH_PROVIDERS`].
    pub provider: Set<String>,
    /// Where it is.
    pub upstream: Set<Upstream>,
    /// Where the launcher reads its key; none: it takes none.
    pub key: Option<Set<KeySource>>,
}

/// How GitHub is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Github {
    /// Where the REST API is; none: github.com's.
    pub upstream: Option<Set<Upstream>>,
    /// Where the launcher reads a token; none: what anybody may read, sixty times an hour.
    pub key: Option<Set<KeySource>>,
    /// Repositories that may be read although not everybody may: `owner/name` or `owner/*`.
    pub private: Vec<Set<String>>,
    /// Where logs and archives may be redirected to; empty: github.com's places.
    pub storage: Vec<Set<String>>,
}

impl Github {
    /// Where github.com's API is.
    pub const UPSTREAM: &str = "https://api.github.com";
    /// Where github.com keeps archives and logs.
    pub const STORAGE: [&str; 3] = [
        "https://codeload.github.com",
        "https://*.actions.githubusercontent.com",
        "https://productionresultssa*.blob.core.windows.net",
    ];

    /// Whether the policy names a repository.
    #[must_use]
    pub fn names(&self, owner: &str, name: &str) -> bool {
        self.private.iter().any(|entry| {
            entry
                .split_once('/')
                .is_some_and(|(o, n)| o.eq_ignore_ascii_case(owner) && (n == "*" || n.eq_ignore_ascii_case(name)))
        })
    }
}

/// The search providers, with where each is by itself. An own instance is wherever its person runs it.
pub const SEARCH_PROVIDERS: &[(&str, Option<&str>)] = &[
    ("brave", Some("https://api.search.brave.com/res/v1")),
    ("tavily", Some("https://api.tavily.com")),
    ("exa", Some("https://api.exa.ai")),
    ("kagi", Some("https://kagi.com/api/v0")),
    ("searxng", None),
];

/// What may leave in one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// Requests.
    pub requests: Set<u64>,
    /// Requests to one host.
    pub requests_per_host: Set<u64>,
    /// Bits of URLs and questions that did not come from a page already fetched, to one host (see [`crate::outgoing`]).
    pub bits_per_host: Set<u64>,
    /// The same for all hosts together.
    pub bits: Set<u64>,
    /// Bytes of one URL's query.
    pub query_bytes: Set<u64>,
}

/// Bounds of a session and of one retrieval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Seconds for one connection of a retriever.
    pub connect_seconds: Set<u64>,
    /// Seconds for one retrieval.
    pub fetch_seconds: Set<u64>,
    /// Bytes over the wire of one retrieval.
    pub wire_bytes: Set<u64>,
    /// Bytes of one retrieval after decoding.
    pub decoded_bytes: Set<u64>,
    /// Redirects of one retrieval.
    pub redirects: Set<u64>,
    /// Retrievals at the same time.
    pub parallel: Set<u64>,
    /// Bytes of memory of the whole session, where control groups can be had; of each process's data elsewhere.
    pub memory_bytes: Set<u64>,
    /// The same as a part of the machine's memory, in percent; the lower of the two holds. For the whole session only.
    pub memory_percent: Set<u64>,
    /// Processes and threads of the session at the same time.
    pub processes: Set<u64>,
    /// Open descriptors of each process.
    pub open_files: Set<u64>,
    /// Bytes that one file can grow to.
    pub file_bytes: Set<u64>,
    /// Bytes in `/tmp`, which is in memory; where there is a view.
    pub tmp_bytes: Set<u64>,
    /// Bytes in `/dev/shm`, which is in memory; where there is a view.
    pub shm_bytes: Set<u64>,
    /// How full the disks of the private home and of the workspace may get before the session is ended, in percent.
    pub disk_percent: Set<u64>,
}

#[cfg(test)]
mod tests;
