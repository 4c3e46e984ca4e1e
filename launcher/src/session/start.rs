//! The start of a session, in the one order that works: the init is cloned and begins with the view ([`super::early`]), the web side
//! is forked, keys are read, the model side is started, the launcher enters its Landlock domain, the command is prepared below it, the launcher installs its system call
//! filter, and only then the command runs.

use super::bounds::Means;
use super::early::Early;
use super::group::Group;
use super::model::{Model, ModelError};
use super::plan::Plan;
use super::prepare;
use super::refusals::Refusals;
use super::retrieval::{self, Retrievals};
use super::room::Room;
use super::secrets::Secrets;
use super::steer::{self, Changes, Described, Steering};
use super::streams::Streams;
use super::tier::{self, Missing, Tier};
use super::wait::{self, End, Signals, ignored_signals};
use super::web;
use super::{control, doors, fixed, key, protection, space};
use crate::names;
use crate::record::{Event, Record, RecordError};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use picktwo_confine::role::Role;
use picktwo_confine::{filters, landlock, limits, process, seccomp};
use picktwo_inside::mode::SharedMode;
use picktwo_inside::{agent, init, sockets, supervise, view};
use picktwo_wire::control::Mode;
use picktwo_wire::gateway::FromGateway;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Threads that may serve granted calls at the same time: one that waits for a slow file must not stall the rest.
const SUPERVISORS: usize = 8;

/// Time for an answer that is under way when the session ends.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// Why a session did not start, or did not end as it should.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The machine cannot enforce the tier.
    Tier(Missing),
    /// The record cannot be kept.
    Record(RecordError),
    /// A step of confinement failed.
    Confine(picktwo_confine::Error),
    /// The session's namespaces or view.
    View(init::Error),
    /// A workspace, or another root, that is a protected place or lies in one.
    ProtectedRoot(PathBuf),
    /// Where the search for what links at protected places lead to ended too early.
    Unsearched(PathBuf),
    /// The plan of the view.
    ViewPlan(view::PlanError),
    /// The command.
    Command(agent::Error),
    /// The model side.
    Model(ModelError),
    /// A model's key; holds the name of its table and whether the profile needs it.
    Key(String, key::KeyError),
    /// A file that the session needs.
    File(&'static str, PathBuf, std::io::Error),
    /// A policy value that cannot be used.
    Policy(String),
    /// Waiting for the command failed.
    Wait(Errno),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tier(e) => write!(f, "{e}"),
            Self::Record(e) => write!(f, "{e}"),
            Self::Confine(e) => match Missing::behind(e) {
                Some(missing) => write!(f, "{missing}"),
                None => write!(f, "the session did not start: {e}"),
            },
            Self::View(init::Error::Confine(e)) => write!(f, "{}", Self::Confine(e.clone())),
            Self::View(init::Error::Failed {
                sentence,
                errno: Some(Errno::EPERM | Errno::EACCES),
            }) => write!(
                f,
                "the session did not start: {sentence}; where namespaces can be made and not be used, `--tier container` does without"
            ),
            Self::View(e) => write!(f, "the session did not start: {e}"),
            Self::ProtectedRoot(path) => write!(
                f,
                "{} is a protected place (what lies in it runs later, or steers an agent): choose the project's own directory",
                path.display()
            ),
            Self::Unsearched(path) => write!(
                f,
                "the search for links at protected places did not get beyond {}: make the directory readable or remove what fills it, and start again",
                path.display()
            ),
            Self::ViewPlan(e) => write!(f, "{e}"),
            Self::Command(agent::Error::Confine(e)) => write!(f, "{}", Self::Confine(e.clone())),
            Self::Command(e) => write!(f, "{e}"),
            Self::Model(e) => write!(f, "{e}"),
            Self::Key(model, e) => write!(
                f,
                "no key for [model.{model}]: {e}; set it, or name another source as `key` in {}",
                names::user_policy().map_or_else(|_| "the user's policy".to_owned(), |p| p.display().to_string())
            ),
            Self::File(doing, path, e) => write!(f, "cannot {doing} {}: {e}", path.display()),
            Self::Policy(e) => write!(f, "{e}"),
            Self::Wait(e) => write!(f, "cannot wait for the command: {}", e.desc()),
        }
    }
}

