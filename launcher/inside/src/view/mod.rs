//! What a session sees of the file system: everything that is not put there does not exist.
//!
//! The launcher decides on a [`Plan`]; the first process of the session's namespaces carries it out and ends with its root in
//! the view. What needs no plan ([`Base`]) is built meanwhile. In both modes, everything of the host is read-only in the view, with whatever is
//! mounted in it; what a session may write by itself is its private home, `/tmp`, `/dev/shm` and `/run/user/UID`.
//! Nothing is made in any directory of the person's: mount points exist on file systems of the session's own and in the
//! private home only.

mod devices;
mod error;
mod etc;
mod mounts;
mod plan;
pub mod toolchains;
mod tree;
mod workspace;

pub(crate) use devices::readable_of_sys;
pub use error::Error;
pub(crate) use etc::readable as readable_of_etc;
pub use etc::replaced as replaced_files;
pub use plan::{BINARY, Base, Fixed, HOST_NAME, Identity, Inode, Made, Plan, PlanError, ReadOnly, Sizes, TOOLS_SOCKET};
pub use workspace::{Places, Refused, workspace_check};

use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tree::Tree;

/// How long each step took, in microseconds, in order.
pub type Steps = Vec<(String, u32)>;

/// Measures steps.
#[derive(Debug)]
pub(crate) struct Clock {
    last: Instant,
    pub(crate) steps: Steps,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            last: Instant::now(),
            steps: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self, name: &str) {
        let now = Instant::now();
        self.steps.push((
            name.into(),
            u32::try_from((now - self.last).as_micros()).unwrap_or(u32::MAX),
        ));
        self.last = now;
    }
}

/// Top-level directories that are links into /usr on most systems, and directories on some.
const SYSTEM_LINKS: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Directories of software that are shown where they exist.
const SYSTEM: &[&str] = &["/usr", "/opt", "/nix/store", "/gnu/store"];
/// Links of systems that keep their programs in a store.
const STORE_LINKS: &[&str] = &[
    "/run/current-system",
    "/run/booted-system",
    "/nix/var/nix/profiles/default",
];

/// The system's directories, for a session that sees the host's own: those of [`SYSTEM`] and [`SYSTEM_LINKS`] that exist.
pub(crate) fn system_directories() -> Vec<PathBuf> {
    let links = SYSTEM_LINKS.iter().map(|name| Path::new("/").join(name));
    SYSTEM
        .iter()
        .map(PathBuf::from)
        .chain(links)
        .filter(|path| path.exists())
        .collect()
}

/// A view that is being built.
pub(crate) struct Started {
    tree: Tree,
    /// What of the host is visible in it.
    shown: Vec<PathBuf>,
    sizes: Sizes,
}

/// Builds the part of the view that needs no plan. The calling process must be the only one in new user, mount and pid
/// namespaces, with its ids mapped and all capabilities over them.
///
/// # Errors
/// The first step that failed, with its object. The process must not go on then.
pub(crate) fn start(base: &Base, clock: &mut Clock) -> Result<Started, Error> {
    if let Some(terminal) = &base.terminal
        && !plan::plain(terminal)
    {
        return Err(PlanError::NotPlain(terminal.clone()).into());
    }
    mounts::separate().map_err(Error::Propagation)?;
    let tree = Tree::new()?;
    clock.step("root");
    let shown = system(&tree)?;
    clock.step("system");
    etc::fill(&tree, &base.identity)?;
    clock.step("etc");
    devices::dev(&tree, base)?;
    clock.step("dev");
    devices::proc(&tree, base)?;
    clock.step("proc");
    devices::sys(&tree)?;
    clock.step("sys");
    writable(&tree, base)?;
    clock.step("writable");
    Ok(Started {
        tree,
        shown,
        sizes: base.sizes,
    })
}

/// Builds the rest of the view and enters it; [`close`] is still to come. The calling process is the one that started it.
///
/// # Errors
/// As for [`start`].
pub(crate) fn finish(started: Started, plan: &Plan, clock: &mut Clock) -> Result<OwnedFd, Error> {
    plan.check()?;
    if let Some(most) = plan.processes {
        mounts::limit_processes(most).map_err(Error::Processes)?;
    }
    let Started { tree, shown, sizes } = started;
    tree.bind_writable(&plan.private_home, &plan.home)?;
    for file in &plan.files {
        tree.file(&file.path, &file.content, 0o644)?;
    }
    if let Some(binary) = &plan.binary {
        tree.bind_decided(binary, Path::new(BINARY), mounts::SHOWN)?;
    }
    of_the_host(&tree, plan, shown)?;
    clock.step("host");
    // The directory exists before the root is frozen; who makes the socket is the init.
    drop(tree.directory(Path::new("/run/picktwo"), 0o755)?);
    tree.enter()?;
    for (place, now, wanted) in [
        ("/tmp", sizes.tmp, plan.sizes.tmp),
        ("/dev/shm", sizes.shm, plan.sizes.shm),
    ] {
        if now != wanted {
            mounts::resize(Path::new(place), wanted).map_err(|errno| Error::FileSystem {
                kind: format!("tmpfs at {place}"),
                errno,
            })?;
        }
    }
    clock.step("enter");
    Ok(tree.into_root())
}

