use super::harness::{CWD, Checks, Scene, fd_call, open, path_at, path1};
use nix::libc::*;
use picktwo_confine::Errno;
use picktwo_confine::attempt::{Arg, syscall};
use picktwo_inside::mode::Mode;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

fn times(nr: i64, dir: i64, path: Option<&str>, flags: i32, at: i64) -> Result<i64, Errno> {
    let bytes: Vec<u8> = [at, 0, at, 0].iter().flat_map(|n: &i64| n.to_le_bytes()).collect();
    let path = path.map(|p| [p.as_bytes(), b"\0"].concat());
    let path = path.as_ref().map_or(Arg::Null, |p| Arg::In(p));
    match nr {
        n if n == SYS_utimensat => syscall(
            nr,
            [
                Arg::Int(dir),
                path,
                Arg::In(&bytes),
                Arg::Int(flags.into()),
                Arg::Null,
                Arg::Null,
            ],
        ),
        n if n == SYS_futimesat => syscall(
            nr,
            [Arg::Int(dir), path, Arg::In(&bytes), Arg::Null, Arg::Null, Arg::Null],
        ),
        _ => syscall(nr, [path, Arg::In(&bytes), Arg::Null, Arg::Null, Arg::Null, Arg::Null]),
    }
}

fn set(nr: i64, first: Arg<'_>, name: &str, value: &str, flags: i64) -> Result<i64, Errno> {
    let name = [name.as_bytes(), b"\0"].concat();
    syscall(
        nr,
        [
            first,
            Arg::In(&name),
            Arg::In(value.as_bytes()),
            Arg::Int(value.len() as i64),
            Arg::Int(flags),
            Arg::Null,
        ],
    )
}

fn mtime(name: &str) -> i64 {
    fs::symlink_metadata(name).map_or(-1, |m| m.mtime())
}

fn mode(name: &str) -> u32 {
    fs::metadata(name).map_or(0, |m| m.mode() & 0o7777)
}

