//! Directories that become git directories: by every mark, made last in every way. Git on the host is the judge.

use super::harness::{CWD, Scene, fd_call, link_at, open, path_at, path1, path2, rename2, write_fd, write_file};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::fs;
use std::path::Path;
use std::process::Command;

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;
const NO: Errno = Errno::EACCES;
const EVIL: &str = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = evil\n";
const HEAD: &str = "ref: refs/heads/main\n";

/// What git on the host would run in a directory, if it takes it for a repository.
fn git_obeys(dir: &Path) -> Option<String> {
    let done = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["config", "--local", "core.fsmonitor"])
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    (done.status.success() && !text.is_empty()).then_some(text)
}

#[test]
fn a_commondir_made_last_is_judged_like_one_that_was_there() {
    let scene = Scene::new(Mode::Edit);
    for dir in ["common/objects", "common/refs/heads", "e", "late", "host", "dir/x"] {
        fs::create_dir_all(scene.w.join(dir)).unwrap();
    }
    scene.write("common/config", EVIL);
    scene.write("pointer", "../common\n");
    scene.run(|s| {
        for dir in ["e", "host"] {
            s.granted("HEAD", write_file(&format!("{dir}/HEAD"), NEW, HEAD));
        }
        // Each way, by a name that means nothing first.
        for (name, judged) in [("common-dir", false), ("commondir", true), ("COMMONDIR", true)] {
            let check = |what: &str, got: Result<i64, Errno>| {
                let to = format!("e/{name}");
                match judged {
                    true => s.refused(&format!("{what} {name}"), got, NO),
                    false => {
                        s.granted(&format!("{what} {name}"), got);
                        if Path::new(&to).exists() || fs::symlink_metadata(&to).is_ok() {
                            let gone = match fs::symlink_metadata(&to).is_ok_and(|m| m.is_dir()) {
                                true => path1(SYS_rmdir, &to, &[]),
                                false => path1(SYS_unlink, &to, &[]),
                            };
                            s.granted("gone", gone);
                        }
                    }
                }
            };
            let to = &format!("e/{name}");
            check("open", write_file(to, NEW, "../common\n"));
            check("exclusive", open(to, O_RDWR | O_CREAT | O_EXCL, 0o666));
            check("creat", path1(SYS_creat, to, &[0o666]));
            check("mknod", path1(SYS_mknod, to, &[(S_IFREG | 0o600).into(), 0]));
            check("fifo", path1(SYS_mknod, to, &[(S_IFIFO | 0o600).into(), 0]));
            check("mkdir", path1(SYS_mkdir, to, &[0o777]));
            check("symlink", path2(SYS_symlink, "../pointer", to));
            check("link", path2(SYS_link, "pointer", to));
            s.granted("a copy", write_file("mine", NEW, "../common\n"));
            check("rename", path2(SYS_rename, "mine", to));
            s.granted("a copy", write_file("mine", NEW, "../common\n"));
            check("rename, not replacing", rename2("mine", to, RENAME_NOREPLACE));
            s.granted("a copy", write_file("mine", NEW, "../common\n"));
            let other = format!("e/other-{name}");
            s.granted("in the directory", write_file(&other, NEW, "../common\n"));
            check("renamed in place", path2(SYS_rename, &other, to));
            s.granted("a directory", path1(SYS_mkdir, &format!("dir/{name}"), &[0o777]));
            check("a directory", path2(SYS_rename, &format!("dir/{name}"), to));
            let unnamed = s.granted("no name", open("e", O_TMPFILE | O_RDWR, 0o600));
            s.granted("content", write_fd(unnamed, "../common\n"));
            check(
                "no name",
                link_at(CWD, &format!("/proc/self/fd/{unnamed}"), to, AT_SYMLINK_FOLLOW),
            );
            let dir = s.granted("directory", open("e", O_RDONLY | O_DIRECTORY, 0));
            check("by descriptor", path_at(SYS_openat, dir, name, &[NEW.into(), 0o666]));
            s.equal("chdir", std::env::set_current_dir("e").is_ok(), true);
            check("from within", open(name, NEW, 0o666));
            s.equal("back", fd_call(SYS_fchdir, dir, &[]), Ok(0));
            s.equal("back", std::env::set_current_dir("..").is_ok(), true);
        }
        // The other way round: a pointer that was free becomes none by a HEAD.
        s.granted("a pointer alone", write_file("late/commondir", NEW, "../common\n"));
        s.refused("HEAD", write_file("late/HEAD", NEW, HEAD), NO);
        s.refused("HEAD", path2(SYS_rename, "e/HEAD", "late/HEAD"), NO);
        s.granted("a file", write_file("late/x", NEW, HEAD));
        s.refused("HEAD by name", path2(SYS_rename, "late/x", "late/HEAD"), NO);
    });
    assert_eq!(git_obeys(&scene.w.join("e")), None);
    assert_eq!(git_obeys(&scene.w.join("late")), None);
    // The judge sees what there would be to see.
    scene.write("host/commondir", "../common\n");
    assert_eq!(git_obeys(&scene.w.join("host")).as_deref(), Some("evil"));
}

