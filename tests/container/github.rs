//! The same tests in the container tier.

#[path = "../github.rs"]
mod github;
