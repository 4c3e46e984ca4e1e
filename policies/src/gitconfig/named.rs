//! What a configuration names, of what git and its tools read or run.

use super::entry;
use super::keys::allowed;
use super::syntax::{Entry, parse};

/// What a configuration names, of what git reads or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// Another configuration file, relative to the directory of this one.
    Include(Vec<u8>),
    /// A file or directory that git obeys, relative to the work tree.
    Place(Vec<u8>),
    /// A command line, run in the work tree.
    Command(Vec<u8>),
    /// The arguments of a command of git's own.
    Arguments(Vec<u8>),
    /// The value of a key that is not known to be harmless: a command line or a path perhaps, or something else altogether.
    Value(Vec<u8>),
}

/// Ends of keys that hold a command line or a program, whatever their section: git's and its tools' names for that are many.
const COMMANDS: &[&str] = &[
    "cmd", "command", "program", "helper", "editor", "pager", "driver", "textconv", "hook", "askpass",
];

/// Files and programs that a configuration names; none if it cannot be read.
///
/// A key that an agent may set itself names none of either; every other value counts.
#[must_use]
pub fn named(content: &[u8]) -> Option<Vec<Named>> {
    let items = parse(content).ok()?;
    Some(items.iter().filter_map(entry).filter_map(judge).collect())
}

fn judge(e: &Entry) -> Option<Named> {
    let value = e.value.clone().filter(|v| !v.is_empty())?;
    let key = e.key.to_ascii_lowercase();
    match (e.section.as_str(), key.as_str()) {
        ("include" | "includeif", "path") => Some(Named::Include(value)),
        ("core", "hookspath" | "attributesfile") | ("init", "templatedir") | ("hook", "path") => {
            Some(Named::Place(value))
        }
        _ if allowed(e).is_ok() => None,
        ("alias", _) if value[0] != b'!' => Some(Named::Arguments(value)),
        ("alias" | "pager", _)
        | ("core", "fsmonitor" | "gitproxy")
        | ("diff", "external")
        | ("filter", "clean" | "smudge" | "process")
        | ("mergetool" | "difftool" | "guitool" | "browser" | "man" | "lfs", "path")
        | ("sendemail", "smtpserver")
        | ("interactive", "difffilter")
        | ("remote", "uploadpack" | "receivepack") => Some(Named::Command(value)),
        _ if value[0] == b'!' || COMMANDS.iter().any(|end| key.ends_with(end)) => Some(Named::Command(value)),
        _ => Some(Named::Value(value)),
    }
}
