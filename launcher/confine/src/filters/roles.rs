//! Allow lists of picktwo's own processes, made of groups of calls. Whatever a list lacks fails with `EACCES`, which libraries
//! take for a missing right and cope with.

use super::{
    Call, DGRAM, FAST_OPEN, INET, INET6, NEW_NAMESPACES, NEWEST_CALL, STREAM, TYPE_MASK, UNIX, arg, call, rule,
};
use crate::role::Role;
use crate::seccomp::{Action, Filter, Rule, Test};
use nix::errno::Errno;

type Group = &'static [(Call, &'static str)];

const EXECUTABLE: Test = Test::None(libc::PROT_EXEC as u32);

/// What any Rust program does all the time.
const RUNTIME: Group = &[
    (call!(SYS_read), "descriptors that it holds"),
    (call!(SYS_write), "descriptors that it holds"),
    (call!(SYS_readv), "descriptors that it holds"),
    (call!(SYS_writev), "descriptors that it holds"),
    (call!(SYS_close), "descriptors that it holds"),
    (call!(SYS_pread64), "the self-check reads its status file"),
    (call!(SYS_lseek), "files read to their end"),
    (call!(SYS_fstat), "sizes and inodes of what it holds"),
    (call!(SYS_munmap), "allocator"),
    (call!(SYS_mremap), "allocator"),
    (call!(SYS_brk), "allocator"),
    (call!(SYS_madvise), "allocator, stacks"),
    (call!(SYS_futex), "locks"),
    (call!(SYS_sched_yield), "locks"),
    (call!(SYS_sched_getaffinity), "number of CPUs"),
    (call!(SYS_getrandom), "hash seeds, TLS, identifiers"),
    (call!(SYS_clock_gettime), "time, where the vDSO does not answer"),
    (call!(SYS_clock_getres), "time, where the vDSO does not answer"),
    (call!(SYS_gettimeofday), "time, where the vDSO does not answer"),
    (call!(SYS_clock_nanosleep), "waiting"),
    (call!(SYS_nanosleep), "waiting"),
    (call!(SYS_restart_syscall), "waiting, after a stop"),
    (call!(SYS_poll), "waiting"),
    (call!(SYS_ppoll), "waiting"),
    (call!(SYS_rt_sigaction), "Rust's start and overflow handler"),
    (call!(SYS_rt_sigprocmask), "signals kept from workers"),
    (call!(SYS_rt_sigreturn), "return from a handler"),
    (call!(SYS_sigaltstack), "Rust's overflow handler"),
    (call!(SYS_getpid), "abort, records"),
    (call!(SYS_gettid), "abort, locks"),
    (call!(SYS_getuid), "records, checks of a peer"),
    (call!(SYS_geteuid), "records, checks of a peer"),
    (call!(SYS_getgid), "records"),
    (call!(SYS_getegid), "records"),
    (call!(SYS_tgkill), "abort; Landlock keeps signals inside"),
    (call!(SYS_exit), "end of a thread"),
    (call!(SYS_exit_group), "end"),
    (call!(SYS_uname), "versions in records and requests"),
];

/// tokio's and others' event loops.
const EVENTS: Group = &[
    (call!(SYS_epoll_create1), "event loop"),
    (call!(SYS_epoll_ctl), "event loop"),
    (call!(SYS_epoll_wait), "event loop"),
    (call!(SYS_epoll_pwait), "event loop"),
    (call!(SYS_epoll_pwait2), "event loop"),
    (call!(SYS_eventfd2), "wake-ups"),
    (call!(SYS_timerfd_create), "timers"),
    (call!(SYS_timerfd_settime), "timers"),
    (call!(SYS_signalfd4), "signals as events"),
];

/// Sockets that it holds: data and options, no making and no naming.
const SOCKET_DATA: Group = &[
    (call!(SYS_recvfrom), "data"),
    (call!(SYS_recvmsg), "channels, with descriptors"),
    (call!(SYS_getsockopt), "errors of connections"),
    (call!(SYS_setsockopt), "delays and keep-alive"),
    (call!(SYS_getsockname), "records"),
    (call!(SYS_getpeername), "records, event loop"),
    (call!(SYS_shutdown), "end of a stream"),
];

const ACCEPTING: Group = &[(call!(SYS_accept4), "connections to the listener that was handed over")];

const CHILDREN: Group = &[
    (call!(SYS_wait4), "reaping"),
    (call!(SYS_waitid), "reaping"),
    (call!(SYS_pidfd_open), "holding on to a process"),
    (call!(SYS_pidfd_send_signal), "ending what was started"),
    (call!(SYS_kill), "ending what was started; Landlock keeps signals inside"),
];

