//! Protected paths: what an agent may not create, change, move or replace in a workspace.
//!
//! Names come from `policies/protected.toml` and from a policy's `files.protect`. A pattern holds at any depth, whether the path
//! exists or not, for every spelling of its names. No component of a pattern is moved, linked or replaced ([`Protected::moving`],
//! [`Protected::inner_name`]); another directory may be renamed if what lies beneath could be made at its new path.
//!
//! Paths are components relative to the workspace's root, already resolved: no `.`, `..`, empty component or symbolic link.

use crate::fold::{fold, is_short_of};
use std::borrow::Cow;
use std::collections::HashMap;

// `PROTECT` and `GIT`: what `policies/protected.toml` says, made by the build script.
include!(concat!(env!("OUT_DIR"), "/protected.rs"));

/// Text of the table, or of a policy.
type Text = Cow<'static, str>;

/// A directory that has these and no `.git` around it is a bare repository (see [`is_git_directory`]).
pub const GIT_DIRECTORY_MARKS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Why a path is protected, and what may be done to it all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Unique name, e.g. `claude`; `policy` for names that the user's or project's policy adds.
    pub name: Text,
    /// The pattern that matched, as written.
    pub pattern: Text,
    /// What would run or whom it would steer.
    pub reason: Text,
    /// Which changes are vetted instead of refused.
    pub kind: Kind,
}

/// What may be done to a protected path. Removing what the session itself created is always possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Refuse,
    /// `mkdir` of exactly this path; it is harmless while what lies beneath is protected.
    Directory,
    /// `mkdir`, or a content that [`crate::gitconfig::vet_gitfile`] accepts.
    Gitfile,
    /// A content that [`crate::gitconfig::vet_change`] accepts, written by the launcher as its own copy.
    GitConfig,
    /// A content that [`crate::gitconfig::vet_commondir`] accepts.
    Commondir,
    /// A content that [`crate::gitconfig::vet_worktree_gitdir`] accepts.
    WorktreeGitdir,
    /// A content that [`crate::gitconfig::vet_todo`] accepts.
    Todo,
    /// A content that [`crate::gitconfig::vet_state`] accepts for a file of that name.
    State,
}

impl Kind {
    /// Whether `mkdir` of exactly this path is harmless.
    #[must_use]
    pub fn may_mkdir(self) -> bool {
        matches!(self, Self::Directory | Self::Gitfile)
    }

    /// Whether some content is accepted for a regular file at this path.
    #[must_use]
    pub fn vetted(self) -> bool {
        !matches!(self, Self::Refuse | Self::Directory)
    }
}

/// A pattern of a policy that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl std::fmt::Display for BadPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "protected path {:?}: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for BadPattern {}

/// One entry of the table.
struct Entry {
    name: &'static str,
    paths: &'static [&'static str],
    except: &'static [&'static str],
    kind: Option<Kind>,
    reason: &'static str,
}

/// One component of a pattern.
#[derive(Clone, Debug)]
enum Part {
    Name(Vec<u8>),
    Glob(Vec<u8>),
}

impl Part {
    fn new(text: &str) -> Self {
        let mut folded = Vec::new();
        if text.contains('*') {
            // A star is no part of a name that needs folding beyond case.
            return Self::Glob(text.to_lowercase().into_bytes());
        }
        fold(text.as_bytes(), &mut folded);
        Self::Name(folded)
    }

    fn matches(&self, folded: &[u8]) -> bool {
        match self {
            // A file system of Windows may know it by its short name as well.
            Self::Name(own) => own == folded || is_short_of(folded, own),
            Self::Glob(glob) => glob_matches(glob, folded),
        }
    }
}

/// `*` stands for any bytes.
fn glob_matches(glob: &[u8], name: &[u8]) -> bool {
    match glob.iter().position(|&b| b == b'*') {
        None => glob == name,
        Some(star) => {
            let (start, rest) = (&glob[..star], &glob[star + 1..]);
            if !name.starts_with(start) {
                return false;
            }
            if !rest.contains(&b'*') {
                return name.len() >= start.len() + rest.len() && name.ends_with(rest);
            }
            (star..=name.len()).any(|at| glob_matches(rest, &name[at..]))
        }
    }
}

/// One protected path with its exceptions.
#[derive(Clone, Debug)]
struct Pattern {
    parts: Vec<Part>,
    except: Vec<Vec<Part>>,
    /// Only at the workspace's root.
    anchored: bool,
    /// The rule of the path itself and of what lies beneath; they differ where a directory may be made.
    own: usize,
    beneath: usize,
}

