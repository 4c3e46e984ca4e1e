//! The tools socket: what the agent's side may ask of the launcher. Every byte that comes in is the agent's.

use super::line::{LineError, LineStream};
use picktwo_wire::tools::{Reply, Request};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections that are served at the same time; further ones are told so. Most of them wait for their turn with the web side.
const PARALLEL: usize = 128;
/// A connection that asks nothing for this long is closed; the MCP server connects again.
const IDLE: Duration = Duration::from_secs(600);

/// What the launcher does for the agent's side.
pub(crate) trait Tools: Send + Sync + 'static {
    /// Answers one request; `progress` sends a line on the way.
    fn answer(&self, request: Request, progress: &mut dyn FnMut(String)) -> Reply;
}

/// The conversations that are under way.
#[derive(Clone, Default)]
pub(crate) struct Active(Arc<AtomicUsize>);

/// Answers one connection in a thread of its own.
pub(crate) fn answer(stream: UnixStream, active: &Active, tools: &Arc<impl Tools>) {
    if active.0.fetch_add(1, Ordering::Relaxed) >= PARALLEL {
        active.0.fetch_sub(1, Ordering::Relaxed);
        turn_away(stream);
        return;
    }
    let (tools, counted) = (Arc::clone(tools), active.clone());
    let spawned = super::start::spawn("tools", move || {
        converse(stream, tools.as_ref());
        counted.0.fetch_sub(1, Ordering::Relaxed);
    });
    if spawned.is_err() {
        active.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn turn_away(stream: UnixStream) {
    let reply = Reply::Failed {
        cause: "busy".to_owned(),
        reason: format!("{PARALLEL} requests are under way in this session; try again when one has ended"),
    };
    // Whoever does not read it has lost nothing but the reason.
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = LineStream::new(stream).write(&reply);
}

fn converse(stream: UnixStream, tools: &dyn Tools) {
    if stream.set_read_timeout(Some(IDLE)).is_err() || stream.set_write_timeout(Some(IDLE)).is_err() {
        return;
    }
    let mut lines = LineStream::new(stream);
    loop {
        let reply = match lines.read::<Request>() {
            Ok(request) => {
                let mut progress = |note: String| {
                    // A peer that has gone is noticed when the reply is written.
                    let _ = lines.write(&Reply::Progress { note });
                };
                tools.answer(request, &mut progress)
            }
            Err(LineError::Message(e)) => {
                let reason = format!("the request was not understood: {e}");
                let _ = lines.write(&Reply::Failed {
                    cause: "bad-request".to_owned(),
                    reason,
                });
                // What follows a line that was too long is not a line.
                return;
            }
            Err(LineError::Closed | LineError::Io(_)) => return,
        };
        if lines.write(&reply).is_err() {
            return;
        }
    }
}
