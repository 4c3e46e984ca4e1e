//! What others got wrong, as loops: arguments, links and directories that change while a call is being decided.

use super::harness::{CWD, Scene, close, fd_call, open, path1, path2, rename2, write_file};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_confine::attempt::{Arg, syscall};
use picktwo_inside::mode::Mode;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;

/// How long each loop runs; `PICKTWO_LONG_TESTS` makes it a minute.
fn time() -> Duration {
    Duration::from_secs(if std::env::var_os("PICKTWO_LONG_TESTS").is_some() {
        60
    } else {
        3
    })
}

fn fingerprint(dir: &std::path::Path) -> String {
    let line = "find . -printf '%p %y %m %n %s %T@ %l\\n' | sort; find . -type f -exec sha256sum {} + | sort";
    let out = std::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(line)
        .current_dir(dir)
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Links and directories change places, while calls go through them.
fn swap_and_call(s: &super::harness::Checks, victim: &str) {
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let mut rounds = 0;
    std::thread::scope(|scope| {
        for (a, b) in [("swap/real", "swap/link"), ("swap/file", "swap/file-link")] {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let _ = rename2(a, b, RENAME_EXCHANGE);
                }
            });
        }
        while start.elapsed() < time() {
            rounds += 1;
            for dir in ["swap/real", "swap/link"] {
                let inner = format!("{dir}/{victim}");
                if let Ok(fd) = open(&inner, O_WRONLY | O_APPEND, 0) {
                    let _ = super::harness::write_fd(fd, "!");
                    close(fd);
                }
                let _ = open(&format!("{dir}/made"), O_RDONLY | O_CREAT | O_TRUNC, 0o666).map(close);
                let _ = path1(SYS_truncate, &inner, &[0]);
                let _ = path1(SYS_chmod, &inner, &[0o777]);
                let _ = path1(SYS_unlink, &inner, &[]);
                let _ = path2(SYS_rename, "swap/extra", &inner);
                let _ = path2(SYS_link, "swap/extra", &format!("{dir}/linked"));
                let _ = path1(SYS_mkdir, &format!("{dir}/dir"), &[0o777]);
                let _ = path2(SYS_symlink, "x", &format!("{dir}/sym"));
            }
            for file in ["swap/file", "swap/file-link"] {
                let _ = open(file, O_WRONLY | O_TRUNC, 0).map(close);
                let _ = open(&format!("{file}-new"), NEW, 0o666).map(close);
                let _ = path1(SYS_utime, file, &[0]);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    s.equal("there was time", rounds > 20, true);
}

#[test]
fn links_that_change_lead_to_nothing_protected_or_outside() {
    let scene = Scene::new(Mode::Edit);
    for dir in [".git/hooks", "swap/real"] {
        fs::create_dir_all(scene.w.join(dir)).unwrap();
    }
    scene.write(".git/hooks/pre-commit", "hook");
    scene.write("CLAUDE.md", "rules");
    scene.write("swap/real/pre-commit", "harmless");
    scene.write("swap/file", "file");
    scene.write("swap/extra", "extra");
    symlink("../.git/hooks", scene.w.join("swap/link")).unwrap();
    symlink("../CLAUDE.md", scene.w.join("swap/file-link")).unwrap();
    let protected = |scene: &Scene| {
        (
            fingerprint(&scene.w.join(".git")),
            fs::metadata(scene.w.join("CLAUDE.md")).unwrap().modified().unwrap(),
            scene.read("CLAUDE.md"),
        )
    };
    let before = protected(&scene);
    scene.run(|s| swap_and_call(s, "pre-commit"));
    assert_eq!(protected(&scene), before);
    // The control: without the links the same calls do change the file that they name.
    assert_ne!(
        scene.read("swap/real/pre-commit") + &scene.read("swap/link/pre-commit"),
        "harmlesshook"
    );
}

#[test]
fn read_only_mode_holds_under_every_race() {
    let scene = Scene::new(Mode::ReadOnly);
    scene.write("a/target", "target");
    symlink(scene.w.join("a"), scene.out.join("link")).unwrap();
    fs::create_dir(scene.out.join("real")).unwrap();
    fs::write(scene.out.join("real/target"), "real").unwrap();
    fs::write(scene.out.join("extra"), "extra").unwrap();
    let before = fingerprint(&scene.w);
    scene.run(|s| {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let out = s.out.to_string_lossy().into_owned();
        let buffer = Swapped::new(&format!("{out}/real/target"), &format!("{}/a/target", s.w.display()));
        let mut changed = 0;
        std::thread::scope(|scope| {
            let (real, link) = (format!("{out}/real"), format!("{out}/link"));
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let _ = rename2(&real, &link, RENAME_EXCHANGE);
                }
            });
            scope.spawn(buffer.swapper(stop));
            while start.elapsed() < time() {
                for dir in ["real", "link"] {
                    let path = format!("{out}/{dir}/target");
                    changed += u64::from(open(&path, O_WRONLY | O_TRUNC, 0).map(close).is_ok());
                    let _ = path1(SYS_truncate, &path, &[0]);
                    let _ = path1(SYS_chmod, &path, &[0o777]);
                    let _ = path1(SYS_utime, &path, &[0]);
                    let _ = path2(SYS_rename, &format!("{out}/extra"), &path);
                    let _ = path2(SYS_link, &format!("{out}/extra"), &format!("{out}/{dir}/linked"));
                    let _ = path1(SYS_mkdir, &format!("{out}/{dir}/made"), &[0o777]);
                    let _ = path1(SYS_rmdir, &format!("{out}/{dir}/made"), &[]);
                }
                for nr in [SYS_unlink, SYS_chmod, SYS_truncate, SYS_creat] {
                    let got = buffer.call(nr, 0o600);
                    if nr == SYS_creat {
                        let _ = got.map(close);
                    }
                }
                let _ = fs::write(format!("{out}/real/target"), "real");
            }
            stop.store(true, Ordering::Relaxed);
        });
        s.equal("the control: what lies outside was changed", changed > 0, true);
    });
    assert_eq!(fingerprint(&scene.w), before);
}

