//! What a gateway tries from inside when it is judged (`picktwo verify`): each for something that it must not have.

use nix::errno::Errno;
use nix::libc;
use picktwo_confine::attempt::{self, Arg};
use picktwo_wire::gateway::FromGateway;

/// A call that must be refused.
struct Probe {
    id: &'static str,
    call: fn() -> Result<i64, Errno>,
}

const fn probe(id: &'static str, call: fn() -> Result<i64, Errno>) -> Probe {
    Probe { id, call }
}

fn socket(domain: i32, kind: i32, protocol: i32) -> Result<i64, Errno> {
    attempt::numbers(libc::SYS_socket, &[domain.into(), kind.into(), protocol.into()])
}

fn open(path: &[u8], flags: i32) -> Result<i64, Errno> {
    let at = Arg::Int(libc::AT_FDCWD.into());
    attempt::syscall(
        libc::SYS_openat,
        [
            at,
            Arg::In(path),
            Arg::Int(flags.into()),
            Arg::Int(0o600),
            Arg::Null,
            Arg::Null,
        ],
    )
}

fn signal_parent() -> Result<i64, Errno> {
    attempt::numbers(libc::SYS_kill, &[nix::unistd::getppid().as_raw().into(), 0])
}

fn execute() -> Result<i64, Errno> {
    let path = b"/bin/true\0";
    attempt::syscall(
        libc::SYS_execve,
        [Arg::In(path), Arg::Null, Arg::Null, Arg::Null, Arg::Null, Arg::Null],
    )
}

fn connect(call: i64) -> Result<i64, Errno> {
    // 127.0.0.1:9 on the process's own event loop descriptor or whatever else has that number: refused before it is looked at.
    let address = [2, 0, 0, 9, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    attempt::syscall(
        call,
        [
            Arg::Int(3),
            Arg::In(&address),
            Arg::Int(16),
            Arg::Null,
            Arg::Null,
            Arg::Null,
        ],
    )
}

static PROBES: &[Probe] = &[
    probe("socket-inet", || socket(libc::AF_INET, libc::SOCK_STREAM, 0)),
    probe("socket-inet6", || socket(libc::AF_INET6, libc::SOCK_STREAM, 0)),
    probe("socket-udp", || socket(libc::AF_INET, libc::SOCK_DGRAM, 0)),
    probe("socket-unix", || socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)),
    probe("socket-netlink", || socket(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
    probe("socket-vsock", || socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    probe("socket-alg", || socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    probe("connect", || connect(libc::SYS_connect)),
    probe("bind", || connect(libc::SYS_bind)),
    probe("open-read", || open(b"/etc/passwd\0", libc::O_RDONLY)),
    probe("open-directory", || open(b"/\0", libc::O_DIRECTORY)),
    probe("open-path", || open(b"/etc\0", libc::O_PATH)),
    probe("open-memory", || open(b"/proc/self/mem\0", libc::O_RDWR)),
    probe("open-create", || {
        open(b"/tmp/picktwo-probe\0", libc::O_CREAT | libc::O_WRONLY)
    }),
    probe("stat", || {
        attempt::syscall(
            libc::SYS_stat,
            [
                Arg::In(b"/etc/passwd\0"),
                Arg::Bad,
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        )
    }),
    probe("unlink", || {
        attempt::syscall(
            libc::SYS_unlink,
            [
                Arg::In(b"/tmp/picktwo-probe\0"),
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        )
    }),
    probe("execve", execute),
    probe("fork", || attempt::numbers(libc::SYS_clone, &[libc::SIGCHLD.into()])),
    probe("kill-parent", signal_parent),
    probe("ptrace", || {
        attempt::numbers(
            libc::SYS_ptrace,
            &[libc::PTRACE_ATTACH.into(), nix::unistd::getppid().as_raw().into()],
        )
    }),
    probe("process-memory", || {
        attempt::numbers(libc::SYS_process_vm_readv, &[nix::unistd::getppid().as_raw().into()])
    }),
    probe("pidfd-open", || {
        attempt::numbers(libc::SYS_pidfd_open, &[nix::unistd::getppid().as_raw().into()])
    }),
    probe("io-uring", || attempt::numbers(libc::SYS_io_uring_setup, &[1])),
    probe("unshare-user", || {
        attempt::numbers(libc::SYS_unshare, &[libc::CLONE_NEWUSER.into()])
    }),
    probe("mount", || attempt::numbers(libc::SYS_mount, &[])),
    probe("bpf", || attempt::numbers(libc::SYS_bpf, &[])),
    probe("keyring", || attempt::numbers(libc::SYS_keyctl, &[0, -3])),
    probe("userfaultfd", || attempt::numbers(libc::SYS_userfaultfd, &[])),
    probe("perf-event", || attempt::numbers(libc::SYS_perf_event_open, &[])),
    probe("seccomp", || attempt::numbers(libc::SYS_seccomp, &[2])),
];

/// The probes that a start message may name.
pub fn ids() -> impl Iterator<Item = &'static str> {
    PROBES.iter().map(|probe| probe.id)
}

/// Tries one escape.
pub(crate) fn run(id: &str) -> FromGateway {
    let result = PROBES.iter().find(|probe| probe.id == id).map(|probe| (probe.call)());
    let (outcome, errno) = match result {
        None => ("unavailable", 0),
        Some(Ok(0)) if id == "fork" => {
            // The child of a fork that should not have been possible: only the parent reports.
            picktwo_confine::process::exit_now(0)
        }
        Some(Ok(_)) => ("escaped", 0),
        Some(Err(errno)) => ("denied", errno as i32),
    };
    FromGateway::Probe {
        id: id.to_owned(),
        outcome: outcome.to_owned(),
        errno,
    }
}