impl From<picktwo_confine::Error> for StartError {
    fn from(error: picktwo_confine::Error) -> Self {
        Self::Confine(error)
    }
}

impl StartError {
    /// The exit code for it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Command(e) => e.exit_code(),
            _ => crate::cli::EXIT_FAILED,
        }
    }
}

/// Where a script that starts sessions reads what becomes of them: one JSON object per line.
pub(crate) struct Status(Option<File>);

impl Status {
    /// Nobody reads.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// A descriptor that the caller passed.
    pub(crate) fn to(fd: OwnedFd) -> Self {
        Self(Some(fd.into()))
    }

    fn tell(&mut self, value: &serde_json::Value) {
        if let Some(file) = &mut self.0 {
            // A reader that went away does not concern the session.
            let _ = writeln!(file, "{value}");
        }
    }
}

/// Runs a session to its end. The result is how the command ended.
///
/// # Errors
/// What kept the session from starting; nothing foreign has run then.
pub(crate) fn run(
    plan: Plan,
    early: Early,
    mut status: Status,
    greet: &dyn Fn(&str, &Plan),
) -> Result<End, StartError> {
    let facts = tier::floor().map_err(StartError::Tier)?;
    no_directories()?;
    let id = super::id::new().map_err(|e| StartError::File("read", "/dev/urandom".into(), e))?;
    let ignored = ignored_signals();
    let signals = Signals::take().map_err(StartError::Wait)?;
    let (streams, group) = (Streams::remember(), Group::choose());
    let open_files = limits::nofile_limits()?;
    let exe = process::own_executable()?;

    let nested = plan.tier.tier == Tier::Nested;
    let fixed = if nested && plan.mode == Mode::Edit {
        Some(fixed::find(
            &plan.roots,
            &protection::completed(&plan.roots, prepare::protected(&plan)?)?,
        )?)
    } else {
        None
    };
    let means = Means::find(plan.tier.tier);
    let view_plan = prepare::view_plan(&plan, &means, &id, !plan.policy.models.is_empty(), fixed)?;
    view_plan.check().map_err(StartError::ViewPlan)?;
    let starting = space::start(&plan, &view_plan, &id, early.init)?;
    // Like the init, this copy of the process is made before anything secret is read.
    let web = if nested {
        None
    } else {
        Some(web::fork_asleep(exe.as_fd())?)
    };

    // While the view is built: the protected paths, the record, the keys, the model side.
    let protected = prepare::protected(&plan)?;
    let beyond = protection::beyond(&plan.roots, &protected);
    let secrets = Secrets::read(&plan)?;
    let retrieving = match &web {
        Some(_) => Some(retrieval::Means::read(&plan.policy, &secrets.keys())?),
        None => None,
    };
    let record = Arc::new(Record::create(&id).map_err(StartError::Record)?);
    let mut unfinished = Unfinished {
        record: &record,
        code: crate::cli::EXIT_FAILED,
    };
    let model = match secrets.model_start() {
        Some(start) => Some(Model::spawn(exe.as_fd(), &start).map_err(StartError::Model)?),
        None => None,
    };
    let bounded = means.make(&id, &plan.policy.limits, open_files)?;
    let room = Room::new(&plan, &id)?;
    let control_socket = prepare::bind_control(&record)?;
    let described = Described::new(&plan, &id);
    let random = |e| StartError::File("read", "/dev/urandom".into(), e);
    let phantom = match &model {
        Some(_) => prepare::phantom_key(&plan).map_err(random)?,
        None => None,
    };
    let demanded = prepare::demanded_key(&plan, phantom.as_deref()).map_err(random)?;

    let mut space = starting.ready(&plan, &view_plan)?;
    if model.is_none() {
        // Nobody would answer: better that a connection is refused.
        space.gateway = None;
    }
    let values = prepare::placeholders(&plan, &id, space.gateway.as_ref().map(|(port, _)| *port), phantom);
    prepare::seed(&plan, &values)?;
    prepare::close_home(&plan)?;
    let locks = prepare::locks(&plan)?;

    limits::nofile_raise()?;
    let mut first_to_go = limits::FirstToGo::open();
    let access = prepare::launcher_access(&plan, &record, &space, &bounded)?;
    let rights = space.ground.rights().cloned();
    let launch = || {
        let command = prepare::command(
            &plan,
            &values,
            &bounded,
            (ignored, group),
            rights,
            view_plan.fixed.as_ref(),
        )?;
        first_to_go.iter_mut().for_each(limits::FirstToGo::raise);
        let starting = space.ground.launch(&command, exe)?;
        first_to_go.iter_mut().for_each(limits::FirstToGo::restore);
        Ok::<_, StartError>(starting)
    };
    let (report, starting) = if nested {
        // Nothing of it is granted, so that it need not be below the launcher's domain, which allows no TCP.
        let starting = launch()?;
        (landlock::restrict(access)?, starting)
    } else {
        let report = landlock::restrict(access)?;
        (report, launch()?)
    };
    drop(first_to_go);

    // While the command's process locks itself: the record's first lines, the grants, and this process's own filter.
    record
        .write_file(names::SESSION_JSON, described.json().as_bytes())
        .map_err(StartError::Record)?;
    record
        .append(&prepare::start_event(&plan, &means, &id, facts))
        .map_err(StartError::Record)?;
    // The gateway gets its key and the listening socket now; it has locked itself meanwhile.
    if let (Some(model), Some((_, door))) = (&model, &space.gateway) {
        model
            .serve(&secrets.gateway_start(demanded), door.as_fd())
            .map_err(StartError::Model)?;
    }
    drop(secrets);
    let refusals = Arc::new(Refusals::new(Arc::clone(&record)));
    let mode = SharedMode::new(steer::inside_mode(plan.mode));
    let grants = if nested {
        None
    } else {
        let finder = protection::finder(plan.roots.clone(), beyond, refusals.sink());
        let protected = (protected, finder);
        Some(prepare::grants(
            &plan,
            &id,
            &space,
            &mode,
            locks,
            protected,
            refusals.sink(),
        )?)
    };
    limits::no_new_privs()?;
    limits::core_limit()?;
    seccomp::install(&filters::for_role(Role::Launcher))?;

    let (web_channel, web_child) = web.unzip();
    let retrievals = web_channel.zip(retrieving).map(|(channel, means)| {
        let record = Arc::clone(&record);
        Arc::new(Retrievals::new(channel, record, &plan.policy, means))
    });
    space.locked()?;
    let (prepared, listener) = space.ground.launched(starting)?;
    let members = space.ground.members(prepared.child.pid());
    let sockets = sockets::Sockets::new(sockets::Config {
        init: space.channel,
        session: members.clone(),
        private: prepare::private_places(&plan, &id),
        kept: vec![plan.identity.home.clone()],
        allowed: vec![plan.given(&id).join("tools.sock")],
        shared: space.ground.network(space.gateway.as_ref().map(|(port, _)| *port)),
    });
    let changes = match &grants {
        Some(grants) => Changes::Granted {
            grants: Arc::clone(grants),
            members,
        },
        None => Changes::Fixed(plan.mode),
    };
    let told_last = grants.clone();
    let steering = Arc::new(Steering::new(described, changes, Arc::clone(&record)));
    let busy = control::Busy::default();
    let agent_door = space
        .tools
        .zip(retrievals)
        .map(|(fd, retrievals)| (UnixListener::from(fd), Arc::new(steering.tools(retrievals))));
    let doors = doors::serve(control_socket, busy.clone(), steering, agent_door)
        .map_err(|e| StartError::File("listen at", names::CONTROL_SOCKET.into(), e))?;
    spawn("doors", doors)?;
    let model = match model {
        Some(model) => {
            let (model, record) = (Arc::new(model), Arc::clone(&record));
            let reports = Arc::clone(&model);
            spawn("model", move || report_calls(&reports, &record))?;
            Some(model)
        }
        None => None,
    };
    // They end with this process; nobody is left to call by then.
    let supervised = listener.zip(grants).map(|(listener, grants)| {
        supervise::serve(Arc::new(listener), grants, Some(Arc::clone(&sockets)), SUPERVISORS)
    });
    let _supervisors = supervised
        .transpose()
        .map_err(|e| StartError::File("start a thread for", "granted calls".into(), e))?;
    status.tell(
        &serde_json::json!({"event": "started", "session": id, "pid": std::process::id(), "tier": plan.tier.tier.to_string(),
        "mode": plan.mode, "web": !nested, "dropped": report.dropped}),
    );
    let mut own_children: Vec<i32> = web_child.iter().map(|child| child.pid()).collect();
    own_children.extend(model.as_ref().map(|model| model.pid()));
    let keeper = space.ground.watched()?;
    let watched = keeper.is_some();
    if let Some((keeper, others)) = keeper {
        own_children.extend(others);
        let command = duplicate(&prepared)?;
        spawn("keeper", move || space::end_with(keeper, command))?;
    }
    let watched_command = duplicate(&prepared)?;
    greet(&id, &plan);
    let child = match prepared.go() {
        Ok(running) => running,
        Err(e) => {
            let error = StartError::Command(e);
            unfinished.code = error.exit_code();
            return Err(error);
        }
    };
    own_children.push(child.pid());
    let fills = Arc::clone(&record);
    spawn("room", move || room.watch(&watched_command, &fills))?;
    let waited = signals.wait(&child, group, &|| {
        if watched {
            space::reap(&own_children);
        }
    });

    // What the command left running ends now, whatever came of waiting.
    if let Some(web) = &web_child {
        let _ = web.signal(Signal::SIGKILL);
    }
    let ending = space.ground.end(&own_children, &sockets);
    drop(model);
    let _ = std::fs::remove_file(record.dir().join(names::CONTROL_SOCKET));
    busy.wait(LAST_ANSWER);
    if let Some(web) = web_child {
        let _ = web.wait();
    }
    if let Some(ending) = ending {
        let _ = ending.wait();
    }
    // Nobody is left who could change them once more.
    wait::take_terminal_back();
    streams.restore();
    drop(bounded);
    if let Some(grants) = told_last {
        grants.tell_rest();
    }
    refusals.flush();
    let end = waited.map_err(StartError::Wait)?;
    std::mem::forget(unfinished);
    record
        .append(&Event::End { code: end.shell_code() })
        .map_err(StartError::Record)?;
    status.tell(&serde_json::json!({"event": "ended", "session": id, "code": end.shell_code()}));
    Ok(end)
}

