//! picktwo where others confine already: below another supervisor of system calls, in itself, in bubblewrap and in Codex's sandbox. It
//! starts in the right tier or refuses with the reason, and what a session without granted calls does without is said.

mod around;

use picktwo_tests::{
    http,
    report::{needs_root, not_run},
    run::{self, Finished, wait_until},
    scene::Scene,
    tier,
};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// picktwo with these words, below the programs of `outer`.
fn below(scene: &Scene, outer: &[&str], words: &[&str]) -> Command {
    scene.below(outer, words).unwrap()
}

fn supervised(scene: &Scene, words: &[&str]) -> Finished {
    run::run(below(scene, &["supervised"], words), LIMIT).unwrap()
}

/// The words of a session that runs a shell script.
fn shell<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["run"], options, &["--", "sh", "-c", script]].concat()
}

/// A refusal of picktwo's own: 125, and one line that has these words.
fn refused(finished: &Finished, words: &str) {
    assert_eq!(finished.code(), 125, "{}", finished.all());
    let said = finished.stderr.lines().filter(|line| line.starts_with("picktwo: "));
    assert_eq!(said.count(), 1, "{}", finished.all());
    assert!(finished.stderr.contains(words), "{}", finished.all());
}

#[test]
fn below_a_supervisor_sessions_are_read_only_and_without_web_tools() {
    let scene = scene();
    scene.policy("version = 1\n").unwrap();
    scene.write("file", "kept\n").unwrap();
    let _host = UnixListener::bind(scene.work().join("socket")).unwrap();
    let script = "
        echo x > made; echo y >> file; chmod 600 file; ln file other; mkdir d; echo own > \"$HOME/own\" && cat \"$HOME/own\"
        picktwo fetch https://docs.rs; echo \"fetch $?\"
        echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"web_fetch\",\"arguments\":{\"url\":\"https://docs.rs\"}}}' | picktwo mcp
        python3 - <<'PY'
import socket, os, errno
def attempt(name, f):
    try: f(); print(name, 'works')
    except OSError as e: print(name, errno.errorcode[e.errno])
attempt('local', lambda: socket.socket(socket.AF_UNIX).connect('socket'))
attempt('datagram', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt('pair', lambda: socket.socketpair())
attempt('out', lambda: socket.create_connection(('192.0.2.1', 80), 5))
attempt('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
def loop():
    s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)
attempt('loopback', loop)
attempt('set-id', lambda: os.chmod(os.environ['HOME'] + '/own', 0o4755))
for fd in (0, 1, 2):
    attempt('mode of %d' % fd, lambda: os.fchmod(fd, 0o600))
PY
        exit 7";
    let session = supervised(&scene, &shell(&[], script));
    assert_eq!(session.code(), 7, "{}", session.all());
    for said in [
        "nested tier, since another supervisor of system calls is listening already",
        "no web tools in the nested tier, and the session stays read-only",
        "there are no web tools in this session",
        "Read-only file system",
    ] {
        assert!(session.stderr.contains(said), "{said}: {}", session.all());
    }
    let answers: Vec<&str> = session.stdout.lines().collect();
    for (at, line) in [
        (0, "own"),
        (1, "fetch 125"),
        (3, "local EPERM"),
        (4, "datagram EPERM"),
        (5, "pair works"),
        (6, "out ENETUNREACH"),
        (7, "netlink EAFNOSUPPORT"),
        (8, "loopback works"),
        (9, "set-id EPERM"),
    ] {
        assert_eq!(answers.get(at), Some(&line), "{}", session.all());
    }
    assert!(
        answers[2].contains("there are no web tools in this session"),
        "{}",
        session.all()
    );
    assert!(answers[2].contains("\"isError\":true"), "{}", session.all());
    let names: Vec<_> = fs::read_dir(scene.work())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(fs::read_to_string(scene.work().join("file")).unwrap(), "kept\n");
}

#[test]
fn the_tier_is_told_and_others_are_refused() {
    let scene = scene();
    let mut told = scene.command("sh");
    let run = below(&scene, &["supervised"], &["run", "--json-status", "3", "--", "true"]);
    told.args(["-c", "exec \"$@\" 3>&1", "sh"])
        .arg(run.get_program())
        .args(run.get_args());
    let told = run::run(told, LIMIT).unwrap();
    assert_eq!(told.code(), 0, "{}", told.all());
    let started: serde_json::Value = serde_json::from_str(told.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&started["tier"], &started["web"]),
        (&"nested".into(), &false.into()),
        "{}",
        told.all()
    );

    for tier in ["full", "container"] {
        refused(
            &supervised(&scene, &["run", "--tier", tier, "--", "true"]),
            "is listening already",
        );
    }
    // Only the person's own word opens what cannot be closed again.
    scene.policy("version = 1\nmode = \"edit\"\n").unwrap();
    let session = supervised(&scene, &shell(&[], "echo x > made"));
    assert!(
        session.stderr.contains("the session stays read-only"),
        "{}",
        session.all()
    );
    assert!(!scene.work().join("made").exists());
    let doctor = supervised(&scene, &["doctor", "--json"]);
    assert_eq!(doctor.code(), 0, "{}", doctor.all());
    let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    assert_eq!(doctor["tier"], "nested");
    assert!(
        doctor["weaker"]
            .as_array()
            .unwrap()
            .iter()
            .any(|w| w.as_str().unwrap().contains("web tools")),
        "{doctor}"
    );
    let session = fs::read_dir(scene.state().join("sessions"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let audit = fs::read_to_string(session.path().join("audit.jsonl")).unwrap();
    assert!(audit.contains("\"tier\":\"nested\""), "{audit}");

    refused(
        &supervised(&scene, &["demo"]),
        "scenarios use granted changes and the web tools",
    );
    refused(
        &supervised(&scene, &["fetch", "https://docs.rs"]),
        "is listening already",
    );

    let ordinary = run::run(scene.picktwo(["run", "--", "true"]), LIMIT).unwrap();
    assert!(!ordinary.stderr.contains("nested"), "{}", ordinary.all());
}

#[test]
fn files_are_no_standard_streams_there() {
    let scene = scene();
    let out = scene.work().join("out");
    scene.write("out", "").unwrap();
    for (redirection, words) in [
        ("> \"$0\"", "standard output is a file"),
        ("< \"$0\"", "standard input is a file"),
        ("2> \"$0\"", "standard error is a file"),
        ("< .", "standard input is a directory"),
    ] {
        let run = below(&scene, &["supervised"], &["run", "--", "true"]);
        let mut command = scene.command("sh");
        command.args(["-c", &format!("exec \"$@\" {redirection}")]).arg(&out);
        command.arg(run.get_program()).args(run.get_args());
        let finished = run::run(command, LIMIT).unwrap();
        assert_eq!(finished.code(), 125, "{redirection}: {}", finished.all());
        let said = finished.all() + &fs::read_to_string(&out).unwrap();
        assert!(said.contains(words), "{redirection}: {said}");
    }
}

#[test]
fn terminals_keep_their_modes_there() {
    let scene = scene();
    let attempt = "import os\nfor fd in (0, 1, 2):\n  try: os.fchmod(fd, 0o620); print('changed')\n  except OSError as e: print(e.errno)";
    scene.write("attempt.py", attempt).unwrap();
    let on_terminal = |command: &str| {
        let mut script = scene.command("script");
        script.args(["-qec", command, "/dev/null"]);
        run::run(script, LIMIT).unwrap()
    };
    let bare = on_terminal("python3 attempt.py");
    if bare.stdout.matches("changed").count() != 3 {
        return not_run(
            "nested::terminals_keep_their_modes_there",
            "`script` gives no terminal here",
        );
    }
    let run = below(&scene, &["supervised"], &["run", "--", "python3", "attempt.py"]);
    let words: Vec<_> = std::iter::once(run.get_program()).chain(run.get_args()).collect();
    let words: Vec<_> = words.iter().map(|w| w.to_str().unwrap()).collect();
    let inside = on_terminal(&words.join(" "));
    assert_eq!(inside.stdout.matches("30\r\n").count(), 3, "{}", inside.all());
    assert!(!inside.stdout.contains("changed"), "{}", inside.all());
}

#[test]
fn edit_sessions_keep_what_is_protected_and_exists() {
    let scene = scene();
    for (path, text) in [
        ("plain", "p\n"),
        ("AGENTS.md", "a\n"),
        ("deep/er/.claude/settings.json", "{}\n"),
        ("scripts/check", "c\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", "[core]\n\tbare = false\n"),
        (".git/hooks/post-commit.sample", "h\n"),
        (".git/refs/heads/.keep", ""),
        (".git/objects/.keep", ""),
    ] {
        scene.write(path, text).unwrap();
    }
    symlink("AGENTS.md", scene.work().join("CLAUDE.md")).unwrap();
    symlink("../../scripts/check", scene.work().join(".git/hooks/pre-commit")).unwrap();
    fs::hard_link(scene.work().join("AGENTS.md"), scene.work().join("another-name")).unwrap();
    let script = "
        try() { \"$@\" 2>/dev/null && echo \"got through: $*\"; }
        try sh -c 'echo x >> AGENTS.md'
        try sh -c 'echo x >> another-name'
        try sh -c 'echo x >> scripts/check'
        try sh -c 'echo x >> .git/config'
        try sh -c 'echo x > .git/hooks/pre-commit'
        try sh -c 'echo x > .git/hooks/post-commit'
        try sh -c 'echo x > deep/er/.claude/other'
        try rm -f CLAUDE.md
        try mv CLAUDE.md gone
        try ln -sf plain CLAUDE.md
        try mv plain AGENTS.md
        try mv .git elsewhere
        try mv deep elsewhere
        try mv deep/er deep/other
        try rm -rf .git/hooks
        try chmod 600 AGENTS.md
        try touch -d yesterday .git/config
        try umount AGENTS.md
        echo new > made; echo more >> plain; mkdir -p a/b; mv a c; chmod 700 made; rm -r c; echo x > .git/index; mv .git/index .git/index2
        picktwo fetch https://docs.rs 2>/dev/null || echo 'no web'";
    let session = supervised(&scene, &shell(&["--edit"], script));
    assert_eq!(session.stdout, "no web\n", "{}", session.all());
    assert!(session.stderr.contains("stays edit"), "{}", session.all());
    assert!(
        session
            .stderr
            .contains("protected paths that exist now are mounted read-only"),
        "{}",
        session.all()
    );
    let read = |path: &str| fs::read_to_string(scene.work().join(path)).unwrap();
    assert_eq!((read("made"), read("plain")), ("new\n".into(), "p\nmore\n".into()));
    assert_eq!((read("AGENTS.md"), read("scripts/check")), ("a\n".into(), "c\n".into()));
    assert_eq!(read(".git/config"), "[core]\n\tbare = false\n");
    assert_eq!(
        fs::read_link(scene.work().join("CLAUDE.md")).unwrap(),
        Path::new("AGENTS.md")
    );
    assert!(scene.work().join(".git/index2").exists());

    // What the mounts kept is what a shell may do outside.
    let mut bare = scene.command("sh");
    bare.args([
        "-c",
        "mv deep elsewhere && echo x >> AGENTS.md && mv .git x && rm CLAUDE.md",
    ]);
    assert_eq!(run::run(bare, LIMIT).unwrap().code(), 0);
}

#[test]
fn a_mode_that_is_fixed_says_so() {
    let scene = scene();
    let mut live = run::start(below(&scene, &["supervised"], &["run", "--", "sleep", "30"]), b"").unwrap();
    let line = scene.session(LIMIT).unwrap();
    let mode = |mode: &str| scene.run(["mode", &line.id, mode], LIMIT).unwrap();
    let edit = mode("edit");
    assert_ne!(edit.code(), 0, "{}", edit.all());
    assert!(
        edit.all().contains("the mode stays read-only: without granted calls"),
        "{}",
        edit.all()
    );
    assert!(edit.all().contains("start it with --edit"), "{}", edit.all());
    assert_eq!(mode("read-only").code(), 0);
    let sessions = scene.run(["sessions", "--json"], LIMIT).unwrap();
    assert!(sessions.stdout.contains("\"nested\""), "{}", sessions.all());
    live.kill();
}

#[test]
fn the_gateway_answers_there() {
    let scene = scene();
    let model = http::Server::start(|request, to: &mut http::Responder<'_>| {
        assert!(
            request.header("x-api-key").is_some_and(|key| key == "sk-real"),
            "{request:?}"
        );
        to.full(
            200,
            &[("content-type", "application/json")],
            b"{\"type\":\"message\",\"content\":[]}",
        )
    })
    .unwrap();
    let policy = format!(
        "version = 1\n[model.anthropic]\nupstream = \"{}\"\nkey = \"env:REAL_KEY\"\n",
        model.url()
    );
    scene.policy(&policy).unwrap();
    let script = "curl -sS -w ' %{http_code}' -H 'content-type: application/json' -H 'anthropic-version: 2023-06-01' \
        -d '{\"model\":\"claude-sonnet-4-5\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}' \
        \"$ANTHROPIC_BASE_URL/v1/messages\"; env | grep -c sk-real";
    let mut command = below(&scene, &["supervised"], &shell(&[], script));
    command.env("REAL_KEY", "sk-real");
    let finished = run::run(command, LIMIT).unwrap();
    assert!(finished.stdout.contains("} 200"), "{}", finished.all());
    assert!(finished.stdout.ends_with("0\n"), "{}", finished.all());
}

#[test]
fn what_a_session_leaves_ends_with_it() {
    let scene = scene();
    let name = format!("{}", 100_000 + std::process::id());
    let script = format!("setsid sleep {name} >/dev/null 2>&1 & sleep 0.2");
    assert_eq!(supervised(&scene, &shell(&[], &script)).code(), 0);
    let runs = || {
        let of = |pid: &Path| fs::read(pid.join("cmdline")).unwrap_or_default();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .map(|e| of(&e.path()))
            .any(|line| line.ends_with(format!("sleep\0{name}\0").as_bytes()))
    };
    assert!(wait_until(Duration::from_secs(5), || !runs()));
}

#[test]
fn a_session_of_roots_is_as_closed_there() {
    let name = "nested::a_session_of_roots_is_as_closed_there";
    if !nix::unistd::getuid().is_root() {
        return needs_root(name);
    }
    let base = std::env::temp_dir().join(format!("picktwo-nested-root-{}", std::process::id()));
    fs::create_dir_all(base.join("work")).unwrap();
    let mode = || fs::metadata("/dev/null").unwrap().mode();
    let before = mode();
    let script = "
        for f in /etc/shadow /root/.bashrc /proc/kcore /proc/kmsg /dev/mem; do cat $f && echo \"read $f\"; done
        for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger made; do echo x > $f && echo \"wrote $f\"; done
        chmod 600 /dev/null && echo changed; chmod 600 /proc/self/fd/0 && echo changed
        mount -t tmpfs none /tmp && echo mounted; unshare -U true && echo namespace; kill -9 1 && sleep 1; echo end";
    let built = Path::new(env!("CARGO_BIN_EXE_picktwo"));
    let mut command = Command::new(tier::example(built, "supervised"));
    command
        .arg(built)
        .args(shell(&[], script))
        .env("HOME", &base)
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .current_dir(base.join("work"))
        .stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let left = fs::read_dir(base.join("work")).unwrap().count();
    fs::remove_dir_all(&base).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "end\n", "{said}");
    assert!(said.contains("nested tier, since"), "{said}");
    assert_eq!((mode(), left), (before, 0));
}

#[test]
fn verify_judges_the_tier() {
    let scene = scene();
    let judged = |words: &[&str]| run::run(below(&scene, &["supervised"], words), Duration::from_secs(300)).unwrap();
    let finished = judged(&["verify", "--tier", "nested", "--json"]);
    assert_eq!(finished.code(), 0, "{}", finished.all());
    let found: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(found["summary"]["agent"]["escaped"], 0);
    assert!(
        found["summary"]["agent"]["held"].as_u64().unwrap() > 300,
        "{}",
        found["summary"]
    );
    let told = |probe: &serde_json::Value| {
        probe["reason"]
            .as_str()
            .is_some_and(|r| r.contains("not enforced in this tier"))
    };
    assert!(found["probes"].as_array().unwrap().iter().filter(|p| told(p)).count() > 20);
    let nobody = judged(&["verify", "--tier", "nested", "--role", "retriever"]);
    assert_eq!(nobody.code(), 125, "{}", nobody.all());
}
