//! Attempts that are driven name by name: bare for the controls, and inside a session.

use super::Tier;
use super::driven::Driven;
use super::judge::{Control, Got};
use super::progress::Progress;
use super::stage::Stage;
use crate::names;
use picktwo_confine::probes::{Expected, Outcome, Place, Probe};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time that picktwo's own command has to begin.
const START: Duration = Duration::from_secs(20);

/// This program, whatever became of its file.
const OWN: &str = "/proc/self/exe";

/// Why a series could not be made.
#[derive(Debug)]
pub(super) enum DriveError {
    /// A file, pipe or process.
    Io(std::io::Error),
    /// The session did not start; holds what it said.
    NoSession(String),
}

impl std::fmt::Display for DriveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "the attempts could not be made: {e}"),
            Self::NoSession(said) => write!(f, "the session to try did not start: {said}"),
        }
    }
}

impl From<std::io::Error> for DriveError {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

/// A command among the place's files and variables.
pub(super) fn command(program: &std::ffi::OsStr, stage: &Stage, base: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env(names::XDG_STATE_HOME, base.join("state"))
        .env(names::XDG_CONFIG_HOME, base.join("config"))
        .env(names::HOME, &stage.home)
        .envs(stage.daemons.variables.iter().map(|(name, value)| (name, value)));
    command
}

/// Makes every control, and tells for each whether it was seen from outside. `edit`: changes count as they do in edit mode.
pub(super) fn controls(
    stage: &Stage,
    base: &Path,
    probes: &[&'static Probe],
    edit: bool,
    progress: &Progress,
) -> Result<Vec<(Control, bool)>, DriveError> {
    let mut bare = command(OWN.as_ref(), stage, base);
    bare.args(["verify", "--inside", "bare"]).stderr(Stdio::null());
    let mut driven = Driven::spawn(bare)?;
    begun(&mut driven)?;
    driven.aim(&stage.setting)?;
    let mut controls = Vec::with_capacity(probes.len());
    for (done, probe) in probes.iter().enumerate() {
        progress.step("outside", done, probes.len())?;
        stage.restore()?;
        let before = stage.look()?;
        let outcome = driven.attempt(probe.id);
        let effect = stage.effect(&before, &stage.look()?, edit);
        let Some(outcome) = outcome else {
            return Err(DriveError::Io(std::io::Error::other(format!(
                "the control of {} did not answer",
                probe.id
            ))));
        };
        // Where the call always succeeds, only its effect shows that it works.
        let seen_only = Place::ALL.iter().any(|&p| probe.expected(p) == Some(Expected::Unseen));
        let through = effect.is_some() || (outcome == Outcome::Escaped && !seen_only);
        let control = if through {
            Control::Succeeded
        } else {
            Control::Failed(outcome)
        };
        controls.push((control, effect.is_some()));
    }
    driven.end()?;
    Ok(controls)
}

/// Makes the attempts inside a session.
pub(super) fn agent(
    stage: &mut Stage,
    base: &Path,
    edit: bool,
    tier: Tier,
    probes: &[&'static Probe],
    progress: &Progress,
) -> Result<Vec<(Got, Option<String>)>, DriveError> {
    let (reader, writer) = std::io::pipe()?;
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))
        .map_err(std::io::Error::from)?;
    // A pipe and no file: the nested tier refuses what has metadata. What a session says fits in it.
    let (mut said, saying) = std::io::pipe()?;
    let mut run = command(OWN.as_ref(), stage, base);
    run.args([
        "run",
        "--tier",
        tier.name(),
        "--profile",
        "generic",
        "--json-status",
        &writer.as_raw_fd().to_string(),
        "--workspace",
    ])
    .arg(&stage.work);
    run.arg("--ro").arg(&stage.shared);
    if edit {
        run.arg("--edit");
    }
    run.args(["--", picktwo_inside::view::BINARY, "verify", "--inside", "session"])
        .stderr(saying);
    let mut driven = Driven::spawn(run)?;
    drop(writer);

    // Open until the end: the session goes on telling.
    let mut status = BufReader::new(reader);
    let Some(id) = started(&mut status)? else {
        driven.end()?;
        let mut text = String::new();
        let _ = said.read_to_string(&mut text);
        return Err(DriveError::NoSession(
            text.lines().last().unwrap_or("it said nothing").to_owned(),
        ));
    };
    let control = base
        .join("state/picktwo")
        .join(names::SESSIONS)
        .join(id)
        .join(names::CONTROL_SOCKET);
    // The first process of a session's own pid namespace.
    if !(stage.setting.set("init", "1") && stage.setting.set("control", &control.display().to_string())) {
        return Err(DriveError::Io(std::io::Error::other(
            "the temporary directory's name cannot be used",
        )));
    }
    begun(&mut driven)?;
    driven.aim(&stage.setting)?;
    let mut results = Vec::with_capacity(probes.len());
    let mut before = stage.look()?;
    for (done, probe) in probes.iter().enumerate() {
        progress.step(
            if edit { "agent, edit" } else { "agent, read-only" },
            done,
            probes.len(),
        )?;
        let got = driven.attempt(probe.id).map_or(Got::Nothing, Got::Outcome);
        let after = stage.look()?;
        results.push((got, stage.effect(&before, &after, edit)));
        before = after;
    }
    driven.end()?;
    Ok(results)
}

/// Waits until picktwo's own command takes names.
fn begun(driven: &mut Driven) -> Result<(), DriveError> {
    if driven.ready(START) {
        return Ok(());
    }
    Err(DriveError::Io(std::io::Error::other(
        "picktwo's own command did not begin",
    )))
}

/// The id of the session once it runs; none: it did not start.
fn started(lines: &mut impl BufRead) -> std::io::Result<Option<String>> {
    for line in lines.lines() {
        let status: serde_json::Value = serde_json::from_str(&line?).unwrap_or_default();
        if status["event"] == "started" {
            return Ok(status["session"].as_str().map(str::to_owned));
        }
    }
    Ok(None)
}
