//! What is told to the record: refusals and grants, at a bounded rate.

use picktwo_confine::Errno;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

/// One decision about a file.
#[derive(Clone, Debug)]
pub struct Event {
    /// The calling thread, in the launcher's pid namespace.
    pub pid: i32,
    /// The system call.
    pub call: &'static str,
    /// The path: resolved if it lies in the workspace, otherwise as the caller gave it.
    pub path: PathBuf,
    /// The answer: `None` if it was granted.
    pub refused: Option<Errno>,
    /// Which rule decided: the protected path's, or `read-only`.
    pub rule: Option<String>,
    /// How many decisions of this kind were not told since the last one that was.
    pub suppressed: u64,
}

/// Tokens: how many events in a row, and how many per second after that.
const REFUSED: (f64, f64) = (200.0, 20.0);
const GRANTED: (f64, f64) = (100.0, 5.0);

struct Bucket {
    tokens: f64,
    at: Instant,
    suppressed: u64,
}

impl Bucket {
    fn new(limit: (f64, f64)) -> Bucket {
        Bucket {
            tokens: limit.0,
            at: Instant::now(),
            suppressed: 0,
        }
    }

    /// The number suppressed before, if this one may be told.
    fn take(&mut self, limit: (f64, f64)) -> Option<u64> {
        if self.tokens < 1.0 {
            let now = Instant::now();
            self.tokens = (self.tokens + now.duration_since(self.at).as_secs_f64() * limit.1).min(limit.0);
            self.at = now;
        }
        if self.tokens < 1.0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Receives events.
pub type Sink = Box<dyn Fn(Event) + Send + Sync>;

/// The callback and its limits.
pub(crate) struct Events {
    sink: Sink,
    refused: Mutex<Bucket>,
    granted: Mutex<Bucket>,
}

impl Events {
    pub(crate) fn new(sink: Sink) -> Events {
        Events {
            sink,
            refused: Mutex::new(Bucket::new(REFUSED)),
            granted: Mutex::new(Bucket::new(GRANTED)),
        }
    }

    /// Tells one decision; `event` is only called if it will be told.
    pub(crate) fn tell(&self, refused: bool, event: impl FnOnce() -> Event) {
        let (bucket, limit) = if refused {
            (&self.refused, REFUSED)
        } else {
            (&self.granted, GRANTED)
        };
        let Ok(mut bucket) = bucket.lock() else { return };
        let Some(suppressed) = bucket.take(limit) else { return };
        drop(bucket);
        (self.sink)(Event { suppressed, ..event() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_flood_is_counted_and_not_told() {
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        let events = Events::new(Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let event = || Event {
            pid: 1,
            call: "open",
            path: "/x".into(),
            refused: Some(Errno::EROFS),
            rule: None,
            suppressed: 0,
        };
        for _ in 0..100_000 {
            events.tell(true, event);
        }
        let told = told.load(Ordering::Relaxed);
        assert!((200..300).contains(&told), "{told}");
        assert!(events.refused.lock().unwrap().suppressed > 99_000);
    }
}
