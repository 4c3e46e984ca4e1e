//! The threads that serve a session's granted calls.
//!
//! The kernel wakes *every* thread that waits for a request, so that each idle one costs every call a switch. One thread waits,
//! therefore, as long as it keeps up; a second joins it where requests queue, and a watch that looks every few milliseconds
//! while there are requests replaces a thread that one of them holds up.

use crate::files::Grants;
use crate::sockets::Sockets;
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::notify::{Listener, Request};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How often the watch looks. A request that takes longer than this, and at most twice as long, is held against its thread.
const TICK: Duration = Duration::from_millis(4);
/// Ticks without any request after which the watch sleeps.
const QUIET: u32 = 50;
/// A request that arrived sooner than this was waiting already.
const QUEUED: Duration = Duration::from_micros(3);
/// So many requests that had waited, of several callers, call for another thread: a single caller makes one call at a time.
const QUEUE: u32 = 16;
/// So many requests in a row that had to be waited for send one away again.
const SLACK: u32 = 64;

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
    max: usize,
    /// Threads that wait for a request at this moment.
    receiving: AtomicUsize,
    /// How many should.
    wanted: AtomicUsize,
    /// Requests taken so far.
    taken: AtomicU64,
    /// Whether the watch looks.
    watching: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Serving threads, waiting ones included.
    count: usize,
    /// Of those, the ones that wait to be needed, and how many of them are called.
    parked: usize,
    called: usize,
    watch: bool,
    ended: bool,
    handles: Vec<JoinHandle<()>>,
}

/// Starts serving, with at most `threads` threads.
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
        max: threads.max(1),
        receiving: AtomicUsize::new(0),
        wanted: AtomicUsize::new(1),
        taken: AtomicU64::new(0),
        watching: AtomicBool::new(false),
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    pool.add(&mut pool.lock())?;
    Ok(Supervisors(pool))
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<JoinHandle<()>> {
        self.lock().handles.pop()
    }

    fn start(self: &Arc<Self>, state: &mut State, name: String, work: fn(&Arc<Self>)) -> io::Result<()> {
        let pool = self.clone();
        let thread = Builder::new()
            .name(name)
            .stack_size(256 * 1024)
            .spawn(move || work(&pool))?;
        state.handles.push(thread);
        Ok(())
    }

    /// One more thread that takes requests: one that waits to be needed, or a new one.
    fn add(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if state.ended {
            return Ok(());
        }
        if state.parked > state.called {
            state.called += 1;
            self.changed.notify_all();
        } else if state.count < self.max {
            self.start(state, format!("grants {}", state.count), Self::take_requests)?;
            state.count += 1;
        }
        Ok(())
    }

    fn take_requests(self: &Arc<Self>) {
        // Without it, creating calls are refused one by one.
        let _ = crate::files::own_state();
        let (mut queued, mut waited, mut last) = (0, 0, 0);
        loop {
            let since = Instant::now();
            self.receiving.fetch_add(1, Ordering::SeqCst);
            let received = self.listener.recv();
            self.receiving.fetch_sub(1, Ordering::SeqCst);
            match received {
                Ok(Some(request)) => {
                    if since.elapsed() >= QUEUED {
                        (queued, waited) = (0, waited + 1);
                    } else if request.pid != last {
                        (queued, waited) = (queued + 1, 0);
                    }
                    last = request.pid;
                    // In one order with what the watch does before it sleeps: one of the two sees the other.
                    self.taken.fetch_add(1, Ordering::SeqCst);
                    if !self.watching.load(Ordering::SeqCst) {
                        self.wake_watch();
                    }
                    self.answer(&request);
                    self.adapt(&mut queued, &mut waited);
                }
                Ok(None) if self.listener.ended() => return self.end(),
                Ok(None) => {}
                Err(_) => return self.end(),
            }
            if self.receiving.load(Ordering::SeqCst) >= self.wanted.load(Ordering::Relaxed) && !self.park() {
                return;
            }
        }
    }

    /// Asks for another thread where requests queue, and for one less where there is slack.
    fn adapt(self: &Arc<Self>, queued: &mut u32, waited: &mut u32) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if *queued >= QUEUE && wanted < self.max {
            *queued = 0;
            self.wanted.store(wanted + 1, Ordering::Relaxed);
            // Where no thread can be made, requests wait for one another.
            let _ = self.add(&mut self.lock());
        } else if *waited >= SLACK && wanted > 1 {
            *waited = 0;
            self.wanted.store(wanted - 1, Ordering::Relaxed);
        }
    }

    /// Waits to be needed. `false`: the session is over.
    fn park(&self) -> bool {
        let mut state = self.lock();
        // The last one that waits for requests must not.
        if state.ended || self.receiving.load(Ordering::SeqCst) == 0 {
            return !state.ended;
        }
        state.parked += 1;
        while state.called == 0 && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.parked -= 1;
        state.called = state.called.saturating_sub(1);
        !state.ended
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    fn wake_watch(self: &Arc<Self>) {
        let mut state = self.lock();
        self.watching.store(true, Ordering::SeqCst);
        if state.watch {
            self.changed.notify_all();
        } else {
            // Where it cannot be made, the next request tries again.
            let made = self.start(&mut state, "watch".into(), Self::watch).is_ok();
            state.watch = made;
            self.watching.store(made, Ordering::SeqCst);
        }
    }

    /// Looks after the threads while there are requests.
    fn watch(self: &Arc<Self>) {
        let (mut seen, mut quiet) = (0, 0);
        loop {
            std::thread::sleep(TICK);
            let mut state = self.lock();
            if state.ended {
                return;
            }
            let taken = self.taken.load(Ordering::SeqCst);
            if taken != seen {
                (seen, quiet) = (taken, 0);
            } else if self.receiving.load(Ordering::SeqCst) == 0 {
                // Nobody waits, and nobody has taken anything for a whole tick: all are held up.
                let _ = self.add(&mut state);
            } else {
                quiet += 1;
            }
            if quiet < QUIET {
                continue;
            }
            quiet = 0;
            self.watching.store(false, Ordering::SeqCst);
            if self.receiving.load(Ordering::SeqCst) == 0 || self.taken.load(Ordering::SeqCst) != seen {
                self.watching.store(true, Ordering::SeqCst);
                continue;
            }
            while !self.watching.load(Ordering::SeqCst) && !state.ended {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn answer(&self, request: &Request) {
        let (listener, grants) = (&self.listener, &self.grants);
        let served = catch_unwind(AssertUnwindSafe(|| match request.nr {
            libc::SYS_socket | libc::SYS_connect | libc::SYS_bind | libc::SYS_listen => match &self.sockets {
                Some(sockets) => sockets.handle(grants, listener, request),
                None => drop(listener.reply_errno(request.id, Errno::EACCES)),
            },
            _ => grants.handle(listener, request),
        }));
        // A mistake here costs its caller this call, not the session.
        if served.is_err() {
            crate::files::give_back_state();
            let _ = listener.reply_errno(request.id, Errno::EACCES);
        }
    }
}
