//! What is protected in this session beyond the names: where links at protected places lead, and what may not be a root at all.

mod above;
mod configured;
mod search;

use super::start::StartError;
use above::{Above, links_above};
use configured::{Configured, read};
use picktwo_confine::Errno;
use picktwo_inside::files;
use picktwo_policies::protect::{Protected, is_git_directory};
use search::{Found, find};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the roots are searched before the first change; what is nearest to a root is looked at first. Where that is not enough
/// nothing is changed, so it is far more than a large workspace on a slow disk takes.
const LIMIT: Duration = Duration::from_secs(30);
/// Far more than hooks and settings lead to.
const MAX_PLACES: usize = 4000;

/// The name that makes a directory unfit to be a root: beneath it, protected names would not be recognised as such.
fn protected_component(protected: &Protected, path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    for part in path.components() {
        at.push(part);
        let name = part.as_os_str().as_bytes();
        if protected.inner_name(name) || protected.check(&[name]).is_some() {
            return Some(at);
        }
        // A bare repository, or what lies in one: its hooks and its configuration would have other names from there.
        if is_git_directory(|mark| at.join(mark).symlink_metadata().is_ok()) {
            return Some(at);
        }
    }
    None
}

/// The protected names of a session: the built-in ones and those of the policy. What links at such places and git's configuration lead
/// to is added by [`finder`]: a hook that is a link to a script of the workspace runs that script.
///
/// # Errors
/// A root that lies in a protected place; a pattern of the policy that is none.
pub(super) fn of(roots: &[PathBuf], extra: &[String]) -> Result<Protected, StartError> {
    let wrong = |e: picktwo_policies::protect::BadPattern| StartError::Policy(e.to_string());
    let names = Protected::builtin();
    if let Some(place) = roots.iter().find_map(|root| protected_component(&names, root)) {
        return Err(StartError::ProtectedRoot(place));
    }
    names.with(extra).map_err(wrong)
}

/// What lies beyond the roots and leads into them, read while all of it can be read.
pub(super) struct Beyond {
    configured: Configured,
    above: Above,
}

/// Reads git's configuration of the person, the system and the repositories of the roots, and looks for links above the roots.
pub(super) fn beyond(roots: &[PathBuf], names: &Protected) -> Beyond {
    let configured = read(roots);
    Beyond {
        above: links_above(roots, &configured, names),
        configured,
    }
}

/// Finds what links at protected places and git's configuration lead to, everywhere beneath the roots. What cannot be looked at is
/// told; if the search does not end, or somebody closed a directory to it, nothing of the roots may be changed.
pub(super) fn finder(roots: Vec<PathBuf>, beyond: Beyond, tell: files::Sink) -> files::Finder {
    Box::new(move |names| {
        let found = find(&roots, &beyond, &names, Instant::now() + LIMIT);
        let (path, rule) = match (&found.ended_at, &found.unseen) {
            (Some(path), _) => (path, NOT_ENDED),
            (None, Some(path)) => (path, NOT_SEEN),
            (None, None) => return protected(names, found),
        };
        tell(files::Event {
            pid: 0,
            call: "protect",
            path: path.clone(),
            refused: Some(Errno::EACCES),
            rule: Some(rule.into()),
            suppressed: 0,
        });
        protected(names, found)
    })
}

const NOT_SEEN: &str = "not looked at for links and git's configuration: what they lead to is unprotected";
const NOT_ENDED: &str = "the search for links at protected places did not get beyond this: nothing is changed in this session; make the directory \
     readable or remove what fills it, and start again";

fn protected(names: Protected, found: Found) -> Protected {
    let names = names.with_places(found.places).with_places_anywhere(found.anywhere);
    if found.ended_at.is_some() {
        return names.with_everything();
    }
    names
}

/// The same at once, for what is mounted when the session starts.
///
/// # Errors
/// The search did not end.
pub(super) fn completed(roots: &[PathBuf], names: Protected) -> Result<Protected, StartError> {
    let found = find(roots, &beyond(roots, &names), &names, Instant::now() + LIMIT);
    if let Some(path) = found.ended_at {
        return Err(StartError::Unsearched(path));
    }
    if let Some(path) = &found.unseen {
        eprintln!("picktwo: {}: {NOT_SEEN}", path.display());
    }
    Ok(protected(names, found))
}

#[cfg(test)]
mod tests;
