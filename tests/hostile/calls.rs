//! Raw system calls on paths that other threads change while the kernel, or picktwo, reads them.

use crate::{Counts, names::EVIL};
use nix::{errno::Errno, libc};
use picktwo_confine::attempt::{Arg, numbers, syscall};
use picktwo_tests::random::Random;
use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

const CWD: i64 = libc::AT_FDCWD as i64;
const PAGE: usize = 4096;

#[repr(align(4096))]
struct Pages([AtomicU8; 2 * PAGE]);

struct Text {
    bytes: &'static [AtomicU8],
    meanings: [Vec<u8>; 2],
    second: AtomicBool,
}

/// A path in memory that any thread may change at any time. It is never freed.
#[derive(Clone, Copy)]
pub(crate) struct Name(&'static Text);

impl Name {
    pub(crate) fn new(path: &str) -> Self {
        Self::pair(path, path)
    }

    /// Means `a` at first, `b` after a flip. Both have the same length, so that a torn copy names nothing.
    pub(crate) fn pair(a: &str, b: &str) -> Self {
        Self::at(a, b, 0)
    }

    /// The path begins `before` bytes before a page's end.
    pub(crate) fn pair_at_page_edge(a: &str, b: &str, before: usize) -> Self {
        Self::at(a, b, PAGE - 1 - before % a.len())
    }

    fn at(a: &str, b: &str, offset: usize) -> Self {
        assert_eq!(a.len(), b.len(), "{a} and {b}");
        let meanings = [a, b].map(|m| CString::new(m).expect("no NUL").into_bytes_with_nul());
        let pages: &'static Pages = Box::leak(Box::new(Pages([const { AtomicU8::new(0) }; 2 * PAGE])));
        let bytes = &pages.0[offset..offset + meanings[0].len()];
        let name = Self(Box::leak(Box::new(Text {
            bytes,
            meanings,
            second: AtomicBool::new(true),
        })));
        name.flip();
        name
    }

    pub(crate) fn flip(self) {
        let second = !self.0.second.fetch_xor(true, Ordering::Relaxed);
        for (byte, value) in self.0.bytes.iter().zip(&self.0.meanings[usize::from(second)]) {
            byte.store(*value, Ordering::Relaxed);
        }
    }

    /// Its address as a number: the kernel reads it while others write it.
    fn arg(self) -> Arg<'static> {
        Arg::Int(self.0.bytes.as_ptr().expose_provenance().cast_signed() as i64)
    }
}

type Done = Result<i64, Errno>;

fn call(nr: i64, args: Vec<Arg<'_>>) -> Done {
    let mut args = args.into_iter();
    syscall(nr, std::array::from_fn(|_| args.next().unwrap_or(Arg::Null)))
}

fn close(fd: i64) {
    let _ = numbers(libc::SYS_close, &[fd]);
}

pub(crate) fn open(path: &Name, flags: i32, mode: i64) -> Done {
    // A FIFO must not hold up the attack.
    let flags = Arg::Int((flags | libc::O_NONBLOCK).into());
    call(libc::SYS_openat, vec![Arg::Int(CWD), path.arg(), flags, Arg::Int(mode)])
}

fn text(path: impl AsRef<Path>) -> Vec<u8> {
    CString::new(path.as_ref().as_os_str().as_bytes())
        .expect("no NUL")
        .into_bytes_with_nul()
}

/// Writes [`EVIL`] to a file, which is made if need be.
pub(crate) fn put(path: impl AsRef<Path>) -> bool {
    let path = text(path);
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_NONBLOCK;
    let done = call(
        libc::SYS_openat,
        vec![Arg::Int(CWD), Arg::In(&path), Arg::Int(flags.into()), Arg::Int(0o644)],
    );
    if let Ok(fd) = done {
        write_evil(fd);
        close(fd);
    }
    done.is_ok()
}

