//! One thread for the two sockets at which a session can be asked something.

use super::steer::Steering;
use super::tools::Tools;
use super::{control, tools};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
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
    let mut spare = Spare::default();
    spare.fill(&control);
    Ok(move || {
        loop {
            let mut doors = vec![PollFd::new(control.as_fd(), PollFlags::POLLIN)];
            doors.extend(agent.iter().map(|(l, _)| PollFd::new(l.as_fd(), PollFlags::POLLIN)));
            let pause = if spare.full() { PollTimeout::NONE } else { AGAIN.into() };
            let asked = poll(&mut doors, pause).map(|_| {
                let ready: Vec<bool> = doors.iter().map(|door| door.any().unwrap_or(false)).collect();
                ready
            });
            let Ok(asked) = asked else { continue };
            if asked[0] {
                // Seen before anything is taken: an answer needs descriptors of its own.
                spare.yield_if_scarce(&control);
                if let Some(stream) = accept(&control) {
                    control::answer(stream, &busy, &steering);
                }
            } else {
                spare.fill(&control);
            }
            if let (Some(true), Some((listener, tools))) = (asked.get(1), &agent)
                && let Some(stream) = accept(listener)
            {
                tools::answer(stream, &active, tools);
            }
        }
    })
}

/// How many descriptors an answer at the control door takes: the connection, the peer, what is read in /proc and written to the record.
const SPARE: usize = 8;
/// Milliseconds after which what was given up is taken again.
const AGAIN: u8 = 200;

/// Descriptors that are given up for the control door when the session's own calls have used up all others.
#[derive(Default)]
struct Spare(Vec<OwnedFd>);

impl Spare {
    fn full(&self) -> bool {
        self.0.len() == SPARE
    }

    fn fill(&mut self, any: &UnixListener) {
        while !self.full() {
            let Ok(fd) = any.as_fd().try_clone_to_owned() else {
                return;
            };
            self.0.push(fd);
        }
    }

    fn yield_if_scarce(&mut self, any: &UnixListener) {
        let mut free = Vec::new();
        while free.len() < SPARE {
            match any.as_fd().try_clone_to_owned() {
                Ok(fd) => free.push(fd),
                Err(_) => return self.0.clear(),
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spared_is_kept_while_there_are_others() {
        let path = std::env::temp_dir().join(format!("p2-doors-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut spare = Spare::default();
        spare.fill(&listener);
        assert!(spare.full());
        spare.yield_if_scarce(&listener);
        assert!(spare.full());
        std::fs::remove_file(path).unwrap();
    }
}
