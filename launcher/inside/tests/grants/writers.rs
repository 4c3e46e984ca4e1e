//! Who can still write after going back to read-only.

use super::harness::{Scene, close, open, write_file};
use nix::libc::*;
use picktwo_confine::channel;
use picktwo_inside::mode::Mode;
use picktwo_inside::writers::{self, How};
use std::fs::File;
use std::os::fd::AsFd;

#[test]
fn descriptors_mappings_and_parked_ones_are_found() {
    let scene = Scene::new(Mode::Edit);
    for name in ["read", "closed", "parked", "moved"] {
        scene.write(name, "x");
    }
    let (ours, theirs) = channel::pair().unwrap();
    scene.run_beside(
        |s| {
            let fd = s.granted("held", open("held", O_WRONLY | O_CREAT, 0o600));
            s.granted("read only", open("read", O_RDONLY, 0));
            s.granted("closed", write_file("closed", O_WRONLY, "y"));
            let parked = File::options().write(true).open("parked").unwrap();
            let (a, b) = channel::pair().unwrap();
            a.send(b"x", &[parked.as_fd()]).unwrap();
            drop(parked);
            let moved = File::options().write(true).open("moved").unwrap();
            std::fs::create_dir("dir").unwrap();
            std::fs::rename("moved", "dir/name").unwrap();
            std::fs::rename("dir", "dir2").unwrap();
            theirs.send(b"ready", &[]).unwrap();
            let _ = theirs.recv(&mut Vec::new());
            close(fd);
            drop((a, b, moved));
        },
        || {
            let mut message = Vec::new();
            ours.recv(&mut message).unwrap();
            scene.grants.set_mode(Mode::ReadOnly);
            let found = writers::find(&scene.grants, &scene.members().list());
            let mut names: Vec<_> = found
                .writers
                .iter()
                .map(|w| {
                    (
                        w.path.file_name().unwrap().to_string_lossy().into_owned(),
                        matches!(w.how, How::Unseen),
                        w.pid > 0,
                    )
                })
                .collect();
            names.sort();
            assert_eq!(
                names,
                [
                    ("held".into(), false, true),
                    ("name".into(), false, true),
                    ("parked".into(), true, false)
                ],
                "{found:?}"
            );
            assert!(found.complete);
            // Only what the session still holds is asked about again.
            assert_eq!(scene.grants.still_written().0.len(), 3);
            ours.send(b"end", &[]).unwrap();
        },
    );
    assert!(writers::find(&scene.grants, &[]).writers.is_empty());
}

/// A descriptor that is parked in a socket's queue, of a file that `make` makes: what is found after going back to read-only.
fn parked(make: impl FnOnce() -> File) -> (Vec<String>, bool) {
    let scene = Scene::new(Mode::Edit);
    let (ours, theirs) = channel::pair().unwrap();
    let mut result = None;
    scene.run_beside(
        |_| {
            let file = make();
            let (a, b) = channel::pair().unwrap();
            a.send(b"x", &[file.as_fd()]).unwrap();
            drop(file);
            theirs.send(b"ready", &[]).unwrap();
            let _ = theirs.recv(&mut Vec::new());
            let _ = std::fs::set_permissions("closed", std::os::unix::fs::PermissionsExt::from_mode(0o700));
            drop((a, b));
        },
        || {
            ours.recv(&mut Vec::new()).unwrap();
            scene.grants.set_mode(Mode::ReadOnly);
            let first = writers::find(&scene.grants, &scene.members().list());
            let again = writers::find(&scene.grants, &scene.members().list());
            assert_eq!(first.complete, again.complete);
            let name = |w: &writers::OpenWriter| w.path.file_name().unwrap().to_string_lossy().into_owned();
            result = Some((first.writers.iter().map(name).collect(), first.complete));
            ours.send(b"end", &[]).unwrap();
        },
    );
    result.unwrap()
}

