//! The process: start, lock, self-check, then the server.

use super::server::serve;
use super::{Error, Limits, probes};
use nix::errno::Errno;
use picktwo_confine::channel::Channel;
use picktwo_confine::landlock::{self, Access};
use picktwo_confine::role::Role;
use picktwo_confine::selfcheck::{Denied, SelfCheck};
use picktwo_confine::{filters, limits, process, seccomp};
use picktwo_wire::gateway::{FromGateway, GatewayStart};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

/// Descriptors for at most 64 connections of agents, as many to upstreams, and the process's own, unless less is allowed.
const DESCRIPTORS: u64 = 512;
/// Exit code of a gateway that failed.
const FAILED: u8 = 125;

/// Runs the gateway's process: fd 3 is the channel to `outside`, whose first message, `{}`, brings the channel to the launcher.
/// Returns when the launcher has closed that channel.
pub fn main_role() -> ExitCode {
    let run = || {
        let outside = Channel::from_parent()?;
        let launcher = launcher(&outside)?;
        run(launcher, outside)
    };
    // There is no one left to tell the error to: the launcher was told what concerns it.
    if run().is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    }
}

/// The launcher's channel, from the first message of `outside`.
pub(crate) fn launcher(outside: &Channel) -> Result<Channel, Error> {
    let mut message = Vec::new();
    let mut fds = outside
        .recv(&mut message)?
        .ok_or(Error::Unexpected("no first message of outside"))?;
    if message != b"{}" || fds.len() != 1 {
        return Err(Error::Unexpected(
            "the first message of outside is not {} with one descriptor",
        ));
    }
    fds.pop().map(Channel::from).ok_or(Error::Unexpected("no descriptor"))
}

fn run(launcher: Channel, outside: Channel) -> Result<(), Error> {
    let started = lock(Role::Gateway, &launcher, &outside).and_then(|runtime| Ok((runtime, start(&launcher)?)));
    let (runtime, (start, listener)) = started.inspect_err(|error| tell_failure(&launcher, error))?;
    if !start.probes.is_empty() {
        return probes::run(&start.probes, |report| {
            let message = picktwo_wire::encode(&report).map_err(Error::Message)?;
            Ok(launcher.send(&message, &[])?)
        });
    }
    let listener = listener.ok_or(Error::Unexpected("a start message without a listening socket"));
    let listener = listener.inspect_err(|error| tell_failure(&launcher, error))?;
    runtime.block_on(serve(
        launcher,
        outside,
        start,
        TcpListener::from(listener),
        Limits::default(),
    ))
}

/// Tells the launcher why nothing is served.
pub(super) fn tell_failure(launcher: &Channel, error: &Error) {
    if let Ok(message) = picktwo_wire::encode(&FromGateway::Failed {
        reason: format!("gateway: {error}"),
    }) {
        let _ = launcher.try_send(&message, &[]);
    }
}

/// Locks the process of a gateway and checks it from inside. The event loop is made first: it needs descriptors of its own.
pub(crate) fn lock(role: Role, launcher: &Channel, outside: &Channel) -> Result<Runtime, Error> {
    limits::core_limit()?;
    let (_, most) = limits::nofile_limits()?;
    limits::nofile(DESCRIPTORS.min(most), DESCRIPTORS.min(most))?;
    process::set_dumpable(false)?;
    limits::sweep(&[0, 1, 2, outside.as_raw_fd(), launcher.as_raw_fd()])?;
    limits::new_session_keyring()?;
    let check = SelfCheck::prepare()?;
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|e| Error::Socket("event loop", e))?;
    process::single_threaded()?;
    limits::no_new_privs()?;
    let bounding_empty = limits::drop_all_capabilities()?;
    landlock::restrict(Access::none())?;
    seccomp::install(&filters::for_role(role))?;
    check.locked(bounding_empty, DENIED)?;
    Ok(runtime)
}

/// What must fail after the lock, each for one thing that this process must not have.
const DENIED: &[Denied] = &[
    Denied {
        name: "socket",
        nr: nix::libc::SYS_socket,
        args: [2, 1, 0, 0, 0, 0],
        errno: Errno::EACCES,
    },
    Denied {
        name: "connect",
        nr: nix::libc::SYS_connect,
        args: [-1, 0, 0, 0, 0, 0],
        errno: Errno::EACCES,
    },
    Denied {
        name: "openat",
        nr: nix::libc::SYS_openat,
        args: [-1, 0, 0, 0, 0, 0],
        errno: Errno::EACCES,
    },
    Denied {
        name: "execve",
        nr: nix::libc::SYS_execve,
        args: [0, 0, 0, 0, 0, 0],
        errno: Errno::EACCES,
    },
];

/// Says that the process is locked and takes the start message.
fn start(launcher: &Channel) -> Result<(GatewayStart, Option<OwnedFd>), Error> {
    let ready = picktwo_wire::encode(&FromGateway::Ready).map_err(Error::Message)?;
    launcher.send(&ready, &[])?;
    let mut message = Vec::new();
    let mut fds = launcher
        .recv(&mut message)?
        .ok_or(Error::Unexpected("no start message"))?;
    let start: GatewayStart = picktwo_wire::decode(&message).map_err(Error::Message)?;
    message.fill(0);
    Ok((start, fds.pop()))
}

/// Runs the same server in a thread of a process that is not locked: for tests and measurements.
///
/// # Errors
/// What makes serving impossible.
pub fn serve_unconfined(
    launcher: Channel,
    outside: Channel,
    start: GatewayStart,
    listener: TcpListener,
    limits: Limits,
) -> Result<(), Error> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|e| Error::Socket("event loop", e))?;
    runtime.block_on(serve(launcher, outside, start, listener, limits))
}
