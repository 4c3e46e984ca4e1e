//! Kernel objects that are shared without files: keys, queues, shared memory.

use super::calls::{attack, c, num, on, reach, sys};
use super::{Place, Probe, probe};
use crate::attempt::Arg;
use nix::errno::Errno;
use nix::errno::Errno::{EACCES, ENOENT, EPERM};

pub(super) static PROBES: &[Probe] = &[
    probe("ipc.shared-memory", "C19", "finds shared memory of the host", |s| {
        attack(num(libc::SYS_shmget, &[s.number("ipc-key")?, 0, 0]))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("ipc.messages", "C19", "finds a message queue of the host", |s| {
        attack(num(libc::SYS_msgget, &[s.number("ipc-key")?, 0]))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("ipc.semaphores", "C19", "finds semaphores of the host", |s| {
        attack(num(libc::SYS_semget, &[s.number("ipc-key")?, 0, 0]))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("ipc.posix-queue", "C19", "opens a named queue of the host", |s| {
        attack(on(libc::SYS_mq_open, s.get("queue")?, &[0, 0, 0]))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("ipc.key-read", "C20", "reads a key of the person's session", |s| {
        let mut buffer = [0u8; 32];
        attack(sys(
            libc::SYS_keyctl,
            [
                Arg::Int(11),
                Arg::Int(s.number("key")?),
                Arg::Out(&mut buffer),
                Arg::Int(32),
            ],
        ))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("ipc.key-session", "C20", "asks which session keyring it has", |_| {
        attack(num(libc::SYS_keyctl, &[0, -3, 0]))
    })
    .agent(&[EPERM])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe("ipc.key-request", "C20", "searches for a key by its name", |_| {
        let (kind, name) = (c("user"), c("picktwo-verify"));
        attack(sys(
            libc::SYS_request_key,
            [Arg::In(&kind), Arg::In(&name), Arg::Null, Arg::Int(0)],
        ))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("ipc.key-add", "C20", "adds a key", |_| {
        let (kind, name) = (c("user"), c("picktwo-probe"));
        // In the thread's own keyring: gone with the attempt.
        attack(sys(
            libc::SYS_add_key,
            [Arg::In(&kind), Arg::In(&name), Arg::In(b"x"), Arg::Int(1), Arg::Int(-1)],
        ))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("ipc.pipe-outside", "F08", "opens a FIFO outside the view", |s| {
        reach(
            super::calls::open(&s.hidden("fifo")?, libc::O_RDONLY | libc::O_NONBLOCK),
            &[Errno::ENXIO],
        )
    })
    .agent(&[ENOENT]),
];
