//! The threads that serve a session's granted calls.

use crate::files::Grants;
use crate::sockets::Sockets;
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::notify::{Listener, Request};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The serving threads of a session. They end when no process is left that could call.
pub struct Supervisors(Arc<Pool>);

impl Supervisors {
    /// Waits for the end of all of them.
    pub fn join(self) {
        // The lock is not held while joining: a thread that ends may still have started another one.
        while let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

struct Pool {
    listener: Arc<Listener>,
    grants: Arc<Grants>,
    sockets: Option<Arc<Sockets>>,
    /// Threads that wait for a request.
    idle: AtomicUsize,
    max: usize,
    threads: Mutex<Started>,
}

#[derive(Default)]
struct Started {
    count: usize,
    handles: Vec<JoinHandle<()>>,
}

/// Starts serving. At most `threads` threads take requests, so that one slow call does not hold up the others; the first is made
/// here, each further one when a request leaves nobody to take the next. 3 is a good number: one is nearly always ready.
///
/// # Errors
/// The first thread could not be made.
pub fn serve(
    listener: Arc<Listener>,
    grants: Arc<Grants>,
    sockets: Option<Arc<Sockets>>,
    threads: usize,
) -> io::Result<Supervisors> {
    // Older kernels than 6.6 lack it; everything works, more slowly.
    let _ = listener.sync_wake_up();
    let pool = Arc::new(Pool {
        listener,
        grants,
        sockets,
        idle: AtomicUsize::new(0),
        max: threads.max(1),
        threads: Mutex::default(),
    });
    pool.grow()?;
    Ok(Supervisors(pool))
}

impl Pool {
    fn take(&self) -> Option<JoinHandle<()>> {
        self.lock().handles.pop()
    }

    fn lock(&self) -> MutexGuard<'_, Started> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grow(self: &Arc<Self>) -> io::Result<()> {
        let mut started = self.lock();
        if started.count >= self.max {
            return Ok(());
        }
        let pool = self.clone();
        // Counted as idle from here on, so that two requests do not start two threads for the same want.
        self.idle.fetch_add(1, Ordering::AcqRel);
        let made = Builder::new()
            .name(format!("grants {}", started.count))
            .stack_size(256 * 1024)
            .spawn(move || pool.take_requests());
        match made {
            Ok(thread) => {
                started.count += 1;
                started.handles.push(thread);
                Ok(())
            }
            Err(e) => {
                self.idle.fetch_sub(1, Ordering::AcqRel);
                Err(e)
            }
        }
    }

    fn take_requests(self: &Arc<Self>) {
        // Without it, creating calls are refused one by one.
        let _ = crate::files::own_state();
        loop {
            match self.listener.recv() {
                Ok(Some(request)) => {
                    if self.idle.fetch_sub(1, Ordering::AcqRel) == 1 {
                        // Where no thread can be made, requests wait for one another.
                        let _ = self.grow();
                    }
                    self.answer(&request);
                    self.idle.fetch_add(1, Ordering::AcqRel);
                }
                Ok(None) if self.listener.ended() => return,
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    fn answer(&self, request: &Request) {
        let (listener, grants) = (&self.listener, &self.grants);
        let served = catch_unwind(AssertUnwindSafe(|| match request.nr {
            libc::SYS_socket | libc::SYS_connect | libc::SYS_bind => match &self.sockets {
                Some(sockets) => sockets.handle(grants, listener, request),
                None => drop(listener.reply_errno(request.id, Errno::EACCES)),
            },
            _ => grants.handle(listener, request),
        }));
        // A mistake here costs its caller this call, not the session.
        if served.is_err() {
            let _ = listener.reply_errno(request.id, Errno::EACCES);
        }
    }
}