const SUPERVISING: Group = &[
    (call!(SYS_process_vm_readv), "arguments of granted calls; only processes below its Landlock domain"),
    (call!(SYS_newfstatat), "what a caller's descriptor refers to"),
    (call!(SYS_readlinkat), "what a caller's descriptor refers to"),
    (call!(SYS_readlink), "what a caller's descriptor refers to"),
    (call!(SYS_openat), "path descriptors of what a caller refers to; Landlock decides on contents"),
];

/// Files: for the launcher, which performs granted changes and keeps the records, where its Landlock domain allows.
const FILES: Group = &[
    (call!(SYS_open), "files of its domain"),
    (call!(SYS_openat2), "resolution that cannot leave the workspace"),
    (call!(SYS_creat), "files of its domain"),
    (call!(SYS_stat), "files of its domain"),
    (call!(SYS_lstat), "files of its domain"),
    (call!(SYS_statx), "files of its domain"),
    (call!(SYS_statfs), "room for the record"),
    (call!(SYS_fstatfs), "room for the record"),
    (call!(SYS_access), "granted access checks"),
    (call!(SYS_faccessat), "granted access checks"),
    (call!(SYS_faccessat2), "granted access checks"),
    (call!(SYS_getdents64), "sessions, descriptors of processes"),
    (call!(SYS_getcwd), "messages"),
    (call!(SYS_chdir), "granted calls relative to a directory"),
    (call!(SYS_fchdir), "granted calls relative to a directory"),
    (call!(SYS_umask), "the caller's umask, per thread"),
    (call!(SYS_rename), "records"),
    (call!(SYS_renameat), "granted changes"),
    (call!(SYS_renameat2), "granted changes"),
    (call!(SYS_mkdir), "records"),
    (call!(SYS_mkdirat), "granted changes"),
    (call!(SYS_rmdir), "records"),
    (call!(SYS_link), "records"),
    (call!(SYS_linkat), "granted changes"),
    (call!(SYS_unlink), "records"),
    (call!(SYS_unlinkat), "granted changes"),
    (call!(SYS_symlink), "records"),
    (call!(SYS_symlinkat), "granted changes"),
    (call!(SYS_mknod), "granted FIFOs"),
    (call!(SYS_mknodat), "granted FIFOs"),
    (call!(SYS_truncate), "granted changes"),
    (call!(SYS_ftruncate), "granted changes"),
    (call!(SYS_fallocate), "room for the record"),
    (call!(SYS_chmod), "granted changes"),
    (call!(SYS_fchmod), "granted changes"),
    (call!(SYS_fchmodat), "granted changes"),
    (call!(SYS_fchmodat2), "granted changes"),
    (call!(SYS_chown), "granted changes"),
    (call!(SYS_lchown), "granted changes"),
    (call!(SYS_fchown), "granted changes"),
    (call!(SYS_fchownat), "granted changes"),
    (call!(SYS_utimensat), "granted changes"),
    (call!(SYS_getxattr), "granted changes"),
    (call!(SYS_lgetxattr), "granted changes"),
    (call!(SYS_fgetxattr), "granted changes"),
    (call!(SYS_listxattr), "granted changes"),
    (call!(SYS_llistxattr), "granted changes"),
    (call!(SYS_flistxattr), "granted changes"),
    (call!(SYS_setxattr), "granted changes"),
    (call!(SYS_lsetxattr), "granted changes"),
    (call!(SYS_fsetxattr), "granted changes"),
    (call!(SYS_removexattr), "granted changes"),
    (call!(SYS_lremovexattr), "granted changes"),
    (call!(SYS_fremovexattr), "granted changes"),
    (call!(SYS_flock), "the ledger has one writer at a time"),
    (call!(SYS_fsync), "records reach the disk"),
    (call!(SYS_fdatasync), "records reach the disk"),
    (call!(SYS_pwrite64), "records"),
    (call!(SYS_copy_file_range), "journal"),
    (call!(SYS_sendfile), "journal"),
    (call!(SYS_memfd_create), "vetted copies"),
    (call!(SYS_inotify_init1), "session directories"),
    (call!(SYS_inotify_add_watch), "session directories"),
    (call!(SYS_inotify_rm_watch), "session directories"),
    (call!(SYS_dup), "its standard streams"),
    (call!(SYS_dup2), "its standard streams"),
    (call!(SYS_dup3), "its standard streams"),
    (call!(SYS_pipe2), "wake-ups"),
    (call!(SYS_getppid), "records"),
    (call!(SYS_getpgrp), "job control"),
    (call!(SYS_getpgid), "job control"),
    (call!(SYS_getsid), "job control"),
    (call!(SYS_setpgid), "job control"),
    (call!(SYS_rt_sigtimedwait), "waiting for signals"),
    (call!(SYS_rt_sigpending), "signals of blocked callers"),
    (call!(SYS_getrusage), "records"),
];

