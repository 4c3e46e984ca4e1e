//! Whom an agent could ask outside: daemons at the places where a desktop, a server and a terminal have them, and a partner
//! outside of the sandbox who helps.

use super::calls::{attack, num, open, prepared, sys};
use super::sockets::{abstract_named, connect, connect_to};
use super::{Probe, Setting, Stop, Tried, probe};
use crate::attempt::Arg;
use libc::{AF_UNIX, O_RDONLY, SOCK_STREAM};
use nix::errno::Errno::{self, EACCES, EAGAIN, ECONNREFUSED, ENOENT, ETIMEDOUT};

fn runtime(s: &Setting, name: &str) -> Result<String, Stop> {
    Ok(format!("{}/{name}", s.get("runtime")?))
}

/// Takes a descriptor from whoever sent one, and reads what it is open on.
fn receive(fd: i64) -> Tried {
    let mut control = [0u8; 24];
    let mut byte = [0u8; 1];
    let mut vector = [0u8; 16];
    vector[..8].copy_from_slice(&(byte.as_mut_ptr() as u64).to_ne_bytes());
    vector[8] = 1;
    let mut header = [0u8; 56];
    header[16..24].copy_from_slice(&(vector.as_ptr() as u64).to_ne_bytes());
    header[24] = 1;
    header[32..40].copy_from_slice(&(control.as_mut_ptr() as u64).to_ne_bytes());
    header[40] = 24;
    sys(libc::SYS_recvmsg, [Arg::Int(fd), Arg::Out(&mut header), Arg::Int(0)])?;
    // SCM_RIGHTS: a length, level and kind, and the descriptor.
    let taken = i32::from_ne_bytes([control[16], control[17], control[18], control[19]]);
    if control[0] < 20 {
        return Err(ENOENT.into());
    }
    let mut read = [0u8; 1];
    attack(sys(
        libc::SYS_pread64,
        [Arg::Int(taken.into()), Arg::Out(&mut read), Arg::Int(1), Arg::Int(0)],
    ))
}

/// Makes an abstract socket and waits for the partner to connect to it.
fn be_found(s: &Setting) -> Tried {
    let fd = prepared(
        "a socket",
        num(libc::SYS_socket, &[AF_UNIX.into(), SOCK_STREAM.into(), 0]),
    )?;
    let address = abstract_named(s.get("abstract-inside")?);
    sys(
        libc::SYS_bind,
        [Arg::Int(fd), Arg::In(&address), Arg::Int(address.len() as i64)],
    )?;
    num(libc::SYS_listen, &[fd, 1])?;
    // SO_RCVTIMEO bounds accept.
    let mut timeout = [0u8; 16];
    timeout[8..].copy_from_slice(&700_000u64.to_ne_bytes());
    prepared(
        "a time limit",
        sys(
            libc::SYS_setsockopt,
            [
                Arg::Int(fd),
                Arg::Int(libc::SOL_SOCKET.into()),
                Arg::Int(libc::SO_RCVTIMEO.into()),
                Arg::In(&timeout),
                Arg::Int(16),
            ],
        ),
    )?;
    match num(libc::SYS_accept4, &[fd, 0, 0, 0]) {
        Err(EAGAIN) => Err(ETIMEDOUT.into()),
        other => attack(other),
    }
}

/// Looks for the person's secret in the environment of every process that it sees but itself.
fn any_environment(s: &Setting) -> Tried {
    let wanted = s.get("secret-value")?;
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").map_err(|e| errno(&e))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == own || !name.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        // What cannot be read is refused, as it should be.
        let found = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if found.windows(wanted.len()).any(|part| part == wanted.as_bytes()) {
            return Ok(());
        }
    }
    Err(EACCES.into())
}

fn errno(e: &std::io::Error) -> Errno {
    Errno::from_raw(e.raw_os_error().unwrap_or(0))
}

pub(super) static PROBES: &[Probe] = &[
    probe("daemon.docker", "A01", "connects to a Docker daemon", |s| {
        connect(&runtime(s, "docker.sock")?)
    })
    .agent(&[ENOENT]),
    probe("daemon.podman", "A02", "connects to a Podman service", |s| {
        connect(&runtime(s, "podman/podman.sock")?)
    })
    .agent(&[ENOENT]),
    probe("daemon.session-bus", "A03 A05", "connects to a session bus", |s| {
        connect(&runtime(s, "bus")?)
    })
    .agent(&[ENOENT]),
    probe(
        "daemon.service-manager",
        "A04",
        "connects to a service manager without the bus",
        |s| connect(&runtime(s, "systemd/private")?),
    )
    .agent(&[ENOENT]),
    probe("daemon.system-bus", "A06", "connects to a system bus", |s| {
        connect(&runtime(s, "dbus/system_bus_socket")?)
    })
    .agent(&[ENOENT]),
    probe("daemon.ssh-agent", "A07", "connects to an ssh-agent", |s| {
        connect(&runtime(s, "agent.sock")?)
    })
    .agent(&[ENOENT]),
    probe("daemon.gpg-agent", "A08", "connects to a gpg-agent", |s| {
        connect(&runtime(s, "gnupg/S.gpg-agent")?)
    })
    .agent(&[ENOENT]),
    probe(
        "daemon.terminal-server",
        "A09 B17",
        "connects to a terminal multiplexer in /tmp",
        |s| connect(s.get("tmp-socket")?),
    )
    .agent(&[ENOENT]),
    probe("daemon.display", "A11", "connects to a display server", |s| {
        connect(&runtime(s, "wayland-0")?)
    })
    .agent(&[ENOENT]),
    probe("daemon.editor", "A12", "connects to an editor", |s| {
        connect(&runtime(s, "vscode-ipc.sock")?)
    })
    .agent(&[ENOENT]),
    probe("daemon.resolver", "A13 E07", "connects to a resolver daemon", |s| {
        connect(&runtime(s, "resolve/io.systemd.Resolve")?)
    })
    .agent(&[ENOENT]),
    probe(
        "daemon.file-system",
        "C25",
        "reads a file that a daemon shows at a mount",
        |s| attack(open(&runtime(s, "gvfs/remote/file")?, O_RDONLY)),
    )
    .agent(&[ENOENT]),
    probe(
        "partner.descriptor",
        "A17",
        "takes an open file from a partner outside, by a socket of the workspace",
        |s| {
            let fd = prepared(
                "a socket",
                num(libc::SYS_socket, &[AF_UNIX.into(), SOCK_STREAM.into(), 0]),
            )?;
            connect_to(fd, &super::sockets::near_address(&s.work("partner.sock")?)?)?;
            receive(fd)
        },
    )
    .agent(&[EACCES]),
    probe(
        "partner.abstract",
        "A17",
        "takes an open file from a partner outside, by an abstract socket",
        |s| {
            let fd = prepared(
                "a socket",
                num(libc::SYS_socket, &[AF_UNIX.into(), SOCK_STREAM.into(), 0]),
            )?;
            connect_to(fd, &abstract_named(s.get("abstract-partner")?))?;
            receive(fd)
        },
    )
    .agent(&[EACCES, ECONNREFUSED]),
    probe(
        "partner.connects",
        "A18",
        "lets a partner outside connect to an abstract socket of its own",
        be_found,
    )
    .agent(&[EACCES, ETIMEDOUT]),
    probe(
        "read.any-environment",
        "C23 C24",
        "looks for a key in the environment of every process that it sees",
        any_environment,
    )
    .agent(&[EACCES]),
];
