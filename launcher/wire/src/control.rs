//! A person's commands in another terminal ↔ launcher, over the session's control socket, which does not exist inside.

use serde::{Deserialize, Serialize};

/// What a person may ask of a live session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Set the mode: `read-only` or `edit`.
    Mode {
        /// The wanted mode.
        mode: Mode,
        /// End the processes that still hold files open for writing after going back to read-only.
        #[serde(default)]
        stop_writers: bool,
    },
    /// The session's description.
    Status,
}

/// Whether the agent may change the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every change of the workspace is answered with `EROFS`.
    ReadOnly,
    /// Changes are granted, except to protected paths.
    Edit,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read-only",
            Self::Edit => "edit",
        })
    }
}

/// What the launcher answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// The mode now, and who can still write after going back to read-only.
    Mode {
        /// The mode in force.
        mode: Mode,
        /// The mode before.
        was: Mode,
        /// Descriptors that are still open for writing; empty in edit mode.
        writers: Vec<Writer>,
        /// What could still write and was ended on request.
        #[serde(default)]
        ended: Vec<Writer>,
        /// Whether every file that was granted for writing could be asked about: with more than some ten thousand, the oldest are
        /// forgotten, and what holds one of those open without showing in /proc is not named.
        complete: bool,
    },
    /// The session's description.
    Status {
        /// What `picktwo sessions --json` prints.
        session: Session,
    },
    /// The request was refused or failed.
    Error {
        /// One sentence.
        reason: String,
    },
}

/// A session as `picktwo sessions --json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Session id.
    pub id: String,
    /// The mode in force.
    pub mode: Mode,
    /// Absolute path of the workspace.
    pub workspace: String,
    /// Process id of the launcher.
    pub pid: i32,
    /// `full`, `container` or `nested`.
    pub tier: String,
    /// The command line, for people.
    pub command: Vec<String>,
    /// Start, RFC 3339 UTC.
    pub started: String,
}

/// A descriptor, mapping or parked descriptor that can still write a file of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writer {
    /// Host process id; none if no process shows it (a descriptor parked in a socket).
    pub pid: Option<i32>,
    /// Name of the process, empty if there is none.
    pub command: String,
    /// The file.
    pub path: String,
    /// `descriptor`, `mapping` or `parked`.
    pub how: String,
}
