//! The launcher's end of the model side: hands the key and the listening socket over, and records what the gateway reports.

use picktwo_confine::channel::{self, Channel};
use picktwo_confine::process::{self, Child};
use picktwo_confine::role::Role;
use picktwo_wire::gateway::{FromGateway, GatewayStart, ModelStart};
use std::os::fd::{AsFd, BorrowedFd};

/// Why the model side did not start.
#[derive(Debug)]
pub(crate) enum ModelError {
    /// A process or channel could not be made.
    Confine(picktwo_confine::error::Error),
    /// A message could not be written or read.
    Message(picktwo_wire::MessageError),
    /// The gateway ended or said something else than expected; holds what was expected.
    Silent(&'static str),
    /// The gateway said why it did not start.
    Refused(String),
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Confine(e) => write!(f, "the model gateway did not start: {e}"),
            Self::Message(e) => write!(f, "the model gateway did not start: {e}"),
            Self::Silent(what) => write!(f, "the model gateway ended before it was {what}"),
            Self::Refused(reason) => write!(f, "the model gateway did not start: {reason}"),
        }
    }
}

/// The model side of one session.
pub(crate) struct Model {
    /// Keeps `outside` alive: it ends when this closes.
    _outside: Channel,
    gateway: Channel,
    child: Child,
}

impl Model {
    /// Starts `outside`, model side; it starts the resolver and the gateway. Both lock themselves while the session is built.
    ///
    /// # Errors
    /// If a process or channel cannot be made.
    pub(crate) fn spawn(exe: BorrowedFd<'_>, start: &ModelStart) -> Result<Self, ModelError> {
        let (child, outside) = process::spawn_role(Role::OutsideModel, exe).map_err(ModelError::Confine)?;
        let (gateway, theirs) = channel::pair().map_err(ModelError::Confine)?;
        let bytes = picktwo_wire::encode(start).map_err(ModelError::Message)?;
        outside.send(&bytes, &[theirs.as_fd()]).map_err(ModelError::Confine)?;
        Ok(Self {
            _outside: outside,
            gateway,
            child,
        })
    }

    /// The process number of `outside`.
    pub(crate) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Waits for the gateway to be locked, then sends it the key and the session's listening socket.
    ///
    /// # Errors
    /// If the gateway ended, refused, or said something unexpected.
    pub(crate) fn serve(&self, start: &GatewayStart, listener: BorrowedFd<'_>) -> Result<(), ModelError> {
        match self.next("locked")? {
            FromGateway::Ready => {}
            FromGateway::Failed { reason } => return Err(ModelError::Refused(reason)),
            _ => return Err(ModelError::Silent("locked")),
        }
        let mut bytes = picktwo_wire::encode(start).map_err(ModelError::Message)?;
        let sent = self.gateway.send(&bytes, &[listener]).map_err(ModelError::Confine);
        bytes.fill(0);
        std::hint::black_box(&bytes);
        sent?;
        match self.next("serving")? {
            FromGateway::Serving => Ok(()),
            FromGateway::Failed { reason } => Err(ModelError::Refused(reason)),
            _ => Err(ModelError::Silent("serving")),
        }
    }

    /// Waits for the gateway to be locked, then has it try what its start message lists, until it ends. For `picktwo verify`.
    ///
    /// # Errors
    /// If the gateway ended before it was locked, or refused.
    pub(crate) fn judge(&self, start: &GatewayStart) -> Result<Vec<FromGateway>, ModelError> {
        match self.next("locked")? {
            FromGateway::Ready => {}
            FromGateway::Failed { reason } => return Err(ModelError::Refused(reason)),
            _ => return Err(ModelError::Silent("locked")),
        }
        let bytes = picktwo_wire::encode(start).map_err(ModelError::Message)?;
        self.gateway.send(&bytes, &[]).map_err(ModelError::Confine)?;
        let mut reports = Vec::new();
        loop {
            match self.next("done") {
                Ok(report) => reports.push(report),
                Err(ModelError::Silent(_)) => return Ok(reports),
                Err(error) => return Err(error),
            }
        }
    }

    /// The gateway's next report.
    ///
    /// # Errors
    /// [`ModelError::Silent`] when it has ended.
    pub(crate) fn next(&self, what: &'static str) -> Result<FromGateway, ModelError> {
        let mut buffer = Vec::new();
        match self.gateway.recv(&mut buffer).map_err(ModelError::Confine)? {
            Some(_) => picktwo_wire::decode(&buffer).map_err(ModelError::Message),
            None => Err(ModelError::Silent(what)),
        }
    }

    /// Ends the model side at once; the gateway and the resolver end with it.
    pub(crate) fn stop(&self) {
        // It may have ended by itself.
        let _ = self.child.signal(nix::sys::signal::Signal::SIGKILL);
    }
}
