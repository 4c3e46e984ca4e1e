//! What the launcher is told: one event for each call and each refusal, over a bounded queue that never holds up data.

use super::channel::AsyncChannel;
use picktwo_wire::gateway::FromGateway;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::mpsc;

/// Events that may wait for the launcher. Without a free place no call is forwarded.
const QUEUE: usize = 256;

/// Where events go.
#[derive(Clone)]
pub(crate) struct Recorder {
    queue: mpsc::Sender<FromGateway>,
    lost: Arc<AtomicU64>,
}

impl Recorder {
    /// Starts the task that writes events to the launcher.
    pub(crate) fn start(channel: Arc<AsyncChannel>) -> Self {
        let (queue, mut waiting) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while let Some(event) = waiting.recv().await {
                let Ok(message) = picktwo_wire::encode(&event) else {
                    continue;
                };
                if channel.send(&message).await.is_err() {
                    // The receiver is dropped: from now on no call finds a place.
                    return;
                }
            }
        });
        Self {
            queue,
            lost: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A place for the event of a call, or none: then the call must not happen.
    pub(crate) fn call(&self, path: &str, model: Option<&str>, sent: u64) -> Option<CallRecord> {
        let place = self.queue.clone().try_reserve_owned().ok()?;
        let (path, model) = (path.to_owned(), model.map(str::to_owned));
        Some(CallRecord {
            place: Some(place),
            path,
            model,
            status: 0,
            sent,
            received: 0,
            start: Instant::now(),
        })
    }

    /// Tells of a refusal. If the queue is full it is counted, and the next one tells the number.
    pub(crate) fn refused(&self, method: &str, path: &str, rule: &str, reason: &str) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let mut reason = clip(reason, 600);
        if lost > 0 {
            reason.push_str(&format!(
                " ({lost} refusals before this one found no place in the record)"
            ));
        }
        let event = FromGateway::Refused {
            method: clip(method, 16),
            path: clip(path, 256),
            rule: rule.to_owned(),
            reason,
        };
        if self.queue.try_send(event).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// A call under way; its event is sent when it is dropped, whatever ended it.
pub(crate) struct CallRecord {
    place: Option<mpsc::OwnedPermit<FromGateway>>,
    path: String,
    model: Option<String>,
    /// Status of the upstream, 0 before it answered.
    pub(crate) status: u16,
    sent: u64,
    /// Bytes of the answer so far.
    pub(crate) received: u64,
    start: Instant,
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        place.send(FromGateway::Call {
            method: "POST".to_owned(),
            path: std::mem::take(&mut self.path),
            model: self.model.take(),
            status: self.status,
            sent: self.sent,
            received: self.received,
            ms: u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}

fn clip(text: &str, most: usize) -> String {
    text.chars()
        .take(most)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