/// renameat2 with RENAME_EXCHANGE.
pub(crate) fn exchange(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Done {
    let (a, b) = (text(a), text(b));
    call(
        libc::SYS_renameat2,
        vec![Arg::Int(CWD), Arg::In(&a), Arg::Int(CWD), Arg::In(&b), Arg::Int(2)],
    )
}

fn write_evil(fd: i64) {
    let _ = call(
        libc::SYS_write,
        vec![Arg::Int(fd), Arg::In(EVIL.as_bytes()), Arg::Int(EVIL.len() as i64)],
    );
}

/// Every way to open for a change; what opens is written to.
pub(crate) fn open_and_write(path: &Name, random: &mut Random, counts: &mut Counts) {
    let flags = *random.of(&[
        libc::O_WRONLY,
        libc::O_RDWR,
        libc::O_WRONLY | libc::O_TRUNC,
        libc::O_WRONLY | libc::O_APPEND,
        libc::O_RDONLY | libc::O_TRUNC,
        libc::O_WRONLY | libc::O_CREAT,
        libc::O_RDONLY | libc::O_CREAT | libc::O_TRUNC,
        libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
        libc::O_WRONLY | libc::O_NOFOLLOW,
        libc::O_ACCMODE,
    ]) | libc::O_NONBLOCK;
    let how: Vec<u8> = [u64::from(flags.cast_unsigned()), 0o644, *random.of(&[0, 0, 0x08, 0x04])]
        .iter()
        .flat_map(|n| n.to_ne_bytes())
        .collect();
    let done = match random.below(4) {
        0 => call(
            libc::SYS_open,
            vec![path.arg(), Arg::Int(flags.into()), Arg::Int(0o644)],
        ),
        1 => call(libc::SYS_creat, vec![path.arg(), Arg::Int(0o644)]),
        2 if flags & libc::O_CREAT != 0 => call(
            libc::SYS_openat2,
            vec![Arg::Int(CWD), path.arg(), Arg::In(&how), Arg::Int(24)],
        ),
        _ => open(path, flags, 0o644),
    };
    counts.note("open", done.is_ok());
    if let Ok(fd) = done {
        write_evil(fd);
        // The high half of a 32-bit argument is not looked at by the kernel.
        let _ = numbers(libc::SYS_fchmod, &[fd | (1 << 40), 0o777]);
        close(fd);
    }
}

/// Calls that take two paths, either of which may change its meaning.
pub(crate) fn two_paths(a: &Name, b: &Name, random: &mut Random, counts: &mut Counts) {
    let (a, b) = if random.below(2) == 0 { (a, b) } else { (b, a) };
    let flags = Arg::Int(*random.of(&[0, 0, 1, 2, 4]));
    let done = match random.below(6) {
        0 => call(libc::SYS_rename, vec![a.arg(), b.arg()]),
        1 => call(libc::SYS_renameat, vec![Arg::Int(CWD), a.arg(), Arg::Int(CWD), b.arg()]),
        2 => call(
            libc::SYS_renameat2,
            vec![Arg::Int(CWD), a.arg(), Arg::Int(CWD), b.arg(), flags],
        ),
        3 => call(libc::SYS_link, vec![a.arg(), b.arg()]),
        4 => call(
            libc::SYS_linkat,
            vec![
                Arg::Int(CWD),
                a.arg(),
                Arg::Int(CWD),
                b.arg(),
                Arg::Int(libc::AT_SYMLINK_FOLLOW.into()),
            ],
        ),
        _ => call(libc::SYS_symlink, vec![a.arg(), b.arg()]),
    };
    counts.note("two paths", done.is_ok());
}

/// Mode, owner, times, attributes, size by path.
pub(crate) fn metadata(path: &Name, random: &mut Random, counts: &mut Counts) {
    let times: Vec<u8> = [1i64, 1, 1, 1].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let attribute = b"user.evil\0";
    let done = match random.below(12) {
        0 => call(libc::SYS_chmod, vec![path.arg(), Arg::Int(0o777)]),
        1 => call(libc::SYS_fchmodat, vec![Arg::Int(CWD), path.arg(), Arg::Int(0o666)]),
        2 => call(452, vec![Arg::Int(CWD), path.arg(), Arg::Int(0o606), Arg::Int(0)]),
        3 => call(libc::SYS_truncate, vec![path.arg(), Arg::Int(3)]),
        4 => call(
            libc::SYS_utimensat,
            vec![Arg::Int(CWD), path.arg(), Arg::In(&times), Arg::Int(0)],
        ),
        5 => call(libc::SYS_utimes, vec![path.arg(), Arg::In(&times)]),
        6 => call(libc::SYS_utime, vec![path.arg(), Arg::In(&times)]),
        7 => call(libc::SYS_futimesat, vec![Arg::Int(CWD), path.arg(), Arg::In(&times)]),
        8 => call(
            libc::SYS_setxattr,
            vec![path.arg(), Arg::In(attribute), Arg::In(b"x"), Arg::Int(1), Arg::Int(0)],
        ),
        9 => call(libc::SYS_removexattr, vec![path.arg(), Arg::In(attribute)]),
        10 => call(libc::SYS_lchown, vec![path.arg(), Arg::Int(-1), Arg::Int(-1)]),
        _ => call(
            463,
            vec![
                Arg::Int(CWD),
                path.arg(),
                Arg::Int(0),
                Arg::In(attribute),
                Arg::In(&times),
                Arg::Int(16),
            ],
        ),
    };
    counts.note("metadata", done.is_ok());
}

/// Removal. Ordinary files come back by the other calls.
pub(crate) fn remove(path: &Name, random: &mut Random, counts: &mut Counts) {
    let done = match random.below(3) {
        0 => call(libc::SYS_unlink, vec![path.arg()]),
        1 => call(libc::SYS_unlinkat, vec![Arg::Int(CWD), path.arg(), Arg::Int(0)]),
        _ => call(libc::SYS_rmdir, vec![path.arg()]),
    };
    counts.note("remove", done.is_ok());
}

/// A file without a name gets this one.
pub(crate) fn create(path: &Name, random: &mut Random, counts: &mut Counts) {
    let dot = Name::new_once(".");
    let Ok(fd) = open(&dot, libc::O_TMPFILE | libc::O_RDWR, 0o644) else {
        counts.note("nameless", false);
        return;
    };
    counts.note("nameless", true);
    write_evil(fd);
    let by_name = text(format!("/proc/self/fd/{fd}"));
    let done = if random.below(2) == 0 {
        call(
            libc::SYS_linkat,
            vec![
                Arg::Int(CWD),
                Arg::In(&by_name),
                Arg::Int(CWD),
                path.arg(),
                Arg::Int(libc::AT_SYMLINK_FOLLOW.into()),
            ],
        )
    } else {
        call(
            libc::SYS_linkat,
            vec![
                Arg::Int(fd),
                Arg::In(b"\0"),
                Arg::Int(CWD),
                path.arg(),
                Arg::Int(libc::AT_EMPTY_PATH.into()),
            ],
        )
    };
    counts.note("named", done.is_ok());
    close(fd);
}

/// A descriptor for reading becomes one for writing, by its names and by the calls that take descriptors.
pub(crate) fn reopen(path: &Name, random: &mut Random, counts: &mut Counts) {
    let flags = *random.of(&[libc::O_RDONLY, libc::O_PATH, libc::O_PATH | libc::O_NOFOLLOW]);
    let Ok(fd) = open(path, flags | libc::O_CLOEXEC, 0) else {
        counts.note("open to read", false);
        return;
    };
    counts.note("open to read", true);
    let times: Vec<u8> = [2i64, 2, 2, 2].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let names = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"].map(|n| text(format!("{n}{fd}")));
    for name in &names {
        let again = call(
            libc::SYS_openat,
            vec![
                Arg::Int(CWD),
                Arg::In(name),
                Arg::Int((libc::O_RDWR | libc::O_TRUNC | libc::O_NONBLOCK).into()),
            ],
        );
        counts.note("open again", again.is_ok());
        if let Ok(again) = again {
            write_evil(again);
            close(again);
        }
    }
    let name = &names[random.below(3)];
    let linked = text(format!("stolen-{}", random.below(4)));
    let follow = Arg::Int(libc::AT_SYMLINK_FOLLOW.into());
    for done in [
        numbers(libc::SYS_fchmod, &[fd, 0o777]),
        numbers(libc::SYS_fchown, &[fd, -1, -1]),
        numbers(libc::SYS_ftruncate, &[fd, 1]),
        call(
            libc::SYS_utimensat,
            vec![Arg::Int(fd), Arg::Null, Arg::In(&times), Arg::Int(0)],
        ),
        call(
            libc::SYS_fsetxattr,
            vec![
                Arg::Int(fd),
                Arg::In(b"user.evil\0"),
                Arg::In(b"x"),
                Arg::Int(1),
                Arg::Int(0),
            ],
        ),
        // FS_IOC_SETFLAGS: no dump.
        call(
            libc::SYS_ioctl,
            vec![Arg::Int(fd), Arg::Int(0x4008_6602), Arg::In(&64i64.to_ne_bytes())],
        ),
        call(
            libc::SYS_linkat,
            vec![Arg::Int(CWD), Arg::In(name), Arg::Int(CWD), Arg::In(&linked), follow],
        ),
        call(libc::SYS_chmod, vec![Arg::In(name), Arg::Int(0o777)]),
        call(libc::SYS_truncate, vec![Arg::In(name), Arg::Int(0)]),
        call(
            libc::SYS_setxattr,
            vec![
                Arg::In(name),
                Arg::In(b"user.evil\0"),
                Arg::In(b"x"),
                Arg::Int(1),
                Arg::Int(0),
            ],
        ),
    ] {
        counts.note("by descriptor", done.is_ok());
    }
    put(std::ffi::OsStr::from_bytes(&linked[..linked.len() - 1]));
    close(fd);
}

/// Arguments that are no paths: nothing mapped, the kernel's half, one byte before the end of the stack's last page.
pub(crate) fn bad_arguments(counts: &mut Counts) {
    let end = std::fs::read_to_string("/proc/self/maps")
        .ok()
        .and_then(|maps| {
            maps.lines().find(|l| l.ends_with("[stack]")).and_then(|l| {
                let end = l.split(['-', ' ']).nth(1)?;
                i64::from_str_radix(end, 16).ok()
            })
        })
        .unwrap_or(8);
    for address in [0, 8, -1, -4096, i64::MIN, end - 1, end - 8, end - 9, end] {
        for (nr, at) in [
            (libc::SYS_openat, 1),
            (libc::SYS_mkdirat, 1),
            (libc::SYS_unlink, 0),
            (libc::SYS_rename, 0),
            (libc::SYS_chmod, 0),
        ] {
            let mut args = [CWD, 0, i64::from(libc::O_WRONLY | libc::O_CREAT), 0o644, 0, 0];
            args[at] = address;
            if at == 0 {
                args[1] = address;
            }
            counts.note("bad argument", numbers(nr, &args).is_ok());
        }
    }
}

/// Relative to descriptors of directories, in whatever place those are at that moment.
pub(crate) fn by_directory(random: &mut Random, counts: &mut Counts) {
    static DIRECTORIES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
        let all = [
            ".git",
            ".claude",
            "nested",
            "swap",
            "turn",
            "/tmp/attack/swap",
            "ok-1",
            ".",
        ];
        all.iter().map(|path| crate::temporary(path)).collect()
    });
    let directory = random.of(&DIRECTORIES);
    let Ok(fd) = open(&Name::new_once(directory), libc::O_PATH | libc::O_DIRECTORY, 0) else {
        counts.note("directory", false);
        return;
    };
    counts.note("directory", true);
    for name in [
        "config",
        "hooks/pre-commit",
        "settings.json",
        "../.git/config",
        "../../canary/file",
        ".git/config",
        "new-hook",
    ] {
        let name = text(name);
        let done = call(
            libc::SYS_openat,
            vec![
                Arg::Int(fd),
                Arg::In(&name),
                Arg::Int((libc::O_WRONLY | libc::O_TRUNC | libc::O_NONBLOCK).into()),
            ],
        );
        counts.note("open in directory", done.is_ok());
        if let Ok(file) = done {
            write_evil(file);
            close(file);
        }
        if random.below(4) == 0 {
            let done = call(libc::SYS_unlinkat, vec![Arg::Int(fd), Arg::In(&name), Arg::Int(0)]);
            counts.note("remove in directory", done.is_ok());
        }
    }
    close(fd);
}

