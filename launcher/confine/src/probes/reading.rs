//! Reading what the session must not see.
//!
//! The supervisor of the web side starts roles by executing this program, whose loader asks for metadata by path: what it learns
//! of names, sizes and links that way is among the residual risks of docs/THREATS.md.

use super::calls::{CWD, at, attack, num, on, open, open_at, prepared, reach, sys};
use super::{Place, Probe, Setting, Tried, probe};
use crate::attempt::Arg;
use libc::{O_DIRECTORY, O_PATH, O_RDONLY};
use nix::errno::Errno;
use nix::errno::Errno::{EACCES, EBADF, ENODATA, ENOENT, EPERM, ESTALE};

fn secret(s: &Setting) -> Result<String, super::Stop> {
    s.hidden("secret")
}

fn with_buffer(nr: i64, path: &str) -> super::calls::Called {
    let mut buffer = [0u8; 512];
    sys(
        nr,
        [Arg::In(&super::calls::c(path)), Arg::Out(&mut buffer), Arg::Int(512)],
    )
}

fn proc_file(s: &Setting, whose: &'static str, name: &str) -> Tried {
    let pid = s.number(whose)?;
    let fd = open(&format!("/proc/{pid}/{name}"), O_RDONLY)?;
    // The check is made at the open for some of these files and at the read for others.
    let mut byte = [0u8; 1];
    // Nothing is mapped at the start of a process's memory.
    reach(
        sys(libc::SYS_read, [Arg::Int(fd), Arg::Out(&mut byte), Arg::Int(1)]),
        &[Errno::EIO],
    )
}

fn proc_directory(s: &Setting, name: &str) -> Tried {
    attack(open(
        &format!("/proc/{}/{name}", s.number("init")?),
        O_RDONLY | O_DIRECTORY,
    ))
}

fn variable(s: &Setting, name: &'static str) -> Tried {
    // What `run` was started with; the name of the variable is part of the setting so that a control can tell.
    let given = s.get(name)?;
    if std::env::var_os(given).is_some() {
        Ok(())
    } else {
        Err(ENOENT.into())
    }
}

