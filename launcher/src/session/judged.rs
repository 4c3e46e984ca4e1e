//! Roles of the network's side, started as for a session and told to try escapes instead of their work.

use super::model::Model;
use super::web::{self, Web};
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::process::{self, Child, Exit};
use picktwo_confine::role::Role;
use picktwo_outside::model::FromModel;
use picktwo_outside::resolver::{Start, Started};
use picktwo_wire::apis::{ApisStart, FromApis};
use picktwo_wire::gateway::{FromGateway, GatewayStart, ModelStart, Protocol, Upstream, UpstreamAddress};
use picktwo_wire::judged::{self, Try};
use picktwo_wire::retrieval::{FromRetriever, FromWeb, Job, Limits, ToRetriever, ToWeb, WebStart};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// What a role said of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Name of the probe.
    pub(crate) id: String,
    /// `escaped`, `denied` or `unavailable`.
    pub(crate) outcome: String,
    /// The error's number, or 0.
    pub(crate) errno: i32,
}

/// All that one process said, and how it ended.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// In the order asked.
    pub(crate) reports: Vec<Report>,
    /// The signal that ended it, if one did; 0 where only its end was seen.
    pub(crate) signal: Option<i32>,
}

/// Starts one retriever for each list. Must be called while this process has one thread; it has two afterwards.
///
/// # Errors
/// What kept them from starting, as a sentence.
pub(crate) fn retrievers(lists: &[Vec<String>]) -> Result<Vec<Said>, String> {
    let exe = process::own_executable().map_err(|e| e.to_string())?;
    let (channel, child) = web::fork_asleep(exe.as_fd()).map_err(|e| e.to_string())?;
    let start = WebStart {
        nameservers: Vec::new(),
        private: Vec::new(),
        ports: vec![80, 443],
        parallel: 1,
        apis: Default::default(),
    };
    let web = Arc::new(Web::new(channel, start));
    let said = lists.iter().map(|list| retriever(&web, list)).collect();
    // It ends with its channel; the signal covers one that hangs.
    let _ = child.signal(nix::sys::signal::Signal::SIGKILL);
    said
}

fn retriever(web: &Arc<Web>, probes: &[String]) -> Result<Said, String> {
    let retriever = web.retriever().map_err(|e| e.to_string())?;
    let mut said = Said::default();
    let mut buffer = Vec::new();
    while retriever
        .channel
        .recv(&mut buffer)
        .map_err(|e| e.to_string())?
        .is_some()
    {
        match picktwo_wire::decode(&buffer).map_err(|e| e.to_string())? {
            FromRetriever::Ready => {
                let job = ToRetriever::Job(Box::new(Job {
                    url: String::new(),
                    question: None,
                    budget: 0,
                    limits: Limits::default(),
                    roots: Vec::new(),
                    ticket: None,
                    probes: probes.to_vec(),
                }));
                let job = picktwo_wire::encode(&job).map_err(|e| e.to_string())?;
                retriever.channel.send(&job, &[]).map_err(|e| e.to_string())?;
            }
            FromRetriever::Probe { id, outcome, errno } => said.reports.push(Report { id, outcome, errno }),
            FromRetriever::Failed { reason, .. } => return Err(format!("the retriever did not start: {reason}")),
            _ => return Err("the retriever said something out of turn".to_owned()),
        }
    }
    while let Ok(event) = retriever.events.recv_timeout(Duration::from_secs(5)) {
        if let FromWeb::Ended { code, .. } = event {
            said.signal = (code > 128).then_some(code - 128);
            break;
        }
    }
    Ok(said)
}

/// Starts the supervisor of the web side, alone, and has it try a list.
///
/// # Errors
/// What kept it from starting, as a sentence.
pub(crate) fn outside_web(probes: &[String]) -> Result<Said, String> {
    let (child, channel) = web_side()?;
    let asked = Try {
        probes: probes.to_vec(),
    };
    send(&channel, &ToWeb::Try(asked), &[])?;
    reports(&channel, &child)
}

/// Starts the gateway of the retrievers as the web side does, without any upstream, and has it try a list. By what it ended is not known
/// here, as for the other gateway.
///
/// # Errors
/// What kept it from starting, as a sentence.
pub(crate) fn retriever_gateway(probes: &[String]) -> Result<Said, String> {
    let (child, outside) = web_side()?;
    let (gateway, theirs) = channel::pair().map_err(|e| e.to_string())?;
    let start = ApisStart {
        upstreams: Vec::new(),
        storage: Vec::new(),
        roots: Vec::new(),
        probes: probes.to_vec(),
    };
    send(&gateway, &start, &[])?;
    send(&outside, &ToWeb::Apis {}, &[theirs.as_fd()])?;
    drop(theirs);
    let mut said = Said::default();
    while let Some(report) = receive(&gateway)? {
        match report {
            FromApis::Ready => {}
            FromApis::Probe { id, outcome, errno } => said.reports.push(Report { id, outcome, errno }),
            other => return Err(format!("the retrievers' gateway said something out of turn: {other:?}")),
        }
    }
    // It may have ended by itself.
    let _ = child.signal(nix::sys::signal::Signal::SIGKILL);
    said.signal = (said.reports.len() < attempts(probes)).then_some(0);
    Ok(said)
}

