//! The container tier: chosen where no namespace can be had, and what it closes that Landlock alone leaves open.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use picktwo_tests::{
    processes,
    report::not_run,
    run::{self, Finished, wait_until},
    scene::Scene,
};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

fn example(scene: &Scene, name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_picktwo"))
        .with_file_name("examples")
        .join(name);
    scene.program(&built, &format!("hostile/{name}")).unwrap()
}

/// picktwo under a filter as a container's, with these words.
fn filtered(scene: &Scene, words: &[&str]) -> Command {
    let mut command = scene.command(example(scene, "no_namespaces"));
    command.arg(scene.root().join("bin/picktwo")).args(words);
    command
}

/// picktwo where `max_user_namespaces` is 0, with these words.
fn without_user_namespaces(scene: &Scene, words: &[&str]) -> Option<Command> {
    let mut trial = scene.command("unshare");
    trial.args(["-Ur", "true"]);
    if !run::run(trial, LIMIT).is_ok_and(|f| f.code() == 0) {
        not_run(
            "container::without_user_namespaces",
            "`unshare -Ur` does not work for the test's user",
        );
        return None;
    }
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && ! unshare -U true 2>/dev/null && exec \"$@\"";
    let mut command = scene.command("unshare");
    command
        .args(["-Ur", "sh", "-c", script, "sh"])
        .arg(scene.root().join("bin/picktwo"))
        .args(words);
    Some(command)
}

fn finished(command: Command) -> Finished {
    run::run(command, LIMIT).unwrap()
}

