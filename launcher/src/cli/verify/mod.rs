//! `picktwo verify`: the escapes, tried from inside by each confined role, judged from outside.

mod base;
mod catalogue;
mod daemons;
mod driven;
mod explain;
mod foreign;
mod inside;
mod judge;
mod junit;
mod objects;
mod own;
mod progress;
mod report;
mod sarif;
mod session;
mod stage;
mod terminal;
mod tree;

use super::output::{self, Paint};
use crate::session::tier;
use judge::Judgement;
use picktwo_confine::probes::{self, Place, Probe, Surroundings};
use progress::Progress;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terminal::Terminal;

/// Tries the escapes from inside, role by role; with a command, judges any other sandbox by the same escapes.
///
/// Each attempt is made twice: outside, where it must succeed, and by the confined process, where it must fail with exactly the
/// expected error. Files, sockets and processes that are aimed at are watched from outside. All of it is harmless: it aims at
/// its own files in a temporary directory, its own servers on loopback, its own process.
///
/// A command is a sandbox with its options, without the program to run in it: picktwo adds that, as
/// `picktwo verify -- bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --bind {workspace} {workspace}`. It is started
/// in the workspace, with a HOME of its own, and must let the program that is added read its standard input and write its
/// standard output. `{workspace}`, `{home}` and `{shared}` in it stand for the directories that it is judged on. There, any
/// refusal holds, whatever its error.
///
/// Exit code 0 if everything held, 1 if anything escaped or was answered in an unexpected way, 125 if it cannot be tried.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("asked").args(["list", "explain", "inside"]))]
pub(crate) struct Args {
    /// Only this role
    #[arg(long, value_enum, value_name = "ROLE", conflicts_with_all = ["command", "asked"])]
    role: Option<Role>,
    /// Only this mode of the agent; with a command, the mode to judge it by instead of finding out whether its workspace is writable
    #[arg(long, value_enum, value_name = "MODE", conflicts_with = "asked")]
    mode: Option<Mode>,
    /// Only these attempts, by name or class, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "asked")]
    only: Vec<String>,
    /// The tier that sessions are started in
    #[arg(long, value_enum, value_name = "TIER", conflicts_with_all = ["command", "asked"])]
    tier: Option<Tier>,
    /// Print every finding as JSON
    #[arg(long)]
    json: bool,
    /// Write the findings to this file, as JUnit XML
    #[arg(long, value_name = "FILE", conflicts_with = "asked")]
    junit: Option<PathBuf>,
    /// Write what did not hold to this file, as SARIF 2.1.0
    #[arg(long, value_name = "FILE", conflicts_with = "asked")]
    sarif: Option<PathBuf>,
    /// List the attempts
    #[arg(long, conflicts_with = "command")]
    list: bool,
    /// Explain one attempt: what is tried, why it matters, what a good sandbox answers
    #[arg(long, value_name = "ID", conflicts_with = "command")]
    explain: Option<String>,
    /// Internal: make the attempts that standard input names
    #[arg(long, hide = true, value_enum, value_name = "WHERE")]
    inside: Option<Inside>,
    /// A sandbox to judge: its command without the program to run in it
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Agent,
    Retriever,
    Gateway,
    /// The gateway of the retrievers
    RetrieverGateway,
    /// What resolves names
    Resolver,
    /// Both network supervisors
    Outside,
    /// The network supervisor of the web side
    OutsideWeb,
    /// The network supervisor of the model side
    OutsideModel,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    ReadOnly,
    Edit,
}

impl Mode {
    fn place(self) -> Place {
        match self {
            Mode::ReadOnly => Place::ReadOnly,
            Mode::Edit => Place::Edit,
        }
    }
}

/// The tier that a session is started in.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tier {
    /// Namespaces, Landlock and seccomp with notification
    Full,
    /// Landlock and seccomp with notification
    Container,
    /// Namespaces, Landlock and seccomp without notification
    Nested,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Tier::Full => "full",
            Tier::Container => "container",
            Tier::Nested => "nested",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Inside {
    Session,
    Bare,
    Judged,
}

impl Role {
    /// Whom to try, in which mode. A mode is the agent's.
    fn places(role: Option<Role>, mode: Option<Mode>) -> Vec<Place> {
        let of_role = |place: &Place| match role {
            None => true,
            Some(Role::Agent) => place.mode().is_some(),
            Some(Role::Retriever) => *place == Place::Retriever,
            Some(Role::Gateway) => *place == Place::Gateway,
            Some(Role::RetrieverGateway) => *place == Place::RetrieverGateway,
            Some(Role::Resolver) => *place == Place::Resolver,
            Some(Role::Outside) => matches!(place, Place::OutsideWeb | Place::OutsideModel),
            Some(Role::OutsideWeb) => *place == Place::OutsideWeb,
            Some(Role::OutsideModel) => *place == Place::OutsideModel,
        };
        let of_mode = |place: &Place| mode.is_none_or(|mode| *place == mode.place());
        Place::ALL
            .into_iter()
            .filter(|place| of_role(place) && of_mode(place))
            .collect()
    }
}

