use super::harness::{CWD, Scene, close, container, fd_call, link_at, open, path1, path2, write_fd, write_file};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;

#[test]
fn files_are_made_and_written_in_edit_mode_only() {
    let scene = Scene::new(Mode::Edit);
    scene.write("old", "old content");
    let abs = scene.w.join("abs").to_string_lossy().into_owned();
    scene.run(|s| {
        s.granted("relative", write_file("new", NEW, "1"));
        s.granted("absolute", write_file(&abs, NEW, "2"));
        s.granted("append", write_file("old", O_WRONLY | O_APPEND, "+"));
        s.granted("mkdir", path1(SYS_mkdir, "d", &[0o777]));
        s.granted("dot", write_file("./d/../d/x", NEW, "3"));
        s.granted("creat", path1(SYS_creat, "c", &[0o600]));
        s.refused("absent", open("none", O_WRONLY, 0), Errno::ENOENT);
        s.refused("absent parent", open("none/x", NEW, 0), Errno::ENOENT);
        s.refused("file as directory", open("old/x", NEW, 0), Errno::ENOTDIR);
        s.refused("exclusive", open("old", O_WRONLY | O_CREAT | O_EXCL, 0), Errno::EEXIST);
        s.refused("directory", open("d", O_WRONLY, 0), Errno::EISDIR);
        s.refused("directory, create", open("d", O_RDONLY | O_CREAT, 0), Errno::EISDIR);
        s.refused("slash", open("nothing/", NEW, 0o666), Errno::EISDIR);
        s.refused("file with slash", open("old/", O_WRONLY, 0), Errno::ENOTDIR);
        s.refused("empty", open("", O_WRONLY, 0), Errno::ENOENT);
        s.refused("long name", open(&"x".repeat(256), NEW, 0), Errno::ENAMETOOLONG);
        s.refused("long path", open(&"x/".repeat(2100), NEW, 0), Errno::ENAMETOOLONG);
        s.granted("outside", write_file(&s.out.join("o").to_string_lossy(), NEW, "4"));
        s.granted("null", write_file("/dev/null", O_WRONLY, "5"));
    });
    assert_eq!(
        (
            scene.read("new"),
            scene.read("abs"),
            scene.read("old"),
            scene.read("d/x")
        ),
        ("1".into(), "2".into(), "old content+".into(), "3".into())
    );
    assert_eq!(fs::metadata(scene.w.join("c")).unwrap().mode() & 0o777, 0o600);

    scene.grants.set_mode(Mode::ReadOnly);
    scene.run(|s| {
        s.refused("new", open("n2", NEW, 0o666), Errno::EROFS);
        s.refused("existing", open("old", O_WRONLY, 0), Errno::EROFS);
        s.refused("truncate", open("old", O_RDONLY | O_TRUNC, 0), Errno::EROFS);
        s.refused("exclusive", open("old", O_WRONLY | O_CREAT | O_EXCL, 0), Errno::EEXIST);
        s.granted("create that reads", open("old", O_RDONLY | O_CREAT, 0));
        s.granted("read", open("old", O_RDONLY, 0));
        s.refused("absent", open("none", O_WRONLY, 0), Errno::ENOENT);
        s.refused("absent parent", open("none/x", NEW, 0), Errno::ENOENT);
        s.refused("O_TMPFILE", open(".", O_WRONLY | O_TMPFILE, 0o600), Errno::EROFS);
        s.granted("outside", write_file(&s.out.join("o2").to_string_lossy(), NEW, "4"));
    });
    assert_eq!(scene.read("old"), "old content+");
    assert!(!scene.w.join("n2").exists());
    assert!(scene.rules().contains(&"read-only".into()));
}

#[test]
fn a_umask_counts_for_all_threads_and_for_no_other_process() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        let mode = |name: &str| fs::metadata(name).map(|m| m.mode() & 0o777).unwrap_or(0);
        // Known for a process with one thread, and then changed by another thread.
        for turn in 0..20 {
            let masks = [0o077, 0o022];
            let mask = masks[turn % 2];
            picktwo_confine::sys::umask(0o027);
            let first = format!("before-{turn}");
            close(s.granted("create", open(&first, NEW, 0o666)));
            s.equal(&first, mode(&first), 0o640);
            std::thread::spawn(move || picktwo_confine::sys::umask(mask))
                .join()
                .unwrap();
            let second = format!("after-{turn}");
            close(s.granted("create", open(&second, NEW, 0o666)));
            s.equal(&second, mode(&second), 0o666 & !mask);
        }
        // A child's own change is not its parent's.
        picktwo_confine::sys::umask(0o002);
        close(s.granted("create", open("parent-1", NEW, 0o666)));
        let child = picktwo_confine::process::fork(|| {
            picktwo_confine::sys::umask(0o077);
            u8::from(open("child", NEW, 0o666).is_err())
        });
        child.unwrap().wait().unwrap();
        close(s.granted("create", open("parent-2", NEW, 0o666)));
        for (name, wanted) in [("parent-1", 0o664), ("child", 0o600), ("parent-2", 0o664)] {
            s.equal(name, mode(name), wanted);
        }
    });
}