/// Starting a role from the program's own image: what its loader and its own locking need before its narrower list holds.
const STARTING: Group = &[
    (call!(SYS_execve), "roles; Landlock allows only the program's own image"),
    (call!(SYS_execveat), "roles; Landlock allows only the program's own image"),
    (call!(SYS_mmap), "the loader maps code"),
    (call!(SYS_mprotect), "the loader seals code"),
    (call!(SYS_arch_prctl), "the loader sets thread storage"),
    (call!(SYS_set_tid_address), "the loader"),
    (call!(SYS_access), "the loader looks for preloads"),
    (call!(SYS_open), "the loader and start-up; Landlock decides"),
    (call!(SYS_stat), "the loader"),
    (call!(SYS_statx), "start-up"),
    (call!(SYS_getdents64), "start-up counts its threads"),
    (call!(SYS_fcntl), "start-up"),
    (call!(SYS_dup2), "fixed descriptors of a role"),
    (call!(SYS_dup3), "fixed descriptors of a role"),
    (call!(SYS_close_range), "sweep of descriptors"),
    (call!(SYS_setsid), "a session of its own"),
    (call!(SYS_getppid), "start-up"),
    (call!(SYS_pipe2), "wake-ups"),
    (call!(SYS_prctl), "no_new_privs, names, parent death"),
    (call!(SYS_capget), "dropping capabilities"),
    (call!(SYS_capset), "dropping capabilities"),
    (call!(SYS_keyctl), "a session keyring of its own"),
    (call!(SYS_landlock_create_ruleset), "narrowing further"),
    (call!(SYS_landlock_add_rule), "narrowing further"),
    (call!(SYS_landlock_restrict_self), "narrowing further"),
    (call!(SYS_seccomp), "narrowing further"),
    (call!(SYS_unlink), "answered by Landlock"),
];

fn allow(rules: &mut Vec<Rule>, group: Group) {
    rules.extend(group.iter().map(|&(call, reason)| rule(call, &[], Action::Allow, reason)));
}

/// No new code after the lock: memory is never made executable.
fn no_new_code(rules: &mut Vec<Rule>) {
    for call in [call!(SYS_mmap), call!(SYS_mprotect)] {
        rules.push(rule(call, &[arg(2, EXECUTABLE)], Action::Allow, "allocator, stacks; nothing executable"));
    }
}

fn descriptors(rules: &mut Vec<Rule>) {
    rules.push(rule(call!(SYS_prlimit64), &[arg(0, Test::Is(0)), arg(2, Test::Null64)], Action::Allow, "size of the main stack"));
    for (command, reason) in [
        (libc::F_DUPFD_CLOEXEC, "copies of descriptors"),
        (libc::F_GETFD, "checks"),
        (libc::F_SETFD, "close on exec"),
        (libc::F_GETFL, "blocking or not"),
        (libc::F_SETFL, "blocking or not"),
    ] {
        rules.push(rule(call!(SYS_fcntl), &[arg(1, Test::Is(command as u32))], Action::Allow, reason));
    }
    for (option, reason) in [
        (libc::PR_SET_NAME as u32, "names of threads"),
        (libc::PR_GET_NAME as u32, "names of threads"),
        (0x5356_4d41 /* PR_SET_VMA */, "the allocator names its memory"),
        (libc::PR_GET_DUMPABLE as u32, "checks"),
    ] {
        rules.push(rule(call!(SYS_prctl), &[arg(0, Test::Is(option))], Action::Allow, reason));
    }
    rules.push(rule(call!(SYS_ioctl), &[arg(1, Test::Is(libc::FIONBIO as u32))], Action::Allow, "blocking or not"));
    rules.push(rule(call!(SYS_ioctl), &[arg(1, Test::Is(libc::FIONREAD as u32))], Action::Allow, "what is there to read"));
}

/// Sending on what is connected already.
fn sending(rules: &mut Vec<Rule>) {
    let connected = [arg(3, Test::None(FAST_OPEN)), arg(4, Test::Null64)];
    rules.push(rule(call!(SYS_sendto), &connected, Action::Allow, "data, to the peer only: no address, no fast open"));
    rules.push(rule(call!(SYS_sendmsg), &[arg(2, Test::None(FAST_OPEN))], Action::Allow, "channels, with descriptors; no fast open"));
}

