//! Support for scenarios, hostile programs and benchmarks: a model API and web pages on loopback, a place to run the binary
//! under test as an ordinary user, and a look into the processes of a session from outside.
//!
//! What a test asserts is decided out here, from the host, never by what a confined process says about itself.

pub mod agents;
pub mod http;
pub mod model;
pub mod pages;
pub mod processes;
pub mod random;
pub mod report;
pub mod run;
pub mod scene;
pub mod tier;
pub mod tree;
