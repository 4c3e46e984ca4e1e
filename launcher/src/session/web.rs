//! The launcher's end of the web side: started with the session as a process that waits, woken by the first retrieval.

use super::apis::Apis;
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::limits;
use picktwo_confine::process::{self, Child};
use picktwo_confine::role::Role;
use picktwo_wire::retrieval::{FromWeb, ToWeb, WebStart};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel as queue};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Time that the web side has from its first byte to `Ready`.
const START: Duration = Duration::from_secs(10);

/// Why the web side cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct WebDown(pub(crate) String);

impl std::fmt::Display for WebDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the web side is not available: {}", self.0)
    }
}

enum State {
    /// Waiting for its first byte; costs a sleeping process.
    Asleep,
    /// Told to start; not yet `Ready`.
    Starting,
    Ready,
    Down(WebDown),
}

/// The web side of one session.
pub(crate) struct Web {
    channel: Channel,
    start: WebStart,
    state: Mutex<State>,
    changed: Condvar,
    running: Mutex<HashMap<u64, Sender<FromWeb>>>,
    next: AtomicU64,
}

/// One retriever that runs.
pub(crate) struct Retriever<'a> {
    web: &'a Web,
    /// Number of the retrieval in this session, from 1.
    pub(crate) id: u64,
    /// The retriever's own channel.
    pub(crate) channel: Channel,
    /// What `outside` reports of it: names, connections, its end.
    pub(crate) events: Receiver<FromWeb>,
}

/// Forks the process that will become the web side, to be called before the launcher has read anything worth stealing.
///
/// It holds no descriptor but the channel and the executable, and waits for one message; executing itself then replaces its memory,
/// which until then is a copy of the launcher's.
///
/// # Errors
/// If the channel or the process cannot be made.
pub(crate) fn fork_asleep(exe: BorrowedFd<'_>) -> picktwo_confine::error::Result<(Channel, Child)> {
    let (ours, theirs) = channel::pair()?;
    let exe = exe
        .try_clone_to_owned()
        .map_err(|e| picktwo_confine::error::Error::Duplicate {
            fd: exe.as_raw_fd(),
            errno: nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0)),
        })?;
    let keep = [theirs.as_raw_fd(), exe.as_raw_fd()];
    let child = process::fork_bound(Role::OutsideWeb.title(), move || {
        // In a session of its own, so that the terminal's signals do not reach it.
        if nix::unistd::setsid().is_err() || limits::sweep(&keep).is_err() {
            return process::PANICKED;
        }
        // A key that came by the environment has no business in a process that sleeps.
        let title = Role::OutsideWeb.title();
        if process::wipe_arguments(title).is_err() || process::set_name(title).is_err() {
            return process::PANICKED;
        }
        // End of file: the launcher is gone or never needed the web.
        if !matches!(theirs.recv(&mut Vec::new()), Ok(Some(_))) {
            return 0;
        }
        let _error = process::become_role(Role::OutsideWeb, exe, theirs);
        126
    })?;
    Ok((ours, child))
}

impl Web {
    /// Takes over the channel made by [`fork_asleep`].
    pub(crate) fn new(channel: Channel, start: WebStart) -> Self {
        Self {
            channel,
            start,
            state: Mutex::new(State::Asleep),
            changed: Condvar::new(),
            running: Mutex::new(HashMap::new()),
            next: AtomicU64::new(1),
        }
    }

    /// Starts a retriever, and the web side itself if it sleeps.
    ///
    /// # Errors
    /// If the web side cannot be started or has ended.
    pub(crate) fn retriever(self: &Arc<Self>) -> Result<Retriever<'_>, WebDown> {
        self.wake()?;
        self.start(|id| ToWeb::Retrieve { id })
    }

    /// Starts a retriever that may connect to nothing, for a ticket of the retrievers' gateway, and that gateway itself if it is not
    /// there yet.
    ///
    /// # Errors
    /// If the web side cannot be started or has ended.
    pub(crate) fn ticket(self: &Arc<Self>, apis: &Arc<Apis>) -> Result<Retriever<'_>, WebDown> {
        self.wake()?;
        apis.wake(|channel| self.tell(&ToWeb::Apis {}, &[channel]))?;
        self.start(|id| ToWeb::Ticket { id })
    }

    fn start(&self, message: impl FnOnce(u64) -> ToWeb) -> Result<Retriever<'_>, WebDown> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = channel::pair().map_err(|e| WebDown(e.to_string()))?;
        let (sender, events) = queue();
        lock(&self.running).insert(id, sender);
        let retriever = Retriever {
            web: self,
            id,
            channel: ours,
            events,
        };
        self.tell(&message(id), &[theirs.as_fd()])?;
        Ok(retriever)
    }

    fn wake(self: &Arc<Self>) -> Result<(), WebDown> {
        let mut state = lock(&self.state);
        if matches!(*state, State::Asleep) {
            *state = State::Starting;
            let told = self.channel.send(b"{}", &[]).and_then(|()| {
                self.channel
                    .send(&picktwo_wire::encode(&self.start).unwrap_or_default(), &[])
            });
            if let Err(e) = told {
                *state = State::Down(WebDown(e.to_string()));
            } else {
                let web = Arc::clone(self);
                std::thread::spawn(move || web.listen());
            }
        }
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, START, |s| matches!(s, State::Starting))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*state {
            State::Ready => Ok(()),
            State::Down(why) => Err(why.clone()),
            State::Asleep | State::Starting => {
                debug_assert!(timeout.timed_out());
                Err(WebDown(format!("it was not ready within {} s", START.as_secs())))
            }
        }
    }

    /// Reads what `outside` reports until its end.
    fn listen(&self) {
        let mut buffer = Vec::new();
        let down = loop {
            match self.channel.recv(&mut buffer) {
                Ok(Some(_)) => {}
                Ok(None) => break "it has ended".to_owned(),
                Err(e) => break e.to_string(),
            }
            match picktwo_wire::decode::<FromWeb>(&buffer) {
                Ok(FromWeb::Ready) => self.set(State::Ready),
                Ok(FromWeb::Failed { reason }) => break reason,
                Ok(
                    event @ (FromWeb::Resolved { id, .. } | FromWeb::Connection { id, .. } | FromWeb::Ended { id, .. }),
                ) => {
                    // A retrieval that is over has no receiver any more.
                    if let Some(sender) = lock(&self.running).get(&id) {
                        let _ = sender.send(event);
                    }
                }
                Err(e) => break e.to_string(),
            }
        };
        self.set(State::Down(WebDown(down)));
        lock(&self.running).clear();
    }

    fn set(&self, state: State) {
        *lock(&self.state) = state;
        self.changed.notify_all();
    }

    fn tell(&self, message: &ToWeb, fds: &[BorrowedFd<'_>]) -> Result<(), WebDown> {
        let bytes = picktwo_wire::encode(message).map_err(|e| WebDown(e.to_string()))?;
        self.channel.send(&bytes, fds).map_err(|e| WebDown(e.to_string()))
    }
}

impl Retriever<'_> {
    /// From now on the retriever may neither resolve nor connect; the connection that it reads from stands.
    pub(crate) fn no_more(&self) -> Result<(), WebDown> {
        self.web.tell(&ToWeb::NoMore { id: self.id }, &[])
    }
}

impl Drop for Retriever<'_> {
    fn drop(&mut self) {
        // Its channel closes with this value, which ends it; the message covers one that does not listen.
        let _ = self.web.tell(&ToWeb::Stop { id: self.id }, &[]);
        lock(&self.web.running).remove(&self.id);
    }
}

/// A poisoned lock only means that another thread panicked between two whole updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
