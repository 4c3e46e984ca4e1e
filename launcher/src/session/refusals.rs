//! Refused changes on their way to the record: the threads that serve granted calls hand them over and go on; one thread writes them.

use crate::record::{Event, Record};
use picktwo_inside::files;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Refusals that may wait to be written; further ones are only counted.
const WAITING: usize = 512;

enum Message {
    Refused(Event),
    /// Everything before it was written when this is answered.
    Flush(SyncSender<()>),
}

/// The queue's two ends.
pub(super) struct Refusals {
    sender: SyncSender<Message>,
    receiver: Mutex<Option<Receiver<Message>>>,
    /// Refusals that found the queue full.
    lost: Arc<AtomicU64>,
}

impl Refusals {
    /// An empty queue; nothing is written before [`Refusals::write`].
    pub(super) fn new() -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        Self {
            sender,
            receiver: Mutex::new(Some(receiver)),
            lost: Arc::default(),
        }
    }

    /// What receives the decisions about files. A refusal needs no permission to be recorded: the change has not happened
    /// either way.
    pub(super) fn sink(&self) -> files::Sink {
        let (sender, lost) = (self.sender.clone(), Arc::clone(&self.lost));
        Box::new(move |event: files::Event| {
            let Some(errno) = event.refused else { return };
            let before = lost.swap(0, Ordering::Relaxed);
            let refused = Event::Refused {
                call: event.call.to_owned(),
                path: event.path.display().to_string(),
                errno: format!("{errno:?}"),
                rule: event.rule,
                more: event.suppressed + before,
            };
            if sender.try_send(Message::Refused(refused)).is_err() {
                lost.fetch_add(before + event.suppressed + 1, Ordering::Relaxed);
            }
        })
    }

    /// Writes what comes in until the process ends.
    pub(super) fn write(&self, record: &Record) {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        for message in receiver.iter().flatten() {
            match message {
                Message::Refused(event) => {
                    let _ = record.append(&event);
                }
                Message::Flush(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Waits until everything handed over so far was written, for at most `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let (done, written) = sync_channel(1);
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(limit);
        }
    }
}
