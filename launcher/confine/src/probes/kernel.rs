//! Kernel surface, privileges, other calling conventions.

use super::calls::{attack, num, open, reach, sys};
use super::{Expected, Place, Probe, Tried, probe};
use crate::attempt::{self, Arg};
use crate::filters::number;
use nix::errno::Errno;
use nix::errno::Errno::{EACCES, EBADF, EBUSY, EFAULT, EINVAL, ENOSYS, EPERM};

fn foreign(nr: u32) -> Tried {
    attempt::int80(nr, [0; 3])?;
    Ok(())
}

fn capability() -> Tried {
    // Version 3, all effective and permitted.
    let mut header = [0u8; 8];
    header[..4].copy_from_slice(&0x2008_0522u32.to_ne_bytes());
    let mut data = [0u8; 24];
    sys(libc::SYS_capget, [Arg::Out(&mut header), Arg::Out(&mut data)])?;
    let wanted = 1u32 << 21; // CAP_SYS_ADMIN
    for half in [0, 4] {
        let now = u32::from_ne_bytes(data[half..half + 4].try_into().unwrap_or_default());
        data[half..half + 4].copy_from_slice(&(now | wanted).to_ne_bytes());
    }
    attack(sys(libc::SYS_capset, [Arg::In(&header), Arg::In(&data)]))
}

