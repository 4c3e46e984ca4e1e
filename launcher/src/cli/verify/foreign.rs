//! Any other sandbox, judged by the attempts of an agent.

use super::base::Base;
use super::driven::Driven;
use super::judge::{Control, Finding, Got, Judgement, Rule};
use super::objects::Objects;
use super::progress::Progress;
use super::session::{self, DriveError};
use super::stage::{Layout, Snapshot, Stage};
use super::terminal::Terminal;
use crate::cli::output;
use crate::names;
use picktwo_confine::probes::{Outcome, Place, Probe};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that a sandbox may take to start.
const START: Duration = Duration::from_secs(60);
/// Time for what has been sent to arrive.
const ARRIVAL: Duration = Duration::from_millis(30);
/// How many lines of what a sandbox said before it ended are repeated, and how many characters.
const LAST_LINES: usize = 3;
const MOST_SAID: usize = 400;
/// This program's name in a judged workspace.
const PROGRAM: &str = "picktwo-probe";
/// The attempt that tells whether a workspace is writable.
const CREATE: &str = "change.create";

/// Why a sandbox could not be judged.
#[derive(Debug)]
pub(super) enum ForeignError {
    /// There is no directory for what the attempts are aimed at.
    Home(names::NoHome),
    /// What the attempts are aimed at, or the controls.
    Prepare(std::io::Error),
    /// The controls.
    Controls(DriveError),
    /// The command cannot be started.
    Command(String, std::io::Error),
    /// It ended before the first attempt: its exit code, if it has one, and the last that it said.
    Ended {
        command: String,
        program: PathBuf,
        code: Option<i32>,
        said: String,
    },
}

impl std::fmt::Display for ForeignError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Home(e) => e.fmt(f),
            Self::Prepare(e) => write!(f, "cannot prepare the attempts: {e}"),
            Self::Controls(e) => e.fmt(f),
            Self::Command(command, e) => write!(f, "`{command}` cannot be started: {e}"),
            Self::Ended {
                command,
                program,
                code,
                said,
            } => {
                let program = program.display();
                match code {
                    Some(127) => write!(
                        f,
                        "`{command}` does not find {program}, which makes the attempts (exit code 127): nothing was tried, and \
                         nothing held; show it the workspace and the system's libraries"
                    ),
                    Some(126) => write!(
                        f,
                        "`{command}` may not execute {program}, which makes the attempts (exit code 126): nothing was tried, \
                         and nothing held; let it execute programs of the workspace"
                    ),
                    Some(code) => write!(
                        f,
                        "`{command}` ended with exit code {code} before the first attempt: nothing was tried, and nothing held"
                    ),
                    None => write!(
                        f,
                        "`{command}` did not run {program}, which makes the attempts, to its first line: nothing was tried, \
                         and nothing held"
                    ),
                }?;
                if said.is_empty() {
                    return Ok(());
                }
                write!(f, " (it said: {said})")
            }
        }
    }
}

impl From<std::io::Error> for ForeignError {
    fn from(e: std::io::Error) -> Self {
        Self::Prepare(e)
    }
}

/// Judges the sandbox that this command starts. `place`: the agent in one mode; none: in edit mode if its workspace is
/// writable, else in read-only mode.
///
/// # Errors
/// What kept it from being judged.
pub(super) fn judge(
    wrapper: &[OsString],
    place: Option<Place>,
    selected: &[&'static Probe],
    terminal: Option<&Terminal>,
    progress: &Progress,
) -> Result<Judgement, ForeignError> {
    // Not in /tmp, which many sandboxes give away: a person's files are in a home.
    let parent = names::cache_dir().map_err(ForeignError::Home)?;
    std::fs::create_dir_all(&parent)?;
    let base = Base::new(&parent)?;
    let program = base.path().join(PROGRAM);
    std::fs::copy("/proc/self/exe", &program)?;
    let objects = Objects::new(base.path(), terminal)?;
    let (base, program) = (base.path(), &program);
    let build = |name: &str| Stage::new(&base.join(name), Layout::InHome, &objects);
    // One after the other: signals to a group reach the processes of both.
    let control = build("control")?;
    let place = match place {
        Some(place) => place,
        None => Room {
            stage: &control,
            base,
            program,
            wrapper,
        }
        .mode()?,
    };
    let wanted: Vec<&'static Probe> = selected
        .iter()
        .copied()
        .filter(|probe| probe.judges_others(place))
        .collect();
    let controls =
        session::controls(&control, base, &wanted, place == Place::Edit, progress).map_err(ForeignError::Controls)?;
    drop(control);
    let stage = build("judged")?;
    let room = Room {
        stage: &stage,
        base,
        program,
        wrapper,
    };
    let mut findings = room.attempts(place, &wanted, controls, progress)?;
    findings.sort_by_key(|f| f.probe.class());
    Ok(Judgement {
        command: Some(wrapper.iter().map(|part| part.to_string_lossy().into_owned()).collect()),
        tier: None,
        findings,
    })
}

/// The end of what a command wrote, as one harmless line.
fn last_words(log: &[u8]) -> String {
    let log = String::from_utf8_lossy(log);
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last: Vec<&str> = lines[lines.len().saturating_sub(LAST_LINES)..].to_vec();
    output::plain(&last.join(" / ")).chars().take(MOST_SAID).collect()
}

/// An argument of the command, with this place's directories.
fn filled(part: &OsStr, stage: &Stage) -> OsString {
    let mut bytes = part.as_bytes().to_vec();
    for (name, path) in [
        ("{workspace}", &stage.work),
        ("{shared}", &stage.shared),
        ("{home}", &stage.home),
    ] {
        let path = path.as_os_str().as_bytes();
        let mut from = 0;
        while let Some(at) = bytes[from..].windows(name.len()).position(|w| w == name.as_bytes()) {
            let at = from + at;
            bytes.splice(at..at + name.len(), path.iter().copied());
            from = at + path.len();
        }
    }
    OsString::from_vec(bytes)
}

/// What came of one attempt.
struct Attempt {
    driven: Driven,
    before: Snapshot,
    after: Snapshot,
    got: Got,
    effect: Option<String>,
}

/// A judged sandbox and its place.
struct Room<'a> {
    stage: &'a Stage,
    base: &'a Path,
    program: &'a Path,
    wrapper: &'a [OsString],
}

