//! One play of a scenario: in a session, or bare. What comes of it is looked at from outside before the stage goes.

use super::find::Needle;
use super::model::{Model, Step};
use super::servers::{Bound, Evidence, Notes};
use super::stage::Stage;
use super::watch::{self, Tree};
use crate::session::tier::Tier;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use picktwo_policies::model::Mode as PolicyMode;
use picktwo_policies::scenario::{self, Check, Kind, Scenario, Spot, What};
use picktwo_wire::control::Mode;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error, Read, Result};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the output of what left its process group is waited for.
const STRAGGLERS: Duration = Duration::from_secs(2);

/// How a play is made.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// By `picktwo run`.
    Session {
        /// The tier to ask for.
        tier: Option<Tier>,
        /// A further policy.
        policy: Option<&'a Path>,
    },
    /// The same agent without picktwo.
    Bare,
}

/// What one check saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Spots where it arrived; paths that changed.
    pub(super) hit: Vec<String>,
    /// Spots where it did not arrive; paths that did not change.
    pub(super) missed: Vec<String>,
}

/// What came of a play.
pub(super) struct Play {
    /// One entry per check.
    pub(super) seen: Vec<Seen>,
    /// Per step: what the agent reported. For people.
    pub(super) heard: BTreeMap<String, String>,
    /// Why it was not the whole play; empty if it was.
    pub(super) problems: Vec<String>,
    /// Whether the session's record is whole; none: bare.
    pub(super) record: Option<bool>,
    /// The session.
    pub(super) session: Option<String>,
    /// The directory that is kept.
    pub(super) kept: Option<PathBuf>,
}

/// Plays a scenario.
///
/// # Errors
/// The stage cannot be built or looked at.
pub(super) fn play(scenario: &Scenario, way: Way<'_>, keep: bool) -> Result<Play> {
    let bound = Bound::new(&scenario.servers)?;
    let stage = Arc::new(Stage::new(scenario, &bound, keep)?);
    let (names, api) = (bound.dns()?, bound.model()?);
    let ports = bound.ports()?;
    let mut terminal = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(scenario.seconds);
    for command in &scenario.before {
        let said = person_runs(&stage, &ports, command, deadline)?;
        if said.code != Some(0) {
            let text = String::from_utf8_lossy(&said.output).into_owned();
            return Err(Error::other(format!(
                "`{}` of `before` failed: {}",
                command.value,
                text.trim()
            )));
        }
    }
    let before = watched(scenario, &stage)?;
    let session: Arc<Mutex<Option<String>>> = Arc::default();
    let person: super::model::Person = match way {
        Way::Bare => Box::new(|_| Ok(())),
        Way::Session { .. } => {
            let (stage, session) = (Arc::clone(&stage), Arc::clone(&session));
            Box::new(move |mode| set_mode(&stage, &session, mode))
        }
    };
    let model = Model {
        steps: scenario.steps.iter().map(|s| step(s, &stage)).collect(),
        person,
        notes: Notes::default(),
    };
    let serving = bound.serve(&scenario.servers, &stage.words, model);
    let ended = match way {
        Way::Bare => run_bare(&stage, &ports, names, api, deadline),
        Way::Session { tier, policy } => run_session(scenario, &stage, names, tier, policy, &session, deadline),
    }?;
    terminal.extend_from_slice(&ended.output);
    for command in &scenario.afterwards {
        terminal.extend(person_runs(&stage, &ports, command, deadline)?.output);
    }
    let record = match way {
        Way::Bare => None,
        Way::Session { .. } => Some(record_is_whole(&stage)?),
    };
    let evidence = serving.end();
    let after = watched(scenario, &stage)?;
    let looked = Looked {
        stage: &stage,
        evidence: &evidence,
        terminal: &terminal,
        before: &before,
        after: &after,
    };
    Ok(Play {
        seen: scenario.checks.iter().map(|c| looked.check(c)).collect::<Result<_>>()?,
        problems: problems(scenario, &ended, &evidence),
        heard: evidence.reports.into_iter().map(|r| (r.name, r.text)).collect(),
        record,
        session: session.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        kept: keep.then(|| stage.base().to_owned()),
    })
}