#[test]
fn a_worktree_belongs_to_a_git_directory_by_name() {
    let scene = Scene::new(Mode::Edit);
    for dir in [
        ".git/objects",
        ".git/refs",
        ".git/worktrees",
        "host/.git/x/objects",
        "host/.git/x/refs",
    ] {
        fs::create_dir_all(scene.w.join(dir)).unwrap();
    }
    scene.write(".git/HEAD", HEAD);
    scene.write(".git/config", "[core]\n\trepositoryformatversion = 0\n");
    scene.write("host/.git/x/config", EVIL);
    scene.run_alone(|s| {
        for dir in [
            "x",
            "x/objects",
            "x/refs",
            "x/worktrees",
            "x/worktrees/y",
            "worktrees/y",
        ] {
            s.granted(dir, path1(SYS_mkdir, &format!(".git/{dir}"), &[0o777]));
        }
        s.granted("of no git directory", write_file(".git/x/config", NEW, EVIL));
        for dir in ["x/worktrees/y", "worktrees/y"] {
            s.granted("HEAD", write_file(&format!(".git/{dir}/HEAD"), NEW, HEAD));
        }
        s.refused("a pointer to it", open(".git/x/worktrees/y/commondir", NEW, 0o666), NO);
        s.granted(
            "a pointer to .git",
            write_file(".git/worktrees/y/commondir", NEW, "../..\n"),
        );
    });
    assert_eq!(scene.read(".git/worktrees/y/commondir"), "../..\n");
    assert_eq!(git_obeys(&scene.w.join(".git/x/worktrees/y")), None);
    scene.write("host/.git/x/worktrees/y/HEAD", HEAD);
    scene.write("host/.git/x/worktrees/y/commondir", "../..\n");
    assert_eq!(
        git_obeys(&scene.w.join("host/.git/x/worktrees/y")).as_deref(),
        Some("evil")
    );
}

#[test]
fn the_last_mark_is_no_link_and_no_directory_from_elsewhere() {
    let scene = Scene::new(Mode::Edit);
    for dir in ["a/refs", "b/objects", "parts/objects/info", "parts/refs"] {
        fs::create_dir_all(scene.w.join(dir)).unwrap();
    }
    scene.write("a/HEAD", HEAD);
    scene.write("b/HEAD", HEAD);
    scene.write("parts/objects/info/alternates", "/");
    scene.run(|s| {
        for (dir, mark) in [("a", "objects"), ("b", "refs")] {
            let to = &format!("{dir}/{mark}");
            s.refused("a link", path2(SYS_symlink, &format!("../parts/{mark}"), to), NO);
            s.granted("a link elsewhere", path2(SYS_symlink, &format!("../parts/{mark}"), "l"));
            s.refused("a link moves in", path2(SYS_rename, "l", to), NO);
            s.granted("the link goes", path1(SYS_unlink, "l", &[]));
            s.refused(
                "a directory moves in",
                path2(SYS_rename, &format!("parts/{mark}"), to),
                NO,
            );
            s.granted(
                "it may be called otherwise",
                path2(SYS_rename, &format!("parts/{mark}"), &format!("{dir}/x")),
            );
            s.granted("a new one", path1(SYS_mkdir, to, &[0o777]));
        }
    });
    let info = scene.w.join("a/objects/info");
    assert!(!info.exists(), "{}", info.display());
}
