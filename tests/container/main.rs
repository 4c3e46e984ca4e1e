//! The container tier: chosen where no namespace can be had, and what it closes that Landlock alone leaves open.

mod shared;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use picktwo_tests::{
    pages::{Page, Pages},
    processes,
    report::{needs_root, not_run},
    run::{self, Finished, wait_until},
    scene::Scene,
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    process::Command,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// picktwo under a filter as a container's, with these words.
fn filtered(scene: &Scene, words: &[&str]) -> Command {
    scene.below(&["no_namespaces"], words).unwrap()
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

    // Nobody listens there: the record says what it would have been made with.
    let fetched = finished(picktwo(&["fetch", "http://127.0.0.1:9/"]));
    assert_ne!(fetched.code(), 125, "{}", fetched.all());

    let audit = finished(picktwo(&["audit", "list", "--json"]));
    assert_eq!(audit.code(), 0, "{}", audit.all());
    let ids: Vec<PathBuf> = fs::read_dir(scene.state().join("sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(ids.len() >= 2, "{ids:?}");
    let mut fetches = 0;
    for id in ids {
        let text = fs::read_to_string(id.join("audit.jsonl")).unwrap();
        assert!(text.contains("\"tier\":\"container\""), "{text}");
        fetches += text.matches("\"command\":[\"picktwo\",\"fetch\"]").count();
    }
    assert_eq!(fetches, 1);

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

/// Whatever a command leaves ends with the session: daemons, other sessions and process groups, what forks without end.
const LEAVES: &str = "
    setsid sh -c ': MARK; trap \"\" HUP TERM INT; sleep 1000' &
    (setsid setsid sh -c '(: MARK; while :; do sleep 0.01; done) &' &)
    python3 -c 'MARK=1
import os, time
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        # A chain: each link ends as soon as the next one lives, too soon for a list of processes to show it.
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
            os.write(1, b\".\")
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

/// Keepers of a launcher: the first is the one that it started.
fn keepers(launcher: i32) -> Vec<i32> {
    let family = processes::family(launcher);
    let keepers = family.iter().filter(|p| p.title == "picktwo: keeper");
    let mut found: Vec<_> = keepers.map(|p| (p.parent != launcher, p.pid)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}

/// What is killed of a session, in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Nothing,
    Launcher,
    LauncherAndKeeper,
    LauncherAndSecond,
    Keeper,
    Second,
    Groups,
}

impl Killed {
    fn of(self, launcher: i32) -> Vec<i32> {
        let keepers = keepers(launcher);
        assert_eq!(keepers.len(), 2, "{:?}", processes::family(launcher));
        match self {
            Killed::Nothing => vec![],
            Killed::Launcher => vec![launcher],
            Killed::LauncherAndKeeper => vec![launcher, keepers[0]],
            Killed::LauncherAndSecond => vec![launcher, keepers[1]],
            Killed::Keeper => vec![keepers[0]],
            Killed::Second => vec![keepers[1]],
            Killed::Groups => vec![-launcher, -keepers[0]],
        }
    }
}

/// Stopped first, so that none of them sees another's end.
fn kill_at_once(pids: &[i32]) {
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in pids {
            kill(Pid::from_raw(*pid), signal).unwrap();
        }
    }
}

#[test]
fn what_is_left_ends_with_the_session() {
    for what in [
        Killed::Nothing,
        Killed::Launcher,
        Killed::LauncherAndKeeper,
        Killed::LauncherAndSecond,
        Killed::Keeper,
        Killed::Second,
        Killed::Groups,
    ] {
        let killed = what != Killed::Nothing;
        let scene = scene();
        let mark = format!("left_mark_{}_{what:?}", std::process::id());
        let script = LEAVES.replace("MARK", &mark) + if killed { "; sleep 1000" } else { "; exit 7" };
        let words = ["run", "--tier", "container", "--", "sh", "-c", &script];
        let running = run::start(scene.picktwo(words), b"").unwrap();
        assert!(
            wait_until(LIMIT, || running.stdout().contains("left")),
            "{}",
            running.stderr()
        );
        if killed {
            // The launcher, the command, one of each kind of what it left, and chains that go on.
            assert!(wait_until(LIMIT, || marked(&mark).len() >= 4), "{:#?}", marked(&mark));
            let links = || running.stdout().matches('.').count();
            let before = links();
            assert!(wait_until(LIMIT, || links() >= before + 20), "{}", running.stderr());
            kill_at_once(&what.of(running.pid()));
        }
        let finished = running.finish(LIMIT).unwrap();
        // A pipe is at its end when nobody is left that could write to it: not one link of a chain.
        assert!(finished.closed, "{what:?}: {:#?}", marked(&mark));
        if !killed {
            assert_eq!(finished.code(), 7, "{}", finished.all());
            // Not a moment later: the command line returns when they are gone.
            assert_eq!(marked(&mark), Vec::<String>::new());
        }
        assert!(
            wait_until(Duration::from_secs(10), || marked(&mark).is_empty()),
            "{what:?}: {:#?}",
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
        needs_root("container::a_session_of_roots_is_as_closed");
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
    assert_eq!(scene.session(LIMIT).unwrap().tier, "container");
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

#[test]
fn a_session_that_asked_the_web_ends_at_once() {
    let scene = scene();
    let page = Page::html("<html><body><main><p>Hello there.</p></main></body></html>");
    let pages = Pages::start([("/", page)]).unwrap();
    scene
        .policy(&format!(
            "version = 1\n[retrieval]\nprivate = [\"{}\"]\n",
            pages.address()
        ))
        .unwrap();
    // What is left of the web side is waited for, for two seconds at most; a busy machine may need some time, but not every time.
    let script = format!("picktwo fetch {} >/dev/null && date +%s%N", pages.url("/"));
    let waits: Vec<Duration> = (0..4)
        .map(|_| {
            let told = finished(scene.picktwo(["run", "--tier", "container", "--", "sh", "-c", &script]));
            let now = std::time::UNIX_EPOCH.elapsed().unwrap();
            let ended: u64 = told.stdout.trim().parse().unwrap_or_else(|_| panic!("{}", told.all()));
            now.saturating_sub(Duration::from_nanos(ended))
        })
        .collect();
    assert_eq!(pages.requests().len(), 4);
    assert!(waits.iter().min().unwrap() < &Duration::from_millis(1500), "{waits:?}");
}