/// The command's process, for a thread that watches it.
fn duplicate(prepared: &agent::Prepared) -> Result<OwnedFd, StartError> {
    let command = prepared.child.pidfd().try_clone_to_owned();
    command.map_err(|e| StartError::File("duplicate", "a process descriptor".into(), e))
}

/// Refuses directories and block devices as input, output or errors: from there, a session could reach the host's tree past its view.
fn no_directories() -> Result<(), StartError> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    for (name, fd) in [
        ("input", input.as_fd()),
        ("output", output.as_fd()),
        ("error output", errors.as_fd()),
    ] {
        let kind = picktwo_confine::sys::fstat(fd).map(|what| what.kind());
        if let Ok(nix::libc::S_IFDIR | nix::libc::S_IFBLK) = kind {
            return Err(StartError::Policy(format!(
                "standard {name} is a directory or a disk: give the session a file, a pipe or a terminal"
            )));
        }
    }
    Ok(())
}

/// Ends the record of a session that did not start.
struct Unfinished<'a> {
    record: &'a Record,
    code: u8,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.record.dir().join(names::CONTROL_SOCKET));
        // The error that ended the start is told to the person either way.
        let _ = self.record.append(&Event::End {
            code: i32::from(self.code),
        });
    }
}

/// Records what the gateway reports until it ends.
fn report_calls(model: &Model, record: &Record) {
    loop {
        let event = match model.next("done") {
            Ok(FromGateway::Call {
                method,
                path,
                model,
                status,
                sent,
                received,
                ms,
            }) => Event::Call {
                method,
                path,
                model,
                status,
                sent,
                received,
                ms,
            },
            Ok(FromGateway::Refused {
                method,
                path,
                rule,
                reason,
            }) => Event::CallRefused {
                method,
                path,
                rule,
                reason,
            },
            Ok(_) => continue,
            Err(e) => {
                let _ = record.append(&Event::Lost {
                    part: "gateway".to_owned(),
                    reason: e.to_string(),
                });
                return;
            }
        };
        // The call has happened: a record that cannot be written ends the gateway, so that no further one does.
        if record.append(&event).is_err() {
            model.stop();
            return;
        }
    }
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(256 * 1024)
        .spawn(work)
        .map(drop)
        .map_err(|e| StartError::File("start a thread for", name.into(), e))
}
