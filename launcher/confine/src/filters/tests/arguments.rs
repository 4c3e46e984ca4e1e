//! Calls that are refused for some arguments, and their neighbours that are not.

use super::super::FAST_OPEN;
use super::N;
use nix::errno::Errno;

/// Name, call, arguments, error when filtered; `None`: must not be refused.
pub(super) type Case = (&'static str, i64, [i64; 6], Option<Errno>);

pub(super) fn by_argument() -> Vec<Case> {
    use Errno::*;
    let (ioctl, fcntl, socket, pair) = (libc::SYS_ioctl, libc::SYS_fcntl, libc::SYS_socket, libc::SYS_socketpair);
    let high = 1i64 << 32;
    let (inet, inet6, unix) = (libc::AF_INET as i64, libc::AF_INET6 as i64, libc::AF_UNIX as i64);
    let (stream, dgram, raw, seqpacket) = (
        libc::SOCK_STREAM as i64,
        libc::SOCK_DGRAM as i64,
        libc::SOCK_RAW as i64,
        libc::SOCK_SEQPACKET as i64,
    );
    let fast = i64::from(FAST_OPEN);
    vec![
        (
            "personality sets",
            libc::SYS_personality,
            [0x0040_0000, 0, 0, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "personality sets, high bits",
            libc::SYS_personality,
            [0x0040_0000 | high, 0, 0, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "personality asks",
            libc::SYS_personality,
            [0xffff_ffff, 0, 0, 0, 0, 0],
            None,
        ),
        ("personality default", libc::SYS_personality, [0; 6], None),
        (
            "F_SETOWN of a group",
            fcntl,
            [N, libc::F_SETOWN as i64, -5, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "F_SETOWN of a group, 32 bits",
            fcntl,
            [N, libc::F_SETOWN as i64 | high, 0xffff_fffb, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "F_SETOWN of a process",
            fcntl,
            [N, libc::F_SETOWN as i64, 5, 0, 0, 0],
            None,
        ),
        ("F_SETOWN_EX", fcntl, [N, 15, 0, 0, 0, 0], Some(EPERM)),
        (
            "F_SETLEASE",
            fcntl,
            [N, libc::F_SETLEASE as i64, 0, 0, 0, 0],
            Some(EPERM),
        ),
        ("F_GETFL", fcntl, [N, libc::F_GETFL as i64, 0, 0, 0, 0], None),
        (
            "seccomp with a listener",
            libc::SYS_seccomp,
            [1, 8, 0, 0, 0, 0],
            Some(EBUSY),
        ),
        (
            "seccomp with a listener and more",
            libc::SYS_seccomp,
            [1 | high, 8 | 16 | 32, 0, 0, 0, 0],
            Some(EBUSY),
        ),
        ("seccomp without", libc::SYS_seccomp, [1, 0, 0, 0, 0, 0], None),
        (
            "PR_SET_MM",
            libc::SYS_prctl,
            [libc::PR_SET_MM as i64, 1, 0, 0, 0, 0],
            Some(EPERM),
        ),
        ("TIOCSTI", ioctl, [N, libc::TIOCSTI as i64, 0, 0, 0, 0], Some(EPERM)),
        (
            "TIOCSTI, high bits",
            ioctl,
            [N, libc::TIOCSTI as i64 | high, 0, 0, 0, 0],
            Some(EPERM),
        ),
        ("TIOCSETD", ioctl, [N, libc::TIOCSETD as i64, 0, 0, 0, 0], Some(EPERM)),
        ("TIOCLINUX", ioctl, [N, libc::TIOCLINUX as i64, 0, 0, 0, 0], Some(EPERM)),
        ("TIOCCONS", ioctl, [N, libc::TIOCCONS as i64, 0, 0, 0, 0], Some(EPERM)),
        ("TIOCEXCL", ioctl, [N, libc::TIOCEXCL as i64, 0, 0, 0, 0], Some(EPERM)),
        (
            "TIOCSCTTY steals",
            ioctl,
            [N, libc::TIOCSCTTY as i64, 1, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "TIOCSCTTY steals, high bits",
            ioctl,
            [N, libc::TIOCSCTTY as i64, high, 0, 0, 0],
            Some(EPERM),
        ),
        ("TIOCSCTTY takes", ioctl, [N, libc::TIOCSCTTY as i64, 0, 0, 0, 0], None),
        ("TIOCGWINSZ", ioctl, [N, libc::TIOCGWINSZ as i64, 0, 0, 0, 0], None),
        ("TIOCSPGRP", ioctl, [N, libc::TIOCSPGRP as i64, 0, 0, 0, 0], None),
        ("KDSKBSENT", ioctl, [N, 0x4b49, 0, 0, 0, 0], Some(EPERM)),
        ("VT_ACTIVATE", ioctl, [N, 0x5606, 0, 0, 0, 0], Some(EPERM)),
        ("FS_IOC_SETFLAGS", ioctl, [N, 0x4008_6602, 0, 0, 0, 0], Some(EPERM)),
        (
            "FS_IOC_SETFLAGS, high bits",
            ioctl,
            [N, 0x4008_6602 | high, 0, 0, 0, 0],
            Some(EPERM),
        ),
        ("FS_IOC32_SETFLAGS", ioctl, [N, 0x4004_6602, 0, 0, 0, 0], Some(EPERM)),
        ("FS_IOC_GETFLAGS", ioctl, [N, 0x8008_6601, 0, 0, 0, 0], None),
        ("FS_IOC_FSSETXATTR", ioctl, [N, 0x401c_5820, 0, 0, 0, 0], Some(EPERM)),
        ("FS_IOC_FSGETXATTR", ioctl, [N, 0x801c_581f, 0, 0, 0, 0], None),
        ("FIFREEZE", ioctl, [N, 0xc004_5877, 0, 0, 0, 0], Some(EPERM)),
        ("FS_IOC_SETVERSION", ioctl, [N, 0x4008_7602, 0, 0, 0, 0], Some(EPERM)),
        ("FS_IOC_ENABLE_VERITY", ioctl, [N, 0x4080_6685, 0, 0, 0, 0], Some(EPERM)),
        (
            "FS_IOC_ADD_ENCRYPTION_KEY",
            ioctl,
            [N, 0xc050_6617, 0, 0, 0, 0],
            Some(EPERM),
        ),
        ("EXT4_IOC_SWAP_BOOT", ioctl, [N, 0x6611, 0, 0, 0, 0], Some(EPERM)),
        (
            "BTRFS_IOC_SNAP_CREATE",
            ioctl,
            [N, 0x5000_9401, 0, 0, 0, 0],
            Some(EPERM),
        ),
        ("FICLONE", ioctl, [N, 0x4004_9409, N, 0, 0, 0], None),
        ("FIOSETOWN", ioctl, [N, 0x8901, 0, 0, 0, 0], Some(EPERM)),
        ("SIOCSPGRP", ioctl, [N, 0x8902, 0, 0, 0, 0], Some(EPERM)),
        ("FIONREAD", ioctl, [N, libc::FIONREAD as i64, 0, 0, 0, 0], None),
        ("socket TCP", socket, [inet, stream, 0, 0, 0, 0], None),
        (
            "socket TCP by number, with flags",
            socket,
            [
                inet6,
                stream | libc::SOCK_CLOEXEC as i64 | libc::SOCK_NONBLOCK as i64,
                6,
                0,
                0,
                0,
            ],
            None,
        ),
        ("socket UDP", socket, [inet, dgram, 0, 0, 0, 0], None),
        ("socket UDP by number", socket, [inet6, dgram, 17, 0, 0, 0], None),
        (
            "socket MPTCP",
            socket,
            [inet, stream, 262, 0, 0, 0],
            Some(EPROTONOSUPPORT),
        ),
        (
            "socket MPTCP, high bits",
            socket,
            [inet | high, stream | high, 262 | high, 0, 0, 0],
            Some(EPROTONOSUPPORT),
        ),
        (
            "socket UDP-Lite",
            socket,
            [inet, dgram, 136, 0, 0, 0],
            Some(EPROTONOSUPPORT),
        ),
        ("socket ping", socket, [inet, dgram, 1, 0, 0, 0], Some(EPROTONOSUPPORT)),
        ("socket raw", socket, [inet, raw, 255, 0, 0, 0], Some(EPERM)),
        ("socket raw v6", socket, [inet6, raw, 58, 0, 0, 0], Some(EPERM)),
        ("socket UNIX stream", socket, [unix, stream, 0, 0, 0, 0], None),
        ("socket UNIX datagram", socket, [unix, dgram, 0, 0, 0, 0], Some(EPERM)),
        (
            "socket UNIX packets",
            socket,
            [unix, seqpacket | libc::SOCK_CLOEXEC as i64, 0, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "socket netlink",
            socket,
            [libc::AF_NETLINK as i64, raw, 0, 0, 0, 0],
            Some(EAFNOSUPPORT),
        ),
        (
            "socket netlink, high bits",
            socket,
            [libc::AF_NETLINK as i64 | high, raw, 0, 0, 0, 0],
            Some(EAFNOSUPPORT),
        ),
        (
            "socket packet",
            socket,
            [libc::AF_PACKET as i64, raw, 0, 0, 0, 0],
            Some(EAFNOSUPPORT),
        ),
        ("socketpair stream", pair, [unix, stream, 0, 8, 0, 0], None),
        ("socketpair datagram", pair, [unix, dgram, 0, 8, 0, 0], Some(EPERM)),
        ("socketpair packets", pair, [unix, seqpacket, 0, 8, 0, 0], None),
        (
            "socketpair of another family",
            pair,
            [libc::AF_TIPC as i64, stream, 0, 8, 0, 0],
            Some(EAFNOSUPPORT),
        ),
        (
            "sendto fast open",
            libc::SYS_sendto,
            [N, 0, 0, fast, 0, 0],
            Some(EOPNOTSUPP),
        ),
        (
            "sendto fast open and more",
            libc::SYS_sendto,
            [N, 0, 0, fast | 0x4000 | high, 0, 0],
            Some(EOPNOTSUPP),
        ),
        ("sendto", libc::SYS_sendto, [N, 0, 0, 0x4000, 0, 0], None),
        (
            "sendmsg fast open",
            libc::SYS_sendmsg,
            [N, 0, fast, 0, 0, 0],
            Some(EOPNOTSUPP),
        ),
        ("sendmsg", libc::SYS_sendmsg, [N, 0, 0, 0, 0, 0], None),
        (
            "sendmmsg fast open",
            libc::SYS_sendmmsg,
            [N, 0, 0, fast, 0, 0],
            Some(EOPNOTSUPP),
        ),
        (
            "prlimit64 of another",
            libc::SYS_prlimit64,
            [1, 0, 0, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "prlimit64 asks",
            libc::SYS_prlimit64,
            [0, libc::RLIMIT_CORE as i64, 0, 8, 0, 0],
            None,
        ),
        (
            "setpriority of a group",
            libc::SYS_setpriority,
            [1, 0, 0, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "setpriority of a user",
            libc::SYS_setpriority,
            [2, 0, 0, 0, 0, 0],
            Some(EPERM),
        ),
        ("setpriority of itself", libc::SYS_setpriority, [0, 0, 0, 0, 0, 0], None),
        (
            "ioprio_set of a group",
            libc::SYS_ioprio_set,
            [2, 0, 0x7fff_ffff, 0, 0, 0],
            Some(EPERM),
        ),
        (
            "ioprio_set of a user",
            libc::SYS_ioprio_set,
            [3, 0, 0x7fff_ffff, 0, 0, 0],
            Some(EPERM),
        ),
    ]
}
