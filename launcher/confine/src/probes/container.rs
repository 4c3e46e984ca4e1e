//! What must come of an attempt in a session without namespaces, where that differs from the full tier: a refusal in place of
//! invisibility (docs/decisions/0009).

use super::{Expected, Place, Probe};
use nix::errno::Errno::{self, EACCES, ENOENT, EPERM, EROFS, ESRCH};

/// The answer in another tier than the full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTier {
    /// This must come of it.
    Expected(Expected),
    /// It may get through: what it learns is not hidden there. Holds what that is.
    Weaker(&'static str),
    /// It may get through and change what it aims at: nothing guards that there. Holds why.
    Open(&'static str),
}

const REFUSED: Expected = Expected::Errno(&[EACCES]);
const EXISTS: &str =
    "that a file exists, what stat and its kin tell of it, and its use are not hidden without a mount namespace";

/// Attempts that learn no content.
const WEAKER: &[&str] = &[
    "read.path-descriptor",
    "read.stat",
    "read.newfstatat",
    "read.statx",
    "read.access",
    "read.readlink",
    "read.getxattr",
    "read.statfs",
    "read.chdir",
    "read.inotify",
];
/// Those whose answer follows from no rule below.
const OWN: &[(&str, Expected)] = &[
    ("change.home-startup", REFUSED),
    ("net.udp-send", Expected::Step(&[EACCES])),
    ("net.udp6-send", Expected::Step(&[EACCES])),
    ("net.udp-connected", Expected::Step(&[EACCES])),
    ("net.udp-many", Expected::Step(&[EACCES])),
    ("net.udp-lan", Expected::Step(&[EACCES])),
    ("net.udp-lite", REFUSED),
    ("net.ping", REFUSED),
    ("process.descriptor-host", Expected::Errno(&[ESRCH])),
    ("process.signal-descriptor", Expected::Step(&[ESRCH])),
    ("process.steal-descriptor", Expected::Step(&[ESRCH])),
    ("namespace.join-init", Expected::Step(&[ESRCH])),
    ("read.shared-memory-file", Expected::Errno(&[ENOENT])),
    ("read.open-by-handle", Expected::Step(&[EACCES])),
    ("socket.bind-workspace", Expected::Errno(&[EROFS])),
    ("ipc.pipe-outside", REFUSED),
];
/// Groups of attempts at what a view does not show, or shows read-only.
const OUTSIDE: &[&str] = &["change.hidden-", "daemon.", "read.", "shared.", "socket."];

impl Probe {
    /// What must come of it at a place of a session without namespaces; none: it is not tried there.
    pub fn expected_in_container(&self, place: Place) -> Option<InTier> {
        let full = self.expected(place)?;
        if !matches!(place, Place::ReadOnly | Place::Edit) {
            return Some(InTier::Expected(full));
        }
        if WEAKER.contains(&self.id) {
            return Some(InTier::Weaker(EXISTS));
        }
        if let Some((_, own)) = OWN.iter().find(|(id, _)| *id == self.id) {
            return Some(InTier::Expected(*own));
        }
        let only = |errnos: &[Errno], one: Errno| errnos.contains(&one);
        let Expected::Errno(errnos) = full else {
            return Some(InTier::Expected(full));
        };
        // What is absent from the environment is absent there, too.
        let outside = OUTSIDE.iter().any(|group| self.id.starts_with(group)) && !self.id.starts_with("read.variable-");
        Some(InTier::Expected(match self.class() {
            _ if outside && errnos.iter().all(|errno| [ENOENT, EROFS].contains(errno)) => REFUSED,
            "ipc" if only(errnos, ENOENT) => Expected::Errno(&[EPERM]),
            "process" if only(errnos, ESRCH) => Expected::Errno(&[EPERM]),
            _ => full,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_an_attempt() {
        for id in WEAKER.iter().chain(OWN.iter().map(|(id, _)| id)) {
            assert!(super::super::all().any(|probe| probe.id == *id), "{id}");
        }
        for group in OUTSIDE {
            assert!(super::super::all().any(|probe| probe.id.starts_with(group)), "{group}");
        }
    }
}
