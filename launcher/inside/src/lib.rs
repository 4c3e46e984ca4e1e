//! The agent's side of the wall: its view of the files, granted changes, sockets.

pub mod socket_request;
