//! The two network supervisors and the resolver, as processes: this program starts itself in their roles, and in the roles of a
//! gateway and of a retriever that does whatever a test tells it.
//!
//! Every test runs in a network namespace of its own, where it may have port 53 and every address of 127.0.0.0/8. It has no
//! harness because roles are started from one thread only.

mod harness;
mod hostile;
mod model;
mod web;

use picktwo_confine::channel::Channel;
use picktwo_confine::role::Role;
use picktwo_outside as outside;
use std::process::ExitCode;

/// A test: its name and what it does; it fails by panicking.
pub(crate) type Test = (&'static str, fn());

fn main() -> ExitCode {
    let title = std::env::args_os().next().unwrap_or_default();
    if let Some(role) = Role::from_title(&title) {
        let parent = || Channel::from_parent().expect("the channel to the supervisor");
        return match role {
            Role::OutsideWeb => outside::web::main_role(),
            Role::OutsideModel => outside::model::main_role(),
            Role::Resolver => outside::resolver::main_role(),
            Role::Retriever => hostile::main_role(parent()),
            Role::Gateway | Role::RetrieverGateway => model::gateway(parent()),
            _ => ExitCode::from(125),
        };
    }
    harness::run(
        &[
            web::grants::TESTS,
            web::attacks::TESTS,
            web::tickets::TESTS,
            model::TESTS,
        ]
        .concat(),
    )
}