/// Takes the host's tree out of the view and makes the root itself read-only: the last step, once everything is in it. Nothing
/// foreign may run before.
///
/// # Errors
/// As for [`start`].
pub(crate) fn close(root: BorrowedFd<'_>) -> Result<(), Error> {
    tree::let_go()?;
    mounts::set_attributes(root, mounts::SHOWN, false).map_err(|errno| Error::ReadOnly("/".into(), errno))
}

/// Shows the system's directories, laid out as on the host. Answers what is visible then.
fn system(tree: &Tree) -> Result<Vec<PathBuf>, Error> {
    let mut shown = Vec::new();
    for path in SYSTEM.iter().map(PathBuf::from) {
        if etc::present(&path)? {
            tree.bind_system(&path, &path)?;
            shown.push(path);
        }
    }
    for path in SYSTEM_LINKS.iter().map(|name| Path::new("/").join(name)) {
        if let Ok(target) = fs::read_link(&path) {
            tree.link(&path, target.as_os_str())?;
        } else if etc::present(&path)? {
            tree.bind_system(&path, &path)?;
            shown.push(path);
        }
    }
    for path in STORE_LINKS.iter().map(Path::new) {
        if let Ok(target) = fs::read_link(path) {
            tree.link(path, target.as_os_str())?;
        }
    }
    Ok(shown)
}

/// What the session may write by itself, beside its private home.
fn writable(tree: &Tree, base: &Base) -> Result<(), Error> {
    tree.mount_memory("1777", base.sizes.tmp, Path::new("/tmp"))?;
    // The same once more, and no link: what is shown from the host may lie below.
    tree.bind_own(Path::new("/tmp"), Path::new("/var/tmp"))?;
    tree.link(Path::new("/var/run"), "/run".as_ref())?;
    let place = PathBuf::from(format!("/run/user/{}", base.identity.uid));
    tree.mount_memory("0700", base.sizes.runtime, &place)
}

/// Shows the workspace, further roots, toolchains and what policy adds, parents before children.
fn of_the_host(tree: &Tree, plan: &Plan, mut shown: Vec<PathBuf>) -> Result<(), Error> {
    let mut paths: Vec<(&ReadOnly, bool)> = plan.roots.iter().map(|r| (r, true)).collect();
    paths.extend(plan.read_only.iter().map(|r| (r, false)));
    // A root sorts before the same path as a plain one, which then is shown already.
    paths.sort_by(|a, b| a.0.path.cmp(&b.0.path).then(b.1.cmp(&a.1)));
    let home = &plan.home;
    for (what, root) in paths {
        // Visible already through a parent, unless the private home lies in between.
        let visible = shown
            .iter()
            .any(|parent| what.path.starts_with(parent) && !(home.starts_with(parent) && what.path.starts_with(home)));
        if visible && !root {
            continue;
        }
        let shown_as = if root && plan.fixed.is_some() {
            mounts::WRITABLE
        } else {
            mounts::SHOWN
        };
        match tree.bind_decided(what, &what.path, shown_as) {
            // A toolchain directory that was removed meanwhile is no reason to refuse a session.
            Err(Error::Source(_, nix::errno::Errno::ENOENT)) if !root => continue,
            other => other?,
        }
        shown.push(what.path.clone());
    }
    plan.fixed.as_ref().map_or(Ok(()), |fixed| fix(tree, fixed))
}

/// Mounts what stays as it is over itself, parents before children.
fn fix(tree: &Tree, fixed: &Fixed) -> Result<(), Error> {
    let ways = fixed.ways.iter().map(|way| (way, mounts::WRITABLE));
    let kept = fixed.kept.iter().map(|kept| (kept, mounts::SHOWN));
    let mut all: Vec<(&ReadOnly, u64)> = ways.chain(kept).collect();
    all.sort_by(|a, b| a.0.path.cmp(&b.0.path));
    for (what, attributes) in all {
        tree.fix(what, attributes)?;
    }
    Ok(())
}
