//! `picktwo scenario`: attacks from files, played in sessions and without, judged from outside.
//!
//! A session is an ordinary `picktwo run`: the same binary, the same code. Only the stage is built here: a scripted model, servers,
//! files. What they receive and what becomes of them is the evidence; the attacked processes are not asked.

mod agent;
mod bare;
mod dns;
mod fence;
mod find;
mod http;
mod judge;
mod model;
mod play;
mod report;
mod servers;
mod stage;
mod watch;

use super::output::{self, Paint};
use crate::session::tier::{self, Tier};
use judge::{Outcome, Verdict};
use picktwo_policies::scenario::{self, SHIPPED, Scenario, shipped};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of one file that are read.
const MAX_FILE: u64 = 2 << 20;

/// Plays attacks from files, in a session and without one, and judges from outside what arrived where.
///
/// A scenario says what pages serve, what a scripted model makes the agent do, what is planted where, and where it must not arrive. It is
/// played twice: by `picktwo run`, where the attack must fail, and by the same agent without picktwo, where it must succeed. Servers,
/// workspace and HOME are its own, in a temporary directory and on loopback.
///
/// Its commands run as you. In the second play, and before and after the session, they may read what you may read, and change and reach
/// only what is the scenario's own: read a scenario before you run it all the same.
///
/// Exit code 0 if every wall held and every attack succeeded without, 1 if something arrived, 125 if it cannot be tried.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("asked").args(["list", "explain", "show", "agent"]))]
pub(crate) struct Args {
    /// Files, directories with .toml files, or names of shipped scenarios; all shipped ones if none is given
    #[arg(value_name = "FILE|DIR|NAME")]
    what: Vec<PathBuf>,
    /// The tier of the sessions; the best that there is if not given
    #[arg(long, value_name = "TIER")]
    tier: Option<Tier>,
    /// A policy file, read after the one that a scenario makes for its servers: your own, to try it
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Print every verdict as JSON
    #[arg(long, conflicts_with = "asked")]
    json: bool,
    /// Write the verdicts to this file, as JUnit XML
    #[arg(long, value_name = "FILE", conflicts_with = "asked")]
    junit: Option<PathBuf>,
    /// Keep the directories of each play
    #[arg(long)]
    keep: bool,
    /// List the scenarios
    #[arg(long)]
    list: bool,
    /// Say what is tried, and where what must not arrive; nothing is played
    #[arg(long)]
    explain: bool,
    /// Print a scenario's file, to write one's own from
    #[arg(long)]
    show: bool,
    /// Internal: the agent, with the scenario's name server
    #[arg(long, hide = true, value_name = "ADDRESS")]
    agent: Option<SocketAddr>,
    /// Internal: the directory that the agent, or the command, may change
    #[arg(long, hide = true, value_name = "DIR")]
    stage: Option<PathBuf>,
    /// Internal: the ports that it may connect to
    #[arg(long, hide = true, value_name = "PORTS", value_delimiter = ',', requires = "stage")]
    ports: Vec<u16>,
    /// Internal: a command to run on the stage
    #[arg(last = true, hide = true, value_name = "CMD", requires = "stage")]
    command: Vec<OsString>,
}

impl Args {
    /// Whether this is the session's own command.
    pub(crate) fn is_agent(&self) -> bool {
        self.agent.is_some()
    }
}

/// A scenario and where it is written.
struct Found {
    scenario: Scenario,
    file: String,
    text: String,
}

pub(crate) fn main(args: Args) -> ExitCode {
    if let Some(stage) = &args.stage
        && let Err(e) = fence::enter(stage, &args.ports)
    {
        return output::fail(&e);
    }
    if let Some(names) = args.agent {
        return agent::main(names);
    }
    if args.stage.is_some() {
        return output::fail(&fence::become_command(&args.command));
    }
    let found = match find(&args.what) {
        Ok(found) => found,
        Err(text) => {
            let _ = std::io::stderr().write_all(text.as_bytes());
            return ExitCode::from(super::EXIT_FAILED);
        }
    };
    if args.list || args.explain || args.show {
        let texts: String = if args.show {
            found.iter().map(|f| f.text.as_str()).collect()
        } else if args.explain {
            found.iter().map(explain).collect()
        } else {
            let row = |f: &Found| vec![f.scenario.name.clone(), f.scenario.title.value.clone()];
            output::table(&found.iter().map(row).collect::<Vec<_>>())
        };
        return output::print(&texts);
    }
    let tier = match playable(args.tier) {
        Ok(tier) => tier,
        Err(e) => return output::fail(&e),
    };
    let policy = match args.policy.map(|p| p.canonicalize().map_err(|e| (p, e))).transpose() {
        Ok(policy) => policy,
        Err((path, e)) => return output::fail(&format!("{}: {e}", path.display())),
    };
    let paint = Paint::stdout();
    let width = found.iter().map(|f| f.scenario.name.chars().count()).max().unwrap_or(0);
    let mut outcomes = Vec::new();
    for f in &found {
        progress(&format!("{} …", f.scenario.name));
        let outcome = judge::judge(&f.scenario, &f.file, args.tier, policy.as_deref(), args.keep);
        progress("");
        if !args.json {
            let mut text = report::line(&outcome, width, paint);
            if found.len() == 1 || outcome.verdict != Verdict::Held || args.keep {
                text.push_str(&report::details(&outcome, paint));
            }
            match output::print(&text) {
                code if code == ExitCode::SUCCESS => {}
                code => return code,
            }
        }
        outcomes.push(outcome);
    }
    if let Some(file) = &args.junit
        && let Err(e) = std::fs::write(file, report::junit(&outcomes))
    {
        return output::fail(&format!("cannot write {}: {e}", file.display()));
    }
    let text = if args.json {
        report::json(&outcomes, &tier.to_string())
    } else {
        format!("\n{}", report::sentence(&outcomes, paint))
    };
    match output::print(&text) {
        code if code == ExitCode::SUCCESS => exit_code(&outcomes),
        code => code,
    }
}

