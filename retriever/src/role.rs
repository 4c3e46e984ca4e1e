//! The retriever's process: locks itself, takes one job, answers once, ends.

use crate::fetch::{self, FetchError, Hops, Names};
use crate::{distil, extract, filter, github, probes, search, ticket};
use nix::sys::resource::{Resource, setrlimit};
use picktwo_confine::channel::{Channel, PARENT_FD};
use picktwo_confine::landlock::{self, Access};
use picktwo_confine::selfcheck::{self, SelfCheck};
use picktwo_confine::{Errno, Error, Role, filters, limits, seccomp};
use picktwo_wire::apis::Call;
use picktwo_wire::retrieval::{FromRetriever, Job, Resolve, Resolved, ToRetriever};
use picktwo_wire::{MessageError, decode, encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

/// Bytes of address space: a page that needs more ends this process, not the machine.
const MEMORY: u64 = 1 << 30;
/// Seconds of computing, fetching and distilling together.
const COMPUTING: u64 = 60;
/// Open descriptors.
const DESCRIPTORS: u64 = 64;
/// How long the other sides may take for one message before the job begins.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first messages of the channel to the web side carry a descriptor and nothing else.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

/// Why this process ends without an answer.
#[derive(Debug)]
enum End {
    Confine(Error),
    Message(MessageError),
    /// The other end is closed.
    Closed,
    /// A message of the wrong kind or with the wrong descriptors.
    Unexpected(&'static str),
    /// The event loop could not be made or used.
    Events(std::io::Error),
    Limit {
        limit: &'static str,
        errno: Errno,
    },
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Confine(e) => e.fmt(f),
            Self::Message(e) => e.fmt(f),
            Self::Closed => f.write_str("the channel was closed"),
            Self::Unexpected(what) => write!(f, "unexpected message: {what}"),
            Self::Events(e) => write!(f, "the event loop failed: {e}"),
            Self::Limit { limit, errno } => write!(f, "setting {limit} failed: {errno}"),
        }
    }
}

impl From<Error> for End {
    fn from(e: Error) -> Self {
        Self::Confine(e)
    }
}

impl From<MessageError> for End {
    fn from(e: MessageError) -> Self {
        Self::Message(e)
    }
}

impl From<End> for FetchError {
    fn from(e: End) -> Self {
        Self::Channel(e.to_string())
    }
}

/// Runs a retriever. Descriptor 3 is the channel to the web side; its first message brings the channel to the launcher, and the
/// first message back carries the listener of the granted calls.
#[must_use]
pub fn main_role() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> Result<(), End> {
    let outside = Channel::from_parent()?;
    let mut bytes = Vec::new();
    let mut descriptors = outside.recv(&mut bytes)?.ok_or(End::Closed)?;
    let _: Empty = decode(&bytes)?;
    let (Some(launcher), true) = (descriptors.pop(), descriptors.is_empty()) else {
        return Err(End::Unexpected("a start with one descriptor"));
    };
    let launcher = Channel::from(launcher);
    let outcome = serve(outside, &launcher);
    if let Err(end) = &outcome {
        let reason = filter::line(&end.to_string(), filter::MAX_NOTE, &mut filter::Removed::default());
        // Nobody else could be told.
        let _ = launcher.send(
            &encode(&FromRetriever::Failed {
                cause: "internal".to_owned(),
                reason,
            })?,
            &[],
        );
    }
    outcome
}

fn serve(outside: Channel, launcher: &Channel) -> Result<(), End> {
    limits::sweep(&[0, 1, 2, PARENT_FD, launcher.as_fd().as_raw_fd()])?;
    // It opens its descriptors before the lock; afterwards nothing does.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(End::Events)?;
    lock(&outside)?;
    launcher.send(&encode(&FromRetriever::Ready)?, &[])?;
    runtime.block_on(work(outside, launcher))
}

/// Locks this process, hands the listener of its granted calls to the web side, and keeps none of it.
fn lock(outside: &Channel) -> Result<(), End> {
    for (limit, name, value) in [
        (Resource::RLIMIT_AS, "RLIMIT_AS", MEMORY),
        (Resource::RLIMIT_CPU, "RLIMIT_CPU", COMPUTING),
        (Resource::RLIMIT_NOFILE, "RLIMIT_NOFILE", DESCRIPTORS),
        (Resource::RLIMIT_FSIZE, "RLIMIT_FSIZE", 0),
    ] {
        setrlimit(limit, value, value).map_err(|errno| End::Limit { limit: name, errno })?;
    }
    let check = SelfCheck::prepare()?;
    // It stays dumpable: otherwise the supervisor could not read the addresses it wants to connect to.
    limits::core_limit()?;
    limits::no_new_privs()?;
    let bounding_empty = limits::drop_all_capabilities()?;
    limits::new_session_keyring()?;
    landlock::restrict(Access::none())?;
    let plain = filters::for_role(Role::Retriever);
    let listener = seccomp::install_both(&plain, &filters::retriever_notify())?;
    check.locked(bounding_empty, &selfcheck::denied_by(&plain))?;
    outside.send(&encode(&Empty {})?, &[listener.as_fd()])?;
    Ok(())
}

