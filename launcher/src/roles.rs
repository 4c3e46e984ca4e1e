//! Dispatch of the roles: the binary executed again under a title that names what it is.

use picktwo_confine::role::Role;
use std::process::ExitCode;

/// The role this process was executed as; none for a person's command.
pub(crate) fn of_this_process() -> Option<Role> {
    Role::from_title(&std::env::args_os().next()?)
}

/// Runs a role to its end.
pub(crate) fn run(role: Role) -> ExitCode {
    match role {
        Role::Keeper => picktwo_inside::container::keeper::main_role(),
        Role::OutsideModel => picktwo_outside::model::main_role(),
        Role::OutsideWeb => picktwo_outside::web::main_role(),
        Role::Resolver => picktwo_outside::resolver::main_role(),
        Role::Gateway => picktwo_outside::gateway::main_role(),
        Role::RetrieverGateway => picktwo_outside::apis::main_role(),
        Role::Retriever => picktwo_retriever::main_role(),
        // The others are never executed under their title: they are forked, or are what a person runs.
        Role::Launcher | Role::Init | Role::Broker | Role::Agent | Role::Command => ExitCode::from(125),
    }
}
