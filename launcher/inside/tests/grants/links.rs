//! Files that have names outside of the workspace, as stores of package managers and copies of repositories make them: what lies
//! outside is the judge.

use super::harness::{CWD, Scene, fd_call, open, path_at, path1, path2, write_fd, write_file};
use nix::libc::*;
use picktwo_confine::sys::{self, xattr};
use picktwo_confine::{Errno, sys::fd_path};
use picktwo_inside::mode::Mode;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const NO: Errno = Errno::EACCES;

/// A file of a store outside, with another name in the workspace.
fn shared(scene: &Scene, name: &str) -> PathBuf {
    let store = scene.base.join("store");
    fs::create_dir_all(&store).unwrap();
    let file = store.join(name);
    fs::write(&file, "original").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::hard_link(&file, scene.w.join(name)).unwrap();
    file
}

/// Everything about a file that a change would show.
fn state(path: &Path) -> String {
    let meta = fs::metadata(path).unwrap();
    let file = fs::File::open(path).unwrap();
    let names = xattr::list(&fd_path(file.as_fd()), true).unwrap();
    format!(
        "{:?} {:o} {} {} {}.{} {:?}",
        fs::read_to_string(path),
        meta.mode(),
        meta.uid(),
        meta.ino(),
        meta.mtime(),
        meta.mtime_nsec(),
        names
    )
}

#[test]
fn what_has_a_name_outside_is_changed_here_alone() {
    let scene = Scene::new(Mode::Edit);
    let ways = [
        "write",
        "append",
        "both",
        "emptied",
        "create",
        "creat",
        "truncate",
        "cut",
        "chmod",
        "fchmod",
        "times",
        "ftimes",
        "attribute",
        "fattribute",
        "linked",
        "reopened",
        "second",
        "reading",
    ];
    let outside: Vec<PathBuf> = ways.iter().map(|way| shared(&scene, way)).collect();
    symlink("linked", scene.w.join("link")).unwrap();
    // They are the same files so far, in both directions.
    fs::write(scene.w.join("write"), "through").unwrap();
    assert_eq!(fs::read_to_string(&outside[0]).unwrap(), "through");
    fs::write(&outside[0], "original").unwrap();
    let before: Vec<String> = outside.iter().map(|path| state(path)).collect();
    scene.run(|s| {
        let change = |name: &str, flags: i32| {
            s.granted(name, write_file(name, flags, "evil"));
        };
        change("write", O_WRONLY);
        change("append", O_WRONLY | O_APPEND);
        change("both", O_RDWR);
        change("emptied", O_WRONLY | O_TRUNC);
        change("create", O_WRONLY | O_CREAT);
        change("link", O_WRONLY);
        s.granted("creat", path1(SYS_creat, "creat", &[0o666]));
        s.granted("truncate", path1(SYS_truncate, "truncate", &[0]));
        s.granted("cut", path1(SYS_truncate, "cut", &[4]));
        s.granted("chmod", path1(SYS_chmod, "chmod", &[0o777]));
        s.granted("times", path_at(SYS_utimensat, CWD, "times", &[0, 0]));
        let attribute = |nr: i64, to: picktwo_confine::attempt::Arg<'_>| {
            use picktwo_confine::attempt::{Arg, syscall};
            let args = [
                to,
                Arg::In(b"user.mark\0"),
                Arg::In(b"x"),
                Arg::Int(1),
                Arg::Int(0),
                Arg::Null,
            ];
            syscall(nr, args)
        };
        use picktwo_confine::attempt::Arg;
        s.granted("attribute", attribute(SYS_setxattr, Arg::In(b"attribute\0")));
        for name in ["fchmod", "ftimes", "fattribute", "reopened"] {
            let fd = s.granted(name, open(name, O_RDONLY, 0));
            match name {
                "fchmod" => s.granted(name, fd_call(SYS_fchmod, fd, &[0o777])),
                "ftimes" => s.granted(name, fd_call(SYS_utimensat, fd, &[0, 0, 0])),
                "fattribute" => s.granted(name, attribute(SYS_fsetxattr, Arg::Int(fd))),
                _ => s.granted(name, write_file(&format!("/proc/self/fd/{fd}"), O_WRONLY, "evil")),
            };
        }
        // A name that the session makes changes nothing about where the others lie.
        s.granted("another name", path2(SYS_link, "second", "third"));
        s.granted("by the second", write_file("third", O_WRONLY, "evil"));
        s.granted("by the first", write_file("second", O_WRONLY, "EVIL"));
        s.granted("reading", open("reading", O_RDONLY | O_CREAT, 0o666));
    });
    for ((way, path), before) in ways.iter().zip(&outside).zip(&before) {
        assert_eq!(&state(path), before, "{way}");
    }
    let all = |name: &str, text: &str| assert_eq!(scene.read(name), text, "{name}");
    for name in ["write", "both", "create", "linked", "reopened", "third"] {
        all(name, "evilinal");
    }
    all("append", "originalevil");
    all("second", "EVILinal");
    for (name, text) in [("emptied", "evil"), ("creat", ""), ("truncate", ""), ("cut", "orig")] {
        all(name, text);
    }
    for name in ["chmod", "fchmod"] {
        let meta = fs::metadata(scene.w.join(name)).unwrap();
        assert_eq!(
            (meta.mode() & 0o7777, scene.read(name).as_str()),
            (0o777, "original"),
            "{name}"
        );
    }
    for name in ["attribute", "fattribute"] {
        assert!(state(&scene.w.join(name)).contains("117, 115, 101, 114, 46"), "{name}");
    }
    // What is only read stays one file, and no copy was left over.
    assert_eq!(fs::metadata(scene.w.join("reading")).unwrap().nlink(), 2);
    let left: Vec<_> = fs::read_dir(&scene.w)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), ways.len() + 2, "{left:?}");
}

