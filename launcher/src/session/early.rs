//! What of a session can start before its policy is known: its namespaces, and the part of the view that is the same for all.

use super::bounds;
use super::plan::PlanError;
use super::tier::{self, Choice, Tier};
use crate::names;
use picktwo_inside::init;
use picktwo_inside::view::{Base, Identity, Sizes};
use std::path::PathBuf;

/// A session's first process at work, and for whom.
pub(crate) struct Early {
    /// The person.
    pub(crate) identity: Identity,
    /// What the session is made of.
    pub(crate) choice: Choice,
    /// What came of the clone, told once everything that the person could have got wrong was; none where no namespace is made.
    pub(super) init: Option<Result<init::Starting, init::Error>>,
}

/// Decides on the tier, and starts the init if there is one. To be called while this process has one thread and has read nothing
/// worth stealing.
///
/// # Errors
/// There is no HOME, or this machine lacks what the tier needs.
pub(crate) fn start(asked: Option<Tier>) -> Result<Early, PlanError> {
    let home = names::home_dir().map_err(PlanError::NoHome)?;
    let base = Base {
        identity: identity(home.canonicalize().unwrap_or(home)),
        terminal: terminal(),
        // Those of the built-in policy: others are set once the policy is read.
        sizes: Sizes::default().on_machine_with(bounds::memory()),
    };
    let (choice, init) = tier::choose(asked, || init::start(&base)).map_err(PlanError::Tier)?;
    Ok(Early {
        identity: base.identity,
        choice,
        init,
    })
}

/// The person's terminal, if standard input, output or error is one.
fn terminal() -> Option<PathBuf> {
    use std::io::IsTerminal;
    let fds: [(bool, i32); 3] = [
        (std::io::stdin().is_terminal(), 0),
        (std::io::stdout().is_terminal(), 1),
        (std::io::stderr().is_terminal(), 2),
    ];
    let fd = fds.iter().find(|(tty, _)| *tty)?.1;
    std::fs::read_link(format!("/proc/self/fd/{fd}"))
        .ok()
        .filter(|p| p.starts_with("/dev"))
}

/// Reads `/etc/passwd` and `/etc/group` as text: the C library's look-up would load modules and ask daemons.
fn identity(home: PathBuf) -> Identity {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    let field = |file: &str, id: u32, column: usize| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .map(|l| l.split(':').collect::<Vec<_>>())
            .find(|f| f.get(2).is_some_and(|f| f.parse() == Ok(id)))
            .and_then(|f| f.get(column).map(|s| (*s).to_owned()))
    };
    let variable = |name: &str| names::variable(name).and_then(|v| v.into_string().ok());
    let plain = |name: &String| !name.is_empty() && !name.contains([':', '\n', '/']);
    Identity {
        uid,
        gid,
        user: field("/etc/passwd", uid, 0)
            .or_else(|| variable("USER"))
            .filter(plain)
            .unwrap_or_else(|| "user".to_owned()),
        group: field("/etc/group", gid, 0)
            .filter(plain)
            .unwrap_or_else(|| "group".to_owned()),
        shell: field("/etc/passwd", uid, 6)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
            .unwrap_or_else(|| "/bin/sh".into()),
        home,
    }
}
