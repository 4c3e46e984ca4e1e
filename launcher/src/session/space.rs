//! Where a session's command lives: in namespaces of its own, or, in the container tier, in a Landlock domain alone.

use super::plan::{self, Plan};
use super::prepare;
use super::start::StartError;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use picktwo_confine::channel::Channel;
use picktwo_confine::namespace::NamespaceFds;
use picktwo_confine::notify::Listener;
use picktwo_confine::process::{self, Child};
use picktwo_inside::agent::{self, Prepared};
use picktwo_inside::container::keeper::Keeper;
use picktwo_inside::container::{Place, Rights, broker};
use picktwo_inside::sockets::{SharedNetwork, Sockets};
use picktwo_inside::writers::Members;
use picktwo_inside::{files, init, view};
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long what was killed may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// A session's place while it is made.
pub(super) enum Starting {
    /// The init builds its view.
    View(init::Starting),
    /// Everything is there but the broker's lock.
    Container(Box<Container>),
}

/// What there is of a session without namespaces before its command.
pub(super) struct Container {
    broker: broker::Broker,
    place: Place,
    tools: OwnedFd,
    home: Closing,
}

/// A session's place.
pub(super) struct Space {
    /// To whom makes its sockets: the init or the broker.
    pub(super) channel: Channel,
    /// The root directory that the session sees.
    pub(super) root: OwnedFd,
    /// The gateway's port and its listening socket.
    pub(super) gateway: Option<(u16, OwnedFd)>,
    /// The listening socket of the session's tools.
    pub(super) tools: Option<OwnedFd>,
    /// What ends with it.
    pub(super) ground: Ground,
}

/// What a session stands on, to its end.
pub(super) struct Ground {
    /// The init or the broker.
    child: Child,
    kind: Kind,
}

enum Kind {
    /// Until the command is in them.
    View(Option<NamespaceFds>),
    Container {
        place: Place,
        rights: Rights,
        /// Once it watches.
        keeper: Option<Keeper>,
        /// What is picktwo's own of all that this process may look into, from then on.
        others: Arc<OnceLock<Vec<i32>>>,
        _home: Closing,
    },
}

/// Keeps the way to the private home open while the session lives: it is its HOME, under its real path. The last session that is there
/// closes it.
struct Closing {
    way: PathBuf,
    /// Shared by the sessions of this home.
    lock: Flock<File>,
}

impl Closing {
    fn new(plan: &Plan) -> Result<Self, StartError> {
        let way = plan::above(&plan.private_home).to_path_buf();
        let failed = |e| StartError::File("open", way.clone(), e);
        let open = || fs::set_permissions(&way, Permissions::from_mode(0o700));
        // Another session may close it at this moment.
        let mut tries = 0..100;
        let dir = loop {
            open().map_err(failed)?;
            match File::open(&way) {
                Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied && tries.next().is_some() => {}
                other => break other.map_err(failed)?,
            }
        };
        let lock = Flock::lock(dir, FlockArg::LockShared).map_err(|(_, errno)| failed(errno.into()))?;
        // From here on none does.
        open().map_err(failed)?;
        Ok(Self { way, lock })
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if self.lock.relock(FlockArg::LockExclusiveNonblock).is_ok() {
            let _ = fs::set_permissions(&self.way, Permissions::from_mode(0o000));
        }
    }
}