#[test]
fn names_within_the_workspace_stay_one_file() {
    let scene = Scene::new(Mode::Edit);
    for (a, b) in [
        ("target/deps/x", "target/x"),
        ("a/.git/objects/pack/p", "b/.git/objects/pack/p"),
    ] {
        scene.write(a, "one");
        fs::create_dir_all(scene.w.join(b).parent().unwrap()).unwrap();
        fs::hard_link(scene.w.join(a), scene.w.join(b)).unwrap();
    }
    scene.run(|s| {
        s.granted("a write", write_file("target/x", O_WRONLY, "two"));
        s.granted("times", path_at(SYS_utimensat, CWD, "b/.git/objects/pack/p", &[0, 0]));
        s.granted("a new one", write_file("n", O_WRONLY | O_CREAT, "one"));
        s.granted("linked", path2(SYS_link, "n", "m"));
        s.granted("once more", path2(SYS_link, "m", "l"));
        s.granted("written", write_file("l", O_WRONLY, "two"));
        s.granted("one goes", path1(SYS_unlink, "m", &[]));
        s.granted("written", write_file("n", O_WRONLY | O_APPEND, "!"));
    });
    assert_eq!(scene.read("target/deps/x"), "two");
    assert_eq!(scene.read("l"), "two!");
    for name in ["target/x", "b/.git/objects/pack/p", "l"] {
        assert_eq!(fs::metadata(scene.w.join(name)).unwrap().nlink(), 2, "{name}");
    }
}

