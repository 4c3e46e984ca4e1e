//! Two edit sessions of one workspace: neither decides on what the other is about to change.

use super::harness::{Scene, link_at, lock, open, path1, path2, rename2, write_file};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;
const HEAD: &str = "ref: refs/heads/main\n";

/// How long the attack goes on.
fn time() -> Duration {
    let seconds = std::env::var("PICKTWO_ATTACK_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

#[test]
fn what_depends_on_other_names_waits_for_the_other_session() {
    let scene = Scene::new(Mode::Edit);
    for dir in ["d", "e"] {
        fs::create_dir_all(scene.w.join(dir).join("objects")).unwrap();
        scene.write(&format!("{dir}/HEAD"), HEAD);
    }
    scene.write("f", "f");
    scene.write("a/f", "f");
    scene.write("b/f", "f");
    fs::hard_link(scene.w.join("f"), scene.w.join("g")).unwrap();
    // The other session is in the middle of something, and then it is stopped there.
    let other = lock(&scene.base);
    let hold = Duration::from_millis(400);
    let start = Instant::now();
    other.lock().unwrap();
    scene.run_beside(
        |s| {
            // What depends on nothing goes on.
            s.granted("a file", write_file("plain", NEW, "x"));
            s.granted("a directory", path1(SYS_mkdir, "plain.d", &[0o777]));
            s.granted("its mode", path1(SYS_chmod, "plain", &[0o600]));
            s.granted("it goes", path1(SYS_unlink, "plain", &[]));
            s.equal("at once", start.elapsed() < hold, true);
            s.granted("a mark", path1(SYS_mkdir, "d/refs", &[0o777]));
            s.equal("waited", start.elapsed() >= hold, true);
        },
        || {
            std::thread::sleep(hold.saturating_sub(start.elapsed()));
            other.unlock().unwrap();
        },
    );
    other.lock().unwrap();
    let start = Instant::now();
    scene.run(|s| {
        s.refused("a mark", path1(SYS_mkdir, "e/refs", &[0o777]), Errno::EBUSY);
        let waited = start.elapsed();
        s.equal("is waited for, not for ever", (4..15).contains(&waited.as_secs()), true);
        // From then on, not long.
        s.refused("a mark", open("e/refs", NEW, 0o666), Errno::EBUSY);
        s.refused("a hook", open("e/hooks", NEW, 0o666), Errno::EBUSY);
        s.refused("a link", path2(SYS_symlink, "x", "e/index"), Errno::EBUSY);
        s.refused("a rename", path2(SYS_rename, "a", "a2"), Errno::EBUSY);
        s.refused("a rename", path2(SYS_rename, "f", "f2"), Errno::EBUSY);
        s.refused("an exchange", rename2("a", "b", RENAME_EXCHANGE), Errno::EBUSY);
        s.refused("a hard link", path2(SYS_link, "f", "f2"), Errno::EBUSY);
        s.refused("a look for names", open("g", O_WRONLY, 0), Errno::EBUSY);
        let unnamed = s.granted("no name", open("e", O_TMPFILE | O_RDWR, 0o600));
        let from = format!("/proc/self/fd/{unnamed}");
        s.refused(
            "its first",
            link_at(super::harness::CWD, &from, "f2", AT_SYMLINK_FOLLOW),
            Errno::EBUSY,
        );
        s.granted("a file", write_file("plain", NEW, "x"));
        s.equal("not long", start.elapsed() - waited < Duration::from_secs(4), true);
    });
    assert!(
        scene.rules().iter().any(|rule| rule.contains("another edit session")),
        "{:?}",
        scene.rules()
    );
    other.unlock().unwrap();
    scene.run(|s| {
        s.granted("a mark", path1(SYS_mkdir, "e/refs", &[0o777]));
        s.granted("a rename", path2(SYS_rename, "a", "a2"));
        s.granted("a look for names", open("g", O_WRONLY, 0));
    });
}

#[test]
fn a_repository_does_not_come_together_from_two_sessions() {
    let one = Scene::new(Mode::Edit);
    let other = Scene::on(one.base.clone(), Mode::Edit, &[], false);
    let (start, limit) = (Instant::now(), time());
    // Rounds: the first makes the parts and the number of the round; both go at once.
    let go = |dir: &str| Path::new(dir).join("go").exists();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            other.run(|s| {
                for round in 0.. {
                    let dir = format!("r{round}");
                    while !go(&dir) {
                        if Path::new("end").exists() {
                            return;
                        }
                        std::hint::spin_loop();
                    }
                    s.granted(
                        "refs, or not",
                        path1(SYS_mkdir, &format!("{dir}/refs"), &[0o777]).or(Ok(0)),
                    );
                    s.granted("done", write_file(&format!("{dir}/done"), NEW, ""));
                }
            });
        });
        one.run(|s| {
            let mut rounds = 0u64;
            let mut made = [0, 0];
            while start.elapsed() < limit {
                let dir = format!("r{rounds}");
                for name in [dir.clone(), format!("{dir}/objects"), format!("{dir}/hooks")] {
                    s.granted("mkdir", path1(SYS_mkdir, &name, &[0o777]));
                }
                s.granted("HEAD", write_file(&format!("{dir}/HEAD"), NEW, HEAD));
                s.granted("go", write_file(&format!("{dir}/go"), NEW, ""));
                // The other one looks at a time of its own.
                std::thread::sleep(Duration::from_micros(rounds * 7 % 300));
                let hook = format!("{dir}/hooks/pre-receive");
                let hooked = write_file(&hook, NEW, "evil").is_ok();
                let wait = Instant::now();
                while !Path::new(&dir).join("done").exists() && wait.elapsed() < Duration::from_secs(10) {
                    std::thread::yield_now();
                }
                let complete = Path::new(&dir).join("refs").exists();
                made[0] += u32::from(hooked);
                made[1] += u32::from(complete);
                if hooked && complete {
                    s.fail(format!("round {rounds}: a git directory with a hook"));
                }
                rounds += 1;
            }
            s.granted("end", write_file("end", NEW, ""));
            // Each of them came first at times.
            s.equal("both tried", made.iter().all(|&times| times > 0), true);
        });
    });
}
