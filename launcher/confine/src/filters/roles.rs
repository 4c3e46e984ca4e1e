//! Allow lists of picktwo's own processes, made of groups of calls. Whatever a list lacks fails with `EACCES`, which libraries
//! take for a missing right and cope with.

use super::groups::{ACCEPTING, CHILDREN, EVENTS, FILES, Group, RUNTIME, SOCKET_DATA, STARTING, SUPERVISING};
use super::{DGRAM, FAST_OPEN, INET, INET6, NEW_NAMESPACES, NEWEST_CALL, STREAM, TYPE_MASK, UNIX, arg, call, rule};
use crate::role::Role;
use crate::seccomp::{Action, Filter, Rule, Test};
use crate::sys::terminal::SETTINGS;
use nix::errno::Errno;

const EXECUTABLE: Test = Test::None(libc::PROT_EXEC as u32);

fn allow(rules: &mut Vec<Rule>, group: Group) {
    rules.extend(
        group
            .iter()
            .map(|&(call, reason)| rule(call, &[], Action::Allow, reason)),
    );
}

/// No new code after the lock: memory is never made executable.
fn no_new_code(rules: &mut Vec<Rule>) {
    for call in [call!(SYS_mmap), call!(SYS_mprotect)] {
        rules.push(rule(
            call,
            &[arg(2, EXECUTABLE)],
            Action::Allow,
            "allocator, stacks; nothing executable",
        ));
    }
}

fn descriptors(rules: &mut Vec<Rule>) {
    rules.push(rule(
        call!(SYS_prlimit64),
        &[arg(0, Test::Is(0)), arg(2, Test::Null64)],
        Action::Allow,
        "size of the main stack",
    ));
    for (command, reason) in [
        (libc::F_DUPFD_CLOEXEC, "copies of descriptors"),
        (libc::F_GETFD, "checks"),
        (libc::F_SETFD, "close on exec"),
        (libc::F_GETFL, "blocking or not"),
        (libc::F_SETFL, "blocking or not"),
    ] {
        rules.push(rule(
            call!(SYS_fcntl),
            &[arg(1, Test::Is(command as u32))],
            Action::Allow,
            reason,
        ));
    }
    for (option, reason) in [
        (libc::PR_SET_NAME as u32, "names of threads"),
        (libc::PR_GET_NAME as u32, "names of threads"),
        (0x5356_4d41 /* PR_SET_VMA */, "the allocator names its memory"),
        (libc::PR_GET_DUMPABLE as u32, "checks"),
        (libc::PR_GET_NO_NEW_PRIVS as u32, "checks from inside"),
        (libc::PR_GET_SECCOMP as u32, "checks from inside"),
        (libc::PR_CAPBSET_READ as u32, "checks from inside"),
    ] {
        rules.push(rule(
            call!(SYS_prctl),
            &[arg(0, Test::Is(option))],
            Action::Allow,
            reason,
        ));
    }
    rules.push(rule(
        call!(SYS_prctl),
        &[
            arg(0, Test::Is(libc::PR_CAP_AMBIENT as u32)),
            arg(1, Test::Is(libc::PR_CAP_AMBIENT_IS_SET as u32)),
        ],
        Action::Allow,
        "checks from inside",
    ));
    rules.push(rule(call!(SYS_capget), &[], Action::Allow, "checks from inside"));
    rules.push(rule(
        call!(SYS_ioctl),
        &[arg(1, Test::Is(libc::FIONBIO as u32))],
        Action::Allow,
        "blocking or not",
    ));
    rules.push(rule(
        call!(SYS_ioctl),
        &[arg(1, Test::Is(libc::FIONREAD as u32))],
        Action::Allow,
        "what is there to read",
    ));
}

/// Sending on what is connected already.
fn sending(rules: &mut Vec<Rule>) {
    let connected = [arg(3, Test::None(FAST_OPEN)), arg(4, Test::Null64)];
    rules.push(rule(
        call!(SYS_sendto),
        &connected,
        Action::Allow,
        "data, to the peer only: no address, no fast open",
    ));
    rules.push(rule(
        call!(SYS_sendmsg),
        &[arg(2, Test::None(FAST_OPEN))],
        Action::Allow,
        "channels, with descriptors; no fast open",
    ));
}

fn threads(rules: &mut Vec<Rule>) {
    let thread = [arg(
        0,
        Test::Masked {
            mask: libc::CLONE_THREAD as u32 | NEW_NAMESPACES,
            value: libc::CLONE_THREAD as u32,
        },
    )];
    rules.push(rule(call!(SYS_clone), &thread, Action::Allow, "threads, no processes"));
    thread_setup(rules);
}

fn processes(rules: &mut Vec<Rule>) {
    rules.push(rule(
        call!(SYS_clone),
        &[arg(0, Test::None(NEW_NAMESPACES))],
        Action::Allow,
        "roles and threads, no namespaces",
    ));
    rules.push(rule(call!(SYS_fork), &[], Action::Allow, "roles"));
    rules.push(rule(call!(SYS_vfork), &[], Action::Allow, "roles"));
    thread_setup(rules);
}

