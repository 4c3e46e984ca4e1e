//! A session behaves as if picktwo were not there: codes, pipes, signals, terminal. Its mode is the person's alone, and flips at once.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use picktwo_tests::{
    processes,
    report::not_run,
    run::{self, Finished, wait_until},
    scene::Scene,
    tier::{container, without_notice},
    tree::Tree,
};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::Command,
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
        assert_eq!(finished.errors().lines().count(), 1, "{}", finished.all());
    }
    for words in [&["run"][..], &["run", "--nonsense", "--", "true"], &["nonsense"]] {
        let finished = scene.run(words, LIMIT).unwrap();
        assert_eq!(finished.code(), 125, "{words:?}: {}", finished.all());
    }
}

#[test]
fn streams_are_the_callers() {
    let scene = scene();
    let pipeline = |script: String| without_notice(&text(run::run(scene_shell(&scene, &script), LIMIT).unwrap()));
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

#[test]
fn a_real_time_signal_ends_the_session_as_any_other_does() {
    let scene = scene();
    let script =
        "(while :; do echo left; sleep 0.05; done) & python3 -c 'import os; os.kill(os.getppid(), 34)'; sleep 60";
    let finished = inside(&scene, script);
    // Nobody is left who could write to its output.
    assert!(finished.code() == 128 + 34 && finished.closed, "{}", finished.all());
    let verified = scene.run(["audit", "verify"], LIMIT).unwrap();
    assert_eq!(verified.code(), 0, "{}", verified.all());
}
