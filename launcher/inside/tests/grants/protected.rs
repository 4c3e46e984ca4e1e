use super::harness::{
    CWD, Scene, directory, fd_call, link_at, open, path_at, path1, path2, rename2, write_fd, write_file,
};
use nix::libc::*;
use picktwo_confine::{Errno, sys};
use picktwo_inside::mode::Mode;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::Path;

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;
const NO: Errno = Errno::EACCES;

fn repository(scene: &Scene) {
    for dir in [
        ".git/hooks",
        ".git/objects",
        ".git/refs",
        ".git/modules/m/hooks",
        ".claude",
        "d",
    ] {
        fs::create_dir_all(scene.w.join(dir)).unwrap();
    }
    scene.write(".git/HEAD", "ref: refs/heads/main\n");
    scene.write(".git/config", "[core]\n\tbare = false\n");
    scene.write(".git/hooks/pre-commit.sample", "sample");
    scene.write(".claude/settings.json", "{}");
    scene.write("CLAUDE.md", "rules");
    scene.write("f", "f");
}

/// Name, content and mode of everything, to see that nothing changed.
fn tree(scene: &Scene) -> Vec<String> {
    let out = std::process::Command::new("find")
        .arg(&scene.w)
        .args(["-printf", "%P %y %m %n %T@ %l\n"])
        .output()
        .unwrap();
    let mut lines: Vec<String> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

#[test]
fn every_way_to_a_protected_path_is_refused() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    symlink(".git/hooks", scene.w.join("hooks-link")).unwrap();
    symlink(".git/config", scene.w.join("config-link")).unwrap();
    fs::hard_link(scene.w.join("CLAUDE.md"), scene.w.join("alias")).unwrap();
    let before = tree(&scene);
    scene.run(|s| {
        for path in [
            ".git/hooks/pre-commit",
            ".git/hooks/d/x",
            ".GIT/hooks/pre-push",
            ".git/modules/m/hooks/x",
            "sub/../.git/hooks/x",
            ".claude/new.json",
            ".claude/settings.json",
            "CLAUDE.md",
            "claude.MD",
            "AGENTS.md",
            "d/AGENTS.md",
            ".vscode/tasks.json",
            ".envrc",
            "d/.mcp.json",
            ".picktwo.toml",
            "hooks-link/pre-commit",
            ".git/remotes/origin",
            ".git/commondir",
        ] {
            let got = open(path, NEW, 0o666);
            let wanted = if path.starts_with("sub/")
                || path.contains("/d/x") && !path.starts_with('d')
                || path.starts_with(".vscode")
                || path.starts_with(".git/remotes")
            {
                vec![Err(NO), Err(Errno::ENOENT)]
            } else {
                vec![Err(NO)]
            };
            // Case-sensitive file systems have no .GIT directory.
            let absent = path.starts_with(".GIT") && got == Err(Errno::ENOENT);
            if !wanted.contains(&got) && !absent {
                s.fail(format!("open {path}: {got:?}"));
            }
        }
        for path in [".claude/x", ".CURSOR", ".vscode", "d/.cursor", ".git/hooks/x", ".husky"] {
            s.refused(path, path1(SYS_mkdir, path, &[0o777]), NO);
        }
        for path in ["AGENTS.md", ".git/hooks/pre-commit", "d/.git", "d/.claude", ".envrc"] {
            s.refused(path, path2(SYS_symlink, "/etc/passwd", path), NO);
            s.refused(path, path2(SYS_link, "f", path), NO);
            s.refused(path, path2(SYS_rename, "f", path), NO);
            s.refused(path, rename2("f", path, RENAME_NOREPLACE), NO);
            s.refused(path, path1(SYS_mknod, path, &[(S_IFREG | 0o600).into(), 0]), NO);
        }
        for path in [
            ".git",
            ".claude",
            ".git/hooks",
            ".git/modules",
            "CLAUDE.md",
            ".claude/settings.json",
        ] {
            s.refused(path, path2(SYS_rename, path, "away"), NO);
            s.refused(path, rename2(path, "d", RENAME_EXCHANGE), NO);
            s.refused(path, rename2("d", path, RENAME_EXCHANGE), NO);
        }
        for path in ["CLAUDE.md", ".claude/settings.json", ".git/config"] {
            s.refused(path, path1(SYS_unlink, path, &[]), NO);
            s.refused(path, path2(SYS_link, path, "another"), NO);
            s.refused(path, path1(SYS_truncate, path, &[0]), NO);
            s.refused(path, path1(SYS_chmod, path, &[0o777]), NO);
            s.refused(path, path1(SYS_utime, path, &[0]), NO);
            let fd = s.granted("reading", open(path, O_RDONLY, 0));
            s.refused(path, fd_call(SYS_fchmod, fd, &[0o777]), NO);
            if path != ".git/config" {
                s.refused(path, open(&format!("/proc/self/fd/{fd}"), O_WRONLY, 0), NO);
            }
        }
        s.refused("rmdir", path1(SYS_rmdir, ".claude", &[]), Errno::ENOTEMPTY);
        s.refused(
            "config, a directory link away",
            path2(SYS_rename, "f", "hooks-link/pre-commit"),
            NO,
        );
        s.refused("alias", open("alias", O_WRONLY, 0), NO);
        s.refused("alias, emptied", open("alias", O_WRONLY | O_TRUNC, 0), NO);
        s.refused("alias, truncated", path1(SYS_truncate, "alias", &[0]), NO);
        s.refused("alias, mode", path1(SYS_chmod, "alias", &[0o777]), NO);
        s.refused("alias of the alias", path2(SYS_link, "alias", "alias2"), NO);
        s.refused("config by link", path1(SYS_chmod, "config-link", &[0o777]), NO);
        let dir = s.granted("directory", open(".git/hooks", O_RDONLY | O_DIRECTORY, 0));
        s.refused(
            "by directory",
            path_at(SYS_openat, dir, "post-commit", &[NEW.into(), 0o755]),
            NO,
        );
        s.refused(
            "by /proc",
            open(&format!("/proc/self/fd/{dir}/post-commit"), NEW, 0o755),
            NO,
        );
        s.equal("chdir", std::env::set_current_dir(".git/hooks").is_ok(), true);
        s.refused("by working directory", open("post-commit", NEW, 0o755), NO);
        s.refused("by /proc", open("/proc/self/cwd/post-commit", NEW, 0o755), NO);
        s.refused(
            "a sample gets a live name",
            path2(SYS_rename, "pre-commit.sample", "pre-commit"),
            NO,
        );
        s.refused(
            "a sample gets a live name by link",
            link_at(CWD, "pre-commit.sample", "pre-commit", 0),
            NO,
        );
    });
    assert_eq!(tree(&scene), before);
    assert!(scene.rules().iter().any(|rule| rule == "claude"), "{:?}", scene.rules());
}

