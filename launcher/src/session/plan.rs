//! From arguments to a plan: everything that can be decided before the session starts. Nothing is decided later.

use super::policy::{self, PolicyError};
use super::tier::{self, Choice, Tier};
use crate::names;
use crate::record::{RecordError, make_private_dir};
use picktwo_inside::agent;
use picktwo_inside::container::Place;
use picktwo_inside::view::{self, Identity, Places, ReadOnly};
use picktwo_policies::model::{Distiller, Policy, Set};
use picktwo_wire::control::Mode;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where what picktwo gives to a session is in a view.
const GIVEN: &str = "/run/picktwo";

/// What the person asked for.
pub(crate) struct Wish {
    /// The command and its arguments.
    pub(crate) command: Vec<OsString>,
    /// The workspace; the current directory if not given.
    pub(crate) workspace: Option<PathBuf>,
    /// Start in edit mode.
    pub(crate) edit: bool,
    /// Profile by name or file.
    pub(crate) profile: Option<String>,
    /// A further policy file.
    pub(crate) policy: Option<PathBuf>,
    /// Further readable paths.
    pub(crate) ro: Vec<PathBuf>,
    /// Further paths that edit mode may change.
    pub(crate) rw: Vec<PathBuf>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum PlanError {
    /// HOME and the like.
    NoHome(names::NoHome),
    /// The directory cannot be a workspace.
    Workspace(view::Refused),
    /// The current directory is not known.
    CurrentDirectory(std::io::Error),
    /// The policy.
    Policy(Box<PolicyError>),
    /// A path that policy or command line names is not there; holds who named it.
    Missing(PathBuf, String, std::io::Error),
    /// A key that this version reads but cannot enforce yet; holds where it stands.
    NotEnforced(&'static str, String),
    /// A private directory cannot be made.
    Private(RecordError),
    /// The machine cannot enforce the tier.
    Tier(tier::Missing),
    /// A standard descriptor that no session, or none of the tier, can have; holds the sentence.
    Stream(String),
}

impl PlanError {
    /// As people read it.
    pub(crate) fn render(&self, colour: bool) -> String {
        match self {
            Self::NoHome(e) => format!("picktwo: {e}\n"),
            Self::Workspace(e) => format!("picktwo: {e}\n"),
            Self::CurrentDirectory(e) => {
                format!("picktwo: the current directory cannot be the workspace: {e}; name one with --workspace\n")
            }
            Self::Policy(e) => e.render(colour),
            Self::Missing(path, by, e) => format!("picktwo: {} ({by}) cannot be used: {e}\n", path.display()),
            Self::NotEnforced(key, place) => {
                format!(
                    "picktwo: `{key}` ({place}) is not enforced by this version yet: take it out, nothing was started\n"
                )
            }
            Self::Private(e) => format!("picktwo: {e}\n"),
            Self::Tier(e) => format!("picktwo: {e}\n"),
            Self::Stream(e) => format!("picktwo: {e}\n"),
        }
    }
}

/// A session, decided.
pub(crate) struct Plan {
    /// The command and its arguments, as the person wrote them.
    pub(crate) command: Vec<OsString>,
    /// Absolute, without links.
    pub(crate) workspace: PathBuf,
    /// The mode it starts in.
    pub(crate) mode: Mode,
    /// The policy in force.
    pub(crate) policy: Policy,
    /// Whether the profile is this command's own, or was asked for: then its arguments are added.
    pub(crate) profiled: bool,
    /// Who the session runs as.
    pub(crate) identity: Identity,
    /// The working directory inside.
    pub(crate) directory: PathBuf,
    /// Directories that grants may change, the workspace first.
    pub(crate) roots: Vec<PathBuf>,
    /// What is readable beside them.
    pub(crate) read_only: Vec<ReadOnly>,
    /// What must never be visible.
    pub(crate) hidden: Vec<PathBuf>,
    /// The directory that is HOME inside.
    pub(crate) private_home: PathBuf,
    /// The person's own home.
    pub(crate) real_home: PathBuf,
    /// What the session is made of.
    pub(crate) tier: Choice,
}

impl Plan {
    /// Decides.
    ///
    /// # Errors
    /// The first thing that does not allow a session; nothing has been started.
    pub(crate) fn resolve(wish: Wish, identity: Identity, tier: Choice) -> Result<Self, PlanError> {
        if let Some(leads_out) = agent::leads_out() {
            return Err(PlanError::Stream(leads_out));
        }
        if tier.tier == Tier::Nested
            && let Some(unfit) = agent::unfit()
        {
            return Err(PlanError::Stream(unfit));
        }
        let home = identity.home.clone();
        let state = names::state_dir().map_err(PlanError::NoHome)?;
        let config = names::config_dir().map_err(PlanError::NoHome)?;
        let asked = match &wish.workspace {
            Some(path) => path.clone(),
            None => std::env::current_dir().map_err(PlanError::CurrentDirectory)?,
        };
        make_private_dir(&state).map_err(PlanError::Private)?;
        let mut places = Places {
            home: home.clone(),
            state: state.clone(),
            config: config.clone(),
            policy: Vec::new(),
        };
        // Before the project's file is read: what may not be a workspace has no project.
        let workspace = view::workspace_check(&asked, &places).map_err(PlanError::Workspace)?;
        let program = wish.command.first().map(|c| c.to_string_lossy().into_owned());
        let loaded = policy::load(
            Some(&workspace),
            wish.profile.as_deref(),
            program.as_deref(),
            wish.policy.as_deref(),
        )
        .map_err(|e| PlanError::Policy(Box::new(e)))?;
        places.policy.clone_from(&loaded.files);
        view::workspace_check(&workspace, &places).map_err(PlanError::Workspace)?;
        let policy = loaded.policy;
        let name = wish.command.first().and_then(|c| Path::new(c).file_name());
        let own = policy
            .profile
            .commands
            .iter()
            .any(|c| name == Some(OsStr::new(&c.value)));
        let profiled = wish.profile.is_some() || own;
        enforceable(&policy)?;
        // What a policy opens could not be closed again there: it takes the person's word, each time.
        let by_policy = policy.mode.value == picktwo_policies::model::Mode::Edit && tier.tier != Tier::Nested;
        let mode = if wish.edit || by_policy {
            Mode::Edit
        } else {
            Mode::ReadOnly
        };
        let hidden: Vec<PathBuf> = [state.clone(), config]
            .into_iter()
            .map(|p| p.canonicalize().unwrap_or(p))
            .collect();

        let mut roots = vec![workspace.clone()];
        for path in named(&policy.files.write, &workspace)?
            .into_iter()
            .chain(given(&wish.rw, "--rw")?)
        {
            let path = view::workspace_check(&path, &places).map_err(PlanError::Workspace)?;
            if !roots.iter().any(|r| path.starts_with(r)) {
                roots.retain(|r| !r.starts_with(&path) || *r == workspace);
                roots.push(path);
            }
        }
        let variable = |name: &str| names::variable(name);
        let search = view::toolchains::Search {
            home: &home,
            variable: &variable,
            hidden: &hidden,
        };
        let mut read_only: Vec<PathBuf> = view::toolchains::discover(&search);
        if let Some(program) = wish.command.first() {
            read_only.extend(view::toolchains::for_program(program, &search));
        }
        read_only.extend(named(&policy.files.read, &workspace)?);
        read_only.extend(given(&wish.ro, "--ro")?);
        let read_only = simplify(read_only, &roots);

        let profile = policy.profile.name.value.clone();
        let private_home = state
            .join("agents")
            .join(&profile)
            .join(workspace_hash(&workspace))
            .join("home");
        // The way to it is closed while sessions run (and afterwards), and an earlier session may have closed the home itself.
        for dir in [above(&private_home), &private_home] {
            make_private_dir(dir).map_err(PlanError::Private)?;
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
                .map_err(|e| PlanError::Missing(dir.to_path_buf(), "the session's private home".to_owned(), e))?;
        }
        let directory = std::env::current_dir()
            .ok()
            .filter(|d| wish.workspace.is_none() && d.starts_with(&workspace))
            .unwrap_or_else(|| workspace.clone());
        let private_home = private_home.canonicalize().unwrap_or(private_home);
        let seen_home = match tier.tier {
            Tier::Full | Tier::Nested => home.clone(),
            // Nothing can be mounted over the person's own.
            Tier::Container => private_home.clone(),
        };
        Ok(Self {
            command: wish.command,
            mode,
            identity: Identity {
                home: seen_home,
                ..identity
            },
            real_home: home,
            tier,
            directory,
            roots,
            read_only,
            hidden,
            private_home,
            workspace,
            policy,
            profiled,
        })
    }
}

impl Plan {
    /// Where what picktwo gives to the session is inside: the profile's files, its binary, the tools' socket.
    pub(super) fn given(&self, id: &str) -> PathBuf {
        match self.tier.tier {
            Tier::Full | Tier::Nested => GIVEN.into(),
            Tier::Container => Place::of(id).join("own"),
        }
    }
}

/// The directory that a private home alone lies in.
pub(super) fn above(private_home: &Path) -> &Path {
    private_home.parent().unwrap_or(private_home)
}

/// Refuses what would be promised and not kept.
pub(super) fn enforceable(policy: &Policy) -> Result<(), PlanError> {
    let place = |p: &picktwo_policies::Place| format!("{}, line {}", p.file(), p.line());
    if let Some(hide) = policy.files.hide.first() {
        return Err(PlanError::NotEnforced("files.hide", place(&hide.place)));
    }
    let retrieval = &policy.retrieval;
    if retrieval.distiller.value != Distiller::Extractive {
        return Err(PlanError::NotEnforced(
            "retrieval.distiller",
            place(&retrieval.distiller.place),
        ));
    }
    if retrieval.raw.value {
        return Err(PlanError::NotEnforced("retrieval.raw", place(&retrieval.raw.place)));
    }
    Ok(())
}

/// Paths that a policy names.
fn named(paths: &[Set<String>], workspace: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let mut found = Vec::new();
    for path in paths {
        let full = workspace.join(super::key::expand_home(&path.value));
        let by = format!("{}, line {}", path.place.file(), path.place.line());
        found.push(
            full.canonicalize()
                .map_err(|e| PlanError::Missing(full.clone(), by, e))?,
        );
    }
    Ok(found)
}

fn given(paths: &[PathBuf], by: &str) -> Result<Vec<PathBuf>, PlanError> {
    paths
        .iter()
        .map(|p| {
            p.canonicalize()
                .map_err(|e| PlanError::Missing(p.clone(), by.to_owned(), e))
        })
        .collect()
}

/// Sorted, none below another, none below a root.
fn simplify(mut paths: Vec<PathBuf>, roots: &[PathBuf]) -> Vec<ReadOnly> {
    paths.sort();
    paths.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        let covered = kept.iter().chain(roots).any(|k| path.starts_with(k));
        if !covered {
            kept.push(path);
        }
    }
    kept.into_iter().map(ReadOnly::new).collect()
}

/// A directory name for a workspace: its last component for people, a hash for uniqueness.
fn workspace_hash(workspace: &Path) -> String {
    let name: String = workspace
        .file_name()
        .map(|n| {
            n.to_string_lossy()
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .take(24)
                .collect()
        })
        .unwrap_or_default();
    let hash = crate::record::hash(workspace.as_os_str().as_bytes());
    format!("{name}-{}", &hash[..16])
}
