//! Takes tickets from the launcher and serves each once.

use super::exchange::{Answer, Called, Failure, Line, Upstream};
use super::storage::Storage;
use super::{Error, search};
use crate::gateway::channel::AsyncChannel;
use crate::gateway::pool::Pool;
use picktwo_confine::channel::Channel;
use picktwo_wire::apis::{self, ApisStart, Call, FromApis, MAX_CHUNK, Part, Repository, Service, Ticket};
use picktwo_wire::{decode, encode};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Reports that may wait for the launcher.
const QUEUE: usize = 256;
/// How long a retriever may take to read what it was sent.
const READING: Duration = Duration::from_secs(60);

/// What all tickets share.
pub(super) struct Apis {
    pub(super) upstreams: Vec<Upstream>,
    pub(super) storage: Vec<Storage>,
    pub(super) pool: Arc<Pool>,
    /// Repositories that were seen to be public, and when.
    pub(super) public: Mutex<HashMap<String, Instant>>,
    reports: mpsc::Sender<FromApis>,
}

/// Serves until the launcher's end of the channel is closed.
pub(crate) async fn serve(launcher: &Channel, outside: Channel, start: ApisStart) -> Result<(), Error> {
    let upstreams = start
        .upstreams
        .iter()
        .map(Upstream::new)
        .collect::<Result<Vec<_>, _>>()?;
    let storage = start
        .storage
        .iter()
        .map(|text| Storage::read(text).ok_or_else(|| Error::Storage(text.clone())))
        .collect::<Result<Vec<_>, _>>()?;
    // The event loop owns one descriptor of the channel, the process's last words go over the other.
    let duplicate = launcher.as_fd().try_clone_to_owned().map_err(Error::Channel)?;
    let launcher = Arc::new(AsyncChannel::new(Channel::from(duplicate)).map_err(Error::Channel)?);
    let outside = AsyncChannel::new(outside).map_err(Error::Channel)?;
    let (reports, mut waiting) = mpsc::channel::<FromApis>(QUEUE);
    let speaking = launcher.clone();
    tokio::spawn(async move {
        while let Some(report) = waiting.recv().await {
            let Ok(message) = encode(&report) else { continue };
            if speaking.send(&message).await.is_err() {
                return;
            }
        }
    });
    let shared = Arc::new(Apis {
        upstreams,
        storage,
        pool: Arc::new(Pool::start(outside, start.roots)),
        public: Mutex::new(HashMap::new()),
        reports,
    });
    while let Some((message, mut fds)) = launcher.recv().await.map_err(Error::Channel)? {
        let ticket: Ticket = decode(&message)?;
        let (Some(fd), true) = (fds.pop(), fds.is_empty()) else {
            return Err(Error::NoTicketChannel);
        };
        let channel = AsyncChannel::new(Channel::from(fd)).map_err(Error::Channel)?;
        let shared = shared.clone();
        tokio::spawn(async move { shared.ticket(ticket, &channel).await });
    }
    Ok(())
}

impl Apis {
    async fn ticket(&self, ticket: Ticket, channel: &AsyncChannel) {
        let limit = Duration::from_millis(ticket.limits.total_ms);
        let last = match timeout(limit, self.run(&ticket, channel)).await {
            Ok(Ok(())) => Part::Done,
            Ok(Err(Failure { cause, reason })) => Part::Failed {
                cause: cause.to_owned(),
                reason,
            },
            Err(_) => Part::Failed {
                cause: "timeout".to_owned(),
                reason: format!("no whole answer within {} ms", ticket.limits.total_ms),
            },
        };
        if let Ok(bytes) = apis::part(&last) {
            // A retriever that has ended does not miss it.
            let _ = timeout(READING, channel.send(&bytes)).await;
        }
        let _ = self.reports.send(FromApis::Done { id: ticket.id }).await;
    }

    async fn run(&self, ticket: &Ticket, channel: &AsyncChannel) -> Result<(), Failure> {
        let mut called = Called::new(ticket.id, self.reports.clone());
        let room = ticket.limits.wire_bytes;
        match &ticket.call {
            Call::Search(search) => {
                let (line, upstream) = self.upstream(search.service)?;
                let ask = search::ask(upstream, search)
                    .ok_or_else(|| Failure::new("internal", "the ticket is not one that can be served"))?;
                let answer = upstream.exchange(&self.pool, line, &ask, room, &mut called).await?;
                send(channel, &answer).await
            }
            Call::Github(Repository { github, private }) => {
                let mut answers = Vec::new();
                self.github(github, *private, room, &mut called, &mut answers).await?;
                for answer in &answers {
                    send(channel, answer).await?;
                }
                Ok(())
            }
        }
    }

    pub(super) fn upstream(&self, service: Service) -> Result<(Line<'static>, &Upstream), Failure> {
        let found = self.upstreams.iter().enumerate().find(|(_, u)| u.service == service);
        found
            .map(|(index, upstream)| (Line { index, host: None }, upstream))
            .ok_or_else(|| Failure::new("internal", format!("{} is not configured", service.label())))
    }
}

/// Writes an answer into a ticket's channel.
async fn send(channel: &AsyncChannel, answer: &Answer) -> Result<(), Failure> {
    let gone = |e: std::io::Error| Failure::new("internal", format!("the retriever does not read: {e}"));
    let head = apis::part(&Part::Head(answer.head.clone())).map_err(|e| Failure::new("internal", e.to_string()))?;
    channel.send(&head).await.map_err(gone)?;
    for chunk in answer.body.chunks(MAX_CHUNK) {
        channel.send(&apis::data(chunk)).await.map_err(gone)?;
    }
    Ok(())
}
