//! What must come of an attempt in a session without granted calls, where that differs from the full tier: mounts answer in place of
//! the launcher, and what they cannot do is told apart.

use super::{Expected, InTier, Place, Probe};
use nix::errno::Errno::{EACCES, EBUSY, ENOSYS, EPERM, EROFS, EXDEV};

const ABSENT: &str = "what does not exist when the session starts cannot be mounted over";

/// Attempts at protected paths that are absent when the session starts, by whatever way, and at what those made.
const OPEN: &[&str] = &[
    "git.bare-config",
    "git.commondir",
    "git.config-worktree",
    "git.gitfile",
    "git.global",
    "git.hook-case",
    "git.into-place",
    "git.legacy-remote",
    "git.symlink",
    "protect.agents-file",
    "protect.by-cwd-link",
    "protect.claude-case",
    "protect.claude-file",
    "protect.claude-nested",
    "protect.claude-settings",
    "protect.codex",
    "protect.creat",
    "protect.cursor",
    "protect.dangling-link",
    "protect.dangling-link-absolute",
    "protect.dotdot",
    "protect.editor-script",
    "protect.editor-tasks",
    "protect.envrc",
    "protect.gemini",
    "protect.husky",
    "protect.link",
    "protect.mcp-file",
    "protect.mkdir",
    "protect.mknod",
    "protect.opencode",
    "protect.own-policy",
    "protect.rename",
    "protect.rename-directory",
    "protect.shell-startup",
    "protect.symlink",
    "protect.symlink-directory",
    "protect.tool-versions",
    "protect.unnamed",
];

/// A change of what is mounted on itself, read-only or as a way: whichever of the three the kernel comes to first.
const MOUNTED: Expected = Expected::Errno(&[EROFS, EBUSY, EXDEV]);
/// Local sockets are refused before they have an address.
const NO_SOCKET: &[nix::errno::Errno] = &[EPERM];

impl Probe {
    /// What must come of it at a place of a session without granted calls; none: it is not tried there.
    pub fn expected_in_nested(&self, place: Place) -> Option<InTier> {
        let full = self.expected(place)?;
        if !matches!(place, Place::ReadOnly | Place::Edit) {
            return Some(InTier::Expected(full));
        }
        if place == Place::Edit && OPEN.contains(&self.id) {
            return Some(InTier::Open(ABSENT));
        }
        let starts = |groups: &[&str]| groups.iter().any(|group| self.id.starts_with(group));
        let protected = place == Place::Edit && starts(&["git.", "protect."]);
        Some(InTier::Expected(match full {
            // The one that is no socket.
            _ if self.id == "daemon.file-system" => full,
            _ if starts(&["daemon.", "socket.connect-"]) => Expected::Errno(NO_SOCKET),
            _ if starts(&["socket.bind-", "protect.bind"]) => Expected::Step(NO_SOCKET),
            _ if starts(&["partner.descriptor", "partner.abstract", "partner.connects"]) => Expected::Step(NO_SOCKET),
            Expected::Errno(_) if starts(&["read.openat2", "change.openat2"]) => Expected::Errno(&[ENOSYS]),
            Expected::Errno([EACCES]) | Expected::Unseen if protected => MOUNTED,
            _ => full,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_an_attempt_at_what_edit_mode_protects() {
        for id in OPEN {
            let probe = super::super::all().find(|probe| probe.id == *id);
            assert!(probe.is_some_and(|p| p.expected(Place::Edit).is_some()), "{id}");
        }
    }
}