pub(super) static PROBES: &[Probe] = &[
    probe("kernel.x32", "C09", "calls by the x32 convention", |_| {
        attack(num(libc::SYS_getpid | 0x4000_0000, &[]))
    })
    .agent(&[ENOSYS])
    .network(&[EACCES]),
    probe(
        "kernel.unassigned",
        "G14",
        "calls a number that has no meaning yet",
        |_| attack(num(400, &[])),
    )
    .agent(&[ENOSYS]),
    probe("kernel.newer", "G14", "calls a number beyond what was known", |_| {
        attack(num(number::FILE_SETATTR + 1, &[]))
    })
    .agent(&[ENOSYS])
    .network(&[EACCES]),
    probe("kernel.bpf", "G07", "loads a program into the kernel", |_| {
        let mut attributes = [0u8; 72];
        // An array of one element.
        for (at, value) in [(0, 2u32), (4, 4), (8, 4), (12, 1)] {
            attributes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        attack(sys(libc::SYS_bpf, [Arg::Int(0), Arg::In(&attributes), Arg::Int(72)]))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "kernel.userfault",
        "G07 C12",
        "handles page faults itself, to stall readers of its memory",
        |_| attack(num(libc::SYS_userfaultfd, &[1])),
    )
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe(
        "kernel.secret-memory",
        "C10 G07",
        "makes memory that no supervisor can read",
        |_| attack(num(libc::SYS_memfd_secret, &[0])),
    )
    .agent(&[ENOSYS])
    .network(&[EACCES]),
    probe("kernel.listener", "G15", "listens to calls of its own children", |_| {
        // A filter of one instruction that allows everything.
        let program = [0x06u8, 0, 0, 0, 0, 0, 0xff, 0x7f];
        let mut pointer = [0u8; 16];
        pointer[0] = 1;
        pointer[8..].copy_from_slice(&(program.as_ptr() as u64).to_ne_bytes());
        nix::sys::prctl::set_no_new_privs()?;
        attack(sys(libc::SYS_seccomp, [Arg::Int(1), Arg::Int(8), Arg::In(&pointer)]))
    })
    .agent(&[EBUSY]),
    probe("kernel.filter", "G15", "installs a filter of its own", |_| {
        reach(num(libc::SYS_seccomp, &[1, 0, 0]), &[EFAULT])
    })
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe("kernel.personality", "G09", "turns address randomisation off", |_| {
        attack(num(libc::SYS_personality, &[0x0004_0000]))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("kernel.segments", "G07", "reads the table of segments", |_| {
        let mut buffer = [0u8; 16];
        attack(sys(
            libc::SYS_modify_ldt,
            [Arg::Int(0), Arg::Out(&mut buffer), Arg::Int(16)],
        ))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("kernel.forge", "F09", "forges what /proc shows of it", |_| {
        reach(num(libc::SYS_prctl, &[libc::PR_SET_MM.into(), 1, 0, 0, 0]), &[EINVAL])
    })
    .agent(&[EPERM]),
    probe(
        "kernel.module-attributes",
        "G07",
        "sets a security label of its own",
        |_| {
            reach(
                num(number::LSM_SET_SELF_ATTR, &[0, 0, 0, 0]),
                &[EINVAL, EFAULT, Errno::EOPNOTSUPP],
            )
        },
    )
    .agent(&[EPERM]),
    probe("kernel.capability", "G05", "raises a capability", |_| capability())
        .agent(&[EPERM])
        .in_namespaces(),
    probe("kernel.capability-call", "G05", "sets capabilities", |_| {
        reach(num(libc::SYS_capset, &[0, 0]), &[EFAULT, EINVAL])
    })
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe(
        "kernel.ambient",
        "G05",
        "raises a capability for programs that it starts",
        |_| {
            attack(num(
                libc::SYS_prctl,
                &[libc::PR_CAP_AMBIENT.into(), libc::PR_CAP_AMBIENT_RAISE.into(), 10, 0, 0],
            ))
        },
    )
    .agent(&[EPERM]),
    probe(
        "kernel.bounding",
        "G05",
        "changes which capabilities programs may have",
        |_| attack(num(libc::SYS_prctl, &[libc::PR_CAPBSET_DROP.into(), 10, 0, 0, 0])),
    )
    .agent(&[EPERM])
    .in_namespaces(),
    probe(
        "kernel.secure-bits",
        "G05",
        "changes how user ids give capabilities",
        |_| attack(num(libc::SYS_prctl, &[libc::PR_SET_SECUREBITS.into(), 1, 0, 0, 0])),
    )
    .agent(&[EPERM])
    .in_namespaces(),
    probe(
        "kernel.reboot",
        "G08",
        "restarts the machine, with a wrong password",
        |_| reach(num(libc::SYS_reboot, &[0, 0, 0, 0]), &[EINVAL]),
    )
    .agent(&[EPERM])
    .network(&[EACCES])
    .in_namespaces(),
    probe("kernel.module", "G08", "loads a module", |_| {
        reach(num(libc::SYS_finit_module, &[-1, 0, 0]), &[EBADF, EFAULT])
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("kernel.module-memory", "G08", "loads a module from memory", |_| {
        reach(
            num(libc::SYS_init_module, &[0, 0, 0]),
            &[EFAULT, Errno::ENOEXEC, EINVAL],
        )
    })
    .agent(&[EPERM]),
    probe("kernel.module-remove", "G08", "removes a module", |_| {
        reach(num(libc::SYS_delete_module, &[0, 0]), &[EFAULT])
    })
    .agent(&[EPERM]),
    probe("kernel.exchange", "G08", "loads another kernel", |_| {
        reach(num(libc::SYS_kexec_load, &[0, 0, 0, 0xffff]), &[EINVAL])
    })
    .agent(&[EPERM]),
    probe(
        "kernel.exchange-file",
        "G08",
        "loads another kernel from a file",
        |_| {
            reach(
                num(libc::SYS_kexec_file_load, &[-1, -1, 0, 0, 0xffff]),
                &[EINVAL, EBADF],
            )
        },
    )
    .agent(&[EPERM]),
    probe("kernel.swap-on", "G08", "adds swap", |_| {
        reach(num(libc::SYS_swapon, &[0, 0]), &[EFAULT])
    })
    .agent(&[EPERM]),
    probe("kernel.swap-off", "G08", "removes swap", |_| {
        reach(num(libc::SYS_swapoff, &[0]), &[EFAULT])
    })
    .agent(&[EPERM]),
    probe("kernel.accounting", "G08", "records every process", |_| {
        reach(num(libc::SYS_acct, &[8]), &[EFAULT])
    })
    .agent(&[EPERM]),
    probe("kernel.quota", "G07", "asks for quotas", |_| {
        reach(
            num(libc::SYS_quotactl, &[0x80_0007 << 8, 8, 0, 0]),
            &[EFAULT, EINVAL, Errno::ENODEV],
        )
    })
    .agent(&[EPERM]),
    probe(
        "kernel.quota-descriptor",
        "G07",
        "asks for quotas by a descriptor",
        |_| reach(num(libc::SYS_quotactl_fd, &[-1, 0, 0, 0]), &[EBADF]),
    )
    .agent(&[EPERM]),
    probe("kernel.ports", "G08", "reaches the machine's ports", |_| {
        attack(num(libc::SYS_iopl, &[0]))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("kernel.port-range", "G08", "asks for a port", |_| {
        attack(num(libc::SYS_ioperm, &[0x80, 1, 0]))
    })
    .agent(&[EPERM]),
    probe("kernel.clock", "G08", "reads the clock's adjustment", |_| {
        let mut fields = [0u8; 256];
        attack(sys(libc::SYS_adjtimex, [Arg::Out(&mut fields)]))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("kernel.clock-adjust", "G08", "reads a clock's adjustment", |_| {
        let mut fields = [0u8; 256];
        attack(sys(libc::SYS_clock_adjtime, [Arg::Int(0), Arg::Out(&mut fields)]))
    })
    .agent(&[EPERM]),
    probe("kernel.clock-set", "G08", "sets the clock, to nothing", |_| {
        reach(num(libc::SYS_clock_settime, &[0, 0]), &[EFAULT])
    })
    .agent(&[EPERM]),
    probe("kernel.clock-zone", "G08", "sets the time of day, to nothing", |_| {
        attack(num(libc::SYS_settimeofday, &[0, 0]))
    })
    .agent(&[EPERM]),
    probe("kernel.log", "G07", "asks for the kernel's log", |_| {
        attack(num(libc::SYS_syslog, &[10, 0, 0]))
    })
    .agent(&[EPERM])
    .network(&[EACCES]),
    probe("kernel.file-systems", "G07", "counts the kernel's file systems", |_| {
        attack(num(libc::SYS_sysfs, &[3]))
    })
    .agent(&[EPERM]),
    probe("kernel.pressure", "C29 G21", "watches the machine's load", |_| {
        attack(open("/proc/pressure/cpu", libc::O_RDWR))
    })
    .network(&[EACCES]),
    probe("kernel.landlock", "G16", "makes rules of its own", |_| {
        reach(num(libc::SYS_landlock_create_ruleset, &[0, 0, 1]), &[])
    })
    .network(&[EACCES])
    .but_for(Place::OutsideWeb),
    probe("kernel.directory", "C28", "asks where it is", |_| {
        let mut buffer = [0u8; 256];
        attack(sys(libc::SYS_getcwd, [Arg::Out(&mut buffer), Arg::Int(256)]))
    })
    .network(&[EACCES]),
    probe("kernel.name-lookup", "E18", "reads the table of host names", |_| {
        attack(open("/etc/hosts", libc::O_RDONLY))
    })
    .network(&[EACCES]),
    probe("kernel.foreign", "C09 E12", "calls by the 32-bit convention", |_| {
        foreign(20)
    })
    .agent(&[ENOSYS])
    .at(Place::Retriever, Expected::Killed(libc::SIGSYS))
    .at(Place::Gateway, Expected::Ended)
    .at(Place::OutsideWeb, Expected::Killed(libc::SIGSYS))
    .at(Place::OutsideModel, Expected::Killed(libc::SIGSYS))
    .at(Place::Resolver, Expected::Killed(libc::SIGSYS)),
];
