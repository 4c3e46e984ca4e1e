//! A whole session without grants: the view, the init, the start of the command. Real namespaces; the probes run bare first.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The directory of this crate's examples, which cargo builds before the tests.
fn example(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a test");
    let path = exe
        .parent()
        .and_then(Path::parent)
        .expect("a target directory")
        .join("examples")
        .join(name);
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// A workspace, a private home and a file outside of both, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "picktwo-place-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        for dir in ["workspace", "home"] {
            std::fs::create_dir_all(path.join(dir)).unwrap();
        }
        std::fs::write(path.join("workspace/file"), "content").unwrap();
        std::fs::write(path.join("outside"), "secret").unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn workspace(&self) -> PathBuf {
        self.0.join("workspace")
    }

    fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    fn session(&self, options: &[&str], command: &[&str]) -> Command {
        let mut session = Command::new(example("session"));
        session
            .arg("--workspace")
            .arg(self.workspace())
            .arg("--home")
            .arg(self.home());
        session
            .args(options)
            .arg("--")
            .args(command)
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        session
    }

    fn run(&self, command: &[&str]) -> Output {
        self.session(&[], command).output().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(output: &Output) -> (i32, String, String) {
    let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    (
        output.status.code().unwrap_or(-1),
        string(&output.stdout),
        string(&output.stderr),
    )
}

fn root() -> bool {
    nix::unistd::getuid().is_root()
}

fn answers(output: &Output) -> BTreeMap<String, String> {
    assert!(output.status.success(), "{:?}", text(output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| line.split_once(": ").unwrap_or((line, "")))
        .map(|(k, v)| (k.into(), v.into()))
        .collect()
}

#[test]
fn what_a_session_refuses_and_allows() {
    let place = Place::new();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let probe = example("probe");
    let arguments = [
        place.workspace().display().to_string(),
        place.0.join("outside").display().to_string(),
        std::process::id().to_string(),
        udp.local_addr().unwrap().port().to_string(),
    ];
    let bare = answers(&Command::new(&probe).args(&arguments).output().unwrap());
    let mut buffer = [0; 16];
    assert_eq!(udp.recv(&mut buffer).unwrap(), 5, "the control's datagram arrives");
    std::fs::write(place.workspace().join("file"), "content").unwrap();

    let mut command = vec![probe.to_str().unwrap()];
    command.extend(arguments.iter().map(String::as_str));
    let inside = answers(&place.run(&command));
    assert!(udp.recv(&mut buffer).is_err(), "a datagram left the session");
    assert_eq!(
        std::fs::read_to_string(place.workspace().join("file")).unwrap(),
        "content"
    );
    assert_eq!(std::fs::read_dir(place.workspace()).unwrap().count(), 1);

    for name in [
        "create", "append", "mkdir", "rename", "link", "symlink", "chmod", "fchmod", "times", "xattr", "truncate",
        "mkfifo",
    ] {
        assert_eq!((bare[name].as_str(), inside[name].as_str()), ("ok", "EROFS"), "{name}");
    }
    for name in ["outside file", "stat of an outside file"] {
        assert_eq!((bare[name].as_str(), inside[name].as_str()), ("ok", "ENOENT"), "{name}");
    }
    for name in [
        "/etc/shadow",
        "/etc/passwd-",
        "/etc/machine-id",
        "/boot",
        "/var/log",
        "/dev/vda",
        "/dev/kmsg",
        "/dev/fuse",
    ] {
        assert_eq!(inside[name], "ENOENT", "{name}");
    }
    assert_eq!(bare["/boot"], "ok");
    assert_eq!(
        (bare["/proc/keys"].as_str(), inside["/proc/keys"].as_str()),
        ("ok", "EACCES")
    );
    assert_eq!(inside["/proc/1/environ"], "EACCES");
    assert_eq!(
        (bare["oom_score_adj"].as_str(), inside["oom_score_adj"].as_str()),
        ("ok", "EROFS")
    );
    assert_eq!(inside["chmod of a device"], "EROFS");
    assert_eq!(inside["write to /dev/null"], "ok");
    assert_eq!(inside["new file in /etc"], "EROFS");
    for name in ["mount", "umount", "remount", "chroot"] {
        assert_eq!(inside[name], "EPERM", "{name}");
    }
    assert!(
        !root() || ["mount", "umount", "chroot"].iter().all(|name| bare[*name] == "ENOENT"),
        "{bare:?}"
    );
    assert_eq!(
        (
            bare["signal to the launcher"].as_str(),
            inside["signal to the launcher"].as_str()
        ),
        ("ok", "ESRCH")
    );
    assert_eq!(inside["signal to process 1"], "EPERM");
    for name in ["socket vsock", "socket netlink", "socket packet"] {
        assert_eq!(inside[name], "EAFNOSUPPORT", "{name}");
    }
    assert_eq!(
        (
            bare["socket unix datagram"].as_str(),
            inside["socket unix datagram"].as_str()
        ),
        ("ok", "EPERM")
    );
    for (name, answer) in inside.iter().filter(|(name, _)| name.starts_with("write to ")) {
        assert_eq!(answer, "ok", "{name}");
    }
    assert_eq!(inside.keys().filter(|name| name.starts_with("write to ")).count(), 5);
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        assert_eq!(inside[set], "0000000000000000", "{set}");
    }
    assert_eq!((inside["NoNewPrivs"].as_str(), inside["Seccomp"].as_str()), ("1", "2"));
    // Beside SIGPIPE (13), which the probe's own runtime ignores, and 32 and 33, the C library's own.
    let ignored = u64::from_str_radix(&inside["SigIgn"], 16).unwrap();
    assert_eq!(
        (ignored & !(3 << 31), inside["SigBlk"].as_str()),
        (1 << 12, "0000000000000000")
    );
    assert_eq!(inside["descriptors"], "0 1 2");
    assert_eq!(inside["host name"], "picktwo");
    assert_eq!(inside["devices"], "full null random tty urandom zero");
    for name in inside["root"].split(' ') {
        let known = [
            "bin", "dev", "etc", "gnu", "home", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "root", "run",
            "sbin", "sys", "tmp", "usr", "var",
        ];
        let target = probe.components().nth(1).unwrap().as_os_str().to_str().unwrap();
        assert!(known.contains(&name) || name == target, "/{name} is visible");
    }
}

#[test]
fn nothing_of_the_session_is_left_outside() {
    let place = Place::new();
    let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let output = place.run(&[
        "sh",
        "-c",
        "echo kept > ~/kept; echo gone > /tmp/gone-picktwo; echo $HOME",
    ]);
    let (code, home, _) = text(&output);
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(place.home().join("kept")).unwrap(), "kept\n");
    assert!(!Path::new(&home).join("kept").exists());
    assert!(!Path::new("/tmp/gone-picktwo").exists());
    assert_eq!(std::fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
}

#[test]
fn exit_codes_are_those_of_a_shell() {
    let place = Place::new();
    let script = place.workspace().join("script");
    std::fs::write(&script, "exit 9\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(text(&place.run(&["sh", "-c", "exit 7"])).0, 7);
    assert_eq!(text(&place.run(&["sh", "-c", "kill -9 $$"])).0, 137);
    assert_eq!(
        text(&place.run(&["./script"])).0,
        9,
        "a script without an interpreter line"
    );
    let (code, _, message) = text(&place.run(&["picktwo-no-such-command"]));
    assert_eq!(
        (code, message.as_str()),
        (
            127,
            "session: picktwo-no-such-command: command not found in the session"
        )
    );
    let (code, _, message) = text(&place.run(&["./file"]));
    assert_eq!(
        (code, message.as_str()),
        (126, "session: cannot execute ./file in the session: Permission denied")
    );
    assert_eq!(text(&place.run(&["./absent"])).0, 127);
}

#[test]
fn a_link_in_the_private_home_leads_nowhere() {
    let place = Place::new();
    let home = nix::unistd::User::from_uid(nix::unistd::getuid())
        .unwrap()
        .unwrap()
        .dir
        .canonicalize()
        .unwrap();
    // A workspace below HOME needs a mount point in the private home; an earlier session may have left a link there.
    let below = home.join(format!("picktwo-test-{}", std::process::id()));
    std::fs::create_dir(&below).unwrap();
    let target = place.0.join("target");
    std::fs::create_dir(&target).unwrap();
    let link = place.home().join(below.file_name().unwrap());
    let session = || {
        let mut session = Command::new(example("session"));
        session
            .arg("--workspace")
            .arg(below.join("w"))
            .arg("--home")
            .arg(place.home());
        text(&session.args(["--", "pwd"]).output().unwrap())
    };
    std::fs::create_dir(below.join("w")).unwrap();
    symlink(&target, &link).unwrap();
    let started = session();
    std::fs::remove_dir_all(&below).unwrap();
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    assert_eq!(
        (started.0, started.1),
        (0, below.join("w").display().to_string()),
        "{}",
        started.2
    );
    // It is kept, out of the way.
    let mut prefix = link.file_name().unwrap().to_owned();
    prefix.push(".in-the-way-");
    let aside = |entry: &std::fs::DirEntry| entry.file_name().as_bytes().starts_with(prefix.as_bytes());
    let mut entries = std::fs::read_dir(place.home()).unwrap().map(Result::unwrap);
    let kept = entries.find(aside).unwrap().path();
    assert_eq!(std::fs::read_link(kept).unwrap(), target);
}

#[test]
fn a_workspace_that_was_swapped_is_refused() {
    let place = Place::new();
    let (code, _, message) = text(&place.session(&["--inode", "1"], &["true"]).output().unwrap());
    assert_eq!(code, 125);
    assert!(message.contains("was replaced while the session started"), "{message}");
}

#[test]
fn ignored_signals_stay_ignored_and_others_do_not() {
    let place = Place::new();
    let ignored = |options: &[&str]| {
        let output = place
            .session(options, &["grep", "SigIgn", "/proc/self/status"])
            .output()
            .unwrap();
        let mask = text(&output).1;
        // 32 and 33 are the C library's own and pass as whoever started this test left them.
        u64::from_str_radix(mask.rsplit('\t').next().unwrap(), 16).unwrap() & !(3 << 31)
    };
    assert_eq!(ignored(&[]), 0);
    assert_eq!(ignored(&["--keep-signal", "1"]), 1);
}

/// Whether a process outside has this argument.
fn exists(argument: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command.split(|b| *b == 0).any(|part| part == argument.as_bytes())
    })
}

