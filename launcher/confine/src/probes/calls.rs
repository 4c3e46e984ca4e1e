//! Raw calls in the shapes that attempts need.

use super::{Stop, Tried};
use crate::attempt::{self, Arg};
use nix::errno::Errno;

pub(super) type Called = std::result::Result<i64, Errno>;

/// A call with the arguments given, the others 0.
pub(super) fn sys<const N: usize>(nr: i64, args: [Arg<'_>; N]) -> Called {
    let mut given = args.into_iter();
    attempt::syscall(nr, std::array::from_fn(|_| given.next().unwrap_or(Arg::Null)))
}

/// A call whose arguments are numbers.
pub(super) fn num(nr: i64, args: &[i64]) -> Called {
    attempt::numbers(nr, args)
}

pub(super) fn c(path: &str) -> Vec<u8> {
    let mut bytes = path.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn ints<const N: usize>(args: &[i64]) -> [Arg<'static>; N] {
    std::array::from_fn(|i| Arg::Int(args.get(i).copied().unwrap_or(0)))
}

/// A call whose first argument is a path.
pub(super) fn on(nr: i64, path: &str, rest: &[i64]) -> Called {
    let [b, d, e, f, g]: [Arg<'_>; 5] = ints(rest);
    sys(nr, [Arg::In(&c(path)), b, d, e, f, g])
}

/// A call whose first two arguments are a directory's descriptor and a path.
pub(super) fn at(nr: i64, dir: i64, path: &str, rest: &[i64]) -> Called {
    let [d, e, f, g]: [Arg<'_>; 4] = ints(rest);
    sys(nr, [Arg::Int(dir), Arg::In(&c(path)), d, e, f, g])
}

/// A call whose first two arguments are paths.
pub(super) fn two(nr: i64, from: &str, to: &str) -> Called {
    sys(nr, [Arg::In(&c(from)), Arg::In(&c(to))])
}

/// A call on two paths relative to descriptors, with flags.
pub(super) fn two_at(nr: i64, from: (i64, &str), to: (i64, &str), flags: i64) -> Called {
    let (a, b) = (c(from.1), c(to.1));
    sys(
        nr,
        [
            Arg::Int(from.0),
            Arg::In(&a),
            Arg::Int(to.0),
            Arg::In(&b),
            Arg::Int(flags),
        ],
    )
}

pub(super) const CWD: i64 = libc::AT_FDCWD as i64;

pub(super) fn open(path: &str, flags: i32) -> Called {
    at(libc::SYS_openat, CWD, path, &[flags.into(), 0o644])
}

pub(super) fn open_at(dir: i64, path: &str, flags: i32) -> Called {
    at(libc::SYS_openat, dir, path, &[flags.into(), 0o644])
}

/// One `iovec` of that memory.
pub(super) fn vector(buffer: &[u8]) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&(buffer.as_ptr() as u64).to_ne_bytes());
    bytes[8..].copy_from_slice(&(buffer.len() as u64).to_ne_bytes());
    bytes
}

/// One `mmsghdr`, whose start is a `msghdr`, that sends one vector to an address.
pub(super) fn message(address: &[u8], vector: &[u8; 16]) -> [u8; 64] {
    let mut bytes = [0u8; 64];
    bytes[..8].copy_from_slice(&(address.as_ptr() as u64).to_ne_bytes());
    bytes[8..12].copy_from_slice(&(address.len() as u32).to_ne_bytes());
    bytes[16..24].copy_from_slice(&(vector.as_ptr() as u64).to_ne_bytes());
    bytes[24] = 1;
    bytes
}

/// The attack: a result is an escape, an error its refusal.
pub(super) fn attack(result: Called) -> Tried {
    result.map(drop).map_err(Stop::Refused)
}

/// The attack, where these errors only come from behind every permission check.
pub(super) fn reach(result: Called, behind: &[Errno]) -> Tried {
    match result {
        Err(errno) if behind.contains(&errno) => Ok(()),
        other => attack(other),
    }
}

/// A step before the attack.
pub(super) fn prepared(step: &'static str, result: Called) -> std::result::Result<i64, Stop> {
    result.map_err(|errno| Stop::Unprepared(step, errno))
}

/// Makes a new file in the workspace (edit mode allows that) and gives its path.
pub(super) fn plain_file(setting: &super::Setting) -> std::result::Result<String, Stop> {
    file_with(setting, "plain", b"plain\n")
}

/// Makes a new file of this content in the workspace.
pub(super) fn file_with(setting: &super::Setting, name: &str, content: &[u8]) -> std::result::Result<String, Stop> {
    let path = setting.work(&format!("{name}-{}", std::process::id()))?;
    let fd = prepared(
        "a plain file",
        open(&path, libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY),
    )?;
    prepared(
        "its content",
        sys(
            libc::SYS_write,
            [Arg::Int(fd), Arg::In(content), Arg::Int(content.len() as i64)],
        ),
    )?;
    prepared("its end", num(libc::SYS_close, &[fd]))?;
    Ok(path)
}

/// Makes a new directory in the workspace.
pub(super) fn plain_directory(setting: &super::Setting) -> std::result::Result<String, Stop> {
    let path = setting.work(&format!("directory-{}", std::process::id()))?;
    prepared("a plain directory", on(libc::SYS_mkdir, &path, &[0o755]))?;
    Ok(path)
}
