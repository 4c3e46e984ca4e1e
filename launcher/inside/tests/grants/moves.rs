//! Directories that move with what they hold.

use super::harness::{Scene, directory, open, path1, path2, rename2, write_file};
use nix::libc::*;
use picktwo_confine::{Errno, sys};
use picktwo_inside::mode::Mode;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::process::Command;

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;
const NO: Errno = Errno::EACCES;
const HEAD: &str = "ref: refs/heads/main\n";
const EVIL: &str = "[core]\n\tfsmonitor = evil\n";

/// Names and contents below a directory.
fn listing(scene: &Scene) -> String {
    let find = "find . -printf '%y %p %l\\n' | sort; find . -type f -exec sha256sum {} + | sort -k2";
    let out = Command::new("/bin/sh")
        .arg("-c")
        .arg(find)
        .current_dir(&scene.w)
        .output()
        .unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// What a person may have: a dependency, an unpacked archive.
fn holders(scene: &Scene) -> Vec<String> {
    let files = [
        ("task", ".vscode/tasks.json", "{}"),
        ("deep", "a/b/c/.claude/settings.json", "{}"),
        ("instructions", "docs/AGENTS.md", "rules"),
        ("spelt", "a/agents.MD", "rules"),
        ("environment", ".envrc", "evil"),
        ("glob", "x.code-workspace", "{}"),
        ("program", ".git/config", EVIL),
        (
            "submodule",
            ".git/modules/m/config",
            "[core]\n\tworktree = ../../../elsewhere\n",
        ),
        ("hook", "sub/.git/hooks/pre-commit", "evil"),
        ("module", ".git/modules/m/hooks/post-merge", "evil"),
        ("pointer", ".git", "gitdir: ../elsewhere\n"),
        ("todo", ".git/rebase-merge/git-rebase-todo", "exec evil\n"),
        ("state", ".git/rebase-merge/strategy", "x/evil\n"),
        ("common", ".git/worktrees/x/commondir", "/elsewhere\n"),
        ("bare", "repo/config", EVIL),
        ("bare-hook", "repo/hooks/update", "evil"),
        ("self", "hooks/update", "evil"),
        ("shared", "repo/commondir", "../elsewhere\n"),
        ("policy", "deep/ci/deploy.sh", "evil"),
    ];
    let mut names = Vec::new();
    for (name, file, content) in files {
        scene.write(&format!("from/{name}/{file}"), content);
        scene.write(&format!("from/{name}/src/main.c"), "int x;");
        names.push(name.to_owned());
    }
    for repository in ["bare/repo", "bare-hook/repo", "self"] {
        for part in ["objects", "refs"] {
            fs::create_dir_all(scene.w.join("from").join(repository).join(part)).unwrap();
        }
        scene.write(&format!("from/{repository}/HEAD"), HEAD);
    }
    scene.write("from/shared/repo/HEAD", HEAD);
    for (name, link) in [("link", ".cursor"), ("git-link", ".git"), ("logs", ".git/logs")] {
        let at = scene.w.join("from").join(name).join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink("../../elsewhere", at).unwrap();
        names.push(name.to_owned());
    }
    names
}

#[test]
fn what_could_not_be_made_does_not_arrive_with_its_directory() {
    let scene = Scene::with(Mode::Edit, &["ci/deploy.sh"]);
    let names = holders(&scene);
    for name in &names {
        scene.write(&format!("packages/{name}/old"), "");
    }
    scene.write("from/plain/src/main.c", "int x;");
    fs::create_dir_all(scene.w.join("packages/plain")).unwrap();
    let before = listing(&scene);
    scene.run(|s| {
        for name in &names {
            let (from, to) = (format!("from/{name}"), format!("packages/{name}"));
            let new = format!("{to}-new");
            s.refused(name, path2(SYS_rename, &from, &new), NO);
            s.refused(name, rename2(&from, &new, RENAME_NOREPLACE), NO);
            s.refused(name, rename2(&from, &to, RENAME_EXCHANGE), NO);
            s.refused(name, rename2(&to, &from, RENAME_EXCHANGE), NO);
            s.refused(name, path2(SYS_rename, &from, &format!("from/{name}-in-place")), NO);
        }
        s.refused("with everything around it", path2(SYS_rename, "from", "to"), NO);
        // The same calls move what holds nothing of that.
        s.granted("plain", path2(SYS_rename, "from/plain", "packages/plain"));
        s.granted("plain", rename2("packages/plain", "from/plain", RENAME_NOREPLACE));
        s.granted("an empty one", path1(SYS_mkdir, "packages/plain", &[0o777]));
        s.granted("plain", rename2("from/plain", "packages/plain", RENAME_EXCHANGE));
        s.granted("plain", rename2("from/plain", "packages/plain", RENAME_EXCHANGE));
    });
    assert_eq!(listing(&scene), before);
    let rules = scene.rules();
    let told = |text: &str| assert!(rules.iter().any(|rule| rule.contains(text)), "{text}: {rules:?}");
    told("editor-tasks: the directory that moves holds .vscode");
    told("git-hooks: the directory that moves holds sub/.git/hooks/pre-commit");
}

#[test]
fn what_could_be_made_arrives() {
    let scene = Scene::new(Mode::Edit);
    let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";
    for (name, git) in [("clone", "/.git"), ("bare", "")] {
        for part in ["objects", "refs", "hooks"] {
            fs::create_dir_all(scene.w.join(format!("{name}{git}/{part}"))).unwrap();
        }
        scene.write(&format!("{name}{git}/HEAD"), HEAD);
        scene.write(&format!("{name}{git}/config"), config);
        scene.write(&format!("{name}{git}/hooks/update.sample"), "x");
    }
    fs::create_dir_all(scene.w.join(".git/modules/m")).unwrap();
    scene.write("libs/m/.git", "gitdir: ../../.git/modules/m\n");
    // A submodule moves with the repository around it.
    fs::create_dir_all(scene.w.join("clone/.git/modules/m")).unwrap();
    scene.write("clone/.git/modules/m/config", "[core]\n\tworktree = ../../../lib/m\n");
    scene.write("clone/lib/m/.git", "gitdir: ../../.git/modules/m\n");
    scene.write("notes/.claude/plans/p.md", "plan");
    let script = "set -e; git init -q made; cd made; git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x; \
        git worktree add -q ../tree; cd ..; mv made made2; mv tree tree2";
    scene.run_alone(|s| {
        for name in ["clone", "bare", "libs", "notes"] {
            s.granted(name, path2(SYS_rename, name, &format!("{name}2")));
        }
        s.works(script);
        // It is protected where it arrived.
        s.refused("a hook", open("clone2/.git/hooks/update", NEW, 0o777), NO);
        s.refused("a hook", open("bare2/hooks/update", NEW, 0o777), NO);
        s.granted("content", write_file("bare2/description", NEW, "x"));
    });
    assert_eq!(scene.read("clone2/.git/config"), config);
    assert_eq!(scene.read("notes2/.claude/plans/p.md"), "plan");
}

#[test]
fn what_is_not_looked_at_does_not_move() {
    let scene = Scene::at("/dev/shm", Mode::Edit, &[]);
    // Longer than a path may be.
    let name = std::ffi::CString::new("n".repeat(250)).unwrap();
    fs::create_dir(scene.w.join("deep")).unwrap();
    let mut at = directory(&scene.w.join("deep"));
    for _ in 0..20 {
        sys::mkdirat(at.as_fd(), &name, 0o755).unwrap();
        at = sys::openat(at.as_fd(), &name, O_PATH | O_DIRECTORY, 0).unwrap();
    }
    // One name more than are counted, of few files.
    for (dir, more) in [("many", 1), ("enough", -1)] {
        let dir = scene.w.join(dir);
        fs::create_dir(&dir).unwrap();
        let file = |n: i32| dir.join((n - n % 50_000).to_string());
        for n in 0..200_000 + more {
            if n % 50_000 == 0 {
                fs::write(file(n), "").unwrap();
            } else {
                fs::hard_link(file(n), dir.join(n.to_string())).unwrap();
            }
        }
    }
    scene.run(|s| {
        s.refused("too deep", path2(SYS_rename, "deep", "deep2"), NO);
        s.refused("too many", path2(SYS_rename, "many", "many2"), NO);
        s.granted("not too many", path2(SYS_rename, "enough", "enough2"));
    });
    let rules = scene.rules();
    for told in ["not everything can be looked at", "more names than are looked at"] {
        assert!(rules.iter().any(|rule| rule.contains(told)), "{told}: {rules:?}");
    }
}