#[test]
fn flags_modes_and_umask_are_the_callers() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        for (mask, mode, wanted) in [
            (0o077, 0o666, 0o600),
            (0, 0o777, 0o777),
            (0o027, 0o666, 0o640),
            (0o022, 0o755, 0o755),
        ] {
            picktwo_confine::sys::umask(mask);
            let name = format!("m{mask:o}-{mode:o}");
            close(s.granted("create", open(&name, NEW, mode)));
            s.equal(
                &name,
                fs::metadata(&name).map(|m| m.mode() & 0o777).unwrap_or(0),
                wanted,
            );
            let dir = format!("d{mask:o}-{mode:o}");
            s.granted("mkdir", path1(SYS_mkdir, &dir, &[mode]));
            s.equal(&dir, fs::metadata(&dir).map(|m| m.mode() & 0o777).unwrap_or(0), wanted);
        }
        picktwo_confine::sys::umask(0o022);
        for flags in [O_APPEND, O_NONBLOCK, O_APPEND | O_NONBLOCK, O_SYNC, 0] {
            let fd = s.granted("open", open("flags", O_RDWR | O_CREAT | flags, 0o644));
            let got = fd_call(SYS_fcntl, fd, &[F_GETFL.into()]).unwrap_or(-1) as i32;
            s.equal("status flags", got & !0o100000, O_RDWR | flags);
            s.equal("close on exec", fd_call(SYS_fcntl, fd, &[F_GETFD.into()]), Ok(0));
            close(fd);
        }
        let fd = s.granted("open", open("flags", O_RDWR | O_CLOEXEC, 0));
        s.equal(
            "close on exec",
            fd_call(SYS_fcntl, fd, &[F_GETFD.into()]),
            Ok(FD_CLOEXEC.into()),
        );
        close(fd);
        let before = fs::metadata("flags").unwrap().mtime_nsec();
        let fd = s.granted("truncate for reading", open("flags", O_RDONLY | O_TRUNC, 0));
        s.refused("which cannot write", write_fd(fd, "x"), Errno::EBADF);
        close(fd);
        s.equal(
            "time moves",
            fs::metadata("flags").unwrap().mtime_nsec() != before,
            true,
        );
        // The number is the lowest free one, and no number is EMFILE.
        let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 0, limit.1).unwrap();
        s.refused("no number", open("unborn", NEW, 0o666), Errno::EMFILE);
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, limit.0, limit.1).unwrap();
        s.equal("nothing made", fs::metadata("unborn").is_err(), true);
    });
}

#[test]
fn links_lead_where_they_lead_and_no_further() {
    let scene = Scene::new(Mode::Edit);
    scene.write("d/f", "f");
    fs::write(scene.out.join("victim"), "victim").unwrap();
    let link = |to: &std::path::Path, name: &str| symlink(to, scene.w.join(name)).unwrap();
    link("d/f".as_ref(), "to-f");
    link("d".as_ref(), "to-d");
    link("d/new".as_ref(), "dangling");
    link(&scene.w.join("d/abs"), "dangling-abs");
    link("loop".as_ref(), "loop");
    symlink(scene.w.join("d/f"), scene.out.join("back")).unwrap();
    symlink(&scene.w, scene.out.join("ws")).unwrap();
    let out = |name: &str| scene.out.join(name).to_string_lossy().into_owned();
    let (back, through) = (out("back"), out("ws/d/through"));
    scene.run(|s| {
        s.granted("file link", write_file("to-f", O_WRONLY | O_APPEND, "1"));
        s.granted("directory link", write_file("to-d/g", NEW, "2"));
        s.granted("dangling", write_file("dangling", NEW, "3"));
        s.granted("dangling, absolute", write_file("dangling-abs", NEW, "4"));
        s.granted("from outside", write_file(&back, O_WRONLY | O_APPEND, "5"));
        s.granted("through outside", write_file(&through, NEW, "6"));
        s.refused("loop", open("loop", NEW, 0o666), Errno::ELOOP);
        s.refused("not followed", open("to-f", O_WRONLY | O_NOFOLLOW, 0), Errno::ELOOP);
        s.refused("exclusive", open("dangling2", O_WRONLY, 0), Errno::ENOENT);
        s.granted("link", path2(SYS_symlink, "nowhere", "dangling2"));
        s.refused(
            "exclusive does not follow",
            open("dangling2", O_WRONLY | O_CREAT | O_EXCL, 0o666),
            Errno::EEXIST,
        );
    });
    assert_eq!(scene.read("d/f"), "f15");
    for (name, text) in [("d/g", "2"), ("d/new", "3"), ("d/abs", "4"), ("d/through", "6")] {
        assert_eq!(scene.read(name), text, "{name}");
    }
    // Read-only mode is not left by a link from outside.
    scene.grants.set_mode(Mode::ReadOnly);
    scene.run(|s| {
        s.refused("from outside", open(&back, O_WRONLY, 0), Errno::EROFS);
        s.refused("through outside", open(&through, O_WRONLY, 0), Errno::EROFS);
        s.refused("dangling", open("dangling2", NEW, 0o666), Errno::EROFS);
    });
}

