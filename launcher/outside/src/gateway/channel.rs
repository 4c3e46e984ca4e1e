//! A channel in the event loop.

use nix::errno::Errno;
use picktwo_confine::channel::Channel;
use picktwo_confine::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// A channel whose waiting does not stop the loop.
pub(crate) struct AsyncChannel(AsyncFd<Channel>);

impl AsyncChannel {
    /// Registers a channel with the running loop.
    pub(crate) fn new(channel: Channel) -> io::Result<Self> {
        // Its successor is unsafe, for types that close or swap their descriptor; a channel keeps its own until it is dropped.
        #[allow(deprecated)]
        AsyncFd::new(channel).map(Self)
    }

    /// The next message; `None`: the other end is closed.
    pub(crate) async fn recv(&self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.0.readable().await?;
            let received = ready.try_io(|channel| {
                let mut message = Vec::new();
                let fds = channel.get_ref().try_recv(&mut message).map_err(io_error)?;
                Ok(fds.map(|fds| (message, fds)))
            });
            if let Ok(result) = received {
                return result;
            }
        }
    }

    /// Sends a message, waiting for room without stopping the loop.
    pub(crate) async fn send(&self, message: &[u8]) -> io::Result<()> {
        loop {
            let mut ready = self.0.writable().await?;
            let sent = ready.try_io(|channel| match channel.get_ref().try_send(message, &[]) {
                Ok(true) => Ok(()),
                Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => Err(io_error(error)),
            });
            if let Ok(result) = sent {
                return result;
            }
        }
    }
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::ChannelReceive { errno: Errno::EAGAIN } => io::ErrorKind::WouldBlock.into(),
        other => io::Error::other(other.to_string()),
    }
}
