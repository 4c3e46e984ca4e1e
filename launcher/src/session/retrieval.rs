//! One retrieval from the launcher's side: what may leave is checked before it leaves, every step is recorded before it happens,
//! and what comes back is bounded and checked again.

use super::apis::{ApiKeys, Apis, Reading, Searching};
use super::github;
use super::start::StartError;
use super::web::{Retriever, Web};
use crate::record::{self, Event, Record};
use picktwo_confine::channel::Channel;
use picktwo_policies::model::Policy;
use picktwo_policies::outgoing::{Guard, Secret, Target};
use picktwo_wire::answer::{Answer, BlockKind};
use picktwo_wire::apis::ApiAddresses;
use picktwo_wire::retrieval::{FromRetriever, FromWeb, HostPort, Job, Limits, ToRetriever, WebStart};
use picktwo_wire::tools::{Reply, Request};
use picktwo_wire::{MAX_QUESTION, MAX_URL};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tokens of an answer if nobody said.
const DEFAULT_BUDGET: u32 = 2000;
/// The most tokens of an answer.
const MAX_BUDGET: u32 = 16_000;

/// The web side's first message, from the policy.
fn web_start(policy: &Policy, apis: &ApiAddresses) -> WebStart {
    let private = &policy.retrieval.private;
    WebStart {
        nameservers: super::secrets::nameservers(),
        private: private
            .iter()
            .map(|p| HostPort {
                host: p.host.clone(),
                port: p.port,
            })
            .collect(),
        ports: policy.retrieval.ports.iter().map(|p| p.value).collect(),
        parallel: usize::try_from(policy.limits.parallel.value).unwrap_or(1),
        apis: apis.clone(),
    }
}

fn limits(policy: &Policy) -> Limits {
    let l = &policy.limits;
    Limits {
        connect_ms: l.connect_seconds.value * 1000,
        total_ms: l.fetch_seconds.value * 1000,
        wire_bytes: l.wire_bytes.value,
        decoded_bytes: l.decoded_bytes.value,
        redirects: u32::try_from(l.redirects.value).unwrap_or(0),
        ..Limits::default()
    }
}

/// The check of what leaves, which knows the session's keys by their shape only.
fn guard(policy: &Policy, models: &[&str], apis: &ApiKeys) -> Guard {
    let models = models.iter().map(|k| Secret {
        name: "a model key of this session".to_owned(),
        value: (*k).to_owned(),
    });
    let secrets: Vec<Secret> = models.chain(apis.secrets()).collect();
    Guard::new(&policy.retrieval, &secrets)
}

/// The trust anchors that the policy names, in DER.
///
/// # Errors
/// If a file cannot be read or holds no certificate.
fn roots(policy: &Policy) -> Result<Vec<Vec<u8>>, StartError> {
    let mut roots = Vec::new();
    for name in &policy.retrieval.roots {
        let path = super::key::expand_home(&name.value);
        let bytes = std::fs::read(&path).map_err(|e| StartError::File("read", path.clone(), e))?;
        let place = || format!("{} ({}, line {})", path.display(), name.place.file(), name.place.line());
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes)
            .map(|c| c.map(|c| c.to_vec()))
            .collect();
        let found = match found {
            Ok(found) if !found.is_empty() => found,
            _ => return Err(StartError::Policy(format!("{} holds no certificate in PEM", place()))),
        };
        roots.extend(found);
    }
    Ok(roots)
}

/// The retrievals of one session.
pub(crate) struct Retrievals {
    pub(super) web: Arc<Web>,
    pub(super) apis: Arc<Apis>,
    pub(super) search: Searching,
    pub(super) github: Reading,
    record: Arc<Record>,
    guard: Mutex<Guard>,
    pub(super) limits: Limits,
    roots: Vec<Vec<u8>>,
}

/// What retrievals need beside the policy, made while the launcher could still read files.
pub(crate) struct Means {
    /// The check of what leaves.
    pub(crate) guard: Guard,
    /// Trust anchors, DER.
    pub(crate) roots: Vec<Vec<u8>>,
    /// The retrievers' gateway, with its keys.
    pub(crate) apis: Apis,
    /// Where the gateway may be connected to.
    pub(crate) addresses: ApiAddresses,
    /// Who searches.
    pub(crate) search: Searching,
    /// How GitHub is read.
    pub(crate) github: Reading,
}