#[test]
fn proc_links_are_the_callers_own() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "f");
    scene.run(|s| {
        let fd = s.granted("open", open("f", O_RDONLY, 0));
        for name in [
            "/proc/self/fd/",
            "/proc/thread-self/fd/",
            "/dev/fd/",
            "/proc/self/cwd/../w/../w/f#",
        ] {
            let path = if let Some(path) = name.strip_suffix('#') {
                path.to_owned()
            } else {
                format!("{name}{fd}")
            };
            s.granted(&path, write_file(&path, O_WRONLY | O_APPEND, "+"));
        }
        let own = std::process::id();
        s.granted(
            "own number",
            write_file(&format!("/proc/{own}/fd/{fd}"), O_WRONLY | O_APPEND, "+"),
        );
        s.granted(
            "own directory",
            write_file(&format!("/proc/{own}/cwd/f"), O_WRONLY | O_APPEND, "+"),
        );
        s.granted(
            "own root",
            write_file(&format!("/proc/self/root{}/f", s.w.display()), O_WRONLY | O_APPEND, "+"),
        );
        s.refused(
            "no such descriptor",
            open("/proc/self/fd/999", O_WRONLY, 0),
            Errno::ENOENT,
        );
        if container() {
            s.refused(
                "own comm",
                write_file("/proc/self/comm", O_WRONLY, "renamed"),
                Errno::EACCES,
            );
        } else {
            s.granted("own comm", write_file("/proc/self/comm", O_WRONLY, "renamed"));
            s.equal(
                "renamed",
                fs::read_to_string("/proc/self/comm").unwrap_or_default().trim(),
                "renamed",
            );
        }
        // Not the supervisor's.
        let name = fs::read_to_string("/proc/self/environ").unwrap_or_default();
        s.equal(
            "environment is readable",
            name.is_empty(),
            std::env::vars().next().is_none(),
        );
    });
    assert_eq!(scene.read("f"), "f+++++++");
    scene.grants.set_mode(Mode::ReadOnly);
    scene.run(|s| {
        let fd = s.granted("open", open("f", O_RDONLY, 0));
        for path in [
            format!("/proc/self/fd/{fd}"),
            format!("/dev/fd/{fd}"),
            format!("/proc/{}/fd/{fd}", std::process::id()),
            "/proc/self/cwd/f".into(),
        ] {
            s.refused(&path, open(&path, O_WRONLY, 0), Errno::EROFS);
        }
        let path_only = s.granted("O_PATH", open("f", O_PATH, 0));
        s.refused(
            "from O_PATH",
            open(&format!("/proc/self/fd/{path_only}"), O_RDWR, 0),
            Errno::EROFS,
        );
    });
}

#[test]
fn nameless_files_get_their_name_by_grant() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        let fd = s.granted("O_TMPFILE", open(".", O_RDWR | O_TMPFILE, 0o640));
        s.granted("write", write_fd(fd, "temporary"));
        s.granted("mode", fd_call(SYS_fchmod, fd, &[0o600]));
        s.granted(
            "link",
            link_at(CWD, &format!("/proc/self/fd/{fd}"), "named", AT_SYMLINK_FOLLOW),
        );
        s.refused(
            "to a protected name",
            link_at(CWD, &format!("/proc/self/fd/{fd}"), "CLAUDE.md", AT_SYMLINK_FOLLOW),
            Errno::EACCES,
        );
        let again = s.granted("O_TMPFILE", open("/proc/self/cwd", O_RDWR | O_TMPFILE, 0o640));
        let done = link_at(again, "", "named2", AT_EMPTY_PATH);
        s.granted("by descriptor", done);
    });
    assert_eq!(scene.read("named"), "temporary");
    assert_eq!(
        fs::metadata(scene.w.join("named")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(scene.w.join("named2").exists());
}

#[test]
fn a_pipe_without_a_reader_blocks_its_caller_only() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        s.granted("mkfifo", path1(SYS_mknod, "fifo", &[(S_IFIFO | 0o600).into(), 0]));
        s.refused("nobody reads", open("fifo", O_WRONLY | O_NONBLOCK, 0), Errno::ENXIO);
        let writers: Vec<_> = (0..4)
            .map(|i| std::thread::spawn(move || write_file("fifo", O_WRONLY, &format!("{i}"))))
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(50));
        // Four callers wait, with three serving threads.
        s.granted("others go on", write_file("other", NEW, "x"));
        // One reader for all of them: a writer that comes between a reader's last look and its leaving gets EPIPE, anywhere.
        let mut text = String::new();
        match fs::File::open("fifo") {
            Ok(mut fifo) => {
                let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
                while text.len() < 4 && std::time::Instant::now() < end {
                    // Its end is also what a reader finds while the next writer is on its way.
                    if fifo.read_to_string(&mut text).is_err() {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
            Err(error) => s.fail(format!("open for reading: {error}")),
        }
        for writer in writers {
            s.granted("wrote", writer.join().unwrap());
        }
        s.equal("all arrived", text.len(), 4);
        let fd = s.granted("both ways", open("fifo", O_RDWR, 0));
        s.equal(
            "blocking",
            fd_call(SYS_fcntl, fd, &[F_GETFL.into()]).map(|f| f as i32 & O_NONBLOCK),
            Ok(0),
        );
    });
}