/// What both conditions must give: the tier is chosen, said, recorded, and nothing better is promised.
fn chosen(scene: &Scene, picktwo: &dyn Fn(&[&str]) -> Command) {
    let script = "echo x > made; echo \"$PICKTWO_SESSION\"; cat ../home/.config/picktwo/policy.toml";
    scene.policy("version = 1\n").unwrap();
    let session = finished(picktwo(&["run", "--", "sh", "-c", script]));
    assert_eq!(session.code(), 1, "{}", session.all());
    assert!(session.stderr.contains("container tier, since"), "{}", session.all());
    assert!(session.stderr.contains("Read-only file system"), "{}", session.all());
    assert!(
        session.stderr.contains("policy.toml: Permission denied"),
        "{}",
        session.all()
    );
    assert!(!scene.work().join("made").exists());

    let full = finished(picktwo(&["run", "--tier", "full", "--", "true"]));
    assert_eq!(full.code(), 125, "{}", full.all());
    assert_eq!(full.stderr.lines().count(), 1, "{}", full.all());
    assert!(full.stderr.contains("user namespaces"), "{}", full.all());

    let edit = finished(picktwo(&[
        "run",
        "--edit",
        "--",
        "sh",
        "-c",
        "echo x > made; chmod 700 made; echo y > CLAUDE.md",
    ]));
    assert!(edit.stderr.contains("CLAUDE.md: Permission denied"), "{}", edit.all());
    let made = fs::metadata(scene.work().join("made")).unwrap();
    assert_eq!(made.mode() & 0o777, 0o700);

    let told = picktwo(&["run", "--json-status", "3", "--", "true"]);
    let mut command = scene.command("sh");
    command
        .args(["-c", "exec \"$@\" 3>&1", "sh"])
        .arg(told.get_program())
        .args(told.get_args());
    let told = finished(command);
    assert!(told.stdout.contains("\"tier\":\"container\""), "{}", told.all());

    let doctor = finished(picktwo(&["doctor", "--json"]));
    assert_eq!(doctor.code(), 0, "{}", doctor.all());
    let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    assert_eq!(doctor["tier"], "container");
    assert!(
        doctor["missing"].as_str().unwrap().contains("user namespaces"),
        "{doctor}"
    );
    assert!(doctor["weaker"].as_array().unwrap().len() >= 3, "{doctor}");

    let audit = finished(picktwo(&["audit", "list", "--json"]));
    assert_eq!(audit.code(), 0, "{}", audit.all());
    let ids: Vec<PathBuf> = fs::read_dir(scene.state().join("sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(ids.len() >= 2, "{ids:?}");
    for id in ids {
        let text = fs::read_to_string(id.join("audit.jsonl")).unwrap();
        assert!(text.contains("\"tier\":\"container\""), "{text}");
    }

    let demo = finished(picktwo(&["demo"]));
    assert_eq!(demo.code(), 0, "{}", demo.all());
}

#[test]
fn under_a_containers_filter() {
    let scene = scene();
    chosen(&scene, &|words| filtered(&scene, words));
}

#[test]
fn without_user_namespaces_at_all() {
    let scene = scene();
    if without_user_namespaces(&scene, &["doctor"]).is_none() {
        return;
    }
    chosen(&scene, &|words| without_user_namespaces(&scene, words).unwrap());
}

/// What the hostile program must get, and the same program bare, which shows that each attempt could succeed.
const EXPECTED: &[(&str, &str)] = &[
    ("proc cmdline", "EACCES"),
    ("proc environ", "EACCES"),
    ("proc status", "EACCES"),
    ("proc stat", "EACCES"),
    ("proc maps", "EACCES"),
    ("proc mem", "EACCES"),
    ("proc mountinfo", "EACCES"),
    ("proc auxv", "EACCES"),
    ("proc io", "EACCES"),
    ("proc comm", "EACCES"),
    ("proc fd", "EACCES"),
    ("proc root", "EACCES"),
    ("proc task", "EACCES"),
    ("proc at", "EACCES"),
    ("proc self up", "EACCES"),
    ("proc write", "EACCES"),
    ("proc net", "EACCES"),
    ("proc keys", "EACCES"),
    ("signal", "EPERM"),
    ("ptrace", "EPERM"),
    ("read memory", "EPERM"),
    ("descriptor of a process", "ESRCH"),
    ("host terminal", "EACCES"),
    ("host terminal to read", "EACCES"),
    ("nice", "EPERM"),
    ("affinity", "EPERM"),
    ("scheduler", "EPERM"),
    ("io priority", "EPERM"),
    ("limits", "EPERM"),
    ("shared memory", "EPERM"),
    ("semaphores", "EPERM"),
    ("messages", "EPERM"),
    ("message queue", "EPERM"),
    ("keyring", "EPERM"),
    ("host shared memory", "ENOENT"),
    ("udp socket", "EACCES"),
    ("udp6 socket", "EACCES"),
    ("netlink", "EAFNOSUPPORT"),
    ("unix datagram", "EPERM"),
    ("datagram pair", "EPERM"),
    ("connect", "ECONNREFUSED"),
    ("connect any", "ECONNREFUSED"),
    ("connect 6", "ECONNREFUSED"),
    ("fast open", "ENOTSUP"),
    ("bind", "EACCES"),
    ("listen", "EACCES"),
    ("interfaces", "EPERM"),
    ("device", "ENOPROTOOPT"),
    ("abstract", "EACCES"),
    ("abstract bind", "EACCES"),
    ("host socket", "EACCES"),
    ("control socket", "EACCES"),
    ("host bind", "EACCES"),
    ("closed", "EACCES"),
    ("write", "EACCES"),
    ("create", "EACCES"),
    ("truncate", "EACCES"),
    ("chmod", "EACCES"),
    ("chown", "EACCES"),
    ("times", "EACCES"),
    ("xattr", "EACCES"),
    ("chmod closed", "EACCES"),
    ("fchmod", "EACCES"),
    ("ftimes", "EACCES"),
    ("fxattr", "EACCES"),
    ("fchmod by name", "EACCES"),
    ("rename", "EACCES"),
    ("link", "EXDEV"),
    ("unlink", "EACCES"),
];

/// What works in a session as it does bare.
const WORKS: &[&str] = &[
    "own status",
    "own maps",
    "own stat",
    "own cmdline",
    "own mounts",
    "own cgroup",
    "own environ",
    "own fd",
    "own task",
    "own meminfo",
    "own sysctl",
    "own nice",
    "own shared memory",
    "own shared memory again",
    "own shared memory gone",
    "tcp socket",
    "own socket",
    "own options",
    "own terminal",
    "own terminal by libc",
    "descriptor of an own process",
    "read",
    "own chmod",
    "own home",
    "memory file",
    "done",
];

/// Attempts that this host, or an ordinary user, is refused bare as well: what stops them is told apart by the session's own error.
const NEVER: &[(&str, &str)] = &[
    ("source route", "ENOPROTOOPT"),
    ("strict source route", "ENOPROTOOPT"),
    ("raw socket", "EPERM"),
    ("mptcp socket", "EPROTONOSUPPORT"),
    ("vsock", "EAFNOSUPPORT"),
    ("connect out", "ENETUNREACH"),
    ("device node", "EPERM"),
];

fn answers(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, errno)| (name.to_owned(), errno.to_owned()))
        .collect()
}

/// The host's side of the hostile program: a process, sockets, shared memory and files of the same user.
struct Host {
    directory: PathBuf,
    victim: run::Running,
    tcp: TcpListener,
    abstract_name: String,
    key: u32,
    _sockets: Vec<UnixListener>,
}

