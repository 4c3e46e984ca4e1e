//! A session behaves as if picktwo were not there: codes, pipes, signals, terminal. Its mode is the person's alone, and flips at once.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use picktwo_tests::{
    processes,
    report::not_run,
    run::{self, Finished, Running, wait_until},
    scene::{Scene, SessionLine, container},
    tree::Tree,
};
use std::{
    fs,
    io::Write as _,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};

const LIMIT: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

fn inside(scene: &Scene, script: &str) -> Finished {
    scene.run(["run", "--", "sh", "-c", script], LIMIT).unwrap()
}

fn text(finished: Finished) -> String {
    assert_eq!(finished.code(), 0, "{}", finished.all());
    finished.stdout
}

/// A session that runs until its standard input closes or it is stopped.
struct Live {
    running: Running,
    line: SessionLine,
}

impl Live {
    fn start(scene: &Scene, options: &[&str], words: &[&str]) -> Self {
        let all = [&["run"], options, &["--"], words].concat();
        let running = run::start(scene.picktwo(all), b"").unwrap();
        let line = scene.session(LIMIT).unwrap();
        Self { running, line }
    }

    fn mode(&self, scene: &Scene, words: &[&str]) -> Finished {
        scene.run([&["mode", &self.line.id], words].concat(), LIMIT).unwrap()
    }
}

#[test]
fn exit_codes_are_the_commands() {
    let scene = scene();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("nonsense-command", 127),
    ] {
        assert_eq!(inside(&scene, script).code(), code, "{script}");
    }
    let signalled = inside(&scene, "kill -TERM $$");
    assert_eq!(
        signalled.status.signal(),
        Some(Signal::SIGTERM as i32),
        "{}",
        signalled.all()
    );
    let aborted = inside(&scene, "kill -ABRT $$");
    assert_eq!(
        aborted.status.signal(),
        Some(Signal::SIGABRT as i32),
        "{}",
        aborted.all()
    );

    scene.write("no-program", "text").unwrap();
    scene.write("no-interpreter", "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(scene.work().join("no-interpreter"), fs::Permissions::from_mode(0o755)).unwrap();
    for (words, code) in [
        (["run", "--", "no-such-command"], 127),
        (["run", "--", "./absent"], 127),
        (["run", "--", "./no-program"], 126),
        (["run", "--", "./no-interpreter"], 127),
        (["run", "--", "/etc"], 126),
    ] {
        let finished = scene.run(words, LIMIT).unwrap();
        assert_eq!(finished.code(), code, "{words:?}: {}", finished.all());
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.all());
    }
    for words in [&["run"][..], &["run", "--nonsense", "--", "true"], &["nonsense"]] {
        let finished = scene.run(words, LIMIT).unwrap();
        assert_eq!(finished.code(), 125, "{words:?}: {}", finished.all());
    }
}

#[test]
fn streams_are_the_callers() {
    let scene = scene();
    let pipeline = |script: String| text(run::run(scene_shell(&scene, &script), LIMIT).unwrap());
    let picktwo = scene.root().join("bin/picktwo");
    let p = picktwo.display();
    assert_eq!(
        pipeline(format!("yes | head -c 300000 | {p} run -- cat | wc -c")).trim(),
        "300000"
    );
    assert_eq!(pipeline(format!("{p} run -- yes | head -n 1")), "y\n");
    assert_eq!(
        pipeline(format!("{p} run -- sh -c 'echo out; echo err >&2' 2>/dev/null")),
        "out\n"
    );
    assert_eq!(
        pipeline(format!("{p} run -- sh -c 'echo out; echo err >&2' 2>&1 >/dev/null")),
        "err\n"
    );
    assert_eq!(
        pipeline(format!("{p} run -- sh -c 'read x; echo got $x' <<< EOF; true").replace("<<< EOF", "< /dev/null")),
        "got\n"
    );
    // A file outside of the view, appended to by whoever the shell opened it for.
    assert_eq!(
        pipeline(format!(
            "cd ../home; {p} run --workspace ../work -- sh -c 'echo a; echo b > /dev/stdout' >> log; cat log; rm log"
        )),
        "a\nb\n"
    );
    // Nothing but the three is inherited.
    assert_eq!(
        pipeline(format!(
            "{p} run -- sh -c 'cat <&5' 5< /etc/hostname 2>/dev/null || echo closed"
        )),
        "closed\n"
    );
    let status = pipeline(format!(
        "{p} run --json-status 3 -- sh -c 'exit 3' 3>status || true; cat status; rm status"
    ));
    assert!(
        status.contains("\"started\"") && status.contains("\"code\":3"),
        "{status}"
    );
}

