//! The supervisor's end of a resolver.

use super::{Start, Started};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use picktwo_confine::channel::Channel;
use picktwo_confine::process::{self, Child};
use picktwo_confine::{Errno, Role};
use picktwo_wire::retrieval::{Resolve, Resolved};
use picktwo_wire::{MessageError, decode, encode};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Milliseconds within which a resolver has to be ready.
const START_MS: u16 = 10_000;

/// A running resolver. Its descriptor is readable when an answer is there, or when it has ended.
pub struct Client {
    channel: Channel,
    child: Child,
}

/// What went wrong between a supervisor and its resolver.
#[derive(Debug)]
pub enum ClientError {
    /// Starting the process or a call on the channel failed.
    Confine(picktwo_confine::Error),
    /// Its message was not one.
    Message(MessageError),
    /// It could not lock itself; its own sentence.
    Failed(String),
    /// It was not ready in time.
    Late,
    /// It is gone.
    Ended,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Confine(e) => write!(f, "resolver: {e}"),
            Self::Message(e) => write!(f, "resolver: {e}"),
            Self::Failed(reason) => write!(f, "the resolver could not start: {reason}"),
            Self::Late => f.write_str("the resolver was not ready in time"),
            Self::Ended => f.write_str("the resolver ended"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<picktwo_confine::Error> for ClientError {
    fn from(e: picktwo_confine::Error) -> Self {
        Self::Confine(e)
    }
}

impl From<MessageError> for ClientError {
    fn from(e: MessageError) -> Self {
        Self::Message(e)
    }
}

/// A resolver that was started and locks itself by now.
pub struct Starting(Client);

impl Starting {
    /// Waits until the resolver is locked.
    ///
    /// # Errors
    /// [`ClientError`]: it could not lock itself, or not in time.
    pub fn ready(self) -> Result<Client, ClientError> {
        let mut entry = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if poll(&mut entry, PollTimeout::from(START_MS)) == Ok(0) {
            return Err(ClientError::Late);
        }
        let mut bytes = Vec::new();
        self.0.channel.recv(&mut bytes)?.ok_or(ClientError::Ended)?;
        match decode(&bytes)? {
            Started::Ready => Ok(self.0),
            Started::Failed { reason } => Err(ClientError::Failed(reason)),
        }
    }
}

impl Client {
    /// Starts a resolver, without waiting for it.
    ///
    /// # Errors
    /// [`ClientError`] if it cannot be started.
    pub fn start(exe: BorrowedFd<'_>, nameservers: &[IpAddr]) -> Result<Starting, ClientError> {
        let (child, channel) = process::spawn_role(Role::Resolver, exe)?;
        channel.send(
            &encode(&Start {
                nameservers: nameservers.to_vec(),
            })?,
            &[],
        )?;
        Ok(Starting(Self { channel, child }))
    }

    /// Process id of the resolver.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Asks for a name. Every name is answered at least once, in any order, however often it was asked for meanwhile.
    ///
    /// # Errors
    /// [`ClientError::Ended`] if the resolver is gone or does not take questions any more.
    pub fn ask(&self, host: &str) -> Result<(), ClientError> {
        let bytes = encode(&Resolve { host: host.to_owned() })?;
        match self.channel.try_send(&bytes, &[]) {
            Ok(true) => Ok(()),
            Ok(false) | Err(picktwo_confine::Error::ChannelSend { errno: Errno::EPIPE }) => Err(ClientError::Ended),
            Err(e) => Err(e.into()),
        }
    }

    /// The next answer, if one is there.
    ///
    /// # Errors
    /// [`ClientError`] if the resolver is gone or sent something else.
    pub fn answer(&self) -> Result<Option<Resolved>, ClientError> {
        let mut bytes = Vec::new();
        match self.channel.try_recv(&mut bytes) {
            Ok(Some(_)) => Ok(Some(decode(&bytes)?)),
            Ok(None) => Err(ClientError::Ended),
            Err(e) if e.errno() == Some(Errno::EAGAIN) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
