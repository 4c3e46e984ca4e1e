//! Changing the workspace in read-only mode: every call that changes a file or its metadata.

use super::calls::{CWD, at, attack, c, num, on, open, open_at, prepared, sys, two, two_at};
use super::{Probe, Setting, Stop, Tried, probe};
use crate::attempt::Arg;
use crate::filters::number;
use libc::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use nix::errno::Errno::{EACCES, ENOENT, ENOSYS, EPERM, EROFS};

pub(super) fn reading(path: &str) -> Result<i64, Stop> {
    prepared("a descriptor for reading", open(path, O_RDONLY))
}

pub(super) fn times(path: &str) -> Tried {
    // 1970: nobody mistakes that for a change of somebody else's.
    let times = [0u8; 32];
    attack(sys(
        libc::SYS_utimensat,
        [Arg::Int(CWD), Arg::In(&c(path)), Arg::In(&times)],
    ))
}

pub(super) fn set_attribute(nr: i64, path: &str) -> Tried {
    let (path, name) = (c(path), c("user.picktwo"));
    attack(sys(
        nr,
        [Arg::In(&path), Arg::In(&name), Arg::In(b"x"), Arg::Int(1), Arg::Int(0)],
    ))
}

pub(super) fn attribute_by_descriptor(path: &str) -> Tried {
    let fd = reading(path)?;
    let name = c("user.picktwo");
    attack(sys(
        libc::SYS_fsetxattr,
        [Arg::Int(fd), Arg::In(&name), Arg::In(b"x"), Arg::Int(1)],
    ))
}

/// Sets the NODUMP flag by a descriptor for reading: harmless, and a change.
pub(super) fn set_flags(path: &str) -> Tried {
    let fd = reading(path)?;
    let mut flags = [0u8; 8];
    prepared(
        "its flags",
        sys(
            libc::SYS_ioctl,
            [Arg::Int(fd), Arg::Int(0x8008_6601), Arg::Out(&mut flags)],
        ),
    )?;
    flags[0] |= 0x40;
    attack(sys(
        libc::SYS_ioctl,
        [Arg::Int(fd), Arg::Int(0x4008_6602), Arg::In(&flags)],
    ))
}

/// Sets the same flag by the newer structure.
pub(super) fn set_fsxattr(path: &str) -> Tried {
    let fd = reading(path)?;
    let mut fields = [0u8; 28];
    prepared(
        "its attributes",
        sys(
            libc::SYS_ioctl,
            [Arg::Int(fd), Arg::Int(0x801c_581f), Arg::Out(&mut fields)],
        ),
    )?;
    fields[0] |= 0x80;
    attack(sys(
        libc::SYS_ioctl,
        [Arg::Int(fd), Arg::Int(0x401c_5820), Arg::In(&fields)],
    ))
}

pub(super) fn own_ids() -> [i64; 2] {
    [
        nix::unistd::getuid().as_raw().into(),
        nix::unistd::getgid().as_raw().into(),
    ]
}

fn file(s: &Setting) -> Result<String, Stop> {
    s.work("file")
}

fn new(s: &Setting) -> Result<String, Stop> {
    s.work("new")
}