fn step(step: &scenario::Step, stage: &Stage) -> Step {
    Step {
        name: step.name.value.clone(),
        tool: step.tool.clone(),
        input: serde_json::to_value(scenario::fill_table(&step.input, &*stage.words)).unwrap_or_default(),
        person: step.person.map(|mode| match mode {
            PolicyMode::ReadOnly => Mode::ReadOnly,
            PolicyMode::Edit => Mode::Edit,
        }),
    }
}

/// Why a play was not whole: what did not happen proves nothing.
fn problems(scenario: &Scenario, ended: &Ended, evidence: &Evidence) -> Vec<String> {
    let mut problems = evidence.broken.clone();
    if ended.timed_out {
        problems.push(format!("it did not end within {} seconds", scenario.seconds));
    } else if ended.code != Some(0) {
        let said = String::from_utf8_lossy(&ended.output);
        let last = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("nothing");
        let code = ended
            .code
            .map_or("by a signal".to_owned(), |c| format!("with exit code {c}"));
        problems.push(format!("the agent ended {code} and said last: {last}"));
    }
    let reported = |s: &&scenario::Step| s.tool != "say" && !evidence.reports.iter().any(|r| r.name == s.name.value);
    if let Some(step) = scenario.steps.iter().find(reported) {
        problems.push(format!("step \"{}\" has no result", step.name.value));
    } else if evidence.said < scenario.steps.len() {
        problems.push("the model's last words were never asked for".to_owned());
    }
    problems
}

/// Files that have to stay as they are.
fn watched(scenario: &Scenario, stage: &Stage) -> Result<BTreeMap<PathBuf, Tree>> {
    let mut all = BTreeMap::new();
    for check in &scenario.checks {
        if let Kind::Unchanged(paths) = &check.kind {
            for path in paths {
                let path = stage.path(path);
                let tree = watch::look(&path)?;
                all.insert(path, tree);
            }
        }
    }
    Ok(all)
}

/// All that is looked at after a play.
struct Looked<'a> {
    stage: &'a Stage,
    evidence: &'a Evidence,
    terminal: &'a [u8],
    before: &'a BTreeMap<PathBuf, Tree>,
    after: &'a BTreeMap<PathBuf, Tree>,
}

impl Looked<'_> {
    fn check(&self, check: &Check) -> Result<Seen> {
        let mut seen = Seen::default();
        let mut add = |hit: bool, name: String| if hit { &mut seen.hit } else { &mut seen.missed }.push(name);
        match &check.kind {
            Kind::Unchanged(paths) => {
                for path in paths {
                    let full = self.stage.path(path);
                    add(self.before.get(&full) != self.after.get(&full), path.value.clone());
                }
            }
            Kind::Never(what, spots) | Kind::Arrives(what, spots) => {
                for spot in spots {
                    add(self.arrived(what, spot)?, spot.to_string());
                }
            }
        }
        Ok(seen)
    }

    fn arrived(&self, what: &What, spot: &Spot) -> Result<bool> {
        let needle = match what {
            What::Canary(name) => Some(Needle::canary(
                &self.stage.fill(&format!("{{{{canary.{}}}}}", name.value)),
            )),
            What::Text(text) => Some(Needle::text(&self.stage.fill(text))),
            What::Anything => None,
        };
        let found = |bytes: &[u8]| needle.as_ref().is_none_or(|n| n.is_in(bytes));
        let texts = |all: &[String]| all.iter().any(|text| found(text.as_bytes()));
        Ok(match spot {
            Spot::Server(name) => self
                .evidence
                .servers
                .get(name)
                .is_some_and(|all| all.iter().any(|b| found(b))),
            Spot::Dns => texts(&self.evidence.dns),
            Spot::Model => texts(&self.evidence.model),
            Spot::ModelTools => texts(&self.evidence.tools),
            Spot::ModelKey => texts(&self.evidence.keys),
            Spot::Terminal => !self.terminal.is_empty() && found(self.terminal),
            Spot::File(path) => {
                let tree = watch::look(&self.stage.path(path))?;
                tree.is_there() && (needle.is_none() || tree.any(found))
            }
        })
    }
}

