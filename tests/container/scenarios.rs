//! The same tests in the container tier.

#[path = "../scenarios.rs"]
mod scenarios;