impl Host {
    fn new(scene: &Scene) -> Self {
        let directory = scene.root().join("host");
        scene.write(directory.join("file"), "host\n").unwrap();
        scene.write(directory.join("closed"), "host\n").unwrap();
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let key = std::process::id() * 16 + NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let _ = fs::remove_file(directory.join("socket"));
        let socket = UnixListener::bind(directory.join("socket")).unwrap();
        fs::set_permissions(directory.join("socket"), fs::Permissions::from_mode(0o777)).unwrap();
        let abstract_name = format!("picktwo-test-{key}");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        // Kernel objects of the same user: made by a process of that user, which is the victim as well.
        let script = "import ctypes,os,sys,time\n\
            key=int(sys.argv[1]); libc=ctypes.CDLL(None)\n\
            libc.shmget(key,4096,0o1666); libc.semget(key,1,0o1666); libc.msgget(key,0o1666)\n\
            os.close(os.open(f'/dev/shm/picktwo-test-{key}',os.O_CREAT|os.O_RDWR,0o666))\n\
            print('terminal',os.ttyname(os.openpty()[1]),flush=True)\n\
            try: time.sleep(300)\n\
            finally: pass\n";
        let mut command = scene.command("python3");
        command.args(["-c", script]).arg(key.to_string());
        let victim = run::start(command, b"").unwrap();
        assert!(
            wait_until(LIMIT, || victim.stdout().contains('\n')),
            "{}",
            victim.stderr()
        );
        Self {
            directory,
            victim,
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            abstract_name,
            key,
            _sockets: vec![socket, UnixListener::bind_addr(&address).unwrap()],
        }
    }

    fn words(&self, control: &Path) -> Vec<String> {
        vec![
            self.victim.pid().to_string(),
            self.directory.display().to_string(),
            self.tcp.local_addr().unwrap().port().to_string(),
            self.abstract_name.clone(),
            self.key.to_string(),
            self.victim.stdout().trim().trim_start_matches("terminal ").to_owned(),
            control.display().to_string(),
        ]
    }

    /// The state of the files that nothing inside may change.
    fn files(&self) -> Vec<(u32, i64, i64, u64, String)> {
        ["file", "closed"]
            .iter()
            .map(|name| {
                let path = self.directory.join(name);
                let m = fs::metadata(&path).unwrap();
                (
                    m.mode(),
                    m.mtime(),
                    m.ctime(),
                    m.nlink(),
                    fs::read_to_string(&path).unwrap(),
                )
            })
            .collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_file(format!("/dev/shm/picktwo-test-{}", self.key));
        let script = "import ctypes,sys\n\
            key=int(sys.argv[1]); libc=ctypes.CDLL(None)\n\
            libc.shmctl(libc.shmget(key,0,0),0,None); libc.semctl(libc.semget(key,0,0),0,0); libc.msgctl(libc.msgget(key,0),0,None)\n";
        let _ = Command::new("python3")
            .args(["-c", script])
            .arg(self.key.to_string())
            .status();
    }
}

/// Runs the hostile program in a session, in both modes, and bare.
fn hostile(scene: &Scene, picktwo: &dyn Fn(&[&str]) -> Command) {
    let program = scene.root().join("hostile/shared.py");
    scene.write(&program, include_str!("../hostile/shared.py")).unwrap();
    for mode in [&[][..], &["--edit"]] {
        let host = Host::new(scene);
        let before = host.files();
        let mut control = scene.state().join("sessions/x/control.sock");
        // The program waits until it is told where its own session's control socket is.
        let script = "read control; exec python3 \"$@\" \"$control\"";
        let host_file = host.directory.join("file");
        let mut words = vec!["run", "--tier", "container", "--ro", program.to_str().unwrap()];
        words.extend(["--ro", host_file.to_str().unwrap()]);
        words.extend(mode);
        words.extend(["--", "sh", "-c", script, "sh", program.to_str().unwrap()]);
        let arguments = host.words(&control);
        words.extend(arguments[..6].iter().map(String::as_str));
        let fifo = scene.root().join("told");
        let _ = fs::remove_file(&fifo);
        let mut command = picktwo(&words);
        let (reader, mut writer) = std::io::pipe().unwrap();
        command
            .stdin(reader)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        let sessions = scene.state().join("sessions");
        assert!(wait_until(LIMIT, || {
            let live = fs::read_dir(&sessions)
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path().join("control.sock"));
            live.filter(|p| p.exists()).any(|p| {
                control = p;
                true
            })
        }));
        writeln!(writer, "{}", control.display()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let got = answers(&said);
        let mut wrong = Vec::new();
        let wanted = EXPECTED
            .iter()
            .chain(NEVER)
            .copied()
            .chain(WORKS.iter().map(|name| (*name, "0")));
        for (name, errno) in wanted {
            let found = got.get(name).map_or("nothing", String::as_str);
            if found != errno {
                wrong.push(format!("{name}: {found} instead of {errno}"));
            }
        }
        assert!(wrong.is_empty(), "{mode:?}: {wrong:#?}\n{errors}");
        assert_eq!(host.files(), before, "{mode:?}");
        assert!(!host.directory.join("made").exists() && !host.directory.join("created").exists());
    }
}