#[test]
fn ordinary_neighbours_are_free() {
    let scene = Scene::with(Mode::Edit, &["/ci/deploy.sh", ".github/workflows/"]);
    repository(&scene);
    fs::create_dir_all(scene.w.join("src/hooks")).unwrap();
    fs::create_dir_all(scene.w.join("ci")).unwrap();
    fs::create_dir_all(scene.w.join("d/ci")).unwrap();
    scene.write("ci/deploy.sh", "x");
    scene.run(|s| {
        for path in [
            "src/hooks/use-x.js",
            "config",
            "src/config",
            "HEAD",
            "d/claude.txt",
            ".git/config.lock",
            ".git/index.lock",
            ".git/hooks/new.sample",
            ".gitignore",
            ".github-x",
            "d/ci/deploy.sh",
            ".git/refs/remotes",
        ] {
            s.granted(path, write_file(path, NEW, "x"));
        }
        s.granted("an ancestor moves", path2(SYS_rename, "src", "src2"));
        s.refused("a policy's own path", open("ci/deploy.sh", O_WRONLY, 0), NO);
        s.refused("a policy's own path, its parent", path2(SYS_rename, "ci", "ci2"), NO);
        s.refused(
            "a policy's own path, absent",
            open(".github/workflows", NEW, 0o666),
            Errno::ENOENT,
        );
        s.granted("its parent", path1(SYS_mkdir, ".github", &[0o777]));
        s.refused(
            "a policy's own path, absent",
            path1(SYS_mkdir, ".github/workflows", &[0o777]),
            NO,
        );
        s.granted("an innocent tree", path1(SYS_mkdir, "x", &[0o777]));
        s.granted("an innocent tree", path1(SYS_mkdir, "x/workflows", &[0o777]));
        s.refused(
            "that becomes protected by its parent's name",
            path2(SYS_rename, "x", ".github"),
            NO,
        );
    });
}

