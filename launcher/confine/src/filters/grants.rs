//! The calls that a supervisor performs on behalf of a confined process.

use super::{Call, DGRAM, INET, INET6, NEWEST_CALL, STREAM, TYPE_MASK, UNIX, arg, call, rule};
use crate::seccomp::{Action, Filter, Rule, Test};
use crate::sys::terminal::SETTINGS;
use nix::errno::Errno;

/// Which calls of a session notify its launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grants {
    /// Changes of files and metadata, and of terminals' settings.
    pub files: bool,
    /// Making, connecting and binding sockets.
    pub sockets: bool,
    /// Leave setting times by a descriptor to the kernel. Only where every descriptor that a process can hold on a writable mount
    /// of the host was granted for writing (docs/decisions/0008).
    pub descriptor_times: bool,
    /// Opens for reading, too: where no view decides what `/proc` and `/etc` hold. And the calls that name processes and groups of
    /// them.
    pub reads: bool,
    /// Listening: where no network namespace keeps what listens apart.
    pub listen: bool,
}

impl Grants {
    /// Everything that is granted in a session with namespaces.
    pub const ALL: Grants = Grants {
        files: true,
        sockets: true,
        descriptor_times: false,
        reads: false,
        listen: false,
    };
    /// Everything that is granted in a session without namespaces.
    pub const CONTAINER: Grants = Grants {
        reads: true,
        listen: true,
        ..Grants::ALL
    };
}

const CHANGES: &str = "changes a directory";
const GROUPS: &str = "the person's other jobs have groups in the same session, whom the kernel would signal";
const METADATA: &str = "changes metadata, which Landlock does not see";

/// Notified whatever the arguments.
pub(super) const CHANGING: &[(Call, &str)] = &[
    (call!(SYS_creat), CHANGES),
    (call!(SYS_rename), CHANGES),
    (call!(SYS_renameat), CHANGES),
    (call!(SYS_renameat2), CHANGES),
    (call!(SYS_mkdir), CHANGES),
    (call!(SYS_mkdirat), CHANGES),
    (call!(SYS_rmdir), CHANGES),
    (call!(SYS_link), CHANGES),
    (call!(SYS_linkat), CHANGES),
    (call!(SYS_unlink), CHANGES),
    (call!(SYS_unlinkat), CHANGES),
    (call!(SYS_symlink), CHANGES),
    (call!(SYS_symlinkat), CHANGES),
    (call!(SYS_mknod), CHANGES),
    (call!(SYS_mknodat), CHANGES),
    (call!(SYS_truncate), "changes content without an open"),
    (call!(SYS_openat2), "its flags lie behind a pointer"),
    (call!(SYS_chmod), METADATA),
    (call!(SYS_fchmod), METADATA),
    (call!(SYS_fchmodat), METADATA),
    (call!(SYS_fchmodat2), METADATA),
    (call!(SYS_chown), METADATA),
    (call!(SYS_fchown), METADATA),
    (call!(SYS_lchown), METADATA),
    (call!(SYS_fchownat), METADATA),
    (call!(SYS_utime), METADATA),
    (call!(SYS_utimes), METADATA),
    (call!(SYS_futimesat), METADATA),
    (call!(SYS_setxattr), METADATA),
    (call!(SYS_lsetxattr), METADATA),
    (call!(SYS_fsetxattr), METADATA),
    (call!(SYS_removexattr), METADATA),
    (call!(SYS_lremovexattr), METADATA),
    (call!(SYS_fremovexattr), METADATA),
];

/// Open flags that may change something: writing, creating, truncating, and the bit of `O_TMPFILE` that is its own.
const OPEN_CHANGES: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32 | 0o20_000_000;

