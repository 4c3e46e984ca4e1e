//! What the launcher puts at a protected place is there whole, and never in a file that a session could have open for writing.

use super::harness::{Scene, close, open, path1, path2, write_fd, write_file};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;
const PLAIN: &str = "[core]\n\trepositoryformatversion = 0\n";

/// How long the attack goes on.
fn time() -> Duration {
    let seconds = std::env::var("PICKTWO_ATTACK_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

fn repository(scene: &Scene) {
    for part in ["objects", "refs"] {
        fs::create_dir_all(scene.w.join(".git").join(part)).unwrap();
    }
    scene.write(".git/HEAD", "ref: refs/heads/main\n");
    scene.write(".git/config", PLAIN);
}

#[test]
fn a_configuration_is_never_part_of_one_and_part_of_another() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    // The end of the one, without its first characters, would name a program.
    let long = format!("{PLAIN}##[core] fsmonitor = \"id; false\"\n");
    let short = format!("{PLAIN}#\n");
    let path = scene.w.join(".git/config");
    let over = AtomicBool::new(false);
    let mut seen = [0u64; 3];
    let mut torn = Vec::new();
    scene.run_beside(
        |s| {
            let start = Instant::now();
            for round in 0u64.. {
                if start.elapsed() > time() {
                    break;
                }
                let text = if round % 2 == 0 { &long } else { &short };
                if round % 5 == 4 {
                    s.granted("a lock", write_file(".git/config.lock", NEW, text));
                    s.granted("its rename", path2(SYS_rename, ".git/config.lock", ".git/config"));
                } else if let Ok(fd) = open(".git/config", O_WRONLY | O_TRUNC, 0) {
                    s.granted("a direct write", write_fd(fd, text));
                    close(fd);
                }
                s.granted("any granted call", write_file("x", NEW, ""));
            }
            s.granted("over", write_file("over", NEW, ""));
        },
        || {
            while !over.load(Ordering::Relaxed) {
                over.store(scene.w.join("over").exists(), Ordering::Relaxed);
                let now = fs::read_to_string(&path).unwrap_or_default();
                match [PLAIN, &long, &short].iter().position(|known| **known == now) {
                    Some(which) => seen[which] += 1,
                    None => torn.push(now),
                }
            }
        },
    );
    assert!(torn.is_empty(), "{torn:?}");
    assert!(seen[1] > 0 && seen[2] > 0, "{seen:?}");
    let left: Vec<_> = fs::read_dir(scene.w.join(".git"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with(".picktwo-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_about_to_be_put_in_place_is_no_sessions() {
    let scene = Scene::new(Mode::Edit);
    repository(&scene);
    scene.write("f", "");
    // As if another session's launcher were about to rename it.
    scene.write(".git/.picktwo-0123456789abcdef", PLAIN);
    scene.run(|s| {
        let name = ".git/.picktwo-0123456789abcdef";
        s.refused("open", open(name, O_WRONLY, 0), Errno::EACCES);
        s.refused("truncate", path1(SYS_truncate, name, &[0]), Errno::EACCES);
        s.refused("remove", path1(SYS_unlink, name, &[]), Errno::EACCES);
        s.refused("move", path2(SYS_rename, name, "g"), Errno::EACCES);
        s.refused("replace", path2(SYS_rename, "f", name), Errno::EACCES);
        s.refused("a second name", path2(SYS_link, name, "g"), Errno::EACCES);
        s.refused("make", open(".git/.picktwo-new", NEW, 0o666), Errno::EACCES);
        s.granted("another name", write_file(".git/picktwo-new", NEW, ""));
    });
    assert_eq!(scene.read(".git/.picktwo-0123456789abcdef"), PLAIN);
}