#[test]
fn a_protected_file_is_reached_by_no_parent_that_moves() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    scene.write("proj/src/x", "x");
    scene.run(|s| {
        s.granted("the project moves", path2(SYS_rename, "proj", "p2"));
        s.granted("with what may be made", path1(SYS_mkdir, "p2/.claude", &[0o777]));
        s.granted("and back", path2(SYS_rename, "p2", "proj"));
        s.refused(
            "and stays protected",
            open("proj/.claude/settings.json", NEW, 0o666),
            NO,
        );
        s.granted("a directory in .git", path1(SYS_mkdir, ".git/x", &[0o777]));
        s.granted("with hooks, harmless there", path1(SYS_mkdir, ".git/x/hooks", &[0o777]));
        s.granted(
            "with hooks, harmless there",
            write_file(".git/x/hooks/pre-commit", NEW, "x"),
        );
        s.refused("into the modules", path2(SYS_rename, ".git/x", ".git/modules/x"), NO);
        s.granted("outside of it", path1(SYS_mkdir, "y", &[0o777]));
        s.granted("outside of it", path1(SYS_mkdir, "y/hooks", &[0o777]));
        s.refused("into the modules", path2(SYS_rename, "y", ".git/modules/y"), NO);
        s.refused("as .git", path2(SYS_rename, "y", "d/.git"), NO);
    });
}

#[test]
fn git_configuration_is_vetted() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    let config = |text: &str| format!("[core]\n\tbare = false\n{text}");
    scene.run_alone(|s| {
        let publish = |text: &str| {
            let fd = s.granted("lock", open(".git/config.lock", O_RDWR | O_CREAT | O_EXCL, 0o644));
            s.granted("write", write_fd(fd, text));
            let done = path2(SYS_rename, ".git/config.lock", ".git/config");
            (done, fd)
        };
        let (done, fd) = publish(&config("[user]\n\tname = A B\n"));
        s.granted("harmless", done);
        // The descriptor of the lock file is another inode's by now.
        s.granted("late write", write_fd(fd, "[core]\n\tfsmonitor = evil\n"));
        for bad in [
            "[core]\n\tfsmonitor = evil\n",
            "[core]\n\thooksPath = /tmp/x\n",
            "[filter \"x\"]\n\tclean = evil\n",
            "[remote \"o\"]\n\tuploadpack = evil\n",
            "[alias]\n\tst = !evil\n",
            "[include]\n\tpath = x\n",
        ] {
            s.refused(bad, publish(&config(bad)).0, NO);
            s.granted("lock goes", path1(SYS_unlink, ".git/config.lock", &[]));
        }
        s.granted("link", path1(SYS_unlink, "f", &[]));
        s.granted("lock", write_file(".git/config.lock", NEW, &config("")));
        s.refused(
            "link where it exists",
            path2(SYS_link, ".git/config.lock", ".git/config"),
            Errno::EEXIST,
        );
        s.granted("probe", path1(SYS_chmod, ".git/config", &[0o744]));
        s.granted("probe", path1(SYS_chmod, ".git/config", &[0o644]));
    });
    let text = scene.read(".git/config");
    assert!(text.contains("name = A B") && !text.contains("fsmonitor"), "{text}");
}

