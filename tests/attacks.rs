//! Attack loops: a hostile program in a read-only and in an edit session changes nothing that it must not, as seen from outside. The
//! same program without picktwo does.
//!
//! `PICKTWO_SEED` repeats a run, `PICKTWO_ATTACK_SECONDS` (3) sets how long each loop takes.

use picktwo_tests::{
    random::Random,
    run::{self, Finished},
    scene::Scene,
    tree::Tree,
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

/// In everything that the hostile program writes.
const EVIL: &str = "EVIL-BYTES";

/// What is there before the attack and must be the same afterwards, wherever its parents were moved.
const PROTECTED: &[&str] = &[
    ".git/config",
    ".git/hooks/pre-commit",
    ".claude/settings.json",
    "nested/.git/config",
    "nested/.git/hooks/pre-commit",
];

/// Every way to make a protected name that does not exist, as the hostile program counts them.
const CREATING: [&str; 14] = [
    "create",
    "create in the root",
    "mkdir",
    "symlink",
    "dangling link",
    "link",
    "rename",
    "rename directory",
    "bind",
    "mknod file",
    "mknod fifo",
    "mknod socket",
    "create through a link",
    "trailing slash",
];

fn seconds() -> f64 {
    std::env::var("PICKTWO_ATTACK_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(3.0)
}

/// A workspace with protected files, ordinary ones, and a canary beside it.
fn scene() -> (Scene, PathBuf) {
    let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
    for path in PROTECTED {
        // A key that no vetted change may drop: without it, a content of nothing would be accepted.
        scene
            .write(
                path,
                format!("# {path} as the person left it\n[core]\n\thooksPath = /dev/null\n"),
            )
            .unwrap();
    }
    for git in [".git", "nested/.git"] {
        scene.write(format!("{git}/HEAD"), "ref: refs/heads/main\n").unwrap();
        scene.directories(&scene.work().join(git).join("objects")).unwrap();
        scene.directories(&scene.work().join(git).join("refs")).unwrap();
    }
    for path in [
        "plain.file",
        "ok-1/config",
        "ok-1/hooks/pre-commit",
        "ok-tree/settings.json",
        "ok/canary/file",
        "swap",
        "turn/config",
    ] {
        scene.write(path, "ordinary\n").unwrap();
    }
    scene.write("../canary/file", "untouched\n").unwrap();
    for path in PROTECTED
        .iter()
        .map(|p| scene.work().join(p))
        .chain([scene.root().join("canary/file")])
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
        fs::File::open(&path).unwrap().set_modified(old).unwrap();
    }
    let hostile = scene.example("attack").unwrap();
    (scene, hostile)
}

fn attack(mut command: Command, scene: &Scene, seconds: f64, random: &mut Random) -> Finished {
    command
        .arg(scene.work())
        .arg(seconds.to_string())
        .arg(random.next().to_string());
    let finished = run::run(command, Duration::from_secs_f64(seconds + 60.0)).unwrap();
    assert_eq!(
        finished.code(),
        0,
        "the hostile program has to live to the end: {}",
        finished.all()
    );
    let (tried, done) = counts(&finished)
        .values()
        .fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    println!("{tried} calls, {done} of them went through\n{}", finished.stdout);
    finished
}

fn in_session(scene: &Scene, hostile: &Path, mode: &[&str]) -> Command {
    let directory = hostile.parent().unwrap().to_str().unwrap();
    let words = [&["run"], mode, &["--ro", directory, "--", hostile.to_str().unwrap()]].concat();
    scene.picktwo(words)
}

/// How many calls of a kind were tried and how many went through, as the hostile program reports it.
fn counts(finished: &Finished) -> BTreeMap<String, (u64, u64)> {
    finished
        .stdout
        .lines()
        .filter_map(|line| {
            let mut words = line.rsplitn(3, ' ');
            let done = words.next()?.parse().ok()?;
            let tried = words.next()?.parse().ok()?;
            Some((words.next()?.to_owned(), (tried, done)))
        })
        .collect()
}

fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

/// The protected files of a workspace by inode, with everything that may not change about them.
#[derive(Debug, PartialEq)]
struct Kept(BTreeMap<u64, KeptFile>);

/// Content, mode, links, time of the last change in seconds and nanoseconds, and the end of the path.
type KeptFile = (Vec<u8>, u32, u64, i64, i64, Vec<u8>);

impl Kept {
    /// Ordinary parents may have been moved anywhere: a file is known by its inode and the end of its path.
    fn read(work: &Path) -> Self {
        let mut kept = BTreeMap::new();
        walk(work, &mut |path, inode| {
            let suffixes = [".git/config", ".git/hooks/pre-commit", ".claude/settings.json"];
            let (Some(suffix), Ok(meta)) = (suffixes.iter().find(|s| path.ends_with(s)), fs::symlink_metadata(path))
            else {
                return;
            };
            let content = content(path);
            kept.insert(
                inode,
                (
                    content,
                    meta.mode(),
                    meta.nlink(),
                    meta.mtime(),
                    meta.mtime_nsec(),
                    (*suffix).into(),
                ),
            );
        });
        Self(kept)
    }
}

/// Everything wrong with the workspace after an attack in edit mode: one line each.
fn wrongs(work: &Path, before: &Kept) -> Vec<String> {
    let mut wrong = Vec::new();
    let after = Kept::read(work);
    for (inode, file) in &before.0 {
        match after.0.get(inode) {
            None => wrong.push(format!(
                "a protected file is gone: {}",
                String::from_utf8_lossy(&file.5)
            )),
            Some(now) if now != file => wrong.push(format!("changed: {file:?} became {now:?}")),
            Some(_) => {}
        }
    }
    let known: Vec<u64> = before.0.keys().copied().collect();
    walk(work, &mut |path, inode| {
        let below = path.strip_prefix(work).unwrap_or(path);
        if protected(below, path) && !known.contains(&inode) {
            let content = content(path);
            // A configuration that says nothing may come into being, and a vetted one where the session made the repository.
            let name = below.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            let vetted = name.starts_with("config") && !String::from_utf8_lossy(&content).contains(EVIL);
            if !vetted {
                wrong.push(format!("made: {}", below.display()));
            }
        }
    });
    wrong
}

/// Of a regular file: a FIFO would never end.
fn content(path: &Path) -> Vec<u8> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => fs::read(path).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn walk(dir: &Path, seen: &mut dyn FnMut(&Path, u64)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        seen(&path, meta.ino());
        if meta.is_dir() {
            walk(&path, seen);
        }
    }
}

