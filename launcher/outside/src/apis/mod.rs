//! The gateway of the retrievers: it holds the keys of search providers and of GitHub, builds every request itself from a typed
//! operation of the launcher's, and writes the answers into a ticket's channel, from which one retriever reads.
//!
//! A retriever cannot speak to it: a ticket's channel carries nothing the other way. It holds no files, and it cannot make a
//! connection: sockets come from `outside`, to pinned upstreams only.

mod exchange;
mod github;
mod role;
mod search;
mod serve;
mod storage;

pub use role::main_role;

use crate::gateway::BaseError;

/// Why this gateway ended.
#[derive(Debug)]
pub(crate) enum Error {
    /// The lock, or a channel.
    Gateway(crate::gateway::Error),
    /// A message could not be read or written.
    Message(picktwo_wire::MessageError),
    /// A channel in the event loop.
    Channel(std::io::Error),
    /// An API of the start message.
    Api(BaseError),
    /// A place of storage of the start message.
    Storage(String),
    /// A ticket without the channel for its answers.
    NoTicketChannel,
    /// The start message did not come.
    NoStart,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gateway(e) => e.fmt(f),
            Self::Message(e) => e.fmt(f),
            Self::Channel(e) => write!(f, "a channel failed: {e}"),
            Self::Api(e) => e.fmt(f),
            Self::Storage(text) => write!(f, "{text} is no place of storage"),
            Self::NoTicketChannel => f.write_str("a ticket came without the channel for its answers"),
            Self::NoStart => f.write_str("the launcher closed the channel before the start message"),
        }
    }
}

impl From<crate::gateway::Error> for Error {
    fn from(e: crate::gateway::Error) -> Self {
        Self::Gateway(e)
    }
}

impl From<picktwo_confine::Error> for Error {
    fn from(e: picktwo_confine::Error) -> Self {
        Self::Gateway(e.into())
    }
}

impl From<picktwo_wire::MessageError> for Error {
    fn from(e: picktwo_wire::MessageError) -> Self {
        Self::Message(e)
    }
}
