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
    let ioctl = call!(SYS_ioctl);
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