#[test]
fn a_direct_write_is_vetted_when_it_is_closed() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    scene.run_alone(|s| {
        let fd = s.granted("open", open(".git/config", O_WRONLY | O_CREAT | O_TRUNC, 0o644));
        s.granted(
            "write",
            write_fd(fd, "[core]\n\tbare = false\n[user]\n\temail = a@b.c\n"),
        );
        let early = fs::read_to_string(".git/config").unwrap_or_default();
        s.equal("not yet", early.contains("email"), false);
        super::harness::close(fd);
        s.granted("any granted call", write_file("x", NEW, "x"));
        // At once, unless the machine is so busy that the launcher's own copy of the descriptor is not closed yet.
        let read = || fs::read_to_string(".git/config").unwrap_or_default();
        let start = std::time::Instant::now();
        while !read().contains("email") && start.elapsed() < std::time::Duration::from_secs(5) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let now = read();
        s.equal("now", now.contains("email"), true);
        s.granted(
            "bad",
            write_file(".git/config", O_WRONLY | O_APPEND, "[core]\n\tfsmonitor = evil\n"),
        );
        std::thread::sleep(std::time::Duration::from_millis(30));
        let then = fs::read_to_string(".git/config").unwrap_or_default();
        s.equal("without any granted call", then, now);
        // A mapping outlives its descriptor; what it holds is not published before it ends.
        let fd = s.granted("a reader of the staged file", open(".git/config", O_RDWR, 0));
        let own = format!("/proc/self/fd/{fd}");
        s.granted(
            "reopened",
            write_file(&own, O_WRONLY | O_APPEND, "[core]\n\tfsmonitor = evil\n"),
        );
        super::harness::close(fd);
        s.granted("a new one", path1(SYS_mkdir, "n", &[0o777]));
        s.granted("a new one", path1(SYS_mkdir, "n/.git", &[0o777]));
        s.granted(
            "touched",
            open("n/.git/config", NEW, 0o666).inspect(|&fd| super::harness::close(fd)),
        );
        s.equal(
            "is there at once",
            fs::metadata("n/.git/config").map(|m| m.len()).ok(),
            Some(0),
        );
        s.granted("and goes", path1(SYS_unlink, "n/.git/config", &[]));
    });
    assert!(!scene.read(".git/config").contains("fsmonitor"));
    assert!(
        scene.rules().iter().any(|rule| rule.contains("fsmonitor")),
        "{:?}",
        scene.rules()
    );
}

#[test]
fn pages_that_a_pipe_holds_delay_nobody() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    scene.run_alone(|s| {
        let mut pipes = Vec::new();
        let mut files = Vec::new();
        for _ in 0..40 {
            let fd = s.granted("open", open(".git/config", O_RDWR | O_APPEND, 0));
            s.granted("write", write_fd(fd, "# a comment\n"));
            s.granted("to its start", fd_call(SYS_lseek, fd, &[0, i64::from(SEEK_SET)]));
            let (reader, writer) = nix::unistd::pipe().unwrap();
            let to: i64 = std::os::fd::AsRawFd::as_raw_fd(&writer).into();
            s.equal("spliced", fd_call(SYS_splice, fd, &[0, to, 0, 12, 0]), Ok(12));
            pipes.push((reader, writer));
            files.push(fd);
        }
        files.into_iter().for_each(super::harness::close);
        let start = std::time::Instant::now();
        s.granted("somebody else's call", write_file("x", NEW, "x"));
        // Waiting for the pages would take 155 ms for each of them.
        let took = start.elapsed();
        if took > std::time::Duration::from_secs(3) {
            s.fail(format!("a call waited for {took:?}"));
        }
        s.equal(
            "vetted and published",
            fs::read_to_string(".git/config")
                .map(|text| text.ends_with("# a comment\n"))
                .ok(),
            Some(true),
        );
    });
}

