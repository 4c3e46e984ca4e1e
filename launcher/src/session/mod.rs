//! Sessions: how one starts, is steered, and ends.

pub(crate) mod bounds;
mod control;
mod doors;
pub(crate) mod early;
mod fixed;
pub(crate) mod id;
pub(crate) mod judged;
mod key;
mod line;
mod model;
pub(crate) mod plan;
pub(crate) mod policy;
mod prepare;
mod protection;
mod refusals;
pub(crate) mod registry;
mod retrieval;
mod room;
mod secrets;
mod space;
pub(crate) mod standalone;
pub(crate) mod start;
mod steer;
pub(crate) mod tier;
mod tools;
pub(crate) mod wait;
mod web;
