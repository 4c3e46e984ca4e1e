//! Refused changes on their way to the record: the threads that serve granted calls hand them over and go on; one thread writes them,
//! which exists while there is something to write.

use crate::record::{Event, Record};
use picktwo_inside::files;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Refusals that may wait to be written; further ones are only counted.
const WAITING: usize = 512;

/// How long the thread stays when nothing comes: a burst of refusals starts one.
const LINGER: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Queue {
    events: Vec<Event>,
    /// Refusals that found the queue full.
    lost: u64,
    writer: bool,
}

/// The queue and who empties it.
pub(super) struct Refusals {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Held by whoever writes, so that records stay in order and [`Refusals::flush`] waits for what is under way.
    record: Mutex<Arc<Record>>,
}

impl Refusals {
    /// An empty queue.
    pub(super) fn new(record: Arc<Record>) -> Self {
        Self {
            queue: Mutex::default(),
            changed: Condvar::new(),
            record: Mutex::new(record),
        }
    }

    /// What receives the decisions about files. A refusal needs no permission to be recorded: the change has not happened
    /// either way.
    pub(super) fn sink(self: &Arc<Self>) -> files::Sink {
        let refusals = Arc::clone(self);
        Box::new(move |event: files::Event| {
            let Some(errno) = event.refused else { return };
            let mut queue = refusals.lock();
            if queue.events.len() >= WAITING {
                queue.lost += event.suppressed + 1;
                return;
            }
            let before = std::mem::take(&mut queue.lost);
            queue.events.push(Event::Refused {
                call: event.call.to_owned(),
                path: event.path.display().to_string(),
                errno: format!("{errno:?}"),
                rule: event.rule,
                more: event.suppressed + before,
            });
            if queue.writer {
                refusals.changed.notify_one();
            } else {
                let writer = Arc::clone(&refusals);
                // Where no thread can be made, the next refusal or the session's end has it written.
                queue.writer = super::start::spawn("refusals", move || writer.write()).is_ok();
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) {
        loop {
            self.flush();
            let queue = self.lock();
            let (mut queue, _) = self
                .changed
                .wait_timeout_while(queue, LINGER, |queue| queue.events.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            if queue.events.is_empty() {
                queue.writer = false;
                return;
            }
        }
    }

    /// Writes everything handed over so far.
    pub(super) fn flush(&self) {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let events = std::mem::take(&mut self.lock().events);
        for event in events {
            let _ = record.append(&event);
        }
    }
}
