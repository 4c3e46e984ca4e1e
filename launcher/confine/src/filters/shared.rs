//! What a session without namespaces shares with the host, beside files and processes: Landlock does not see these objects, so that
//! nothing of the session may reach them.

use super::{Call, DGRAM, INET, INET6, TYPE_MASK, agent, arg, call, rule};
use crate::seccomp::{Action, Cond, Filter, Rule, Test};
use nix::errno::Errno;

const EPERM: Action = Action::Errno(Errno::EPERM);
const EACCES: Action = Action::Errno(Errno::EACCES);

const SYSTEM_V: &str = "System V objects are the host's without an IPC namespace; they are no files";
const QUEUES: &str = "message queues are the host's without an IPC namespace";
const OTHERS: &str = "schedules another process, the host's included; the caller itself goes by 0";

/// Refused whatever the arguments.
const DENIED: &[(Call, &str)] = &[
    (call!(SYS_shmget), SYSTEM_V),
    (call!(SYS_shmat), SYSTEM_V),
    (call!(SYS_shmctl), SYSTEM_V),
    (call!(SYS_shmdt), SYSTEM_V),
    (call!(SYS_semget), SYSTEM_V),
    (call!(SYS_semop), SYSTEM_V),
    (call!(SYS_semtimedop), SYSTEM_V),
    (call!(SYS_semctl), SYSTEM_V),
    (call!(SYS_msgget), SYSTEM_V),
    (call!(SYS_msgsnd), SYSTEM_V),
    (call!(SYS_msgrcv), SYSTEM_V),
    (call!(SYS_msgctl), SYSTEM_V),
    (call!(SYS_mq_open), QUEUES),
    (call!(SYS_mq_unlink), QUEUES),
    (call!(SYS_mq_timedsend), QUEUES),
    (call!(SYS_mq_timedreceive), QUEUES),
    (call!(SYS_mq_notify), QUEUES),
    (call!(SYS_mq_getsetattr), QUEUES),
];

/// Calls that name a process, and the index of that argument.
const SCHEDULING: &[(Call, u8)] = &[
    (call!(SYS_sched_setaffinity), 0),
    (call!(SYS_sched_setscheduler), 0),
    (call!(SYS_sched_setparam), 0),
    (call!(SYS_sched_setattr), 0),
    (call!(SYS_setpriority), 1),
    (call!(SYS_ioprio_set), 1),
];

/// Options of a socket that steer nothing but its own data, by level (`IPPROTO_IP`, `IPPROTO_IPV6`).
const OPTIONS: &[(u32, &[i32])] = &[
    (
        libc::IPPROTO_IP as u32,
        &[
            libc::IP_TOS,
            libc::IP_TTL,
            libc::IP_RECVERR,
            libc::IP_RECVTOS,
            libc::IP_MTU_DISCOVER,
        ],
    ),
    (
        libc::IPPROTO_IPV6 as u32,
        &[
            libc::IPV6_V6ONLY,
            libc::IPV6_TCLASS,
            libc::IPV6_UNICAST_HOPS,
            libc::IPV6_RECVERR,
            libc::IPV6_MTU_DISCOVER,
        ],
    ),
];
const ROUTES: &str =
    "a source route, a device or another protocol on top sends a connection elsewhere than to its address";

/// Types of ioctl by which file systems change metadata through a descriptor for reading: beside the common ones (see `agent`), those
/// of F2FS, FAT, NILFS, OCFS2, CIFS and Ceph. A view's mounts are read-only and refuse them.
const FILE_SYSTEMS: [u32; 6] = [0xf500, 0x7200, 0x6e00, 0x6f00, 0xcf00, 0x9700];

/// Questions that a socket answers about itself (`include/uapi/asm-generic/sockios.h`): owner, group, mark, time.
const OF_THE_SOCKET: std::ops::RangeInclusive<u32> = 0x8903..=0x8907;

pub(super) fn agent() -> Filter {
    let mut rules: Vec<Rule> = DENIED
        .iter()
        .map(|&(call, reason)| rule(call, &[], EPERM, reason))
        .collect();
    for &(call, argument) in SCHEDULING {
        rules.push(rule(call, &[arg(argument, Test::IsNot(0))], EPERM, OTHERS));
    }
    for family in [INET, INET6] {
        let datagram = [
            arg(0, Test::Is(family)),
            arg(
                1,
                Test::Masked {
                    mask: TYPE_MASK,
                    value: DGRAM,
                },
            ),
        ];
        rules.push(rule(
            call!(SYS_socket),
            &datagram,
            EACCES,
            "every send of a datagram socket names its receiver, in the host's network",
        ));
    }
    options(&mut rules);
    let ioctl = call!(SYS_ioctl);
    for value in FILE_SYSTEMS {
        let group = [arg(1, Test::Masked { mask: 0xff00, value })];
        rules.push(rule(
            ioctl,
            &group,
            EPERM,
            "changes metadata, which Landlock does not see",
        ));
    }
    for number in OF_THE_SOCKET {
        rules.push(rule(
            ioctl,
            &[arg(1, Test::Is(number))],
            Action::Allow,
            "asks the socket",
        ));
    }
    for group in [0x8900, 0x8b00] {
        let interfaces = [arg(
            1,
            Test::Masked {
                mask: 0xffff_ff00,
                value: group,
            },
        )];
        rules.push(rule(ioctl, &interfaces, EPERM, "the host's network interfaces"));
    }
    let mut plain = agent::plain();
    plain
        .rules
        .retain(|rule| !rules.iter().any(|before| covers(before, rule)));
    rules.append(&mut plain.rules);
    Filter {
        name: "agent, container tier",
        rules,
        ..plain
    }
}

fn options(rules: &mut Vec<Rule>) {
    let call = call!(SYS_setsockopt);
    let level = |level| arg(1, Test::Is(level));
    let not = |option: i32| arg(2, Test::IsNot(option as u32));
    let own = [
        level(libc::SOL_SOCKET as u32),
        not(libc::SO_BINDTODEVICE),
        not(SO_BINDTOIFINDEX),
        not(libc::SO_MARK),
    ];
    rules.push(rule(call, &own, Action::Allow, "of the socket itself"));
    let tcp = [level(libc::IPPROTO_TCP as u32), not(libc::TCP_ULP)];
    rules.push(rule(call, &tcp, Action::Allow, "delays, keep-alive"));
    for &(number, options) in OPTIONS {
        for &option in options {
            let known = [level(number), arg(2, Test::Is(option as u32))];
            rules.push(rule(call, &known, Action::Allow, "of its own packets"));
        }
    }
    rules.push(rule(call, &[], Action::Errno(Errno::ENOPROTOOPT), ROUTES));
}

/// `SO_BINDTOIFINDEX`, which libc does not name here.
const SO_BINDTOIFINDEX: i32 = 62;

/// Whether whatever the second rule is about is decided by the first.
fn covers(before: &Rule, rule: &Rule) -> bool {
    let implied = |wanted: &Cond| {
        rule.when.iter().any(|cond| {
            cond.argument == wanted.argument
                && (cond.test == wanted.test
                    || matches!(cond.test, Test::Is(value) if wanted.test.passes(u64::from(value))))
        })
    };
    before.nr == rule.nr && before.when.iter().all(implied)
}