fn within(time: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < time {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    condition()
}

#[test]
fn nothing_survives_the_launcher() {
    let place = Place::new();
    let mark = format!("{}.5", 7_000_000 + std::process::id());
    // The sleeper is in a session of its own, and its parent is gone.
    let script = format!("setsid sleep {mark} & setsid sh -c 'sleep {mark} & sleep {mark}' & wait");
    let mut launcher = place.session(&[], &["sh", "-c", &script]).spawn().unwrap();
    assert!(
        within(Duration::from_secs(20), || exists(&mark)),
        "the control: it runs"
    );
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert!(
        within(Duration::from_secs(5), || !exists(&mark)),
        "a process of the session outlived the launcher"
    );
}

#[test]
fn a_session_ends_with_its_command() {
    let place = Place::new();
    let mark = format!("{}.25", 8_000_000 + std::process::id());
    let output = place.run(&["sh", "-c", &format!("setsid sleep {mark} >/dev/null 2>&1 & exit 3")]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        within(Duration::from_secs(5), || !exists(&mark)),
        "a process of the session outlived it"
    );
}

#[test]
fn orphans_are_reaped() {
    let place = Place::new();
    let script = "for i in 1 2 3 4 5 6 7 8; do sh -c 'true & exit'; done; sleep 0.3; grep -l 'State:.Z' /proc/[0-9]*/status | wc -l";
    assert_eq!(text(&place.run(&["sh", "-c", script])).1, "0");
}

#[test]
fn the_environment_and_input_pass_as_given() {
    let place = Place::new();
    let mut session = place.session(&[], &["sh", "-c", "cat; echo $MARK; env | wc -l"]);
    session
        .env_clear()
        .env("MARK", "a b\nc")
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = session.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"input\n").unwrap();
    let (code, out, _) = text(&child.wait_with_output().unwrap());
    assert_eq!(code, 0);
    // The shell adds PWD; MARK has two lines.
    assert!(out.starts_with("input\na b c\n"), "{out}");
    assert!(out.ends_with("\n4"), "{out}");
}

