//! The policy model and its matchers; no I/O. The launcher reads the files and hands over their text.

pub mod address;
pub mod diagnostics;
mod fold;
pub mod gitconfig;
pub mod model;
pub mod outgoing;
pub mod protect;
pub mod scenario;

pub use diagnostics::{Diagnostics, Kind, Origin, Place, Problem};
pub use model::{Layer, Policy, Set, builtin, effective, parse, profile, profile_for, stack};