#[test]
fn a_copy_is_like_what_it_replaces() {
    let scene = Scene::new(Mode::Edit);
    let path = shared(&scene, "f");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let then = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    xattr::set(&fd_path(file.as_fd()), c"user.mark", b"kept", 0, true).unwrap();
    file.set_modified(then).unwrap();
    scene.run(|s| {
        s.granted("opened only", open("f", O_WRONLY, 0));
    });
    let (old, new) = (fs::metadata(&path).unwrap(), fs::metadata(scene.w.join("f")).unwrap());
    assert_ne!(old.ino(), new.ino());
    assert_eq!((old.nlink(), new.nlink()), (1, 1));
    let seen = |m: &fs::Metadata| (m.mode(), m.uid(), m.gid(), m.mtime(), m.mtime_nsec(), m.len());
    assert_eq!(seen(&old), seen(&new));
    let file = fs::File::open(scene.w.join("f")).unwrap();
    assert_eq!(xattr::get(&fd_path(file.as_fd()), c"user.mark", true).unwrap(), b"kept");
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let scene = Scene::new(Mode::Edit);
    let large = shared(&scene, "large");
    let length = (256 << 20) + 1;
    fs::File::options()
        .write(true)
        .open(&large)
        .unwrap()
        .set_len(length)
        .unwrap();
    let second = shared(&scene, "large-2");
    fs::File::options()
        .write(true)
        .open(&second)
        .unwrap()
        .set_len(length)
        .unwrap();
    let fifo = std::ffi::CString::new(scene.base.join("store/fifo").as_os_str().as_encoded_bytes()).unwrap();
    sys::mknodat(sys::CWD, &fifo, S_IFIFO | 0o600, 0).unwrap();
    fs::hard_link(scene.base.join("store/fifo"), scene.w.join("fifo")).unwrap();
    scene.run(|s| {
        s.refused("a write", open("large", O_WRONLY, 0), NO);
        s.refused("its mode", path1(SYS_chmod, "large", &[0o777]), NO);
        s.refused("a pipe's mode", path1(SYS_chmod, "fifo", &[0o777]), NO);
        s.granted("read", open("large", O_RDONLY, 0));
        // No content, no copy of it.
        let fd = s.granted("emptied", open("large-2", O_WRONLY | O_TRUNC, 0));
        s.granted("written", write_fd(fd, "x"));
    });
    for path in [&large, &second] {
        let meta = fs::metadata(path).unwrap();
        assert_eq!(
            (meta.len(), meta.mode() & 0o7777),
            (length, 0o644),
            "{}",
            path.display()
        );
    }
    let meta = fs::metadata(scene.base.join("store/fifo")).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o600);
    assert_eq!(scene.read("large-2"), "x");
    let rules = scene.rules();
    let told = rules.iter().filter(|rule| rule.contains("outside of the workspace"));
    assert_eq!(told.count(), 3, "{rules:?}");
}

#[test]
fn a_name_that_went_does_not_hide_one_that_came_outside() {
    let scene = Scene::new(Mode::Edit);
    let ways = ["unlink", "renamed-over", "taken", "person", "other"];
    let store = scene.base.join("store");
    fs::create_dir_all(&store).unwrap();
    scene.run(|s| {
        for way in ways {
            s.granted(way, write_file(way, O_WRONLY | O_CREAT, "original"));
            s.granted("linked", path2(SYS_link, way, &format!("{way}-2")));
            s.granted("counted", write_file(way, O_WRONLY, "original"));
        }
    });
    for way in ways {
        fs::hard_link(scene.w.join(way), store.join(way)).unwrap();
    }
    let second = Scene::on(scene.base.clone(), Mode::Edit, &[], false);
    second.run(|s| {
        s.granted("by another session", path1(SYS_unlink, "other-2", &[]));
    });
    fs::remove_file(scene.w.join("person-2")).unwrap();
    scene.run(|s| {
        s.granted("unlink", path1(SYS_unlink, "unlink-2", &[]));
        s.granted("new", write_file("new", O_WRONLY | O_CREAT, ""));
        s.granted("renamed over", path2(SYS_rename, "new", "renamed-over-2"));
        // The name that was counted goes to another file, which takes the place of it.
        s.granted("removed", path1(SYS_unlink, "taken-2", &[]));
        s.granted("taken", write_file("taken-2", O_WRONLY | O_CREAT, ""));
        for way in ways {
            let counted = fs::metadata(way).map(|meta| meta.nlink()).ok();
            s.equal("as many as were counted", counted, Some(2));
            s.granted(way, write_file(way, O_WRONLY, "evil"));
        }
    });
    for way in ways {
        assert_eq!(fs::read_to_string(store.join(way)).unwrap(), "original", "{way}");
        assert_eq!(scene.read(way), "evilinal", "{way}");
    }
}

#[test]
fn names_that_moved_are_names_within() {
    let scene = Scene::new(Mode::Edit);
    scene.write("d/a", "one");
    scene.run(|s| {
        s.granted("linked", path2(SYS_link, "d/a", "b"));
        s.granted("counted", write_file("b", O_WRONLY, "two"));
        s.granted("a file", path2(SYS_rename, "b", "c"));
        s.granted("its directory", path2(SYS_rename, "d", "e"));
        s.granted("written", write_file("c", O_WRONLY, "six"));
        s.granted("linked", path2(SYS_link, "c", "f"));
        s.granted("written", write_file("f", O_WRONLY, "ten"));
    });
    for name in ["e/a", "c", "f"] {
        let names = fs::metadata(scene.w.join(name)).unwrap().nlink();
        assert_eq!((names, scene.read(name).as_str()), (3, "ten"), "{name}");
    }
}