impl Room<'_> {
    /// Starts the sandbox in a place that is as it was at the beginning.
    fn start(&self) -> Result<(Driven, Snapshot), ForeignError> {
        let stage = self.stage;
        stage.restore()?;
        let program = stage.work.join(PROGRAM);
        std::fs::hard_link(self.program, &program)?;
        let log = self.base.join("judged.log");
        let Some((first, rest)) = self.wrapper.split_first() else {
            return Err(std::io::Error::other("there is no command").into());
        };
        let shown = first.to_string_lossy().into_owned();
        let mut command = session::command(&filled(first, stage), stage, self.base);
        command
            .args(rest.iter().map(|part| filled(part, stage)))
            .arg(&program)
            .args(["verify", "--inside", "judged"])
            .current_dir(&stage.work)
            .stderr(File::create(&log)?);
        let mut driven = Driven::spawn(command).map_err(|e| ForeignError::Command(shown.clone(), e))?;
        if !driven.ready(START) {
            let code = driven.end()?.code();
            return Err(ForeignError::Ended {
                command: shown,
                program,
                code,
                said: last_words(&std::fs::read(&log).unwrap_or_default()),
            });
        }
        driven.aim(&stage.setting)?;
        let before = stage.look()?;
        // What its start had an effect on is no attempt's.
        let _ = stage.effect(&before, &before, true);
        Ok((driven, before))
    }

    /// The mode that this sandbox is in: edit, if what is created in the workspace is there for the host.
    fn mode(&self) -> Result<Place, ForeignError> {
        let (mut driven, before) = self.start()?;
        // What it says of itself does not matter.
        let _ = driven.attempt(CREATE);
        let after = self.stage.look()?;
        driven.end()?;
        let new = |path: &PathBuf| path.starts_with(&self.stage.work) && !before.contains_key(path);
        Ok(match after.keys().any(new) {
            true => Place::Edit,
            false => Place::ReadOnly,
        })
    }

    fn attempt(
        &self,
        (mut driven, before): (Driven, Snapshot),
        probe: &Probe,
        edit: bool,
        seen: bool,
    ) -> Result<Attempt, ForeignError> {
        let got = driven.attempt(probe.id).map_or(Got::Nothing, Got::Outcome);
        let mut after = self.stage.look()?;
        let mut effect = self.stage.effect(&before, &after, edit);
        if effect.is_none() && seen && got == Got::Outcome(Outcome::Escaped) {
            std::thread::sleep(ARRIVAL);
            after = self.stage.look()?;
            effect = self.stage.effect(&before, &after, edit);
        }
        Ok(Attempt {
            driven,
            before,
            after,
            got,
            effect,
        })
    }

    fn attempts(
        &self,
        place: Place,
        wanted: &[&'static Probe],
        controls: Vec<(Control, bool)>,
        progress: &Progress,
    ) -> Result<Vec<Finding>, ForeignError> {
        let edit = place == Place::Edit;
        let mut findings = Vec::with_capacity(wanted.len());
        let mut running: Option<(Driven, Snapshot)> = None;
        for (done, (probe, (control, seen))) in wanted.iter().zip(controls).enumerate() {
            progress.step("judged", done, wanted.len())?;
            let Some(expected) = probe.expected(place) else {
                continue;
            };
            let mut tried = match running.take() {
                Some(running) => self.attempt(running, probe, edit, seen)?,
                None => self.attempt(self.start()?, probe, edit, seen)?,
            };
            if tried.got == Got::Nothing && tried.effect.is_none() {
                // What came before may have ended it: once more, in a new one.
                tried.driven.end()?;
                tried = self.attempt(self.start()?, probe, edit, seen)?;
            }
            let Attempt {
                driven,
                before,
                after,
                got,
                effect,
            } = tried;
            // What was changed would be in the way of the next attempt, or help it; and sandboxes prepare what they protect
            // when they start.
            if got == Got::Nothing || after != before {
                driven.end()?;
            } else {
                running = Some((driven, before));
            }
            findings.push(Finding {
                probe,
                place,
                expected,
                rule: Rule::AnyRefusal { seen },
                got,
                effect,
                control,
                weaker: None,
            });
        }
        if let Some((driven, _)) = running {
            driven.end()?;
        }
        Ok(findings)
    }
}
