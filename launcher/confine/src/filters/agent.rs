//! What nothing inside a session may do.

use super::{
    Call, DGRAM, FAST_OPEN, INET, INET6, NEW_NAMESPACES, NEWEST_CALL, STREAM, TYPE_MASK, UNIX, arg, call, number, rule,
};
use crate::seccomp::{Action, Filter, Rule, Test};
use nix::errno::Errno;

const EPERM: Action = Action::Errno(Errno::EPERM);
const ENOSYS: Action = Action::Errno(Errno::ENOSYS);
const EBUSY: Action = Action::Errno(Errno::EBUSY);
const EAFNOSUPPORT: Action = Action::Errno(Errno::EAFNOSUPPORT);
const EPROTONOSUPPORT: Action = Action::Errno(Errno::EPROTONOSUPPORT);
const EOPNOTSUPP: Action = Action::Errno(Errno::EOPNOTSUPP);

const MOUNTS: &str = "would rearrange the view; Landlock does not refuse all of the newer ones";
const OTHERS: &str = "reaches into other processes";
const KEYS: &str = "keys are no files and survive user namespaces";
const SURFACE: &str = "kernel surface that no tool of a session needs";
const HOST: &str = "belongs to the administrator of the host";
const ACCELERATED: &str = "performs calls that no filter sees; libraries fall back on ENOSYS";
const RACES: &str = "stalls a reader of this process's memory at will";
const UNSEEN_METADATA: &str = "changes metadata and is newer than what libraries rely on: they fall back";

/// Refused whatever the arguments.
pub(super) const DENIED: &[(Call, Action, &str)] = &[
    (call!(SYS_mount), EPERM, MOUNTS),
    (call!(SYS_umount2), EPERM, MOUNTS),
    (call!(SYS_pivot_root), EPERM, MOUNTS),
    (call!(SYS_chroot), EPERM, MOUNTS),
    (call!(SYS_open_tree), EPERM, MOUNTS),
    (call!(SYS_move_mount), EPERM, MOUNTS),
    (call!(SYS_fsopen), EPERM, MOUNTS),
    (call!(SYS_fsconfig), EPERM, MOUNTS),
    (call!(SYS_fsmount), EPERM, MOUNTS),
    (call!(SYS_fspick), EPERM, MOUNTS),
    (call!(SYS_mount_setattr), EPERM, MOUNTS),
    ((number::OPEN_TREE_ATTR, "open_tree_attr"), EPERM, MOUNTS),
    (
        call!(SYS_unshare),
        EPERM,
        "new namespaces give capabilities and kernel surface",
    ),
    (call!(SYS_setns), EPERM, "joins namespaces"),
    (
        call!(SYS_clone3),
        ENOSYS,
        "its flags lie behind a pointer; libraries fall back to clone on ENOSYS only",
    ),
    (call!(SYS_ptrace), EPERM, OTHERS),
    (call!(SYS_process_vm_readv), EPERM, OTHERS),
    (call!(SYS_process_vm_writev), EPERM, OTHERS),
    (call!(SYS_process_madvise), EPERM, OTHERS),
    (call!(SYS_process_mrelease), EPERM, OTHERS),
    (call!(SYS_pidfd_getfd), EPERM, OTHERS),
    (call!(SYS_kcmp), EPERM, OTHERS),
    (call!(SYS_move_pages), EPERM, OTHERS),
    (call!(SYS_migrate_pages), EPERM, OTHERS),
    (call!(SYS_perf_event_open), EPERM, OTHERS),
    (call!(SYS_keyctl), EPERM, KEYS),
    (call!(SYS_add_key), EPERM, KEYS),
    (call!(SYS_request_key), EPERM, KEYS),
    (call!(SYS_io_uring_setup), ENOSYS, ACCELERATED),
    (call!(SYS_io_uring_enter), ENOSYS, ACCELERATED),
    (call!(SYS_io_uring_register), ENOSYS, ACCELERATED),
    (call!(SYS_userfaultfd), EPERM, RACES),
    (call!(SYS_memfd_secret), ENOSYS, "memory that a supervisor cannot read"),
    (call!(SYS_open_by_handle_at), EPERM, "opens by inode, past every path"),
    (call!(SYS_name_to_handle_at), EPERM, "handles are good for nothing else"),
    (
        call!(SYS_fanotify_init),
        EPERM,
        "watches and answers other processes' file access",
    ),
    (
        call!(SYS_fanotify_mark),
        EPERM,
        "watches and answers other processes' file access",
    ),
    (call!(SYS_bpf), EPERM, SURFACE),
    (call!(SYS_modify_ldt), EPERM, SURFACE),
    (call!(SYS_uselib), EPERM, SURFACE),
    (call!(SYS_sysfs), EPERM, SURFACE),
    (call!(SYS_lookup_dcookie), EPERM, SURFACE),
    (call!(SYS_nfsservctl), EPERM, SURFACE),
    (call!(SYS_vhangup), EPERM, "hangs up the person's terminal"),
    ((number::LSM_SET_SELF_ATTR, "lsm_set_self_attr"), EPERM, SURFACE),
    ((number::SETXATTRAT, "setxattrat"), ENOSYS, UNSEEN_METADATA),
    ((number::REMOVEXATTRAT, "removexattrat"), ENOSYS, UNSEEN_METADATA),
    ((number::FILE_SETATTR, "file_setattr"), ENOSYS, UNSEEN_METADATA),
    (call!(SYS_acct), EPERM, HOST),
    (call!(SYS_quotactl), EPERM, HOST),
    (call!(SYS_quotactl_fd), EPERM, HOST),
    (call!(SYS_swapon), EPERM, HOST),
    (call!(SYS_swapoff), EPERM, HOST),
    (call!(SYS_reboot), EPERM, HOST),
    (call!(SYS_sethostname), EPERM, HOST),
    (call!(SYS_setdomainname), EPERM, HOST),
    (call!(SYS_iopl), EPERM, HOST),
    (call!(SYS_ioperm), EPERM, HOST),
    (call!(SYS_init_module), EPERM, HOST),
    (call!(SYS_finit_module), EPERM, HOST),
    (call!(SYS_delete_module), EPERM, HOST),
    (call!(SYS_kexec_load), EPERM, HOST),
    (call!(SYS_kexec_file_load), EPERM, HOST),
    (call!(SYS_settimeofday), EPERM, HOST),
    (call!(SYS_clock_settime), EPERM, HOST),
    (call!(SYS_clock_adjtime), EPERM, HOST),
    (call!(SYS_adjtimex), EPERM, HOST),
    (call!(SYS_syslog), EPERM, HOST),
];

