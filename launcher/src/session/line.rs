//! One message per line over a stream socket, bounded: the framing of the session's two sockets.

use picktwo_wire::{MAX_MESSAGE, MessageError};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

/// Why no message came or went.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The other side closed the connection.
    Closed,
    /// Reading or writing failed (a timeout included).
    Io(std::io::Error),
    /// The line was too long or not the expected message.
    Message(MessageError),
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => write!(f, "the other side closed the connection"),
            Self::Io(e) => write!(f, "{e}"),
            Self::Message(e) => write!(f, "{e}"),
        }
    }
}

/// A connection that speaks in lines.
pub(crate) struct LineStream {
    reader: BufReader<UnixStream>,
}

impl LineStream {
    /// Wraps a connected stream.
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// Reads the next message.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> Result<T, LineError> {
        let mut line = Vec::new();
        let limit = MAX_MESSAGE as u64 + 1;
        let n = self
            .reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(LineError::Io)?;
        if n == 0 {
            return Err(LineError::Closed);
        }
        if line.last() != Some(&b'\n') {
            return Err(if n as u64 == limit {
                LineError::Message(MessageError::TooLong(n))
            } else {
                LineError::Closed
            });
        }
        picktwo_wire::decode(&line[..line.len() - 1]).map_err(LineError::Message)
    }

    /// Writes a message.
    pub(crate) fn write<T: Serialize>(&mut self, message: &T) -> Result<(), LineError> {
        let mut bytes = picktwo_wire::encode(message).map_err(LineError::Message)?;
        bytes.push(b'\n');
        self.reader.get_mut().write_all(&bytes).map_err(LineError::Io)
    }
}