impl Args {
    /// Whether this is the session's own command.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }
}

pub(crate) fn main(args: Args) -> ExitCode {
    match args.inside {
        Some(Inside::Session) => return inside::main(Surroundings::Session),
        Some(Inside::Bare) => return inside::main(Surroundings::Bare),
        Some(Inside::Judged) => return inside::main(Surroundings::Judged),
        None => {}
    }
    if args.list {
        return output::print(&explain::list(args.json));
    }
    if let Some(id) = &args.explain {
        return match explain::one(id, args.json) {
            Ok(text) => output::print(&text),
            Err(e) => output::fail(&e),
        };
    }
    match terminal::on_own(|terminal| report(&args, terminal)) {
        Ok(code) => ExitCode::from(code),
        Err(e) => output::fail(&e),
    }
}

/// Judges, writes what was found, and gives the exit code.
fn report(args: &Args, terminal: Option<&Terminal>) -> u8 {
    let failed = |e: &dyn std::fmt::Display| {
        output::say(e);
        super::EXIT_FAILED
    };
    let judgement = match judged(args, terminal) {
        Ok(judgement) if judgement.findings.is_empty() => return failed(&"none of these attempts is made there"),
        Ok(judgement) => judgement,
        Err(e) => return failed(&e),
    };
    for (file, text) in [
        (&args.junit, judgement_text(&args.junit, || junit::text(&judgement))),
        (&args.sarif, judgement_text(&args.sarif, || sarif::text(&judgement))),
    ] {
        if let (Some(file), Some(text)) = (file, text)
            && let Err(e) = std::fs::write(file, text)
        {
            return failed(&format!("cannot write {}: {e}", file.display()));
        }
    }
    let text = if args.json {
        format!("{}\n", report::json(&judgement))
    } else {
        report::people(&judgement, Paint::stdout())
    };
    if output::print(&text) != ExitCode::SUCCESS {
        return super::EXIT_FAILED;
    }
    u8::from(!judge::held(&judgement.findings))
}

fn judgement_text(file: &Option<PathBuf>, text: impl FnOnce() -> String) -> Option<String> {
    file.as_deref().map(|_: &Path| text())
}

fn judged(args: &Args, terminal: Option<&Terminal>) -> Result<Judgement, String> {
    let progress = Progress::new();
    let probes = selected(&args.only)?;
    if !args.command.is_empty() {
        return foreign::judge(&args.command, args.mode.map(Mode::place), &probes, terminal, &progress)
            .map_err(|e| e.to_string());
    }
    let mut places = Role::places(args.role, args.mode);
    if places.is_empty() {
        return Err("--mode is the agent's: leave it out, or name --role agent".to_owned());
    }
    let asked = match args.tier {
        Some(Tier::Full) => {
            tier::full().map_err(|e| e.to_string())?;
            Tier::Full
        }
        Some(Tier::Container) => Tier::Container,
        Some(Tier::Nested) => {
            tier::nested().map_err(|e| e.to_string())?;
            Tier::Nested
        }
        None => match tier::best().map_err(|e| e.to_string())?.tier {
            tier::Tier::Full => Tier::Full,
            tier::Tier::Container => Tier::Container,
            tier::Tier::Nested => Tier::Nested,
        },
    };
    if asked == Tier::Nested {
        // They cannot start where another supervisor listens, and no session of that tier has them.
        places.retain(|place| !matches!(place, Place::Retriever | Place::OutsideWeb | Place::RetrieverGateway));
    }
    if places.is_empty() {
        return Err("sessions of the nested tier have no web tools, and so no such process".to_owned());
    }
    own::verify(&places, asked, &probes, terminal, &progress)
}

/// The attempts of these names or classes; all, if there are none.
fn selected(only: &[String]) -> Result<Vec<&'static Probe>, String> {
    let named = |probe: &Probe, name: &String| probe.id == name || probe.class() == name;
    if let Some(unknown) = only.iter().find(|name| !probes::all().any(|probe| named(probe, name))) {
        return Err(format!(
            "there is no attempt and no class `{unknown}`: `picktwo verify --list` lists them"
        ));
    }
    let wanted = |probe: &&'static Probe| only.is_empty() || only.iter().any(|name| named(probe, name));
    Ok(probes::all().filter(wanted).collect())
}
