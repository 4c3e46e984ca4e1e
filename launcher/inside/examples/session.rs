//! Runs a command in a session's view, with the workspace read-only and nothing granted: to try tools, and for the tests.
//!
//! `session [--workspace DIR] [--home DIR] [--ro PATH]… [--keep-signal N] [--steps] -- CMD…`
//! `--home` is the private home's directory (default: a new one below the temporary directory, removed at the end).

use picktwo_confine::filters::Grants;
use picktwo_confine::landlock::{self, Access, Rights};
use picktwo_confine::notify::Listener;
use picktwo_confine::{Errno, Role, limits, process};
use picktwo_inside::view::toolchains::{self, Search};
use picktwo_inside::view::{Identity, Plan, ReadOnly, Sizes};
use picktwo_inside::{agent, init};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

struct Options {
    workspace: PathBuf,
    home: Option<PathBuf>,
    read_only: Vec<PathBuf>,
    ignored: Vec<i32>,
    steps: bool,
    command: Vec<OsString>,
}

fn options() -> Options {
    let mut args = std::env::args_os().skip(1);
    let mut options = Options {
        workspace: std::env::current_dir().expect("a working directory"),
        home: None,
        read_only: vec![],
        ignored: vec![],
        steps: false,
        command: vec![],
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().expect("a value");
        match arg.to_str() {
            Some("--workspace") => options.workspace = value().into(),
            Some("--home") => options.home = Some(value().into()),
            Some("--ro") => options.read_only.push(value().into()),
            Some("--keep-signal") => options
                .ignored
                .push(value().to_str().and_then(|v| v.parse().ok()).expect("a number")),
            Some("--steps") => options.steps = true,
            Some("--") => break,
            _ => panic!("unknown option {arg:?}"),
        }
    }
    options.command = args.collect();
    options
}

fn main() -> ExitCode {
    if std::env::args_os().next().as_deref().and_then(Role::from_title) == Some(Role::Init) {
        return init::main_role();
    }
    let options = options();
    let made = options.home.is_none().then(|| {
        let dir = std::env::temp_dir().join(format!("picktwo-session-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a private home");
        dir
    });
    let code = match run(&options, made.as_deref()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("session: {error}");
            error
                .downcast_ref::<agent::Error>()
                .map_or(125, agent::Error::exit_code)
        }
    };
    if let Some(dir) = made {
        let _ = std::fs::remove_dir_all(dir);
    }
    ExitCode::from(code)
}

fn plan(options: &Options, private_home: &Path) -> Plan {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten()
        .expect("a user");
    let home = user.dir.canonicalize().unwrap_or(user.dir);
    let variable = |name: &str| std::env::var_os(name);
    let hidden = vec![home.join(".local/state/picktwo"), home.join(".config/picktwo")];
    let search = Search {
        home: &home,
        variable: &variable,
        hidden: &hidden,
    };
    let mut shown = toolchains::discover(&search);
    shown.extend(toolchains::for_program(&options.command[0], &search));
    shown.extend(options.read_only.iter().cloned());
    let workspace = options.workspace.canonicalize().expect("a workspace");
    shown.retain(|path| !path.starts_with(&workspace) && !workspace.starts_with(path));
    let exe = std::env::current_exe().expect("an executable");
    Plan {
        identity: Identity {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            user: user.name.clone(),
            group: user.name,
            home,
            shell: user.shell,
        },
        roots: vec![ReadOnly::new(workspace)],
        read_only: shown.into_iter().map(ReadOnly::new).collect(),
        files: vec![],
        private_home: private_home.canonicalize().expect("a private home"),
        binary: Some(ReadOnly::new(exe)),
        terminal: nix::unistd::ttyname(std::io::stdin()).ok(),
        sizes: Sizes::default(),
        gateway: true,
        tools: true,
        hidden,
    }
}

fn run(options: &Options, made: Option<&Path>) -> Result<u8, Box<dyn std::error::Error>> {
    let started = Instant::now();
    let plan = plan(options, options.home.as_deref().or(made).expect("a private home"));
    let planned = started.elapsed();
    let session = init::start(&plan, process::own_executable()?)?.ready()?;
    let ready = started.elapsed();
    let everything = Access::none().path(Rights::Write, Path::new("/"))?.allow_unix_connect();
    landlock::restrict(agent::allow_session(everything, session.root.try_clone()?))?;
    let command = agent::Command {
        argv: options.command.clone(),
        env: std::env::vars_os().collect(),
        directory: plan.roots[0].path.clone(),
        home: plan.identity.home.clone(),
        uid: plan.identity.uid,
        roots: plan.roots.iter().map(|r| r.path.clone()).collect(),
        hidden: plan.hidden.clone(),
        open_files: limits::nofile_limits()?,
        ignored: options.ignored.clone(),
        grants: Grants::ALL,
    };
    let restricted = started.elapsed();
    let (prepared, listener) = agent::start(&command, &session.namespaces)?;
    let steps = prepared.steps.clone();
    let agent_ready = started.elapsed();
    session.locked()?;
    let locked = started.elapsed();
    let _ = listener.sync_wake_up();
    std::thread::spawn(move || serve(&listener));
    let child = prepared.go()?;
    if options.steps {
        eprintln!(
            "plan {planned:?}, view {ready:?}, launcher's landlock {restricted:?}, agent prepared {agent_ready:?}, init locked {locked:?}, executed {:?}",
            started.elapsed()
        );
        eprintln!("init, us: {:?}", session.steps);
        eprintln!("agent, us: {steps:?}");
    }
    Ok(u8::try_from(child.wait()?.code()).unwrap_or(u8::MAX))
}

/// Grants nothing: what the kernel refuses by itself is left to it, sockets are refused.
fn serve(listener: &Listener) {
    const CONNECT: i64 = 42;
    const BIND: i64 = 49;
    loop {
        match listener.recv() {
            Ok(Some(request)) if request.nr == CONNECT || request.nr == BIND => {
                let _ = listener.reply_errno(request.id, Errno::EACCES);
            }
            Ok(Some(request)) => {
                let _ = listener.proceed(request.id);
            }
            Ok(None) if listener.ended() => return,
            Ok(None) => {}
            Err(_) => return,
        }
    }
}
