//! One thread for everything that waits on behalf of a caller, so that no serving thread does. It exists while there is something
//! to wait for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Job = Box<dyn FnMut() -> bool + Send>;

struct Entry {
    pause: Duration,
    next: Instant,
    job: Job,
}

#[derive(Default)]
struct Jobs {
    entries: Vec<Entry>,
    /// Whether the thread exists; it ends when nothing is left to wait for.
    running: bool,
}

/// Jobs that are tried again and again until they say that they are done.
#[derive(Clone, Default)]
pub(crate) struct Waiting {
    shared: Arc<(Mutex<Jobs>, Condvar)>,
}

impl Waiting {
    /// Adds a job, which is tried after each pause until it returns `true`.
    pub(crate) fn until(&self, pause: Duration, job: impl FnMut() -> bool + Send + 'static) {
        let entry = Entry {
            pause,
            next: Instant::now() + pause,
            job: Box::new(job),
        };
        let mut jobs = self.lock();
        jobs.entries.push(entry);
        if jobs.running {
            self.shared.1.notify_one();
            return;
        }
        let waiting = self.clone();
        // Where no thread can be made now, the next job's attempt serves this one, too.
        jobs.running = std::thread::Builder::new()
            .name("waits".into())
            .stack_size(256 * 1024)
            .spawn(move || waiting.run())
            .is_ok();
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until none is left.
    fn run(&self) {
        // Without it, creating jobs are refused one by one.
        let _ = super::own_state();
        loop {
            let mut jobs = self.lock();
            let now = Instant::now();
            let Some(next) = jobs.entries.iter().map(|entry| entry.next).min() else {
                jobs.running = false;
                return;
            };
            let wait = next.saturating_duration_since(now);
            if !wait.is_zero() {
                jobs = self
                    .shared
                    .1
                    .wait_timeout(jobs, wait)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            let now = Instant::now();
            let mut due: Vec<_> = jobs.entries.extract_if(.., |entry| entry.next <= now).collect();
            drop(jobs);
            let mut undone = Vec::new();
            while let Some(mut entry) = due.pop() {
                if catch_unwind(AssertUnwindSafe(|| (entry.job)())).unwrap_or(true) {
                    // What one waited for, others may wait for, too: a reader of a FIFO is there for all of its writers, and
                    // the kernel would have counted each of them from when it began to wait.
                    due.append(&mut self.lock().entries);
                } else {
                    entry.next = Instant::now() + entry.pause;
                    undone.push(entry);
                }
            }
            self.lock().entries.append(&mut undone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_job_is_tried_until_it_is_done() {
        let waiting = Waiting::default();
        for _ in 0..2 {
            let (tries, done) = (Arc::new(AtomicU32::new(0)), std::sync::mpsc::channel());
            let counter = tries.clone();
            waiting.until(Duration::from_millis(1), move || {
                let last = counter.fetch_add(1, Ordering::SeqCst) == 4;
                if last {
                    done.0.send(()).unwrap();
                }
                last
            });
            done.1.recv_timeout(Duration::from_secs(10)).unwrap();
            assert_eq!(tries.load(Ordering::SeqCst), 5);
        }
    }

    #[test]
    fn a_job_that_panics_does_not_stop_the_others() {
        let waiting = Waiting::default();
        let (sender, done) = std::sync::mpsc::channel();
        waiting.until(Duration::ZERO, || panic!("on purpose"));
        waiting.until(Duration::ZERO, move || sender.send(()).is_ok());
        done.recv_timeout(Duration::from_secs(10)).unwrap();
    }
}
