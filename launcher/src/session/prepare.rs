//! The pieces of a start, each made from the plan.

use super::bounds::{Made as Bounded, Means};
use super::group::Group;
use super::id;
use super::plan::Plan;
use super::space::Space;
use super::start::StartError;
use super::tier::{self, Facts, Tier};
use crate::names;
use crate::record::{Bounds, Event, Record, RecordError, make_private_dir};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat;
use picktwo_confine::filters;
use picktwo_confine::landlock::{Access, Rights};
use picktwo_inside::agent;
use picktwo_inside::container::{self, Place};
use picktwo_inside::files::{self, Config, Grants, Lock, Root};
use picktwo_inside::mode::SharedMode;
use picktwo_inside::view::{self, Fixed, Made, ReadOnly};
use picktwo_policies::model::{KeySource, Placeholders, Seed};
use picktwo_policies::protect::Protected;
use picktwo_wire::control::Mode;
use picktwo_wire::tools::NO_TOOLS;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The view's plan.
pub(super) fn view_plan(
    plan: &Plan,
    means: &Means,
    id: &str,
    gateway: bool,
    fixed: Option<Fixed>,
) -> Result<view::Plan, StartError> {
    let values = placeholders(plan, id, None, None);
    let files = &plan.policy.profile.files;
    let given = plan.given(id);
    let exe = std::env::current_exe().map_err(|e| StartError::File("find", "/proc/self/exe".into(), e))?;
    let nested = plan.tier.tier == Tier::Nested;
    let without_tools = nested.then(|| Made {
        path: given.join(NO_TOOLS),
        content: tier::NO_WEB.into(),
    });
    Ok(view::Plan {
        home: plan.identity.home.clone(),
        roots: plan.roots.iter().map(ReadOnly::new).collect(),
        fixed,
        read_only: plan.read_only.clone(),
        files: files
            .iter()
            .filter_map(|s| {
                Some(Made {
                    path: given.join(&s.path.value),
                    content: s.fill(&values)?.into_bytes(),
                })
            })
            .chain(without_tools)
            .collect(),
        private_home: plan.private_home.clone(),
        sizes: means.sizes(&plan.policy.limits),
        processes: means.pid_bound(&plan.policy.limits),
        binary: Some(ReadOnly::new(exe)),
        gateway,
        tools: !nested,
        hidden: plan.hidden.iter().map(ReadOnly::new).collect(),
    })
}

/// The values that profiles refer to.
pub(super) fn placeholders(plan: &Plan, id: &str, port: Option<u16>, key: Option<String>) -> Placeholders {
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let given = plan.given(id);
    let has_mcp = plan.policy.profile.files.iter().any(|f| f.path.value == "mcp.json");
    Placeholders {
        gateway: port.map(|p| format!("http://127.0.0.1:{p}")),
        key,
        mcp: has_mcp.then(|| given.join("mcp.json")).as_deref().and_then(text),
        picktwo: text(&given.join("bin/picktwo")),
        home: text(&plan.identity.home),
        workspace: text(&plan.workspace),
        session: Some(id.to_owned()),
    }
}

/// A key of the right shape that opens nothing.
pub(super) fn phantom_key(plan: &Plan) -> std::io::Result<Option<String>> {
    let Some(key) = &plan.policy.profile.key else {
        return Ok(None);
    };
    Ok(Some(key.shape.replace("{random}", &id::hex(20)?)))
}

/// The token that the gateway demands of every request: where others than the session can reach its door. A profile that gives its
/// agent none has a gateway that answers nobody.
pub(super) fn demanded_key(plan: &Plan, phantom: Option<&str>) -> std::io::Result<Option<String>> {
    match (plan.tier.tier, phantom) {
        (Tier::Full | Tier::Nested, _) => Ok(None),
        (Tier::Container, Some(key)) => Ok(Some(key.to_owned())),
        (Tier::Container, None) => id::hex(20).map(Some),
    }
}

