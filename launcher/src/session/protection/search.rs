//! The search beneath the roots.

use super::configured::{MAX_INCLUDES, configurations, place, read_configuration};
use super::{Beyond, MAX_PLACES};
use picktwo_policies::gitconfig::Named;
use picktwo_policies::protect::{Kind, Protected, is_git_directory};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

/// As the kernel follows them.
const MAX_LINKS: usize = 40;

type Places = BTreeSet<Vec<Vec<u8>>>;

/// What a search found.
#[derive(Default)]
pub(super) struct Found {
    /// Places by their names from a root.
    pub(super) places: Places,
    /// Places by their names from any work tree, one that is made later included.
    pub(super) anywhere: Places,
    /// A directory or a configuration that was not looked at, and that no agent can have made so.
    pub(super) unseen: Option<PathBuf>,
    /// Where the search ended too early: an agent may have seen to that.
    pub(super) ended_at: Option<PathBuf>,
}

/// Looks at everything beneath the roots.
pub(super) fn find(roots: &[PathBuf], beyond: &Beyond, names: &Protected, deadline: Instant) -> Found {
    let mut search = Search {
        roots,
        beyond,
        names,
        found: Found {
            unseen: beyond.above.unseen.clone(),
            ..Found::default()
        },
        waiting: roots.iter().map(|root| (root.clone(), Lies::Free)).collect(),
        obeyed: HashSet::new(),
    };
    for (named, base, top) in &beyond.configured.here {
        search.named(named, base, top);
    }
    for root in roots {
        search.everywhere(root);
    }
    for link in &beyond.above.links {
        search.leads(link);
    }
    while let Some((dir, lies)) = search.waiting.pop_front() {
        let places = search.found.places.len() + search.found.anywhere.len();
        if Instant::now() >= deadline || places > MAX_PLACES {
            search.found.ended_at = Some(dir);
            break;
        }
        search.look(&dir, lies);
        if search.found.ended_at.is_some() {
            break;
        }
    }
    search.found
}

/// Where a directory lies.
#[derive(Clone, Copy, PartialEq)]
enum Lies {
    /// What lies in it is protected by its name or not at all.
    Free,
    /// In a git directory: git obeys links that have no protected name, too.
    Git,
    /// Where a link at a protected place leads: all that lies in it counts.
    Obeyed,
}

struct Search<'a> {
    roots: &'a [PathBuf],
    beyond: &'a Beyond,
    names: &'a Protected,
    found: Found,
    waiting: VecDeque<(PathBuf, Lies)>,
    /// Those that were looked at as obeyed ones: links may lead to one again.
    obeyed: HashSet<PathBuf>,
}

