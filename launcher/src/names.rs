//! The only place where environment variables and file names of picktwo's own are spelled.

use std::ffi::OsString;
use std::path::PathBuf;

/// State lives below this directory (XDG Base Directory Specification).
pub(crate) const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The user's policy lives below this directory (XDG Base Directory Specification).
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// What can be made again lies below this directory (XDG Base Directory Specification).
pub(crate) const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// The user's home.
pub(crate) const HOME: &str = "HOME";
/// Where commands are looked up.
pub(crate) const PATH: &str = "PATH";
/// Where programs put what they need for a moment.
pub(crate) const TMPDIR: &str = "TMPDIR";
/// The session's id, inside.
pub(crate) const PICKTWO_SESSION: &str = "PICKTWO_SESSION";
/// The terminal's kind.
pub(crate) const TERM: &str = "TERM";
/// Any value: no colour (no-color.org).
pub(crate) const NO_COLOR: &str = "NO_COLOR";

/// The audit of a session, in its directory.
pub(crate) const AUDIT: &str = "audit.jsonl";
/// The description of a session, in its directory.
pub(crate) const SESSION_JSON: &str = "session.json";
/// The control socket of a live session, in its directory.
pub(crate) const CONTROL_SOCKET: &str = "control.sock";
/// Distilled answers of a session, in its directory.
pub(crate) const RETRIEVALS: &str = "retrievals";
/// The sessions, in the state directory.
pub(crate) const SESSIONS: &str = "sessions";
/// The ledger, in the state directory.
pub(crate) const LEDGER: &str = "ledger.jsonl";
/// The project's policy, at the workspace's root.
pub(crate) const PROJECT_POLICY: &str = ".picktwo.toml";
/// The profile name that records give to retrievals outside a session.
pub(crate) const FETCH_PROFILE: &str = "fetch";
/// The machine's policy.
pub(crate) const SYSTEM_POLICY: &str = "/etc/picktwo/policy.toml";

/// Neither the XDG variable nor `HOME` is an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoHome(&'static str);

impl std::fmt::Display for NoHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            HOME => write!(f, "HOME is not set to an absolute path: set it"),
            name => write!(f, "neither {name} nor HOME is set to an absolute path: set HOME"),
        }
    }
}

/// An environment variable, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|v| !v.is_empty())
}

/// The user's home directory.
pub(crate) fn home_dir() -> Result<PathBuf, NoHome> {
    variable(HOME)
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .ok_or(NoHome(HOME))
}

fn xdg(name: &'static str, below_home: &str) -> Result<PathBuf, NoHome> {
    // The specification says that relative paths are to be ignored.
    match variable(name).map(PathBuf::from).filter(|p| p.is_absolute()) {
        Some(path) => Ok(path),
        None => home_dir().map(|home| home.join(below_home)).map_err(|_| NoHome(name)),
    }
}

/// Sessions, ledger and private states.
pub(crate) fn state_dir() -> Result<PathBuf, NoHome> {
    Ok(xdg(XDG_STATE_HOME, ".local/state")?.join("picktwo"))
}

/// The user's policy and own profiles.
pub(crate) fn config_dir() -> Result<PathBuf, NoHome> {
    Ok(xdg(XDG_CONFIG_HOME, ".config")?.join("picktwo"))
}

/// What can be made again.
pub(crate) fn cache_dir() -> Result<PathBuf, NoHome> {
    Ok(xdg(XDG_CACHE_HOME, ".cache")?.join("picktwo"))
}

/// The user's policy file.
pub(crate) fn user_policy() -> Result<PathBuf, NoHome> {
    Ok(config_dir()?.join("policy.toml"))
}

/// What sessions of the same workspaces lock.
pub(crate) fn locks_dir() -> Result<PathBuf, NoHome> {
    Ok(state_dir()?.join("locks"))
}

/// One directory per session.
pub(crate) fn sessions_dir() -> Result<PathBuf, NoHome> {
    Ok(state_dir()?.join(SESSIONS))
}