#[test]
fn an_executable_is_never_busy_after_it_was_closed() {
    let scene = Scene::new(Mode::Edit);
    fs::copy("/bin/true", scene.w.join("source")).unwrap();
    scene.run_alone(|s| {
        let program = fs::read("source").unwrap();
        let mut busy = 0;
        for round in 0..150 {
            // Made executable by its mode, and by chmod afterwards.
            let name = format!("./run{}", round % 2);
            let _ = fs::remove_file(&name);
            let mode = if round % 2 == 0 { 0o755 } else { 0o644 };
            let fd = s.granted("create", open(&name, NEW, mode));
            let _ = picktwo_confine::attempt::syscall(
                SYS_write,
                [
                    picktwo_confine::attempt::Arg::Int(fd),
                    picktwo_confine::attempt::Arg::In(&program),
                    picktwo_confine::attempt::Arg::Int(program.len() as i64),
                    picktwo_confine::attempt::Arg::Null,
                    picktwo_confine::attempt::Arg::Null,
                    picktwo_confine::attempt::Arg::Null,
                ],
            );
            close(fd);
            if round % 2 == 1 {
                s.granted("chmod", path1(SYS_chmod, &name, &[0o755]));
            }
            let mut ended = std::process::Command::new(&name).status();
            // Here the supervisor's process has other tests, whose forks may hold its copy for a moment; a launcher never forks.
            if ended
                .as_ref()
                .is_err_and(|e| e.kind() == std::io::ErrorKind::ExecutableFileBusy)
                && busy < 3
            {
                busy += 1;
                std::thread::sleep(std::time::Duration::from_millis(50));
                ended = std::process::Command::new(&name).status();
            }
            match ended {
                Ok(status) if status.success() => {}
                other => s.fail(format!("round {round}: {other:?}")),
            }
        }
    });
}

#[test]
fn openat2_is_carried_out_with_its_restrictions() {
    let scene = Scene::new(Mode::Edit);
    scene.write("d/f", "f");
    symlink("d/f", scene.w.join("link")).unwrap();
    scene.run(|s| {
        use picktwo_confine::sys::{self, resolve};
        let open2 = |path: &std::ffi::CStr, flags: i32, mode: u32, resolve: u64| {
            sys::openat2(sys::CWD, path, flags, mode, resolve).map(|_| 0)
        };
        s.granted("read", open2(c"d/f", O_RDONLY, 0, resolve::BENEATH));
        s.granted("write", open2(c"d/f", O_WRONLY, 0, resolve::BENEATH));
        s.granted(
            "create",
            open2(c"d/new", O_WRONLY | O_CREAT, 0o600, resolve::NO_SYMLINKS),
        );
        s.granted("plain", open2(c"link", O_WRONLY, 0, 0));
        s.refused(
            "no links",
            open2(c"link", O_WRONLY, 0, resolve::NO_SYMLINKS),
            Errno::ELOOP,
        );
        s.refused(
            "beneath",
            open2(c"../out/x", O_WRONLY | O_CREAT, 0o600, resolve::BENEATH),
            Errno::EXDEV,
        );
        s.refused("unknown flag", open2(c"d/f", O_WRONLY, 0, 1 << 40), Errno::ENOSYS);
        s.refused("mode without create", open2(c"d/f", O_WRONLY, 0o600, 0), Errno::EINVAL);
    });
}

#[test]
fn what_a_granted_call_may_cause_does_not_end_the_launcher() {
    let _scene = Scene::new(Mode::Edit);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    for signal in [SIGIO, SIGXFSZ] {
        assert!(ignored & 1 << (signal - 1) != 0, "{signal}");
    }
}