/// Terminal calls that act on the person's terminal rather than on the caller's own output, by their whole number.
const TERMINAL: &[(u32, &str)] = &[
    (libc::TIOCSTI as u32, "types into the person's shell"),
    (libc::TIOCSETD as u32, "loads line disciplines"),
    (libc::TIOCLINUX as u32, "pastes into a console"),
    (libc::TIOCCONS as u32, "takes the console's output"),
    (libc::TIOCEXCL as u32, "locks others out of the terminal"),
];

/// File calls by ioctl that are fine although their group is not, by their whole number.
const HARMLESS_FILE: &[(u32, &str)] = &[
    (0x8008_6601, "FS_IOC_GETFLAGS reads"),
    (0x8004_6601, "FS_IOC32_GETFLAGS reads"),
    (0xc020_660b, "FS_IOC_FIEMAP reads"),
    (0x801c_581f, "FS_IOC_FSGETXATTR reads"),
    (0x4004_9409, "FICLONE writes to a descriptor that was granted"),
    (0x4020_940d, "FICLONERANGE writes to a descriptor that was granted"),
    (0xc018_9436, "FIDEDUPERANGE changes no content"),
];

/// Groups of ioctls, by their type byte.
const GROUPS: &[(u32, &str)] = &[
    (
        0x6600,
        "file attributes, fscrypt, verity and ext4's own: Landlock does not see them",
    ),
    (
        0x5800,
        "file attributes and freezing, XFS's own: Landlock does not see them",
    ),
    (
        0x9400,
        "snapshots, subvolumes and labels of btrfs: Landlock does not see them",
    ),
];

/// Whole numbers outside of those groups.
const OTHER_IOCTLS: &[(u32, &str)] = &[
    (
        0x4008_7602,
        "FS_IOC_SETVERSION changes metadata through a read-only descriptor",
    ),
    (
        0x4004_7602,
        "FS_IOC32_SETVERSION changes metadata through a read-only descriptor",
    ),
    (0x8901, "FIOSETOWN aims the kernel's signals at other processes"),
    (0x8902, "SIOCSPGRP aims the kernel's signals at other processes"),
];