pub(super) fn agent(grants: Grants) -> Filter {
    let mut rules = Vec::new();
    if grants.files {
        rules.extend(
            CHANGING
                .iter()
                .map(|&(call, reason)| rule(call, &[], Action::Notify, reason)),
        );
        let by_path = [arg(1, Test::NotNull64)];
        let when: &[_] = if grants.descriptor_times { &by_path } else { &[] };
        rules.push(rule(call!(SYS_utimensat), when, Action::Notify, METADATA));
        rules.push(rule(
            call!(SYS_umask),
            &[],
            Action::Notify,
            "so that the supervisor need not ask for it with each file that it creates",
        ));
        for (call, flags) in [(call!(SYS_open), 1), (call!(SYS_openat), 2)] {
            rules.push(rule(
                call,
                &[arg(flags, Test::Any(OPEN_CHANGES))],
                Action::Notify,
                "opens for a change; reads are Landlock's and the view's",
            ));
            if grants.reads {
                rules.push(rule(
                    call,
                    &[arg(flags, Test::None(libc::O_PATH as u32))],
                    Action::Notify,
                    "what Landlock refuses because no namespace separates it: the session's own part of /proc",
                ));
            }
        }
        for (call, mode) in [
            (call!(SYS_access), 1),
            (call!(SYS_faccessat), 2),
            (call!(SYS_faccessat2), 2),
        ] {
            rules.push(rule(
                call,
                &[arg(mode, Test::Any(libc::W_OK as u32))],
                Action::Notify,
                "the view is read-only, what is granted is not",
            ));
        }
    }
    if grants.files {
        for setting in SETTINGS {
            rules.push(rule(
                call!(SYS_ioctl),
                &[arg(1, Test::Is(setting.request))],
                Action::Notify,
                "the keys that signal the person's job lie behind a pointer",
            ));
        }
    }
    if grants.sockets {
        let kind = |value| arg(1, Test::Masked { mask: TYPE_MASK, value });
        let made = "made by the supervisor, which keeps a duplicate to connect or bind";
        for (family, value) in [
            (UNIX, STREAM),
            (INET, STREAM),
            (INET6, STREAM),
            (INET, DGRAM),
            (INET6, DGRAM),
        ] {
            rules.push(rule(
                call!(SYS_socket),
                &[arg(0, Test::Is(family)), kind(value)],
                Action::Notify,
                made,
            ));
        }
        for call in [call!(SYS_connect), call!(SYS_bind)] {
            rules.push(rule(call, &[], Action::Notify, "the address lies behind a pointer"));
        }
        if grants.reads {
            rules.push(rule(
                call!(SYS_pidfd_open),
                &[],
                Action::Notify,
                "which processes there are is the session's own view of them",
            ));
            let other_group = [arg(1, Test::IsNot(0))];
            rules.push(rule(call!(SYS_setpgid), &other_group, Action::Notify, GROUPS));
            let foreground = [arg(1, Test::Is(libc::TIOCSPGRP as u32))];
            rules.push(rule(call!(SYS_ioctl), &foreground, Action::Notify, GROUPS));
        }
        if grants.listen {
            rules.push(rule(
                call!(SYS_listen),
                &[],
                Action::Notify,
                "the family of a socket lies behind its descriptor; an unbound internet one is bound by it",
            ));
        }
    }
    notifying("agent's grants", rules)
}

pub(super) fn retriever() -> Filter {
    let rules = vec![
        rule(
            call!(SYS_socket),
            &[],
            Action::Notify,
            "made by the supervisor, which keeps a duplicate to connect",
        ),
        rule(
            call!(SYS_connect),
            &[],
            Action::Notify,
            "the address lies behind a pointer and is checked there",
        ),
    ];
    notifying("retriever's grants", rules)
}

/// Stacked on a filter that refuses foreign ABIs and newer calls: this one refuses them, too, rather than rely on that.
fn notifying(name: &'static str, rules: Vec<Rule>) -> Filter {
    let enosys = Action::Errno(Errno::ENOSYS);
    Filter {
        name,
        foreign: enosys,
        x32: enosys,
        newer: Some((NEWEST_CALL, enosys)),
        rules,
        otherwise: Action::Allow,
    }
}
