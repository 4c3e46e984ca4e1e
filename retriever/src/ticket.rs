//! The answers that a ticket brings: read from a channel that carries nothing the other way.

use crate::fetch::{FetchError, Large};
use picktwo_confine::channel::Channel;
use picktwo_wire::apis::{Frame, Head, Part, frame};
use picktwo_wire::retrieval::Limits;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How much longer than the gateway this process waits: its last word comes first.
const GRACE: Duration = Duration::from_secs(15);
/// Answers of one ticket.
const MAX_ANSWERS: usize = 64;

/// One answer of an API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Received {
    /// What is known of its head.
    pub(crate) head: Head,
    /// Its body.
    pub(crate) body: Vec<u8>,
}

/// Reads until the gateway says that it has sent all.
pub(crate) async fn receive(channel: &Channel, limits: &Limits) -> Result<Vec<Received>, FetchError> {
    let limit = Duration::from_millis(limits.total_ms) + GRACE;
    tokio::time::timeout(limit, all(channel, limits))
        .await
        .map_err(|_| FetchError::Channel("the gateway did not say that it was done".to_owned()))?
}

async fn all(channel: &Channel, limits: &Limits) -> Result<Vec<Received>, FetchError> {
    let broken = |what: &str| FetchError::Channel(format!("the gateway {what}"));
    // As in `role::receive`: a borrowed descriptor stays open.
    #[allow(deprecated)]
    let ready = AsyncFd::with_interest(channel.as_fd(), Interest::READABLE).map_err(|e| broken(&e.to_string()))?;
    let mut answers: Vec<Received> = Vec::new();
    let mut bytes = Vec::new();
    let mut total = 0u64;
    loop {
        let mut guard = ready.readable().await.map_err(|e| broken(&e.to_string()))?;
        match channel.try_recv(&mut bytes) {
            Ok(None) => return Err(broken("ended before it had answered")),
            Ok(Some(fds)) if !fds.is_empty() => return Err(broken("sent descriptors")),
            Ok(Some(_)) => {}
            Err(e) if e.errno() == Some(picktwo_confine::Errno::EAGAIN) => {
                guard.clear_ready();
                continue;
            }
            Err(e) => return Err(broken(&e.to_string())),
        }
        match frame(&bytes).map_err(|e| broken(&e.to_string()))? {
            Frame::Part(Part::Head(head)) if answers.len() < MAX_ANSWERS => {
                answers.push(Received { head, body: Vec::new() })
            }
            Frame::Part(Part::Head(_)) => return Err(broken("sent too many answers")),
            Frame::Part(Part::Done) => return Ok(answers),
            Frame::Part(Part::Failed { cause, reason }) => {
                return Err(FetchError::Api {
                    cause: known(&cause),
                    reason,
                });
            }
            Frame::Data(data) => {
                total += data.len() as u64;
                if total > limits.wire_bytes {
                    return Err(FetchError::TooLarge(Large::Wire(limits.wire_bytes)));
                }
                let last = answers.last_mut().ok_or_else(|| broken("sent a body without a head"))?;
                last.body.extend_from_slice(data);
            }
        }
    }
}

/// The causes that a gateway gives.
fn known(cause: &str) -> &'static str {
    const CAUSES: &[&str] = &[
        "connect",
        "protocol",
        "timeout",
        "too-large",
        "redirect",
        "key-echo",
        "answer",
        "private-repository",
    ];
    CAUSES.iter().find(|c| **c == cause).copied().unwrap_or("internal")
}
