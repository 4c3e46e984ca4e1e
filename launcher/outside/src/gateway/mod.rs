//! The gateway of the agent's model API: a locked process between the session's socket and one pinned upstream for each protocol.
//!
//! It parses every request, checks it against a closed schema, and sends its own serialisation with its own headers and the
//! real key. Whatever would make the *provider* reach out, run code, or load or keep something is not in the schema. Answers pass
//! through event by event and are cut off if they show the work of a provider's own tool.
//!
//! It holds the model key and connected sockets, no files, and it cannot make a connection: sockets come from `outside`.
//!
//! | file | holds |
//! |---|---|
//! | `role` | start and lock of the process, what it tries when it is judged |
//! | `server`, `route`, `target`, `forward`, `reply` | one request after the other |
//! | `json`, `shape`, `schema`, `check`, `models`, `hosted` | what passes |
//! | `events`, `inspect` | what comes back |
//! | `pool`, `tls`, `channel`, `record` | connections, messages |

pub(crate) mod channel;
mod check;
pub(crate) mod echo;
mod events;
mod forward;
mod headers;
mod hosted;
mod inspect;
mod json;
mod models;
pub(crate) mod payload;
pub(crate) mod pool;
mod probes;
mod record;
mod refusal;
mod reply;
pub(crate) mod role;
mod route;
mod schema;
mod server;
mod shape;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod tls;

pub use probes::ids as probe_ids;
pub use role::{main_role, serve_unconfined};
pub use target::BaseError;

use std::time::Duration;

/// Why a gateway ended.
#[derive(Debug)]
pub enum Error {
    /// A step of the lock, or a channel, failed.
    Confine(picktwo_confine::error::Error),
    /// A message could not be read or written.
    Message(picktwo_wire::MessageError),
    /// Something else came than the start needs.
    Unexpected(&'static str),
    /// A socket or the event loop failed; holds what it was.
    Socket(&'static str, std::io::Error),
    /// An upstream of the start message.
    Upstream(BaseError),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Confine(e) => write!(f, "{e}"),
            Self::Message(e) => write!(f, "{e}"),
            Self::Unexpected(what) => write!(f, "unexpected: {what}"),
            Self::Socket(what, e) => write!(f, "{what}: {e}"),
            Self::Upstream(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<picktwo_confine::error::Error> for Error {
    fn from(e: picktwo_confine::error::Error) -> Self {
        Self::Confine(e)
    }
}

/// How long an upstream is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until its answer begins.
    pub first_byte: Duration,
    /// Between two pieces of its answer.
    pub silence: Duration,
    /// Bytes of one stream.
    pub stream: u64,
}

impl Default for Limits {
    /// What the agents themselves declare: 600 s. The longest stream that models give is below a fifth of 256 MiB.
    fn default() -> Self {
        let patience = Duration::from_secs(600);
        Self {
            first_byte: patience,
            silence: patience,
            stream: 256 << 20,
        }
    }
}
