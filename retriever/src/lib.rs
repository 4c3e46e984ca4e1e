//! The quarantined side of a retrieval: one process fetches one page, keeps what answers the question and hands back a typed,
//! filtered answer. The process is locked before its first byte of input and ends with its one answer.
//!
//! [`filter::check`] and [`render::render`] are the two parts that other processes use; they neither open nor parse anything
//! from the web.

pub mod distil;
pub mod extract;
pub mod fetch;
pub mod filter;
mod probes;
pub mod render;
mod role;

pub use filter::check;
pub use render::render;
pub use role::main_role;