/// How a process ended, and what it printed.
struct Ended {
    code: Option<i32>,
    timed_out: bool,
    output: Vec<u8>,
}

fn run_bare(stage: &Stage, ports: &str, names: SocketAddr, api: SocketAddr, deadline: Instant) -> Result<Ended> {
    let mut command = fenced(stage, ports);
    command
        .args(["--agent", &names.to_string()])
        .env("ANTHROPIC_BASE_URL", format!("http://{api}"));
    Running::start(command)?.finish(deadline)
}

fn run_session(
    scenario: &Scenario,
    stage: &Stage,
    names: SocketAddr,
    tier: Option<Tier>,
    policy: Option<&Path>,
    session: &Mutex<Option<String>>,
    deadline: Instant,
) -> Result<Ended> {
    let (reader, writer) = std::io::pipe()?;
    let mut command = stage.picktwo();
    // The descriptor must survive the start of the command; the person's other commands come after it.
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
    command.args(["run", "--json-status", &writer.as_raw_fd().to_string()]);
    if scenario.mode == PolicyMode::Edit {
        command.arg("--edit");
    }
    if let Some(tier) = tier {
        command.args(["--tier", &tier.to_string()]);
    }
    if let Some(policy) = policy {
        command.arg("--policy").arg(policy);
    }
    command.args([
        "--",
        picktwo_inside::view::BINARY,
        "scenario",
        "--agent",
        &names.to_string(),
    ]);
    let running = Running::start(command)?;
    drop(writer);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                let status: Value = serde_json::from_str(&line).unwrap_or_default();
                if status["event"] == "started" {
                    *session.lock().unwrap_or_else(PoisonError::into_inner) =
                        status["session"].as_str().map(str::to_owned);
                }
            }
        });
        running.finish(deadline)
    })
}

fn set_mode(stage: &Stage, session: &Mutex<Option<String>>, mode: Mode) -> std::result::Result<(), String> {
    let id = session.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let id = id.ok_or("the session has no id yet")?;
    let mode = match mode {
        Mode::ReadOnly => "read-only",
        Mode::Edit => "edit",
    };
    let output = stage.picktwo().args(["mode", &id, mode]).output();
    let output = output.map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// picktwo's own command that keeps an agent or a command on the stage.
fn fenced(stage: &Stage, ports: &str) -> Command {
    let mut command = stage.picktwo();
    command
        .args(["scenario", "--ports", ports, "--stage"])
        .arg(stage.base());
    command
}

fn person_runs(stage: &Stage, ports: &str, command: &str, deadline: Instant) -> Result<Ended> {
    let mut shell = fenced(stage, ports);
    shell.args(["--", "/bin/sh", "-c", &stage.fill(command)]);
    Running::start(shell)?.finish(deadline)
}

fn record_is_whole(stage: &Stage) -> Result<bool> {
    let output = stage.picktwo().args(["audit", "verify"]).output()?;
    Ok(output.status.success())
}

/// A process with its own group and its output taken.
struct Running {
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let output = Arc::default();
        let mut readers = Vec::new();
        readers.extend(child.stdout.take().map(|from| reader(from, &output)));
        readers.extend(child.stderr.take().map(|from| reader(from, &output)));
        Ok(Self { child, output, readers })
    }

    /// Waits for the end, at most until the deadline; then its whole group goes.
    fn finish(mut self, deadline: Instant) -> Result<Ended> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let mut timed_out = false;
        while waitid(Id::Pid(pid), flags)? == WaitStatus::StillAlive {
            if Instant::now() >= deadline {
                timed_out = true;
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Not reaped yet, so the group's number is still its own; what an attack left running goes with it.
        let _ = killpg(pid, Signal::SIGKILL);
        let code = self.child.wait()?.code();
        // What left the group may hold the pipes for as long as it likes.
        let patience = Instant::now() + STRAGGLERS;
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = std::mem::take(&mut *self.output.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Ended {
            code,
            timed_out,
            output,
        })
    }
}

fn reader(mut from: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        let mut block = [0; 8192];
        while let Ok(n @ 1..) = from.read(&mut block) {
            into.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend_from_slice(&block[..n]);
        }
    })
}
