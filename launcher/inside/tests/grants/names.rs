use super::harness::{
    CWD, Scene, close, container, fd_call, link_at, open, path_at, path1, path2, rename2, write_file,
};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_inside::mode::Mode;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

const NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;

#[test]
fn names_are_made_moved_and_removed() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "f");
    scene.write("full/x", "x");
    scene.run(|s| {
        s.granted("mkdir", path1(SYS_mkdir, "d", &[0o777]));
        s.granted("mkdir with slash", path1(SYS_mkdir, "d/e/", &[0o777]));
        s.refused("mkdir again", path1(SYS_mkdir, "d", &[0o777]), Errno::EEXIST);
        s.refused("mkdir on a file", path1(SYS_mkdir, "f/", &[0o777]), Errno::EEXIST);
        s.refused("mkdir .", path1(SYS_mkdir, ".", &[0o777]), Errno::EEXIST);
        s.refused("mkdir below a file", path1(SYS_mkdir, "f/g", &[0o777]), Errno::ENOTDIR);
        s.granted("symlink", path2(SYS_symlink, "anything at all", "d/l"));
        s.refused("symlink again", path2(SYS_symlink, "x", "d/l"), Errno::EEXIST);
        s.refused(
            "mkdir on a dangling link",
            path1(SYS_mkdir, "d/l", &[0o777]),
            Errno::EEXIST,
        );
        s.granted("link", path2(SYS_link, "f", "d/f2"));
        s.refused("link again", path2(SYS_link, "f", "d/f2"), Errno::EEXIST);
        s.refused("link of nothing", path2(SYS_link, "none", "d/n"), Errno::ENOENT);
        s.refused("link of a directory", path2(SYS_link, "d", "d2"), Errno::EPERM);
        s.granted("rename", path2(SYS_rename, "d/f2", "d/f3"));
        s.granted("rename a directory", path2(SYS_rename, "d", "moved"));
        s.granted("rename with slashes", path2(SYS_rename, "moved/", "d/"));
        s.refused("rename nothing", path2(SYS_rename, "none", "x"), Errno::ENOENT);
        s.refused(
            "rename onto a full directory",
            path2(SYS_rename, "d", "full"),
            Errno::ENOTEMPTY,
        );
        s.refused("rename into itself", path2(SYS_rename, "d", "d/e/d"), Errno::EINVAL);
        s.refused("no replacing", rename2("f", "d/f3", RENAME_NOREPLACE), Errno::EEXIST);
        s.refused(
            "exchange with nothing",
            rename2("f", "none", RENAME_EXCHANGE),
            Errno::ENOENT,
        );
        s.granted("exchange", rename2("f", "d/e", RENAME_EXCHANGE));
        s.granted("and back", rename2("f", "d/e", RENAME_EXCHANGE));
        s.refused("rename .", path2(SYS_rename, ".", "x"), Errno::EBUSY);
        s.refused("unknown flag", rename2("f", "g", 8), Errno::EINVAL);
        s.refused("rmdir full", path1(SYS_rmdir, "full", &[]), Errno::ENOTEMPTY);
        s.refused("rmdir a file", path1(SYS_rmdir, "f", &[]), Errno::ENOTDIR);
        s.refused("rmdir .", path1(SYS_rmdir, ".", &[]), Errno::EINVAL);
        s.refused("unlink a directory", path1(SYS_unlink, "d", &[]), Errno::EISDIR);
        s.refused("unlink with slash", path1(SYS_unlink, "f/", &[]), Errno::ENOTDIR);
        s.refused("unlink nothing", path1(SYS_unlink, "none", &[]), Errno::ENOENT);
        s.granted("rmdir", path1(SYS_rmdir, "d/e/", &[]));
        s.granted("unlink", path1(SYS_unlink, "d/l", &[]));
        s.granted("unlinkat", path_at(SYS_unlinkat, CWD, "d/f3", &[0]));
        s.refused(
            "unlinkat, unknown flag",
            path_at(SYS_unlinkat, CWD, "f", &[1]),
            Errno::EINVAL,
        );
        s.granted("removedir", path_at(SYS_unlinkat, CWD, "d", &[AT_REMOVEDIR.into()]));
    });
    assert_eq!(scene.read("f"), "f");
    assert!(!scene.w.join("d").exists());
}