impl Means {
    /// Reads the files and keys that the policy names. `models`: the model keys, which must not leave either.
    ///
    /// # Errors
    /// If a trust anchor cannot be read, or the gateway's channel not be made.
    pub(crate) fn read(policy: &Policy, models: &[&str]) -> Result<Self, StartError> {
        let roots = roots(policy)?;
        let keys = ApiKeys::read(policy);
        Ok(Self {
            guard: guard(policy, models, &keys),
            addresses: keys.addresses(),
            search: keys.search.clone(),
            github: keys.github.clone(),
            apis: keys.hand_over(&roots).map_err(StartError::Policy)?,
            roots,
        })
    }
}

/// How a retrieval ended before there was an answer.
pub(super) enum Stop {
    /// By this rule, for this reason.
    Refused(&'static str, String),
    Failed {
        cause: String,
        reason: String,
    },
}

impl Stop {
    pub(super) fn failed(cause: &str, reason: impl std::fmt::Display) -> Self {
        Self::Failed {
            cause: cause.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// In a retriever's words, which are a stranger's.
    pub(super) fn told(cause: &str, reason: &str) -> Self {
        Self::Failed {
            cause: shown(cause),
            reason: shown(reason),
        }
    }
}

impl Retrievals {
    /// For a session whose web side is `web`.
    pub(crate) fn new(channel: Channel, record: Arc<Record>, policy: &Policy, means: Means) -> Self {
        Self {
            web: Arc::new(Web::new(channel, web_start(policy, &means.addresses))),
            apis: Arc::new(means.apis),
            search: means.search,
            github: means.github,
            record,
            guard: Mutex::new(means.guard),
            limits: limits(policy),
            roots: means.roots,
        }
    }

    /// Does what is asked of the web side.
    pub(crate) fn answer(&self, request: Request, progress: &mut dyn FnMut(String)) -> Reply {
        match request {
            Request::Fetch { url, question, budget } => self.fetch(&url, question, budget, progress),
            Request::Search { query, results } => self.search(&query, results, progress),
            Request::Github {
                github,
                question,
                budget,
            } => self.github(github, question, budget, progress),
            Request::Status => Reply::Failed {
                cause: "bad-request".to_owned(),
                reason: "this is no retrieval".to_owned(),
            },
        }
    }

    /// Does one retrieval.
    fn fetch(
        &self,
        url: &str,
        question: Option<String>,
        budget: Option<u32>,
        progress: &mut dyn FnMut(String),
    ) -> Reply {
        Self::reply(self.try_fetch(url, question, budget, progress))
    }

    pub(super) fn reply(outcome: Result<Answer, Stop>) -> Reply {
        match outcome {
            Ok(answer) => Reply::Answer {
                answer: Box::new(answer),
            },
            Err(Stop::Refused(rule, reason)) => Reply::Refused {
                rule: rule.to_owned(),
                reason,
            },
            Err(Stop::Failed { cause, reason }) => Reply::Failed { cause, reason },
        }
    }

    pub(super) fn note(&self, event: &Event) -> Result<(), Stop> {
        self.record
            .append(event)
            .map_err(|e| Stop::failed("record", format!("nothing was fetched: {e}")))
    }

    fn try_fetch(
        &self,
        url: &str,
        question: Option<String>,
        budget: Option<u32>,
        progress: &mut dyn FnMut(String),
    ) -> Result<Answer, Stop> {
        if url.len() > MAX_URL || question.as_ref().is_some_and(|q| q.len() > MAX_QUESTION) {
            let reason = format!("a URL may have {MAX_URL} bytes and a question {MAX_QUESTION}: ask for less");
            return Err(Stop::Refused("length", reason));
        }
        // What GitHub shows of a repository is read as what it is, without the page around it, and of the API's host only.
        if let Some(github) = github::operation(url) {
            return self.try_github(github, question, budget, progress);
        }
        let checked = self.guard().check(url, question.as_deref());
        let target = match checked {
            Ok(target) => target,
            Err(refusal) => {
                let host = refusal.host.unwrap_or_default();
                self.note(&Event::Blocked {
                    host,
                    rule: refusal.rule.to_owned(),
                })?;
                return Err(Stop::Refused(refusal.rule, refusal.reason));
            }
        };
        progress(format!("asking {}", target.host));
        let retriever = self.web.retriever().map_err(|e| Stop::failed("web-side", e))?;
        let job = Job {
            question: question.clone(),
            budget: Self::budget(budget),
            roots: self.roots.clone(),
            ..self.job(target.url.clone())
        };
        self.note(&Event::Request {
            retrieval: retriever.id,
            url: target.url.clone(),
            question,
        })?;
        let outcome = self.converse(&retriever, job, target, progress);
        self.note_events(&retriever)?;
        let mut visited = Vec::new();
        let outcome = outcome.map(|(answer, wire_bytes, urls)| {
            visited = urls;
            (answer, wire_bytes)
        });
        let answer = self.finish(retriever.id, outcome)?;
        self.learn(&visited, &answer);
        Ok(answer)
    }

    /// A job that is nothing yet but bounded.
    pub(super) fn job(&self, url: String) -> Job {
        Job {
            url,
            question: None,
            budget: DEFAULT_BUDGET,
            limits: self.limits.clone(),
            roots: Vec::new(),
            ticket: None,
            probes: Vec::new(),
        }
    }

    /// Tokens of an answer.
    pub(super) fn budget(wanted: Option<u32>) -> u32 {
        wanted.unwrap_or(DEFAULT_BUDGET).clamp(50, MAX_BUDGET)
    }

    /// Keeps and records what came of a retrieval.
    pub(super) fn finish(&self, id: u64, outcome: Result<(Answer, u64), Stop>) -> Result<Answer, Stop> {
        let retrieved = |outcome: &str, wire_bytes, answer: Option<&Answer>| Event::Retrieved {
            retrieval: id,
            outcome: outcome.to_owned(),
            wire_bytes,
            sources: answer
                .map(|a| a.sources.iter().map(|s| s.sha256.clone()).collect())
                .unwrap_or_default(),
            answer: answer.map(|a| record::hash(&kept(a))),
            flags: answer
                .map(|a| a.flags.iter().map(|f| f.id.clone()).collect())
                .unwrap_or_default(),
        };
        match outcome {
            Ok((answer, wire_bytes)) => {
                let file = format!("{}/{id}.json", crate::names::RETRIEVALS);
                self.record
                    .write_file(&file, &kept(&answer))
                    .map_err(|e| Stop::failed("record", e))?;
                self.note(&retrieved("answered", wire_bytes, Some(&answer)))?;
                Ok(answer)
            }
            Err(stop) => {
                let cause = match &stop {
                    Stop::Refused(rule, _) => rule,
                    Stop::Failed { cause, .. } => cause.as_str(),
                };
                self.note(&retrieved(cause, 0, None))?;
                Err(stop)
            }
        }
    }

    /// An answer as it may go on to the agent.
    pub(super) fn accepted(answer: &Answer) -> Result<Answer, Stop> {
        picktwo_retriever::filter::check(answer)
            .map_err(|e| Stop::failed("answer", format!("the retriever's answer was not accepted: {e}")))
    }

    /// Speaks with a retriever until its last word. Whatever it says is a stranger's.
    fn converse(
        &self,
        retriever: &Retriever<'_>,
        job: Job,
        mut at: Target,
        progress: &mut dyn FnMut(String),
    ) -> Result<(Answer, u64, Vec<String>), Stop> {
        match self.next(retriever)? {
            FromRetriever::Ready => {}
            _ => return Err(Stop::failed("retriever", "the retriever did not start as it should")),
        }
        let mut hops = 0;
        let mut visited = vec![at.url.clone()];
        self.tell(retriever, &ToRetriever::Job(Box::new(job)), &[])?;
        loop {
            match self.next(retriever)? {
                FromRetriever::Hop { url, status, location } => {
                    self.note_events(retriever)?;
                    hops += 1;
                    if hops > self.limits.redirects + 1 {
                        return Err(Stop::failed("redirect", "too many redirects"));
                    }
                    if let Some(next) = self.hop(retriever, &at, url, status, location)? {
                        progress(format!("redirected to {}", next.host));
                        visited.push(next.url.clone());
                        at = next;
                    }
                }
                FromRetriever::Answer { answer, wire_bytes } => {
                    return Ok((Self::accepted(&answer)?, wire_bytes, visited));
                }
                FromRetriever::Failed { cause, reason } => {
                    return Err(Stop::told(&cause, &reason));
                }
                FromRetriever::Ready | FromRetriever::Probe { .. } => {
                    return Err(Stop::failed("retriever", "the retriever said something out of turn"));
                }
            }
        }
    }

    /// Decides on a redirect; gives where it leads. `at` is what was asked for, whatever the retriever says it was.
    fn hop(
        &self,
        retriever: &Retriever<'_>,
        at: &Target,
        url: String,
        status: u16,
        location: Option<String>,
    ) -> Result<Option<Target>, Stop> {
        let url = shown(&url);
        let Some(location) = location else {
            self.note(&Event::Hop {
                retrieval: retriever.id,
                url,
                status,
                location: None,
                refused: None,
            })?;
            // The connection for the body stands: from here on, where content is read, there is no other.
            retriever.no_more().map_err(|e| Stop::failed("web-side", e))?;
            return Ok(None);
        };
        let checked = self.guard().redirect(at, &location);
        let to = shown(&location);
        let event = |refused| Event::Hop {
            retrieval: retriever.id,
            url,
            status,
            location: Some(to),
            refused,
        };
        match checked {
            Ok(next) => {
                self.note(&event(None))?;
                self.tell(retriever, &ToRetriever::Follow, &[])?;
                Ok(Some(next))
            }
            Err(refusal) => {
                self.note(&event(Some(refusal.rule.to_owned())))?;
                let told = ToRetriever::Refuse {
                    rule: refusal.rule.to_owned(),
                    reason: refusal.reason.clone(),
                };
                self.tell(retriever, &told, &[])?;
                Err(Stop::Refused(refusal.rule, refusal.reason))
            }
        }
    }

    pub(super) fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked for may be asked for again, and so may what the page links to on its own site. The addresses are those that
    /// the launcher let through, not those that the retriever names.
    fn learn(&self, visited: &[String], answer: &Answer) {
        let mut guard = self.guard();
        for url in visited {
            guard.found(url);
        }
        let Some(page) = visited.last() else { return };
        for block in answer.answer.iter().filter(|b| b.kind == BlockKind::Links) {
            for link in block.text.lines().filter_map(linked_url) {
                guard.linked(page, &link);
            }
        }
    }

    pub(super) fn next(&self, retriever: &Retriever<'_>) -> Result<FromRetriever, Stop> {
        let mut buffer = Vec::new();
        match retriever.channel.recv(&mut buffer) {
            Ok(Some(_)) => picktwo_wire::decode(&buffer).map_err(|e| Stop::failed("retriever", e)),
            Ok(None) => Err(Stop::failed("retriever", "the retriever ended without an answer")),
            Err(e) => Err(Stop::failed("retriever", e)),
        }
    }

    pub(super) fn tell(
        &self,
        retriever: &Retriever<'_>,
        message: &ToRetriever,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Stop> {
        let bytes = picktwo_wire::encode(message).map_err(|e| Stop::failed("retriever", e))?;
        retriever
            .channel
            .send(&bytes, fds)
            .map_err(|e| Stop::failed("retriever", e))
    }

    /// Records what `outside` has reported of a retriever by now.
    pub(super) fn note_events(&self, retriever: &Retriever<'_>) -> Result<(), Stop> {
        for event in retriever.events.try_iter() {
            match event {
                FromWeb::Resolved { id, host, addresses } => self.note(&Event::Resolved {
                    retrieval: id,
                    host,
                    addresses,
                })?,
                FromWeb::Connection {
                    id,
                    host,
                    address,
                    outcome,
                } => {
                    self.note(&Event::Connection {
                        retrieval: id,
                        host,
                        address,
                        outcome,
                    })?;
                }
                FromWeb::Ended { .. } | FromWeb::Ready | FromWeb::Failed { .. } => {}
            }
        }
        Ok(())
    }
}

/// The bytes of an answer as they are kept and hashed.
fn kept(answer: &Answer) -> Vec<u8> {
    serde_json::to_vec(answer).unwrap_or_default()
}

/// The URL of one line of a list of links: `[3] https://host/path`.
pub(super) fn linked_url(line: &str) -> Option<String> {
    let url = line.strip_prefix('[')?.split_once("] ")?.1.trim();
    url.starts_with("http").then(|| url.to_owned())
}

/// A stranger's words on one line, filtered and cut.
fn shown(text: &str) -> String {
    picktwo_retriever::filter::line(text, MAX_URL, &mut picktwo_retriever::filter::Removed::default())
}
