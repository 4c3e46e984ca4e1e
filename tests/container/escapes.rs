//! The same tests in the container tier.

#[path = "../escapes.rs"]
mod escapes;
