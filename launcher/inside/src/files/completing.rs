//! Directories that become git directories: what they hold already is judged as if it were made there.

use super::guard::{PROTECTED, has, other_spelling};
use super::links::Names;
use super::moves::{MOST, beneath};
use super::{Call, Fail, Grants, Place, cstring};
use nix::libc;
use picktwo_confine::sys;
use picktwo_policies::protect::{self, GIT_DIRECTORY_MARKS, Kind};
use std::collections::HashSet;
use std::os::fd::AsFd;

const UNVETTED: &str = "would become a git directory with unvetted content";
const LINK: &str = "would become a git directory that holds a symbolic link";
const OUTSIDE: &str = "would become a git directory that holds a hard link of a file outside of the workspace";
const TOO_MANY: &str = "would become a git directory that holds more names than are looked at";
const UNKNOWN: &str = "would become a git directory of which not everything can be looked at";

impl Grants {
    /// Called before a name is made: if it turns its directory into a git directory, what that directory already holds has to
    /// pass, and its configuration becomes the launcher's own copy (a descriptor of the former one may still be open).
    pub(crate) fn completing(&self, call: &Call<'_>, place: &Place) -> Result<(), Fail> {
        let name = place.split().1;
        if !GIT_DIRECTORY_MARKS.iter().any(|mark| may_spell(name, mark)) {
            return Ok(());
        }
        // A git directory by its name: what it holds was vetted when it was made.
        let config = place.sibling(b"config");
        if self.guard.protected().check(&config.names()).is_some() {
            return Ok(());
        }
        let dir = match place.dir(self) {
            Ok(dir) => dir,
            Err(Fail::Errno(_)) => return Ok(()),
            Err(fail) => return Err(fail),
        };
        if !protect::completes_git_directory(name, |mark| has(dir.as_fd(), mark)) {
            return Ok(());
        }
        if !place.exact {
            return Err(Fail::Again);
        }
        self.pass_as_git_directory(call, place)
    }

    /// Refuses what a directory holds, at any depth, if it could not be made in a git directory.
    fn pass_as_git_directory(&self, call: &Call<'_>, place: &Place) -> Result<(), Fail> {
        let refuse = |why| self.refused(call, place, PROTECTED, why);
        let top = Place {
            rel: place.split().0.to_vec(),
            slash: false,
            ..place.clone()
        };
        let protected = self.guard.protected();
        let mut configurations = Vec::new();
        let mut passed = HashSet::new();
        let mut left = MOST;
        let mut directories: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(directory) = directories.pop() {
            let entries = self
                .list(&beneath(&top, &directory), left)
                .map_err(|()| refuse(UNKNOWN))?;
            let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            let dir = beneath(&top, &directory)
                .open(self, flags, 0)
                .map_err(|_| refuse(UNKNOWN))?;
            left = left.checked_sub(entries.len()).ok_or_else(|| refuse(TOO_MANY))?;
            for (name, kind) in entries {
                // What a link leads to is judged by its own path, not as a part of this directory.
                if kind.is_symlink() {
                    return Err(refuse(LINK));
                }
                let first = directory.is_empty();
                let rel = match first {
                    true => name,
                    false => [&directory[..], b"/", &name].concat(),
                };
                let names: Vec<&[u8]> = rel.split(|&b| b == b'/').collect();
                match protected.check_in_git_directory(&names).map(|rule| rule.kind) {
                    None => {}
                    Some(Kind::Directory) if first => {}
                    Some(Kind::GitConfig) if first => configurations.push(rel.clone()),
                    Some(_) => return Err(refuse(UNVETTED)),
                }
                if kind.is_dir() {
                    if first && (rel.eq_ignore_ascii_case(b"modules") || rel.eq_ignore_ascii_case(b"worktrees")) {
                        return Err(refuse(UNVETTED));
                    }
                    directories.push(rel);
                    continue;
                }
                let identity = cstring(rel.rsplit(|&b| b == b'/').next().unwrap_or(b""))
                    .and_then(|name| sys::fstatat(dir.as_fd(), &name, libc::AT_SYMLINK_NOFOLLOW))
                    .map_err(|_| refuse(UNKNOWN))?;
                // Git writes some of its files in place.
                if identity.nlink > 1
                    && passed.insert((identity.dev, identity.ino))
                    && self.no_alias(call, &beneath(&top, &rel), &identity)? == Names::Outside
                {
                    return Err(refuse(OUTSIDE));
                }
            }
        }
        for name in configurations {
            self.renew_config(&beneath(&top, &name)).map_err(|_| refuse(UNVETTED))?;
        }
        Ok(())
    }
}

/// Whether a name might be another spelling of a mark; the policy's fold decides.
fn may_spell(name: &[u8], mark: &str) -> bool {
    name.eq_ignore_ascii_case(mark.as_bytes()) || other_spelling(name)
}