fn thread_setup(rules: &mut Vec<Rule>) {
    rules.push(rule(
        call!(SYS_clone3),
        &[],
        Action::Errno(Errno::ENOSYS),
        "its flags lie behind a pointer; libc falls back to clone",
    ));
    rules.push(rule(
        call!(SYS_set_robust_list),
        &[],
        Action::Allow,
        "start of a thread",
    ));
    rules.push(rule(call!(SYS_rseq), &[], Action::Allow, "start of a thread"));
}

fn tcp_sockets(rules: &mut Vec<Rule>, protocols: &[u32]) {
    for family in [INET, INET6] {
        for &protocol in protocols {
            let tcp = [
                arg(0, Test::Is(family)),
                arg(
                    1,
                    Test::Masked {
                        mask: TYPE_MASK,
                        value: STREAM,
                    },
                ),
                arg(2, Test::Is(protocol)),
            ];
            rules.push(rule(call!(SYS_socket), &tcp, Action::Allow, "TCP"));
        }
    }
}

fn udp_sockets(rules: &mut Vec<Rule>) {
    for family in [INET, INET6] {
        for protocol in [0, libc::IPPROTO_UDP as u32] {
            let udp = [
                arg(0, Test::Is(family)),
                arg(
                    1,
                    Test::Masked {
                        mask: TYPE_MASK,
                        value: DGRAM,
                    },
                ),
                arg(2, Test::Is(protocol)),
            ];
            rules.push(rule(call!(SYS_socket), &udp, Action::Allow, "UDP"));
        }
    }
}

fn unix_sockets(rules: &mut Vec<Rule>) {
    let stream = [
        arg(0, Test::Is(UNIX)),
        arg(
            1,
            Test::Masked {
                mask: TYPE_MASK,
                value: STREAM,
            },
        ),
    ];
    rules.push(rule(call!(SYS_socket), &stream, Action::Allow, "local sockets"));
}

fn channels(rules: &mut Vec<Rule>) {
    for kind in [STREAM, libc::SOCK_SEQPACKET as u32] {
        let pair = [
            arg(0, Test::Is(UNIX)),
            arg(
                1,
                Test::Masked {
                    mask: TYPE_MASK,
                    value: kind,
                },
            ),
        ];
        rules.push(rule(
            call!(SYS_socketpair),
            &pair,
            Action::Allow,
            "channels and wake-ups: always connected, unlike datagrams",
        ));
    }
}

fn notifications(rules: &mut Vec<Rule>) {
    for (number, reason) in [
        (libc::SECCOMP_IOCTL_NOTIF_RECV as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_SEND as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_ID_VALID as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_ADDFD as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as u32, "cheap wake-ups"),
    ] {
        rules.push(rule(
            call!(SYS_ioctl),
            &[arg(1, Test::Is(number))],
            Action::Allow,
            reason,
        ));
    }
    allow(rules, SUPERVISING);
}

const EACCES: Action = Action::Errno(Errno::EACCES);

fn list(role: Role, rules: Vec<Rule>) -> Filter {
    Filter {
        name: role.name(),
        foreign: Action::KillProcess,
        x32: EACCES,
        newer: Some((NEWEST_CALL, EACCES)),
        rules,
        otherwise: EACCES,
    }
}

fn base() -> Vec<Rule> {
    let mut rules = Vec::new();
    allow(&mut rules, RUNTIME);
    descriptors(&mut rules);
    no_new_code(&mut rules);
    rules
}

pub(super) fn launcher() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, ACCEPTING);
    allow(&mut rules, CHILDREN);
    allow(&mut rules, FILES);
    sending(&mut rules);
    threads(&mut rules);
    notifications(&mut rules);
    unix_sockets(&mut rules);
    channels(&mut rules);
    for call in [call!(SYS_connect), call!(SYS_bind)] {
        rules.push(rule(
            call,
            &[],
            Action::Allow,
            "granted UNIX sockets; Landlock refuses TCP, and it cannot make other sockets",
        ));
    }
    rules.push(rule(call!(SYS_listen), &[], Action::Allow, "control and tool sockets"));
    let own_state = [arg(0, Test::Is(libc::CLONE_FS as u32))];
    rules.push(rule(
        call!(SYS_unshare),
        &own_state,
        Action::Allow,
        "umask and directory per supervising thread",
    ));
    for (command, reason) in [
        (libc::F_SETLEASE, "finds writers"),
        (libc::F_GETLEASE, "finds writers"),
        (libc::F_SETLK, "the ledger has one writer at a time"),
        (libc::F_SETLKW, "the ledger has one writer at a time"),
        (libc::F_OFD_SETLK, "the ledger has one writer at a time"),
        (libc::F_DUPFD, "copies of descriptors"),
        (libc::F_ADD_SEALS, "vetted copies"),
    ] {
        rules.push(rule(
            call!(SYS_fcntl),
            &[arg(1, Test::Is(command as u32))],
            Action::Allow,
            reason,
        ));
    }
    for (number, reason) in [
        (libc::TCGETS as u32, "the person's terminal"),
        (libc::TCXONC as u32, "output that a command stopped goes on"),
        (libc::TIOCGWINSZ as u32, "the person's terminal"),
        (libc::TIOCSWINSZ as u32, "a terminal of the session's own"),
        (libc::TIOCGPGRP as u32, "job control"),
        (libc::TIOCSPGRP as u32, "job control"),
    ] {
        rules.push(rule(
            call!(SYS_ioctl),
            &[arg(1, Test::Is(number))],
            Action::Allow,
            reason,
        ));
    }
    for setting in SETTINGS {
        rules.push(rule(
            call!(SYS_ioctl),
            &[arg(1, Test::Is(setting.request))],
            Action::Allow,
            "terminals of the person's and the session's",
        ));
    }
    list(Role::Launcher, rules)
}

