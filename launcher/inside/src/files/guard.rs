//! Protected paths on a real tree: rules by name, bare repositories by what their directories hold, and what the session itself
//! created.

use super::links::Links;
use super::resolve::cstring;
use super::{Fail, Grants, Place};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys;
use picktwo_policies::protect::{self, GIT_DIRECTORY_MARKS, Kind, Protected, Rule};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What programs get for a protected path.
pub(crate) const PROTECTED: Errno = Errno::EACCES;
/// Device, inode and time of birth: an inode number is used again once its object is gone.
pub(crate) type Object = (u64, u64, i64, u32);

/// Completes the protected paths by what has to be looked for in the workspace, before the first change is decided on.
pub type Finder = Box<dyn FnOnce(Protected) -> Protected + Send>;

struct Names {
    protected: Protected,
    words: Words,
}

pub(crate) struct Guard {
    names: OnceLock<Names>,
    pending: Mutex<Option<(Protected, Option<Finder>)>>,
    /// Objects at protected paths that this session created: it may remove them.
    created: Mutex<HashSet<Object>>,
    /// Files with more than one name, once one was to be changed.
    links: Links,
}

/// First components of all patterns: a path without any of them, or of what could be another spelling of one, is free.
struct Words {
    exact: HashSet<Vec<u8>>,
    /// Those that mean something in a git directory, and what makes a directory one.
    git: HashSet<Vec<u8>>,
    /// First bytes of both, in lower case: most names are told apart by theirs.
    firsts: [bool; 256],
    globs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Words {
    fn new(protected: &Protected) -> Words {
        let mut words = Words {
            exact: HashSet::new(),
            git: HashSet::new(),
            globs: Vec::new(),
            firsts: [false; 256],
        };
        for word in ["modules", "worktrees"] {
            words.exact.insert(word.into());
        }
        words.git.extend(
            GIT_DIRECTORY_MARKS
                .iter()
                .map(|mark| mark.to_ascii_lowercase().into_bytes()),
        );
        for rule in protected.rules() {
            let pattern = rule.pattern.trim_start_matches('/').to_ascii_lowercase();
            let first = pattern.split('/').next().unwrap_or("");
            let names: Vec<&[u8]> = pattern.trim_end_matches('/').split('/').map(str::as_bytes).collect();
            if protected.check_in_git_directory(&names).is_some() {
                words.git.insert(first.into());
            }
            match (first.find('*'), first.rfind('*')) {
                (Some(a), Some(b)) => words
                    .globs
                    .push((first.as_bytes()[..a].into(), first.as_bytes()[b + 1..].into())),
                _ => {
                    words.exact.insert(first.into());
                }
            }
        }
        for word in words.exact.iter().chain(&words.git) {
            words.firsts[usize::from(word.first().copied().unwrap_or(0))] = true;
        }
        words
    }

    fn may_match(&self, name: &[u8]) -> bool {
        // Hidden files, and other spellings: the rules decide.
        if name.first() == Some(&b'.') || other_spelling(name) {
            return true;
        }
        let first = name.first().map_or(0, u8::to_ascii_lowercase);
        if !self.firsts[usize::from(first)]
            && self
                .globs
                .iter()
                .all(|(head, _)| head.first().is_some_and(|&b| b != first))
        {
            return false;
        }
        let mut lower = [0u8; 64];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return !self.globs.is_empty();
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.exact.contains(&*lower)
            || self.git.contains(&*lower)
            || self
                .globs
                .iter()
                .any(|(head, tail)| lower.starts_with(head) && lower.ends_with(tail))
    }
}

/// Whether a name could be another spelling of an ASCII name: short names, streams, final dots and blanks, what Unicode folds.
pub(super) fn other_spelling(name: &[u8]) -> bool {
    name.iter().any(|&b| b >= 0x80 || b == b'~' || b == b':') || matches!(name.last(), Some(b'.' | b' '))
}

impl Guard {
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    fn names(&self) -> &Names {
        self.names.get_or_init(|| {
            let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (protected, finder) = pending.unwrap_or_else(|| (Protected::builtin(), None));
            let protected = match finder {
                Some(finder) => finder(protected),
                None => protected,
            };
            Names {
                words: Words::new(&protected),
                protected,
            }
        })
    }