async fn work(outside: Channel, launcher: &Channel) -> Result<(), End> {
    let (job, descriptors) = tokio::time::timeout(PATIENCE, receive_with(launcher))
        .await
        .map_err(|_| End::Unexpected("a job in time"))??;
    let ToRetriever::Job(job) = job else {
        return Err(End::Unexpected("a job"));
    };
    if !job.probes.is_empty() {
        return probes::run(&job.probes, |report| Ok(launcher.send(&encode(&report)?, &[])?));
    }
    let mut descriptors = descriptors.into_iter();
    let retrieved = match (&job.ticket, descriptors.next(), descriptors.next()) {
        (None, None, None) => retrieve(&job, outside, launcher).await,
        (Some(call), Some(answers), None) => redeem(&job, call, &Channel::from(answers)).await,
        _ => return Err(End::Unexpected("a job with another descriptor than a ticket's")),
    };
    let last = match retrieved {
        Ok(done) => done,
        Err(e) => FromRetriever::Failed {
            cause: e.cause().to_owned(),
            reason: e.reason(),
        },
    };
    launcher.send(&encode(&last)?, &[])?;
    Ok(())
}

async fn retrieve(job: &Job, outside: Channel, launcher: &Channel) -> Result<FromRetriever, FetchError> {
    let names: Arc<dyn Names> = Arc::new(Outside(Arc::new(Mutex::new(outside))));
    let document = fetch::fetch(&job.url, &job.limits, &job.roots, names, &mut Launcher(launcher)).await?;
    let fetched = rfc3339(SystemTime::now());
    let read = catch_unwind(AssertUnwindSafe(|| {
        let page = extract::read(&document)?;
        Ok(distil::distil(
            &document,
            &page,
            job.question.as_deref(),
            job.budget,
            &fetched,
        ))
    }));
    let answer = read.unwrap_or_else(|_| Err(FetchError::Encoding("reading it failed".to_owned())))?;
    Ok(FromRetriever::Answer {
        answer: Box::new(answer),
        wire_bytes: document.wire_bytes,
    })
}

/// Reads what a ticket brings.
async fn redeem(job: &Job, call: &Call, answers: &Channel) -> Result<FromRetriever, FetchError> {
    let received = ticket::receive(answers, &job.limits).await?;
    let fetched = rfc3339(SystemTime::now());
    let wire_bytes = received.iter().map(|r| r.body.len() as u64).sum();
    let read = catch_unwind(AssertUnwindSafe(|| match call {
        Call::Search(search) => search::read(search, &received, &fetched),
        Call::Github(repository) => github::read(
            &github::Wanted {
                github: &repository.github,
                question: job.question.as_deref(),
                budget: job.budget,
                fetched: &fetched,
            },
            &received,
        ),
    }));
    let answer = read.unwrap_or_else(|_| Err(FetchError::Encoding("reading it failed".to_owned())))?;
    Ok(FromRetriever::Answer {
        answer: Box::new(answer),
        wire_bytes,
    })
}

/// Names are resolved by the web side, one at a time.
struct Outside(Arc<Mutex<Channel>>);

impl Names for Outside {
    fn resolve(&self, host: String) -> Pin<Box<dyn Future<Output = Result<Resolved, String>> + Send>> {
        let channel = Arc::clone(&self.0);
        Box::pin(async move {
            let channel = channel.lock().await;
            let asked = encode(&Resolve { host: host.clone() }).map_err(|e| e.to_string())?;
            channel.send(&asked, &[]).map_err(|e| e.to_string())?;
            loop {
                let resolved: Resolved = receive(&channel).await.map_err(|e| e.to_string())?;
                // An answer to a question that was given up on in the meantime.
                if resolved.host == host {
                    return Ok(resolved);
                }
            }
        })
    }
}

/// Hops are told to the launcher, which decides on redirects.
struct Launcher<'a>(&'a Channel);

impl Hops for Launcher<'_> {
    async fn hop(&mut self, url: &str, status: u16, location: Option<&str>) -> Result<(), FetchError> {
        let hop = FromRetriever::Hop {
            url: url.to_owned(),
            status,
            location: location.map(str::to_owned),
        };
        let bytes = encode(&hop).map_err(End::from)?;
        self.0.send(&bytes, &[]).map_err(End::from)?;
        if location.is_none() {
            return Ok(());
        }
        match receive(self.0).await? {
            ToRetriever::Follow => Ok(()),
            ToRetriever::Refuse { rule, reason } => Err(FetchError::RefusedRedirect { rule, reason }),
            ToRetriever::Job(_) => Err(End::Unexpected("a second job").into()),
        }
    }
}

/// Waits for one message that brings no descriptors.
async fn receive<T: DeserializeOwned>(channel: &Channel) -> Result<T, End> {
    match receive_with(channel).await? {
        (message, descriptors) if descriptors.is_empty() => Ok(message),
        _ => Err(End::Unexpected("descriptors that nobody asked for")),
    }
}

/// Waits for one message without keeping the event loop from other work.
async fn receive_with<T: DeserializeOwned>(channel: &Channel) -> Result<(T, Vec<OwnedFd>), End> {
    let mut bytes = Vec::new();
    // Registered anew for each message, so that one which is already there is seen. The safe constructor is deprecated for
    // owners that may close their descriptor; a borrowed one stays open here.
    #[allow(deprecated)]
    let ready: AsyncFd<BorrowedFd<'_>> =
        AsyncFd::with_interest(channel.as_fd(), Interest::READABLE).map_err(End::Events)?;
    loop {
        let mut guard = ready.readable().await.map_err(End::Events)?;
        match channel.try_recv(&mut bytes) {
            Ok(None) => return Err(End::Closed),
            Ok(Some(descriptors)) => return Ok((decode(&bytes)?, descriptors)),
            Err(e) if e.errno() == Some(Errno::EAGAIN) => guard.clear_ready(),
            Err(e) => return Err(e.into()),
        }
    }
}

/// A time as RFC 3339 in UTC, to the second.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01 in eras of 400 years (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_796_000_000, "2026-11-30T00:53:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