/// The init's sockets: a connection to the gateway's socket from inside, a bound socket, what it refuses, and that the port does
/// not exist on the host.
#[test]
fn the_init_makes_sockets_in_the_sessions_network() {
    let place = Place::new();
    let (code, out, error) = text(&place.session(&["--sockets"], &["true"]).output().unwrap());
    assert_eq!(code, 0, "{error}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines,
        [
            "gateway reached from inside: ok",
            "gateway's port on the host: ECONNREFUSED",
            "no route to elsewhere: ENETUNREACH",
            "bound in the session: ok",
            "unix socket: ok",
            "nonsense: EBADMSG",
        ]
    );
}

#[test]
fn output_can_be_opened_again_by_its_name() {
    let place = Place::new();
    let log = place.0.join("log");
    let other = place.0.join("outside");
    let mut session = place.session(
        &[],
        &[
            "sh",
            "-c",
            "echo one > /dev/stdout; echo two >> /dev/stderr; echo no > $OTHER",
        ],
    );
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .unwrap();
    session
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .env("OTHER", &other);
    assert!(session.status().unwrap().success());
    let log = std::fs::read_to_string(&log).unwrap();
    assert_eq!(log, "one\ntwo\n");
    // Below the session's own /tmp there is room for a file of that name: it is another one.
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "secret");
}

