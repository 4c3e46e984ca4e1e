//! The same tests in the container tier.

#[path = "../search.rs"]
mod search;