fn ioctls(rules: &mut Vec<Rule>) {
    let ioctl = call!(SYS_ioctl);
    for &(number, reason) in HARMLESS_FILE {
        rules.push(rule(ioctl, &[arg(1, Test::Is(number))], Action::Allow, reason));
    }
    for &(number, reason) in TERMINAL.iter().chain(OTHER_IOCTLS) {
        rules.push(rule(ioctl, &[arg(1, Test::Is(number))], EPERM, reason));
    }
    let steal = [arg(1, Test::Is(libc::TIOCSCTTY as u32)), arg(2, Test::NotNull64)];
    rules.push(rule(
        ioctl,
        &steal,
        EPERM,
        "steals a terminal from another session; with 0 it only takes a free one",
    ));
    for &(group, reason) in GROUPS {
        rules.push(rule(
            ioctl,
            &[arg(
                1,
                Test::Masked {
                    mask: 0xff00,
                    value: group,
                },
            )],
            EPERM,
            reason,
        ));
    }
    for group in [0x4b00, 0x5600] {
        let console = [arg(
            1,
            Test::Masked {
                mask: 0xffff_ff00,
                value: group,
            },
        )];
        rules.push(rule(
            ioctl,
            &console,
            EPERM,
            "keyboard, font and switching of a console",
        ));
    }
}

fn sockets(rules: &mut Vec<Rule>) {
    let socket = call!(SYS_socket);
    let kind = |value| arg(1, Test::Masked { mask: TYPE_MASK, value });
    rules.push(rule(
        socket,
        &[arg(0, Test::Is(UNIX)), kind(STREAM)],
        Action::Allow,
        "local sockets; connect and bind are granted calls",
    ));
    rules.push(rule(
        socket,
        &[arg(0, Test::Is(UNIX))],
        EPERM,
        "datagrams name their receiver in every send",
    ));
    for family in [INET, INET6] {
        let family = arg(0, Test::Is(family));
        for protocol in [0, libc::IPPROTO_TCP as u32] {
            let tcp = [family, kind(STREAM), arg(2, Test::Is(protocol))];
            rules.push(rule(
                socket,
                &tcp,
                Action::Allow,
                "TCP, in a network namespace of the session's own",
            ));
        }
        for protocol in [0, libc::IPPROTO_UDP as u32] {
            let udp = [family, kind(DGRAM), arg(2, Test::Is(protocol))];
            rules.push(rule(
                socket,
                &udp,
                Action::Allow,
                "UDP, in a network namespace of the session's own",
            ));
        }
        for value in [STREAM, DGRAM] {
            rules.push(rule(
                socket,
                &[family, kind(value)],
                EPROTONOSUPPORT,
                "MPTCP, SCTP, ICMP and the like: Landlock does not see them",
            ));
        }
        rules.push(rule(socket, &[family], EPERM, "raw and other kinds"));
    }
    rules.push(rule(
        socket,
        &[],
        EAFNOSUPPORT,
        "netlink, vsock, packet, alg …: no namespace confines all of them",
    ));

    let pair = call!(SYS_socketpair);
    rules.push(rule(
        pair,
        &[arg(0, Test::Is(UNIX)), kind(STREAM)],
        Action::Allow,
        "every agent starts its tools with these",
    ));
    rules.push(rule(
        pair,
        &[arg(0, Test::Is(UNIX)), kind(libc::SOCK_SEQPACKET as u32)],
        Action::Allow,
        "cargo starts rustc with these; the kernel ignores an address in a send and refuses to connect a pair again",
    ));
    rules.push(rule(
        pair,
        &[arg(0, Test::Is(UNIX))],
        EPERM,
        "a pair of datagram sockets can be aimed at a path",
    ));
    rules.push(rule(pair, &[], EAFNOSUPPORT, "no other family has pairs"));

    for (call, flags) in [
        (call!(SYS_sendto), 3),
        (call!(SYS_sendmsg), 2),
        (call!(SYS_sendmmsg), 3),
    ] {
        rules.push(rule(
            call,
            &[arg(flags, Test::Any(FAST_OPEN))],
            EOPNOTSUPP,
            "connects without connect; Landlock does not see it",
        ));
    }
}