fn scene_shell(scene: &Scene, script: &str) -> Command {
    let mut command = scene.command("bash");
    if run::run(scene.command("bash"), LIMIT).is_err() {
        command = scene.command("sh");
    }
    command.args(["-c", script]);
    command
}

#[test]
fn signals_reach_the_command() {
    let scene = scene();
    for (name, signal) in [
        ("TERM", Signal::SIGTERM),
        ("INT", Signal::SIGINT),
        ("HUP", Signal::SIGHUP),
        ("USR1", Signal::SIGUSR1),
        ("QUIT", Signal::SIGQUIT),
    ] {
        let script = format!("trap 'echo got {name}; exit 3' {name}; echo ready; while :; do sleep 0.05; done");
        let running = run::start(scene.picktwo(["run", "--", "sh", "-c", &script]), b"").unwrap();
        assert!(
            wait_until(LIMIT, || running.stdout().contains("ready")),
            "{}",
            running.stderr()
        );
        kill(Pid::from_raw(running.pid()), signal).unwrap();
        let finished = running.finish(LIMIT).unwrap();
        assert_eq!(
            (finished.code(), finished.stdout.as_str()),
            (3, format!("ready\ngot {name}\n").as_str()),
            "{}",
            finished.all()
        );
    }
    // Not caught: the caller sees the same death.
    let running = run::start(
        scene.picktwo(["run", "--", "sh", "-c", "echo ready; exec sleep 1000"]),
        b"",
    )
    .unwrap();
    assert!(
        wait_until(LIMIT, || running.stdout().contains("ready")),
        "{}",
        running.stderr()
    );
    kill(Pid::from_raw(running.pid()), Signal::SIGTERM).unwrap();
    assert_eq!(
        running.finish(LIMIT).unwrap().status.signal(),
        Some(Signal::SIGTERM as i32)
    );
}

#[test]
fn terminal_and_job_control() {
    let scene = scene();
    let mut command = scene.command("/usr/bin/python3");
    command
        .args(["-c", include_str!("work/terminal.py")])
        .arg(scene.root().join("bin/picktwo"));
    let (Ok(found), true) = (
        run::run(
            scene_shell(&scene, "/usr/bin/python3 -c 'import pty' && bash --version"),
            LIMIT,
        ),
        Path::new("/usr/bin/python3").exists(),
    ) else {
        return not_run("sessions::terminal_and_job_control", "no /usr/bin/python3 and bash");
    };
    if found.code() != 0 {
        return not_run("sessions::terminal_and_job_control", "no /usr/bin/python3 and bash");
    }
    let finished = run::run(command, Duration::from_secs(120)).unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.all());
    assert_eq!(finished.stdout.lines().count(), 5, "{}", finished.all());
}

#[test]
fn what_the_command_leaves_running_ends_with_it() {
    let scene = scene();
    let mark = format!("left-{}", std::process::id());
    let script = format!(
        "setsid sh -c 'trap \"\" HUP TERM INT; : {mark}; while :; do sleep 0.1; done' >/dev/null 2>&1 & sleep 0.2; echo done"
    );
    assert_eq!(text(inside(&scene, &script)), "done\n");
    let left = wait_until(Duration::from_secs(5), || !anything_with(&mark));
    assert!(left, "a process of the session outlives it");
}

fn anything_with(mark: &str) -> bool {
    processes::all().iter().any(|p| {
        let cmdline = fs::read(format!("/proc/{}/cmdline", p.pid)).unwrap_or_default();
        p.pid != std::process::id().cast_signed() && String::from_utf8_lossy(&cmdline).contains(mark)
    })
}

#[test]
fn nothing_is_left_in_the_users_tree() {
    let scene = scene();
    scene.write("src/a", "text").unwrap();
    scene.write("run.sh", "#!/bin/sh\n").unwrap();
    scene.write("../home/.bashrc", "# mine\n").unwrap();
    let later = SystemTime::now() + Duration::from_secs(3600);
    let read = || {
        scene.open_homes();
        let all = Tree::with_times_before(scene.root(), later).unwrap();
        all.without(|p| p.starts_with("home/.local") || p == Path::new("home") || p == Path::new("work"))
    };
    let before = read();
    let script = "cd; echo x > .bashrc; mkdir -p .config/agent; echo x > .config/agent/x; cd - >/dev/null
        for f in src/a new .git/config; do (echo x > $f) 2>/dev/null; done; mkdir d 2>/dev/null; rm -rf src 2>/dev/null
        chmod 777 run.sh 2>/dev/null; touch src/a 2>/dev/null; echo x > /tmp/x; echo x > /dev/shm/x; cat ~/.bashrc";
    assert_eq!(text(inside(&scene, script)), "x\n");
    assert_eq!(before.differences(&read()), Vec::<String>::new());
}

