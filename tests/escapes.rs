//! Ways out of edit mode that need more than one step: each is tried in a session by a script, judged from outside by what lies in
//! the workspace afterwards, and done by the same script without picktwo as the control.

use picktwo_tests::{run::Finished, scene::Scene};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

fn edit(scene: &Scene, script: &str) -> Finished {
    scene.run(["run", "--edit", "--", "sh", "-c", script], LIMIT).unwrap()
}

fn bare(scene: &Scene, script: &str) -> Finished {
    let mut command = scene.command("sh");
    command.args(["-c", script]);
    picktwo_tests::run::run(command, LIMIT).unwrap()
}

/// Each of so many calls failed with this error, and nothing else did.
fn refused(finished: &Finished, error: &str, times: usize) {
    let errors = finished.errors();
    let said = (errors.matches(error).count(), errors.lines().count());
    assert_eq!(said, (times, times), "{}", finished.all());
}

const EACCES: &str = ": Permission denied";
const EPERM: &str = ": Operation not permitted";
const EBUSY: &str = ": Device or resource busy";

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|m| m.is_symlink())
}

/// What only a repository needs to be one.
const REPOSITORY: &str =
    "mkdir -p .git/objects .git/refs .git/hooks .git/logs && echo 'ref: refs/heads/main' > .git/HEAD";

#[test]
fn the_private_home_is_reached_by_no_path_of_the_host() {
    let scene = scene();
    let finished = edit(&scene, "echo x > ~/planted && cat ~/planted");
    assert_eq!(
        (finished.code(), finished.stdout.as_str()),
        (0, "x\n"),
        "{}",
        finished.all()
    );
    let agents = scene.state().join("agents/generic");
    let above = fs::read_dir(&agents).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&above).unwrap().mode() & 0o777, 0, "{}", above.display());
    // As the user whose it is.
    let finished = bare(&scene, &format!("cat {}/home/planted", above.display()));
    assert!(
        finished.code() != 0 && finished.stderr.contains("Permission denied"),
        "{}",
        finished.all()
    );
    // The next session has it again.
    assert_eq!(edit(&scene, "cat ~/planted").stdout, "x\n");
}

#[test]
fn what_a_session_leaves_in_its_home_keeps_no_later_one_from_starting() {
    let scene = scene();
    // The workspace is shown at its own path, and the way to it leads through HOME.
    let work = scene.home().join("projects/one");
    fs::create_dir_all(&work).unwrap();
    let session = |script: &str| {
        let words = [
            "run",
            "--edit",
            "--workspace",
            work.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            script,
        ];
        scene.run(words, LIMIT).unwrap()
    };
    for leaves in [
        "mv ~/projects ~/x1; ln -s /etc ~/projects",
        "mv ~/projects ~/x2; echo kept > ~/projects",
        "cd; mv projects x3; touch projects; i=1; while [ $i -lt 1000 ]; do : > projects.in-the-way-$i; i=$((i+1)); done",
        "chmod 000 ~/projects",
        "chmod 000 ~",
    ] {
        let left = session(leaves);
        assert_eq!(left.code(), 0, "{leaves}: {}", left.all());
        let next = session("pwd -P; cat ~/*.in-the-way-* ~/projects; true");
        assert_eq!(next.code(), 0, "{leaves}: {}", next.all());
        assert!(
            next.stdout.starts_with(work.to_str().unwrap()),
            "{leaves}: {}",
            next.all()
        );
        if leaves.contains("kept") {
            assert!(next.stdout.contains("kept"), "{}", next.all());
        }
    }
}

#[test]
fn nothing_in_a_git_directory_becomes_a_link() {
    let scene = scene();
    assert_eq!(bare(&scene, REPOSITORY).code(), 0);
    let script = "ln -s ../../elsewhere .git/logs/HEAD; ln -s ../rm .git/rebase-merge; ln -s /tmp/m .git/modules; \
                  ln -s ../elsewhere .git/index; true";
    let places = [".git/logs/HEAD", ".git/rebase-merge", ".git/modules", ".git/index"];
    refused(&edit(&scene, script), EACCES, places.len());
    for place in places {
        assert!(!is_link(&scene.work().join(place)), "{place}");
    }
    assert_eq!(bare(&scene, script).code(), 0);
    for place in places {
        assert!(is_link(&scene.work().join(place)), "the control made no {place}");
    }
}