/// The control: bare, everything that a session is refused works.
fn bare(scene: &Scene) {
    let host = Host::new(scene);
    let program = scene.root().join("hostile/shared.py");
    let control = host.directory.join("socket");
    let mut command = scene.command("python3");
    command
        .arg(&program)
        .args(host.words(&control))
        .env("TMPDIR", scene.root().join("host"));
    let finished = finished(command);
    let got = answers(&finished.stdout);
    // Each attempt that a session must be refused works bare.
    let refused: Vec<String> = EXPECTED
        .iter()
        .filter_map(|(name, _)| match got.get(*name).map(String::as_str) {
            Some("0") => None,
            other => Some(format!("{name}: {other:?}")),
        })
        .collect();
    assert!(refused.is_empty(), "{refused:#?}\n{}", finished.all());
}

#[test]
fn what_is_shared_with_the_host_is_closed() {
    let scene = scene();
    hostile(&scene, &|words| scene.picktwo(words.iter().copied()));
    bare(&scene);
}

#[test]
fn what_is_shared_is_closed_under_a_containers_filter() {
    let scene = scene();
    hostile(&scene, &|words| filtered(&scene, words));
}

/// Whatever a command leaves ends with the session: daemons, other sessions and process groups, what forks without end.
const LEAVES: &str = "
    setsid sh -c ': MARK; trap \"\" HUP TERM INT; sleep 1000' &
    (setsid setsid sh -c '(: MARK; while :; do sleep 0.01; done) &' &)
    python3 -c 'MARK=1
import os, time
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        # A chain: each link ends as soon as the next one lives.
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.002)
' &
    sleep 0.3; echo left";

fn marked(mark: &str) -> Vec<String> {
    let own = std::process::id().cast_signed();
    processes::all()
        .into_iter()
        .filter(|p| p.pid != own)
        .filter(|p| {
            let cmdline = fs::read(format!("/proc/{}/cmdline", p.pid)).unwrap_or_default();
            String::from_utf8_lossy(&cmdline).contains(mark)
        })
        .map(|p| format!("{p:?}"))
        .collect()
}

#[test]
fn what_is_left_ends_with_the_session() {
    for killed in [false, true] {
        let scene = scene();
        let mark = format!("left-mark-{}-{killed}", std::process::id()).replace('-', "_");
        let script = LEAVES.replace("MARK", &mark) + if killed { "; sleep 1000" } else { "; exit 7" };
        let words = ["run", "--tier", "container", "--", "sh", "-c", &script];
        let running = run::start(scene.picktwo(words), b"").unwrap();
        assert!(
            wait_until(LIMIT, || running.stdout().contains("left")),
            "{}",
            running.stderr()
        );
        if killed {
            assert!(marked(&mark).len() >= 5, "{:#?}", marked(&mark));
            kill(Pid::from_raw(running.pid()), Signal::SIGKILL).unwrap();
        }
        let finished = running.finish(LIMIT).unwrap();
        if !killed {
            assert_eq!(finished.code(), 7, "{}", finished.all());
            // Not a moment later: the command line returns when they are gone.
            assert_eq!(marked(&mark), Vec::<String>::new());
        }
        assert!(
            wait_until(Duration::from_secs(10), || marked(&mark).is_empty()),
            "{:#?}",
            marked(&mark)
        );
    }
}

