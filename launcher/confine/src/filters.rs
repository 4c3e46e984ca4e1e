//! The system call lists: data, each call with the reason for what happens to it.
//!
//! - [`agent_plain`]: what nothing inside a session may do, whatever the grants say;
//! - [`agent_container`]: the same for a session without namespaces, which shares more with the host;
//! - [`agent_nested`]: the same for a session without granted calls;
//! - [`agent_notify`]: the calls that the launcher performs on behalf of a session, or refuses;
//! - [`for_role`]: allow lists of picktwo's own processes;
//! - [`retriever_notify`]: the calls that the web side performs on behalf of a retriever.
//!
//! Where a call is refused by several stacked filters, an error wins over a notification.

mod agent;
mod grants;
mod groups;
mod nested;
mod roles;
mod shared;

use crate::role::Role;
use crate::seccomp::{Action, Cond, Filter, Rule, Test};

pub use grants::Grants;

/// The newest call that these lists were written for (`file_setattr`, Linux 6.17). Newer ones answer `ENOSYS` to agents.
pub const NEWEST_CALL: i64 = number::FILE_SETATTR;

/// Numbers that `libc` does not name yet (x86-64).
pub mod number {
    /// `cachestat`
    pub const CACHESTAT: i64 = 451;
    /// `lsm_set_self_attr`
    pub const LSM_SET_SELF_ATTR: i64 = 460;
    /// `setxattrat`
    pub const SETXATTRAT: i64 = 463;
    /// `removexattrat`
    pub const REMOVEXATTRAT: i64 = 466;
    /// `open_tree_attr`
    pub const OPEN_TREE_ATTR: i64 = 467;
    /// `file_setattr`
    pub const FILE_SETATTR: i64 = 469;
}

/// What nothing inside a session may do. Everything that it does not name is left to Landlock, the namespaces and the grants.
pub fn agent_plain() -> Filter {
    agent::plain()
}

/// What nothing inside a session without namespaces may do: [`agent_plain`], and what reaches kernel objects that a namespace would
/// keep apart.
pub fn agent_container() -> Filter {
    shared::agent()
}

/// What nothing inside a session without granted calls may do: [`agent_plain`], and what only a supervisor could tell apart.
pub fn agent_nested() -> Filter {
    nested::agent()
}

/// The granted calls of a session: stacked on [`agent_plain`], with a listener.
pub fn agent_notify(grants: Grants) -> Filter {
    grants::agent(grants)
}

/// The granted calls of a retriever: stacked on its list of [`for_role`], with a listener.
pub fn retriever_notify() -> Filter {
    grants::retriever()
}

/// The list of a role. The agent's is [`agent_plain`]; a command of the person's has the launcher's.
pub fn for_role(role: Role) -> Filter {
    match role {
        Role::Agent => agent_plain(),
        Role::Launcher | Role::Command => roles::launcher(),
        Role::Init => roles::init(),
        Role::Broker => roles::broker(),
        Role::Keeper => roles::keeper(),
        Role::OutsideModel => roles::outside_model(),
        Role::OutsideWeb => roles::outside_web(),
        Role::Resolver => roles::resolver(),
        Role::Gateway | Role::RetrieverGateway => roles::gateway(),
        Role::Retriever => roles::retriever(),
    }
}

/// A call: its number and its name.
type Call = (i64, &'static str);

/// `call!(SYS_mount)` is the number and the name `mount`.
macro_rules! call {
    ($constant:ident) => {
        (libc::$constant, stringify!($constant).split_at(4).1)
    };
}
use call;

fn rule(call: Call, when: &[Cond], then: Action, reason: &'static str) -> Rule {
    Rule {
        nr: call.0,
        name: call.1,
        when: when.to_vec(),
        then,
        reason,
    }
}

const fn arg(argument: u8, test: Test) -> Cond {
    Cond { argument, test }
}

/// `MSG_FASTOPEN`: a send that connects, past every check of `connect`.
const FAST_OPEN: u32 = 0x2000_0000;
/// The type of a socket without its flags (`SOCK_TYPE_MASK`).
const TYPE_MASK: u32 = 0xf;
const INET: u32 = libc::AF_INET as u32;
const INET6: u32 = libc::AF_INET6 as u32;
const UNIX: u32 = libc::AF_UNIX as u32;
const STREAM: u32 = libc::SOCK_STREAM as u32;
const DGRAM: u32 = libc::SOCK_DGRAM as u32;

/// The flags by which `clone` makes namespaces.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

#[cfg(test)]
mod tests;
