//! New namespaces, and rearranging the view.

use super::calls::{CWD, at, attack, c, num, on, prepared, reach, sys};
use super::{Expected, Place, Probe, probe};
use crate::attempt::Arg;
use crate::filters::number;
use libc::{CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS};
use nix::errno::Errno;
use nix::errno::Errno::{EACCES, EBADF, EINVAL, ENOSYS, EPERM};

fn unshare(flags: i32) -> super::Tried {
    attack(num(libc::SYS_unshare, &[flags.into()]))
}

fn clone(flags: i32) -> super::Tried {
    match num(libc::SYS_clone, &[i64::from(flags) | i64::from(libc::SIGCHLD)]) {
        Ok(0) => crate::process::exit_now(0),
        other => attack(other),
    }
}

pub(super) static PROBES: &[Probe] = &[
    probe("namespace.user", "G01 C14", "makes a user namespace", |_| {
        unshare(CLONE_NEWUSER)
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("namespace.mount", "G01 C14", "makes user and mount namespaces", |_| {
        unshare(CLONE_NEWUSER | CLONE_NEWNS)
    })
    .agent(&[EPERM]),
    probe("namespace.mount-only", "G01", "makes a mount namespace", |_| {
        unshare(CLONE_NEWNS)
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.network", "G01 E23", "makes a network namespace", |_| {
        unshare(CLONE_NEWNET)
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.process", "G01", "makes a pid namespace", |_| {
        unshare(CLONE_NEWPID)
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.ipc", "G01", "makes an ipc namespace", |_| {
        unshare(CLONE_NEWIPC)
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.host-name", "G01", "makes a uts namespace", |_| {
        unshare(CLONE_NEWUTS)
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.group", "G01", "makes a cgroup namespace", |_| {
        unshare(CLONE_NEWCGROUP)
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.time", "G01", "makes a time namespace", |_| unshare(0x80))
        .agent(&[EPERM])
        .in_namespaces(),
    probe("namespace.clone-user", "G01", "clones into a user namespace", |_| {
        clone(CLONE_NEWUSER)
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "namespace.clone-network",
        "G01",
        "clones into user and network namespaces",
        |_| clone(CLONE_NEWUSER | CLONE_NEWNET),
    )
    .agent(&[EPERM]),
    probe(
        "namespace.clone3",
        "G02",
        "clones by the call whose flags lie behind a pointer",
        |_| reach(sys(libc::SYS_clone3, [Arg::In(&[0u8; 64]), Arg::Int(0)]), &[EINVAL]),
    )
    .agent(&[ENOSYS])
    .network(&[EACCES])
    .outside(&[ENOSYS])
    .at(Place::Resolver, Expected::Errno(&[EACCES])),
    probe(
        "namespace.join-init",
        "E16",
        "joins the namespaces of the sandbox's first process",
        |s| {
            let fd = prepared("a descriptor", num(libc::SYS_pidfd_open, &[s.number("init")?, 0]))?;
            attack(num(libc::SYS_setns, &[fd, CLONE_NEWUTS.into()]))
        },
    )
    .agent(&[EPERM]),
    probe("namespace.join", "E16", "joins a namespace", |_| {
        reach(num(libc::SYS_setns, &[-1, 0]), &[EBADF])
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "namespace.mount-tmpfs",
        "G03",
        "mounts a file system over the workspace",
        |s| {
            let (source, target) = (c("tmpfs"), c(s.get("work")?));
            attack(sys(
                libc::SYS_mount,
                [
                    Arg::In(&source),
                    Arg::In(&target),
                    Arg::In(&source),
                    Arg::Int(0),
                    Arg::Null,
                ],
            ))
        },
    )
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.mount-any", "G03", "mounts nothing", |_| {
        reach(num(libc::SYS_mount, &[0, 0, 0, 0, 0]), &[Errno::EFAULT, EINVAL])
    })
    .network(&[EACCES]),
    probe("namespace.bind", "G03 C14", "binds a directory elsewhere", |s| {
        let (source, target) = (c(s.get("work")?), c("/tmp"));
        attack(sys(
            libc::SYS_mount,
            [
                Arg::In(&source),
                Arg::In(&target),
                Arg::Null,
                Arg::Int(libc::MS_BIND as i64),
                Arg::Null,
            ],
        ))
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.remount", "G04", "mounts the root again, writable", |_| {
        let target = c("/");
        // MS_REMOUNT | MS_BIND | MS_RELATIME: takes read-only away, and nothing that a host locks.
        let flags = 0x20 | 0x1000 | 0x20_0000;
        attack(sys(
            libc::SYS_mount,
            [Arg::Null, Arg::In(&target), Arg::Null, Arg::Int(flags), Arg::Null],
        ))
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.unmount", "G04", "unmounts what is no mount", |s| {
        reach(on(libc::SYS_umount2, &s.work("dir")?, &[0]), &[EINVAL])
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.pivot", "G03", "changes the root mount", |s| {
        let path = c(s.get("work")?);
        reach(
            sys(libc::SYS_pivot_root, [Arg::In(&path), Arg::In(&path)]),
            &[EINVAL, Errno::EBUSY],
        )
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.chroot", "C14 G03", "changes its root directory", |s| {
        attack(on(libc::SYS_chroot, s.get("work")?, &[]))
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.open-tree", "G03 C06", "opens a copy of a tree", |s| {
        attack(at(libc::SYS_open_tree, CWD, s.get("work")?, &[1]))
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe(
        "namespace.open-tree-plain",
        "C06",
        "opens a tree without copying",
        |s| attack(at(libc::SYS_open_tree, CWD, s.get("work")?, &[0])),
    )
    .agent(&[EPERM]),
    probe(
        "namespace.open-tree-attributes",
        "G03 G14",
        "opens a tree by the newer call",
        |s| attack(at(number::OPEN_TREE_ATTR, CWD, s.get("work")?, &[0, 0, 0])),
    )
    .agent(&[EPERM]),
    probe("namespace.move-mount", "G03", "moves a mount", |_| {
        let empty = c("");
        reach(
            sys(
                libc::SYS_move_mount,
                [
                    Arg::Int(-1),
                    Arg::In(&empty),
                    Arg::Int(-1),
                    Arg::In(&empty),
                    Arg::Int(0x44),
                ],
            ),
            &[EBADF],
        )
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe(
        "namespace.file-system",
        "G03",
        "opens a file system to mount it",
        |_| attack(on(libc::SYS_fsopen, "tmpfs", &[0])),
    )
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.configure", "G03", "configures a file system", |_| {
        reach(num(libc::SYS_fsconfig, &[-1, 0, 0, 0, 0]), &[EBADF, EINVAL])
    })
    .agent(&[EPERM]),
    probe("namespace.make-mount", "G03", "makes a mount of a file system", |_| {
        reach(num(libc::SYS_fsmount, &[-1, 0, 0]), &[EBADF])
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe(
        "namespace.pick",
        "G03",
        "picks a mounted file system to configure it",
        |_| reach(at(libc::SYS_fspick, CWD, "/", &[0]), &[]),
    )
    .agent(&[EPERM])
    .in_namespaces(),
    probe(
        "namespace.mount-attributes",
        "G03 G04",
        "changes the attributes of a mount",
        |_| {
            let path = c("/");
            attack(sys(
                libc::SYS_mount_setattr,
                [
                    Arg::Int(CWD),
                    Arg::In(&path),
                    Arg::Int(0),
                    Arg::In(&[0u8; 32]),
                    Arg::Int(32),
                ],
            ))
        },
    )
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.set-host-name", "G08", "names the host", |_| {
        attack(sys(libc::SYS_sethostname, [Arg::In(b"picktwo"), Arg::Int(7)]))
    })
    .agent(&[EPERM])
    .in_namespaces(),
    probe("namespace.set-domain-name", "G08", "names the host's domain", |_| {
        attack(sys(libc::SYS_setdomainname, [Arg::In(b"picktwo"), Arg::Int(7)]))
    })
    .agent(&[EPERM])
    .in_namespaces(),
];
