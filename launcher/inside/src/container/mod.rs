//! The container tier: a session without any namespace, where the host allows none.
//!
//! Nothing can be mounted, so nothing can be hidden: what a process may open is decided by Landlock (`EACCES` where a view says
//! `ENOENT`), everything else by seccomp and by granted calls. What a view would make new lies in a directory of the session's own
//! ([`Place`]): temporary files, the profile's files, the tools' socket, and in place of `/etc/passwd` and its kin what the
//! launcher gives out when they are opened.
//!
//! Two processes stand in for the init. The *broker* ([`broker`]) is made before the launcher confines itself, holds no files and
//! connects the session's sockets to the gateway. The *keeper* ([`keeper`]) is made below the launcher's domain, above the
//! command's: it ends all that is in it.

pub mod broker;
pub mod keeper;
mod place;
mod rights;

pub use place::Place;
pub use rights::Rights;
