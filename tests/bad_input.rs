//! Bad input of every kind ends in one clear sentence and the right exit code, and loses nothing.

use picktwo_tests::{
    processes,
    report::not_run,
    run::{self, Finished, wait_until},
    scene::Scene,
};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
    thread,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// picktwo itself failed, and said why in one line that names what is wrong.
fn refused(finished: &Finished, names: &[&str]) {
    assert_eq!(finished.code(), 125, "{}", finished.all());
    assert_eq!(finished.stdout, "", "{}", finished.all());
    for name in names {
        assert!(
            finished.stderr.contains(name),
            "`{name}` is not named: {}",
            finished.all()
        );
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.all());
}

fn one_line(finished: &Finished) {
    assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{}", finished.all());
}

fn verified(scene: &Scene) {
    let finished = scene.run(["audit", "verify"], LIMIT).unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.all());
}

#[test]
fn policies() {
    let scene = scene();
    let run = |options: &[&str]| scene.run([&["run"], options, &["--", "true"]].concat(), LIMIT).unwrap();
    let finished = run(&["--policy", "absent.toml"]);
    refused(&finished, &["absent.toml", "No such file"]);
    one_line(&finished);

    scene.write("closed.toml", "version = 1\n").unwrap();
    fs::set_permissions(scene.work().join("closed.toml"), fs::Permissions::from_mode(0o000)).unwrap();
    let finished = run(&["--policy", "closed.toml"]);
    refused(&finished, &["closed.toml", "Permission denied"]);
    one_line(&finished);

    scene.write("directory.toml/x", "").unwrap();
    refused(&run(&["--policy", "directory.toml"]), &["directory.toml"]);

    for (name, content, says) in [
        (
            "syntax.toml",
            &b"version = 1\n[files\nread = []\n"[..],
            &["syntax.toml:2", "^"][..],
        ),
        (
            "unknown.toml",
            b"version = 1\n[files]\nraed = []\n",
            &["unknown.toml:3", "raed", "^"],
        ),
        ("type.toml", b"version = 1\n[files]\nread = 3\n", &["type.toml:3", "^"]),
        ("version.toml", b"version = 99\n", &["version.toml:1", "99"]),
        ("empty.toml", b"", &["empty.toml", "version"]),
        ("binary.toml", b"version = 1\n\xff\xfe\n", &["binary.toml"]),
        (
            "value.toml",
            b"version = 1\nmode = \"sideways\"\n",
            &["value.toml:2", "sideways"],
        ),
    ] {
        scene.write(name, content).unwrap();
        refused(&run(&["--policy", name]), says);
    }
    // Whatever is too large is not a policy either.
    scene.write("large.toml", vec![b'#'; 64 << 20]).unwrap();
    refused(&run(&["--policy", "large.toml"]), &["large.toml"]);

    refused(&run(&["--profile", "no-such-profile"]), &["no-such-profile"]);
    scene
        .policy("version = 1\n[files]\nread = [\"/no/such/path\"]\n")
        .unwrap();
    refused(&run(&[]), &["/no/such/path", "policy.toml"]);
    scene.policy("nonsense").unwrap();
    refused(&run(&[]), &["policy.toml:1"]);
    scene.policy("version = 1\n").unwrap();
    // A project's own file only tightens.
    scene.write(".picktwo.toml", "version = 1\nmode = \"edit\"\n").unwrap();
    refused(&run(&[]), &[".picktwo.toml:2", "mode"]);
    scene.write(".picktwo.toml", "version = 1\n").unwrap();
    assert_eq!(run(&[]).code(), 0);
    verified(&scene);
}

