//! The same tests in the container tier.

#[path = "../verify.rs"]
mod verify;