#[test]
fn read_only_mode_refuses_each_of_them() {
    let scene = Scene::new(Mode::ReadOnly);
    scene.write("f", "f");
    scene.write("d/x", "x");
    let out = scene.out.join("o").to_string_lossy().into_owned();
    fs::write(&out, "o").unwrap();
    let calls = |s: &super::harness::Checks, errno: Option<Errno>| {
        let check = |what: &str, got| match errno {
            Some(errno) => s.refused(what, got, errno),
            None => drop(s.granted(what, got)),
        };
        check("mkdir", path1(SYS_mkdir, "n1", &[0o777]));
        check("symlink", path2(SYS_symlink, "x", "n2"));
        check("mknod", path1(SYS_mknod, "n3", &[(S_IFREG | 0o600).into(), 0]));
        check("mkfifo", path1(SYS_mknod, "n4", &[(S_IFIFO | 0o600).into(), 0]));
        check("socket file", path1(SYS_mknod, "n5", &[(S_IFSOCK | 0o600).into(), 0]));
        check("link", path2(SYS_link, "f", "n6"));
        check("rename", path2(SYS_rename, "f", "n7"));
        check("back", path2(SYS_rename, "n7", "f"));
        check("exchange", rename2("f", "d", RENAME_EXCHANGE));
        check("exchange back", rename2("d", "f", RENAME_EXCHANGE));
    };
    scene.run(|s| {
        s.refused("back", path2(SYS_rename, "n7", "f"), Errno::ENOENT);
        for (what, got) in [
            ("mkdir", path1(SYS_mkdir, "n1", &[0o777])),
            ("symlink", path2(SYS_symlink, "x", "n2")),
            ("mknod", path1(SYS_mknod, "n3", &[(S_IFREG | 0o600).into(), 0])),
            ("mkfifo", path1(SYS_mknod, "n4", &[(S_IFIFO | 0o600).into(), 0])),
            ("link", path2(SYS_link, "f", "n6")),
            ("rename", path2(SYS_rename, "f", "n7")),
            ("exchange", rename2("f", "d", RENAME_EXCHANGE)),
            ("unlink", path1(SYS_unlink, "f", &[])),
            ("rmdir", path1(SYS_rmdir, "d", &[])),
            ("absolute", path1(SYS_unlink, &s.w.join("f").to_string_lossy(), &[])),
        ] {
            s.refused(what, got, Errno::EROFS);
        }
        s.refused("mkdir of what exists", path1(SYS_mkdir, "d", &[0o777]), Errno::EEXIST);
        s.refused("unlink of nothing", path1(SYS_unlink, "none", &[]), Errno::ENOENT);
        s.refused("out of it", path2(SYS_rename, "f", &out), Errno::EXDEV);
        s.refused("into it", path2(SYS_rename, &out, "f"), Errno::EXDEV);
    });
    assert_eq!(scene.read("f"), "f");
    assert_eq!(fs::read_dir(&scene.w).unwrap().count(), 2);
    // The control: the same calls.
    scene.grants.set_mode(Mode::Edit);
    scene.run(|s| calls(s, None));
}

#[test]
fn nothing_crosses_the_boundary() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "f");
    let out = |name: &str| scene.out.join(name).to_string_lossy().into_owned();
    fs::write(out("o"), "o").unwrap();
    symlink(&scene.out, scene.w.join("leads-out")).unwrap();
    scene.run(|s| {
        s.refused("rename out", path2(SYS_rename, "f", &out("f")), Errno::EXDEV);
        s.refused("rename in", path2(SYS_rename, &out("o"), "o"), Errno::EXDEV);
        s.refused("link out", path2(SYS_link, "f", &out("f")), Errno::EXDEV);
        s.refused("link in", path2(SYS_link, &out("o"), "o"), Errno::EXDEV);
        s.refused("through a link", path2(SYS_rename, "f", "leads-out/f"), Errno::EXDEV);
        s.granted("outside, by the kernel", path2(SYS_rename, &out("o"), &out("o2")));
        s.granted("through a link, by the kernel", write_file("leads-out/made", NEW, "x"));
        // The workspace itself is a mount point, or lies where nothing may be changed.
        let (away, removed) = if container() {
            (Errno::EACCES, Errno::EACCES)
        } else {
            (Errno::EXDEV, Errno::EBUSY)
        };
        s.refused(
            "the root away",
            path2(SYS_rename, &s.w.to_string_lossy(), &out("w")),
            away,
        );
        s.refused(
            "the root removed",
            path1(SYS_rmdir, &s.w.to_string_lossy(), &[]),
            removed,
        );
        s.refused(
            "the root made",
            path1(SYS_mkdir, &s.w.to_string_lossy(), &[0o777]),
            Errno::EEXIST,
        );
        s.granted("the root's mode", path1(SYS_chmod, &s.w.to_string_lossy(), &[0o755]));
    });
    assert_eq!(scene.read("f"), "f");
}

