//! The policy model and its matchers; no I/O. The launcher reads the files and hands over their text.

pub mod address;
mod fold;
pub mod gitconfig;
mod gitconfig_keys;
pub mod protect;
