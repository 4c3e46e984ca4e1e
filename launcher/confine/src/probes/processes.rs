//! Reaching into, signalling or slowing down other processes: of the host, of picktwo, of the person's terminal.

use super::calls::{Called, attack, c, num, on, prepared, reach, sys, vector};
use super::{Expected, Place, Probe, Setting, Stop, Tried, probe};
use crate::attempt::Arg;
use nix::errno::Errno;
use nix::errno::Errno::{EACCES, EBADF, EINVAL, EPERM, ESRCH};

fn victim(s: &Setting) -> Result<i64, Stop> {
    s.number("victim")
}

fn init(s: &Setting) -> Result<i64, Stop> {
    s.number("init")
}

fn pidfd(pid: i64) -> Called {
    num(libc::SYS_pidfd_open, &[pid, 0])
}

/// Reads or writes memory of a process at the address of our own `MARK`: the same program lies elsewhere there, so what is read
/// is nothing, and `EFAULT` says that only the address was wrong.
fn memory(nr: i64, pid: i64) -> Tried {
    let buffer = vec![0u8; 8];
    let (local, mut remote) = (vector(&buffer), [0u8; 16]);
    remote[..8].copy_from_slice(&8u64.to_ne_bytes());
    remote[8..].copy_from_slice(&8u64.to_ne_bytes());
    reach(
        sys(
            nr,
            [
                Arg::Int(pid),
                Arg::In(&local),
                Arg::Int(1),
                Arg::In(&remote),
                Arg::Int(1),
                Arg::Int(0),
            ],
        ),
        &[Errno::EFAULT],
    )
}

fn affinity(pid: i64) -> Tried {
    let mut mask = [0u8; 128];
    let length = prepared(
        "its own processors",
        sys(
            libc::SYS_sched_getaffinity,
            [Arg::Int(0), Arg::Int(128), Arg::Out(&mut mask)],
        ),
    )?;
    attack(sys(
        libc::SYS_sched_setaffinity,
        [Arg::Int(pid), Arg::Int(length), Arg::In(&mask)],
    ))
}

/// SCHED_OTHER, priority 0: what everybody has.
fn scheduler(pid: i64) -> Tried {
    attack(sys(
        libc::SYS_sched_setscheduler,
        [Arg::Int(pid), Arg::Int(0), Arg::In(&[0u8; 4])],
    ))
}

fn scheduler_attributes(pid: i64) -> Tried {
    let mut attributes = [0u8; 48];
    attributes[0] = 48;
    attack(sys(
        libc::SYS_sched_setattr,
        [Arg::Int(pid), Arg::In(&attributes), Arg::Int(0)],
    ))
}

fn own_group() -> i64 {
    nix::unistd::getpgrp().as_raw().into()
}

fn pipe() -> Result<i64, Stop> {
    let mut fds = [0u8; 8];
    prepared("a pipe", sys(libc::SYS_pipe2, [Arg::Out(&mut fds), Arg::Int(0)]))?;
    Ok(i32::from_ne_bytes([fds[0], fds[1], fds[2], fds[3]]).into())
}

fn queue(nr: i64, first: &[i64]) -> Called {
    // A siginfo with SI_QUEUE and signal 0.
    let mut info = [0u8; 128];
    info[8..12].copy_from_slice(&(-1i32).to_ne_bytes());
    let mut args: Vec<Arg<'_>> = first.iter().map(|&n| Arg::Int(n)).collect();
    args.push(Arg::In(&info));
    let mut given = args.into_iter();
    sys::<6>(nr, std::array::from_fn(|_| given.next().unwrap_or(Arg::Null)))
}

fn core_limit() -> Tried {
    let mut before = [0u8; 16];
    prepared(
        "the limit",
        sys(
            libc::SYS_prlimit64,
            [Arg::Int(0), Arg::Int(4), Arg::Null, Arg::Out(&mut before)],
        ),
    )?;
    // One less than now, which anybody may set; a limit of 0 would call piped handlers.
    let now = u64::from_ne_bytes(before[8..].try_into().unwrap_or_default());
    let less = now.saturating_sub(1).to_ne_bytes();
    sys(
        libc::SYS_prlimit64,
        [Arg::Int(0), Arg::Int(4), Arg::In(&[less, less].concat()), Arg::Null],
    )?;
    let mut after = [0u8; 16];
    prepared(
        "the limit",
        sys(
            libc::SYS_prlimit64,
            [Arg::Int(0), Arg::Int(4), Arg::Null, Arg::Out(&mut after)],
        ),
    )?;
    if after == before { Err(EPERM.into()) } else { Ok(()) }
}

