//! What a session without granted calls does without: calls whose danger lies behind a pointer, where no supervisor looks.

use super::{Call, UNIX, agent, arg, call, rule};
use crate::seccomp::{Action, Filter, Rule, Test};
use nix::errno::Errno;

const EPERM: Action = Action::Errno(Errno::EPERM);

const PRIVILEGED: &str = "makes programs that run as their owner, in directories that the host has, too";

/// Calls that give a file its mode, and the index of that argument.
const MODES: &[(Call, u8)] = &[
    (call!(SYS_chmod), 1),
    (call!(SYS_fchmod), 1),
    (call!(SYS_fchmodat), 2),
    (call!(SYS_fchmodat2), 2),
    (call!(SYS_creat), 1),
    (call!(SYS_open), 2),
    (call!(SYS_openat), 3),
    (call!(SYS_mknod), 1),
    (call!(SYS_mknodat), 2),
];

/// Bits of a file's mode that make a program run as its owner or group.
const RUN_AS: u32 = libc::S_ISUID | libc::S_ISGID;

/// An open with these flags reads its mode argument.
const MAKES: u32 = libc::O_CREAT as u32 | 0o20_000_000;

pub(super) fn agent() -> Filter {
    let mut rules: Vec<Rule> = vec![rule(
        call!(SYS_socket),
        &[arg(0, Test::Is(UNIX))],
        EPERM,
        "whom it connects to lies behind a pointer: a socket of the host may lie in what the session reads",
    )];
    for &(call, mode) in MODES {
        let mut when = vec![arg(mode, Test::Any(RUN_AS))];
        if call.0 == libc::SYS_open || call.0 == libc::SYS_openat {
            when.push(arg(mode - 1, Test::Any(MAKES)));
        }
        rules.push(rule(call, &when, EPERM, PRIVILEGED));
    }
    // Its mode and its flags lie behind a pointer, where a mode may make such programs; libraries fall back.
    rules.push(rule(
        call!(SYS_openat2),
        &[],
        Action::Errno(Errno::ENOSYS),
        "its mode lies behind a pointer; libraries fall back",
    ));
    let Filter {
        rules: everywhere,
        foreign,
        x32,
        newer,
        otherwise,
        ..
    } = agent::plain();
    let local = |rule: &Rule| rule.nr == libc::SYS_socket && rule.when.contains(&arg(0, Test::Is(UNIX)));
    rules.extend(everywhere.into_iter().filter(|rule| !local(rule)));
    Filter {
        name: "agent without grants",
        foreign,
        x32,
        newer,
        rules,
        otherwise,
    }
}
