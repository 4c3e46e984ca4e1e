//! The same tests in the container tier.

#[path = "../sessions.rs"]
mod sessions;