pub(super) static PROBES: &[Probe] = &[
    probe(
        "change.open-write",
        "D01",
        "opens a file of the workspace for writing",
        |s| attack(open(&file(s)?, O_WRONLY)),
    )
    .read_only(&[EROFS]),
    probe(
        "change.open-read-write",
        "D10",
        "opens a file of the workspace for reading and writing, as a shared mapping needs",
        |s| attack(open(&file(s)?, O_RDWR)),
    )
    .read_only(&[EROFS]),
    probe(
        "change.open-append",
        "D01",
        "opens a file of the workspace to append",
        |s| attack(open(&file(s)?, O_WRONLY | O_APPEND)),
    )
    .read_only(&[EROFS]),
    probe(
        "change.open-truncate",
        "D02",
        "empties a file of the workspace by an open for reading",
        |s| attack(open(&file(s)?, O_RDONLY | O_TRUNC)),
    )
    .read_only(&[EROFS]),
    probe(
        "change.old-open",
        "D01",
        "opens a file of the workspace for writing by the old call",
        |s| attack(on(libc::SYS_open, &file(s)?, &[O_WRONLY.into()])),
    )
    .read_only(&[EROFS]),
    probe(
        "change.openat2",
        "D01",
        "opens a file of the workspace for writing by openat2",
        |s| {
            let mut how = [0u8; 24];
            how[0] = O_WRONLY as u8;
            let path = c(&file(s)?);
            attack(sys(
                libc::SYS_openat2,
                [Arg::Int(CWD), Arg::In(&path), Arg::In(&how), Arg::Int(24)],
            ))
        },
    )
    .read_only(&[EROFS]),
    probe("change.create", "D01", "creates a file in the workspace", |s| {
        attack(open(&new(s)?, O_CREAT | O_WRONLY))
    })
    .read_only(&[EROFS]),
    probe(
        "change.create-reading",
        "D11",
        "creates a file by an open for reading",
        |s| attack(open(&new(s)?, O_CREAT | O_RDONLY)),
    )
    .read_only(&[EROFS]),
    probe("change.creat", "D01", "creates a file by creat", |s| {
        attack(on(libc::SYS_creat, &new(s)?, &[0o644]))
    })
    .read_only(&[EROFS]),
    probe("change.unnamed", "D11", "makes a file without a name", |s| {
        attack(open(s.get("work")?, libc::O_TMPFILE | O_RDWR))
    })
    .read_only(&[EROFS]),
    probe(
        "change.reopen",
        "D14",
        "opens a descriptor for reading again for writing",
        |s| {
            let fd = reading(&file(s)?)?;
            attack(open(&format!("/proc/self/fd/{fd}"), O_WRONLY))
        },
    )
    .read_only(&[EROFS]),
    probe(
        "change.reopen-path",
        "C04 D14",
        "opens a path descriptor again for writing",
        |s| {
            let fd = prepared("a path descriptor", open(&file(s)?, libc::O_PATH))?;
            attack(open(&format!("/proc/thread-self/fd/{fd}"), O_WRONLY))
        },
    )
    .read_only(&[EROFS]),
    probe(
        "change.by-directory",
        "D01",
        "creates a file relative to a directory's descriptor",
        |s| {
            let dir = reading(s.get("work")?)?;
            attack(open_at(dir, "new", O_CREAT | O_WRONLY))
        },
    )
    .read_only(&[EROFS]),
    probe(
        "change.by-own-root",
        "C02",
        "creates a file through /proc/self/root",
        |s| attack(open(&format!("/proc/self/root{}", new(s)?), O_CREAT | O_WRONLY)),
    )
    .read_only(&[EROFS]),
    probe(
        "change.through-link",
        "B18",
        "writes through a link of the workspace",
        |s| attack(open(&s.work("to-file")?, O_WRONLY | O_TRUNC)),
    )
    .read_only(&[EROFS]),
    probe("change.mkdir", "D01", "makes a directory in the workspace", |s| {
        attack(on(libc::SYS_mkdir, &new(s)?, &[0o755]))
    })
    .read_only(&[EROFS]),
    probe("change.mkdirat", "D01", "makes a directory by mkdirat", |s| {
        attack(at(libc::SYS_mkdirat, CWD, &new(s)?, &[0o755]))
    })
    .read_only(&[EROFS]),
    probe("change.rmdir", "D01", "removes a directory of the workspace", |s| {
        attack(on(libc::SYS_rmdir, &s.work("empty")?, &[]))
    })
    .read_only(&[EROFS]),
    probe("change.unlink", "D01", "removes a file of the workspace", |s| {
        attack(on(libc::SYS_unlink, &file(s)?, &[]))
    })
    .read_only(&[EROFS]),
    probe("change.unlinkat", "D01", "removes a file by unlinkat", |s| {
        attack(at(libc::SYS_unlinkat, CWD, &file(s)?, &[]))
    })
    .read_only(&[EROFS]),
    probe("change.rename", "D01", "renames a file of the workspace", |s| {
        attack(two(libc::SYS_rename, &file(s)?, &new(s)?))
    })
    .read_only(&[EROFS]),
    probe("change.renameat", "D01", "renames a file by renameat", |s| {
        attack(two_at(libc::SYS_renameat, (CWD, &file(s)?), (CWD, &new(s)?), 0))
    })
    .read_only(&[EROFS]),
    probe("change.exchange", "D11", "exchanges two names of the workspace", |s| {
        attack(two_at(
            libc::SYS_renameat2,
            (CWD, &file(s)?),
            (CWD, &s.work("other")?),
            2,
        ))
    })
    .read_only(&[EROFS]),
    probe("change.link", "D01", "gives a file a second name", |s| {
        attack(two(libc::SYS_link, &file(s)?, &new(s)?))
    })
    .read_only(&[EROFS]),
    probe("change.linkat", "D01", "gives a file a second name by linkat", |s| {
        attack(two_at(libc::SYS_linkat, (CWD, &file(s)?), (CWD, &new(s)?), 0))
    })
    .read_only(&[EROFS]),
    probe("change.symlink", "D01", "makes a link in the workspace", |s| {
        attack(two(libc::SYS_symlink, "file", &new(s)?))
    })
    .read_only(&[EROFS]),
    probe("change.symlinkat", "D01", "makes a link by symlinkat", |s| {
        let (target, path) = (c("file"), c(&new(s)?));
        attack(sys(
            libc::SYS_symlinkat,
            [Arg::In(&target), Arg::Int(CWD), Arg::In(&path)],
        ))
    })
    .read_only(&[EROFS]),
    probe("change.mknod", "D12", "makes a FIFO in the workspace", |s| {
        attack(on(libc::SYS_mknod, &new(s)?, &[i64::from(libc::S_IFIFO) | 0o644, 0]))
    })
    .read_only(&[EROFS]),
    probe("change.truncate", "D02", "cuts a file of the workspace", |s| {
        attack(on(libc::SYS_truncate, &file(s)?, &[1]))
    })
    .read_only(&[EROFS]),
    probe(
        "change.chmod",
        "D03",
        "changes the mode of a file of the workspace",
        |s| attack(on(libc::SYS_chmod, &file(s)?, &[0o777])),
    )
    .read_only(&[EROFS]),
    probe(
        "change.fchmod",
        "D03",
        "changes the mode by a descriptor for reading",
        |s| attack(num(libc::SYS_fchmod, &[reading(&file(s)?)?, 0o777])),
    )
    .read_only(&[EROFS]),
    probe("change.fchmodat", "D03", "changes the mode by fchmodat", |s| {
        attack(at(libc::SYS_fchmodat, CWD, &file(s)?, &[0o777]))
    })
    .read_only(&[EROFS]),
    probe("change.fchmodat2", "D03", "changes the mode by fchmodat2", |s| {
        attack(at(libc::SYS_fchmodat2, CWD, &file(s)?, &[0o777, 0]))
    })
    .read_only(&[EROFS]),
    probe(
        "change.chown",
        "D04",
        "changes the owner of a file of the workspace",
        |s| attack(on(libc::SYS_chown, &file(s)?, &own_ids())),
    )
    .read_only(&[EROFS]),
    probe("change.lchown", "D04", "changes the owner of a link", |s| {
        attack(on(libc::SYS_lchown, &file(s)?, &own_ids()))
    })
    .read_only(&[EROFS]),
    probe(
        "change.fchown",
        "D04",
        "changes the owner by a descriptor for reading",
        |s| {
            let [uid, gid] = own_ids();
            attack(num(libc::SYS_fchown, &[reading(&file(s)?)?, uid, gid]))
        },
    )
    .read_only(&[EROFS]),
    probe("change.fchownat", "D04", "changes the owner by fchownat", |s| {
        let [uid, gid] = own_ids();
        attack(at(libc::SYS_fchownat, CWD, &file(s)?, &[uid, gid, 0]))
    })
    .read_only(&[EROFS]),
    probe("change.utime", "D05", "sets times of a file by utime", |s| {
        attack(on(libc::SYS_utime, &file(s)?, &[0]))
    })
    .read_only(&[EROFS]),
    probe("change.utimes", "D05", "sets times of a file by utimes", |s| {
        attack(on(libc::SYS_utimes, &file(s)?, &[0]))
    })
    .read_only(&[EROFS]),
    probe("change.futimesat", "D05", "sets times by futimesat", |s| {
        attack(at(libc::SYS_futimesat, CWD, &file(s)?, &[0]))
    })
    .read_only(&[EROFS]),
    probe("change.utimensat", "D05", "sets times by utimensat", |s| {
        times(&file(s)?)
    })
    .read_only(&[EROFS]),
    probe(
        "change.futimens",
        "D05",
        "sets times by a descriptor for reading",
        |s| attack(num(libc::SYS_utimensat, &[reading(&file(s)?)?, 0, 0, 0])),
    )
    .read_only(&[EROFS]),
    probe("change.setxattr", "D06", "sets an extended attribute", |s| {
        set_attribute(libc::SYS_setxattr, &file(s)?)
    })
    .read_only(&[EROFS]),
    probe(
        "change.lsetxattr",
        "D06",
        "sets an extended attribute without following links",
        |s| set_attribute(libc::SYS_lsetxattr, &file(s)?),
    )
    .read_only(&[EROFS]),
    probe(
        "change.fsetxattr",
        "D06",
        "sets an extended attribute by a descriptor for reading",
        |s| attribute_by_descriptor(&file(s)?),
    )
    .read_only(&[EROFS]),
    probe("change.removexattr", "D06", "removes an extended attribute", |s| {
        attack(two(libc::SYS_removexattr, &s.work("marked")?, "user.mark"))
    })
    .read_only(&[EROFS]),
    probe(
        "change.setxattrat",
        "D06",
        "sets an extended attribute by a newer call",
        |s| {
            let (path, name, value) = (c(&file(s)?), c("user.picktwo"), b"x");
            let mut args = [0u8; 16];
            args[..8].copy_from_slice(&(value.as_ptr() as u64).to_ne_bytes());
            args[8..12].copy_from_slice(&1u32.to_ne_bytes());
            attack(sys(
                number::SETXATTRAT,
                [
                    Arg::Int(CWD),
                    Arg::In(&path),
                    Arg::Int(0),
                    Arg::In(&name),
                    Arg::In(&args),
                    Arg::Int(16),
                ],
            ))
        },
    )
    .agent(&[ENOSYS]),
    probe(
        "change.file-setattr",
        "D06 G14",
        "sets file attributes by the newest call",
        |s| {
            let path = c(&file(s)?);
            let mut attributes = [0u8; 24];
            attributes[0] = 0x80;
            attack(sys(
                number::FILE_SETATTR,
                [
                    Arg::Int(CWD),
                    Arg::In(&path),
                    Arg::In(&attributes),
                    Arg::Int(24),
                    Arg::Int(0),
                ],
            ))
        },
    )
    .agent(&[ENOSYS]),
    probe(
        "change.flags",
        "D03 D18",
        "sets file flags by a descriptor for reading",
        |s| set_flags(&file(s)?),
    )
    .agent(&[EPERM]),
    probe(
        "change.fsxattr",
        "D03 D18",
        "sets file attributes by a descriptor for reading",
        |s| set_fsxattr(&file(s)?),
    )
    .agent(&[EPERM]),
    probe(
        "change.access",
        "D01",
        "asks whether it may write a file of the workspace",
        |s| attack(on(libc::SYS_access, &file(s)?, &[libc::W_OK.into()])),
    )
    .read_only(&[EROFS]),
    probe("change.hidden-create", "D01", "creates a file outside the view", |s| {
        attack(open(&s.hidden("new")?, O_CREAT | O_WRONLY))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "change.hidden-write",
        "D01",
        "opens a file outside the view for writing",
        |s| attack(open(&s.hidden("secret")?, O_WRONLY)),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "change.hidden-truncate",
        "D02",
        "empties a file outside the view",
        |s| attack(on(libc::SYS_truncate, &s.hidden("secret")?, &[0])),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("change.hidden-unlink", "D01", "removes a file outside the view", |s| {
        attack(on(libc::SYS_unlink, &s.hidden("secret")?, &[]))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "change.hidden-mkdir",
        "D01",
        "makes a directory outside the view",
        |s| attack(on(libc::SYS_mkdir, &s.hidden("new")?, &[0o755])),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("change.hidden-rename", "D01", "renames a file outside the view", |s| {
        attack(two(libc::SYS_rename, &s.hidden("secret")?, &s.hidden("new")?))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "change.hidden-chmod",
        "D03",
        "opens a file outside the view to everybody",
        |s| attack(on(libc::SYS_chmod, &s.hidden("secret")?, &[0o777])),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("change.hidden-times", "D05", "sets times outside the view", |s| {
        times(&s.hidden("secret")?)
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "change.hidden-attribute",
        "D06",
        "sets an extended attribute outside the view",
        |s| set_attribute(libc::SYS_setxattr, &s.hidden("secret")?),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("change.hidden-lock", "D13", "locks a file outside the view", |s| {
        // LOCK_EX | LOCK_NB
        attack(num(libc::SYS_flock, &[open(&s.hidden("secret")?, O_RDONLY)?, 6]))
    })
    .agent(&[ENOENT]),
    probe(
        "change.home-startup",
        "B16",
        "creates a start-up file in the person's home",
        |s| attack(open(&format!("{}/.profile", s.get("home")?), O_CREAT | O_WRONLY)),
    )
    .unseen(),
    probe(
        "change.hidden-symlink",
        "D11 B16",
        "makes a link outside the view",
        |s| attack(two(libc::SYS_symlink, "secret", &s.hidden("new")?)),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "change.inherited",
        "D15",
        "cuts a file by a descriptor that the launcher had open",
        |s| attack(num(libc::SYS_ftruncate, &[s.number("fd-file")?, 1])),
    )
    .agent(&[EBADF_ONLY]),
    probe("change.memory-file", "F13", "makes a file in memory to run it", |_| {
        attack(on(libc::SYS_memfd_create, "x", &[0]))
    })
    .network(&[EACCES]),
    probe("change.system-file", "D01", "opens a system file for writing", |_| {
        attack(open("/etc/passwd", O_WRONLY))
    })
    .agent(&[EROFS, EACCES]),
    probe("change.sysctl", "D19", "opens the core pattern for writing", |_| {
        attack(open("/proc/sys/kernel/core_pattern", O_WRONLY))
    })
    .agent(&[EROFS, EACCES]),
    probe(
        "change.sysrq",
        "D19 G08",
        "opens the kernel's trigger for writing",
        |_| attack(open("/proc/sysrq-trigger", O_WRONLY)),
    )
    .agent(&[EROFS, EACCES]),
    probe(
        "change.out-of-memory-score",
        "F05",
        "makes the kernel prefer the sandbox's first process as a victim",
        |s| attack(open(&format!("/proc/{}/oom_score_adj", s.number("init")?), O_WRONLY)),
    )
    .agent(&[EROFS, EACCES]),
    probe(
        "change.core-filter",
        "F05",
        "changes what of the sandbox's first process a core dump holds",
        |s| attack(open(&format!("/proc/{}/coredump_filter", s.number("init")?), O_WRONLY)),
    )
    .agent(&[EROFS, EACCES]),
];

const EBADF_ONLY: nix::errno::Errno = nix::errno::Errno::EBADF;