impl Pattern {
    /// Matches at the start of `names`; gives the rule's index.
    fn matches(&self, names: &[Vec<u8>]) -> Option<usize> {
        let n = self.parts.len();
        if names.len() < n || !self.parts.iter().zip(names).all(|(p, c)| p.matches(c)) {
            return None;
        }
        let rest = &names[n..];
        if self
            .except
            .iter()
            .any(|e| rest.len() >= e.len() && e.iter().zip(rest).all(|(p, c)| p.matches(c)))
        {
            return None;
        }
        Some(if rest.is_empty() { self.own } else { self.beneath })
    }
}

/// The protected paths of a session.
#[derive(Clone, Debug)]
pub struct Protected {
    rules: Vec<Rule>,
    anywhere: Vec<Pattern>,
    git: Vec<Pattern>,
    /// Indices into `anywhere` by the first component, where that is a plain name.
    first: HashMap<Vec<u8>, Vec<usize>>,
    /// The other indices.
    unindexed: Vec<usize>,
    /// The first component of every pattern: plain names, and the globs.
    inner: HashMap<Vec<u8>, usize>,
    inner_globs: Vec<(Part, usize)>,
    gitfile: usize,
    git_move: usize,
}

impl Protected {
    /// The built-in names.
    ///
    /// # Panics
    /// Never: a test builds it.
    #[must_use]
    pub fn builtin() -> Self {
        let rule = |name: &'static str, pattern: &'static str, reason: &'static str, kind| Rule {
            name: name.into(),
            pattern: pattern.into(),
            reason: reason.into(),
            kind,
        };
        let mut new = Self {
            rules: vec![
                rule("git", ".git", "a git directory or a pointer to one", Kind::Gitfile),
                rule(
                    "git-layout",
                    ".git/",
                    "moving directories of a git directory brings unvetted files into force",
                    Kind::Refuse,
                ),
            ],
            anywhere: Vec::new(),
            git: Vec::new(),
            first: HashMap::new(),
            unindexed: Vec::new(),
            inner: HashMap::new(),
            inner_globs: Vec::new(),
            gitfile: 0,
            git_move: 1,
        };
        new.inner.insert(b".git".to_vec(), new.gitfile);
        for (entries, git) in [(PROTECT, false), (GIT, true)] {
            for entry in entries {
                for path in entry.paths {
                    new.add(entry, Cow::Borrowed(path), git)
                        .expect("policies/protected.toml is checked by a test");
                }
            }
        }
        new
    }

    /// Adds the patterns of a policy (`files.protect`): at any depth, or at the workspace's root if one starts with `/`.
    ///
    /// # Errors
    /// The first [`BadPattern`].
    pub fn with(mut self, extra: &[String]) -> Result<Self, BadPattern> {
        for path in extra {
            let entry = Entry {
                name: "policy",
                paths: &[],
                except: &[],
                kind: None,
                reason: "protected by policy",
            };
            self.add(&entry, Cow::Owned(path.clone()), false)?;
        }
        Ok(self)
    }

    /// Adds places by their names from the workspace's root, whatever characters those hold.
    #[must_use]
    pub fn with_places(mut self, places: impl IntoIterator<Item = Vec<Vec<u8>>>) -> Self {
        for names in places {
            self.add_place(&names, true);
        }
        self
    }

    /// The same for places that have these names from any directory, one that is made later included.
    #[must_use]
    pub fn with_places_anywhere(mut self, places: impl IntoIterator<Item = Vec<Vec<u8>>>) -> Self {
        for names in places {
            self.add_place(&names, false);
        }
        self
    }

    fn add_place(&mut self, names: &[Vec<u8>], anchored: bool) {
        if names.is_empty() {
            return;
        }
        let parts = names.iter().map(|name| {
            let mut folded = Vec::new();
            fold(name, &mut folded);
            Part::Name(folded)
        });
        let own = self.rules.len();
        let start = if anchored { "/" } else { "" };
        self.rules.push(Rule {
            name: "target".into(),
            pattern: format!("{start}{}", String::from_utf8_lossy(&names.join(&b'/'))).into(),
            reason: "a link at a protected place, or git's configuration, leads here".into(),
            kind: Kind::Refuse,
        });
        self.insert(Pattern {
            parts: parts.collect(),
            except: Vec::new(),
            anchored,
            own,
            beneath: own,
        });
    }

    /// Protects the whole workspace: for one of which it is not known what of it runs later.
    #[must_use]
    pub fn with_everything(mut self) -> Self {
        let own = self.rules.len();
        self.rules.push(Rule {
            name: "unsearched".into(),
            pattern: "*".into(),
            reason: "the search for what links and git's configuration lead to did not end".into(),
            kind: Kind::Refuse,
        });
        self.insert(Pattern {
            parts: vec![Part::Glob(b"*".to_vec())],
            except: Vec::new(),
            anchored: false,
            own,
            beneath: own,
        });
        self
    }

    /// Whether a pattern can be used.
    pub(crate) fn pattern(path: &str) -> Result<(), &'static str> {
        split(path.strip_prefix('/').unwrap_or(path)).map(|_| ())
    }

    fn add(&mut self, entry: &Entry, path: Text, git: bool) -> Result<(), BadPattern> {
        let anchored = path.starts_with('/');
        let texts = split(path.strip_prefix('/').unwrap_or(&path)).map_err(|reason| BadPattern {
            pattern: path.to_string(),
            reason,
        })?;
        let parts: Vec<Part> = texts.iter().map(|t| Part::new(t)).collect();
        let mut except = Vec::new();
        for e in entry.except {
            let texts = split(e).map_err(|reason| BadPattern {
                pattern: (*e).to_owned(),
                reason,
            })?;
            except.push(texts.iter().map(|t| Part::new(t)).collect());
        }
        let kind = entry.kind.unwrap_or(if except.is_empty() {
            Kind::Refuse
        } else {
            Kind::Directory
        });
        let rule = Rule {
            name: entry.name.into(),
            pattern: path,
            reason: entry.reason.into(),
            kind,
        };
        let own = self.rules.len();
        self.rules.push(rule.clone());
        let beneath = if kind == Kind::Refuse {
            own
        } else {
            self.rules.push(Rule {
                kind: Kind::Refuse,
                ..rule
            });
            own + 1
        };
        let pattern = Pattern {
            parts,
            except,
            anchored,
            own,
            beneath,
        };
        if git {
            self.git.push(pattern);
            return Ok(());
        }
        self.insert(pattern);
        Ok(())
    }

    fn insert(&mut self, pattern: Pattern) {
        // An anchored pattern and the later components of any are guarded by their whole path, see `moving`.
        match &pattern.parts[0] {
            _ if pattern.anchored => {}
            Part::Name(folded) => {
                self.inner.entry(folded.clone()).or_insert(pattern.beneath);
            }
            part @ Part::Glob(_) => self.inner_globs.push((part.clone(), pattern.beneath)),
        }
        let index = self.anywhere.len();
        match &pattern.parts[0] {
            Part::Name(folded) => self.first.entry(folded.clone()).or_default().push(index),
            Part::Glob(_) => self.unindexed.push(index),
        }
        self.anywhere.push(pattern);
    }

    /// The rule that protects a path against every change, unless its [`Kind`] lets the launcher vet the change.
    #[must_use]
    pub fn check(&self, path: &[&[u8]]) -> Option<&Rule> {
        self.check_folded(&folded(path)).map(|i| &self.rules[i])
    }

    fn check_folded(&self, names: &[Vec<u8>]) -> Option<usize> {
        let mut softest = None;
        for at in 0..names.len() {
            let found = self.match_at(names, at).or_else(|| {
                if !is_git(&names[at]) {
                    return None;
                }
                let rest = &names[at + 1..];
                if rest.is_empty() {
                    Some(self.gitfile)
                } else {
                    self.git_directory(rest)
                }
            });
            match found {
                Some(i) if self.rules[i].kind == Kind::Refuse => return Some(i),
                Some(i) => softest = softest.or(Some(i)),
                None => {}
            }
        }
        softest
    }

    fn match_at(&self, names: &[Vec<u8>], at: usize) -> Option<usize> {
        let tail = &names[at..];
        let try_one = |&i: &usize| {
            let p = &self.anywhere[i];
            if p.anchored && at > 0 { None } else { p.matches(tail) }
        };
        if tail[0].contains(&b'~') {
            return (0..self.anywhere.len()).find_map(|i| try_one(&i));
        }
        let indexed = self.first.get(&tail[0]).and_then(|list| list.iter().find_map(try_one));
        indexed.or_else(|| self.unindexed.iter().find_map(try_one))
    }

    /// The rule for a path beneath a git directory.
    fn git_directory(&self, names: &[Vec<u8>]) -> Option<usize> {
        let here = self.git.iter().find_map(|p| p.matches(names));
        if here.is_some() || names.len() < 3 {
            return here;
        }
        match names[0].as_slice() {
            b"worktrees" => self.git_directory(&names[2..]),
            // A submodule's name may hold slashes, so its git directory may lie at any depth.
            b"modules" => (2..names.len()).find_map(|at| {
                let tail = &names[at..];
                // refs/remotes/… of a submodule is no list of legacy remotes. Only of a submodule that is itself called `refs`, and
                // none whose name ends in that is made.
                if names[at - 1] == b"refs" && at > 2 {
                    match tail[0].as_slice() {
                        b"remotes" => return None,
                        b"head" => {
                            return self
                                .git
                                .iter()
                                .find_map(|p| p.matches(&[b"remotes".into(), b"x".into()]));
                        }
                        _ => {}
                    }
                }
                self.git.iter().find_map(|p| p.matches(tail))
            }),
            _ => None,
        }
    }

    /// The rule for a path beneath a bare repository's directory ([`is_git_directory`]), relative to that directory.
    #[must_use]
    pub fn check_in_git_directory(&self, path: &[&[u8]]) -> Option<&Rule> {
        self.git_directory(&folded(path)).map(|i| &self.rules[i])
    }

    /// Whether a name may not be source or target of a rename, an exchange, a hard link or a symbolic link, wherever it lies.
    /// [`Self::moving`] knows more: it sees the whole path.
    #[must_use]
    pub fn inner_name(&self, name: &[u8]) -> bool {
        let mut out = Vec::new();
        fold(name, &mut out);
        self.inner_rule(&out).is_some()
    }

    fn inner_rule(&self, folded: &[u8]) -> Option<usize> {
        if let Some(&i) = self.inner.get(folded) {
            return Some(i);
        }
        if let Some((_, i)) = self.inner_globs.iter().find(|(g, _)| g.matches(folded)) {
            return Some(*i);
        }
        if !folded.contains(&b'~') {
            return None;
        }
        self.inner
            .iter()
            .find_map(|(name, &i)| is_short_of(folded, name).then_some(i))
    }

    /// The rule that refuses a path as source or target of a rename, an exchange, a hard link or a symbolic link: [`Self::check`]'s,
    /// an inner name's, that of a directory within a git directory, or that of a path between the ends of a longer pattern.
    /// A rename *onto* a path whose rule is vetted is for the caller to decide before it asks this.
    #[must_use]
    pub fn moving(&self, path: &[&[u8]], is_directory: bool) -> Option<&Rule> {
        let names = folded(path);
        let last = names.last()?;
        let index = self
            .check_folded(&names)
            .or_else(|| self.inner_rule(last))
            .or_else(|| {
                if is_directory && names[..names.len() - 1].iter().any(|n| is_git(n)) {
                    return Some(self.git_move);
                }
                // Something that lies between the first and the last component of a pattern.
                let between = self.anywhere.iter().find(|p| {
                    (1..p.parts.len()).any(|n| {
                        names.len() >= n
                            && !(p.anchored && names.len() != n)
                            && p.parts
                                .iter()
                                .zip(&names[names.len() - n..])
                                .all(|(part, name)| part.matches(name))
                    })
                });
                between.map(|p| p.beneath)
            })?;
        Some(&self.rules[index])
    }

    /// All rules, for `policy show`.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