#[test]
fn unusual_names_and_directories() {
    let scene = Scene::new(Mode::Edit);
    fs::create_dir(scene.w.join("setgid")).unwrap();
    fs::set_permissions(scene.w.join("setgid"), fs::Permissions::from_mode(0o2777)).unwrap();
    scene.run(|s| {
        let odd = OsStr::from_bytes(b"\xff\xfe odd \n name");
        s.equal("non-UTF-8", fs::write(odd, "odd").is_ok(), true);
        s.equal("moved", fs::rename(odd, OsStr::from_bytes(b"\x80")).is_ok(), true);
        let long = "n".repeat(255);
        s.granted("255 bytes", write_file(&long, NEW, "long"));
        // A path of 3,600 bytes.
        let mut path = String::new();
        for _ in 0..18 {
            path += &"d".repeat(199);
            s.granted("deep", path1(SYS_mkdir, &path, &[0o777]));
            path += "/";
        }
        s.granted("deep file", write_file(&format!("{path}f"), NEW, "deep"));
        s.equal(
            "deep content",
            fs::read_to_string(format!("{path}f")).ok().as_deref(),
            Some("deep"),
        );
        s.granted("setgid", path1(SYS_mkdir, "setgid/below", &[0o755]));
        s.equal(
            "setgid is handed down",
            fs::metadata("setgid/below").map(|m| m.mode() & 0o2000).unwrap_or(0),
            0o2000,
        );
        let dir = s.granted("directory", open("setgid", O_RDONLY | O_DIRECTORY, 0));
        let path_only = s.granted("directory, O_PATH", open("setgid", O_PATH | O_DIRECTORY, 0));
        for fd in [dir, path_only] {
            close(s.granted("relative to it", path_at(SYS_openat, fd, "in", &[NEW.into(), 0o644])));
            s.granted("and removed", path_at(SYS_unlinkat, fd, "in", &[0]));
        }
        s.refused(
            "relative to a file",
            path_at(SYS_mkdirat, s.granted("f", open(&long, O_RDONLY, 0)), "x", &[0o777]),
            Errno::ENOTDIR,
        );
        s.refused(
            "relative to nothing",
            path_at(SYS_mkdirat, 999, "x", &[0o777]),
            Errno::EBADF,
        );
        s.granted("chdir", path1(SYS_mkdir, "gone", &[0o777]));
        s.equal("chdir", std::env::set_current_dir("gone").is_ok(), true);
        s.granted("cwd removed", path1(SYS_rmdir, "../gone", &[]));
        s.refused("create in it", open("x", NEW, 0o666), Errno::ENOENT);
        s.refused("mkdir in it", path1(SYS_mkdir, "x", &[0o777]), Errno::ENOENT);
        s.granted(
            "out of it",
            write_file(&s.w.join("out-of-it").to_string_lossy(), NEW, "x"),
        );
        s.equal("back", fd_call(SYS_fchdir, dir, &[]).is_ok(), true);
        s.granted("and there", write_file("back", NEW, "x"));
    });
    assert!(scene.w.join("setgid/back").exists());
    assert_eq!(fs::read(scene.w.join(OsStr::from_bytes(b"\x80"))).unwrap(), b"odd");
}

#[test]
fn special_files() {
    let scene = Scene::new(Mode::Edit);
    scene.run(|s| {
        s.granted("fifo", path1(SYS_mknod, "fifo", &[(S_IFIFO | 0o600).into(), 0]));
        s.granted("regular", path1(SYS_mknod, "regular", &[0o600, 0]));
        s.granted("socket", path1(SYS_mknod, "socket", &[(S_IFSOCK | 0o600).into(), 0]));
        s.refused(
            "character device",
            path1(SYS_mknod, "c", &[(S_IFCHR | 0o600).into(), 0x103]),
            Errno::EPERM,
        );
        s.refused(
            "block device",
            path1(SYS_mknod, "b", &[(S_IFBLK | 0o600).into(), 0x103]),
            Errno::EPERM,
        );
        s.refused("whiteout", rename2("regular", "x", RENAME_WHITEOUT), Errno::EPERM);
        s.refused("socket is not opened", open("socket", O_WRONLY, 0), Errno::ENXIO);
    });
    assert!(fs::metadata(scene.w.join("fifo")).unwrap().file_type().is_fifo());
    assert!(fs::metadata(scene.w.join("socket")).unwrap().file_type().is_socket());
}

#[test]
fn a_link_is_not_followed_where_it_is_not() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "f");
    symlink("f", scene.w.join("l")).unwrap();
    scene.run(|s| {
        s.granted("a link of the link", link_at(CWD, "l", "l2", 0));
        s.granted("a link of the file", link_at(CWD, "l", "f2", AT_SYMLINK_FOLLOW));
        s.granted("a directory", path1(SYS_mkdir, "dir", &[0o777]));
        s.granted("a link to it", path2(SYS_symlink, "dir", "dl"));
        s.refused("rmdir of the link", path1(SYS_rmdir, "dl/", &[]), Errno::ENOTDIR);
        s.refused("rename of the link", path2(SYS_rename, "dl/", "moved"), Errno::ENOTDIR);
        s.granted("chmod through the link", path1(SYS_chmod, "dl/", &[0o700]));
        s.granted("a dangling link", path2(SYS_symlink, "nowhere", "dangling"));
        s.refused("mkdir on it", path1(SYS_mkdir, "dangling/", &[0o777]), Errno::EEXIST);
        s.granted("the link moves", path2(SYS_rename, "l", "l3"));
        s.granted("the link goes", path1(SYS_unlink, "l3", &[]));
    });
    let kind = |name: &str| fs::symlink_metadata(scene.w.join(name)).unwrap().file_type();
    assert!(kind("l2").is_symlink() && kind("f2").is_file() && kind("f").is_file());
}
