//! What git on the host follows, appends to and rewrites in place: a session gives it no way out. Git on the host is the judge.

use super::harness::{CWD, Scene, link_at, open, path1, path2, rename2, write_file};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;
const NO: Errno = Errno::EACCES;
const HEAD: &str = "ref: refs/heads/main\n";
const CONFIG: &str = "[core]\n\tbare = true\n\trepositoryformatversion = 0\n\tlogallrefupdates = always\n";
const LOG: &str = ".git/logs/refs/heads/main";

/// Runs git as the person does.
fn git(dir: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "git {arguments:?}: {told}");
}

fn commit(dir: &Path) {
    git(dir, &["commit", "-q", "--allow-empty", "-m", "x"]);
}

fn repository(scene: &Scene) {
    git(&scene.w, &["init", "-q", "-b", "main", "."]);
    commit(&scene.w);
}

/// A file outside of the workspace.
fn outside(scene: &Scene, name: &str) -> PathBuf {
    let file = scene.base.join("store").join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "original\n").unwrap();
    file
}

/// The same, with another name in the workspace.
fn shared(scene: &Scene, name: &str) -> PathBuf {
    let file = outside(scene, name);
    fs::hard_link(&file, scene.w.join(name)).unwrap();
    file
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn only_gits_own_probe_becomes_a_link_in_a_git_directory() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    let victim = outside(&scene, "start-up");
    let away = victim.to_str().unwrap();
    fs::create_dir_all(scene.w.join(".git/worktrees/m")).unwrap();
    for dir in ["bare/objects", "bare/refs/heads"] {
        fs::create_dir_all(scene.w.join(dir)).unwrap();
    }
    scene.write("bare/HEAD", HEAD);
    scene.run(|s| {
        let link = |to: &str, name: &str| path2(SYS_symlink, to, name);
        for (to, name) in [
            (away, ".git/logs/refs/heads/testing"),
            (away, ".git/tAbcd3f"),
            ("testing", ".git/logs/refs/heads/testing"),
            ("testing", ".git/logs/refs/heads/tAbcd3f"),
            ("testing", ".git/refs/tAbcd3f"),
            ("./testing", ".git/tAbcd3f"),
            ("testing/", ".git/tAbcd3f"),
            ("testin", ".git/tAbcd3f"),
            ("testing", ".git/tAbcd3"),
            ("testing", ".git/tAbcd3fg"),
            ("testing", ".git/tAbcd3-"),
            ("testing", ".git/TAbcd3f"),
            ("testing", ".git/modules"),
            // Nothing is being made a git directory there.
            ("testing", ".git/worktrees/m/tAbcd3f"),
            (away, "bare/tAbcd3f"),
            ("testing", "bare/refs/heads/tAbcd3f"),
        ] {
            s.refused(&format!("{to} {name}"), link(to, name), NO);
        }
        s.granted("control: elsewhere", link(away, "testing"));
        for name in [".git/tAbcd3f", "bare/tAbcd3f"] {
            s.granted(name, link("testing", name));
            let within = format!("{}/refs/heads/x", name.split('/').next().unwrap_or(""));
            s.refused("moved within", path2(SYS_rename, name, &within), NO);
            s.refused("linked within", path2(SYS_link, name, &within), NO);
            s.granted("removed", path1(SYS_unlink, name, &[]));
        }
        // Git finds that there are links, in a submodule, too.
        s.works("git init -q -b main made && test -z \"$(git -C made config core.symlinks)\"");
        s.works(
            "mkdir -p .git/modules/sub && git init -q --separate-git-dir .git/modules/sub/x sub && ! grep -q symlinks .git/modules/sub/x/config",
        );
        s.granted("branch", write_file(".git/HEAD", NEW, "ref: refs/heads/testing\n"));
    });
    commit(&scene.w);
    assert_eq!(text(&victim), "original\n");
    fs::remove_file(scene.w.join(".git/logs/refs/heads/testing")).unwrap();
    symlink(&victim, scene.w.join(".git/logs/refs/heads/testing")).unwrap();
    commit(&scene.w);
    assert_ne!(text(&victim), "original\n", "control: git follows no such link");
}