#[test]
fn a_parked_file_that_got_its_name_later_is_found() {
    use std::os::unix::fs::OpenOptionsExt;
    let nameless = || {
        let mut options = File::options();
        options.write(true).custom_flags(O_TMPFILE).open(".").unwrap()
    };
    assert_eq!(parked(nameless), (Vec::new(), true));
    let linked = || {
        let file = nameless();
        let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        nix::unistd::linkat(
            nix::fcntl::AT_FDCWD,
            own.as_str(),
            nix::fcntl::AT_FDCWD,
            "linked",
            nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW,
        )
        .unwrap();
        file
    };
    assert_eq!(parked(linked), (vec!["linked".to_owned()], true));
}

#[test]
fn what_may_hide_in_a_closed_directory_is_not_called_complete() {
    let deleted = || {
        let file = File::create("gone").unwrap();
        std::fs::remove_file("gone").unwrap();
        file
    };
    assert_eq!(parked(deleted), (Vec::new(), true));
    let hidden = || {
        std::fs::create_dir("closed").unwrap();
        let file = File::create("closed/file").unwrap();
        std::fs::set_permissions("closed", std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        file
    };
    // Root looks into closed directories.
    let expected = if nix::unistd::geteuid().is_root() {
        (vec!["file".to_owned()], true)
    } else {
        (Vec::new(), false)
    };
    assert_eq!(parked(hidden), expected);
}

#[test]
fn a_mapping_outlives_its_descriptor() {
    let scene = Scene::new(Mode::Edit);
    scene.write("mapped", &"x".repeat(4096));
    let (ready, end) = (scene.out.join("ready"), scene.out.join("end"));
    let wait = |file: &std::path::Path| {
        while !file.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    scene.run_beside(
        |s| {
            s.works(
                "python3 -c \"import mmap, os, time; f = open('mapped', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); os.close(3) if os.path.exists('/proc/self/fd/3') else 0\nopen('../out/ready', 'w').close()\nwhile not os.path.exists('../out/end'): time.sleep(.01)\"",
            );
        },
        || {
            wait(&ready);
            scene.grants.set_mode(Mode::ReadOnly);
            let found = writers::find(&scene.grants, &scene.members().list());
            assert!(found.writers.iter().any(|w| w.how == How::Mapping && w.path.ends_with("mapped") && w.command.contains("python3")), "{found:?}");
            std::fs::write(&end, "").unwrap();
        },
    );
    assert!(writers::find(&scene.grants, &scene.members().list()).writers.is_empty());
}

#[test]
fn a_writer_whose_first_thread_has_ended_is_found() {
    let scene = Scene::new(Mode::Edit);
    let (ready, end) = (scene.out.join("ready"), scene.out.join("end"));
    scene.run_beside(
        |s| {
            s.works(&format!(
                "python3 -c \"import ctypes, os, threading, time
f = open('held', 'w')
def stay():
    while open('/proc/self/stat').read().rsplit(') ')[1][0] != 'Z': time.sleep(.01)
    open('../out/ready', 'w').close()
    while not os.path.exists('../out/end'): time.sleep(.01)
    os._exit(0)
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall({SYS_exit}, 0)\""
            ));
        },
        || {
            while !ready.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            scene.grants.set_mode(Mode::ReadOnly);
            let found = writers::find(&scene.grants, &scene.members().list());
            std::fs::write(&end, "").unwrap();
            let [writer] = found.writers.as_slice() else {
                panic!("{found:?}")
            };
            assert!(matches!(writer.how, How::Descriptor(_)), "{found:?}");
            assert!(writer.command.contains("python3"), "{found:?}");
        },
    );
}

#[test]
fn asking_for_leases_disturbs_nobody() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "f");
    let end = scene.out.join("end");
    scene.run_beside(
        |s| {
            while !s.out.join("end").exists() {
                for i in 0..50 {
                    s.granted("truncate", write_file("f", O_WRONLY | O_TRUNC, "x"));
                    s.granted("write", write_file("f", O_RDWR, "x"));
                    s.granted("make", write_file(&format!("n{i}"), O_WRONLY | O_CREAT, "x"));
                }
            }
        },
        || {
            let start = std::time::Instant::now();
            let mut seen = 0;
            while start.elapsed() < std::time::Duration::from_secs(2) {
                seen += scene.grants.still_written().0.len();
            }
            std::fs::write(&end, "").unwrap();
            assert!(seen > 0, "the control: files were seen open");
        },
    );
}
