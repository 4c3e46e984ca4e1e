//! The messages between picktwo's processes, with their limits. One message is one JSON document; unknown keys are
//! refused, so that a field that one side invents never passes unseen.
//!
//! Two framings carry them: between picktwo's own roles a message is one `SOCK_SEQPACKET` datagram with at most
//! [`MAX_DESCRIPTORS`] descriptors; on the session's sockets (tools, control) it is one line of a stream.

pub mod answer;
pub mod apis;
pub mod control;
pub mod gateway;
pub mod github;
pub mod judged;
pub mod retrieval;
pub mod tools;

use serde::{Serialize, de::DeserializeOwned};

/// Bytes of one message, either framing.
pub const MAX_MESSAGE: usize = 128 * 1024;
/// Descriptors that may travel with one message.
pub const MAX_DESCRIPTORS: usize = 4;
/// Bytes of a URL that may cross the wall.
pub const MAX_URL: usize = 2048;
/// Bytes of a question that may cross the wall.
pub const MAX_QUESTION: usize = 1024;
/// Bytes of a host name (RFC 1035 §2.3.4).
pub const MAX_HOST: usize = 253;

/// Why a message was not accepted or could not be written.
#[derive(Debug)]
pub enum MessageError {
    /// More than [`MAX_MESSAGE`] bytes; holds the size.
    TooLong(usize),
    /// Not the JSON of the expected type.
    Malformed(serde_json::Error),
}

impl std::fmt::Display for MessageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong(n) => write!(f, "message of {n} bytes, at most {MAX_MESSAGE} are allowed"),
            Self::Malformed(e) => write!(f, "malformed message: {e}"),
        }
    }
}

impl std::error::Error for MessageError {}

/// Writes one message.
///
/// # Errors
/// [`MessageError::TooLong`] if it does not fit; [`MessageError::Malformed`] if it cannot be written as JSON.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, MessageError> {
    let bytes = serde_json::to_vec(message).map_err(MessageError::Malformed)?;
    if bytes.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong(bytes.len()));
    }
    Ok(bytes)
}

/// Reads one message.
///
/// # Errors
/// [`MessageError::TooLong`] or [`MessageError::Malformed`]; nothing of a bad message is used.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MessageError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong(bytes.len()));
    }
    serde_json::from_slice(bytes).map_err(MessageError::Malformed)
}

/// Bytes in hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, b| {
        for digit in [b >> 4, b & 15] {
            out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        out
    })
}
