//! The network's side of the wall: resolver, connections, gateway, retriever processes.
//!
//! Two supervisors, each with its own resolver: [`model`] opens connections to the pinned upstreams of the agent's model and
//! hands them to the [`gateway`]; [`web`] starts one retriever per request and grants its names and connections one by one, or none
//! at all where the retriever reads what a ticket of the retrievers' gateway ([`apis`]) brings.
//! Neither reads what travels over the connections it makes.

pub mod apis;
mod connections;
pub mod gateway;
mod handing;
mod image;
mod judged;
mod local;
mod lock;
pub mod model;
pub mod names;
pub mod resolver;
pub mod web;

pub use image::image_files;
pub use resolver::nameservers_from;
