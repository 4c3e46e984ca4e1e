//! The same tests where `max_user_namespaces` is 0: those of what a session is for, and of what it withstands.

mod attacks;
mod bad_input;
mod fidelity;
mod kills;
mod modes;
mod real_agents;
mod verify;
