//! Git's configuration and the other files of a git directory that decide what git runs: what ordinary tools write there is
//! read with a strict parser, and what passes is written again by the launcher, never copied.
//!
//! The grammar is that of git's config.c. What git reads in two ways in different versions is refused.

mod files;
mod keys;
mod named;
mod state;
mod syntax;

pub use files::{gitfile_names, vet_commondir, vet_gitfile, vet_todo, vet_worktree_gitdir};
pub use named::{Named, named};
pub use state::vet_state;

use files::relative;
use keys::allowed;
use syntax::{Entry, Item, parse, write};

/// Bytes of a configuration or todo file that are looked at; more is refused.
pub const MAX_FILE: usize = 1 << 20;

/// Why a content was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Line, from 1.
    pub line: usize,
    /// The key (`core.fsmonitor`, `remote.origin.uploadpack`), the command of a todo line, or the file's kind.
    pub key: String,
    /// Why, in a few words.
    pub reason: &'static str,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.key, self.reason)
    }
}

impl std::error::Error for Refused {}

fn refused<T>(line: usize, key: impl Into<String>, reason: &'static str) -> Result<T, Refused> {
    Err(Refused {
        line,
        key: key.into(),
        reason,
    })
}

/// Vets a configuration that has no predecessor. See [`vet_change`].
///
/// # Errors
/// [`Refused`] for the first line that does not pass.
pub fn vet(content: &[u8]) -> Result<Vec<u8>, Refused> {
    vet_change(b"", content)
}

/// Vets the new content of a git configuration file: every key is on a narrow allow list (GRANTS: remotes only `url`, `fetch` and
/// harmless switches, URLs only https, ssh or local paths) or stands in the present file with the same value. Such keys keep
/// their order, and none of them may vanish: dropping `core.hooksPath = /dev/null` opens something too.
///
/// Local paths (`/srv/x.git`, `../x`, `file:///srv/x.git`) are accepted as URLs: git then runs its own upload-pack, which takes the one
/// setting that names a program (`uploadpack.packObjectsHook`) from the user's own configuration only.
///
/// The result is what the launcher writes: its own text, which this parser reads back as the same keys.
///
/// # Errors
/// [`Refused`] for the first line that does not pass.
pub fn vet_change(present: &[u8], content: &[u8]) -> Result<Vec<u8>, Refused> {
    vet_change_at(present, content, &[])
}

/// As [`vet_change`], for a file in `directory` (components relative to the workspace): a submodule's configuration in
/// `.git/modules/…` may set `core.worktree` to a directory of the workspace that is not within a git directory, judged by its text. The
/// caller looks whether the gitfile in [`submodule_worktree`] leads back to the configuration before it publishes the file.
///
/// # Errors
/// [`Refused`] for the first line that does not pass.
pub fn vet_change_at(present: &[u8], content: &[u8], directory: &[&[u8]]) -> Result<Vec<u8>, Refused> {
    let judge = |e: &Entry| {
        allowed(e).or_else(|reason| {
            if worktree(e, directory).is_some() {
                Ok(())
            } else {
                Err(reason)
            }
        })
    };
    let new = parse(content)?;
    // A present file that this parser does not understand vouches for nothing.
    let old = parse(present).unwrap_or_default();
    let mut kept = old.iter().filter_map(entry).filter(|e| judge(e).is_err());
    for e in new.iter().filter_map(entry) {
        let Err(reason) = judge(e) else { continue };
        if !kept.next().is_some_and(|k| k.same(e)) {
            return refused(e.line, e.name(), reason);
        }
    }
    if let Some(gone) = kept.next() {
        return refused(
            gone.line,
            gone.name(),
            "may not be removed: the key was set outside of the session",
        );
    }
    let text = write(&new);
    let again = parse(&text)?;
    let same = new.iter().filter_map(entry).count() == again.iter().filter_map(entry).count()
        && new
            .iter()
            .filter_map(entry)
            .zip(again.iter().filter_map(entry))
            .all(|(a, b)| a.same(b));
    if !same {
        return refused(1, "configuration", "cannot be written unambiguously");
    }
    Ok(text)
}

/// The directory that a submodule's configuration in `directory` says its files lie in, relative to the workspace.
#[must_use]
pub fn submodule_worktree(content: &[u8], directory: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let items = parse(content).ok()?;
    let last = items
        .iter()
        .filter_map(entry)
        .filter_map(|e| worktree(e, directory))
        .next_back()?;
    Some(last.into_iter().map(<[u8]>::to_vec).collect())
}

/// What an entry says of a submodule's worktree, in the form and at the place that git gives it.
fn worktree<'a>(e: &'a Entry, directory: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
    let modules = directory.windows(2).any(|w| w == [&b".git"[..], &b"modules"[..]]);
    let key = e.section == "core" && e.subsection.is_none() && e.key.eq_ignore_ascii_case("worktree");
    let path = e.value.as_deref().filter(|v| modules && key && v.starts_with(b"../"))?;
    let target = relative(path, b"/", directory).ok()?;
    (!target.is_empty() && !target.contains(&&b".git"[..])).then_some(target)
}

fn entry(item: &Item) -> Option<&Entry> {
    match item {
        Item::Entry(e) => Some(e),
        _ => None,
    }
}

/// The value of a key (`core.hookspath`, section and key in lower case) in a configuration, the last one that is set.
#[must_use]
pub fn value(content: &[u8], section: &str, key: &str) -> Option<Vec<u8>> {
    let items = parse(content).ok()?;
    let mut entries = items
        .iter()
        .filter_map(entry)
        .filter(|e| e.section == section && e.subsection.is_none() && e.key.eq_ignore_ascii_case(key));
    entries
        .next_back()
        .map(|e| e.value.clone().unwrap_or_else(|| b"true".to_vec()))
}

#[cfg(test)]
mod tests;
