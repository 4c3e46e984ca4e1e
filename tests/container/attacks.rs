//! The same tests in the container tier.

#[path = "../attacks.rs"]
mod attacks;
