//! Retrievals by ticket: what is asked is checked and recorded as for any other, and read by a retriever that has no way out.

use super::apis::Searching;
use super::retrieval::{Retrievals, Stop};
use super::web::Retriever;
use crate::record::Event;
use picktwo_confine::channel;
use picktwo_wire::MAX_QUESTION;
use picktwo_wire::answer::{Answer, BlockKind};
use picktwo_wire::apis::{Call, FromApis, MAX_QUERY, MAX_RESULTS, Repository, Search, Ticket};
use picktwo_wire::github::Github;
use picktwo_wire::retrieval::{FromRetriever, Job, ToRetriever};
use picktwo_wire::tools::Reply;
use std::os::fd::AsFd;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Results of a search if nobody said.
const RESULTS: u32 = 8;
/// How long the gateway's report of what it sent is waited for, once the answer is there.
const REPORTS: Duration = Duration::from_secs(2);

impl Retrievals {
    /// Does one search of the web.
    pub(crate) fn search(&self, query: &str, results: Option<u32>, progress: &mut dyn FnMut(String)) -> Reply {
        Self::reply(self.try_search(query, results, progress))
    }

    fn try_search(&self, query: &str, results: Option<u32>, progress: &mut dyn FnMut(String)) -> Result<Answer, Stop> {
        let (service, host) = match &self.search {
            Searching::Through(service, host) => (*service, host),
            Searching::Not(reason) => return Err(Stop::failed("no-search-provider", reason)),
        };
        let query = query.trim();
        if query.is_empty() || query.len() > MAX_QUERY || query.chars().any(char::is_control) {
            let reason = format!("a search query is one line of at most {MAX_QUERY} bytes");
            return Err(Stop::Refused("length", reason));
        }
        self.may_leave(host, query)?;
        progress(format!("asking {}", service.label()));
        let search = Search {
            service,
            query: query.to_owned(),
            results: results.unwrap_or(RESULTS).clamp(1, MAX_RESULTS),
        };
        let event = |retrieval| Event::Search {
            retrieval,
            provider: service.name().to_owned(),
            query: query.to_owned(),
        };
        let answer = self.by_ticket(Call::Search(search), event, None, None)?;
        let mut guard = self.guard();
        for block in answer.answer.iter().filter(|b| b.kind == BlockKind::Links) {
            for url in block.text.lines().filter_map(super::retrieval::linked_url) {
                guard.found(&url);
            }
        }
        drop(guard);
        Ok(answer)
    }

    /// Reads something of GitHub.
    pub(crate) fn github(
        &self,
        github: Github,
        question: Option<String>,
        budget: Option<u32>,
        progress: &mut dyn FnMut(String),
    ) -> Reply {
        Self::reply(self.try_github(github, question, budget, progress))
    }

    pub(super) fn try_github(
        &self,
        github: Github,
        question: Option<String>,
        budget: Option<u32>,
        progress: &mut dyn FnMut(String),
    ) -> Result<Answer, Stop> {
        github.check().map_err(|why| Stop::Refused("arguments", why))?;
        if question.as_ref().is_some_and(|q| q.len() > MAX_QUESTION) {
            return Err(Stop::Refused(
                "length",
                format!("a question may have {MAX_QUESTION} bytes: ask for less"),
            ));
        }
        let words = format!("{}\n{}", github.words(), question.as_deref().unwrap_or(""));
        self.may_leave(&self.github.host, words.trim_end())?;
        if let Some(reason) = &self.github.not {
            return Err(Stop::failed("github-key", reason));
        }
        progress(format!("asking GitHub for {github}"));
        let private = github
            .repository()
            .is_some_and(|(owner, name)| self.github.policy.names(owner, name));
        let event = |retrieval| Event::Github {
            retrieval,
            operation: github.to_string(),
            question: question.clone(),
        };
        let call = Call::Github(Repository {
            github: github.clone(),
            private,
        });
        let answer = self.by_ticket(call, event, question.clone(), budget)?;
        let mut guard = self.guard();
        for block in answer.answer.iter().filter(|b| b.kind == BlockKind::Links) {
            for url in block.text.lines().filter_map(super::retrieval::linked_url) {
                guard.linked("https://github.com/", &url);
            }
        }
        drop(guard);
        Ok(answer)
    }

    /// Checks words that are about to leave for `host`, and charges them to the session's budget.
    fn may_leave(&self, host: &str, text: &str) -> Result<(), Stop> {
        let checked = self.guard().text(host, text);
        checked.or_else(|refusal| {
            self.note(&Event::Blocked {
                host: host.to_owned(),
                rule: refusal.rule.to_owned(),
            })?;
            Err(Stop::Refused(refusal.rule, refusal.reason))
        })
    }

    /// Has one operation done by the gateway and read by a retriever.
    fn by_ticket(
        &self,
        call: Call,
        event: impl FnOnce(u64) -> Event,
        question: Option<String>,
        budget: Option<u32>,
    ) -> Result<Answer, Stop> {
        let retriever = self.web.ticket(&self.apis).map_err(|e| Stop::failed("web-side", e))?;
        self.note(&event(retriever.id))?;
        let outcome = self.redeem(&retriever, call, question, budget);
        self.apis.over(retriever.id);
        self.note_events(&retriever)?;
        self.finish(retriever.id, outcome)
    }

    fn redeem(
        &self,
        retriever: &Retriever<'_>,
        call: Call,
        question: Option<String>,
        budget: Option<u32>,
    ) -> Result<(Answer, u64), Stop> {
        match self.next(retriever)? {
            FromRetriever::Ready => {}
            _ => return Err(Stop::failed("retriever", "the retriever did not start as it should")),
        }
        let (reader, writer) = channel::one_way().map_err(|e| Stop::failed("web-side", e))?;
        let ticket = Ticket {
            id: retriever.id,
            call: call.clone(),
            limits: self.limits.clone(),
        };
        let reports = self
            .apis
            .ticket(&ticket, writer.as_fd())
            .map_err(|e| Stop::failed("web-side", e))?;
        drop(writer);
        let job = Job {
            question,
            budget: Self::budget(budget),
            ticket: Some(call),
            ..self.job(String::new())
        };
        self.tell(retriever, &ToRetriever::Job(Box::new(job)), &[reader.as_fd()])?;
        drop(reader);
        let outcome = match self.next(retriever) {
            Ok(FromRetriever::Answer { answer, wire_bytes }) => {
                Self::accepted(&answer).map(|answer| (answer, wire_bytes))
            }
            Ok(FromRetriever::Failed { cause, reason }) => Err(Stop::told(&cause, &reason)),
            Ok(_) => Err(Stop::failed("retriever", "the retriever said something out of turn")),
            Err(stop) => Err(stop),
        };
        self.note_calls(&reports)?;
        outcome
    }

    /// Records what the gateway sent for a ticket.
    fn note_calls(&self, reports: &Receiver<FromApis>) -> Result<(), Stop> {
        while let Ok(report) = reports.recv_timeout(REPORTS) {
            let FromApis::Called {
                id,
                method,
                host,
                path,
                status,
                received,
                ms,
            } = report
            else {
                return Ok(());
            };
            self.note(&Event::Asked {
                retrieval: id,
                method,
                host,
                path,
                status,
                received,
                ms,
            })?;
        }
        Ok(())
    }
}
