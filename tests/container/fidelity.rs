//! The same tests in the container tier.

#[path = "../fidelity.rs"]
mod fidelity;