pub(super) static PROBES: &[Probe] = &[
    probe("read.open", "C01", "opens a file outside the view", |s| {
        attack(open(&secret(s)?, O_RDONLY))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("read.openat2", "C01", "opens a file outside the view by openat2", |s| {
        let how = [0u8; 24];
        let path = super::calls::c(&secret(s)?);
        attack(sys(
            libc::SYS_openat2,
            [Arg::Int(CWD), Arg::In(&path), Arg::In(&how), Arg::Int(24)],
        ))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "read.path-descriptor",
        "C04",
        "opens a file outside the view without access, to open it again later",
        |s| attack(open(&secret(s)?, O_PATH)),
    )
    .agent(&[ENOENT])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe(
        "read.stat",
        "C28",
        "asks for size and times of a file outside the view",
        |s| attack(with_buffer(libc::SYS_stat, &secret(s)?)),
    )
    .agent(&[ENOENT])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe(
        "read.newfstatat",
        "C28",
        "asks for size and times of a file outside the view by newfstatat",
        |s| {
            let mut buffer = [0u8; 256];
            let path = super::calls::c(&secret(s)?);
            attack(sys(
                libc::SYS_newfstatat,
                [Arg::Int(CWD), Arg::In(&path), Arg::Out(&mut buffer)],
            ))
        },
    )
    .agent(&[ENOENT])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe(
        "read.statx",
        "C28",
        "asks for size and times of a file outside the view by statx",
        |s| {
            let mut buffer = [0u8; 256];
            let path = super::calls::c(&secret(s)?);
            attack(sys(
                libc::SYS_statx,
                [
                    Arg::Int(CWD),
                    Arg::In(&path),
                    Arg::Int(0),
                    Arg::Int(0xfff),
                    Arg::Out(&mut buffer),
                ],
            ))
        },
    )
    .agent(&[ENOENT])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe(
        "read.access",
        "C28",
        "asks whether a file outside the view is there",
        |s| attack(on(libc::SYS_access, &secret(s)?, &[0])),
    )
    .agent(&[ENOENT])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe("read.readlink", "C28", "reads where a link outside leads", |s| {
        attack(with_buffer(libc::SYS_readlink, &s.hidden("link")?))
    })
    .agent(&[ENOENT])
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe("read.getxattr", "C28", "reads an extended attribute", |s| {
        let (path, name) = (super::calls::c(&secret(s)?), super::calls::c("user.none"));
        let mut buffer = [0u8; 8];
        reach(
            sys(
                libc::SYS_getxattr,
                [Arg::In(&path), Arg::In(&name), Arg::Out(&mut buffer), Arg::Int(8)],
            ),
            &[ENODATA, Errno::EOPNOTSUPP],
        )
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "read.statfs",
        "C28",
        "asks for the file system that a directory outside the view lies on",
        |s| attack(with_buffer(libc::SYS_statfs, &s.hidden("")?)),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("read.chdir", "C28", "goes to a directory outside the view", |s| {
        attack(on(libc::SYS_chdir, &s.hidden("")?, &[]))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("read.list", "C01", "opens a directory outside the view", |s| {
        attack(open(&s.hidden("")?, O_RDONLY | O_DIRECTORY))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("read.root", "C01", "opens the root directory", |_| {
        attack(open("/", O_RDONLY | O_DIRECTORY))
    })
    .network(&[EACCES]),
    probe("read.passwd", "C01", "opens a file that everybody may read", |_| {
        attack(open("/etc/passwd", O_RDONLY))
    })
    .network(&[EACCES]),
    probe("read.own-memory", "C02", "opens its own memory as a file", |_| {
        attack(open("/proc/self/mem", libc::O_RDWR))
    })
    .network(&[EACCES]),
    probe("read.own-maps", "C02", "reads where its memory lies", |_| {
        attack(open("/proc/self/maps", O_RDONLY))
    })
    .network(&[EACCES]),
    probe("read.inotify", "C29", "watches a file outside the view", |s| {
        let fd = prepared("inotify", num(libc::SYS_inotify_init1, &[0]))?;
        attack(at(libc::SYS_inotify_add_watch, fd, &secret(s)?, &[2]))
    })
    .agent(&[ENOENT]),
    probe("read.inotify-init", "C29", "makes a watch", |_| {
        attack(num(libc::SYS_inotify_init1, &[0]))
    })
    .network(&[EACCES]),
    probe("read.fanotify", "C29", "watches whole file systems", |_| {
        // FAN_CLASS_NOTIF | FAN_REPORT_FID: what unprivileged processes may.
        attack(num(libc::SYS_fanotify_init, &[0x200, O_RDONLY.into()]))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("read.name-to-handle", "C07", "asks for an inode's handle", |s| {
        let mut handle = vec![0u8; 136];
        handle[..4].copy_from_slice(&128u32.to_ne_bytes());
        let mut mount = [0u8; 8];
        let path = super::calls::c(s.get("work")?);
        attack(sys(
            libc::SYS_name_to_handle_at,
            [
                Arg::Int(CWD),
                Arg::In(&path),
                Arg::Out(&mut handle),
                Arg::Out(&mut mount),
                Arg::Int(0),
            ],
        ))
    })
    .agent(&[EPERM]),
    probe(
        "read.open-by-handle",
        "C07",
        "opens a file by an inode's handle",
        |_| {
            let mut handle = [0u8; 16];
            handle[0] = 8;
            let root = prepared("the root", open("/", O_RDONLY | O_DIRECTORY))?;
            reach(
                sys(libc::SYS_open_by_handle_at, [Arg::Int(root), Arg::Out(&mut handle)]),
                &[ESTALE, EBADF, Errno::EINVAL],
            )
        },
    )
    .agent(&[EPERM]),
    probe(
        "read.own-root-link",
        "C02",
        "reaches outside through /proc/self/root",
        |s| attack(open(&format!("/proc/self/root{}", secret(s)?), O_RDONLY)),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "read.thread-root-link",
        "C02",
        "reaches outside through /proc/thread-self/root",
        |s| attack(open(&format!("/proc/thread-self/root{}", secret(s)?), O_RDONLY)),
    )
    .agent(&[ENOENT]),
    probe(
        "read.init-root",
        "C03",
        "reaches outside through the root of the sandbox's first process",
        |s| {
            attack(open(
                &format!("/proc/{}/root{}", s.number("init")?, secret(s)?),
                O_RDONLY,
            ))
        },
    )
    .agent(&[EACCES]),
    probe(
        "read.init-cwd",
        "C03",
        "lists the directory of the sandbox's first process",
        |s| proc_directory(s, "cwd/"),
    )
    .agent(&[EACCES]),
    probe(
        "read.init-descriptors",
        "C03 E15",
        "asks what a descriptor of the sandbox's first process is",
        |s| {
            attack(with_buffer(
                libc::SYS_readlink,
                &format!("/proc/{}/fd/0", s.number("init")?),
            ))
        },
    )
    .agent(&[EACCES]),
    probe(
        "read.init-descriptor",
        "C03 E15",
        "opens a descriptor of the sandbox's first process again",
        |s| attack(open(&format!("/proc/{}/fd/0", s.number("init")?), O_RDONLY)),
    )
    .agent(&[EACCES]),
    probe(
        "read.init-environment",
        "C24",
        "reads the environment of the sandbox's first process",
        |s| proc_file(s, "init", "environ"),
    )
    .agent(&[EACCES]),
    probe(
        "read.init-memory",
        "F01",
        "opens the memory of the sandbox's first process",
        |s| proc_file(s, "init", "mem"),
    )
    .agent(&[EACCES]),
    probe(
        "read.init-maps",
        "F01",
        "reads where the memory of the sandbox's first process lies",
        |s| proc_file(s, "init", "maps"),
    )
    .agent(&[EACCES]),
    probe(
        "read.init-auxv",
        "F01",
        "reads what the kernel told the sandbox's first process",
        |s| proc_file(s, "init", "auxv"),
    )
    .agent(&[EACCES]),
    probe(
        "read.host-environment",
        "C03 C24",
        "reads the environment of a process of the host",
        |s| proc_file(s, "victim", "environ"),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "read.host-arguments",
        "C24",
        "reads the arguments of a process of the host",
        |s| proc_file(s, "victim", "cmdline"),
    )
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "read.host-status",
        "C03",
        "reads the state of a process of the host",
        |s| proc_file(s, "victim", "status"),
    )
    .agent(&[ENOENT]),
    probe("read.parent-path", "C01", "climbs out of the workspace by `..`", |s| {
        attack(open(&s.work("../hidden/secret")?, O_RDONLY))
    })
    .agent(&[ENOENT]),
    probe(
        "read.working-directory",
        "C22",
        "reaches outside from the directory that it is in",
        |s| {
            prepared("the workspace", on(libc::SYS_chdir, s.get("work")?, &[]))?;
            attack(open("../hidden/secret", O_RDONLY))
        },
    )
    .agent(&[ENOENT]),
    probe(
        "read.parent-descriptor",
        "C01",
        "climbs out of the workspace by a descriptor",
        |s| {
            let dir = prepared("the workspace", open(s.get("work")?, O_RDONLY | O_DIRECTORY))?;
            attack(open_at(dir, "../hidden/secret", O_RDONLY))
        },
    )
    .agent(&[ENOENT]),
    probe(
        "read.link-in-workspace",
        "C05",
        "follows a link of the workspace to outside",
        |s| attack(open(&s.work("to-hidden/secret")?, O_RDONLY)),
    )
    .agent(&[ENOENT]),
    probe("read.key-in-home", "C01 C26", "opens the person's SSH key", |s| {
        attack(open(&format!("{}/.ssh/id_ed25519", s.get("home")?), O_RDONLY))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("read.home-list", "C26", "opens the person's browser profile", |s| {
        attack(open(&format!("{}/.mozilla", s.get("home")?), O_RDONLY | O_DIRECTORY))
    })
    .agent(&[ENOENT]),
    probe("read.state", "C01", "opens picktwo's state", |s| {
        attack(open(s.get("state")?, O_RDONLY))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe("read.policy", "B15", "opens the person's policy", |s| {
        attack(open(s.get("policy")?, O_RDONLY))
    })
    .agent(&[ENOENT])
    .network(&[EACCES]),
    probe(
        "read.inherited-directory",
        "C21",
        "opens a file from a directory that the launcher had open",
        |s| attack(open_at(s.number("fd-directory")?, "secret", O_RDONLY)),
    )
    .agent(&[EBADF]),
    probe(
        "read.inherited-file",
        "C21 D15",
        "reads a descriptor that the launcher had open",
        |s| {
            let mut byte = [0u8; 1];
            attack(sys(
                libc::SYS_pread64,
                [
                    Arg::Int(s.number("fd-file")?),
                    Arg::Out(&mut byte),
                    Arg::Int(1),
                    Arg::Int(0),
                ],
            ))
        },
    )
    .agent(&[EBADF]),
    probe("read.variable-secret", "C23", "finds a key in its environment", |s| {
        variable(s, "variable-secret")
    })
    .agent(&[ENOENT]),
    probe("read.variable-agent", "A07", "finds the person's ssh-agent", |s| {
        variable(s, "variable-agent")
    })
    .agent(&[ENOENT]),
    probe(
        "read.variable-program",
        "F11",
        "finds a program of the person's in a variable that tools execute",
        |s| variable(s, "variable-program"),
    )
    .agent(&[ENOENT]),
    probe("read.variable-bus", "A03", "finds the person's session bus", |s| {
        variable(s, "variable-bus")
    })
    .agent(&[ENOENT]),
    probe("read.variable-editor", "A12", "finds the person's editor", |s| {
        variable(s, "variable-editor")
    })
    .agent(&[ENOENT]),
    probe("read.kernel-keys", "C20", "lists keys by /proc/keys", |_| {
        attack(open("/proc/keys", O_RDONLY))
    })
    .agent(&[EACCES]),
    probe("read.kernel-timers", "C18", "opens the kernel's timers", |_| {
        attack(open("/proc/timer_list", O_RDONLY))
    })
    .agent(&[EACCES]),
    probe("read.kernel-memory", "C18", "opens the kernel's memory", |_| {
        attack(open("/proc/kcore", O_RDONLY))
    })
    .agent(&[EACCES, EPERM]),
    probe("read.kernel-log", "C18", "opens the kernel's log", |_| {
        attack(open("/dev/kmsg", O_RDONLY))
    })
    .agent(&[ENOENT]),
    probe("read.device-memory", "C18", "opens physical memory", |_| {
        attack(open("/dev/mem", O_RDONLY))
    })
    .agent(&[ENOENT]),
    probe("read.device-fuse", "G12", "opens the FUSE device", |_| {
        attack(open("/dev/fuse", libc::O_RDWR))
    })
    .agent(&[ENOENT]),
    probe("read.device-kvm", "G13", "opens the virtual machine device", |_| {
        attack(open("/dev/kvm", libc::O_RDWR))
    })
    .agent(&[ENOENT]),
    probe("read.device-tun", "E08", "opens the tunnel device", |_| {
        attack(open("/dev/net/tun", libc::O_RDWR))
    })
    .agent(&[ENOENT]),
    probe("read.device-disk", "C18", "opens a disk", |s| {
        attack(open(s.get("disk")?, O_RDONLY))
    })
    .agent(&[ENOENT]),
    probe("read.device-userfaultfd", "G07", "opens the userfaultfd device", |_| {
        attack(open("/dev/userfaultfd", libc::O_RDWR))
    })
    .agent(&[ENOENT]),
    probe("read.device-random", "C18", "opens a harmless device", |_| {
        attack(open("/dev/urandom", O_RDONLY))
    })
    .network(&[EACCES]),
    probe(
        "read.shared-memory-file",
        "C19",
        "opens shared memory of the host",
        |s| attack(open(&format!("/dev/shm/{}", s.get("shm-file")?), O_RDONLY)),
    )
    .agent(&[ENOENT]),
    probe("read.host-tmp", "B17", "finds the host's temporary files", |s| {
        attack(open(s.get("tmp-file")?, O_RDONLY))
    })
    .agent(&[ENOENT]),
];