#[test]
fn a_path_that_changes_while_it_is_read_is_judged_as_it_was_read() {
    let scene = Scene::new(Mode::Edit);
    scene.write("xclaude/settings.json", "free");
    scene.write(".claude/settings.json", "{}");
    let before = fingerprint(&scene.w.join(".claude"));
    scene.run(|s| {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let buffer = Swapped::new("xclaude/settings.json", ".claude/settings.json");
        let mut counts = [0, 0];
        std::thread::scope(|scope| {
            scope.spawn(buffer.swapper(&stop));
            while start.elapsed() < time() {
                for nr in [SYS_creat, SYS_truncate, SYS_chmod, SYS_unlink] {
                    let got = buffer.call(nr, 0o600);
                    counts[usize::from(got == Err(Errno::EACCES))] += 1;
                    if nr == SYS_creat {
                        let _ = got.map(close);
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        s.equal("both were read", counts.iter().all(|&n| n > 10), true);
    });
    assert_eq!(fingerprint(&scene.w.join(".claude")), before);
}

/// A path in memory that another thread changes without end.
struct Swapped {
    bytes: Arc<[AtomicU8]>,
    texts: [Vec<u8>; 2],
}

impl Swapped {
    /// The second text takes the place of the first one; shorter texts are filled up with slashes at their front.
    fn new(a: &str, b: &str) -> Swapped {
        let length = a.len().max(b.len());
        let fill = |text: &str| {
            let front = if text.starts_with('/') {
                "/".repeat(length - text.len())
            } else {
                "./".repeat((length - text.len()) / 2)
            };
            [front.as_bytes(), text.as_bytes(), b"\0"].concat()
        };
        let texts = [fill(a), fill(b)];
        assert_eq!(texts[0].len(), texts[1].len());
        Swapped {
            bytes: texts[0].iter().map(|byte| AtomicU8::new(*byte)).collect(),
            texts,
        }
    }

    fn swapper<'a>(&self, stop: &'a AtomicBool) -> impl FnOnce() + Send + use<'a> {
        let (bytes, texts) = (self.bytes.clone(), self.texts.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                for text in &texts {
                    for (byte, value) in bytes.iter().zip(text) {
                        byte.store(*value, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
        }
    }

    fn call(&self, nr: i64, second: i64) -> Result<i64, Errno> {
        syscall(
            nr,
            [
                // As a number: the kernel reads it while another thread writes it.
                Arg::Int(self.bytes.as_ptr().expose_provenance() as i64),
                Arg::Int(second),
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        )
    }
}

#[test]
fn a_repository_does_not_come_together_from_two_sides() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        let start = Instant::now();
        let mut rounds = 0;
        while start.elapsed() < time() {
            rounds += 1;
            let dir = format!("r{rounds}");
            for name in [dir.clone(), format!("{dir}/objects"), format!("{dir}/refs")] {
                s.granted("mkdir", path1(SYS_mkdir, &name, &[0o777]));
            }
            let (a, b) = (format!("{dir}/config"), format!("{dir}/HEAD"));
            let (config, head) = std::thread::scope(|scope| {
                let config = scope.spawn(|| write_file(&a, NEW, "[core]\n\tfsmonitor = evil\n"));
                let head = scope.spawn(|| write_file(&b, NEW, "ref: refs/heads/main\n"));
                (config.join().unwrap(), head.join().unwrap())
            });
            // Whoever came first wins.
            std::thread::sleep(Duration::from_millis(2));
            let evil = fs::read_to_string(&a).unwrap_or_default().contains("fsmonitor");
            if evil && fs::metadata(&b).is_ok() {
                s.fail(format!("round {rounds}: {config:?} {head:?}"));
            }
        }
        s.equal("there was time", rounds > 20, true);
    });
}

#[test]
fn arguments_at_the_edge_of_memory() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        s.refused(
            "null",
            syscall(
                SYS_mkdir,
                [Arg::Null, Arg::Int(0o777), Arg::Null, Arg::Null, Arg::Null, Arg::Null],
            ),
            Errno::EFAULT,
        );
        s.refused(
            "unmapped",
            syscall(
                SYS_openat,
                [
                    Arg::Int(CWD),
                    Arg::Bad,
                    Arg::Int(NEW.into()),
                    Arg::Int(0o666),
                    Arg::Null,
                    Arg::Null,
                ],
            ),
            Errno::EFAULT,
        );
        s.refused(
            "kernel's",
            syscall(
                SYS_unlink,
                [Arg::Int(-4096), Arg::Null, Arg::Null, Arg::Null, Arg::Null, Arg::Null],
            ),
            Errno::EFAULT,
        );
        // High halves of 32-bit arguments mean nothing.
        let high = 1i64 << 40;
        let fd = s.granted(
            "flags",
            super::harness::path_at(SYS_openat, CWD | high, "f", &[i64::from(NEW) | high, 0o600 | high]),
        );
        s.granted("descriptor", fd_call(SYS_fchmod, fd | high, &[0o640]));
        s.equal(
            "mode",
            fs::metadata("f")
                .map(|m| std::os::unix::fs::MetadataExt::mode(&m) & 0o777)
                .unwrap_or(0),
            0o640,
        );
    });
}

#[test]
fn a_caller_that_hides_its_memory_cannot_change_anything() {
    // Root reads such memory; where the supervisor is the parent of the session's user namespace it may, too, and the call is
    // decided as any other.
    let scene = Scene::new(Mode::ReadOnly);
    scene.write("f", "f");
    scene.run(|s| {
        let _ = picktwo_confine::process::set_dumpable(false);
        let errnos = [Err(Errno::EACCES), Err(Errno::EROFS)];
        for got in [
            open("f", O_WRONLY, 0),
            path1(SYS_unlink, "f", &[]),
            path1(SYS_chmod, "f", &[0o777]),
        ] {
            if !errnos.contains(&got) {
                s.fail(format!("{got:?}"));
            }
        }
    });
    assert_eq!(scene.read("f"), "f");
}

#[test]
fn a_toggle_reaches_every_call_at_once() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "f");
    scene.write("d/x", "x");
    let end = Instant::now() + time();
    let stamp = scene.out.join("stamp");
    scene.run_beside(
        |s| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for i in 0..2 {
                    let stop = &stop;
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            let (a, b) = (format!("n{i}"), format!("m{i}"));
                            let _ = write_file(&a, NEW, "x");
                            let _ = path2(SYS_rename, &a, &b);
                            let _ = path1(SYS_unlink, &b, &[]);
                            let _ = path1(SYS_mkdir, &a, &[0o777]);
                            let _ = path1(SYS_rmdir, &a, &[]);
                            let _ = path1(SYS_chmod, "f", &[0o600 | i]);
                        }
                    });
                }
                while !s.out.join("stamp").exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                stop.store(true, Ordering::Relaxed);
            });
        },
        || {
            let mut changed_in_edit = 0;
            while Instant::now() < end {
                scene.grants.set_mode(Mode::ReadOnly);
                let before = fingerprint(&scene.w);
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(fingerprint(&scene.w), before);
                scene.grants.set_mode(Mode::Edit);
                std::thread::sleep(Duration::from_millis(10));
                changed_in_edit += u32::from(fingerprint(&scene.w) != before);
            }
            fs::write(&stamp, "").unwrap();
            assert!(changed_in_edit > 0, "the control: changes in edit mode");
        },
    );
}

#[test]
fn a_caller_that_dies_takes_nothing_with_it() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        for i in 0..200 {
            let child = picktwo_confine::process::fork(move || {
                for n in 0..1000 {
                    let _ = write_file(&format!("dies{i}-{n}"), NEW, "x");
                    let _ = path1(SYS_unlink, &format!("dies{i}-{n}"), &[]);
                }
                0
            });
            match child {
                Ok(child) => {
                    std::thread::sleep(Duration::from_micros(i * 20));
                    let _ = child.kill_and_wait();
                }
                Err(error) => s.fail(error.to_string()),
            }
        }
        s.granted("still served", write_file("after", NEW, "x"));
    });
    assert_eq!(scene.read("after"), "x");
}