/// Whether a path that the attack makes is a protected one. Directories named `.git` are not: their content is.
fn protected(below: &Path, path: &Path) -> bool {
    let names: Vec<String> = below.iter().map(|n| n.to_string_lossy().to_lowercase()).collect();
    let Some(last) = names.last() else { return false };
    let single = [
        ".mcp.json",
        "claude.md",
        "agents.md",
        ".cursor",
        ".codex",
        ".vscode",
        ".envrc",
        ".picktwo.toml",
        ".husky",
    ];
    if single.contains(&last.as_str()) {
        return true;
    }
    // A directory of that name may come up, since an agent keeps its plans there; nothing else in it may.
    if let Some(at) = names.iter().position(|n| n == ".claude") {
        return match names.get(at + 1) {
            None => fs::symlink_metadata(path).is_ok_and(|m| !m.is_dir()),
            Some(inner) => inner != "plans" && inner != "todos",
        };
    }
    match names.iter().position(|n| n == ".git") {
        Some(at) => match names[at + 1..]
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["config" | "config.worktree", ..] | ["remotes" | "branches", _, ..] => true,
            ["hooks", hook] => !hook.ends_with(".sample"),
            _ => false,
        },
        None => names == ["bare", "config"],
    }
}

#[test]
fn read_only_session_changes_nothing() {
    let mut random = Random::new("attacks::read_only");
    let (scene, hostile) = scene();
    let before = Tree::with_times_before(&scene.work(), later()).unwrap();
    let canary = Tree::with_times_before(&scene.root().join("canary"), later()).unwrap();
    let finished = attack(in_session(&scene, &hostile, &[]), &scene, seconds(), &mut random);

    let after = Tree::with_times_before(&scene.work(), later()).unwrap();
    assert_eq!(before.differences(&after), Vec::<String>::new(), "{}", finished.all());
    let canary_after = Tree::with_times_before(&scene.root().join("canary"), later()).unwrap();
    assert_eq!(canary.differences(&canary_after), Vec::<String>::new());
    let counts = counts(&finished);
    for what in ["open", "two paths", "metadata", "make", "by descriptor", "move away"]
        .into_iter()
        .chain(CREATING)
    {
        assert!(
            counts.get(what).is_some_and(|(tried, _)| *tried > 0),
            "{what} was not tried: {}",
            finished.stdout
        );
    }
    assert!(counts["open to read"].1 > 0, "reading has to work: {}", finished.stdout);
    verified(&scene);
}

