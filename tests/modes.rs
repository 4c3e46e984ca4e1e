//! The mode is the person's alone, flips at once for every process, and protected paths are left alone in edit mode, too.

use nix::sys::signal::Signal;
use picktwo_tests::{
    processes,
    report::not_run,
    run::{self, Finished, Running, wait_until},
    scene::{Scene, SessionLine},
    tier::container,
    tree::Tree,
};
use std::{
    fs,
    io::Write as _,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};

const LIMIT: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
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
    let toggle = scene.example("toggle").unwrap();
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
    let mut python = scene.command("/usr/bin/python3");
    python.arg("-V");
    if !run::run(python, LIMIT).is_ok_and(|f| f.code() == 0) {
        return not_run("modes::open_writers_are_named_and_ended", "no /usr/bin/python3");
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
    // Each in a place of its own: one name is another one's directory.
    for (number, (name, _)) in names.iter().enumerate() {
        scene.write(format!("present/{number}/{name}"), "as it was\n").unwrap();
    }
    let later = SystemTime::now() + Duration::from_secs(3600);
    let before = Tree::with_times_before(&scene.work().join("present"), later).unwrap();
    let numbered = names.iter().enumerate();
    let list: String = numbered
        .map(|(number, (name, _))| format!("{number} {name}\n"))
        .collect();
    let script = "
        while read -r i n; do
            d=$(dirname \"absent/$i/$n\"); mkdir -p \"$d\" 2>/dev/null
            f=absent/$i/$n; p=present/$i/$n
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
    for (number, (name, excepted)) in names.iter().enumerate() {
        let path = scene.work().join(format!("absent/{number}")).join(name);
        let there = fs::symlink_metadata(&path);
        let empty = fs::read_dir(&path).is_ok_and(|mut d| d.next().is_none());
        assert!(there.is_err() || *excepted && empty, "{}", path.display());
    }
    assert!(scene.work().join("ordinary").exists());
}
