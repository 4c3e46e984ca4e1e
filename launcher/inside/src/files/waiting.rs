//! One thread for everything that waits on behalf of a caller, so that no serving thread does.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Job = Box<dyn FnMut() -> bool + Send>;

struct Entry {
    pause: Duration,
    next: Instant,
    job: Job,
}

/// Jobs that are tried again and again until they say that they are done.
#[derive(Clone)]
pub(crate) struct Waiting {
    shared: Arc<(Mutex<Vec<Entry>>, Condvar)>,
}

impl Waiting {
    /// An empty list. Jobs run once [`Waiting::run`] does, in a thread of its own.
    pub(crate) fn new() -> Waiting {
        Waiting {
            shared: Arc::new((Mutex::new(Vec::new()), Condvar::new())),
        }
    }

    /// Adds a job, which is tried after each pause until it returns `true`.
    pub(crate) fn until(&self, pause: Duration, job: impl FnMut() -> bool + Send + 'static) {
        let entry = Entry {
            pause,
            next: Instant::now() + pause,
            job: Box::new(job),
        };
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        self.shared.1.notify_one();
    }

    /// Runs jobs until `ended` says so, which is asked at least every 200 ms.
    pub(crate) fn run(&self, ended: impl Fn() -> bool) {
        const IDLE: Duration = Duration::from_millis(200);
        while !ended() {
            let guard = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let wait = guard
                .iter()
                .map(|entry| entry.next.saturating_duration_since(now))
                .min()
                .unwrap_or(IDLE)
                .min(IDLE);
            let mut guard = match wait.is_zero() {
                true => guard,
                false => {
                    self.shared
                        .1
                        .wait_timeout(guard, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
            let now = Instant::now();
            let (due, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut *guard)
                .into_iter()
                .partition(|entry| entry.next <= now);
            *guard = rest;
            drop(guard);
            for mut entry in due {
                if !(entry.job)() {
                    entry.next = Instant::now() + entry.pause;
                    self.shared.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_job_is_tried_until_it_is_done() {
        let waiting = Waiting::new();
        let (tries, runner) = (Arc::new(AtomicU32::new(0)), waiting.clone());
        let (a, b) = (tries.clone(), tries.clone());
        waiting.until(Duration::from_millis(1), move || a.fetch_add(1, Ordering::SeqCst) == 4);
        let thread = std::thread::spawn(move || runner.run(|| b.load(Ordering::SeqCst) >= 5));
        thread.join().unwrap();
        assert_eq!(tries.load(Ordering::SeqCst), 5);
        assert!(waiting.shared.0.lock().unwrap().is_empty());
    }
}
