//! A retrieval outside any session: the same web side and the same checks, with a record of its own.

use super::plan::{self, PlanError};
use super::retrieval::{Means, Retrievals};
use super::web;
use super::{id, policy};
use crate::names;
use crate::record::{Event, Record};
use picktwo_confine::landlock::{self, Access, Rights};
use picktwo_confine::role::Role;
use picktwo_confine::{filters, limits, process, seccomp};
use picktwo_wire::tools::{Reply, Request};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// Answers one request of `command` (`fetch`, `search` …) behind a wall of its own.
///
/// # Errors
/// What kept the wall from being built, as a sentence.
pub(crate) fn answer(
    command: &str,
    request: Request,
    extra: Option<&Path>,
    progress: &mut dyn FnMut(String),
) -> Result<Reply, String> {
    let tier = super::tier::retrieval().map_err(|e| e.to_string())?;
    let exe = process::own_executable().map_err(|e| e.to_string())?;
    let (channel, child) = web::fork_asleep(exe.as_fd()).map_err(|e| e.to_string())?;
    let loaded = policy::load(None, None, None, extra).map_err(|e| {
        let error = PlanError::Policy(Box::new(e));
        error
            .render(false)
            .trim_start_matches("picktwo: ")
            .trim_end()
            .to_owned()
    })?;
    let policy = loaded.policy;
    plan::enforceable(&policy).map_err(|e| e.render(false).trim_start_matches("picktwo: ").trim_end().to_owned())?;
    let id = id::new().map_err(|e| e.to_string())?;
    let record = Arc::new(Record::create(&id).map_err(|e| e.to_string())?);
    let means = Means::read(&policy, &[]).map_err(|e| e.to_string())?;
    let start = Event::Start {
        session: id,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tier: tier.to_string(),
        landlock: landlock::abi().map_err(|e| e.to_string())?,
        policy: policy::fingerprint(&policy),
        profile: names::FETCH_PROFILE.to_owned(),
        workspace: String::new(),
        command: vec!["picktwo".to_owned(), command.to_owned()],
        mode: "read-only".to_owned(),
        bounds: None,
    };
    record.append(&start).map_err(|e| e.to_string())?;
    confine(&record).map_err(|e| e.to_string())?;

    let retrievals = Retrievals::new(channel, Arc::clone(&record), &policy, means);
    let reply = retrievals.answer(request, progress);
    let code = i32::from(!matches!(reply, Reply::Answer { .. }));
    record.append(&Event::End { code }).map_err(|e| e.to_string())?;
    drop(retrievals);
    drop(child);
    Ok(reply)
}

/// This process has the person's files: it may keep its record and nothing else from here on, and has no network.
fn confine(record: &Record) -> picktwo_confine::error::Result<()> {
    let access = Access::none()
        .allow_unix_connect()
        .allow_signals()
        .path(Rights::Read, Path::new("/proc"))?
        .path(Rights::Write, record.dir())?;
    landlock::restrict(access)?;
    limits::no_new_privs()?;
    limits::core_limit()?;
    seccomp::install(&filters::for_role(Role::Launcher))
}