#[test]
fn a_bare_repository_gets_no_linked_hooks() {
    let scene = scene();
    let script = "mkdir evil b && echo x > evil/post-update && ln -s ../evil b/hooks && mkdir b/objects b/refs && \
                  echo 'ref: refs/heads/main' > b/HEAD; true";
    // The links alone are no repository: what would make it one is refused.
    refused(&edit(&scene, script), EACCES, 1);
    let complete = |work: &Path| {
        work.join("b/hooks/post-update").exists() && work.join("b/HEAD").exists() && work.join("b/objects").exists()
    };
    assert!(!complete(&scene.work()), "a repository with linked hooks came together");
    assert_eq!(bare(&scene, &format!("rm -rf evil b; {script}")).code(), 0);
    assert!(complete(&scene.work()), "the control made none");
}

#[test]
fn what_a_linked_hook_leads_to_is_protected() {
    let scene = scene();
    assert_eq!(bare(&scene, REPOSITORY).code(), 0);
    scene.write("scripts/pre-commit", "#!/bin/sh\n").unwrap();
    symlink("../../scripts/pre-commit", scene.work().join(".git/hooks/pre-commit")).unwrap();
    let script = "echo evil >> scripts/pre-commit; echo evil >> .git/hooks/pre-commit; echo fine > scripts/other";
    refused(&edit(&scene, script), EACCES, 2);
    let hook = || fs::read_to_string(scene.work().join("scripts/pre-commit")).unwrap();
    assert_eq!(hook(), "#!/bin/sh\n");
    assert_eq!(
        fs::read_to_string(scene.work().join("scripts/other")).unwrap(),
        "fine\n"
    );
    assert_eq!(bare(&scene, script).code(), 0);
    assert!(hook().contains("evil"), "the control changed nothing");
}

#[test]
fn what_nested_links_and_gits_configuration_lead_to_is_protected() {
    let scene = scene();
    assert_eq!(bare(&scene, REPOSITORY).code(), 0);
    for file in ["docs/ai.md", "v1/real", "hk/pre-commit", "shared.cfg"] {
        scene.write(file, "").unwrap();
    }
    scene.write("pkg/a/b", "").unwrap();
    symlink("../../docs/ai.md", scene.work().join("pkg/a/CLAUDE.md")).unwrap();
    symlink("v1/real", scene.work().join("current")).unwrap();
    symlink("../../current", scene.work().join(".git/hooks/pre-push")).unwrap();
    symlink("../../absent", scene.work().join(".git/hooks/pre-commit")).unwrap();
    let config = scene.work().join(".git/config");
    let mut text = fs::read_to_string(&config).unwrap_or_default();
    text.push_str("[core]\n\thooksPath = hk\n[include]\n\tpath = ../shared.cfg\n");
    fs::write(&config, text).unwrap();
    let script = "for f in docs/ai.md v1/real hk/pre-commit shared.cfg absent; do echo evil > $f; done; \
        rm current && echo evil > current; echo fine > docs/other";
    let evil = || {
        let files = [
            "docs/ai.md",
            "v1/real",
            "hk/pre-commit",
            "shared.cfg",
            "absent",
            "current",
        ];
        let text = |file: &&str| fs::read_to_string(scene.work().join(file)).unwrap_or_default();
        files.iter().filter(|file| text(file).contains("evil")).count()
    };
    refused(&edit(&scene, script), EACCES, 6);
    assert_eq!(evil(), 0);
    assert!(scene.work().join("docs/other").exists());
    assert_eq!(bare(&scene, script).code(), 0);
    assert_eq!(evil(), 6, "the control changed too little");
}