/// Makes the profile's directories and files in the private home, where they are absent.
pub(super) fn seed(plan: &Plan, values: &Placeholders) -> Result<(), StartError> {
    for dir in &plan.policy.profile.state {
        private_directory(&plan.private_home, Path::new(&dir.value))?;
    }
    for file in &plan.policy.profile.seed {
        plant(&plan.private_home, file, values)?;
    }
    Ok(())
}

/// Closes the way to the private home, once it is mounted in the session: whatever the agent puts there (a repository with hooks, say)
/// cannot be reached by a path of the host, so no link or address in the workspace leads there.
pub(super) fn close_home(plan: &Plan) -> Result<(), StartError> {
    if plan.tier.tier == Tier::Container {
        // The session itself takes that way: it is closed when the session is over.
        return Ok(());
    }
    let above = super::plan::above(&plan.private_home);
    super::space::close_way(above).map_err(|e| StartError::File("close", above.to_path_buf(), e))
}

/// Opens a directory of the private home, making what is missing of it. The home was the agent's in earlier sessions: what it
/// may have put there leads nowhere else, since no link is followed.
fn private_directory(home: &Path, relative: &Path) -> Result<OwnedFd, StartError> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let failed = |e: Errno| {
        let why = match e {
            Errno::ELOOP | Errno::ENOTDIR => std::io::Error::other("something else lies in its way; remove it"),
            e => e.into(),
        };
        StartError::File("make", home.join(relative), why)
    };
    let mut dir = nix::fcntl::open(home, flags, stat::Mode::empty()).map_err(failed)?;
    for part in relative.components() {
        let Component::Normal(name) = part else {
            return Err(failed(Errno::EINVAL));
        };
        match nix::sys::stat::mkdirat(&dir, name, stat::Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(e) => return Err(failed(e)),
        }
        dir = nix::fcntl::openat(&dir, name, flags, stat::Mode::empty()).map_err(failed)?;
    }
    Ok(dir)
}

fn plant(home: &Path, file: &Seed, values: &Placeholders) -> Result<(), StartError> {
    let relative = Path::new(&file.path.value);
    let Some(content) = file.fill(values) else {
        return Ok(());
    };
    let failed = |e: std::io::Error| StartError::File("write", home.join(relative), e);
    let dir = private_directory(home, relative.parent().unwrap_or(Path::new("")))?;
    let name = relative.file_name().ok_or_else(|| failed(Errno::EINVAL.into()))?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match nix::fcntl::openat(&dir, name, flags, stat::Mode::S_IRUSR | stat::Mode::S_IWUSR) {
        Ok(fd) => File::from(fd).write_all(content.as_bytes()).map_err(failed),
        Err(Errno::EEXIST) => Ok(()),
        Err(e) => Err(failed(e.into())),
    }
}

/// The control socket, in the session's directory.
pub(super) fn bind_control(record: &Record) -> Result<UnixListener, StartError> {
    // Through the directory's descriptor, since a socket address holds 108 bytes and a state directory may be longer.
    let short = format!(
        "/proc/self/fd/{}/{}",
        record.dir_fd().as_raw_fd(),
        names::CONTROL_SOCKET
    );
    UnixListener::bind(short).map_err(|e| StartError::File("make", record.dir().join(names::CONTROL_SOCKET), e))
}

/// The first line of the audit.
pub(super) fn start_event(plan: &Plan, means: &Means, id: &str, facts: Facts) -> Event {
    Event::Start {
        session: id.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tier: plan.tier.tier.to_string(),
        landlock: facts.landlock,
        policy: super::policy::fingerprint(&plan.policy),
        profile: plan.policy.profile.name.value.clone(),
        workspace: plan.workspace.display().to_string(),
        command: plan.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        mode: plan.mode.to_string(),
        bounds: Some(Bounds {
            memory: means.of_memory().to_owned(),
            processes: means.of_processes().to_owned(),
        }),
    }
}

/// The protected paths: the built-in ones and those of the policy.
pub(super) fn protected(plan: &Plan) -> Result<Protected, StartError> {
    let extra: Vec<String> = plan.policy.files.protect.iter().map(|p| p.value.clone()).collect();
    super::protection::of(&plan.roots, &extra)
}

