//! Runs a command in a session's view, with the workspace read-only and nothing granted: to try tools, and for the tests.
//!
//! `session [--workspace DIR] [--home DIR] [--ro PATH]… [--keep-signal N] [--inode N] [--steps] [--sockets] -- CMD…`
//! `--inode` states another inode number of the workspace than it has, as if it had been swapped. `--home` is the private home's directory (default: a new one below the temporary directory, removed at the end).

use picktwo_confine::filters::Grants;
use picktwo_confine::landlock::{self, Access, Rights};
use picktwo_confine::notify::Listener;
use picktwo_confine::{Errno, limits, sys};
use picktwo_inside::socket_request::{SocketReply, SocketRequest};
use picktwo_inside::view::toolchains::{self, Search};
use picktwo_inside::view::{Base, Identity, Inode, Plan, ReadOnly, Sizes};
use picktwo_inside::{agent, init};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

struct Options {
    workspace: PathBuf,
    home: Option<PathBuf>,
    read_only: Vec<PathBuf>,
    ignored: Vec<i32>,
    inode: Option<u64>,
    steps: bool,
    sockets: bool,
    command: Vec<OsString>,
}

fn options() -> Options {
    let mut args = std::env::args_os().skip(1);
    let mut options = Options {
        workspace: std::env::current_dir().expect("a working directory"),
        home: None,
        read_only: vec![],
        ignored: vec![],
        inode: None,
        steps: false,
        sockets: false,
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
            Some("--inode") => options.inode = value().to_str().and_then(|v| v.parse().ok()),
            Some("--sockets") => options.sockets = true,
            Some("--steps") => options.steps = true,
            Some("--") => break,
            _ => panic!("unknown option {arg:?}"),
        }
    }
    options.command = args.collect();
    options
}

fn main() -> ExitCode {
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

fn plan(options: &Options, private_home: &Path) -> (Base, Plan) {
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
    let base = Base {
        identity: Identity {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            user: user.name.clone(),
            group: user.name,
            home: home.clone(),
            shell: user.shell,
        },
        terminal: nix::unistd::ttyname(std::io::stdin()).ok(),
        sizes: Sizes::default(),
    };
    let plan = Plan {
        home,
        fixed: None,
        roots: vec![ReadOnly {
            path: workspace,
            inode: options.inode.map(|ino| Inode { dev: 0, ino }),
        }],
        read_only: shown.into_iter().map(ReadOnly::new).collect(),
        files: vec![],
        private_home: private_home.canonicalize().expect("a private home"),
        sizes: base.sizes,
        processes: None,
        binary: Some(ReadOnly::new(exe)),
        gateway: true,
        tools: true,
        hidden: hidden.into_iter().map(ReadOnly::seen).collect(),
    };
    (base, plan)
}

fn run(options: &Options, made: Option<&Path>) -> Result<u8, Box<dyn std::error::Error>> {
    let started = Instant::now();
    let (base, plan) = plan(options, options.home.as_deref().or(made).expect("a private home"));
    let planned = started.elapsed();
    let starting = init::start(&base)?;
    starting.build(&plan)?;
    let session = starting.ready()?;
    let ready = started.elapsed();
    if let Some((port, _)) = &session.gateway
        && options.sockets
    {
        let answer = std::net::TcpStream::connect(("127.0.0.1", *port))
            .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)));
        let _ = HOST_ANSWER.set(answer.map_or_else(|errno| format!("{errno:?}"), |_| "ok".into()));
    }
    // Nothing but the session, and what this program removes at its end.
    let mut own = Access::none().allow_unix_connect().allow_signals();
    if made.is_some() {
        own = own.path(Rights::Write, &std::env::temp_dir())?;
    }
    landlock::restrict(agent::allow_session(own, session.root.try_clone()?)?)?;
    let command = agent::Command {
        argv: options.command.clone(),
        env: std::env::vars_os().collect(),
        directory: plan.roots[0].path.clone(),
        home: base.identity.home.clone(),
        uid: base.identity.uid,
        roots: plan.roots.iter().map(|r| r.path.clone()).collect(),
        hidden: plan.hidden.clone(),
        bounds: limits::Bounds {
            open_files: limits::nofile_limits()?,
            processes: None,
            data: None,
            file: u64::MAX,
        },
        group: None,
        own_session: false,
        ignored: options.ignored.clone(),
        filters: picktwo_inside::agent::Filters::compile(Grants::ALL).expect("the lists compile"),
        rights: None,
        changes: false,
        protected: vec![],
    };
    let restricted = started.elapsed();
    let (prepared, listener, _) = agent::start(&command, &session.namespaces)?.ready()?;
    let listener = listener.expect("its filters notify");
    let steps = prepared.steps.clone();
    let agent_ready = started.elapsed();
    session.locked()?;
    let locked = started.elapsed();
    if options.sockets {
        sockets(&session)?;
    }
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