    pub(crate) fn protected(&self) -> &Protected {
        &self.names().protected
    }

    fn words(&self) -> &Words {
        &self.names().words
    }

    pub(crate) fn new(protected: Protected, finder: Option<Finder>) -> Guard {
        Guard {
            names: OnceLock::new(),
            pending: Mutex::new(Some((protected, finder))),
            created: Mutex::default(),
            links: Links::default(),
        }
    }

    /// Whether some rule could be about a name.
    pub(crate) fn may_match(&self, name: &[u8]) -> bool {
        self.words().may_match(name)
    }

    pub(crate) fn mark_created(&self, fd: BorrowedFd<'_>) {
        let Ok(object) = object(fd) else { return };
        self.created
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(object);
    }

    pub(crate) fn was_created(&self, fd: BorrowedFd<'_>) -> bool {
        let Ok(object) = object(fd) else { return false };
        self.created
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&object)
    }

    pub(crate) fn forget_created(&self, fd: BorrowedFd<'_>) {
        let Ok(object) = object(fd) else { return };
        self.created
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&object);
    }
}

impl Grants {
    /// The rule that protects a place. For a place of the quick way, a rule is a reason to take the exact way.
    pub(crate) fn rule(&self, place: &Place) -> Result<Option<Rule>, Fail> {
        if !self.concerns_rules(place) {
            return Ok(None);
        }
        let names = place.names();
        let found = match self.guard.protected().check(&names) {
            Some(rule) => Some(rule.clone()),
            None => self.bare_rule(place, &names)?,
        };
        match found {
            Some(_) if !place.exact => Err(Fail::Again),
            other => Ok(other),
        }
    }

    /// Whether a place has a name in it that some rule could be about.
    pub(crate) fn concerns_rules(&self, place: &Place) -> bool {
        !self.is_own(place)
            && place
                .rel
                .split(|&b| b == b'/')
                .any(|name| self.guard.words().may_match(name))
    }

    /// Whether a place has a name in it that means something in a git directory, or that makes one.
    pub(crate) fn concerns_git(&self, place: &Place) -> bool {
        !self.is_own(place)
            && place.rel.split(|&b| b == b'/').any(|name| {
                let mut lower = [0u8; 32];
                match lower.get_mut(..name.len()) {
                    _ if other_spelling(name) => true,
                    _ if !self.guard.words().firsts[usize::from(name.first().map_or(0, u8::to_ascii_lowercase))] => {
                        false
                    }
                    None => false,
                    Some(lower) => {
                        lower.copy_from_slice(name);
                        lower.make_ascii_lowercase();
                        self.guard.words().git.contains(&*lower)
                    }
                }
            })
    }

    /// The rule of a path beneath a bare repository.
    fn bare_rule(&self, place: &Place, names: &[&[u8]]) -> Result<Option<Rule>, Fail> {
        for at in 0..names.len() {
            if !self.guard.words().may_match(names[at]) {
                continue;
            }
            if let Some(rule) = self.guard.protected().check_in_git_directory(&names[at..])
                && self.is_git_directory(place, &names[..at], names[at])?
            {
                return Ok(Some(rule.clone()));
            }
        }
        Ok(None)
    }

    /// Whether a directory is a git directory once `name` is in it: what is made last is judged like what was there before.
    fn is_git_directory(&self, place: &Place, names: &[&[u8]], name: &[u8]) -> Result<bool, Fail> {
        let rel = names.join(&b'/');
        let dir = Place {
            rel,
            slash: false,
            ..place.clone()
        };
        match dir.object(self) {
            Ok((fd, _)) => Ok(protect::is_git_directory_with(name, |mark| has(fd.as_fd(), mark))),
            Err(Fail::Errno(Errno::ENOENT | Errno::ENOTDIR)) => Ok(false),
            Err(fail) => Err(fail),
        }
    }