#[test]
fn edit_session_leaves_protected_files_alone() {
    let mut random = Random::new("attacks::edit");
    let (scene, hostile) = scene();
    let before = Kept::read(&scene.work());
    assert_eq!(before.0.len(), PROTECTED.len());
    let canary = Tree::with_times_before(&scene.root().join("canary"), later()).unwrap();
    let home = Tree::read(&scene.home()).unwrap().without(is_state);
    let finished = attack(
        in_session(&scene, &hostile, &["--edit"]),
        &scene,
        seconds(),
        &mut random,
    );

    assert_eq!(
        wrongs(&scene.work(), &before),
        Vec::<String>::new(),
        "{}",
        finished.all()
    );
    let canary_after = Tree::with_times_before(&scene.root().join("canary"), later()).unwrap();
    assert_eq!(canary.differences(&canary_after), Vec::<String>::new());
    scene.open_homes();
    let home_after = Tree::read(&scene.home()).unwrap().without(is_state);
    assert_eq!(home.differences(&home_after), Vec::<String>::new());
    // Ordinary files are changed all the time, or the attack would have met a closed door only.
    let counts = counts(&finished);
    for what in ["open", "two paths", "metadata", "make", "nameless"] {
        assert!(
            counts.get(what).is_some_and(|(_, done)| *done > 0),
            "{what} never worked: {}",
            finished.stdout
        );
    }
    verified(&scene);
}

#[test]
fn without_picktwo_the_same_program_does_all_of_it() {
    let mut random = Random::new("attacks::control");
    let (scene, hostile) = scene();
    let before = Kept::read(&scene.work());
    let canary = Tree::with_times_before(&scene.root().join("canary"), later()).unwrap();
    let finished = attack(scene.command(&hostile), &scene, seconds().min(3.0), &mut random);
    let _ = fs::remove_dir_all("/tmp/attack");

    let wrongs = wrongs(&scene.work(), &before);
    let gone = wrongs.iter().filter(|w| !w.starts_with("made")).count();
    let made = wrongs.len() - gone;
    assert!(
        gone >= 3 && made >= 8,
        "the attack is too weak: {wrongs:?}\n{}",
        finished.all()
    );
    let counts = counts(&finished);
    for what in CREATING {
        assert!(
            counts.get(what).is_some_and(|(_, done)| *done >= 10),
            "`{what}` makes nothing: {}",
            finished.stdout
        );
    }
    // A canary that cannot even be read any more was changed.
    let untouched = Tree::with_times_before(&scene.root().join("canary"), later())
        .is_ok_and(|after| canary.differences(&after).is_empty());
    assert!(!untouched, "{}", finished.all());
}

/// picktwo's own directories, which a session does change.
fn is_state(path: &Path) -> bool {
    path.starts_with(".local")
}

fn verified(scene: &Scene) {
    let finished = scene.run(["audit", "verify"], Duration::from_secs(60)).unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.all());
}
