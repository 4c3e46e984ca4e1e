//! Attempts that are driven name by name: bare for the controls, and inside a session.

use super::judge::{Control, Got};
use super::stage::{Stage, VARIABLES};
use crate::names;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use picktwo_confine::probes::{Outcome, Place, Probe, SETTING_MARK, Trial};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Milliseconds that a driven command may take for one answer: an attempt has 5 s by itself.
const PATIENCE: u16 = 20_000;

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

/// A command that makes attempts.
struct Driven {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Driven {
    fn spawn(mut command: Command) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("pipes are missing"));
        };
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Makes one attempt; none: there is nobody left who could.
    fn attempt(&mut self, id: &str) -> Option<Outcome> {
        writeln!(self.input, "{id}").ok()?;
        let mut ready = [PollFd::new(self.output.get_ref().as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut ready, PollTimeout::from(PATIENCE)), Ok(1..)) {
            // It hangs, which ends the series.
            let _ = self.child.kill();
            return None;
        }
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        Trial::read(line.trim_end())
            .filter(|trial| trial.id == id)
            .map(|trial| trial.outcome)
    }

    fn end(mut self) -> std::io::Result<()> {
        drop(self.input);
        self.child.wait().map(drop)
    }
}

/// picktwo's own command among the place's files and variables.
fn command(stage: &Stage, base: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .env(names::XDG_STATE_HOME, base.join("state"))
        .env(names::XDG_CONFIG_HOME, base.join("config"))
        .env(names::HOME, &stage.home)
        .envs(VARIABLES.map(|(_, variable)| (variable, "/nonexistent/picktwo-verify")));
    command
}

/// Makes every control.
pub(super) fn controls(stage: &Stage, base: &Path, probes: &[&'static Probe]) -> Result<Vec<Control>, DriveError> {
    let spawn = || {
        let mut bare = command(stage, base);
        bare.args(["verify", "--inside", "--bare"]).stderr(Stdio::null());
        let mut driven = Driven::spawn(bare)?;
        writeln!(driven.input, "{SETTING_MARK}{}", stage.setting.text())?;
        Ok::<_, DriveError>(driven)
    };
    let mut driven = spawn()?;
    let mut controls = Vec::with_capacity(probes.len());
    for probe in probes {
        stage.restore()?;
        let before = stage.look(false)?;
        let outcome = driven.attempt(probe.id);
        let effect = stage.effect(&before, &stage.look(false)?);
        let Some(outcome) = outcome else {
            return Err(DriveError::Io(std::io::Error::other(format!(
                "the control of {} did not answer",
                probe.id
            ))));
        };
        // Where the call always succeeds, only its effect shows that it works.
        let seen_only = Place::ALL
            .iter()
            .any(|&p| probe.expected(p) == Some(picktwo_confine::probes::Expected::Unseen));
        let through = effect.is_some() || (outcome == Outcome::Escaped && !seen_only);
        controls.push(if through {
            Control::Succeeded
        } else {
            Control::Failed(outcome)
        });
    }
    driven.end()?;
    Ok(controls)
}

/// Makes the attempts inside a session.
pub(super) fn agent(
    stage: &mut Stage,
    base: &Path,
    edit: bool,
    probes: &[&'static Probe],
) -> Result<Vec<(Got, Option<String>)>, DriveError> {
    let (reader, writer) = std::io::pipe()?;
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))
        .map_err(std::io::Error::from)?;
    let said = base.join(if edit { "edit.log" } else { "read-only.log" });
    let mut run = command(stage, base);
    run.args([
        "run",
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
    run.args(["--", picktwo_inside::view::BINARY, "verify", "--inside"])
        .stderr(File::create(&said)?);
    let mut driven = Driven::spawn(run)?;
    drop(writer);

    // Open until the end: the session goes on telling.
    let mut status = BufReader::new(reader);
    let Some(id) = started(&mut status)? else {
        driven.end()?;
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        return Err(DriveError::NoSession(
            said.lines().last().unwrap_or("it said nothing").to_owned(),
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
    writeln!(driven.input, "{SETTING_MARK}{}", stage.setting.text())?;
    let mut results = Vec::with_capacity(probes.len());
    let mut before = stage.look(edit)?;
    for probe in probes {
        let got = driven.attempt(probe.id).map_or(Got::Nothing, Got::Outcome);
        let after = stage.look(edit)?;
        results.push((got, stage.effect(&before, &after)));
        before = after;
    }
    driven.end()?;
    Ok(results)
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
