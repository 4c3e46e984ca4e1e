//! `picktwo run`: a command in a session.

use super::output::{self, Paint};
use crate::session::early;
use crate::session::plan::{Plan, Wish};
use crate::session::start::{self, Status};
use crate::session::tier::Tier;
use crate::session::wait;
use picktwo_wire::control::Mode;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a command in a session.
///
/// The command sees the system's programs, its workspace, and a private HOME; it has no network but its model's gateway, and it
/// changes nothing in the workspace until you allow it (`picktwo mode SESSION edit`, or --edit from the start). Profiles for
/// known agents are chosen by the command's name.
///
/// The exit code is the command's; 125 if picktwo itself failed, 126 or 127 if the command cannot be run or found.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Start in edit mode: the agent may change the workspace, except protected paths
    #[arg(long)]
    edit: bool,
    /// A built-in profile (claude, codex, generic), or a profile file that ends in .toml
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// A policy file, read after the user's own
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The directory the agent works in; the current one if not given
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// A further path the agent may read
    #[arg(long, value_name = "PATH")]
    ro: Vec<PathBuf>,
    /// A further directory the agent may change in edit mode
    #[arg(long, value_name = "DIR")]
    rw: Vec<PathBuf>,
    /// What the session is made of: full needs namespaces, container does without, nested without granted calls; the best that there is if not given
    #[arg(long, value_name = "TIER")]
    tier: Option<Tier>,
    /// Write what becomes of the session to this open descriptor, one JSON object per line
    #[arg(long, value_name = "FD")]
    json_status: Option<i32>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let status = match args.json_status {
        None => Status::none(),
        Some(number) => match picktwo_confine::sys::take_fd(number) {
            Some(fd) => match picktwo_confine::sys::status_flags(std::os::fd::AsFd::as_fd(&fd)) {
                Ok(flags) if flags & nix::libc::O_ACCMODE != nix::libc::O_RDONLY => Status::to(fd),
                _ => return output::fail(&format!("--json-status: descriptor {number} is not open for writing")),
            },
            None => return output::fail(&format!("--json-status: descriptor {number} is not open")),
        },
    };
    let wish = Wish {
        command: args.command,
        workspace: args.workspace,
        edit: args.edit,
        profile: args.profile,
        policy: args.policy,
        ro: args.ro,
        rw: args.rw,
    };
    // The session's first process begins with what does not depend on the plan; a plan that comes to nothing ends it.
    let early = early::start(args.tier);
    let planned = early.and_then(|early| {
        Ok((
            Plan::resolve(wish, early.identity.clone(), early.choice.clone())?,
            early,
        ))
    });
    let (plan, early) = match planned {
        Ok(planned) => planned,
        Err(e) => {
            let text = e.render(output::colourful_stderr());
            let _ = std::io::stderr().write_all(text.as_bytes());
            return ExitCode::from(super::EXIT_FAILED);
        }
    };
    match start::run(plan, early, status, &greet) {
        Ok(end) => {
            if let wait::End::Signal(signal) = end {
                // The launcher ignores some that may have ended the command.
                let _ = picktwo_confine::sys::signal_default(signal);
            }
            wait::end_like(end)
        }
        Err(e) => {
            output::say(&e);
            ExitCode::from(e.exit_code())
        }
    }
}

/// One line before the command takes the terminal: what mode this is, and how to change it.
fn greet(id: &str, plan: &Plan) {
    // Said to scripts as well: it is weaker than what they get elsewhere.
    if let Some(missing) = &plan.tier.instead_of_full {
        output::say(&format!("{} tier, since {}", plan.tier.tier, missing.reason()));
    }
    let nested = plan.tier.tier == Tier::Nested;
    if nested {
        output::say(&format!(
            "no web tools in the nested tier, and the session stays {}",
            plan.mode
        ));
    }
    if nested && plan.mode == Mode::Edit {
        output::say(&"protected paths that exist now are mounted read-only; what appears later is not protected");
    }
    if !std::io::stderr().is_terminal() {
        return;
    }
    let paint = Paint::stderr();
    let line = match plan.mode {
        Mode::ReadOnly if nested => paint.good("read-only"),
        Mode::Edit if nested => paint.warn("edit"),
        Mode::ReadOnly => format!("{} · allow changes: picktwo mode {id} edit", paint.good("read-only")),
        Mode::Edit => format!("{} · stop changes: picktwo mode {id} read-only", paint.warn("edit")),
    };
    let tier = match plan.tier.tier {
        Tier::Full => String::new(),
        Tier::Container | Tier::Nested => format!("{} · ", paint.warn(&format!("{} tier", plan.tier.tier))),
    };
    output::say(&format!("session {id} · {tier}{line}"));
}