#[test]
fn pointers_to_git_directories_are_vetted() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    fs::create_dir_all(scene.w.join(".git/worktrees/wt")).unwrap();
    fs::create_dir_all(scene.w.join("evil/.git-like")).unwrap();
    let w = scene.w.to_string_lossy().into_owned();
    scene.run_alone(|s| {
        s.granted("mkdir", path1(SYS_mkdir, "wt", &[0o777]));
        s.granted(
            "bad gitfile",
            write_file("wt/.git", NEW, &format!("gitdir: {w}/evil/.git-like\n")),
        );
        s.granted("settle", write_file("x", NEW, ""));
        s.equal("bad gitfile", fs::read_to_string("wt/.git").ok().as_deref(), Some(""));
        s.granted(
            "good gitfile",
            write_file("wt/.git", NEW, &format!("gitdir: {w}/.git/worktrees/wt\n")),
        );
        s.granted(
            "bad commondir",
            write_file(".git/worktrees/wt/commondir", NEW, "/tmp\n"),
        );
        s.granted("settle", write_file("x", NEW, ""));
        s.equal(
            "good gitfile",
            fs::read_to_string("wt/.git").ok(),
            Some(format!("gitdir: {w}/.git/worktrees/wt\n")),
        );
        s.equal(
            "bad commondir",
            fs::read_to_string(".git/worktrees/wt/commondir").ok().as_deref(),
            Some("../..\n"),
        );
        s.granted(
            "good commondir",
            write_file(".git/worktrees/wt/commondir", NEW, "../..\n"),
        );
        s.granted("settle", write_file("x", NEW, ""));
        s.equal(
            "good commondir",
            fs::read_to_string(".git/worktrees/wt/commondir").ok().as_deref(),
            Some("../..\n"),
        );
    });
}

#[test]
fn bare_repositories_are_seen_by_what_they_hold() {
    let scene = Scene::new(Mode::Edit);
    let evil = "[core]\n\tfsmonitor = evil\n";
    for dir in ["a", "b", "c/objects", "c/refs", "d/objects", "d/refs", "d/hooks"] {
        fs::create_dir_all(scene.w.join(dir)).unwrap();
    }
    scene.write("c/HEAD", "ref: refs/heads/main\n");
    scene.write("d/hooks/pre-receive", "evil");
    scene.run_alone(|s| {
        // The configuration first: its directory cannot become a repository.
        s.granted("a file named config", write_file("a/config", NEW, evil));
        s.granted("objects", path1(SYS_mkdir, "a/objects", &[0o777]));
        s.granted("refs", path1(SYS_mkdir, "a/refs", &[0o777]));
        s.refused("HEAD completes it", open("a/HEAD", NEW, 0o666), NO);
        s.refused("HEAD completes it", path2(SYS_rename, "a/config", "a/HEAD"), NO);
        s.refused("HEAD completes it", path2(SYS_symlink, "config", "a/HEAD"), NO);
        s.granted("HEAD, elsewhere", write_file("head", NEW, "ref: refs/heads/main\n"));
        s.refused("moved in", path2(SYS_rename, "head", "a/HEAD"), NO);
        s.refused("linked in", path2(SYS_link, "head", "a/HEAD"), NO);
        // A harmless one may.
        s.granted(
            "a file named config",
            write_file("b/config", NEW, "[core]\n\tbare = true\n"),
        );
        let old = s.granted("its descriptor", open("b/config", O_WRONLY | O_APPEND, 0));
        s.granted("objects", path1(SYS_mkdir, "b/objects", &[0o777]));
        s.granted("refs", path1(SYS_mkdir, "b/refs", &[0o777]));
        s.granted("HEAD", write_file("b/HEAD", NEW, "ref: refs/heads/main\n"));
        s.granted("late write", write_fd(old, evil));
        s.equal(
            "went elsewhere",
            fs::read_to_string("b/config").unwrap_or_default().contains("fsmonitor"),
            false,
        );
        // The configuration last.
        s.granted("lock", write_file("c/config.lock", NEW, evil));
        s.refused("vetted", path2(SYS_rename, "c/config.lock", "c/config"), NO);
        s.granted("hooks", path1(SYS_mkdir, "c/hooks", &[0o777]));
        s.refused("a hook", open("c/hooks/post-update", NEW, 0o777), NO);
        s.granted("a sample", write_file("c/hooks/post-update.sample", NEW, "x"));
        s.granted("harmless", write_file("c/config.lock", NEW, "[core]\n\tbare = true\n"));
        s.granted("vetted", path2(SYS_rename, "c/config.lock", "c/config"));
        s.refused("its directory of hooks", path2(SYS_rename, "d/hooks", "c/hooks"), NO);
        s.refused("a directory with hooks", open("d/HEAD", NEW, 0o666), NO);
    });
}