#[test]
fn home_is_private_and_stays() {
    let scene = scene();
    scene.write("../home/secret", "of the user's").unwrap();
    assert_eq!(
        text(inside(
            &scene,
            "ls -A ~; echo kept > ~/note; mkdir ~/d && ln -s ../note ~/d/l"
        )),
        ""
    );
    assert_eq!(text(inside(&scene, "cat ~/note ~/d/l")), "kept\nkept\n");
    assert!(!scene.home().join("note").exists());
    let other = scene.root().join("other");
    scene.directories(&other).unwrap();
    let finished = scene
        .run(
            [
                "run",
                "--workspace",
                other.to_str().unwrap(),
                "--",
                "sh",
                "-c",
                "ls -A ~; pwd",
            ],
            LIMIT,
        )
        .unwrap();
    assert_eq!(text(finished), format!("{}\n", other.display()));
    // What other sessions and the system's own shared places hold is not there either.
    assert_eq!(
        text(inside(
            &scene,
            "ls -A /tmp /dev/shm | grep -v '^/' | grep . || echo empty"
        )),
        "empty\n"
    );
}

#[test]
fn environment_is_an_allow_list() {
    let scene = scene();
    let mut command = scene.picktwo([
        "run",
        "--",
        "sh",
        "-c",
        "env; cat /proc/self/environ /proc/1/environ 2>/dev/null | tr '\\0' '\\n'",
    ]);
    command.envs([
        ("AWS_SECRET_ACCESS_KEY", "secret-value-1"),
        ("GITHUB_TOKEN", "secret-value-2"),
        ("MY_PROJECT_PASSWORD", "secret-value-3"),
        ("LD_PRELOAD_NOT", "secret-value-4"),
        ("SSH_AUTH_SOCK", "/tmp/secret-value-5"),
        ("LANG", "C.UTF-8"),
        ("TERM", "xterm-256color"),
    ]);
    let finished = run::run(command, LIMIT).unwrap();
    let out = text(finished);
    assert!(!out.contains("secret-value"), "{out}");
    for line in ["LANG=C.UTF-8", "TERM=xterm-256color"] {
        assert!(out.lines().any(|l| l == line), "{line}: {out}");
    }
    scene
        .policy("version = 1\n[env]\npass = [\"MY_SETTING\"]\nset = { CI = \"1\" }\n")
        .unwrap();
    let mut command = scene.picktwo(["run", "--", "sh", "-c", "echo $MY_SETTING-$OTHER-$CI"]);
    command.envs([("MY_SETTING", "passed"), ("OTHER", "not")]);
    assert_eq!(text(run::run(command, LIMIT).unwrap()), "passed--1\n");
}

/// Starts the hostile example `name`, where the scene's user can execute it.
fn example(scene: &Scene, name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_picktwo"))
        .with_file_name("examples")
        .join(name);
    scene.program(&built, &format!("hostile/{name}")).unwrap()
}

fn monotonic() -> i128 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    i128::from(now.tv_sec()) * 1_000_000_000 + i128::from(now.tv_nsec())
}