/// Closes the way to the private home of a session that has it mounted, unless one without a view is on it, which then closes it.
///
/// # Errors
/// It cannot be closed.
pub(super) fn close_way(way: &Path) -> std::io::Result<()> {
    let dir = match File::open(way) {
        // It is closed.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return Ok(()),
        other => other?,
    };
    match Flock::lock(dir, FlockArg::LockExclusiveNonblock) {
        Ok(_alone) => fs::set_permissions(way, Permissions::from_mode(0o000)),
        Err((_, Errno::EAGAIN)) => Ok(()),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Starts making it. To be called before anything secret is read.
///
/// # Errors
/// The step that failed.
pub(super) fn start(
    plan: &Plan,
    view_plan: &view::Plan,
    id: &str,
    init: Option<Result<init::Starting, init::Error>>,
) -> Result<Starting, StartError> {
    match init {
        Some(init) => {
            let init = init.map_err(StartError::View)?;
            init.build(view_plan).map_err(StartError::View)?;
            Ok(Starting::View(init))
        }
        None => {
            let place = Place::create(id).map_err(|e| StartError::File("make", Place::of(id), e))?;
            let home = Closing::new(plan)?;
            let tools = furnish(plan, view_plan, &place)?;
            let broker = broker::start(view_plan.gateway).map_err(StartError::View)?;
            Ok(Starting::Container(Box::new(Container {
                broker,
                place,
                tools,
                home,
            })))
        }
    }
}

/// Fills what the session only reads.
fn furnish(plan: &Plan, view_plan: &view::Plan, place: &Place) -> Result<OwnedFd, StartError> {
    let write = |path: &Path, content: &[u8]| {
        let failed = |e| StartError::File("write", path.to_path_buf(), e);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        fs::write(path, content).map_err(failed)
    };
    for made in &view_plan.files {
        write(&made.path, &made.content)?;
    }
    for (path, content) in replaced(plan) {
        write(&own_copy(place, &path), content.as_bytes())?;
    }
    let binary = place.own().join("bin/picktwo");
    let exe = view_plan
        .binary
        .as_ref()
        .map_or(Path::new("/proc/self/exe"), |b| &b.path);
    std::os::unix::fs::symlink(exe, &binary).map_err(|e| StartError::File("make", binary.clone(), e))?;
    let socket = place.own().join("tools.sock");
    let failed = |e| StartError::File("make", socket.clone(), e);
    UnixListener::bind(&socket).map(OwnedFd::from).map_err(failed)
}

/// Files of `/etc` that the session is given in place of the host's.
fn replaced(plan: &Plan) -> Vec<(PathBuf, String)> {
    let name = nix::unistd::gethostname().ok().and_then(|n| n.into_string().ok());
    view::replaced_files(&plan.identity, &plan.real_home, name.as_deref().unwrap_or("localhost"))
}

fn own_copy(place: &Place, path: &Path) -> PathBuf {
    place.own().join("etc").join(path.file_name().unwrap_or_default())
}

impl Starting {
    /// Waits until it stands.
    ///
    /// # Errors
    /// What went wrong meanwhile.
    pub(super) fn ready(self, plan: &Plan, view_plan: &view::Plan) -> Result<Space, StartError> {
        match self {
            Self::View(starting) => {
                let made = starting.ready().map_err(StartError::View)?;
                Ok(Space {
                    channel: made.channel,
                    root: made.root,
                    gateway: made.gateway,
                    tools: made.tools,
                    ground: Ground {
                        child: made.child,
                        kind: Kind::View(Some(made.namespaces)),
                    },
                })
            }
            Self::Container(made) => {
                let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                let root = nix::fcntl::open("/", flags, Mode::empty())
                    .map_err(|e| StartError::File("open", "/".into(), e.into()))?;
                let rights = rights(plan, view_plan, &made.place);
                Ok(Space {
                    channel: made.broker.channel,
                    root,
                    gateway: made.broker.gateway,
                    tools: Some(made.tools),
                    ground: Ground {
                        child: made.broker.child,
                        kind: Kind::Container {
                            place: made.place,
                            rights,
                            keeper: None,
                            others: Arc::default(),
                            _home: made.home,
                        },
                    },
                })
            }
        }
    }
}

/// What the session may open by itself.
fn rights(plan: &Plan, view_plan: &view::Plan, place: &Place) -> Rights {
    let mut rights = Rights::system();
    let shown = plan
        .read_only
        .iter()
        .chain(&view_plan.binary)
        .map(|shown| shown.path.clone());
    rights.execute.extend(plan.roots.iter().cloned().chain(shown));
    rights.read.push(place.own());
    rights.write = own_directories(plan, place);
    rights
}

/// The session's own directories, which it changes as it likes.
fn own_directories(plan: &Plan, place: &Place) -> Vec<PathBuf> {
    vec![place.tmp(), place.shm(), plan.private_home.clone()]
}

impl Space {
    /// Waits until whoever makes the session's sockets has locked itself.
    ///
    /// # Errors
    /// What it reported.
    pub(super) fn locked(&self) -> Result<(), StartError> {
        init::locked(&self.channel).map_err(StartError::View)
    }
}

impl Ground {
    /// Makes the command's process. The launcher is in its Landlock domain by now.
    ///
    /// # Errors
    /// The step that failed.
    pub(super) fn launch(&mut self, command: &agent::Command, exe: OwnedFd) -> Result<agent::Starting, StartError> {
        match &mut self.kind {
            // They are let go of here: else this process, not the init, would have to take the session's mounts apart at the end.
            Kind::View(namespaces) => match namespaces.take() {
                Some(namespaces) => agent::start(command, &namespaces).map_err(StartError::Command),
                None => Err(StartError::Wait(Errno::EINVAL)),
            },
            Kind::Container { .. } => {
                // Whatever loses its parent becomes the launcher's child: it stays where the launcher may look into it (Yama), and is
                // reaped.
                nix::sys::prctl::set_child_subreaper(true).map_err(StartError::Wait)?;
                agent::start_in_container(command, exe).map_err(StartError::Command)
            }
        }
    }

    /// Waits until the command's process is ready to execute.
    ///
    /// # Errors
    /// The step that failed.
    pub(super) fn launched(&mut self, starting: agent::Starting) -> Result<(Prepared, Option<Listener>), StartError> {
        let (prepared, listener, made) = starting.ready().map_err(StartError::Command)?;
        if let (Kind::Container { keeper, others, .. }, Some(made)) = (&mut self.kind, made) {
            let _ = others.set(vec![own_pid(), made.child.pid(), made.second]);
            *keeper = Some(made);
        }
        Ok((prepared, listener))
    }

    /// The session's own directories, and what takes a view's place; both nothing where there is a view.
    ///
    /// # Errors
    /// A directory or file that cannot be opened.
    pub(super) fn shared(&self, plan: &Plan) -> Result<(Vec<files::Root>, Option<files::Shared>), StartError> {
        let Kind::Container { place, others, .. } = &self.kind else {
            return Ok((Vec::new(), None));
        };
        let mut roots = vec![files::Root {
            dir: prepare::open_directory(&place.shm())?,
            path: "/dev/shm".into(),
            own: true,
            moved: true,
        }];
        for path in own_directories(plan, place) {
            roots.push(files::Root {
                dir: prepare::open_directory(&path)?,
                path,
                own: true,
                moved: false,
            });
        }
        let mut given = Vec::new();
        for (path, _) in replaced(plan) {
            let copy = own_copy(place, &path);
            let file = File::open(&copy).map_err(|e| StartError::File("open", copy, e))?;
            given.push((path, file.into()));
        }
        let shared = files::Shared {
            replaced: given,
            others: Arc::clone(others),
        };
        Ok((roots, Some(shared)))
    }

    /// The directory of a session without a view.
    pub(super) fn place(&self) -> Option<&Path> {
        match &self.kind {
            Kind::View(_) => None,
            Kind::Container { place, .. } => Some(place.path()),
        }
    }

    /// What the command may open by itself, where there is no view.
    pub(super) fn rights(&self) -> Option<&Rights> {
        match &self.kind {
            Kind::View(_) => None,
            Kind::Container { rights, .. } => Some(rights),
        }
    }

    /// The network, if it is the host's.
    pub(super) fn network(&self, gateway: Option<u16>) -> Option<SharedNetwork> {
        self.rights().map(|_| SharedNetwork { gateway })
    }

    /// How to tell the session's processes. `member` is one of them.
    pub(super) fn members(&self, member: i32) -> Members {
        match &self.kind {
            Kind::View(_) => Members::OfNamespace(member),
            Kind::Container { others, .. } => {
                Members::OfDomain(others.get().cloned().unwrap_or_else(|| vec![own_pid()]))
            }
        }
    }

    /// The keeper's descriptor, whose end is the session's, and the children of this process that are no orphans; none where the pid
    /// namespace keeps the session.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated: nobody would notice the keeper's end.
    pub(super) fn watched(&self) -> Result<Option<(OwnedFd, Vec<i32>)>, StartError> {
        let Kind::Container {
            keeper: Some(keeper), ..
        } = &self.kind
        else {
            return Ok(None);
        };
        let fd = keeper.child.pidfd().try_clone_to_owned();
        let fd = fd.map_err(|e| StartError::File("duplicate", "a process descriptor".into(), e))?;
        Ok(Some((fd, vec![keeper.child.pid(), self.child.pid()])))
    }

    /// Ends whatever the command left running. `known` are the children that this process made. Answers the one to wait for, if any.
    pub(super) fn end(self, known: &[i32], sockets: &Sockets) -> Option<Child> {
        if let Kind::View(_) = self.kind
            && sockets.end_session(LAST_BREATH)
        {
            return None;
        }
        if let Kind::Container { keeper, others, .. } = self.kind {
            let kept = keeper.is_some_and(Keeper::end);
            let until = Instant::now() + LAST_BREATH;
            let members = Members::OfDomain(others.get().cloned().unwrap_or_else(|| vec![own_pid()]));
            loop {
                // Without its keeper the session is ended one by one: all of it is below this process, which is its subreaper.
                for pid in members.list().into_iter().filter(|_| !kept) {
                    let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                if !reap_others(known) || Instant::now() > until {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = self.child.signal(Signal::SIGKILL);
        Some(self.child)
    }
}

/// Children that this process did not make, alive or not.
fn others(known: &[i32]) -> Vec<i32> {
    let own = own_pid().to_string();
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Number, name in brackets, state, parent.
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) == Some(own.as_str())
    };
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| !known.contains(pid) && is_child(pid))
        .collect()
}

/// Reaps children that this process never made: what lost its parent. `known` are those that it made.
pub(super) fn reap(known: &[i32]) {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        let pid = match waitid(Id::All, look) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) => pid,
            // One that a real-time signal ended, which has no name there.
            Err(Errno::EINVAL) => {
                reap_others(known);
                return;
            }
            _ => return,
        };
        if known.contains(&pid.as_raw()) {
            // Somebody waits for that one, or nobody does before the end: it hides what is behind it.
            reap_others(known);
            return;
        }
        if waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err() {
            return;
        }
    }
}

/// Reaps those one by one. Whether some are still alive.
fn reap_others(known: &[i32]) -> bool {
    let mut alive = false;
    for pid in others(known) {
        alive |= waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive);
    }
    alive
}

/// Ends the command when the keeper ends: nothing would be left to end what it leaves.
pub(super) fn end_with(keeper: OwnedFd, command: OwnedFd) {
    if process::ended(keeper.as_fd(), -1) == Ok(true) {
        let _: Result<(), Errno> = picktwo_confine::sys::pidfd_signal(command.as_fd(), Signal::SIGKILL as i32);
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}
