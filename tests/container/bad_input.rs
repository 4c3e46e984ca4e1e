//! The same tests in the container tier.

#[path = "../bad_input.rs"]
mod bad_input;
