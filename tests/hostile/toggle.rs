//! Changes files without pause, and says which changes went through: `toggle DIR`, until there is a file `stop` in it. One line per call on standard output:
//! `NAME START END RESULT`, times in nanoseconds of the monotonic clock, result 0 or an errno.

use nix::{
    errno::Errno,
    libc,
    time::{ClockId, clock_gettime},
};
use picktwo_confine::attempt::{Arg, numbers, syscall};
use std::{env, io::Write as _};

const CWD: i64 = libc::AT_FDCWD as i64;

fn now() -> i128 {
    let t = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock");
    i128::from(t.tv_sec()) * 1_000_000_000 + i128::from(t.tv_nsec())
}

fn path(nr: i64, name: &[u8], more: i64) -> Result<i64, Errno> {
    syscall(
        nr,
        [
            Arg::In(name),
            Arg::Int(more),
            Arg::Int(0o644),
            Arg::Null,
            Arg::Null,
            Arg::Null,
        ],
    )
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let [_, dir] = words.as_slice() else {
        panic!("toggle DIR");
    };
    env::set_current_dir(dir).expect("the workspace");
    let until = now() + 60_000_000_000;
    let mut lines: Vec<(&str, i128, i128, i32)> = Vec::new();
    let mut done = |name: &'static str, call: &dyn Fn() -> Result<i64, Errno>| {
        let start = now();
        let result = call();
        lines.push((name, start, now(), result.err().map_or(0, |e| e as i32)));
        if let Ok(fd @ 3..) = result {
            let _ = numbers(libc::SYS_close, &[fd]);
        }
    };
    // `there` always exists and `made` never does, so that what is left in between never decides.
    while now() < until && path(libc::SYS_access, b"stop\0", 0).is_err() {
        done("open", &|| path(libc::SYS_open, b"there\0", libc::O_WRONLY.into()));
        done("create", &|| {
            path(
                libc::SYS_open,
                b"made\0",
                (libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL).into(),
            )
        });
        let _ = path(libc::SYS_unlink, b"made\0", 0);
        done("chmod", &|| path(libc::SYS_chmod, b"there\0", 0o644));
        done("rename", &|| {
            let (from, to) = (b"moved-a\0", b"moved-b\0");
            syscall(
                libc::SYS_renameat2,
                [
                    Arg::Int(CWD),
                    Arg::In(from),
                    Arg::Int(CWD),
                    Arg::In(to),
                    Arg::Int(2),
                    Arg::Null,
                ],
            )
        });
        done("mkdir", &|| path(libc::SYS_mkdir, b"dir\0", 0o755));
        let _ = path(libc::SYS_rmdir, b"dir\0", 0);
        done("unlink", &|| path(libc::SYS_unlink, b"comes-and-goes\0", 0));
        let again = path(
            libc::SYS_open,
            b"comes-and-goes\0",
            (libc::O_WRONLY | libc::O_CREAT).into(),
        );
        if let Ok(fd) = again {
            let _ = numbers(libc::SYS_close, &[fd]);
        }
        done("truncate", &|| path(libc::SYS_truncate, b"there\0", 0));
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (name, start, end, result) in lines {
        writeln!(out, "{name} {start} {end} {result}").expect("output");
    }
}
