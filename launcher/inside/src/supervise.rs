//! The threads that serve a session's granted calls.

use crate::files::Grants;
use crate::sockets::Sockets;
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::notify::Listener;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// The serving threads of a session. They end when no process is left that could call.
#[derive(Debug)]
pub struct Supervisors(Vec<JoinHandle<()>>);

impl Supervisors {
    /// Waits for the end of all of them.
    pub fn join(self) {
        for thread in self.0 {
            let _ = thread.join();
        }
    }
}

/// Starts serving: `threads` threads that take requests, so that one slow call does not hold up the others, and one that
/// waits on behalf of callers. 3 is a good number: one is nearly always ready to take the next request.
///
/// # Errors
/// A thread could not be made.
pub fn serve(
    listener: Arc<Listener>,
    grants: Arc<Grants>,
    sockets: Option<Arc<Sockets>>,
    threads: usize,
) -> io::Result<Supervisors> {
    // Older kernels than 6.6 lack it; everything works, more slowly.
    let _ = listener.sync_wake_up();
    let mut all = Vec::new();
    for number in 0..threads.max(1) {
        let (listener, grants, sockets) = (listener.clone(), grants.clone(), sockets.clone());
        let name = format!("grants {number}");
        all.push(
            Builder::new()
                .name(name)
                .stack_size(256 * 1024)
                .spawn(move || take_requests(&listener, &grants, sockets.as_deref()))?,
        );
    }
    let waiting = grants.waiting().clone();
    all.push(
        Builder::new()
            .name("waits".into())
            .stack_size(256 * 1024)
            .spawn(move || {
                let _ = crate::files::own_state();
                waiting.run(|| listener.ended());
            })?,
    );
    Ok(Supervisors(all))
}

fn take_requests(listener: &Arc<Listener>, grants: &Arc<Grants>, sockets: Option<&Sockets>) {
    // Without it, creating calls are refused one by one.
    let _ = crate::files::own_state();
    loop {
        match listener.recv() {
            Ok(Some(request)) => {
                let served = catch_unwind(AssertUnwindSafe(|| match request.nr {
                    libc::SYS_socket | libc::SYS_connect | libc::SYS_bind => match sockets {
                        Some(sockets) => sockets.handle(grants, listener, &request),
                        None => drop(listener.reply_errno(request.id, Errno::EACCES)),
                    },
                    _ => grants.handle(listener, &request),
                }));
                // A mistake here costs its caller this call, not the session.
                if served.is_err() {
                    let _ = listener.reply_errno(request.id, Errno::EACCES);
                }
            }
            Ok(None) if listener.ended() => return,
            Ok(None) => {}
            Err(_) => return,
        }
    }
}