fn is_git(folded: &[u8]) -> bool {
    folded == b".git" || is_short_of(folded, b".git")
}

fn folded(path: &[&[u8]]) -> Vec<Vec<u8>> {
    path.iter()
        .map(|name| {
            let mut out = Vec::with_capacity(name.len());
            fold(name, &mut out);
            out
        })
        .collect()
}

fn split(path: &str) -> Result<Vec<&str>, &'static str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Err("is empty");
    }
    let parts: Vec<&str> = path.split('/').collect();
    for part in &parts {
        match *part {
            "" => return Err("has an empty component"),
            "." | ".." => return Err("has a component `.` or `..`"),
            "**" => return Err("`**` is not needed: names hold at any depth"),
            p if p.chars().all(|c| c == '*') => return Err("a component of stars only would protect everything"),
            p if p.contains('\0') => return Err("holds a NUL"),
            _ => {}
        }
    }
    Ok(parts)
}

/// Whether a directory is taken for a git directory by git itself, given which names it holds.
pub fn is_git_directory(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

/// The same for a directory in which `name` is about to be made, by any spelling, or lies already.
pub fn is_git_directory_with(name: &[u8], has: impl Fn(&str) -> bool) -> bool {
    let mut new = Vec::new();
    fold(name, &mut new);
    is_git_directory(|mark| mark.to_ascii_lowercase().as_bytes() == new.as_slice() || has(mark))
}

/// Whether creating `name` turns a directory into a git directory. Then what it already holds has to pass
/// [`Protected::check_in_git_directory`] and the vetting of its kinds, or the creation is refused.
pub fn completes_git_directory(name: &[u8], has: impl Fn(&str) -> bool) -> bool {
    !is_git_directory(&has) && is_git_directory_with(name, has)
}

#[cfg(test)]
#[path = "protect_tests.rs"]
mod tests;
