//! `/dev`, `/proc` and `/sys`: new or minimal.

use super::error::Error;
use super::mounts::INFORMATION;
use super::plan::Base;
use super::tree::Tree;
use nix::errno::Errno;
use picktwo_confine::sys::mount_attr;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const NODES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];
const LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// Fills `/dev`: the harmless nodes, pseudoterminals of the session's own, shared memory.
pub(crate) fn dev(tree: &Tree, base: &Base) -> Result<(), Error> {
    for node in NODES {
        tree.bind_device(Path::new(node), Path::new(node))?;
    }
    for (link, target) in LINKS {
        tree.link(Path::new(link), OsStr::new(target))?;
    }
    let terminals = [(c"ptmxmode", "0666"), (c"mode", "0620")];
    tree.mount(
        c"devpts",
        &terminals,
        mount_attr::NOSUID | mount_attr::NOEXEC,
        Path::new("/dev/pts"),
    )?;
    tree.mount_memory("1777", base.sizes.shm, Path::new("/dev/shm"))?;
    if let Some(terminal) = &base.terminal {
        tree.bind_device(terminal, Path::new("/dev/console"))?;
    }
    Ok(())
}

/// What of a new `/proc` tells of the host or of keys: covered, for everybody.
const MASKED: &[&str] = &["/proc/keys", "/proc/key-users", "/proc/timer_list"];
/// What only the host's root could use, and its user id is enough for some of it: covered if picktwo runs as root.
const MASKED_FROM_ROOT: &[&str] = &[
    "/proc/acpi",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/sysrq-trigger",
    "/proc/vmallocinfo",
    "/proc/iomem",
    "/proc/ioports",
];
/// Empty ones of mode 0 that cover what is masked.
const COVER_FILE: &str = "/run/picktwo/none/file";
const COVER_DIRECTORY: &str = "/run/picktwo/none/directory";

/// A new `/proc` of the session's pid namespace. The whole mount is read-only: sysctls, `sysrq-trigger`, other processes'
/// `oom_score_adj` are out of reach whoever runs picktwo.
pub(crate) fn proc(tree: &Tree, base: &Base) -> Result<(), Error> {
    tree.mount(c"proc", &[], INFORMATION, Path::new("/proc"))?;
    tree.file(Path::new(COVER_FILE), &[], 0)?;
    for path in MASKED {
        tree.mask(Path::new(COVER_FILE), Path::new(path))?;
    }
    if base.identity.uid == 0 {
        drop(tree.directory(Path::new(COVER_DIRECTORY), 0)?);
        for path in MASKED_FROM_ROOT {
            let cover = if Path::new(path).is_dir() {
                COVER_DIRECTORY
            } else {
                COVER_FILE
            };
            tree.mask(Path::new(cover), Path::new(path))?;
        }
    }
    Ok(())
}

/// What language runtimes size themselves by.
const SYS: &[&str] = &[
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/mm/transparent_hugepage",
];

/// A minimal `/sys`: processors, memory nodes, and the session's own control group.
pub(crate) fn sys(tree: &Tree) -> Result<(), Error> {
    for path in SYS.iter().map(Path::new) {
        match tree.bind_system(path, path) {
            // A kernel without that feature, or a host that hides it.
            Err(Error::Source(..)) => {}
            other => other?,
        }
    }
    let cgroup = Path::new("/sys/fs/cgroup");
    drop(tree.directory(cgroup, 0o755)?);
    match tree.mount(c"cgroup2", &[], INFORMATION, cgroup) {
        // Without the unified hierarchy programs find no limits there, as on a host without control groups.
        Err(Error::FileSystem {
            errno: Errno::EPERM | Errno::EBUSY | Errno::ENODEV | Errno::EINVAL,
            ..
        }) => Ok(()),
        other => other,
    }
}

/// What of `/sys` a session may read that sees the host's own: the same, with its own control group.
pub(crate) fn readable_of_sys() -> Vec<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .map(|group| Path::new("/sys/fs/cgroup").join(group));
    SYS.iter().map(PathBuf::from).chain(group).collect()
}
