//! Granted changes, tried by a forked process under the real filter, with the real supervisor.

mod completing;
mod git;
mod harness;
mod identity;
mod links;
mod metadata;
mod moves;
mod names;
mod opens;
mod protected;
mod publishing;
mod races;
mod sockets;
mod tools;
mod two_sessions;
mod writers;
