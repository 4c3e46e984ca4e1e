//! Changing what a session sees read-only beside its workspace, in both modes.

use super::calls::{CWD, attack, num, on, open, two, two_at};
use super::changing::{attribute_by_descriptor, own_ids, reading, set_attribute, set_flags, times};
use super::{Probe, probe};
use libc::{O_CREAT, O_WRONLY};
use nix::errno::Errno::{EPERM, EROFS, EXDEV};

pub(super) static PROBES: &[Probe] = &[
    probe(
        "shared.open-write",
        "D01",
        "opens a visible file outside the workspace for writing",
        |s| attack(open(&s.shared("file")?, O_WRONLY)),
    )
    .agent(&[EROFS]),
    probe("shared.create", "D01", "creates a file beside the workspace", |s| {
        attack(open(&s.shared("new")?, O_CREAT | O_WRONLY))
    })
    .agent(&[EROFS]),
    probe("shared.mkdir", "D01", "makes a directory beside the workspace", |s| {
        attack(on(libc::SYS_mkdir, &s.shared("new")?, &[0o755]))
    })
    .agent(&[EROFS]),
    probe("shared.unlink", "D01", "removes a file beside the workspace", |s| {
        attack(on(libc::SYS_unlink, &s.shared("file")?, &[]))
    })
    .agent(&[EROFS]),
    probe("shared.rename", "D01", "renames a file beside the workspace", |s| {
        attack(two(libc::SYS_rename, &s.shared("file")?, &s.shared("new")?))
    })
    .agent(&[EROFS]),
    probe("shared.symlink", "D11", "makes a link beside the workspace", |s| {
        attack(two(libc::SYS_symlink, "file", &s.shared("new")?))
    })
    .agent(&[EROFS]),
    probe("shared.truncate", "D02", "cuts a file beside the workspace", |s| {
        attack(on(libc::SYS_truncate, &s.shared("file")?, &[1]))
    })
    .agent(&[EROFS]),
    probe("shared.chmod", "D03", "changes a mode beside the workspace", |s| {
        attack(on(libc::SYS_chmod, &s.shared("file")?, &[0o777]))
    })
    .agent(&[EROFS]),
    probe(
        "shared.fchmod",
        "D03",
        "changes a mode beside the workspace by a descriptor for reading",
        |s| attack(num(libc::SYS_fchmod, &[reading(&s.shared("file")?)?, 0o777])),
    )
    .agent(&[EROFS]),
    probe("shared.chown", "D04", "changes an owner beside the workspace", |s| {
        attack(on(libc::SYS_chown, &s.shared("file")?, &own_ids()))
    })
    .agent(&[EROFS]),
    probe("shared.times", "D05", "sets times beside the workspace", |s| {
        times(&s.shared("file")?)
    })
    .agent(&[EROFS]),
    probe(
        "shared.futimens",
        "D05",
        "sets times beside the workspace by a descriptor for reading",
        |s| attack(num(libc::SYS_utimensat, &[reading(&s.shared("file")?)?, 0, 0, 0])),
    )
    .agent(&[EROFS]),
    probe(
        "shared.attribute",
        "D06",
        "sets an extended attribute beside the workspace",
        |s| set_attribute(libc::SYS_setxattr, &s.shared("file")?),
    )
    .agent(&[EROFS]),
    probe(
        "shared.attribute-descriptor",
        "D06",
        "sets an extended attribute beside the workspace by a descriptor for reading",
        |s| attribute_by_descriptor(&s.shared("file")?),
    )
    .agent(&[EROFS]),
    probe(
        "shared.flags",
        "D18",
        "sets file flags beside the workspace by a descriptor for reading",
        |s| set_flags(&s.shared("file")?),
    )
    .agent(&[EPERM]),
    probe(
        "shared.reopen",
        "D14",
        "opens a descriptor for reading beside the workspace again for writing",
        |s| {
            let fd = reading(&s.shared("file")?)?;
            attack(open(&format!("/proc/self/fd/{fd}"), O_WRONLY))
        },
    )
    .agent(&[EROFS]),
    probe(
        "shared.through-link",
        "B18 D11",
        "writes beside the workspace through a link of the workspace",
        |s| attack(open(&s.work("to-shared")?, O_WRONLY)),
    )
    .agent(&[EROFS]),
    probe(
        "shared.dangling-link",
        "D11",
        "creates a file beside the workspace through a dangling link of the workspace",
        |s| attack(open(&s.work("to-absent")?, O_CREAT | O_WRONLY)),
    )
    .agent(&[EROFS]),
    probe(
        "shared.link-in",
        "B19 C05",
        "gives a file beside the workspace a second name in it",
        |s| attack(two(libc::SYS_link, &s.shared("file")?, &s.work("alias")?)),
    )
    .read_only(&[EROFS, EXDEV])
    .edit(&[EXDEV]),
    probe(
        "shared.move-in",
        "C15",
        "moves a file from beside the workspace into it",
        |s| attack(two(libc::SYS_rename, &s.shared("file")?, &s.work("moved")?)),
    )
    .read_only(&[EROFS, EXDEV])
    .edit(&[EXDEV]),
    probe(
        "shared.move-out",
        "D11 C16",
        "moves a file of the workspace out of it",
        |s| attack(two(libc::SYS_rename, &s.work("file")?, &s.shared("moved")?)),
    )
    .read_only(&[EROFS, EXDEV])
    .edit(&[EXDEV]),
    probe(
        "shared.exchange",
        "C15 D11",
        "exchanges a file beside the workspace with one in it",
        |s| {
            attack(two_at(
                libc::SYS_renameat2,
                (CWD, &s.work("file")?),
                (CWD, &s.shared("file")?),
                2,
            ))
        },
    )
    .read_only(&[EROFS, EXDEV])
    .edit(&[EXDEV]),
];