pub(super) static PROBES: &[Probe] = &[
    probe("process.signal-host", "F02 F07", "signals a process of the host", |s| {
        attack(num(libc::SYS_kill, &[victim(s)?, 0]))
    })
    .agent(&[ESRCH])
    .network(&[EACCES])
    .outside(&[EPERM])
    .at(Place::Resolver, Expected::Errno(&[EACCES])),
    probe(
        "process.signal-init",
        "F02",
        "signals the sandbox's first process",
        |s| attack(num(libc::SYS_kill, &[init(s)?, 0])),
    )
    .agent(&[EPERM]),
    probe(
        "process.signal-thread-host",
        "F02",
        "signals a thread of the host",
        |s| attack(num(libc::SYS_tgkill, &[victim(s)?, victim(s)?, 0])),
    )
    .agent(&[ESRCH])
    .network(&[EPERM]),
    probe(
        "process.signal-thread-init",
        "F02",
        "signals a thread of the sandbox's first process",
        |s| attack(num(libc::SYS_tgkill, &[init(s)?, init(s)?, 0])),
    )
    .agent(&[EPERM]),
    probe("process.signal-any-thread", "F02", "signals a thread by tkill", |s| {
        attack(num(libc::SYS_tkill, &[init(s)?, 0]))
    })
    .agent(&[EPERM])
    .network(&[EPERM]),
    probe(
        "process.signal-queue",
        "F02",
        "queues a signal for the sandbox's first process",
        |s| attack(queue(libc::SYS_rt_sigqueueinfo, &[init(s)?, 0])),
    )
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "process.signal-descriptor",
        "F02",
        "signals the sandbox's first process by a descriptor",
        |s| {
            let fd = prepared("a descriptor", pidfd(init(s)?))?;
            attack(num(libc::SYS_pidfd_send_signal, &[fd, 0, 0, 0]))
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.signal-group",
        "F02 F03",
        "signals its process group, which the launcher is in, too",
        |_| attack(num(libc::SYS_kill, &[0, libc::SIGWINCH.into()])),
    )
    .unseen(),
    probe(
        "process.owner-group",
        "F03",
        "has the kernel signal its process group",
        |_| {
            attack(num(
                libc::SYS_fcntl,
                &[pipe()?, libc::F_SETOWN.into(), -own_group().max(1)],
            ))
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.owner-pointer",
        "F03",
        "has the kernel signal what lies behind a pointer",
        |_| {
            let owner = [1i32.to_ne_bytes(), (std::process::id() as i32).to_ne_bytes()].concat();
            attack(sys(libc::SYS_fcntl, [Arg::Int(pipe()?), Arg::Int(15), Arg::In(&owner)]))
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.owner-ioctl",
        "F03",
        "has the kernel signal by an ioctl",
        |_| {
            let owner = (std::process::id() as i32).to_ne_bytes();
            reach(
                sys(libc::SYS_ioctl, [Arg::Int(pipe()?), Arg::Int(0x8901), Arg::In(&owner)]),
                &[Errno::ENOTTY],
            )
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.descriptor-host",
        "F02 E15",
        "opens a process of the host",
        |s| attack(pidfd(victim(s)?)),
    )
    .agent(&[ESRCH])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb)
    .but_for(Place::OutsideModel),
    probe(
        "process.steal-descriptor",
        "E15",
        "takes a descriptor of the sandbox's first process",
        |s| {
            let fd = prepared("a descriptor", pidfd(init(s)?))?;
            attack(num(libc::SYS_pidfd_getfd, &[fd, 0, 0]))
        },
    )
    .agent(&[EPERM]),
    probe("process.trace-host", "F01 F07", "traces a process of the host", |s| {
        // PTRACE_SEIZE stops nothing and ends with the tracer.
        attack(num(libc::SYS_ptrace, &[0x4206, victim(s)?, 0, 0]))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("process.trace-init", "F01", "traces the sandbox's first process", |s| {
        attack(num(libc::SYS_ptrace, &[0x4206, init(s)?, 0, 0]))
    })
    .agent(&[EPERM]),
    probe("process.trace-me", "F01", "asks to be traced", |_| {
        attack(num(libc::SYS_ptrace, &[0, 0, 0, 0]))
    })
    .agent(&[EPERM]),
    probe(
        "process.memory-read",
        "F01",
        "reads the memory of the sandbox's first process",
        |s| memory(libc::SYS_process_vm_readv, init(s)?),
    )
    .agent(&[EPERM]),
    probe(
        "process.memory-read-host",
        "F01",
        "reads the memory of a process of the host",
        |s| memory(libc::SYS_process_vm_readv, victim(s)?),
    )
    .agent(&[EPERM])
    .network(&[EACCES])
    .at(Place::OutsideWeb, Expected::Errno(&[EPERM])),
    probe(
        "process.memory-write",
        "F01",
        "writes the memory of the sandbox's first process",
        |s| memory(libc::SYS_process_vm_writev, init(s)?),
    )
    .agent(&[EPERM]),
    probe(
        "process.memory-write-host",
        "F01",
        "writes the memory of a process of the host",
        |s| memory(libc::SYS_process_vm_writev, victim(s)?),
    )
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "process.advise",
        "F01",
        "gives advice on its own memory by a process descriptor",
        |_| {
            let buffer = vec![0u8; 8];
            let fd = prepared("a descriptor", pidfd(std::process::id().into()))?;
            reach(
                sys(
                    libc::SYS_process_madvise,
                    [
                        Arg::Int(fd),
                        Arg::In(&vector(&buffer)),
                        Arg::Int(0),
                        Arg::Int(20),
                        Arg::Int(0),
                    ],
                ),
                &[EINVAL],
            )
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.release",
        "F01",
        "frees the memory of a process that is ending",
        |_| reach(num(libc::SYS_process_mrelease, &[-1, 0]), &[EBADF]),
    )
    .agent(&[EPERM]),
    probe(
        "process.compare",
        "F06",
        "compares descriptors of two processes",
        |_| {
            let me = i64::from(std::process::id());
            attack(num(libc::SYS_kcmp, &[me, me, 0, 0, 0]))
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.move-pages",
        "F06",
        "asks where memory of the sandbox's first process lies",
        |s| attack(num(libc::SYS_move_pages, &[init(s)?, 0, 0, 0, 0, 0])),
    )
    .agent(&[EPERM]),
    probe(
        "process.migrate-pages",
        "F06",
        "moves memory of the sandbox's first process",
        |s| {
            let node = [1u8, 0, 0, 0, 0, 0, 0, 0];
            attack(sys(
                libc::SYS_migrate_pages,
                [Arg::Int(init(s)?), Arg::Int(2), Arg::In(&node), Arg::In(&node)],
            ))
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.robust-list",
        "F06",
        "asks for a list in the memory of the sandbox's first process",
        |s| {
            let (mut head, mut length) = ([0u8; 8], [0u8; 8]);
            attack(sys(
                libc::SYS_get_robust_list,
                [Arg::Int(init(s)?), Arg::Out(&mut head), Arg::Out(&mut length)],
            ))
        },
    )
    .agent(&[EPERM]),
    probe("process.performance", "F06 G07", "counts events of its own", |_| {
        let mut attributes = [0u8; 128];
        // A software clock of this thread, user mode only.
        attributes[..4].copy_from_slice(&1u32.to_ne_bytes());
        attributes[4..8].copy_from_slice(&128u32.to_ne_bytes());
        attributes[8] = 1;
        attributes[40] = 0x61;
        attack(sys(
            libc::SYS_perf_event_open,
            [
                Arg::In(&attributes),
                Arg::Int(0),
                Arg::Int(-1),
                Arg::Int(-1),
                Arg::Int(0),
            ],
        ))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "process.limits-host",
        "F02",
        "asks for the limits of a process of the host",
        |s| {
            let mut old = [0u8; 16];
            attack(sys(
                libc::SYS_prlimit64,
                [Arg::Int(victim(s)?), Arg::Int(7), Arg::Null, Arg::Out(&mut old)],
            ))
        },
    )
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "process.limits-init",
        "F02",
        "sets a limit of the sandbox's first process to what it is",
        |s| {
            let mut old = [0u8; 16];
            sys(
                libc::SYS_prlimit64,
                [Arg::Int(init(s)?), Arg::Int(7), Arg::Null, Arg::Out(&mut old)],
            )?;
            attack(sys(
                libc::SYS_prlimit64,
                [Arg::Int(init(s)?), Arg::Int(7), Arg::In(&old), Arg::Null],
            ))
        },
    )
    .agent(&[EPERM]),
    probe(
        "process.core-limit",
        "C27",
        "changes its core limit, which keeps piped handlers away",
        |_| core_limit(),
    )
    .agent(&[EPERM]),
    probe("process.priority-group", "F02", "slows its process group down", |_| {
        attack(num(libc::SYS_setpriority, &[1, 0, 0]))
    })
    .agent(&[EPERM]),
    probe(
        "process.priority-user",
        "F02",
        "slows all of the person's processes down",
        |_| attack(num(libc::SYS_setpriority, &[2, 0, 0])),
    )
    .agent(&[EPERM]),
    probe(
        "process.priority-host",
        "F02",
        "slows a process of the host down",
        |s| attack(num(libc::SYS_setpriority, &[0, victim(s)?, 0])),
    )
    .agent(&[ESRCH])
    .network(&[EACCES]),
    probe(
        "process.input-priority-group",
        "F02",
        "slows its group's disk access down",
        |_| attack(num(libc::SYS_ioprio_set, &[2, 0, 2 << 13 | 4])),
    )
    .agent(&[EPERM]),
    probe(
        "process.affinity-host",
        "F02",
        "sets which processors a process of the host may use",
        |s| affinity(victim(s)?),
    )
    .agent(&[ESRCH]),
    probe(
        "process.scheduler-host",
        "F02",
        "sets how a process of the host is scheduled",
        |s| scheduler(victim(s)?),
    )
    .agent(&[ESRCH])
    .network(&[EACCES]),
    probe(
        "process.priority-init",
        "F02",
        "slows the sandbox's first process down",
        |s| attack(num(libc::SYS_setpriority, &[0, init(s)?, 0])),
    )
    .agent(&[EPERM]),
    probe(
        "process.affinity-init",
        "F02",
        "sets which processors the sandbox's first process may use",
        |s| affinity(init(s)?),
    )
    .agent(&[EPERM]),
    probe(
        "process.scheduler-init",
        "F02",
        "sets how the sandbox's first process is scheduled",
        |s| scheduler(init(s)?),
    )
    .agent(&[EPERM]),
    probe(
        "process.attributes-init",
        "F02",
        "sets how the sandbox's first process is scheduled by the newer call",
        |s| scheduler_attributes(init(s)?),
    )
    .agent(&[EPERM]),
    probe(
        "process.parameters-init",
        "F02",
        "sets the parameters of the sandbox's first process",
        |s| attack(sys(libc::SYS_sched_setparam, [Arg::Int(init(s)?), Arg::In(&[0u8; 4])])),
    )
    .agent(&[EPERM]),
    probe(
        "process.input-priority-init",
        "F02",
        "slows the disk access of the sandbox's first process down",
        |s| attack(num(libc::SYS_ioprio_set, &[1, init(s)?, 2 << 13 | 4])),
    )
    .agent(&[EPERM]),
    probe(
        "process.group-init",
        "F02",
        "moves the sandbox's first process to its own group",
        |s| reach(num(libc::SYS_setpgid, &[init(s)?, 0]), &[]),
    )
    .agent(&[ESRCH, EPERM]),
    probe("process.fork", "F10", "forks", |_| {
        match num(libc::SYS_clone, &[libc::SIGCHLD.into()]) {
            Ok(0) => crate::process::exit_now(0),
            other => attack(other),
        }
    })
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe(
        "process.execute",
        "F13",
        "executes a program, with arguments that cannot be read",
        |_| {
            let path = c("/bin/true");
            reach(
                sys(libc::SYS_execve, [Arg::In(&path), Arg::Bad, Arg::Null]),
                &[Errno::EFAULT],
            )
        },
    )
    .network(&[EACCES]),
    probe("process.execute-absent", "F13", "executes what is not there", |s| {
        reach(
            on(libc::SYS_execve, &s.hidden("none")?, &[0, 0]),
            &[Errno::ENOENT, Errno::EFAULT],
        )
    })
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
];