impl Search<'_> {
    fn look(&mut self, dir: &Path, lies: Lies) {
        if lies == Lies::Obeyed && !self.obeyed.insert(dir.to_path_buf()) {
            return;
        }
        let mut entries = Vec::new();
        match std::fs::read_dir(dir) {
            Ok(read) => {
                for entry in read {
                    match entry.and_then(|e| Ok((e.file_type()?, e.file_name()))) {
                        Ok(entry) => entries.push(entry),
                        Err(_) => self.closed(dir),
                    }
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => self.closed(dir),
        }
        let marked = is_git_directory(|mark| entries.iter().any(|(_, name)| name == mark));
        let git = marked || self.rule_kind(dir) == Some(Kind::Gitfile);
        let lies = if git && lies == Lies::Free { Lies::Git } else { lies };
        if git {
            let top = match dir.file_name() {
                Some(name) if name == ".git" => dir.parent().unwrap_or(dir),
                _ => dir,
            };
            self.repository(dir, top);
        }
        for (kind, name) in entries {
            let path = dir.join(&name);
            if kind.is_dir() {
                // Git's objects are no place for links that anything obeys, and there are many of them.
                if !(marked && name == "objects") {
                    self.waiting.push_back((path, lies));
                }
            } else if kind.is_symlink() {
                let name = name.as_bytes();
                let counts = match lies {
                    Lies::Free => false,
                    Lies::Git => !(git && is_probe(name)),
                    Lies::Obeyed => true,
                };
                if counts || self.names.inner_name(name) || self.is_protected(&path) {
                    self.leads(&path);
                }
            } else if name == ".git" {
                self.repository(&path, dir);
            }
        }
    }

    /// Notes a directory that cannot be looked at. One of the person's own may have been closed by an agent, to hide what is in it.
    fn closed(&mut self, dir: &Path) {
        let mut around = dir.ancestors().filter_map(|at| at.symlink_metadata().ok());
        let own = around.next().map(|meta| meta.uid());
        if own == Some(nix::unistd::geteuid().as_raw()) {
            self.found.ended_at = Some(dir.to_path_buf());
        } else {
            self.found.unseen = Some(dir.to_path_buf());
        }
    }

    fn rule_kind(&self, path: &Path) -> Option<Kind> {
        let parts = self.beneath(path).filter(|parts| !parts.is_empty())?;
        self.names.check(&parts).map(|rule| rule.kind)
    }

    fn beneath<'p>(&self, path: &'p Path) -> Option<Vec<&'p [u8]>> {
        let relative = self.roots.iter().find_map(|root| path.strip_prefix(root).ok())?;
        Some(relative.components().map(|c| c.as_os_str().as_bytes()).collect())
    }

    fn is_protected(&self, path: &Path) -> bool {
        self.rule_kind(path).is_some()
    }

    /// Follows a path and protects every link on its way and what it leads to, whether that exists or not.
    fn leads(&mut self, path: &Path) {
        let parts = |path: &Path| -> Vec<OsString> {
            let parts = path
                .components()
                .filter(|c| !matches!(c, Component::RootDir | Component::CurDir));
            parts.map(|c| c.as_os_str().to_owned()).rev().collect()
        };
        let mut left = parts(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let target = match std::fs::read_link(&next) {
                Ok(target) => target,
                Err(e) => {
                    if e.kind() == std::io::ErrorKind::PermissionDenied {
                        self.closed(&next);
                    }
                    at = next;
                    continue;
                }
            };
            self.protect(&next);
            links += 1;
            if links > MAX_LINKS {
                return;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(parts(&target));
        }
        self.protect(&at);
        if self.beneath(&at).is_some_and(|parts| !parts.is_empty()) && at.is_dir() {
            self.waiting.push_back((at, Lies::Obeyed));
        }
    }

    fn protect(&mut self, path: &Path) {
        // Whatever is protected by its name keeps its rule: some of what lies there may be vetted.
        if self.is_protected(path) {
            return;
        }
        // A root may lie within another one: a place has a name from each.
        for root in self.roots {
            let Ok(relative) = path.strip_prefix(root) else {
                continue;
            };
            let parts: Vec<Vec<u8>> = relative
                .components()
                .map(|c| c.as_os_str().as_bytes().to_vec())
                .collect();
            if parts.is_empty() {
                // A whole root cannot be protected.
                self.found.unseen = Some(path.to_path_buf());
            } else {
                self.found.places.insert(parts);
            }
        }
    }

    fn repository(&mut self, git: &Path, top: &Path) {
        let home = self.beyond.configured.home.as_deref();
        for file in configurations(git) {
            let mut found = Vec::new();
            if !read_configuration(&file, home, MAX_INCLUDES, &mut found) {
                self.found.unseen = Some(file);
            }
            for (named, base) in &found {
                self.named(named, base, top);
            }
        }
        self.everywhere(top);
    }

    fn everywhere(&mut self, top: &Path) {
        let beyond = self.beyond;
        for (named, base) in &beyond.configured.everywhere {
            self.named(named, base, top);
        }
    }

    fn named(&mut self, named: &Named, base: &Path, top: &Path) {
        let home = self.beyond.configured.home.as_deref();
        match named {
            Named::Include(path) => self.leads(&place(path, base, home)),
            Named::Place(path) => self.obeyed_in_work_trees(path, top),
            Named::Command(line) | Named::Arguments(line) | Named::Value(line) => {
                let command = matches!(named, Named::Command(_));
                for (index, word) in words(line).enumerate() {
                    let (slash, first) = (word.contains(&b'/'), index == 0);
                    // The only word of a value may be a name of anything, an argument without a slash one of git's objects.
                    let may_be_file = match named {
                        Named::Arguments(_) => slash,
                        Named::Value(_) => slash || !first || word.contains(&b'.'),
                        _ => true,
                    };
                    let mut word = word;
                    let mut path = place(word, top, home);
                    // `$(git rev-parse --show-toplevel)/x`, `$DIR/x`.
                    let rest = word
                        .iter()
                        .position(|&b| b == b'/')
                        .map_or(&b""[..], |at| &word[at + 1..]);
                    if matches!(word[0], b'/' | b'$') && !path.exists() && top.join(OsStr::from_bytes(rest)).is_file() {
                        (word, path) = (rest, place(rest, top, home));
                    }
                    let absent = first && slash && (command || word.starts_with(b"./")) && !path.exists();
                    if absent || may_be_file && path.is_file() {
                        self.obeyed_in_work_trees(word, top);
                    }
                }
            }
        }
    }

    /// Protects what a path of git's configuration leads to in a work tree; if it is relative, in every other one, too: an agent may add
    /// worktrees and make repositories.
    fn obeyed_in_work_trees(&mut self, path: &[u8], top: &Path) {
        self.leads(&place(path, top, self.beyond.configured.home.as_deref()));
        if path.starts_with(b"/") || path.starts_with(b"~") {
            return;
        }
        let mut names: Vec<Vec<u8>> = Vec::new();
        for part in Path::new(OsStr::from_bytes(path)).components() {
            match part {
                Component::Normal(name) => names.push(name.as_bytes().to_vec()),
                // What leaves the work tree lies beside it.
                Component::ParentDir => drop(names.pop()),
                _ => {}
            }
        }
        let parts: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        // Whatever is protected by its name keeps its rule: some of what lies there may be vetted.
        if !parts.is_empty() && self.names.check(&parts).is_none() {
            self.found.anywhere.insert(names);
        }
    }
}

/// Whether a link in a git directory has a name as git gives it to see whether there are links. Nothing obeys it, and a session may
/// make any number of them.
fn is_probe(name: &[u8]) -> bool {
    name.len() == 7 && name[0] == b't' && name.iter().all(u8::is_ascii_alphanumeric)
}

/// The words of a value that may be paths: shells, options (`--config=x`) and lists part them.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace() || b"\"';()|&!=,`<>{}".contains(b))
        .filter(|word| !word.is_empty())
}