/// `picktwo demo`: one scenario, shown in full.
///
/// # Errors
/// Why it cannot be played.
pub(crate) fn demonstrate(name: &str, keep: bool) -> Result<ExitCode, String> {
    playable(None)?;
    let found = one_shipped(name)?;
    let outcome = judge::judge(&found.scenario, &found.file, None, None, keep);
    let paint = Paint::stdout();
    let text = report::details(&outcome, paint);
    let outcomes = [outcome];
    Ok(
        match output::print(&format!("{text}\n{}", report::sentence(&outcomes, paint))) {
            code if code == ExitCode::SUCCESS => exit_code(&outcomes),
            code => code,
        },
    )
}

fn exit_code(outcomes: &[Outcome]) -> ExitCode {
    let any = |verdict| outcomes.iter().any(|o| o.verdict == verdict);
    if any(Verdict::Arrived) {
        ExitCode::FAILURE
    } else if any(Verdict::Untried) {
        ExitCode::from(super::EXIT_FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

/// The tier that sessions will have. Asked while there is one thread.
fn playable(asked: Option<Tier>) -> Result<Tier, String> {
    let best = tier::best().map_err(|e| e.to_string())?;
    match (asked.unwrap_or(best.tier), best.instead_of_full) {
        (Tier::Full, Some(missing)) => Err(missing.to_string()),
        (Tier::Nested, _) => Err(
            "scenarios use granted changes and the web tools, which the nested tier has not: play them where no other supervisor of \
             system calls listens"
                .to_owned(),
        ),
        (tier, _) => Ok(tier),
    }
}

/// Shows what is under way, to people only.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", output::plain(text));
    }
}

fn one_shipped(name: &str) -> Result<Found, String> {
    let shipped = shipped(name).ok_or_else(|| {
        let names: Vec<&str> = SHIPPED.iter().map(|s| s.name).collect();
        format!("no shipped scenario is called `{name}`: {}", names.join(", "))
    })?;
    read(shipped.text, &format!("shipped {name}"), name)
}

fn read(text: &str, file: &str, name: &str) -> Result<Found, String> {
    let scenario = scenario::parse(text, file, name).map_err(|e| e.render(output::colourful_stderr()))?;
    Ok(Found {
        scenario,
        file: file.to_owned(),
        text: text.to_owned(),
    })
}

/// All scenarios that are meant, each read and checked before any is played.
fn find(what: &[PathBuf]) -> Result<Vec<Found>, String> {
    if what.is_empty() {
        let all = SHIPPED.iter().map(|s| one_shipped(s.name));
        return all.collect();
    }
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for path in what {
        let plain = path.to_str().filter(|name| !name.contains(['/', '.']));
        let read = match plain {
            Some(name) if !path.exists() => one_shipped(name).map(|f| vec![f]).map_err(|e| format!("picktwo: {e}")),
            _ => files(path).and_then(|files| files.iter().map(|f| read_file(f)).collect()),
        };
        match read {
            Ok(mut some) => found.append(&mut some),
            Err(e) => errors.push(e),
        }
    }
    if errors.is_empty() {
        Ok(found)
    } else {
        Err(format!("{}\n", errors.join("\n\n")))
    }
}

/// A file, or the scenarios of a directory in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |e: std::io::Error| format!("picktwo: {}: {e}", path.display());
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|e| e == "toml") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!("picktwo: {}: no scenario (.toml) is in there", path.display()));
    }
    Ok(files)
}

fn read_file(path: &Path) -> Result<Found, String> {
    let failed = |e: std::io::Error| format!("picktwo: {}: {e}", path.display());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_FILE), &mut text).map_err(failed)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    read(&text, &path.display().to_string(), &name)
}

fn explain(found: &Found) -> String {
    let s = &found.scenario;
    let mode = match s.mode {
        picktwo_policies::model::Mode::ReadOnly => "read-only",
        picktwo_policies::model::Mode::Edit => "edit",
    };
    let mut text = format!("{} ({mode}): {}\n", s.name, s.title.value);
    if let Some(about) = &s.about {
        text.push_str(&format!("\n{}\n", about.trim()));
    }
    text.push_str("\nThe agent is made to:\n");
    for step in &s.steps {
        text.push_str(&format!("  {} ({})\n", step.name.value, step.tool));
    }
    text.push_str("\nJudged:\n");
    for check in &s.checks {
        text.push_str(&format!("  {}: {}\n", check.tried.value, check.kind));
    }
    text.push('\n');
    text.lines().map(|line| output::plain(line) + "\n").collect()
}
