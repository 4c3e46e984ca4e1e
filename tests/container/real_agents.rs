//! The same tests in the container tier.

#[path = "../real_agents.rs"]
mod real_agents;
