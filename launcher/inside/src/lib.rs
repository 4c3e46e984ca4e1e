//! The agent's side of the wall: its view of the files, granted changes, sockets.

pub mod agent;
pub mod container;
pub mod init;
pub mod socket_request;
pub mod view;

pub mod files;
pub mod mode;
pub mod sockets;
pub mod supervise;
pub mod writers;