/// The supervisor of the web side, ready.
fn web_side() -> Result<(Child, Channel), String> {
    let exe = process::own_executable().map_err(|e| e.to_string())?;
    let (child, channel) = process::spawn_role(Role::OutsideWeb, exe.as_fd()).map_err(|e| e.to_string())?;
    let start = WebStart {
        nameservers: Vec::new(),
        private: Vec::new(),
        ports: vec![80, 443],
        parallel: 1,
        apis: Default::default(),
    };
    send(&channel, &start, &[])?;
    match receive(&channel)? {
        Some(FromWeb::Ready) => Ok((child, channel)),
        other => Err(format!("the web side did not start: {other:?}")),
    }
}

/// How many attempts a list holds.
fn attempts(probes: &[String]) -> usize {
    probes
        .iter()
        .filter(|entry| !entry.starts_with(picktwo_confine::probes::SETTING_MARK))
        .count()
}

/// Starts the supervisor of the model side, with a gateway that nobody speaks to, and has it try a list.
///
/// # Errors
/// What kept it from starting, as a sentence.
pub(crate) fn outside_model(probes: &[String]) -> Result<Said, String> {
    let exe = process::own_executable().map_err(|e| e.to_string())?;
    let (child, channel) = process::spawn_role(Role::OutsideModel, exe.as_fd()).map_err(|e| e.to_string())?;
    let (_gateway, theirs) = channel::pair().map_err(|e| e.to_string())?;
    let start = ModelStart {
        upstreams: vec![UpstreamAddress {
            host: "127.0.0.1".to_owned(),
            port: 9,
        }],
        nameservers: Vec::new(),
    };
    send(&channel, &start, &[theirs.as_fd()])?;
    match receive(&channel)? {
        Some(FromModel::Ready) => {}
        other => return Err(format!("the model side did not start: {other:?}")),
    }
    let asked = Try {
        probes: probes.to_vec(),
    };
    send(&channel, &asked, &[])?;
    reports(&channel, &child)
}

/// Starts a resolver and has it try a list.
///
/// # Errors
/// What kept it from starting, as a sentence.
pub(crate) fn resolver(probes: &[String]) -> Result<Said, String> {
    let exe = process::own_executable().map_err(|e| e.to_string())?;
    let (child, channel) = process::spawn_role(Role::Resolver, exe.as_fd()).map_err(|e| e.to_string())?;
    let start = Start {
        nameservers: Vec::new(),
    };
    send(&channel, &start, &[])?;
    match receive(&channel)? {
        Some(Started::Ready) => {}
        other => return Err(format!("the resolver did not start: {other:?}")),
    }
    let asked = Try {
        probes: probes.to_vec(),
    };
    send(&channel, &asked, &[])?;
    reports(&channel, &child)
}

fn send(channel: &Channel, message: &impl serde::Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), String> {
    let bytes = picktwo_wire::encode(message).map_err(|e| e.to_string())?;
    channel.send(&bytes, fds).map_err(|e| e.to_string())
}

/// The next message; none: the other side has ended.
fn receive<T: serde::de::DeserializeOwned>(channel: &Channel) -> Result<Option<T>, String> {
    let mut bytes = Vec::new();
    match channel.recv(&mut bytes).map_err(|e| e.to_string())? {
        Some(_) => picktwo_wire::decode(&bytes).map(Some).map_err(|e| e.to_string()),
        None => Ok(None),
    }
}

/// What a supervisor reports until its end, and its end.
fn reports(channel: &Channel, child: &Child) -> Result<Said, String> {
    let mut said = Said::default();
    while let Some(judged::Report { id, outcome, errno }) = receive(channel)? {
        said.reports.push(Report { id, outcome, errno });
    }
    if let Exit::Signal(signal) = child.wait().map_err(|e| e.to_string())? {
        said.signal = Some(signal);
    }
    Ok(said)
}

/// Starts a gateway and has it try a list. By what it ended is not known here: its parent is `outside`.
///
/// # Errors
/// What kept it from starting, as a sentence.
pub(crate) fn gateway(probes: &[String]) -> Result<Said, String> {
    let exe = process::own_executable().map_err(|e| e.to_string())?;
    let upstream = UpstreamAddress {
        host: "127.0.0.1".to_owned(),
        port: 9,
    };
    let start = ModelStart {
        upstreams: vec![upstream],
        nameservers: Vec::new(),
    };
    let model = Model::spawn(exe.as_fd(), &start).map_err(|e| e.to_string())?;
    let gateway = GatewayStart {
        upstreams: vec![Upstream {
            protocol: Protocol::Anthropic,
            base: "http://127.0.0.1:9".to_owned(),
            key: String::new(),
            allow: vec!["POST /v1/messages".to_owned()],
            models: Vec::new(),
        }],
        phantom: None,
        roots: Vec::new(),
        probes: probes.to_vec(),
    };
    let mut said = Said::default();
    for report in model.judge(&gateway).map_err(|e| e.to_string())? {
        match report {
            FromGateway::Probe { id, outcome, errno } => said.reports.push(Report { id, outcome, errno }),
            other => return Err(format!("the gateway said something out of turn: {other:?}")),
        }
    }
    model.stop();
    said.signal = (said.reports.len() < attempts(probes)).then_some(0);
    Ok(said)
}