#[test]
fn a_toggle_flips_everything_within_one_call() {
    const EROFS: i32 = nix::libc::EROFS;
    let scene = scene();
    for dir in ["a", "b"] {
        for name in ["there", "moved-a", "moved-b", "comes-and-goes"] {
            scene.write(format!("{dir}/{name}"), name).unwrap();
        }
    }
    let toggle = example(&scene, "toggle");
    let dir = toggle.parent().unwrap().to_owned();
    let script = "\"$0\" a > $TMPDIR/a & \"$0\" b > $TMPDIR/b; wait; cat $TMPDIR/a $TMPDIR/b";
    let live = Live::start(
        &scene,
        &["--ro", dir.to_str().unwrap()],
        &["sh", "-c", script, toggle.to_str().unwrap()],
    );
    let mut flips = vec![(monotonic(), monotonic(), false)];
    for round in 0..6 {
        let edit = round % 2 == 0;
        let asked = monotonic();
        let finished = live.mode(&scene, &[if edit { "edit" } else { "read-only" }]);
        assert_eq!(finished.code(), 0, "{}", finished.all());
        flips.push((asked, monotonic(), edit));
        std::thread::sleep(Duration::from_millis(100));
    }
    for dir in ["a", "b"] {
        scene.write(format!("{dir}/stop"), "").unwrap();
    }
    let finished = live.running.finish(LIMIT).unwrap();
    let out = text(finished);
    let mut tried = std::collections::BTreeMap::<(&str, bool), u32>::new();
    for line in out.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (start, end): (i128, i128) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let errno: i32 = words[3].parse().unwrap();
        // Calls between two answers have one mode; those that overlap a request may have either.
        let Some(at) = flips.iter().rposition(|f| f.1 <= start) else {
            continue;
        };
        if flips.get(at + 1).is_some_and(|next| next.0 < end) {
            continue;
        }
        let edit = flips[at].2;
        // What a flip left behind half done may be there still, or be gone already.
        let half_done = [nix::libc::EEXIST, nix::libc::ENOENT].contains(&errno);
        let fits = half_done || errno == if edit { 0 } else { EROFS };
        assert!(fits, "{line} in {} mode", if edit { "edit" } else { "read-only" });
        *tried.entry((words[0], edit)).or_default() += u32::from(errno == if edit { 0 } else { EROFS });
    }
    for name in ["open", "create", "chmod", "rename", "mkdir", "unlink", "truncate"] {
        for edit in [false, true] {
            assert!(
                tried.get(&(name, edit)).is_some_and(|n| *n > 3),
                "{name} hardly ran: {tried:?}"
            );
        }
    }
}

#[test]
fn open_writers_are_named_and_ended() {
    let scene = scene();
    if !run::run(scene_shell(&scene, "/usr/bin/python3 -V"), LIMIT).is_ok_and(|f| f.code() == 0) {
        return not_run("sessions::open_writers_are_named_and_ended", "no /usr/bin/python3");
    }
    for way in ["descriptor", "mapping", "parked"] {
        scene.write(format!("{way}.txt"), ".".repeat(4096)).unwrap();
        let mut child = piped(scene.picktwo([
            "run",
            "--edit",
            "--",
            "/usr/bin/python3",
            "-c",
            include_str!("work/writers.py"),
            way,
        ]));
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        assert_eq!(lines.next().unwrap().unwrap(), "holding");
        let session = scene.session(LIMIT).unwrap();
        let mode = |words: &[&str]| text(scene.run([&["mode", &session.id], words].concat(), LIMIT).unwrap());

        let shown = mode(&["read-only"]);
        assert!(
            shown.contains("now read-only") && shown.contains(&format!("{way}.txt")) && shown.contains(way),
            "{shown}"
        );
        // The honest part: until it is ended, it can write.
        if way != "parked" {
            child.stdin.as_mut().unwrap().write_all(b"now\n").unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), "wrote");
            assert!(
                fs::read_to_string(scene.work().join(format!("{way}.txt")))
                    .unwrap()
                    .starts_with("late")
            );
        }
        let shown = mode(&["read-only", "--stop"]);
        if way == "parked" {
            // Nobody is known to hold it: it stays named.
            assert!(shown.contains("parked.txt"), "{shown}");
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            // Named as ended, and not as still open.
            assert!(shown.contains("Ended") && !shown.contains("Still open"), "{shown}");
            let status = child.wait().unwrap();
            assert_eq!(
                status.signal().or(status.code().map(|c| c - 128)),
                Some(Signal::SIGKILL as i32),
                "{way}: {status}"
            );
        }
    }
}

