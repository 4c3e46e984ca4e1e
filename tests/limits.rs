//! What a session may use of the machine: programs that take all they can get, as an ordinary user and as root. Each is run bare
//! first, where it gets what it asks for; inside it gets the errno of the bound, and the host goes on.

use nix::unistd::Uid;
use picktwo_tests::{
    report::{needs_root, unavailable},
    run::{self, Finished},
    scene::Scene,
    tier::{self, container},
};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Small ones, so that no test takes anything of note from the machine.
const POLICY: &str = "version = 1\n[limits]\nmemory_bytes = 134217728\nprocesses = 48\nopen_files = 100\nfile_bytes = 2097152\n\
                      tmp_bytes = 8388608\nshm_bytes = 1048576\n";

fn scene() -> (Scene, PathBuf) {
    let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
    let program = scene.example_to("limits", "work/limits").unwrap();
    scene.policy(POLICY).unwrap();
    (scene, program)
}

fn words<'a>(program: &'a Path, rest: &'a [&'a str]) -> Vec<&'a str> {
    [&[program.to_str().unwrap()], rest].concat()
}

/// A home and a workspace of root's own, where the tests run as root: in a session root passes no directory that others closed.
struct Own(PathBuf);

impl Own {
    fn new(scene: &Scene) -> Self {
        let base = PathBuf::from("/root/.cache/picktwo-tests").join(scene.root().file_name().unwrap());
        let _ = fs::remove_dir_all(&base);
        for part in ["home/.config/picktwo", "work"] {
            fs::create_dir_all(base.join(part)).unwrap();
        }
        fs::write(base.join("home/.config/picktwo/policy.toml"), POLICY).unwrap();
        fs::copy(scene.work().join("limits"), base.join("work/limits")).unwrap();
        fs::create_dir_all(base.join("bin")).unwrap();
        tier::install(Path::new(env!("CARGO_BIN_EXE_picktwo")), &base.join("bin")).unwrap();
        Self(base)
    }