#[test]
fn a_projects_policy_is_a_file_of_its_own_and_bounded() {
    let scene = scene();
    let policy = scene.work().join(".picktwo.toml");
    let run = || {
        let finished = scene.run(["run", "--", "echo", "started"], LIMIT).unwrap();
        assert!(finished.took < Duration::from_secs(20), "{}", finished.all());
        fs::remove_file(&policy).unwrap();
        finished
    };
    // What a policy says that is wrong is shown.
    let secret = "token = \"ghp_of_the_person\"\n";
    scene.write(".picktwo.toml", secret).unwrap();
    refused(&run(), &[".picktwo.toml:1", "ghp_of_the_person"]);
    scene.write("../home/secret", secret).unwrap();
    for to in ["../home/secret", "/dev/zero", "/dev/random", "absent"] {
        symlink(to, &policy).unwrap();
        let finished = run();
        refused(&finished, &[".picktwo.toml", "a symbolic link"]);
        one_line(&finished);
        assert!(!finished.all().contains("ghp_"), "{to}: {}", finished.all());
    }
    nix::unistd::mkfifo(&policy, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    let finished = run();
    refused(&finished, &[".picktwo.toml", "not a regular file"]);
    one_line(&finished);
    fs::File::create(&policy).unwrap().set_len(1 << 40).unwrap();
    let finished = run();
    refused(&finished, &[".picktwo.toml", "larger than"]);
    one_line(&finished);
    // The person's own may be a link, as those who keep their configuration in a repository have it.
    let user = scene.home().join(".config/picktwo/policy.toml");
    scene.policy("version = 1\n").unwrap();
    let kept = user.with_file_name("kept.toml");
    fs::rename(&user, &kept).unwrap();
    symlink(&kept, &user).unwrap();
    scene.write(".picktwo.toml", "version = 1\n").unwrap();
    assert_eq!(run().code(), 0);
    fs::remove_file(&user).unwrap();
    symlink("/dev/zero", &user).unwrap();
    scene.write(".picktwo.toml", "version = 1\n").unwrap();
    let finished = run();
    refused(&finished, &["policy.toml", "not a regular file"]);
    one_line(&finished);
}

#[test]
fn arguments() {
    let scene = scene();
    for options in [
        &["--ro", "/no/such/path"][..],
        &["--rw", "no/such/path"],
        &["--workspace", "/no/such/path"],
    ] {
        let finished = scene.run([&["run"], options, &["--", "true"]].concat(), LIMIT).unwrap();
        refused(&finished, &["no/such/path"]);
        one_line(&finished);
    }
    let finished = scene.run(["run", "--json-status", "77", "--", "true"], LIMIT).unwrap();
    refused(&finished, &["77"]);
    one_line(&finished);
    let empty = scene.run(["run", "--", ""], LIMIT).unwrap();
    assert_eq!(empty.code(), 127, "{}", empty.all());
    for words in [
        ["mode", "absent", "edit"],
        ["audit", "show", "absent"],
        ["audit", "verify", "absent"],
    ] {
        let finished = scene.run(words, LIMIT).unwrap();
        assert_ne!(finished.code(), 0, "{}", finished.all());
        assert!(finished.stderr.contains("absent"), "{}", finished.all());
        one_line(&finished);
    }
    let mut command = scene.picktwo(["run", "--", "true"]);
    command.env_remove("HOME");
    refused(&run::run(command, LIMIT).unwrap(), &["HOME"]);
    scene
        .policy(
            "version = 1\n[model.anthropic]\nupstream = \"https://api.example.org\"\nkey = \"env:NOT_SET_ANYWHERE\"\n",
        )
        .unwrap();
    let finished = scene.run(["run", "--profile", "claude", "--", "true"], LIMIT).unwrap();
    refused(&finished, &["NOT_SET_ANYWHERE", "anthropic"]);
    one_line(&finished);
}

/// A command in a user namespace, where this machine allows one.
fn in_namespace(scene: &Scene, name: &str, options: &str, script: &str) -> Option<Command> {
    let mut trial = scene.command("unshare");
    trial.args([options, "true"]);
    match run::run(trial, LIMIT) {
        Ok(finished) if finished.code() == 0 => {}
        _ => {
            not_run(
                &format!("bad_input::{name}"),
                &format!("`unshare {options}` does not work for the test's user"),
            );
            return None;
        }
    }
    let mut command = scene.command("unshare");
    command
        .args([options, "sh", "-c", script, "sh"])
        .arg(scene.root().join("bin/picktwo"));
    Some(command)
}

#[test]
fn no_namespaces() {
    let scene = scene();
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; \"$1\" run --tier full -- touch made; code=$?; \"$1\" doctor > doctor; echo doctor $? >> doctor; exit $code";
    let Some(command) = in_namespace(&scene, "no_namespaces", "-Ur", script) else {
        return;
    };
    let finished = run::run(command, LIMIT).unwrap();
    refused(&finished, &["full tier", "user namespaces"]);
    one_line(&finished);
    assert!(!scene.work().join("made").exists());
    let doctor = fs::read_to_string(scene.work().join("doctor")).unwrap();
    assert!(
        doctor.contains("container") && doctor.contains("namespaces") && doctor.ends_with("doctor 0\n"),
        "{doctor}"
    );
}

#[test]
fn full_disk_under_the_record() {
    let scene = scene();
    // Else the session would be ended before its record has anything to say.
    scene.policy("version = 1\n[limits]\ndisk_percent = 100\n").unwrap();
    scene.directories(&scene.state()).unwrap();
    scene.directories(&scene.root().join("small")).unwrap();
    let script = "
        mount -t tmpfs -o size=256k,mode=700 tmpfs ../small || exit 99
        export XDG_STATE_HOME=$(realpath ../small)
        full() { dd if=/dev/zero of=../small/fill bs=4k 2>/dev/null; }
        full
        \"$1\" run --edit -- touch made-1; echo start=$?
        rm ../small/fill
        \"$1\" run -- sh -c 'while [ ! -e stop ]; do [ -e full ] && echo x > made-2; sleep 0.02; done 2>/dev/null; true' & pid=$!
        while ! \"$1\" sessions --json | grep -q '\"id\"'; do sleep 0.1; done
        id=$(\"$1\" sessions --json | sed -n 's/.*\"id\": \"\\(.*\\)\".*/\\1/p')
        full; n=0
        # The record's last page has room for some more lines.
        while [ $n -lt 100 ] && \"$1\" mode $id edit && \"$1\" mode $id read-only; do n=$((n + 1)); done >/dev/null
        \"$1\" mode $id read-only
        touch full; \"$1\" mode $id edit; echo mode=$?; sleep 0.2; rm full
        \"$1\" sessions --json | grep '\"mode\"'
        rm ../small/fill
        touch stop; wait $pid; echo session=$?
        \"$1\" audit verify >&2; echo verify=$?
        \"$1\" run -- true; echo next=$?
        ls";
    let Some(command) = in_namespace(&scene, "full_disk_under_the_record", "-Urm", script) else {
        return;
    };
    let finished = run::run(command, LIMIT).unwrap();
    if finished.code() == 99 {
        return not_run(
            "bad_input::full_disk_under_the_record",
            "no tmpfs can be mounted in a user namespace",
        );
    }
    let out = &finished.stdout;
    assert!(
        out.contains("start=125\n") && finished.stderr.contains("No space left on device"),
        "{}",
        finished.all()
    );
    // What cannot be recorded does not happen.
    assert!(
        !out.contains("mode=0") && out.contains("\"mode\": \"read-only\""),
        "{}",
        finished.all()
    );
    assert!(
        out.contains("session=0\n") || out.contains("session=125\n"),
        "{}",
        finished.all()
    );
    assert!(out.contains("verify=0\nnext=0\n"), "{}", finished.all());
    assert!(!out.contains("made-"), "{}", finished.all());
    assert!(!finished.stderr.contains("panicked"), "{}", finished.all());
}

#[test]
fn a_workspace_that_vanishes() {
    let scene = scene();
    scene.write("file", "text\n").unwrap();
    let script = "echo ready; while [ -e file ]; do sleep 0.05; done; (echo x > new) 2>&1; mkdir d 2>&1; cat file 2>&1; echo end; exit 5";
    let running = run::start(scene.picktwo(["run", "--edit", "--", "sh", "-c", script]), b"").unwrap();
    assert!(
        wait_until(LIMIT, || running.stdout().contains("ready")),
        "{}",
        running.stderr()
    );
    fs::remove_dir_all(scene.work()).unwrap();
    let finished = running.finish(LIMIT).unwrap();
    assert_eq!(finished.code(), 5, "{}", finished.all());
    assert!(
        finished.stdout.contains("No such file") && finished.stdout.ends_with("end\n"),
        "{}",
        finished.all()
    );
    scene.directories(&scene.work()).unwrap();
    verified(&scene);
    assert_eq!(scene.run(["run", "--", "true"], LIMIT).unwrap().code(), 0);

    // Gone before it starts.
    let gone = scene.root().join("gone");
    scene.directories(&gone).unwrap();
    let mut command = scene.command("sh");
    command
        .args(["-c", "cd ../gone && rmdir ../gone && exec \"$1\" run -- true", "sh"])
        .arg(scene.root().join("bin/picktwo"));
    refused(&run::run(command, LIMIT).unwrap(), &["current directory"]);
}

/// A server that does something to every connection.
fn serve(act: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let act = std::sync::Arc::new(act);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = std::sync::Arc::clone(&act);
            thread::spawn(move || act(stream));
        }
    });
    port
}