    /// Refuses a rename or a link of a place, as source or target.
    pub(crate) fn may_move(&self, call: &super::Call<'_>, place: &Place, directory: bool) -> Result<(), Fail> {
        if !directory && !self.concerns_rules(place) {
            return Ok(());
        }
        let names = place.names();
        let mut rule = match self.guard.protected().moving(&names, directory) {
            Some(rule) => Some(rule.clone()),
            None => self.bare_rule(place, &names)?,
        };
        if rule.is_none() && directory {
            for at in 0..names.len() {
                if self.is_git_directory(place, &names[..at], names[at])? {
                    rule = self.guard.protected().moving(&[b".git", b"x"], true).cloned();
                }
            }
        }
        match rule {
            None => Ok(()),
            Some(_) if !place.exact => Err(Fail::Again),
            Some(rule) => Err(self.refused(call, place, PROTECTED, &rule.name)),
        }
    }

    /// Refuses a symbolic link in a git directory: git obeys and writes what it leads to (`rebase-merge`, `modules`, `logs/HEAD`,
    /// `index`), and nothing of that is judged by its name there. `text` is what it would hold, if it is new.
    pub(crate) fn no_link_in_git(
        &self,
        call: &super::Call<'_>,
        place: &Place,
        text: Option<&[u8]>,
    ) -> Result<(), Fail> {
        if !self.in_git_directory(place)? || self.is_probe(place, text)? {
            return Ok(());
        }
        if !place.exact {
            return Err(Fail::Again);
        }
        Err(self.refused(call, place, PROTECTED, "symbolic link in a git directory"))
    }

    /// Whether a place lies in a git directory, at any depth.
    pub(crate) fn in_git_directory(&self, place: &Place) -> Result<bool, Fail> {
        let names = place.names();
        for at in 0..names.len() {
            let by_name = at > 0
                && self
                    .guard
                    .protected()
                    .check(&names[at - 1..at])
                    .is_some_and(|rule| rule.kind == Kind::Gitfile);
            if by_name || self.is_git_directory(place, &names[..at], names[at])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a link is `git init`'s question whether there are links: `tXXXXXX`, which leads to `testing` beside it, directly in
    /// the directory that is made a git directory. Git reads nothing by such a name there.
    fn is_probe(&self, place: &Place, text: Option<&[u8]>) -> Result<bool, Fail> {
        let names = place.names();
        let Some((last, parents)) = names.split_last() else {
            return Ok(false);
        };
        if text != Some(b"testing") || last.len() != 7 || last[0] != b't' || !last.iter().all(u8::is_ascii_alphanumeric)
        {
            return Ok(false);
        }
        if self.is_git_directory(place, parents, last)? {
            return Ok(true);
        }
        // By its name or, within another one (a submodule's), by the configuration that git writes first.
        let config = place.sibling(b"config");
        let rule = self.guard.protected().check(&config.names());
        Ok(rule.is_some_and(|rule| rule.kind == Kind::GitConfig) && has(place.dir(self)?.as_fd(), "config"))
    }
}

/// Whether a directory has an entry. Only an answer that says so means that it has not: a directory whose mode forbids the look, for a
/// moment, has all of them.
pub(super) fn has(dir: BorrowedFd<'_>, name: &str) -> bool {
    let Ok(name) = cstring(name.as_bytes()) else {
        return true;
    };
    !matches!(
        sys::fstatat(dir, &name, libc::AT_SYMLINK_NOFOLLOW),
        Err(Errno::ENOENT | Errno::ENOTDIR)
    )
}

/// An object, told from later ones of the same inode number.
pub(crate) fn object(fd: BorrowedFd<'_>) -> Result<Object, Errno> {
    let (identity, born) = (sys::fstat(fd)?, sys::born(fd)?);
    Ok((identity.dev, identity.ino, born.0, born.1))
}