pub(super) fn init() -> Filter {
    let mut rules = base();
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, CHILDREN);
    sending(&mut rules);
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    udp_sockets(&mut rules);
    unix_sockets(&mut rules);
    for call in [call!(SYS_connect), call!(SYS_bind)] {
        rules.push(rule(
            call,
            &[],
            Action::Allow,
            "on the launcher's request, in the session's network namespace",
        ));
    }
    rules.push(rule(
        call!(SYS_rt_sigtimedwait),
        &[],
        Action::Allow,
        "waiting for children",
    ));
    rules.push(rule(call!(SYS_signalfd4), &[], Action::Allow, "waiting for children"));
    list(Role::Init, rules)
}

pub(super) fn broker() -> Filter {
    let mut rules = base();
    allow(&mut rules, SOCKET_DATA);
    sending(&mut rules);
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    rules.push(rule(
        call!(SYS_connect),
        &[],
        Action::Allow,
        "to the gateway, on the launcher's request; Landlock allows its port only",
    ));
    list(Role::Broker, rules)
}

pub(super) fn keeper() -> Filter {
    let mut rules = base();
    allow(&mut rules, SOCKET_DATA);
    sending(&mut rules);
    rules.push(rule(
        call!(SYS_kill),
        &[],
        Action::Allow,
        "ending the session; Landlock keeps signals inside",
    ));
    list(Role::Keeper, rules)
}

pub(super) fn outside_model() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, CHILDREN);
    sending(&mut rules);
    threads(&mut rules);
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    rules.push(rule(
        call!(SYS_connect),
        &[],
        Action::Allow,
        "the pinned upstream; Landlock allows its port only",
    ));
    list(Role::OutsideModel, rules)
}

pub(super) fn outside_web() -> Filter {
    let mut rules = Vec::new();
    allow(&mut rules, RUNTIME);
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, CHILDREN);
    allow(&mut rules, STARTING);
    sending(&mut rules);
    processes(&mut rules);
    notifications(&mut rules);
    channels(&mut rules);
    rules.push(rule(
        call!(SYS_prlimit64),
        &[arg(0, Test::Is(0))],
        Action::Allow,
        "a role sets its own core limit",
    ));
    rules.push(rule(
        call!(SYS_ioctl),
        &[arg(1, Test::Is(libc::FIONBIO as u32))],
        Action::Allow,
        "blocking or not",
    ));
    rules.push(rule(
        call!(SYS_ioctl),
        &[arg(1, Test::Is(libc::FIONREAD as u32))],
        Action::Allow,
        "what is there to read",
    ));
    let one_thread = [arg(0, Test::Is(libc::CLONE_THREAD as u32))];
    rules.push(rule(
        call!(SYS_unshare),
        &one_thread,
        Action::Allow,
        "start-up asks whether it has one thread",
    ));
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    rules.push(rule(
        call!(SYS_connect),
        &[],
        Action::Allow,
        "public addresses, after its own check of each",
    ));
    list(Role::OutsideWeb, rules)
}

pub(super) fn resolver() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    sending(&mut rules);
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    udp_sockets(&mut rules);
    rules.push(rule(
        call!(SYS_connect),
        &[],
        Action::Allow,
        "DNS servers; Landlock allows TCP port 53 only",
    ));
    rules.push(rule(
        call!(SYS_bind),
        &[],
        Action::Allow,
        "a random source port for UDP; Landlock refuses TCP",
    ));
    list(Role::Resolver, rules)
}

pub(super) fn gateway() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, ACCEPTING);
    sending(&mut rules);
    list(Role::Gateway, rules)
}

pub(super) fn retriever() -> Filter {
    let mut rules = Vec::new();
    for level in [libc::IPPROTO_IP as u32, libc::IPPROTO_IPV6 as u32] {
        rules.push(rule(
            call!(SYS_setsockopt),
            &[arg(1, Test::Is(level))],
            EACCES,
            "a source route would send a connection elsewhere than to the address that was granted",
        ));
    }
    rules.append(&mut base());
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    sending(&mut rules);
    tcp_sockets(&mut rules, &[libc::IPPROTO_TCP as u32]);
    rules.push(rule(
        call!(SYS_connect),
        &[],
        Action::Allow,
        "granted one by one: the stacked filter notifies",
    ));
    list(Role::Retriever, rules)
}
