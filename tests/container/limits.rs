//! The same tests in the container tier.

#[path = "../limits.rs"]
mod limits;