#[test]
fn the_gateway_asks_for_the_sessions_token() {
    let scene = scene();
    scene
        .policy("version = 1\n[model.anthropic]\nupstream = \"http://127.0.0.1:9\"\nkey = \"env:REAL_KEY\"\n")
        .unwrap();
    let script = "echo \"$ANTHROPIC_BASE_URL\"; cat; ";
    let mut command = scene.picktwo(["run", "--tier", "container", "--", "sh", "-c", script]);
    command.env("REAL_KEY", "sk-real-key-of-nobody");
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(reader).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut url = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut url).unwrap();
    let address = url.trim().trim_start_matches("http://").to_owned();
    // Somebody else on this machine, who has no token.
    let mut stream = TcpStream::connect(&address).unwrap();
    let body = "{\"model\":\"claude-x\",\"max_tokens\":1,\"messages\":[]}";
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-api-key: sk-ant-api03-guessed\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("does not present the token"), "{answer}");
    drop(writer);
    assert!(child.wait().unwrap().success());
    // The port is nobody's once the session is over.
    assert!(wait_until(LIMIT, || TcpStream::connect(&address).is_err()));
}

#[test]
fn a_session_of_roots_is_as_closed() {
    if !nix::unistd::getuid().is_root() {
        not_run(
            "container::a_session_of_roots_is_as_closed",
            "the tests do not run as root",
        );
        return;
    }
    let base = std::env::temp_dir().join(format!("picktwo-root-{}", std::process::id()));
    let work = base.join("work");
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(base.join("home")).unwrap();
    let script = "for f in /etc/shadow /proc/1/environ /proc/1/cmdline /root/.bashrc /proc/kcore /proc/kmsg /dev/mem; do cat $f; done
        ls /proc/1/fd; echo 1 > /proc/sys/kernel/panic; kill -0 1; chmod 700 /etc/hostname; touch -d 2001-01-01 /etc/hostname
        mknod $TMPDIR/null c 1 3; chroot / true; grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status; echo x > made";
    let run = |tier: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picktwo"));
        command
            .args(["run", "--tier", tier, "--", "sh", "-c", script])
            .env("HOME", base.join("home"))
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .current_dir(&work);
        finished(command)
    };
    let before = fs::metadata("/etc/hostname")
        .map(|m| (m.mode(), m.mtime(), m.ctime()))
        .ok();
    let got = run("container");
    for refused in [
        "cat: /etc/shadow: Permission denied",
        "cat: /proc/1/environ: Permission denied",
        "cat: /proc/1/cmdline: Permission denied",
        "ls: cannot open directory '/proc/1/fd': Permission denied",
        "cannot create /proc/sys/kernel/panic: Permission denied",
        "kill: Operation not permitted",
        "made: Read-only file system",
    ] {
        assert!(got.stderr.contains(refused), "{refused}: {}", got.all());
    }
    assert!(
        got.stderr.contains("mknod: ") && got.stderr.contains("chroot: "),
        "{}",
        got.all()
    );
    let sets: Vec<&str> = got.stdout.lines().filter(|line| line.starts_with("Cap")).collect();
    assert_eq!(sets.len(), 5, "{}", got.all());
    assert!(sets.iter().all(|line| line.ends_with("0000000000000000")), "{sets:?}");
    let after = fs::metadata("/etc/hostname")
        .map(|m| (m.mode(), m.mtime(), m.ctime()))
        .ok();
    assert_eq!(before, after);
    assert!(!work.join("made").exists());
    let _ = fs::remove_dir_all(&base);
}

#[test]
fn the_way_home_stays_open_for_the_session_that_is_left() {
    let scene = scene();
    let script = "echo up; read line; echo kept > ~/note && cat ~/note";
    let mut command = scene.picktwo(["run", "--tier", "container", "--", "sh", "-c", script]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    command.stdin(reader).stdout(std::process::Stdio::piped());
    let mut first = command.spawn().unwrap();
    drop(command);
    let mut lines = std::io::BufReader::new(first.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    assert_eq!(line, "up\n");
    // Sessions of both tiers that have the same home come and go meanwhile.
    for tier in ["container", "full"] {
        let other = scene.picktwo(["run", "--tier", tier, "--", "sh", "-c", "echo other > ~/other"]);
        let other = finished(other);
        assert_eq!(other.code(), 0, "{tier}: {}", other.all());
    }
    writeln!(writer).unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "kept\n");
    assert!(first.wait().unwrap().success());
    let above = fs::read_dir(scene.state().join("agents/generic"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(fs::metadata(&above).unwrap().mode() & 0o777, 0, "{}", above.display());
}

#[test]
fn verify_finds_no_escape() {
    let scene = scene();
    let mut command = filtered(&scene, &["verify", "--json"]);
    command.stdin(std::process::Stdio::null());
    let judged = run::run(command, LIMIT * 5).unwrap();
    assert_eq!(judged.code(), 0, "{}", judged.all());
    let report: serde_json::Value = serde_json::from_str(&judged.stdout).unwrap();
    assert_eq!(report["tier"], "container");
}