/// What sessions of the same roots, of directories around them or within lock: files of the state directory, one for each directory. A
/// root is locked for its session alone; a directory around it is shared with the sessions of its other roots.
///
/// # Errors
/// One cannot be made.
pub(super) fn locks(plan: &Plan) -> Result<Vec<Lock>, StartError> {
    let dir = names::locks_dir().map_err(|e| StartError::Record(RecordError::NoHome(e)))?;
    make_private_dir(&dir).map_err(StartError::Record)?;
    let around: BTreeSet<&Path> = plan.roots.iter().flat_map(|root| root.ancestors()).collect();
    let open = |path: &Path| {
        let meta = std::fs::metadata(path).map_err(|e| StartError::File("look at", path.to_path_buf(), e))?;
        let file = dir.join(format!("{:x}-{:x}", meta.dev(), meta.ino()));
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        Ok(Lock {
            file: options.open(&file).map_err(|e| StartError::File("open", file, e))?,
            exclusive: plan.roots.iter().any(|root| root == path),
        })
    };
    around.into_iter().map(open).collect()
}

/// The granted changes of the session.
pub(super) fn grants(
    plan: &Plan,
    id: &str,
    space: &Space,
    mode: &SharedMode,
    locks: Vec<Lock>,
    (protected, finder): (Protected, files::Finder),
    events: files::Sink,
) -> Result<Arc<Grants>, StartError> {
    let mut roots = Vec::new();
    for path in &plan.roots {
        roots.push(Root {
            path: path.clone(),
            dir: open_directory(path)?,
            own: false,
            moved: false,
        });
    }
    let (own, shared) = space.ground.shared(plan)?;
    roots.extend(own);
    let session_root = space
        .root
        .try_clone()
        .map_err(|e| StartError::File("open", "the session's root".into(), e))?;
    // Without a view the session's own directories are roots of their own.
    let private = match plan.tier.tier {
        Tier::Full | Tier::Nested => [private_places(plan, id), vec![plan.identity.home.clone()]].concat(),
        Tier::Container => Vec::new(),
    };
    Grants::new(Config {
        roots,
        private,
        session_root,
        locks,
        shared,
        mode: mode.clone(),
        protected,
        finder: Some(finder),
        events,
    })
    .map_err(StartError::Confine)
}

/// Directories of the view that are this session's alone: whatever socket lies there, the session made it.
pub(super) fn private_places(plan: &Plan, id: &str) -> Vec<PathBuf> {
    if plan.tier.tier == Tier::Container {
        return vec![Place::of(id).join("tmp")];
    }
    let runtime = format!("/run/user/{}", plan.identity.uid);
    vec!["/tmp".into(), "/var/tmp".into(), "/dev/shm".into(), runtime.into()]
}

pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, StartError> {
    File::open(path)
        .map(OwnedFd::from)
        .map_err(|e| StartError::File("open", path.to_path_buf(), e))
}

/// The launcher's own Landlock domain: what it changes for the session, its record, `/proc`, and what the command below it needs.
pub(super) fn launcher_access(
    plan: &Plan,
    record: &Record,
    space: &Space,
    bounded: &Bounded,
) -> Result<Access, StartError> {
    let mut access = Access::none()
        .allow_unix_connect()
        .allow_signals()
        .path(Rights::Read, Path::new("/proc"))?;
    for root in &plan.roots {
        access = access.path(Rights::Write, root)?;
    }
    access = access.path(Rights::Write, record.dir())?;
    if let Some(group) = &bounded.group {
        access = access.path(Rights::RemoveDirectories, group.parent())?;
    }
    if let Some(rights) = space.ground.rights() {
        // So that it can take its own directory away.
        access = access.path(Rights::RemoveDirectories, Place::parent())?;
        // Terminals are opened on the session's behalf.
        for device in ["/dev/ptmx", "/dev/pts"] {
            let device = Path::new(device);
            if device.exists() {
                access = access.path(Rights::Device, device)?;
            }
        }
        access = access.path(Rights::Write, space.ground.place().unwrap_or(Place::parent()))?;
        return Ok(agent::allow_container(access, rights)?);
    }
    let root = space
        .root
        .try_clone()
        .map_err(|e| StartError::File("open", "the session's root".into(), e))?;
    Ok(agent::allow_session(access, root)?)
}