fn piped(mut command: Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[test]
fn the_mode_is_not_changed_from_inside() {
    let scene = scene();
    let live = Live::start(&scene, &[], &["sh", "-c", "
        i=$PICKTWO_SESSION
        picktwo mode $i edit && echo FLIPPED
        picktwo sessions
        for f in ~/.local/state/picktwo /proc/*/root/*/.local/state /run/picktwo/control.sock; do [ -e $f ] && echo VISIBLE $f; done
        ls /proc | grep -c '^[0-9]'
        echo x > made && echo FLIPPED
        echo checked; sleep 1000"]);
    assert!(
        wait_until(LIMIT, || live.running.stdout().contains("checked")),
        "{}",
        live.running.stderr()
    );
    let out = live.running.stdout();
    assert!(!out.contains("FLIPPED") && !out.contains("VISIBLE"), "{out}");
    assert_eq!(scene.session(LIMIT).unwrap().mode, "read-only");
    // From outside it does, which shows that the session was there to be asked.
    assert_eq!(live.mode(&scene, &["edit"]).code(), 0);
    assert_eq!(scene.session(LIMIT).unwrap().mode, "edit");
    if container() {
        // The path is the host's: what refuses it is tried from inside by the container tier's own tests.
        return;
    }
    // Another way in: from a command that a session runs in its own namespaces, through a path of the host.
    let socket = scene.state().join("sessions").join(&live.line.id).join("control.sock");
    assert!(socket.exists(), "the control socket lies elsewhere");
    let inside = processes::inside(live.line.pid);
    assert!(inside.len() >= 2, "init and the command: {inside:?}");
    for p in &inside {
        let seen = PathBuf::from(format!("/proc/{}/root{}", p.pid, socket.display()));
        assert!(!seen.exists(), "{}", seen.display());
    }
}

/// Places whose parents are the session's own inside.
#[test]
fn a_workspace_may_lie_below_a_temporary_directory() {
    let scene = scene();
    for parent in ["/tmp", "/var/tmp", "/dev/shm"] {
        let place = Path::new(parent).join(format!("picktwo-workspace-{}", std::process::id()));
        scene.directories(&place).unwrap();
        // Without a view, the session's own temporary directory is elsewhere.
        let own = if container() {
            ""
        } else {
            " && touch /var/tmp/own && ls /tmp/own"
        };
        let script = &format!("echo new > made && cat made{own}");
        let words = [
            "run",
            "--edit",
            "--workspace",
            place.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            script,
        ];
        let finished = scene.run(words, LIMIT);
        let made = fs::read_to_string(place.join("made"));
        let _ = fs::remove_dir_all(&place);
        let finished = finished.unwrap();
        assert_eq!(finished.code(), 0, "{parent}: {}", finished.all());
        assert_eq!(made.unwrap(), "new\n", "{parent}");
    }
}

#[test]
fn a_profiles_arguments_are_its_own_commands() {
    let scene = scene();
    scene.policy("version = 1\nextends = [\"claude\"]\n").unwrap();
    let run = |words: &[&str]| {
        let mut command = scene.picktwo(words);
        command.env("ANTHROPIC_API_KEY", "for-no-server");
        text(run::run(command, LIMIT).unwrap())
    };
    assert_eq!(run(&["run", "--", "echo"]).trim(), "");
    assert!(run(&["run", "--profile", "claude", "--", "echo"]).contains("--mcp-config"));
}

#[test]
fn some_directories_are_no_workspace() {
    let scene = scene();
    scene.directories(&scene.state()).unwrap();
    let (root, home, state, config) = (
        scene.root(),
        scene.home(),
        scene.state(),
        scene.home().join(".config/picktwo"),
    );
    let link = scene.root().join("link-home");
    std::os::unix::fs::symlink(&home, &link).unwrap();
    let places = [
        root,
        &home,
        &state,
        &state.join("sessions"),
        &config,
        &home.join(".config"),
        &link,
        Path::new("/"),
        Path::new("/usr"),
        Path::new("/usr/lib"),
        Path::new("/etc"),
        Path::new("/proc"),
        Path::new("/tmp/absent-directory"),
        Path::new("/etc/hostname"),
    ];
    for place in places {
        let finished = scene
            .run(["run", "--workspace", place.to_str().unwrap(), "--", "true"], LIMIT)
            .unwrap();
        assert_eq!(finished.code(), 125, "{}: {}", place.display(), finished.all());
        assert_eq!(
            finished.stderr.trim_end().lines().count(),
            1,
            "{}: {}",
            place.display(),
            finished.all()
        );
        assert!(finished.stderr.starts_with("picktwo: "), "{}", finished.all());
    }
    let mut command = scene.picktwo(["run", "--", "true"]);
    command.current_dir(scene.home());
    assert_eq!(run::run(command, LIMIT).unwrap().code(), 125);
}

/// Every built-in protected path that does not belong to a git directory, with whether something in it is excepted: then it may come
/// into being as a directory.
fn protected_names() -> Vec<(String, bool)> {
    let text = include_str!("../policies/protected.toml");
    let sections = text.split("[[").filter(|s| s.starts_with("protect]]"));
    let mut names = Vec::new();
    for section in sections {
        let Some((_, rest)) = section.split_once("paths = [") else {
            continue;
        };
        let list = rest.split_once(']').map_or(rest, |(list, _)| list);
        let excepted = rest.contains("\nexcept = ");
        names.extend(
            list.split('"')
                .skip(1)
                .step_by(2)
                .map(|n| (n.trim_matches('/').replace('*', "x"), excepted)),
        );
    }
    names
}

#[test]
fn protected_paths_are_left_alone_in_edit_mode() {
    let scene = scene();
    let names = protected_names();
    assert!(names.len() > 80, "the file is read wrongly: {names:?}");
    for (name, _) in &names {
        scene.write(format!("present/{name}"), "as it was\n").unwrap();
    }
    let later = SystemTime::now() + Duration::from_secs(3600);
    let before = Tree::with_times_before(&scene.work().join("present"), later).unwrap();
    let list: String = names.iter().map(|(name, _)| format!("{name}\n")).collect();
    let script = "
        while read -r n; do
            d=$(dirname \"absent/x/$n\"); mkdir -p \"$d\" 2>/dev/null
            f=absent/x/$n; p=present/$n
            (echo x > \"$f\") 2>/dev/null && echo \"made $n\"
            mkdir \"$f\" 2>/dev/null && echo \"mkdir $n\"
            echo x > tmp && mv tmp \"$f\" 2>/dev/null && echo \"mv $n\"
            ln tmp \"$f\" 2>/dev/null && echo \"ln $n\"
            ln -s tmp \"$f\" 2>/dev/null && echo \"ln -s $n\"
            mkfifo \"$f\" 2>/dev/null && echo \"mkfifo $n\"
            (echo x >> \"$p\") 2>/dev/null && echo \"append $n\"
            (: > \"$p\") 2>/dev/null && echo \"truncate $n\"
            rm -f \"$p\" 2>/dev/null && echo \"rm $n\"
            mv \"$p\" taken 2>/dev/null && echo \"taken $n\"
            ln \"$p\" taken 2>/dev/null && echo \"linked $n\"
            mv -f tmp \"$p\" 2>/dev/null && echo \"over $n\"
            chmod 777 \"$p\" 2>/dev/null && echo \"chmod $n\"
            touch -d 2001-01-01 \"$p\" 2>/dev/null && echo \"touch $n\"
        done
        echo x > ordinary && echo end";
    let running = run::start(
        scene.picktwo(["run", "--edit", "--", "sh", "-c", script]),
        list.as_bytes(),
    )
    .unwrap();
    let finished = running.finish(Duration::from_secs(120)).unwrap();
    let excepted = |line: &str| {
        names
            .iter()
            .any(|(name, excepted)| *excepted && line == format!("mkdir {name}"))
    };
    let lines: Vec<&str> = finished.stdout.lines().filter(|l| !excepted(l)).collect();
    assert_eq!(lines, ["end"], "{}", finished.all());
    let after = Tree::with_times_before(&scene.work().join("present"), later).unwrap();
    assert_eq!(before.differences(&after), Vec::<String>::new());
    for (name, excepted) in &names {
        let path = scene.work().join("absent/x").join(name);
        let there = fs::symlink_metadata(&path);
        let empty = fs::read_dir(&path).is_ok_and(|mut d| d.next().is_none());
        assert!(there.is_err() || *excepted && empty, "{}", path.display());
    }
    assert!(scene.work().join("ordinary").exists());
}

#[test]
fn a_session_cannot_keep_the_next_one_from_starting() {
    let scene = scene();
    for trick in [
        "mkdir -p ~/.local/state/picktwo ~/.config/picktwo",
        "chmod 000 ~",
        "picktwo run -- true; test $? = 125",
    ] {
        assert_eq!(inside(&scene, trick).code(), 0, "{trick}");
        let next = inside(&scene, "echo next");
        assert_eq!(
            (next.code(), next.stdout.as_str()),
            (0, "next\n"),
            "{trick}: {}",
            next.all()
        );
    }
    let refused = scene.run(["run", "--profile", "claude", "--", "true"], LIMIT).unwrap();
    assert_eq!(refused.code(), 125, "{}", refused.all());
    // What did not start left no record that looks like a killed session.
    let verified = scene.run(["audit", "verify"], LIMIT).unwrap();
    assert!(
        verified.code() == 0 && !verified.stdout.contains("killed"),
        "{}",
        verified.all()
    );
}
