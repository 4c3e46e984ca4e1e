//! One thread for the two sockets at which a session can be asked something.

use super::steer::Steering;
use super::tools::Tools;
use super::{control, tools};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// Serves both until the process ends: `control` for the person, the other for the agent's side.
///
/// # Errors
/// A socket cannot be made non-blocking.
pub(super) fn serve<T: Tools>(
    control: UnixListener,
    busy: control::Busy,
    steering: Arc<Steering>,
    agent: Option<(UnixListener, Arc<T>)>,
) -> std::io::Result<impl FnOnce() + Send + 'static> {
    // A connection that has gone again before it is accepted must not stop the thread.
    control.set_nonblocking(true)?;
    if let Some((listener, _)) = &agent {
        listener.set_nonblocking(true)?;
    }
    let active = tools::Active::default();
    Ok(move || {
        loop {
            let mut doors = vec![PollFd::new(control.as_fd(), PollFlags::POLLIN)];
            doors.extend(agent.iter().map(|(l, _)| PollFd::new(l.as_fd(), PollFlags::POLLIN)));
            let asked = poll(&mut doors, PollTimeout::NONE).map(|_| {
                let ready: Vec<bool> = doors.iter().map(|door| door.any().unwrap_or(false)).collect();
                ready
            });
            let Ok(asked) = asked else { continue };
            if asked[0]
                && let Some(stream) = accept(&control)
            {
                control::answer(stream, &busy, &steering);
            }
            if let (Some(true), Some((listener, tools))) = (asked.get(1), &agent)
                && let Some(stream) = accept(listener)
            {
                tools::answer(stream, &active, tools);
            }
        }
    })
}

fn accept(listener: &UnixListener) -> Option<UnixStream> {
    match listener.accept() {
        Ok((stream, _)) => Some(stream),
        Err(e) => {
            // Running out of descriptors is the one lasting reason; waiting beats spinning.
            if e.kind() != ErrorKind::WouldBlock {
                std::thread::sleep(Duration::from_millis(50));
            }
            None
        }
    }
}
