//! The quarantined side of a retrieval: one process fetches one page, keeps what answers the question and hands back a typed,
//! filtered answer. The process is locked before its first byte of input and ends with its one answer.
//!
//! [`filter::check`] is the one part that another process uses; it neither opens nor parses anything from the web.

pub mod distil;
pub mod extract;
pub mod fetch;
pub mod filter;
mod github;
mod probes;
mod role;
mod search;
mod ticket;

pub use filter::check;
pub use role::main_role;
