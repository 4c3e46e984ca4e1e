//! Steering a live session: its mode, its description, and the tools of the agent's side.

use super::control::Peer;
use super::plan::Plan;
use super::retrieval::Retrievals;
use super::tools::Tools;
use crate::record::{Event, Record, now};
use nix::sys::signal::Signal;
use picktwo_confine::{process, sys};
use picktwo_inside::files::Grants;
use picktwo_inside::mode;
use picktwo_inside::writers::{self, Found, How, Members, OpenWriter};
use picktwo_wire::control::{Mode, Reply, Request, Session, Writer};
use picktwo_wire::tools;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

/// The agent side's name of a mode.
pub(super) fn inside_mode(mode: Mode) -> mode::Mode {
    match mode {
        Mode::ReadOnly => mode::Mode::ReadOnly,
        Mode::Edit => mode::Mode::Edit,
    }
}

fn wire_mode(mode: mode::Mode) -> Mode {
    match mode {
        mode::Mode::ReadOnly => Mode::ReadOnly,
        mode::Mode::Edit => Mode::Edit,
    }
}

/// A session as others see it; the mode is filled in when asked.
#[derive(Clone)]
pub(super) struct Described(Session);

impl Described {
    /// Describes a plan.
    pub(super) fn new(plan: &Plan, id: &str) -> Self {
        Self(Session {
            id: id.to_owned(),
            mode: plan.mode,
            workspace: plan.workspace.display().to_string(),
            pid: i32::try_from(std::process::id()).unwrap_or(0),
            tier: plan.tier.tier.to_string(),
            command: plan.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
            started: now(),
        })
    }

    /// For the session's directory.
    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n"
    }
}

/// What decides on the session's changes.
pub(super) enum Changes {
    /// The launcher, call by call.
    Granted {
        grants: Arc<Grants>,
        /// How the session's processes are found.
        members: Members,
    },
    /// How the view was mounted.
    Fixed(Mode),
}

/// What a live session can be asked.
pub(super) struct Steering {
    described: Described,
    changes: Changes,
    record: Arc<Record>,
    /// One mode change at a time, so that the record tells them in their order.
    changing: Mutex<()>,
}

impl Steering {
    /// For a session that is about to run.
    pub(super) fn new(described: Described, changes: Changes, record: Arc<Record>) -> Self {
        Self {
            described,
            changes,
            record,
            changing: Mutex::new(()),
        }
    }

    fn session(&self) -> Session {
        Session {
            mode: match &self.changes {
                Changes::Granted { grants, .. } => wire_mode(grants.mode()),
                Changes::Fixed(mode) => *mode,
            },
            ..self.described.0.clone()
        }
    }

    /// Answers a person's request.
    pub(super) fn answer(&self, peer: &Peer, request: Request) -> Reply {
        match request {
            Request::Status => Reply::Status {
                session: self.session(),
            },
            Request::Mode { mode, stop_writers } => self
                .set_mode(peer, mode, stop_writers)
                .unwrap_or_else(|reason| Reply::Error { reason }),
        }
    }

    /// Sets the mode. Opening is recorded first and closing is done first: whatever fails, the narrower mode is in force.
    fn set_mode(&self, peer: &Peer, mode: Mode, stop: bool) -> Result<Reply, String> {
        let (grants, members) = match &self.changes {
            Changes::Granted { grants, members } => (grants, members),
            Changes::Fixed(is) => return fixed(*is, mode),
        };
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let event = |was: Mode, writers: usize, ended: usize| Event::Mode {
            was: was.to_string(),
            mode: mode.to_string(),
            by: peer.to_string(),
            writers,
            ended,
        };
        match mode {
            Mode::Edit => {
                let was = wire_mode(grants.mode());
                self.record
                    .append(&event(was, 0, 0))
                    .map_err(|e| format!("the mode stays {was}: {e}"))?;
                grants.set_mode(mode::Mode::Edit);
                Ok(Reply::Mode {
                    mode,
                    was,
                    writers: Vec::new(),
                    ended: Vec::new(),
                    complete: true,
                })
            }
            Mode::ReadOnly => {
                let was = wire_mode(grants.set_mode(mode::Mode::ReadOnly));
                let writers = || writers::find(grants, &members.list());
                let mut found = writers();
                let mut ended = Vec::new();
                if stop && !found.writers.is_empty() {
                    end_all(&found.writers);
                    ended = std::mem::replace(&mut found, writers()).writers;
                    ended.retain(|writer| writer.pid > 0);
                }
                let Found {
                    writers: open,
                    complete,
                } = found;
                let recorded = self.record.append(&event(was, open.len(), ended.len()));
                recorded.map_err(|e| format!("the mode is read-only, but {e}"))?;
                Ok(Reply::Mode {
                    mode,
                    was,
                    writers: open.into_iter().map(wire_writer).collect(),
                    ended: ended.into_iter().map(wire_writer).collect(),
                    complete,
                })
            }
        }
    }

    /// The agent side's tools.
    pub(super) fn tools(self: &Arc<Self>, retrievals: Arc<Retrievals>) -> SessionTools {
        SessionTools {
            steering: Arc::clone(self),
            retrievals,
        }
    }
}

/// A session whose mode was decided at its start stays in it.
fn fixed(is: Mode, asked: Mode) -> Result<Reply, String> {
    if is == asked {
        return Ok(Reply::Mode {
            mode: is,
            was: is,
            writers: Vec::new(),
            ended: Vec::new(),
            complete: true,
        });
    }
    let how = match asked {
        Mode::Edit => "with --edit",
        Mode::ReadOnly => "without --edit",
    };
    Err(format!(
        "the mode stays {is}: without granted calls (nested tier) it is decided at the start; end the session and start it {how}"
    ))
}

/// Ends processes that can still write, and gives them a moment to be gone.
fn end_all(open: &[OpenWriter]) {
    let mut ending = Vec::new();
    for writer in open.iter().filter(|w| w.pid > 0) {
        // One that has ended by itself, or was listed twice, is what was wanted.
        if let Ok(pidfd) = process::pidfd_open(writer.pid) {
            let _ = sys::pidfd_signal(pidfd.as_fd(), Signal::SIGKILL as i32);
            ending.push(pidfd);
        }
    }
    for pidfd in ending {
        let _ = process::ended(pidfd.as_fd(), 1000);
    }
}

fn wire_writer(writer: OpenWriter) -> Writer {
    let how = match writer.how {
        How::Descriptor(_) => "descriptor",
        How::Mapping => "mapping",
        How::Unseen => "parked",
    };
    Writer {
        pid: (writer.pid > 0).then_some(writer.pid),
        command: writer.command,
        path: writer.path.display().to_string(),
        how: how.to_owned(),
    }
}

/// What the launcher does for the agent's side.
pub(super) struct SessionTools {
    steering: Arc<Steering>,
    retrievals: Arc<Retrievals>,
}

impl Tools for SessionTools {
    fn answer(&self, request: tools::Request, progress: &mut dyn FnMut(String)) -> tools::Reply {
        match request {
            tools::Request::Status => {
                let session = self.steering.session();
                tools::Reply::Status {
                    session: session.id,
                    mode: session.mode.to_string(),
                    tier: session.tier,
                }
            }
            request => self.retrievals.answer(request, progress),
        }
    }
}
