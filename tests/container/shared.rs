//! What a session without namespaces shares with the host, tried from inside in both modes and bare.

use super::{LIMIT, filtered, finished, scene};
use picktwo_tests::{
    run::{self, wait_until},
    scene::Scene,
};
use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::Command,
};

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