#[test]
fn a_root_within_a_root_stays_where_it_is() {
    let scene = scene();
    scene.directories(&scene.work().join("ws")).unwrap();
    let ws = scene.work().join("ws");
    let script = format!("cd {} && mkdir x && mv ws x/hooks", scene.work().display());
    let work = scene.work();
    let words = [
        "run",
        "--edit",
        "--workspace",
        ws.to_str().unwrap(),
        "--rw",
        work.to_str().unwrap(),
        "--",
        "sh",
        "-c",
    ];
    let finished = scene.run([&words[..], &[&script]].concat(), LIMIT).unwrap();
    refused(&finished, EBUSY, 1);
    assert!(ws.is_dir() && !work.join("x/hooks").exists());
    assert_eq!(bare(&scene, &format!("rm -rf x; {script}")).code(), 0);
    assert!(work.join("x/hooks").is_dir(), "the control moved nothing");
}

#[test]
fn no_set_id_bits_are_granted() {
    let scene = scene();
    let script = "cp /bin/sh shell && chmod 4755 shell; chmod 2755 shell; true";
    let bits = || fs::metadata(scene.work().join("shell")).unwrap().permissions().mode() & 0o6000;
    refused(&edit(&scene, script), EPERM, 2);
    assert_eq!(bits(), 0);
    assert_eq!(bare(&scene, script).code(), 0);
    assert_ne!(bits(), 0, "the control set none");
}

#[test]
fn a_protected_place_is_no_workspace() {
    let scene = scene();
    assert_eq!(bare(&scene, REPOSITORY).code(), 0);
    for place in [".git", ".git/hooks"] {
        let at = scene.work().join(place);
        let finished = scene
            .run(
                ["run", "--edit", "--workspace", at.to_str().unwrap(), "--", "true"],
                LIMIT,
            )
            .unwrap();
        assert!(
            finished.code() == 125 && finished.stderr.contains("protected place"),
            "{}",
            finished.all()
        );
    }
}

