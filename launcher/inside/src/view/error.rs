//! What can fail while a view is built: one variant per call, with its object.

use super::plan::PlanError;
use nix::errno::Errno;
use std::fmt;
use std::path::PathBuf;

/// A step of building the view that failed. Nothing foreign has run then, and nothing does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The plan itself cannot be a view.
    Plan(PlanError),
    /// The plan that arrived is none; holds the reason.
    Message(String),
    /// Maps, host name or loopback of the new namespaces, or the channel.
    Confine(picktwo_confine::Error),
    /// The mounts could not be cut off from the host's.
    Propagation(Errno),
    /// A file system of the session's own could not be made.
    FileSystem {
        /// Its type.
        kind: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The bound of processes could not be set.
    Processes(Errno),
    /// A directory of the view.
    Directory(PathBuf, Errno),
    /// A file of the view.
    File(PathBuf, Errno),
    /// A symbolic link of the view.
    Link(PathBuf, Errno),
    /// A link lies where a mount point is needed: following it could lead anywhere.
    LinkInTheWay(PathBuf),
    /// A path of the host that should be visible.
    Source(PathBuf, Errno),
    /// The path holds another file than when the launcher decided on it.
    Changed(PathBuf),
    /// A tree of the host, with everything mounted in it, could not be made read-only.
    ReadOnly(PathBuf, Errno),
    /// A mount could not be put at its place.
    Attach(PathBuf, Errno),
    /// The root could not be changed to the view.
    PivotRoot(Errno),
    /// The host's tree could not be taken out of the view.
    DetachHost(Errno),
    /// A socket of the session.
    Socket {
        /// Which one.
        what: &'static str,
        /// The call.
        call: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl Error {
    /// The kernel's answer, if a call failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Plan(_) | Self::Message(_) | Self::LinkInTheWay(_) | Self::Changed(_) => None,
            Self::Confine(error) => error.errno(),
            Self::Propagation(errno) | Self::PivotRoot(errno) | Self::DetachHost(errno) => Some(*errno),
            Self::Processes(errno) => Some(*errno),
            Self::FileSystem { errno, .. } | Self::Socket { errno, .. } => Some(*errno),
            Self::Directory(_, errno)
            | Self::File(_, errno)
            | Self::Link(_, errno)
            | Self::Source(_, errno)
            | Self::ReadOnly(_, errno)
            | Self::Attach(_, errno) => Some(*errno),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Message(reason) => write!(f, "the session's plan did not arrive: {reason}"),
            Self::Confine(error) => error.fmt(f),
            Self::Propagation(errno) => write!(f, "cannot separate the session's mounts from the host's: {}", errno.desc()),
            Self::FileSystem { kind, errno: Errno::EPERM } if kind == "proc" => f.write_str(
                "cannot mount a new /proc: this /proc is partly hidden already, as in a container, so the session cannot have its own",
            ),
            Self::FileSystem { kind, errno } => write!(f, "cannot make a {kind} file system for the session: {}", errno.desc()),
            Self::Processes(errno) => write!(f, "cannot bound the session's processes (pid_max): {}", errno.desc()),
            Self::Directory(path, errno) => write!(f, "cannot make the directory {} of the session: {}", path.display(), errno.desc()),
            Self::File(path, errno) => write!(f, "cannot make the file {} of the session: {}", path.display(), errno.desc()),
            Self::Link(path, errno) => write!(f, "cannot make the link {} of the session: {}", path.display(), errno.desc()),
            Self::LinkInTheWay(path) => write!(
                f,
                "cannot show {}: a symbolic link lies in its way inside the session (in its private home?); remove the link",
                path.display()
            ),
            Self::Source(path, errno) => write!(f, "cannot show {}: {}", path.display(), errno.desc()),
            Self::Changed(path) => write!(f, "{} was replaced while the session started", path.display()),
            Self::ReadOnly(path, errno) => {
                write!(f, "cannot make {} and what is mounted in it read-only: {}", path.display(), errno.desc())
            }
            Self::Attach(path, errno) => write!(f, "cannot mount {} in the session: {}", path.display(), errno.desc()),
            Self::PivotRoot(errno) => write!(f, "cannot change the root directory to the session's view: {}", errno.desc()),
            Self::DetachHost(errno) => write!(f, "cannot take the host's files out of the session's view: {}", errno.desc()),
            Self::Socket { what, call, errno } => write!(f, "cannot make {what} ({call}): {}", errno.desc()),
        }
    }
}

impl std::error::Error for Error {}

impl From<picktwo_confine::Error> for Error {
    fn from(error: picktwo_confine::Error) -> Self {
        Self::Confine(error)
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}
