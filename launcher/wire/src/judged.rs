//! Launcher ↔ a supervisor that is judged (`picktwo verify`) instead of serving.

use serde::{Deserialize, Serialize};

/// Launcher → supervisor, once it is ready: try these escapes, report each, and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Try {
    /// Names of attempts, and settings.
    pub probes: Vec<String>,
}

/// Supervisor → launcher: what came of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Name of the attempt.
    pub id: String,
    /// `escaped`, `denied` or `unavailable`.
    pub outcome: String,
    /// The error's number, or 0.
    pub errno: i32,
}