/// The command as it is executed inside.
pub(super) fn command(
    plan: &Plan,
    values: &Placeholders,
    bounded: &Bounded,
    (ignored, jobs): (Vec<i32>, Group),
    rights: Option<container::Rights>,
    fixed: Option<&Fixed>,
) -> Result<agent::Command, StartError> {
    let nested = plan.tier.tier == Tier::Nested;
    let filters = match rights {
        None if nested => agent::Filters::compile_without_grants()?,
        None => agent::Filters::compile(filters::Grants {
            descriptor_times: agent::streams_have_no_times(),
            ..filters::Grants::ALL
        })?,
        Some(_) => agent::Filters::compile_for_container()?,
    };
    let mut argv = plan.command.clone();
    // picktwo's own binary, by the name that it has in a view.
    if let (Some(program), Some(binary)) = (argv.first_mut(), &values.picktwo)
        && *program == view::BINARY
    {
        *program = binary.into();
    }
    let extra = if plan.profiled {
        plan.policy.profile.arguments(values)
    } else {
        Vec::new()
    };
    argv.splice(1..1, extra.into_iter().map(OsString::from));
    let group = bounded.group.as_ref().map(|group| group.fd().try_clone_to_owned());
    let group = group
        .transpose()
        .map_err(|e| StartError::File("open", "the session's control group".into(), e))?;
    Ok(agent::Command {
        argv,
        env: environment(plan, values),
        directory: plan.directory.clone(),
        home: plan.identity.home.clone(),
        uid: plan.identity.uid,
        roots: plan.roots.clone(),
        hidden: plan.hidden.iter().map(ReadOnly::seen).collect(),
        bounds: bounded.bounds,
        group,
        own_session: jobs == Group::Own,
        ignored,
        filters,
        rights,
        changes: nested && plan.mode == Mode::Edit,
        protected: fixed.map(looked_at).unwrap_or_default(),
    })
}

/// What of the fixed paths can be looked at by its name: a link would show what it leads to.
fn looked_at(fixed: &Fixed) -> Vec<PathBuf> {
    let paths = fixed.kept.iter().map(|kept| kept.path.clone());
    paths.filter(|path| !path.is_symlink()).collect()
}

/// The environment by allow list. A variable that a key is read from is never passed, whatever a policy says.
fn environment(plan: &Plan, values: &Placeholders) -> Vec<(OsString, OsString)> {
    let sources: Vec<&str> = plan
        .policy
        .models
        .values()
        .filter_map(|m| match m.key.as_deref() {
            Some(KeySource::Env(name)) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let mut env: std::collections::BTreeMap<OsString, OsString> = std::env::vars_os()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|n| plan.policy.env.passes(n) && !sources.contains(&n))
        })
        .collect();
    for (name, value) in &plan.policy.env.set {
        match values.expand(&value.value) {
            Some(value) => env.insert(name.into(), value.into()),
            None => env.remove(std::ffi::OsStr::new(name)),
        };
    }
    env.insert(names::HOME.into(), plan.identity.home.clone().into());
    let mut path = env
        .remove(std::ffi::OsStr::new(names::PATH))
        .unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // Where the profiles find the binary, too.
    if let Some(bin) = values.picktwo.as_deref().and_then(|binary| Path::new(binary).parent()) {
        path.push(":");
        path.push(bin);
    }
    env.insert(names::PATH.into(), path);
    if let (Tier::Container, Some(id)) = (plan.tier.tier, &values.session) {
        env.insert(names::TMPDIR.into(), Place::of(id).join("tmp").into());
    }
    env.into_iter().collect()
}
