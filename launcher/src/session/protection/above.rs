//! Links at protected places beyond the roots: a root may be a part of a repository whose hooks and instructions lead into it.

use super::configured::{Configured, configurations, place, top_of};
use picktwo_policies::gitconfig::Named;
use picktwo_policies::protect::Protected;
use std::collections::{HashSet, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Far more directories than hooks and settings are in.
const MAX_DIRECTORIES: usize = 5000;
/// Directories of a git directory that hold no links that anything obeys, and much else.
const NO_PLACES: [&[u8]; 3] = [b"objects", b"refs", b"logs"];

/// The links at protected places of directories that are in no root.
pub(super) struct Above {
    pub(super) links: Vec<PathBuf>,
    /// The first directory that was not looked at because there are too many.
    pub(super) unseen: Option<PathBuf>,
}

/// Looks at the directories above the roots and the person's home: up to a repository's top to the ends of what is protected, above that
/// only at what lies directly in it. What git's configuration names and the git directory of a linked worktree are looked at as well.
pub(super) fn links_above(roots: &[PathBuf], configured: &Configured, names: &Protected) -> Above {
    let mut look = Look {
        roots,
        names,
        seen: HashSet::new(),
        above: Above {
            links: Vec::new(),
            unseen: None,
        },
    };
    for root in roots {
        let top = top_of(root);
        for dir in root.ancestors().skip(1) {
            let whole = top.is_some_and(|top| dir.starts_with(top));
            look.beneath(dir, false, if whole { usize::MAX } else { 1 });
        }
        let common = top.and_then(|top| Some(configurations(&top.join(".git")).first()?.parent()?.join("hooks")));
        if let Some(hooks) = common {
            look.beneath(&hooks, true, usize::MAX);
        }
    }
    let home = configured.home.as_deref();
    if let Some(home) = home {
        look.beneath(home, false, 1);
    }
    let everywhere = configured.everywhere.iter().map(|(named, base)| (named, base));
    for (named, base) in everywhere.chain(configured.here.iter().map(|(named, _, top)| (named, top))) {
        if let Named::Place(path) = named {
            look.beneath(&place(path, base, home), true, usize::MAX);
        }
    }
    look.above
}

struct Look<'a> {
    roots: &'a [PathBuf],
    names: &'a Protected,
    seen: HashSet<PathBuf>,
    above: Above,
}

impl Look<'_> {
    fn in_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Looks at a directory, and at those in it of which something is protected, as many on the way down as `deeper`. `obeyed`: all
    /// that lies in it counts.
    fn beneath(&mut self, above: &Path, obeyed: bool, deeper: usize) {
        let mut waiting = VecDeque::from([(above.to_path_buf(), obeyed, deeper)]);
        while let Some((dir, obeyed, deeper)) = waiting.pop_front() {
            if self.in_root(&dir) || self.seen.contains(&dir) {
                continue;
            }
            if self.seen.len() > MAX_DIRECTORIES {
                self.above.unseen.get_or_insert(dir);
                return;
            }
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let (path, name, Ok(kind)) = (entry.path(), entry.file_name(), entry.file_type()) else {
                    continue;
                };
                let relative = path.strip_prefix(above).unwrap_or(&path);
                let parts: Vec<&[u8]> = relative.components().map(|c| c.as_os_str().as_bytes()).collect();
                let git = parts[0] == b".git";
                let inside = obeyed || git || self.names.check(&parts).is_some();
                if kind.is_symlink() && (inside || self.names.inner_name(name.as_bytes())) {
                    // A link to a directory brings all of that into force, except where that lies in a root or around one.
                    let target = path.canonicalize().ok().filter(|target| target.is_dir() && deeper > 0);
                    if let Some(target) = target.filter(|t| !self.roots.iter().any(|root| root.starts_with(t))) {
                        waiting.push_back((target, true, deeper - 1));
                    }
                    self.above.links.push(path);
                } else if kind.is_dir()
                    && deeper > 0
                    && (inside || self.names.inner_name(name.as_bytes()))
                    && !(git && NO_PLACES.contains(&name.as_bytes()))
                {
                    waiting.push_back((path, obeyed, deeper - 1));
                }
            }
            self.seen.insert(dir);
        }
    }
}
