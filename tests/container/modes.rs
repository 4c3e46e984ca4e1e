//! The same tests in the container tier.

#[path = "../modes.rs"]
mod modes;