#[test]
fn other_names_of_protected_files_are_found_wherever_they_lie() {
    let scene = Scene::new(Mode::Edit);
    scene.write("p/.claude/settings.json", "{}");
    fs::hard_link(scene.w.join("p/.claude/settings.json"), scene.w.join("mine")).unwrap();
    scene.write("x/.git/objects/CLAUDE.md", "{}");
    fs::hard_link(scene.w.join("x/.git/objects/CLAUDE.md"), scene.w.join("mine3")).unwrap();
    scene.write("a", "");
    scene.write("late/CLAUDE.md", "late");
    let late = scene.w.clone();
    scene.run_beside(
        |s| {
            s.refused("alias", open("mine", O_WRONLY | O_TRUNC, 0), NO);
            s.refused("alias beside git's objects", open("mine3", O_WRONLY | O_TRUNC, 0), NO);
            s.granted("own link", path2(SYS_link, "a", "b"));
            s.granted("own link, written", open("b", O_WRONLY, 0));
            s.granted("sign", write_file("ready", NEW, ""));
            while !Path::new("mine2").exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            s.refused("an alias made meanwhile", open("mine2", O_WRONLY | O_TRUNC, 0), NO);
        },
        || {
            while !late.join("ready").exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            fs::hard_link(late.join("late/CLAUDE.md"), late.join("mine2")).unwrap();
        },
    );
    assert_eq!(scene.read("p/.claude/settings.json"), "{}");
    assert_eq!(scene.read("late/CLAUDE.md"), "late");
}

#[test]
fn where_other_names_cannot_be_looked_at_only_own_links_are_changed() {
    let scene = Scene::new(Mode::Edit);
    scene.write("p/.claude/settings.json", "{}");
    fs::hard_link(scene.w.join("p/.claude/settings.json"), scene.w.join("mine")).unwrap();
    // Longer than a path may be, seen from any root.
    let name = std::ffi::CString::new("n".repeat(250)).unwrap();
    let mut at = directory(&scene.w);
    for _ in 0..20 {
        sys::mkdirat(at.as_fd(), &name, 0o755).unwrap();
        at = sys::openat(at.as_fd(), &name, O_PATH | O_DIRECTORY, 0).unwrap();
    }
    scene.write("a", "");
    scene.write("c", "");
    fs::hard_link(scene.w.join("c"), scene.w.join("e")).unwrap();
    scene.run(|s| {
        s.granted("own link", path2(SYS_link, "a", "b"));
        s.granted("own link, written", open("b", O_WRONLY, 0));
        s.refused("alias", open("mine", O_WRONLY | O_TRUNC, 0), NO);
        s.refused("unknown", open("e", O_WRONLY, 0), NO);
    });
    assert_eq!(scene.read("p/.claude/settings.json"), "{}");
}
