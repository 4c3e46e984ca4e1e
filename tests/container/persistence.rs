//! The same tests in the container tier.

#[path = "../persistence.rs"]
mod persistence;
