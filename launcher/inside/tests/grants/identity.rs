//! What is done later is done to the file that it was decided on, whatever has its name by then.

use super::harness::{Scene, close, open, path1, rename2, write_fd, write_file};
use nix::libc::*;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::fs;
use std::time::{Duration, Instant};

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;
const PLAIN: &str = "[core]\n\trepositoryformatversion = 0\n";

/// A clone with a configuration.
fn clone(scene: &Scene, name: &str, config: &str) {
    for part in ["objects", "refs"] {
        fs::create_dir_all(scene.w.join(name).join(".git").join(part)).unwrap();
    }
    scene.write(&format!("{name}/.git/HEAD"), "ref: refs/heads/main\n");
    scene.write(&format!("{name}/.git/config"), config);
}

#[test]
fn a_staged_content_goes_to_the_file_that_was_opened() {
    let scene = Scene::new(Mode::Edit);
    let (a, b) = (
        format!("{PLAIN}[user]\n\tname = a\n"),
        format!("{PLAIN}[user]\n\tname = b\n"),
    );
    for (name, config) in [("a", &a), ("b", &b), ("c", &a), ("d", &b)] {
        clone(&scene, name, config);
    }
    let new = format!("{PLAIN}[user]\n\tname = new\n");
    scene.run_alone(|s| {
        let fd = s.granted("open", open("a/.git/config", O_WRONLY | O_TRUNC, 0));
        s.granted("write", write_fd(fd, &new));
        s.granted("exchanged", rename2("a", "b", RENAME_EXCHANGE));
        close(fd);
        // The same without an exchange is written.
        let fd = s.granted("open", open("c/.git/config", O_WRONLY | O_TRUNC, 0));
        s.granted("write", write_fd(fd, &new));
        close(fd);
        let start = Instant::now();
        while fs::read_to_string("c/.git/config").ok().as_deref() != Some(&new)
            && start.elapsed() < Duration::from_secs(5)
        {
            s.granted("any granted call", write_file("x", NEW, "x"));
        }
    });
    assert_eq!(scene.read("c/.git/config"), new);
    assert_eq!((scene.read("a/.git/config"), scene.read("b/.git/config")), (b, a));
    let rules = scene.rules();
    assert!(
        rules.iter().any(|rule| rule.contains("another file lies there")),
        "{rules:?}"
    );
}

#[test]
fn a_caller_without_a_number_makes_nothing_and_removes_nothing() {
    let scene = Scene::new(Mode::Edit);
    scene.write("bare/config", "# the person's\n");
    for part in ["objects", "refs"] {
        fs::create_dir_all(scene.w.join("bare").join(part)).unwrap();
    }
    scene.write("bare/HEAD", "ref: refs/heads/main\n");
    fs::create_dir(scene.w.join("d")).unwrap();
    scene.run(|s| {
        s.refused("directly", path1(SYS_unlink, "bare/config", &[]), Errno::EACCES);
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let stop = Instant::now() + Duration::from_secs(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while Instant::now() < stop {
                    let _ = rename2("d", "bare", RENAME_EXCHANGE);
                }
            });
            setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
            let mut times = 0;
            while Instant::now() < stop {
                times += u32::from(open("d/config", O_CREAT | O_EXCL | O_WRONLY, 0o644) == Err(Errno::EMFILE));
                // What stayed because it was moved; refused where it is the person's.
                let _ = path1(SYS_unlink, "d/config", &[]);
            }
            setrlimit(Resource::RLIMIT_NOFILE, hard.min(1024), hard).unwrap();
            s.equal(&format!("there was time ({times})"), times > 20, true);
        });
        setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
        s.refused("a file", open("late", O_CREAT | O_WRONLY, 0o644), Errno::EMFILE);
        setrlimit(Resource::RLIMIT_NOFILE, hard.min(1024), hard).unwrap();
    });
    let both = [scene.read("d/config"), scene.read("bare/config")].concat();
    assert!(both.contains("# the person's"), "{both}");
    assert!(!scene.w.join("late").exists());
}