/// A shell in a user and mount namespace of its own, in which `setup` runs before the session.
fn prepared(place: &Place, setup: &str, command: &str) -> (i32, String, String) {
    let session = example("session");
    let script = format!(
        "{setup} && exec {} --workspace {w} --home {} -- sh -c '{command}'",
        session.display(),
        place.home().display(),
        w = place.workspace().display(),
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .output();
    text(&output.expect("unshare of util-linux"))
}

#[test]
fn what_is_mounted_in_the_workspace_is_read_only_as_well() {
    let place = Place::new();
    std::fs::create_dir(place.workspace().join("sub")).unwrap();
    let w = place.workspace();
    let setup = format!("mount -t tmpfs x {0}/sub && echo there > {0}/sub/file", w.display());
    let (code, out, error) = prepared(
        &place,
        &setup,
        "cat sub/file; echo x > sub/file; mkdir sub/d; cat sub/file",
    );
    assert_eq!((code, out.as_str()), (0, "there\nthere"), "{error}");
    assert_eq!(error.matches("Read-only file system").count(), 2, "{error}");
}

#[test]
fn hosts_that_allow_no_session_say_so() {
    let place = Place::new();
    let (code, _, error) = prepared(&place, "echo 0 > /proc/sys/user/max_user_namespaces", "true");
    assert_eq!(
        (code, error.contains("cannot start the session's namespaces")),
        (125, true),
        "{error}"
    );
    let (code, _, error) = prepared(&place, "mount --bind /dev/null /proc/interrupts", "true");
    assert_eq!(
        (code, error.contains("this /proc is partly hidden already")),
        (125, true),
        "{error}"
    );
    assert_eq!(prepared(&place, "true", "true").0, 0, "the control");
}
