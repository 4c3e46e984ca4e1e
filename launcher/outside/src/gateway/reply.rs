//! An answer that passes through as a stream.

use super::Limits;
use super::events::{Broken, Events, error_event};
use super::pool::{Link, Pool};
use super::record::{CallRecord, Recorder};
use hyper::body::{Body, Bytes, Incoming};
use picktwo_wire::gateway::Protocol;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep};

/// A stream of the upstream on its way to the agent.
pub(crate) struct Reply {
    /// None at the end.
    source: Option<(Incoming, Link)>,
    pool: Arc<Pool>,
    events: Events,
    protocol: Protocol,
    responses: bool,
    record: CallRecord,
    recorder: Recorder,
    path: String,
    silence: Pin<Box<Sleep>>,
    last: Instant,
    limits: Limits,
}

/// What a stream needs besides its source.
pub(crate) struct Frame {
    pub(crate) pool: Arc<Pool>,
    pub(crate) events: Events,
    pub(crate) protocol: Protocol,
    pub(crate) responses: bool,
    pub(crate) record: CallRecord,
    pub(crate) recorder: Recorder,
    pub(crate) path: String,
    pub(crate) limits: Limits,
}

impl Reply {
    /// Passes on what comes over `link`.
    pub(crate) fn new(incoming: Incoming, link: Link, frame: Frame) -> Self {
        let Frame {
            pool,
            events,
            protocol,
            responses,
            record,
            recorder,
            path,
            limits,
        } = frame;
        let source = Some((incoming, link));
        let silence = Box::pin(tokio::time::sleep(limits.silence));
        Self {
            source,
            pool,
            events,
            protocol,
            responses,
            record,
            recorder,
            path,
            silence,
            last: Instant::now(),
            limits,
        }
    }

    /// Whether everything was passed on.
    pub(crate) fn is_over(&self) -> bool {
        self.source.is_none()
    }

    /// The next bytes for the agent.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let Some((incoming, _)) = &mut self.source else {
                return Poll::Ready(None);
            };
            match Pin::new(incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.last = Instant::now();
                    let Ok(data) = frame.into_data() else { continue };
                    self.record.received += data.len() as u64;
                    if self.record.received > self.limits.stream {
                        let reason = format!("the upstream's stream is larger than {} bytes", self.limits.stream);
                        return Poll::Ready(Some(self.cut(502, "too-large", &reason)));
                    }
                    match self.events.push(data) {
                        Ok(bytes) if bytes.is_empty() => {}
                        Ok(bytes) => return Poll::Ready(Some(bytes)),
                        Err(broken) => return Poll::Ready(Some(self.broken(broken))),
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let reason = format!("the upstream broke off its answer: {error}");
                    return Poll::Ready(Some(self.cut(502, "upstream", &reason)));
                }
                Poll::Ready(None) => {
                    let rest = self.events.finish();
                    if let Some((_, link)) = self.source.take() {
                        self.pool.give_back(link);
                    }
                    return Poll::Ready(match rest {
                        Ok(bytes) => (!bytes.is_empty()).then_some(bytes),
                        Err(broken) => Some(self.broken(broken)),
                    });
                }
                Poll::Pending => {
                    let due = self.last + self.limits.silence;
                    if self.silence.deadline() < due {
                        self.silence.as_mut().reset(due);
                    }
                    ready!(self.silence.as_mut().poll(cx));
                    let reason = format!(
                        "the upstream was silent for {} s in the middle of its answer",
                        self.limits.silence.as_secs()
                    );
                    return Poll::Ready(Some(self.cut(504, "upstream", &reason)));
                }
            }
        }
    }

    fn broken(&mut self, broken: Broken) -> Bytes {
        match broken {
            Broken::Hosted(name) => {
                let reason =
                    format!("the answer holds `{name}`, a result of a tool that the provider ran; it was cut off");
                self.recorder.refused("POST", &self.path, "hosted-result", &reason);
                self.cut(400, "hosted-result", &reason)
            }
            Broken::Key => {
                let reason = "the answer holds the model key; it was cut off";
                self.recorder.refused("POST", &self.path, "key-echo", reason);
                self.cut(400, "key-echo", reason)
            }
            Broken::Garbage(what) => self.cut(
                502,
                "upstream",
                &format!("the upstream's stream cannot be read: {what}"),
            ),
        }
    }

    /// Ends the stream with an error event; the connection to the upstream is closed.
    fn cut(&mut self, status: u16, code: &str, reason: &str) -> Bytes {
        self.source = None;
        Bytes::from(error_event(
            self.protocol,
            self.responses,
            status,
            code,
            &format!("picktwo: {reason}."),
        ))
    }
}