fn limits(rules: &mut Vec<Rule>) {
    let core = |argument| arg(argument, Test::Is(libc::RLIMIT_CORE));
    let prlimit = call!(SYS_prlimit64);
    rules.push(rule(
        prlimit,
        &[arg(0, Test::IsNot(0))],
        EPERM,
        "limits of other processes; our own go by 0",
    ));
    let set = [core(1), arg(2, Test::NotNull64)];
    rules.push(rule(prlimit, &set, Action::Pretend, KEEP_CORE));
    rules.push(rule(call!(SYS_setrlimit), &[core(0)], Action::Pretend, KEEP_CORE));

    for (call, pid) in [
        (call!(SYS_sched_setaffinity), 0),
        (call!(SYS_sched_setscheduler), 0),
        (call!(SYS_sched_setparam), 0),
        (call!(SYS_sched_setattr), 0),
        (call!(SYS_setpriority), 1),
        (call!(SYS_ioprio_set), 1),
    ] {
        rules.push(rule(call, &[arg(pid, Test::Is(1))], EPERM, FIRST_PROCESS));
    }

    let process_only = "whoever shares the process group, the launcher included, would be slowed down";
    rules.push(rule(
        call!(SYS_setpriority),
        &[arg(0, Test::IsNot(libc::PRIO_PROCESS))],
        EPERM,
        process_only,
    ));
    rules.push(rule(
        call!(SYS_ioprio_set),
        &[arg(0, Test::IsNot(1 /* IOPRIO_WHO_PROCESS */))],
        EPERM,
        process_only,
    ));
}

/// Number 1 of a session's own pid namespace. It makes and connects the session's sockets.
const FIRST_PROCESS: &str =
    "slows the session's first process, which is picktwo's, down; tools schedule only themselves";

/// Programs that harden themselves set 0 and give up if they may not; the limit of 1 is what stops piped handlers.
const KEEP_CORE: &str = "the core limit of 1 keeps piped core handlers away; a limit of 0 would call them";

/// Calls refused for some arguments.
fn by_argument(rules: &mut Vec<Rule>) {
    rules.push(rule(
        call!(SYS_clone),
        &[arg(0, Test::Any(NEW_NAMESPACES))],
        EPERM,
        "new namespaces give capabilities and kernel surface",
    ));
    rules.push(rule(
        call!(SYS_clone),
        &[arg(0, Test::Any(libc::CLONE_PARENT as u32))],
        EPERM,
        "children of the launcher's, which it never reaps; no libc makes any",
    ));
    for value in [0, 0xffff_ffff] {
        rules.push(rule(
            call!(SYS_personality),
            &[arg(0, Test::Is(value))],
            Action::Allow,
            "asks, or sets the default",
        ));
    }
    rules.push(rule(
        call!(SYS_personality),
        &[],
        EPERM,
        "turns address randomisation and other protections off",
    ));

    let fcntl = call!(SYS_fcntl);
    let command = |value: i32| arg(1, Test::Is(value as u32));
    let group = [command(libc::F_SETOWN), arg(2, Test::Any(0x8000_0000))];
    rules.push(rule(
        fcntl,
        &group,
        EPERM,
        "aims the kernel's signals at a process group",
    ));
    rules.push(rule(
        fcntl,
        &[command(F_SETOWN_EX)],
        EPERM,
        "aims the kernel's signals behind a pointer",
    ));
    rules.push(rule(
        fcntl,
        &[command(libc::F_SETLEASE)],
        EPERM,
        "stalls whoever opens the file, outside of the session, too",
    ));

    let seccomp = [
        arg(0, Test::Is(1 /* SECCOMP_SET_MODE_FILTER */)),
        arg(1, Test::Any(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32)),
    ];
    rules.push(rule(
        call!(SYS_seccomp),
        &seccomp,
        EBUSY,
        "one supervisor listens already: what the kernel answers then, too",
    ));
    rules.push(rule(
        call!(SYS_prctl),
        &[arg(0, Test::Is(libc::PR_SET_MM as u32))],
        EPERM,
        "forges what /proc shows of this process",
    ));
}

const F_SETOWN_EX: i32 = 15;

pub(super) fn plain() -> Filter {
    let mut rules: Vec<Rule> = DENIED
        .iter()
        .map(|&(call, then, reason)| rule(call, &[], then, reason))
        .collect();
    by_argument(&mut rules);
    ioctls(&mut rules);
    sockets(&mut rules);
    limits(&mut rules);
    // Numbers 337 to 423 are reserved on x86-64: a later kernel may give them to something.
    rules.extend((337..=423).map(|nr| {
        rule(
            (nr, "unassigned"),
            &[],
            ENOSYS,
            "not assigned when this list was written",
        )
    }));
    Filter {
        name: "agent",
        foreign: ENOSYS,
        x32: ENOSYS,
        newer: Some((NEWEST_CALL, ENOSYS)),
        rules,
        otherwise: Action::Allow,
    }
}
