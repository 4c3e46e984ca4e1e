//! The same tests in the container tier.

#[path = "../kills.rs"]
mod kills;
