//! Protected paths of a session that changes its roots by itself (nested tier, edit): each that exists when it starts is mounted
//! read-only, and so is whatever else leads to the same file. What does not exist cannot be mounted over.

use super::start::StartError;
use picktwo_inside::view::{Fixed, ReadOnly};
use picktwo_policies::protect::{self, Kind, Protected};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mounts of one session; each costs memory of the kernel.
const MAX_MOUNTS: usize = 4000;

/// What is found while the roots are walked.
#[derive(Default)]
struct Found {
    kept: BTreeSet<PathBuf>,
    ways: BTreeSet<PathBuf>,
    /// Names of files that have several, and whether each is protected.
    names: HashMap<(u64, u64), Vec<(PathBuf, bool)>>,
}

/// A directory that is being walked.
struct Place<'a> {
    root: &'a Path,
    path: PathBuf,
    /// It lies in what is kept.
    kept: bool,
    /// How many components of its path below the root lead to a git directory that has another name than `.git`.
    bare: Option<usize>,
}

/// Finds what has to be mounted.
///
/// # Errors
/// A directory that cannot be looked into: nobody knows what of it is protected. Too much to mount.
pub(super) fn find(roots: &[PathBuf], protected: &Protected) -> Result<Fixed, StartError> {
    let mut found = Found::default();
    for root in roots {
        let mut stack = vec![Place {
            root,
            path: root.clone(),
            kept: false,
            bare: None,
        }];
        while let Some(place) = stack.pop() {
            look(place, protected, &mut found, &mut stack)?;
        }
    }
    for names in found.names.into_values().filter(|names| names.iter().any(|n| n.1)) {
        found.kept.extend(names.into_iter().filter(|n| !n.1).map(|n| n.0));
    }
    let ends: Vec<PathBuf> = found.kept.iter().chain(&found.ways).chain(roots).cloned().collect();
    for end in ends {
        // Each directory on the way is a mount as well: one could be renamed, and another be made in its place.
        let way = end.ancestors().skip(1);
        let inside = |dir: &Path| roots.iter().any(|root| dir != root && dir.starts_with(root));
        found.ways.extend(way.filter(|dir| inside(dir)).map(Path::to_path_buf));
    }
    let count = found.kept.len() + found.ways.len();
    if count > MAX_MOUNTS {
        return Err(StartError::Policy(format!(
            "the workspace has too many protected paths for the nested tier's edit mode ({count} mounts, at most {MAX_MOUNTS}): \
             choose a part of it, or start without --edit"
        )));
    }
    let seen = |paths: BTreeSet<PathBuf>| paths.into_iter().map(ReadOnly::seen).collect();
    Ok(Fixed {
        ways: seen(found.ways),
        kept: seen(found.kept),
    })
}

fn look<'a>(
    place: Place<'a>,
    protected: &Protected,
    found: &mut Found,
    stack: &mut Vec<Place<'a>>,
) -> Result<(), StartError> {
    let failed = |e| StartError::File("look for protected paths in", place.path.clone(), e);
    let entries: Vec<DirEntry> = std::fs::read_dir(&place.path)
        .and_then(Iterator::collect)
        .map_err(failed)?;
    let above: Vec<&[u8]> = place
        .path
        .strip_prefix(place.root)
        .map(|rest| rest.components().map(|c| c.as_os_str().as_bytes()).collect())
        .unwrap_or_default();
    let has = |name: &str| {
        let is = |entry: &DirEntry| entry.file_name().as_bytes().eq_ignore_ascii_case(name.as_bytes());
        entries.iter().any(is)
    };
    let git = protect::is_git_directory(has);
    let bare = place.bare.or(git.then_some(above.len()));
    for entry in &entries {
        let (path, name) = (entry.path(), entry.file_name());
        let mut parts = above.clone();
        parts.push(name.as_bytes());
        let meta = entry.metadata().map_err(failed)?;
        let rule = protected
            .check(&parts)
            .or_else(|| protected.check_in_git_directory(&parts[bare?..]));
        // A repository's own directory holds what git has to write.
        let kept_here = rule.is_some_and(|rule| !(meta.is_dir() && rule.kind == Kind::Gitfile));
        if kept_here && !place.kept {
            found.kept.insert(path.clone());
        } else if rule.is_some() && !place.kept {
            found.ways.insert(path.clone());
        }
        if meta.is_file() && meta.nlink() > 1 {
            let names = found.names.entry((meta.dev(), meta.ino())).or_default();
            names.push((path, kept_here || place.kept));
        } else if meta.is_dir() && !(git && name == OsStr::new("objects")) {
            stack.push(Place {
                root: place.root,
                path,
                kept: kept_here || place.kept,
                bare,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_exists_what_it_is_linked_to_and_the_way_to_it() {
        let root = std::env::temp_dir().join(format!("picktwo-fixed-{}", std::process::id()));
        let git = |dir: &str| {
            for part in ["objects", "refs", "hooks"] {
                fs::create_dir_all(root.join(dir).join(part)).unwrap();
            }
            fs::write(root.join(dir).join("HEAD"), "").unwrap();
            fs::write(root.join(dir).join("config"), "").unwrap();
        };
        git(".git");
        git("store/bare");
        fs::create_dir_all(root.join("a/b/.claude/hooks")).unwrap();
        fs::write(root.join("a/b/.claude/hooks/x"), "").unwrap();
        fs::hard_link(root.join("a/b/.claude/hooks/x"), root.join("other-name")).unwrap();
        fs::write(root.join("notes"), "").unwrap();
        fs::hard_link(root.join("notes"), root.join("notes-too")).unwrap();
        std::os::unix::fs::symlink("notes", root.join("CLAUDE.md")).unwrap();
        let root = root.canonicalize().unwrap();
        let fixed = find(std::slice::from_ref(&root), &Protected::builtin()).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let names = |paths: &[ReadOnly]| -> Vec<String> {
            let relative = |p: &ReadOnly| p.path.strip_prefix(&root).unwrap().display().to_string();
            paths.iter().map(relative).collect()
        };
        assert_eq!(names(&fixed.ways), [".git", "a", "a/b", "store", "store/bare"]);
        assert_eq!(
            names(&fixed.kept),
            [
                ".git/config",
                ".git/hooks",
                "CLAUDE.md",
                "a/b/.claude",
                "other-name",
                "store/bare/config",
                "store/bare/hooks"
            ]
        );
    }
}