fn read_head(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    let mut byte = [0; 1];
    while !seen.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        seen.push(byte[0]);
    }
}

fn endless(mut stream: TcpStream) {
    read_head(&mut stream);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n",
        10u64 << 30
    );
    let block = vec![b'x'; 64 << 10];
    if stream.write_all(head.as_bytes()).is_ok() {
        while stream.write_all(&block).is_ok() {}
    }
}

fn no_end(mut stream: TcpStream) {
    read_head(&mut stream);
    let block = vec![b'x'; 64 << 10];
    if stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
        .is_ok()
    {
        while stream.write_all(&block).is_ok() {}
    }
}

fn stall(mut stream: TcpStream) {
    read_head(&mut stream);
    thread::sleep(Duration::from_secs(60));
}

fn garbage(mut stream: TcpStream) {
    read_head(&mut stream);
    let _ = stream.write_all(&[0xff, 0, 0x80, b'\n', 0x1b, b'[', b'2', b'J', b'\r', b'\n', b'\r', b'\n']);
}

fn endless_head(mut stream: TcpStream) {
    read_head(&mut stream);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
    while stream
        .write_all(b"x-header: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
        .is_ok()
    {}
}

fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// One request of a session to a model at `port`, with the largest resident size of the gateway while it went on.
fn ask(scene: &Scene, port: u16, bytes: u64) -> (Finished, u64) {
    scene
        .policy(&format!(
            "version = 1\n[model.anthropic]\nupstream = \"http://127.0.0.1:{port}\"\nkey = \"env:REAL_KEY\"\n"
        ))
        .unwrap();
    let bytes = bytes.to_string();
    let mut command = scene.picktwo([
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        include_str!("work/client.py"),
        &bytes,
    ]);
    command.env("REAL_KEY", "sk-real-key-of-nobody");
    let mut running = run::start(command, b"").unwrap();
    let mut peak = 0;
    let pid = running.pid();
    wait_until(LIMIT, || {
        for p in processes::family(pid).iter().filter(|p| p.title == "picktwo: gateway") {
            let status = fs::read_to_string(format!("/proc/{}/status", p.pid)).unwrap_or_default();
            let kib = status.lines().find_map(|l| {
                l.strip_prefix("VmHWM:")?
                    .trim()
                    .strip_suffix(" kB")?
                    .parse::<u64>()
                    .ok()
            });
            peak = peak.max(kib.unwrap_or(0) * 1024);
        }
        running.ended().unwrap()
    });
    (running.finish(LIMIT).unwrap(), peak)
}

#[test]
fn models_that_misbehave() {
    let scene = scene();
    let mut probe = scene.command("/usr/bin/python3");
    probe.arg("-V");
    if !run::run(probe, LIMIT).is_ok_and(|f| f.code() == 0) {
        return not_run("bad_input::models_that_misbehave", "no /usr/bin/python3");
    }
    for (name, port) in [
        ("refuses", closed_port()),
        ("garbage", serve(garbage)),
        ("endless head", serve(endless_head)),
        ("closes", serve(drop)),
    ] {
        let (finished, _) = ask(&scene, port, 1 << 20);
        assert_eq!(finished.code(), 0, "{name}: {}", finished.all());
        assert!(
            finished.stdout.starts_with("status 502\n"),
            "{name}: {}",
            finished.all()
        );
        assert!(
            finished.stdout.contains("\"error\""),
            "{name}: an error of the model's own form: {}",
            finished.all()
        );
        assert_eq!(finished.errors(), "", "{name}");
    }
    // A client that has waited long enough goes, and so does its session.
    let (finished, _) = ask(&scene, serve(stall), 1 << 20);
    assert_eq!(finished.code(), 0, "{}", finished.all());
    assert!(
        finished.stdout.starts_with("failed") || finished.stdout.starts_with("status 50"),
        "{}",
        finished.all()
    );
    assert!(finished.took < Duration::from_secs(30), "{}", finished.all());

    let wanted = 48u64 << 20;
    let (finished, peak) = ask(&scene, serve(endless), wanted);
    assert_eq!(finished.code(), 0, "{}", finished.all());
    assert!(
        peak > 0 && peak < 40 << 20,
        "the gateway took {peak} bytes: {}",
        finished.all()
    );
    verified(&scene);
}

#[test]
fn pages_that_misbehave() {
    let scene = scene();
    let slow = |mut stream: TcpStream| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n");
        while stream.write_all(b"<p>drop</p>").is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
    };
    let servers = [
        ("refuses", closed_port()),
        ("garbage", serve(garbage)),
        ("endless head", serve(endless_head)),
        ("closes", serve(drop)),
        ("stalls", serve(stall)),
        ("drips", serve(slow)),
        ("10 GB", serve(endless)),
        ("no end", serve(no_end)),
    ];
    let private: Vec<String> = servers
        .iter()
        .map(|(_, port)| format!("\"127.0.0.1:{port}\""))
        .collect();
    scene
        .policy(&format!(
            "version = 1\n[retrieval]\nprivate = [{}]\n[limits]\nfetch_seconds = 4\n",
            private.join(", ")
        ))
        .unwrap();
    let mut seen = BTreeMap::new();
    for (name, port) in servers {
        let mut running = run::start(scene.picktwo(["fetch", &format!("http://127.0.0.1:{port}/page")]), b"").unwrap();
        let pid = running.pid();
        wait_until(LIMIT, || {
            seen.extend(processes::family(pid).into_iter().map(|p| (p.pid, p)));
            running.ended().unwrap()
        });
        let finished = running.finish(LIMIT).unwrap();
        assert!(finished.took < Duration::from_secs(30), "{name}: {}", finished.all());
        assert!(
            !finished.stderr.contains("panicked") && !finished.all().contains('\u{1b}'),
            "{name}: {}",
            finished.all()
        );
        // Half a page is never passed off as the whole.
        assert_eq!(finished.code(), 1, "{name}: {}", finished.all());
        one_line(&finished);
    }
    verified(&scene);
    assert!(seen.values().any(|p| p.title == "picktwo: retriever"), "{seen:?}");
    let mut left = Vec::new();
    let gone = wait_until(Duration::from_secs(10), || {
        let all = processes::all().into_iter();
        left = all
            .filter(|p| seen.get(&p.pid).is_some_and(|known| known.title == p.title))
            .collect();
        left.is_empty()
    });
    assert!(gone, "processes of a retrieval are left: {left:?}");
}
