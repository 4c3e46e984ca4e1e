//! Directories that move with what they hold: that is judged as if it were made where it arrives.

use super::guard::PROTECTED;
use super::{Call, Fail, Grants, Place};
use nix::libc;
use picktwo_policies::protect::{Kind, Rule, is_git_directory};
use std::fs::FileType;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

/// How many names are looked at, at most.
pub(super) const MOST: usize = 200_000;
const TOO_MANY: &str = "moving a directory that holds more names than are looked at: move its parts";
const UNKNOWN: &str = "moving a directory of which not everything can be looked at";

/// A directory on its way.
struct Part {
    /// Its path within what moves.
    rel: Vec<u8>,
    /// Where the git directories around it begin that are told by what they hold: numbers of components of its path at the destination.
    bare: Vec<usize>,
    /// Whether it lies in a git directory of either sort, or is one.
    in_git: bool,
    /// Whether its path at the destination has a name in it that some rule could be about.
    concerned: bool,
}

impl Grants {
    /// Refuses to move a directory that holds what could not be made at its destination.
    pub(crate) fn may_arrive(&self, call: &Call<'_>, from: &Place, to: &Place) -> Result<(), Fail> {
        let refuse = |why: &str| match from.exact && to.exact {
            true => self.refused(call, to, PROTECTED, why),
            false => Fail::Again,
        };
        let mut left = MOST;
        let mut parts = vec![Part {
            rel: Vec::new(),
            bare: Vec::new(),
            in_git: false,
            concerned: self.concerns_rules(to),
        }];
        while let Some(mut part) = parts.pop() {
            let entries = self
                .list(&beneath(from, &part.rel), left)
                .map_err(|()| refuse(UNKNOWN))?;
            left = left.checked_sub(entries.len()).ok_or_else(|| refuse(TOO_MANY))?;
            if is_git_directory(|mark| entries.iter().any(|(name, _)| name == mark.as_bytes())) {
                part.bare.push(beneath(to, &part.rel).names().len());
                part.in_git = true;
            }
            for (name, kind) in entries {
                let rel = if part.rel.is_empty() {
                    name.clone()
                } else {
                    [&part.rel[..], b"/", &name].concat()
                };
                let concerned = part.concerned || part.in_git || self.guard.may_match(&name);
                let mut is_git = false;
                if concerned {
                    let (source, target) = (beneath(from, &rel), beneath(to, &rel));
                    let rule = self.rule_on_arrival(&target, &part.bare);
                    is_git = rule.as_ref().is_some_and(|rule| rule.kind == Kind::Gitfile);
                    if let Some(rule) = rule
                        && !self.may_be_made(&rule, &source, &target, kind)
                    {
                        let held = String::from_utf8_lossy(&rel);
                        return Err(refuse(&format!("{}: the directory that moves holds {held}", rule.name)));
                    }
                    if part.in_git && kind.is_symlink() {
                        return Err(refuse(
                            "the directory that moves holds a symbolic link in a git directory",
                        ));
                    }
                }
                if kind.is_dir() {
                    parts.push(Part {
                        rel,
                        bare: part.bare.clone(),
                        in_git: part.in_git || is_git,
                        concerned,
                    });
                }
            }
        }
        Ok(())
    }

    /// Names and kinds in a directory: at most one more than are `left` to look at.
    pub(super) fn list(&self, place: &Place, left: usize) -> Result<Vec<(Vec<u8>, FileType)>, ()> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let dir = place.open(self, flags, 0).map_err(drop)?;
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd())).map_err(drop)?;
        let entries = entries.take(left + 1).map(|entry| {
            let entry = entry.map_err(drop)?;
            let kind = entry.file_type().map_err(drop)?;
            Ok((entry.file_name().as_bytes().to_vec(), kind))
        });
        entries.collect()
    }

    fn rule_on_arrival(&self, target: &Place, bare: &[usize]) -> Option<Rule> {
        let (names, protected) = (target.names(), self.guard.protected());
        let found = protected.check(&names).or_else(|| {
            bare.iter()
                .find_map(|&at| protected.check_in_git_directory(&names[at..]))
        });
        found.cloned()
    }

    /// Whether what lies at `source` could be made as it is at `target`, which this rule protects.
    fn may_be_made(&self, rule: &Rule, source: &Place, target: &Place, kind: FileType) -> bool {
        if kind.is_dir() {
            return rule.kind.may_mkdir();
        }
        if !kind.is_file() || !rule.kind.vetted() {
            return false;
        }
        match source.object(self) {
            Ok((_, identity)) if identity.nlink != 1 => return false,
            // The launcher wrote it.
            Ok((object, _)) if self.guard.was_created(object.as_fd()) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
        let Ok(content) = self.read_place(source) else {
            return false;
        };
        // A pointer leads to a protected place of the workspace, or nowhere, from wherever it lies; what a submodule's configuration
        // points to arrives with it.
        let passes = |place: &Place| self.vetted(rule, place, &[], &content).is_ok();
        passes(target) || (matches!(rule.kind, Kind::Gitfile | Kind::GitConfig) && passes(source))
    }
}

/// A place within a directory; the directory itself for no path.
pub(super) fn beneath(place: &Place, rel: &[u8]) -> Place {
    let path = match rel {
        b"" => place.rel.clone(),
        rel if place.rel.is_empty() => rel.to_vec(),
        rel => [&place.rel[..], b"/", rel].concat(),
    };
    Place {
        root: place.root,
        rel: path,
        slash: false,
        exact: true,
    }
}
