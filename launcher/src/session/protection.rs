//! What is protected in this session beyond the names: where links at protected places lead, and what may not be a root at all.

use super::start::StartError;
use picktwo_policies::protect::{Protected, is_git_directory};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Entries looked at below the protected places of one root; far more than hooks and settings take.
const MAX_ENTRIES: usize = 4000;
/// Directories below a protected place that are followed for links.
const MAX_DEPTH: usize = 4;

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

/// The protected paths of a session: the built-in names, those of the policy, and what links at such places lead to. A hook that is
/// a link to a script of the workspace runs that script.
///
/// # Errors
/// A root that lies in a protected place; a pattern of the policy that is none.
pub(super) fn of(roots: &[PathBuf], extra: &[String]) -> Result<Protected, StartError> {
    let wrong = |e: picktwo_policies::protect::BadPattern| StartError::Policy(e.to_string());
    let names = Protected::builtin();
    if let Some(place) = roots.iter().find_map(|root| protected_component(&names, root)) {
        return Err(StartError::ProtectedRoot(place));
    }
    let names = names.with(extra).map_err(wrong)?;
    let mut targets = Vec::new();
    for root in roots {
        let mut left = MAX_ENTRIES;
        look(root, root, &names, 0, &mut left, &mut targets);
    }
    if targets.is_empty() {
        return Ok(names);
    }
    names.with(&targets).map_err(wrong)
}

/// Goes through what is protected right below `dir` and notes where links there lead.
fn look(root: &Path, dir: &Path, names: &Protected, depth: usize, left: &mut usize, targets: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let path = entry.path();
        let Ok(relative) = path.strip_prefix(root) else {
            continue;
        };
        let parts: Vec<&[u8]> = relative.components().map(|c| c.as_os_str().as_bytes()).collect();
        let inner = parts.iter().any(|part| names.inner_name(part));
        if !inner && names.check(&parts).is_none() {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => targets.extend(pattern(root, &path)),
            // git's objects are no place for links that anything obeys, and there are many of them.
            Ok(kind) if kind.is_dir() && depth < MAX_DEPTH && entry.file_name() != OsStr::new("objects") => {
                look(root, &path, names, depth + 1, left, targets);
            }
            _ => {}
        }
    }
}

/// An anchored pattern for what a link leads to, if that lies in the root.
fn pattern(root: &Path, link: &Path) -> Option<String> {
    let target = link.canonicalize().ok()?;
    let relative = target.strip_prefix(root).ok()?.to_str().filter(|r| !r.is_empty())?;
    // A name with pattern characters cannot be spelled; the walk above is a help for ordinary ones.
    if relative.contains(['*', '?', '[', '\\']) {
        return None;
    }
    Some(if target.is_dir() {
        format!("/{relative}/")
    } else {
        format!("/{relative}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_protected_place_is_no_root() {
        let names = Protected::builtin();
        for bad in ["/home/u/p/.git", "/home/u/p/.git/modules/x", "/srv/x/.claude"] {
            assert!(protected_component(&names, Path::new(bad)).is_some(), "{bad}");
        }
        assert_eq!(protected_component(&names, Path::new("/home/u/project")), None);
    }

    #[test]
    fn what_lies_in_a_bare_repository_is_no_root() {
        let base = std::env::temp_dir().join(format!("picktwo-bare-{}", std::process::id()));
        for dir in ["r/objects", "r/refs", "r/hooks"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        std::fs::write(base.join("r/HEAD"), "ref: refs/heads/main\n").unwrap();
        let of = |place: &str| protected_component(&Protected::builtin(), &base.join(place));
        let found = (of("r"), of("r/hooks"), of(""));
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(found, (Some(base.join("r")), Some(base.join("r")), None));
    }

    #[test]
    fn links_at_protected_places_protect_what_they_lead_to() {
        let root = std::env::temp_dir().join(format!("picktwo-links-{}", std::process::id()));
        std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
        std::fs::create_dir_all(root.join("scripts")).unwrap();
        std::fs::create_dir_all(root.join("skills")).unwrap();
        std::fs::create_dir_all(root.join(".claude")).unwrap();
        std::fs::write(root.join("scripts/pre-commit"), "").unwrap();
        std::os::unix::fs::symlink("../../scripts/pre-commit", root.join(".git/hooks/pre-commit")).unwrap();
        std::os::unix::fs::symlink("../skills", root.join(".claude/skills")).unwrap();
        let root = root.canonicalize().unwrap();
        let protected = of(std::slice::from_ref(&root), &[]).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert!(protected.check(&[b"scripts", b"pre-commit"]).is_some());
        assert!(protected.check(&[b"skills", b"b.md"]).is_some());
        assert!(protected.check(&[b"scripts", b"other"]).is_none());
    }
}