#[test]
fn what_becomes_a_git_directory_holds_no_way_out_at_any_depth() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    let (linked, named) = (outside(&scene, "linked"), shared(&scene, "named"));
    for dir in ["symbolic", "hard", "free", "host", "hooked"] {
        for part in ["refs", "objects", "logs/refs/heads", "info/a/b"] {
            fs::create_dir_all(scene.w.join(dir).join(part)).unwrap();
        }
    }
    let many = scene.w.join("many/refs");
    fs::create_dir_all(&many).unwrap();
    fs::create_dir(scene.w.join("many/objects")).unwrap();
    for n in 0..200_000 {
        let file = |n: i32| many.join(n.to_string());
        match n % 50_000 {
            0 => fs::write(file(n), "").unwrap(),
            at => fs::hard_link(file(n - at), file(n)).unwrap(),
        }
    }
    scene.run(|s| {
        for dir in ["symbolic", "hard", "free", "host"] {
            s.granted("config", write_file(&format!("{dir}/config"), NEW, CONFIG));
        }
        let away = linked.to_str().unwrap();
        s.granted("a link", path2(SYS_symlink, away, "symbolic/logs/refs/heads/main"));
        s.granted("a name", path2(SYS_link, "named", "hard/logs/refs/heads/main"));
        s.granted("a name of its own", write_file("free/own", NEW, "x"));
        s.granted("another one", path2(SYS_link, "free/own", "free/info/a/b/own"));
        s.granted("HEAD elsewhere", write_file("head", NEW, HEAD));
        s.refused("many", write_file("many/HEAD", NEW, HEAD), NO);
        for dir in ["symbolic", "hard"] {
            let to = &format!("{dir}/HEAD");
            s.refused(to, write_file(to, NEW, HEAD), NO);
            s.refused(to, path2(SYS_rename, "head", to), NO);
            s.refused(to, path2(SYS_link, "head", to), NO);
        }
        s.granted("control", write_file("free/HEAD", NEW, HEAD));
        s.granted("a link less", path1(SYS_unlink, "symbolic/logs/refs/heads/main", &[]));
        s.granted("without it", write_file("symbolic/HEAD", NEW, HEAD));
    });
    let push = |dir: &str| git(&scene.w, &["push", "-q", &format!("./{dir}"), "main"]);
    for dir in ["symbolic", "free"] {
        push(dir);
    }
    assert_eq!(
        (text(&linked), text(&named)),
        ("original\n".into(), "original\n".into())
    );
    scene.write("host/HEAD", HEAD);
    symlink(&linked, scene.w.join("host/logs/refs/heads/main")).unwrap();
    push("host");
    assert_ne!(text(&linked), "original\n", "control: git follows no such link");
    let rules = scene.rules();
    for (told, wanted) in [
        ("holds a symbolic link", 3),
        ("hard link of a file outside", 3),
        ("more names than are looked at", 1),
    ] {
        let count = rules.iter().filter(|rule| rule.contains(told)).count();
        assert_eq!(count, wanted, "{told}: {rules:?}");
    }
}

#[test]
fn what_has_a_name_outside_enters_a_git_directory_as_a_copy() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    let ways = ["rename", "exchange", "exchanged", "link", "descriptor"];
    let files: Vec<PathBuf> = ways.iter().map(|way| shared(&scene, way)).collect();
    let large = shared(&scene, "large");
    let length = (256 << 20) + 1;
    fs::File::options()
        .write(true)
        .open(&large)
        .unwrap()
        .set_len(length)
        .unwrap();
    let elsewhere = shared(&scene, "elsewhere");
    for (way, file) in ways.iter().zip(&files) {
        scene.run(|s| match *way {
            "rename" => drop(s.granted(way, path2(SYS_rename, way, LOG))),
            "exchange" => drop(s.granted(way, rename2(way, LOG, RENAME_EXCHANGE))),
            "exchanged" => drop(s.granted(way, rename2(LOG, way, RENAME_EXCHANGE))),
            "link" => {
                s.granted("the old one", path1(SYS_unlink, LOG, &[]));
                s.granted(way, path2(SYS_link, way, LOG));
            }
            _ => {
                s.granted("the old one", path1(SYS_unlink, LOG, &[]));
                let fd = s.granted(way, open(way, O_RDONLY, 0));
                s.granted(
                    way,
                    link_at(CWD, &format!("/proc/self/fd/{fd}"), LOG, AT_SYMLINK_FOLLOW),
                );
            }
        });
        assert_eq!(text(&scene.w.join(LOG)), "original\n", "{way}");
        commit(&scene.w);
        assert_ne!(text(&scene.w.join(LOG)), "original\n", "control: git appends ({way})");
        assert_eq!(text(file), "original\n", "{way}");
    }
    scene.run(|s| {
        s.refused("too large a copy", path2(SYS_rename, "large", LOG), NO);
        s.refused("too large a copy", path2(SYS_link, "large", ".git/x"), NO);
        // What is only moved elsewhere stays one file.
        s.granted("control", path2(SYS_rename, "elsewhere", "moved"));
    });
    assert_eq!(fs::metadata(&large).unwrap().nlink(), 2);
    let ino = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(ino(&elsewhere), ino(&scene.w.join("moved")));
}