    /// picktwo by root. What names the scene's workspace names this one's.
    fn picktwo(&self, scene: &Scene, words: &[&str]) -> Command {
        let theirs = scene.work().to_str().unwrap().to_owned();
        let own = self.0.join("work");
        let words = words.iter().map(|word| word.replace(&theirs, own.to_str().unwrap()));
        // By a copy of the binary that root can reach, too.
        let asked = scene.picktwo(words);
        let mut command = scene.command(self.0.join("bin/picktwo"));
        command.args(asked.get_args());
        command.uid(0).gid(0).env("HOME", self.0.join("home")).current_dir(own);
        command
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs it inside, as an ordinary user or as root.
fn inside(scene: &Scene, root: bool, words: &[&str]) -> Finished {
    let words = [&["run", "--edit", "--"], words].concat();
    if root {
        let own = Own::new(scene);
        return run::run(own.picktwo(scene, &words), LIMIT).unwrap();
    }
    run::run(scene.picktwo(words), LIMIT).unwrap()
}

/// What it made and the answer that ended it.
fn made(finished: &Finished) -> (u64, String) {
    let line = finished.stdout.lines().find_map(|line| line.strip_prefix("made "));
    let line = line.unwrap_or_else(|| panic!("{}", finished.all()));
    let (number, errno) = line.split_once(": ").unwrap();
    (number.parse().unwrap(), errno.to_owned())
}

/// Whom to run as: an ordinary user always, root if the tests are.
fn accounts() -> Vec<bool> {
    if Uid::effective().is_root() {
        vec![false, true]
    } else {
        vec![false]
    }
}

/// Bare it gets all of it; inside, `errno` after at least `least` and at most `most`.
fn bounded(what: &[&str], bare: &[&str], errno: &str, (least, most): (u64, u64)) {
    let (scene, program) = scene();
    let mut command = scene.command(&program);
    command.args(bare);
    let control = run::run(command, LIMIT).unwrap();
    assert_eq!(
        made(&control),
        (bare[1].parse().unwrap(), "all".to_owned()),
        "{}",
        control.all()
    );
    for root in accounts() {
        let finished = inside(&scene, root, &words(&program, what));
        let (number, answer) = made(&finished);
        assert_eq!(answer, errno, "as root: {root}: {}", finished.all());
        assert!((least..=most).contains(&number), "as root: {root}: {number}");
        assert_eq!(finished.code(), 0, "{}", finished.all());
    }
}

fn tasks() -> u64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    load.split(' ')
        .nth(3)
        .unwrap()
        .split_once('/')
        .unwrap()
        .1
        .parse()
        .unwrap()
}

#[test]
fn processes_end_with_eagain() {
    if container() && Uid::effective().is_root() {
        return processes_without_namespaces();
    }
    // Root is bounded by the process numbers of its pid namespace, of which the kernel keeps 300 back once they begin anew.
    let most = match (container(), Uid::effective().is_root()) {
        (true, _) => tasks() + 300,
        (false, true) => 48 + 300,
        (false, false) => 48,
    };
    let many = (most + 100).to_string();
    for what in ["processes", "threads"] {
        bounded(&[what, &many], &[what, &many], "EAGAIN", (30, most));
    }
}

/// As root there, nothing of the kernel's counts: only a control group does. So it is the ordinary user that is bounded, by what the
/// machine runs already and what the policy adds to it.
fn processes_without_namespaces() {
    let (scene, program) = scene();
    let most = tasks() + 300;
    let many = (most + 100).to_string();
    let control = run::run(
        {
            let mut command = scene.command(&program);
            command.args(["processes", &many]);
            command
        },
        LIMIT,
    )
    .unwrap();
    assert_eq!(made(&control).1, "all", "{}", control.all());
    let finished = inside(&scene, false, &words(&program, &["processes", &many]));
    let (number, answer) = made(&finished);
    assert_eq!(answer, "EAGAIN", "{}", finished.all());
    assert!((30..=most).contains(&number), "{number}");
    let doctor = run::run(Own::new(&scene).picktwo(&scene, &["doctor", "--json"]), LIMIT).unwrap();
    if !doctor.stdout.contains("\"cgroup\"") {
        unavailable(
            "limits::processes_end_with_eagain as root in the container tier",
            "the kernel exempts root from RLIMIT_NPROC, and no control group can be made here",
        );
    }
}

#[test]
fn memory_ends_with_enomem_or_the_command() {
    let (scene, program) = scene();
    let mut command = scene.command(&program);
    command.args(["memory", "200"]);
    assert_eq!(made(&run::run(command, LIMIT).unwrap()), (200, "all".to_owned()));
    for root in accounts() {
        let finished = inside(&scene, root, &words(&program, &["memory", "200"]));
        // A control group kills; a limit of the process answers.
        if finished.code() != 137 {
            let (number, answer) = made(&finished);
            assert_eq!(answer, "ENOMEM", "{}", finished.all());
            assert!((64..=128).contains(&number), "{number}");
        }
    }
}

#[test]
fn descriptors_end_with_emfile() {
    bounded(&["descriptors", "200"], &["descriptors", "200"], "EMFILE", (64, 100));
}

#[test]
fn one_file_ends_with_efbig() {
    let scratch = tempdir();
    let bare = ["file", "4", scratch.to_str().unwrap()];
    // In the private home, in the private temporary directory and in the workspace.
    for place in ["$HOME", "${TMPDIR:-/tmp}", "."] {
        let (scene, program) = scene();
        let mut command = scene.command(&program);
        command.args(bare);
        assert_eq!(made(&run::run(command, LIMIT).unwrap()), (4, "all".to_owned()));
        for root in accounts() {
            let shell = format!("exec {} file 4 {place}", program.display());
            let finished = inside(&scene, root, &["sh", "-c", &shell]);
            assert_eq!(made(&finished), (2, "EFBIG".to_owned()), "{place}: {}", finished.all());
        }
    }
    let _ = fs::remove_dir_all(scratch);
}

#[test]
fn private_directories_in_memory_end_with_enospc() {
    if container() {
        return unavailable(
            "container_limits::private_directories_in_memory_end_with_enospc",
            "without namespaces they lie on the host's disk, which bounds them",
        );
    }
    let scratch = tempdir();
    let bare = |what, many| [what, many, scratch.to_str().unwrap()];
    bounded(&["disk", "12", "/tmp"], &bare("disk", "12"), "ENOSPC", (6, 8));
    bounded(&["disk", "12", "/dev/shm"], &bare("disk", "12"), "ENOSPC", (0, 1));
    // 8 MiB hold 2048 pages.
    bounded(
        &["files", "3000", "/tmp"],
        &bare("files", "3000"),
        "ENOSPC",
        (1900, 2048),
    );
    let _ = fs::remove_dir_all(scratch);
}

/// On a file system of the test's own, which is made as root: a part of the machine's own disk would be too much to fill.
#[test]
fn a_full_disk_ends_the_session() {
    const MOUNT: &str = "mount -t tmpfs -o size=64m,mode=700,uid=$2,gid=$3 none \"$1\" && cd \"$4\" || exit 99\n\
                         uid=$2 gid=$3; shift 4; exec setpriv --reuid $uid --regid $gid --clear-groups \"$@\"";
    if !Uid::effective().is_root() {
        return needs_root("limits::a_full_disk_ends_the_session");
    }
    let (scene, program) = scene();
    scene.policy("version = 1\n[limits]\ndisk_percent = 60\n").unwrap();
    let (local, work) = (scene.home().join(".local"), scene.work());
    scene.directories(&local).unwrap();
    let owner = fs::metadata(&work).unwrap();
    let on_a_small_disk = |asked: Command| {
        let mut command = scene.command("unshare");
        command.uid(0).gid(0);
        command.args(["-m", "sh", "-c", MOUNT, "sh"]).arg(&local);
        command
            .args([owner.uid().to_string(), owner.gid().to_string()])
            .arg(&work);
        command.arg(asked.get_program()).args(asked.get_args());
        run::run(command, LIMIT).unwrap()
    };
    let mut bare = scene.command(&program);
    bare.args(["disk", "50"]).arg(&local);
    let bare = on_a_small_disk(bare);
    assert_eq!(made(&bare), (50, "all".to_owned()), "{}", bare.all());

    // Slowly enough that a loaded machine sees it before the end.
    let fill = "n=0; while [ $n -lt 50 ]; do head -c 1M /dev/zero > $HOME/fill-$n || exit 3; n=$((n+1)); sleep 0.02; done; echo all";
    let filled = on_a_small_disk(scene.picktwo(["run", "--", "sh", "-c", fill]));
    assert_eq!(filled.code(), 137, "{}", filled.all());
    assert!(filled.stderr.contains("hardly any room is left"), "{}", filled.all());
    let little = fill.replace("-lt 50", "-lt 10");
    let fits = on_a_small_disk(scene.picktwo(["run", "--", "sh", "-c", &little]));
    assert_eq!((fits.code(), fits.stdout.as_str()), (0, "all\n"), "{}", fits.all());
}

#[test]
fn the_host_goes_on_while_a_session_has_all_it_gets() {
    let (scene, program) = scene();
    let many = (tasks() + 400).to_string();
    let mut command = scene.picktwo(["run", "--", program.to_str().unwrap(), "processes", &many, "--stay"]);
    let mut session = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(session.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("EAGAIN"), "{line}");

    // The same user starts processes, and steers that session.
    let mut others = scene.command("sh");
    others.args(["-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait && echo fine"]);
    let others = run::run(others, LIMIT).unwrap();
    assert_eq!(others.stdout, "fine\n", "{}", others.all());
    let one = scene.session(LIMIT).unwrap();
    let steered = scene.run(["mode", &one.id, "edit"], LIMIT).unwrap();
    assert_eq!(steered.code(), 0, "{}", steered.all());
    let second = inside(&scene, false, &["true"]);
    assert_eq!(second.code(), 0, "{}", second.all());

    session.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(session.wait().unwrap().success());
}

#[test]
fn where_memory_runs_out_the_session_goes_first() {
    let (scene, _) = scene();
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    for root in accounts() {
        let finished = inside(&scene, root, &["cat", "/proc/self/oom_score_adj"]);
        let score: i32 = finished.stdout.trim().parse().unwrap();
        assert!(
            score >= 500 && score > own.trim().parse().unwrap(),
            "{}",
            finished.all()
        );
        let back = inside(&scene, root, &["sh", "-c", "echo 0 > /proc/self/oom_score_adj"]);
        assert_ne!(back.code(), 0, "{}", back.all());
    }
}

#[test]
fn limits_are_not_raised_inside() {
    let (scene, _) = scene();
    for root in accounts() {
        for limit in ["-n 101", "-u 100000", "-f 8192"] {
            let shell = format!("ulimit -H{limit} 2>/dev/null && echo raised");
            let finished = inside(&scene, root, &["bash", "-c", &shell]);
            assert_eq!(finished.stdout, "", "{limit}: {}", finished.all());
            let lowered = inside(&scene, root, &["bash", "-c", "ulimit -n 50 && echo lowered"]);
            assert_eq!(lowered.stdout, "lowered\n", "{}", lowered.all());
        }
    }
}

#[test]
fn the_record_and_doctor_say_what_bounds() {
    let (scene, _) = scene();
    assert_eq!(inside(&scene, false, &["true"]).code(), 0);
    let session = fs::read_dir(scene.state().join("sessions"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let audit = fs::read_to_string(session.path().join("audit.jsonl")).unwrap();
    assert!(
        audit.lines().next().unwrap().contains("\"bounds\":{\"memory\":\""),
        "{audit}"
    );
    let doctor = scene.run(["doctor", "--json"], LIMIT).unwrap();
    let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    for part in ["memory", "processes"] {
        let means = doctor["limits"][part].as_str().unwrap();
        assert!(["cgroup", "rlimit"].contains(&means), "{doctor}");
    }
}

/// A group is made, holds the command, kills a hog whole, and goes: only where there is delegation.
#[test]
fn a_control_group_holds_the_session() {
    let (scene, program) = scene();
    for root in accounts() {
        let asked = ["doctor", "--json"];
        let own = root.then(|| Own::new(&scene));
        let command = match &own {
            Some(own) => own.picktwo(&scene, &asked),
            None => scene.picktwo(asked),
        };
        let doctor = run::run(command, LIMIT).unwrap();
        drop(own);
        let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
        if doctor["limits"]["memory"] != "cgroup" || doctor["limits"]["processes"] != "cgroup" {
            unavailable(
                &format!(
                    "limits::a_control_group_holds_the_session as {}",
                    if root { "root" } else { "user" }
                ),
                "no control group with memory and pids can be made here (cgroup v2, delegated)",
            );
            continue;
        }
        let holds = inside(&scene, root, &["cat", "/proc/self/cgroup"]);
        let group = holds.stdout.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
        let name = group.rsplit('/').next().unwrap();
        assert!(name.starts_with("picktwo-"), "{}", holds.all());
        let left = run::run(
            {
                let mut find = Command::new("find");
                find.args(["/sys/fs/cgroup", "-name", name]);
                find
            },
            LIMIT,
        );
        assert_eq!(left.unwrap().stdout, "");
        let hog = inside(&scene, root, &words(&program, &["memory", "200"]));
        assert_eq!(hog.code(), 137, "{}", hog.all());
    }
}

/// A directory for the bare runs, which goes with the machine's temporary files at the latest.
fn tempdir() -> PathBuf {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("picktwo-limits-{}-{n}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    dir
}