/// What the person gives as input lies on a mount of the host: its content may be read, and nothing about it changed.
#[test]
fn nothing_about_a_standard_descriptor_is_changed() {
    let scene = scene();
    let given = scene.home().join("given");
    let script = "chmod 777 /dev/stdin; touch -c -d 2001-01-01 /dev/stdin; chmod 777 /proc/self/fd/0; cat";
    let state = || {
        let meta = fs::metadata(&given).unwrap();
        (meta.mode() & 0o7777, meta.mtime())
    };
    let with_input = |mut command: std::process::Command| {
        command.env("LC_ALL", "C").stdin(fs::File::open(&given).unwrap());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    // With a view each is EROFS; without one, what lies outside is refused as such.
    let error = if picktwo_tests::tier::container() {
        "Permission denied"
    } else {
        "Read-only file system"
    };
    for mode in [&[][..], &["--edit"]] {
        scene.write(&given, "content\n").unwrap();
        fs::set_permissions(&given, fs::Permissions::from_mode(0o644)).unwrap();
        let before = state();
        let words = [&["run"][..], mode, &["--", "sh", "-c", script]].concat();
        let (content, errors) = with_input(scene.picktwo(words));
        assert_eq!(content, "content\n");
        assert_eq!(errors.matches(error).count(), 3, "{errors}");
        assert_eq!(state(), before, "{mode:?}");
    }
    let mut control = scene.command("sh");
    control.args(["-c", script]);
    with_input(control);
    assert_eq!(state().0, 0o777);
    assert!(state().1 < 1_000_000_000);
}

#[test]
fn a_directory_is_no_standard_descriptor() {
    let scene = scene();
    let mut command = scene.picktwo(["run", "--", "true"]);
    command.stdin(fs::File::open(scene.root()).unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a directory or a disk"));
    let mut control = scene.picktwo(["run", "--", "true"]);
    control.stdin(std::process::Stdio::null());
    assert_eq!(control.status().unwrap().code(), Some(0));
}

/// A link of /proc that is another process's, or another thread's, leads to the granted descriptor and its writable mount.
#[test]
fn no_link_of_proc_makes_a_set_id_program() {
    let scene = scene();
    let script =
        "exec 5>made; chmod 4755 /proc/$$/fd/5; chmod 4755 /proc/$$/task/$$/fd/5; chmod 4755 made; chmod 700 made";
    let finished = edit(&scene, script);
    assert_eq!(finished.code(), 0);
    // The links are another process's; the last is the name itself.
    let errors = finished.errors();
    assert_eq!(errors.matches(EACCES).count(), 2, "{}", finished.all());
    assert_eq!(errors.matches(EPERM).count(), 1, "{}", finished.all());
    let mode = || fs::metadata(scene.work().join("made")).unwrap().mode() & 0o7777;
    assert_eq!(mode(), 0o700);
    let script = "exec 5>made; chmod 4755 /proc/$$/task/$$/fd/5";
    assert_eq!(bare(&scene, script).code(), 0);
    assert_eq!(mode(), 0o4755);
}

/// The private home is shared by the sessions of one agent in one workspace: a descriptor of one in edit mode must not reach another.
#[test]
fn a_socket_of_another_session_is_not_reached_through_the_shared_home() {
    let scene = scene();
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return picktwo_tests::report::not_run("escapes::a_socket_of_another_session", "python3 is not installed");
    }
    let serve = "import os, socket, sys\n\
        s = socket.socket(socket.AF_UNIX); os.chdir(os.path.expanduser('~'))\n\
        os.path.exists('door') and os.unlink('door')\n\
        s.bind('door'); s.listen(); print('listening', flush=True)\n\
        s.settimeout(20); s.accept()";
    let knock = "import os, socket\n\
        s = socket.socket(socket.AF_UNIX); os.chdir(os.path.expanduser('~'))\n\
        try: s.connect('door'); print('reached')\n\
        except OSError as e: print(e.errno)";
    let listening = |command| {
        let running = picktwo_tests::run::start(command, b"").unwrap();
        assert!(picktwo_tests::run::wait_until(LIMIT, || running
            .stdout()
            .contains("listening")));
        running
    };
    let first = listening(scene.picktwo(["run", "--edit", "--", python, "-c", serve]));
    let finished = scene.run(["run", "--", python, "-c", knock], LIMIT).unwrap();
    assert_eq!(
        finished.stdout.trim(),
        (nix::libc::EACCES).to_string(),
        "{}",
        finished.all()
    );
    drop(first);
    // The session's own, and without picktwo: both are reached.
    let own = format!(
        "{}\nimport threading\n",
        serve.replace("s.settimeout(20); s.accept()", "")
    ) + &knock.replace("s = ", "c = ").replace("s.connect", "c.connect");
    let finished = scene.run(["run", "--", python, "-c", &own], LIMIT).unwrap();
    assert!(finished.stdout.contains("reached"), "{}", finished.all());
    let mut control = scene.command(python);
    control.args(["-c", serve]);
    let _control = listening(control);
    let mut knocking = scene.command(python);
    knocking.args(["-c", knock]);
    assert_eq!(
        picktwo_tests::run::run(knocking, LIMIT).unwrap().stdout.trim(),
        "reached"
    );
}

#[test]
fn edit_sessions_of_directories_within_each_other_wait() {
    let scene = scene();
    let script = "mv a b";
    scene.write(scene.work().join("a"), "").unwrap();
    let finished = edit(&scene, script);
    assert_eq!(finished.code(), 0, "{}", finished.all());
    // What a session that was stopped in the middle holds, by the directory that it is of.
    let lock = |path: &Path| {
        let meta = fs::metadata(path).unwrap();
        let name = scene.state().join(format!("locks/{:x}-{:x}", meta.dev(), meta.ino()));
        fs::File::options().write(true).open(name).unwrap()
    };
    let (own, around) = (lock(&scene.work()), lock(scene.work().parent().unwrap()));
    let take: [(&str, &dyn Fn(), bool); 4] = [
        ("of the same", &|| own.lock().unwrap(), false),
        ("within", &|| own.lock_shared().unwrap(), false),
        ("around", &|| around.lock().unwrap(), false),
        ("beside", &|| around.lock_shared().unwrap(), true),
    ];
    for (which, take, goes_on) in take {
        take();
        scene.write(scene.work().join("a"), "").unwrap();
        let finished = edit(&scene, script);
        match goes_on {
            true => assert_eq!(finished.code(), 0, "{which}: {}", finished.all()),
            false => refused(&finished, EBUSY, 1),
        }
        own.unlock().unwrap();
        around.unlock().unwrap();
    }
    // None of it is within a session's reach.
    let locks = scene.state().join("locks");
    let finished = edit(&scene, &format!("ls {}", locks.display()));
    assert_ne!(finished.code(), 0, "{}", finished.all());
}