fn threads(rules: &mut Vec<Rule>) {
    let thread = [arg(0, Test::Masked { mask: libc::CLONE_THREAD as u32 | NEW_NAMESPACES, value: libc::CLONE_THREAD as u32 })];
    rules.push(rule(call!(SYS_clone), &thread, Action::Allow, "threads, no processes"));
    thread_setup(rules);
}

fn processes(rules: &mut Vec<Rule>) {
    rules.push(rule(call!(SYS_clone), &[arg(0, Test::None(NEW_NAMESPACES))], Action::Allow, "roles and threads, no namespaces"));
    rules.push(rule(call!(SYS_fork), &[], Action::Allow, "roles"));
    rules.push(rule(call!(SYS_vfork), &[], Action::Allow, "roles"));
    thread_setup(rules);
}

fn thread_setup(rules: &mut Vec<Rule>) {
    rules.push(rule(call!(SYS_clone3), &[], Action::Errno(Errno::ENOSYS), "its flags lie behind a pointer; libc falls back to clone"));
    rules.push(rule(call!(SYS_set_robust_list), &[], Action::Allow, "start of a thread"));
    rules.push(rule(call!(SYS_rseq), &[], Action::Allow, "start of a thread"));
}

fn tcp_sockets(rules: &mut Vec<Rule>, protocols: &[u32]) {
    for family in [INET, INET6] {
        for &protocol in protocols {
            let tcp = [arg(0, Test::Is(family)), arg(1, Test::Masked { mask: TYPE_MASK, value: STREAM }), arg(2, Test::Is(protocol))];
            rules.push(rule(call!(SYS_socket), &tcp, Action::Allow, "TCP"));
        }
    }
}

fn udp_sockets(rules: &mut Vec<Rule>) {
    for family in [INET, INET6] {
        for protocol in [0, libc::IPPROTO_UDP as u32] {
            let udp = [arg(0, Test::Is(family)), arg(1, Test::Masked { mask: TYPE_MASK, value: DGRAM }), arg(2, Test::Is(protocol))];
            rules.push(rule(call!(SYS_socket), &udp, Action::Allow, "UDP"));
        }
    }
}

fn unix_sockets(rules: &mut Vec<Rule>) {
    let stream = [arg(0, Test::Is(UNIX)), arg(1, Test::Masked { mask: TYPE_MASK, value: STREAM })];
    rules.push(rule(call!(SYS_socket), &stream, Action::Allow, "local sockets"));
}

fn channels(rules: &mut Vec<Rule>) {
    for kind in [STREAM, libc::SOCK_SEQPACKET as u32] {
        let pair = [arg(0, Test::Is(UNIX)), arg(1, Test::Masked { mask: TYPE_MASK, value: kind })];
        rules.push(rule(call!(SYS_socketpair), &pair, Action::Allow, "channels and wake-ups: always connected, unlike datagrams"));
    }
}

fn notifications(rules: &mut Vec<Rule>) {
    for (number, reason) in [
        (libc::SECCOMP_IOCTL_NOTIF_RECV as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_SEND as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_ID_VALID as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_ADDFD as u32, "granted calls"),
        (libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as u32, "cheap wake-ups"),
    ] {
        rules.push(rule(call!(SYS_ioctl), &[arg(1, Test::Is(number))], Action::Allow, reason));
    }
    allow(rules, SUPERVISING);
}

const EACCES: Action = Action::Errno(Errno::EACCES);

fn list(role: Role, rules: Vec<Rule>) -> Filter {
    Filter { name: role.name(), foreign: Action::KillProcess, x32: EACCES, newer: Some((NEWEST_CALL, EACCES)), rules, otherwise: EACCES }
}

fn base() -> Vec<Rule> {
    let mut rules = Vec::new();
    allow(&mut rules, RUNTIME);
    descriptors(&mut rules);
    no_new_code(&mut rules);
    rules
}