/// Asks the init for what it can do, and says what came of it.
fn sockets(session: &init::Namespaces) -> Result<(), Box<dyn std::error::Error>> {
    let ask = |message: &[u8], fds: &[BorrowedFd<'_>]| -> Result<(i32, Vec<OwnedFd>), Box<dyn std::error::Error>> {
        session.channel.send(message, fds)?;
        let mut reply = Vec::new();
        let fds = session.channel.recv(&mut reply)?.ok_or("the init has ended")?;
        Ok((picktwo_wire::decode::<SocketReply>(&reply)?.errno, fds))
    };
    let say = |what: &str, errno: i32| match errno {
        0 => println!("{what}: ok"),
        errno => println!("{what}: {:?}", Errno::from_raw(errno)),
    };
    let address = |host: [u8; 4], port: u16| {
        let mut address = vec![0u8; 16];
        address[..2].copy_from_slice(&2u16.to_ne_bytes());
        address[2..4].copy_from_slice(&port.to_be_bytes());
        address[4..8].copy_from_slice(&host);
        address
    };
    let encode = |request: &SocketRequest| picktwo_wire::encode(request);
    const STREAM_NONBLOCK: i32 = 1 | 0o4000;
    let (port, listener) = session.gateway.as_ref().ok_or("no gateway")?;
    let stream = encode(&SocketRequest::Socket {
        domain: 2,
        kind: STREAM_NONBLOCK,
        protocol: 0,
    })?;

    let (_, made) = ask(&stream, &[])?;
    let gateway = encode(&SocketRequest::Connect {
        address: address([127, 0, 0, 1], *port),
    })?;
    let (errno, _) = ask(&gateway, &[made[0].as_fd()])?;
    // A connection in progress is an answer of a socket that does not wait; on a loopback it is complete at once.
    let accepted = sys::accept(listener.as_fd(), 0);
    let reached = matches!(Errno::from_raw(errno), Errno::EINPROGRESS) || errno == 0;
    say(
        "gateway reached from inside",
        accepted.err().map_or(if reached { 0 } else { errno }, |e| e as i32),
    );

    // Tried before this process restricted itself.
    println!(
        "gateway's port on the host: {}",
        HOST_ANSWER.get().map_or("untried", String::as_str)
    );

    let (_, made) = ask(&stream, &[])?;
    let away = encode(&SocketRequest::Connect {
        address: address([192, 0, 2, 1], 9),
    })?;
    say("no route to elsewhere", ask(&away, &[made[0].as_fd()])?.0);
    let bind = encode(&SocketRequest::Bind {
        address: address([127, 0, 0, 1], 0),
    })?;
    let (_, made) = ask(&stream, &[])?;
    say("bound in the session", ask(&bind, &[made[0].as_fd()])?.0);
    let unix = encode(&SocketRequest::Socket {
        domain: 1,
        kind: 1,
        protocol: 0,
    })?;
    say("unix socket", ask(&unix, &[])?.0);
    say("nonsense", ask(b"nonsense", &[])?.0);
    Ok(())
}

static HOST_ANSWER: std::sync::OnceLock<String> = std::sync::OnceLock::new();

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
