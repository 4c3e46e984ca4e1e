//! What the launcher asks of the session's init about sockets.
//!
//! The session has a network namespace of its own, and the launcher's Landlock domain refuses every TCP `bind` and
//! `connect`. Sockets are therefore made by the init, which lives in that namespace (UNIX ones too: their abstract names
//! are those of the namespace that they were made in), and internet ones are bound and connected there. The launcher
//! decides; the init only performs, on the descriptor that comes with the request, and **never blocks**: the launcher
//! sends `Connect` only for descriptors that are in non-blocking mode at that moment, and waits itself.
//!
//! One request, one reply, in order, over the channel between the two (`confine::channel`).

use serde::{Deserialize, Serialize};

/// Longest socket address that is passed on, in bytes (`sockaddr_storage`).
pub const ADDRESS_MAX: usize = 128;

/// One request of the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum SocketRequest {
    /// `socket(domain, kind | SOCK_CLOEXEC, protocol)` in the session's network namespace. The reply carries one descriptor.
    /// `domain` is `AF_INET` or `AF_INET6` with `SOCK_STREAM` or `SOCK_DGRAM`, or `AF_UNIX` with `SOCK_STREAM`; `kind` has
    /// `SOCK_NONBLOCK` where the caller asked for it; `protocol` is 0 or the one of the kind. The init refuses anything else
    /// with `EACCES`.
    Socket {
        /// Address family.
        domain: i32,
        /// Type and flags.
        kind: i32,
        /// Protocol number.
        protocol: i32,
    },
    /// `connect(fd, address)`; the message carries the descriptor, which is in non-blocking mode. The address is an
    /// internet one, or `AF_UNSPEC` (dissolve the association).
    Connect {
        /// The raw `sockaddr`, at most [`ADDRESS_MAX`] bytes.
        address: Vec<u8>,
    },
    /// `bind(fd, address)`; the message carries the descriptor. The address is an internet one.
    Bind {
        /// The raw `sockaddr`, at most [`ADDRESS_MAX`] bytes.
        address: Vec<u8>,
    },
    /// The session is over: kills every other process of its pid namespace, answers once none is left, and ends by itself. The one
    /// request that may take a moment.
    End,
}

/// The reply to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketReply {
    /// 0, or the errno of the call (positive), as the kernel gave it. A reply to `Socket` with 0 carries the descriptor.
    pub errno: i32,
}