pub(super) fn launcher() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, ACCEPTING);
    allow(&mut rules, CHILDREN);
    allow(&mut rules, FILES);
    sending(&mut rules);
    threads(&mut rules);
    notifications(&mut rules);
    unix_sockets(&mut rules);
    channels(&mut rules);
    for call in [call!(SYS_connect), call!(SYS_bind)] {
        rules.push(rule(call, &[], Action::Allow, "granted UNIX sockets; Landlock refuses TCP, and it cannot make other sockets"));
    }
    rules.push(rule(call!(SYS_listen), &[], Action::Allow, "control and tool sockets"));
    let own_state = [arg(0, Test::Is(libc::CLONE_FS as u32))];
    rules.push(rule(call!(SYS_unshare), &own_state, Action::Allow, "umask and directory per supervising thread"));
    for (command, reason) in [
        (libc::F_SETLEASE, "finds writers"),
        (libc::F_GETLEASE, "finds writers"),
        (libc::F_SETLK, "the ledger has one writer at a time"),
        (libc::F_SETLKW, "the ledger has one writer at a time"),
        (libc::F_OFD_SETLK, "the ledger has one writer at a time"),
        (libc::F_DUPFD, "copies of descriptors"),
        (libc::F_ADD_SEALS, "vetted copies"),
    ] {
        rules.push(rule(call!(SYS_fcntl), &[arg(1, Test::Is(command as u32))], Action::Allow, reason));
    }
    for (number, reason) in [
        (libc::TCGETS as u32, "the person's terminal"),
        (libc::TCSETS as u32, "the person's terminal"),
        (libc::TCSETSW as u32, "the person's terminal"),
        (libc::TCSETSF as u32, "the person's terminal"),
        (libc::TIOCGWINSZ as u32, "the person's terminal"),
        (libc::TIOCSWINSZ as u32, "a terminal of the session's own"),
        (libc::TIOCGPGRP as u32, "job control"),
        (libc::TIOCSPGRP as u32, "job control"),
    ] {
        rules.push(rule(call!(SYS_ioctl), &[arg(1, Test::Is(number))], Action::Allow, reason));
    }
    list(Role::Launcher, rules)
}

pub(super) fn init() -> Filter {
    let mut rules = base();
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, CHILDREN);
    sending(&mut rules);
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    udp_sockets(&mut rules);
    unix_sockets(&mut rules);
    for call in [call!(SYS_connect), call!(SYS_bind)] {
        rules.push(rule(call, &[], Action::Allow, "on the launcher's request, in the session's network namespace"));
    }
    rules.push(rule(call!(SYS_rt_sigtimedwait), &[], Action::Allow, "waiting for children"));
    rules.push(rule(call!(SYS_signalfd4), &[], Action::Allow, "waiting for children"));
    list(Role::Init, rules)
}

pub(super) fn outside_model() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, CHILDREN);
    sending(&mut rules);
    threads(&mut rules);
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    rules.push(rule(call!(SYS_connect), &[], Action::Allow, "the pinned upstream; Landlock allows its port only"));
    list(Role::OutsideModel, rules)
}

pub(super) fn outside_web() -> Filter {
    let mut rules = Vec::new();
    allow(&mut rules, RUNTIME);
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, CHILDREN);
    allow(&mut rules, STARTING);
    sending(&mut rules);
    processes(&mut rules);
    notifications(&mut rules);
    channels(&mut rules);
    rules.push(rule(call!(SYS_prlimit64), &[arg(0, Test::Is(0))], Action::Allow, "a role sets its own core limit"));
    rules.push(rule(call!(SYS_ioctl), &[arg(1, Test::Is(libc::FIONBIO as u32))], Action::Allow, "blocking or not"));
    rules.push(rule(call!(SYS_ioctl), &[arg(1, Test::Is(libc::FIONREAD as u32))], Action::Allow, "what is there to read"));
    let one_thread = [arg(0, Test::Is(libc::CLONE_THREAD as u32))];
    rules.push(rule(call!(SYS_unshare), &one_thread, Action::Allow, "start-up asks whether it has one thread"));
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    rules.push(rule(call!(SYS_connect), &[], Action::Allow, "public addresses, after its own check of each"));
    list(Role::OutsideWeb, rules)
}

pub(super) fn resolver() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    sending(&mut rules);
    tcp_sockets(&mut rules, &[0, libc::IPPROTO_TCP as u32]);
    udp_sockets(&mut rules);
    rules.push(rule(call!(SYS_connect), &[], Action::Allow, "DNS servers; Landlock allows TCP port 53 only"));
    rules.push(rule(call!(SYS_bind), &[], Action::Allow, "a random source port for UDP; Landlock refuses TCP"));
    list(Role::Resolver, rules)
}

pub(super) fn gateway() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    allow(&mut rules, ACCEPTING);
    sending(&mut rules);
    list(Role::Gateway, rules)
}

pub(super) fn retriever() -> Filter {
    let mut rules = base();
    allow(&mut rules, EVENTS);
    allow(&mut rules, SOCKET_DATA);
    sending(&mut rules);
    tcp_sockets(&mut rules, &[libc::IPPROTO_TCP as u32]);
    rules.push(rule(call!(SYS_connect), &[], Action::Allow, "granted one by one: the stacked filter notifies"));
    list(Role::Retriever, rules)
}