/// Every call that changes metadata, with what it changes. `None`: granted.
fn all(s: &Checks, errno: Option<Errno>) {
    let check = |what: &str, got: Result<i64, Errno>| match errno {
        Some(errno) => s.refused(what, got, errno),
        None => drop(s.granted(what, got)),
    };
    let fd = open("f", O_RDONLY, 0).unwrap_or(-1);
    let uid = i64::from(nix::unistd::getuid().as_raw());
    check("chmod", path1(SYS_chmod, "f", &[0o640]));
    check("fchmod", fd_call(SYS_fchmod, fd, &[0o641]));
    check("fchmodat", path_at(SYS_fchmodat, CWD, "f", &[0o642]));
    check("fchmodat2", path_at(SYS_fchmodat2, CWD, "f", &[0o643, 0]));
    check("chmod of a directory", path1(SYS_chmod, "d/", &[0o750]));
    check(
        "chmod by /proc",
        path1(SYS_chmod, &format!("/proc/self/fd/{fd}"), &[0o644]),
    );
    check("chown", path1(SYS_chown, "f", &[uid, -1]));
    check("lchown", path1(SYS_lchown, "l", &[uid, -1]));
    check("fchown", fd_call(SYS_fchown, fd, &[-1, -1]));
    check("fchownat", path_at(SYS_fchownat, CWD, "f", &[uid, -1, 0]));
    check("utimes", times(SYS_utimes, CWD, Some("f"), 0, 1000));
    check("futimesat", times(SYS_futimesat, CWD, Some("f"), 0, 2000));
    check("futimesat by descriptor", times(SYS_futimesat, fd, None, 0, 3000));
    check("utimensat", times(SYS_utimensat, CWD, Some("f"), 0, 4000));
    check(
        "utimensat of a link",
        times(SYS_utimensat, CWD, Some("l"), AT_SYMLINK_NOFOLLOW, 5000),
    );
    check("utimensat by descriptor", times(SYS_utimensat, fd, None, 0, 6000));
    check("utime to now", path1(SYS_utime, "d", &[0]));
    check("setxattr", set(SYS_setxattr, Arg::In(b"f\0"), "user.a", "1", 0));
    check("fsetxattr", set(SYS_fsetxattr, Arg::Int(fd), "user.b", "2", 0));
    check("lsetxattr", set(SYS_lsetxattr, Arg::In(b"f\0"), "user.c", "3", 0));
    if errno.is_none() {
        s.refused(
            "only new",
            set(SYS_setxattr, Arg::In(b"f\0"), "user.a", "1", XATTR_CREATE.into()),
            Errno::EEXIST,
        );
    }
    check(
        "removexattr",
        syscall(
            SYS_removexattr,
            [
                Arg::In(b"f\0"),
                Arg::In(b"user.a\0"),
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        ),
    );
    check(
        "fremovexattr",
        syscall(
            SYS_fremovexattr,
            [
                Arg::Int(fd),
                Arg::In(b"user.b\0"),
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        ),
    );
    check("truncate", path1(SYS_truncate, "t", &[3]));
}

#[test]
fn metadata_is_changed_in_edit_mode_only() {
    let scene = Scene::new(Mode::ReadOnly);
    scene.write("f", "content");
    scene.write("t", "content");
    fs::create_dir(scene.w.join("d")).unwrap();
    symlink("f", scene.w.join("l")).unwrap();
    let before = |name: &str| {
        fs::symlink_metadata(scene.w.join(name))
            .map(|m| (m.mode(), m.mtime(), m.size(), m.ctime_nsec()))
            .unwrap()
    };
    let state = [before("f"), before("t"), before("d"), before("l")];
    scene.run(|s| all(s, Some(Errno::EROFS)));
    assert_eq!(state, [before("f"), before("t"), before("d"), before("l")]);
    scene.grants.set_mode(Mode::Edit);
    scene.run(|s| {
        all(s, None);
        s.equal("mode", mode("f"), 0o644);
        s.equal("time", mtime("f"), 6000);
        s.equal("time of the link", mtime("l"), 5000);
    });
    assert_eq!(scene.read("t"), "con");
}

#[test]
fn errors_are_the_kernels() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "content");
    fs::create_dir(scene.w.join("d")).unwrap();
    symlink("none", scene.w.join("l")).unwrap();
    scene.run(|s| {
        s.refused("absent", path1(SYS_chmod, "none", &[0o600]), Errno::ENOENT);
        s.refused("dangling", path1(SYS_chmod, "l", &[0o600]), Errno::ENOENT);
        s.refused(
            "link's own mode",
            path_at(SYS_fchmodat2, CWD, "l", &[0o600, AT_SYMLINK_NOFOLLOW.into()]),
            Errno::EOPNOTSUPP,
        );
        s.refused(
            "unknown flag",
            path_at(SYS_fchmodat2, CWD, "f", &[0o600, 1]),
            Errno::EINVAL,
        );
        s.refused("bad descriptor", fd_call(SYS_fchmod, 999, &[0o600]), Errno::EBADF);
        let path_only = s.granted("O_PATH", open("f", O_PATH, 0));
        s.refused("O_PATH", fd_call(SYS_fchmod, path_only, &[0o600]), Errno::EBADF);
        s.granted(
            "O_PATH by /proc",
            path1(SYS_chmod, &format!("/proc/self/fd/{path_only}"), &[0o600]),
        );
        s.granted(
            "O_PATH by an empty path",
            path_at(SYS_fchmodat2, path_only, "", &[0o601, AT_EMPTY_PATH.into()]),
        );
        s.refused("another's file", path1(SYS_chown, "f", &[12345, -1]), Errno::EPERM);
        s.refused("truncate a directory", path1(SYS_truncate, "d", &[0]), Errno::EISDIR);
        s.refused("negative length", path1(SYS_truncate, "f", &[-1]), Errno::EINVAL);
        s.refused("no name", set(SYS_setxattr, Arg::In(b"f\0"), "", "1", 0), Errno::ERANGE);
        s.refused(
            "too long a name",
            set(SYS_setxattr, Arg::In(b"f\0"), &"n".repeat(256), "1", 0),
            Errno::ERANGE,
        );
        s.refused(
            "capabilities",
            set(SYS_setxattr, Arg::In(b"f\0"), "security.capability", "1", 0),
            Errno::EPERM,
        );
        s.refused(
            "bad pointer",
            syscall(
                SYS_chmod,
                [Arg::Bad, Arg::Int(0o600), Arg::Null, Arg::Null, Arg::Null, Arg::Null],
            ),
            Errno::EFAULT,
        );
        s.refused(
            "bad times",
            syscall(
                SYS_utimensat,
                [
                    Arg::Int(CWD),
                    Arg::In(b"f\0"),
                    Arg::Bad,
                    Arg::Int(0),
                    Arg::Null,
                    Arg::Null,
                ],
            ),
            Errno::EFAULT,
        );
        // Descriptors of other kinds are the kernel's.
        let mut pair = [0u8; 8];
        let _ = syscall(
            SYS_pipe2,
            [
                Arg::Out(&mut pair),
                Arg::Int(0),
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        );
        s.granted(
            "a pipe's mode",
            fd_call(
                SYS_fchmod,
                i32::from_le_bytes(pair[..4].try_into().unwrap()).into(),
                &[0o600],
            ),
        );
        let gone = s.granted("unlinked", open("gone", O_RDWR | O_CREAT, 0o600));
        s.granted("unlink", path1(SYS_unlink, "gone", &[]));
        s.granted("mode of an unlinked file", fd_call(SYS_fchmod, gone, &[0o640]));
    });
}

#[test]
fn whether_a_file_may_be_written() {
    let scene = Scene::new(Mode::Edit);
    scene.write("f", "content");
    scene.write("CLAUDE.md", "content");
    scene.run(|s| {
        s.granted("access", path1(SYS_access, "f", &[W_OK.into()]));
        s.granted("faccessat", path_at(SYS_faccessat, CWD, "f", &[(W_OK | R_OK).into()]));
        s.granted(
            "faccessat2",
            path_at(SYS_faccessat2, CWD, ".", &[W_OK.into(), AT_EACCESS.into()]),
        );
        s.refused("absent", path1(SYS_access, "none", &[W_OK.into()]), Errno::ENOENT);
        s.refused(
            "protected",
            path1(SYS_access, "CLAUDE.md", &[W_OK.into()]),
            Errno::EACCES,
        );
        s.granted("outside", path1(SYS_access, "/dev/null", &[W_OK.into()]));
    });
    scene.grants.set_mode(Mode::ReadOnly);
    scene.run(|s| {
        s.refused("access", path1(SYS_access, "f", &[W_OK.into()]), Errno::EROFS);
        s.refused(
            "faccessat2",
            path_at(SYS_faccessat2, CWD, ".", &[W_OK.into(), AT_EACCESS.into()]),
            Errno::EROFS,
        );
        s.refused("absent", path1(SYS_access, "none", &[W_OK.into()]), Errno::ENOENT);
    });
}