/// Files that are no regular ones, and directories, at a path that changes its meaning.
pub(crate) fn make(path: &Name, random: &mut Random, counts: &mut Counts) {
    let done = match random.below(5) {
        0 => call(libc::SYS_mkdir, vec![path.arg(), Arg::Int(0o755)]),
        1 => call(libc::SYS_mkdirat, vec![Arg::Int(CWD), path.arg(), Arg::Int(0o755)]),
        // No FIFO: a call that cannot be told not to wait would wait for ever.
        2 => call(
            libc::SYS_mknod,
            vec![path.arg(), Arg::Int((libc::S_IFSOCK | 0o644).into()), Arg::Int(0)],
        ),
        3 => call(
            libc::SYS_mknodat,
            vec![
                Arg::Int(CWD),
                path.arg(),
                Arg::Int((libc::S_IFREG | 0o644).into()),
                Arg::Int(0),
            ],
        ),
        _ => call(
            libc::SYS_symlinkat,
            vec![Arg::In(b"/etc/passwd\0"), Arg::Int(CWD), path.arg()],
        ),
    };
    counts.note("make", done.is_ok());
    if done.is_ok() {
        let _ = call(libc::SYS_rmdir, vec![path.arg()]);
    }
}

impl Name {
    /// For a path that is used again and again: one copy of each is kept.
    fn new_once(path: &'static str) -> Self {
        use std::{
            collections::HashMap,
            sync::{LazyLock, Mutex, PoisonError},
        };
        static KNOWN: LazyLock<Mutex<HashMap<&'static str, Name>>> = LazyLock::new(Mutex::default);
        *KNOWN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(path)
            .or_insert_with(|| Name::new(path))
    }
}
