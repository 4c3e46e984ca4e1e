//! Every refusal of the agent's list in the kernel: the exact error, and a control without the filter that gets another answer.

mod arguments;

use super::*;
use crate::attempt::{self, Arg};
use crate::process::Exit;
use crate::seccomp::{self, ARCH};
use crate::selfcheck;
use crate::testing::{child_says, in_child, in_namespaces};
use nix::errno::Errno;
use std::collections::BTreeSet;

const N: i64 = -1;

/// When an unfiltered process gets another answer than the refused one.
#[derive(PartialEq)]
enum Control {
    /// With the capabilities of a user namespace, which is what a process in a session could otherwise get.
    Namespaced,
    /// Only as root of the host: everybody else is refused by the kernel with the same error.
    Root,
    /// Never safely, or the kernel has not got the call.
    None(&'static str),
}
use Control::{Namespaced, Root};

/// Arguments that do nothing if the call is not refused.
fn harmless(name: &str) -> ([i64; 6], Control) {
    match name {
        "ptrace" => ([libc::PTRACE_ATTACH as i64, N, 0, 0, 0, 0], Namespaced),
        "kcmp" | "setns" | "process_vm_readv" | "process_vm_writev" | "process_madvise" | "process_mrelease"
        | "pidfd_getfd" | "move_pages" | "migrate_pages" | "io_uring_enter" | "io_uring_register" | "fsconfig"
        | "fsmount" | "quotactl_fd" | "open_by_handle_at" | "name_to_handle_at" | "fanotify_mark" | "clock_settime"
        | "clock_adjtime" => ([N, N, 0, 0, 0, 0], Namespaced),
        "fspick" | "open_tree" | "open_tree_attr" | "mount_setattr" | "setxattrat" | "removexattrat"
        | "file_setattr" => ([N, 8, 0, 0, 0, 0], Namespaced),
        "keyctl" => ([0xffff, 0, 0, 0, 0, 0], Namespaced),
        "userfaultfd" => ([0x4000_0001, 0, 0, 0, 0, 0], Namespaced),
        "memfd_secret" => ([N, 0, 0, 0, 0, 0], Namespaced),
        "fanotify_init" => ([0x200, N, 0, 0, 0, 0], Namespaced),
        "sethostname" | "setdomainname" => ([8, N, 0, 0, 0, 0], Namespaced),
        "modify_ldt" | "sysfs" | "iopl" => ([99, 0, 0, 0, 0, 0], Namespaced),
        "ioperm" => ([N, N, 0, 0, 0, 0], Namespaced),
        "quotactl" => ([N, 0, 0, 0, 0, 0], Namespaced),
        "bpf" => ([N, 0, 0, 0, 0, 0], Root),
        "reboot" => ([1, 1, 1, 0, 0, 0], Root),
        "syslog" => ([99, 0, 0, 0, 0, 0], Root),
        "finit_module" => ([N, 0, 0, 0, 0, 0], Root),
        "kexec_load" => ([0, 99, 0, 0, 0, 0], Root),
        "kexec_file_load" => ([N, N, 0, 0, 99, 0], Root),
        "swapon" | "swapoff" | "init_module" | "delete_module" => ([8, 0, 0, 0, 0, 0], Root),
        "settimeofday" => ([8, 0, 0, 0, 0, 0], Namespaced),
        "acct" => ([8, 0, 0, 0, 0, 0], Root),
        "vhangup" => (
            [0; 6],
            Control::None("would hang up the terminal of whoever runs the tests"),
        ),
        // uselib, lookup_dcookie, nfsservctl, io_uring_setup, add_key, mount, …: null pointers.
        _ => ([0; 6], Namespaced),
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// One line per call: name and answer, with the agent's list installed or not.
fn answers(calls: &[(&'static str, i64, [i64; 6])], filtered: bool) -> Vec<String> {
    let run = || {
        // Alone in its process group, so that what acts on a group acts on this child only.
        nix::unistd::setsid().unwrap();
        if filtered {
            seccomp::install(&agent_plain()).unwrap();
        }
        calls
            .iter()
            .map(|(_, nr, args)| attempt::describe(&attempt::numbers(*nr, args)))
            .collect::<Vec<_>>()
            .join("\n")
    };
    // As root of the host the refusals of the kernel itself do not blur the control.
    let said = if is_root() { child_says(run) } else { in_namespaces(run) };
    said.lines().map(str::to_owned).collect()
}

#[test]
fn every_denied_call_fails_with_its_error_and_not_without_the_filter() {
    let mut calls = Vec::new();
    let mut controls = Vec::new();
    for (call, _, _) in agent::DENIED {
        let (args, control) = harmless(call.1);
        calls.push((call.1, call.0, args));
        controls.push(control);
    }
    let with = answers(&calls, true);
    let skip: Vec<_> = calls
        .iter()
        .zip(&controls)
        .filter(|(_, c)| !matches!(c, Control::None(_)))
        .map(|(c, _)| *c)
        .collect();
    let without: std::collections::BTreeMap<_, _> = skip.iter().map(|c| c.0).zip(answers(&skip, false)).collect();
    let mut same = Vec::new();
    for (((name, _, _), answer), ((_, action, _), control)) in
        calls.iter().zip(&with).zip(agent::DENIED.iter().zip(&controls))
    {
        let Action::Errno(errno) = action else {
            panic!("{name}: {action:?}")
        };
        assert_eq!(answer, &format!("{errno:?}"), "{name}");
        let must_differ = match control {
            Namespaced => true,
            Root => is_root(),
            Control::None(why) => {
                assert!(!why.is_empty());
                false
            }
        };
        if must_differ && without.get(name) == Some(answer) {
            same.push(*name);
        }
    }
    // What this kernel was built without answers ENOSYS bare, too; nothing else may be indistinguishable.
    let absent: BTreeSet<_> = same.iter().filter(|name| without[*name] == "ENOSYS").collect();
    assert_eq!(absent.len(), same.len(), "the control got the same answer: {same:?}");
}

#[test]
fn numbers_that_are_not_assigned_are_refused_before_the_kernel_sees_them() {
    let filter = agent_plain();
    for nr in (337..=423).chain([470, 471, 512, 547, 600, 1000]) {
        assert_eq!(filter.decide(ARCH, nr, &[0; 6]), Action::Errno(Errno::ENOSYS), "{nr}");
    }
}

#[test]
fn calls_refused_by_argument_fail_exactly_and_their_neighbours_do_not() {
    let cases = arguments::by_argument();
    let calls: Vec<_> = cases.iter().map(|c| (c.0, c.1, c.2)).collect();
    let (with, without) = (answers(&calls, true), answers(&calls, false));
    // Made descriptors have the lowest free number: a number is as good as another.
    let kind = |answer: &str| {
        if answer.parse::<i64>().is_ok_and(|n| n >= 0) {
            "done".to_owned()
        } else {
            answer.to_owned()
        }
    };
    for ((case, with), without) in cases.iter().zip(&with).zip(&without) {
        match case.3 {
            Some(errno) => {
                assert_eq!(with, &format!("{errno:?}"), "{}", case.0);
                // A family or protocol that this kernel lacks, and PR_SET_MM, answer the same bare.
                let lacks = without == "EAFNOSUPPORT" || without == "EPROTONOSUPPORT" || case.0 == "PR_SET_MM";
                assert!(lacks || with != without, "{}: the control got {without}, too", case.0);
            }
            None => assert_eq!(kind(with), kind(without), "{}", case.0),
        }
    }
}

/// Each namespace flag of `clone`, in the shape that makes a process.
#[test]
fn clone_makes_processes_but_no_namespaces() {
    for flag in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        // In a namespace, without a filter, each of them works.
        for (filtered, expected) in [(true, "EPERM"), (false, "made")] {
            let said = in_namespaces(|| {
                if filtered {
                    seccomp::install(&agent_plain()).unwrap();
                }
                match attempt::numbers(libc::SYS_clone, &[i64::from(flag) | i64::from(libc::SIGCHLD)]) {
                    Ok(0) => crate::process::exit_now(0),
                    Ok(_) => "made".into(),
                    Err(errno) => format!("{errno:?}"),
                }
            });
            assert_eq!(said, expected, "{flag:#x}");
        }
    }
}

#[test]
fn ordinary_programs_run_under_the_agents_list() {
    let (exit, said) = in_child(|| {
        seccomp::install(&agent_plain()).unwrap();
        let thread = std::thread::spawn(|| 42).join().unwrap();
        let output = std::process::Command::new("/bin/sh")
            .args([
                "-c",
                "set -m; (exit 3); a=$?; echo hi | cat; ls / >/dev/null && mkfifo /tmp/.$$ && rm /tmp/.$$; echo $a",
            ])
            .output()
            .unwrap();
        format!(
            "{thread} {:?} {:?}",
            output.status.code(),
            String::from_utf8_lossy(&output.stdout)
        )
    });
    assert_eq!((exit, said.as_str()), (Exit::Code(0), "42 Some(0) \"hi\\n3\\n\""));
}

#[test]
fn the_core_limit_stays_and_says_yes() {
    let said = child_says(|| {
        crate::limits::core_limit().unwrap();
        seccomp::install(&agent_plain()).unwrap();
        let zero = [0u8; 16];
        let args = |nr| match nr {
            libc::SYS_setrlimit => [Arg::Int(4), Arg::In(&zero), Arg::Null, Arg::Null, Arg::Null, Arg::Null],
            _ => [
                Arg::Int(0),
                Arg::Int(4),
                Arg::In(&zero),
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        };
        let first = attempt::syscall(libc::SYS_setrlimit, args(libc::SYS_setrlimit));
        let second = attempt::syscall(libc::SYS_prlimit64, args(libc::SYS_prlimit64));
        let now = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_CORE);
        format!("{first:?} {second:?} {now:?}")
    });
    assert_eq!(said, "Ok(0) Ok(0) Ok((1, 1))");
}

#[test]
fn every_reason_is_given() {
    for filter in [
        agent_plain(),
        agent_container(),
        agent_nested(),
        agent_notify(Grants::ALL),
        agent_notify(Grants::CONTAINER),
        retriever_notify(),
    ]
    .into_iter()
    .chain(Role::ALL.map(for_role))
    {
        for rule in &filter.rules {
            assert!(
                rule.reason.len() >= 3 && !rule.name.is_empty(),
                "{} {}",
                filter.name,
                rule.nr
            );
        }
    }
}

/// No rule of a list is shadowed by an earlier one.
#[test]
fn no_rule_is_redundant() {
    for filter in [
        agent_plain(),
        agent_container(),
        agent_nested(),
        agent_notify(Grants::ALL),
        agent_notify(Grants::CONTAINER),
        retriever_notify(),
    ]
    .into_iter()
    .chain(Role::ALL.map(for_role))
    {
        let mut unconditional = BTreeSet::new();
        for (i, rule) in filter.rules.iter().enumerate() {
            assert!(
                !unconditional.contains(&rule.nr),
                "{}: {} comes after a rule that decides it always",
                filter.name,
                rule.name
            );
            assert!(
                !filter.rules[..i].iter().any(|r| r.nr == rule.nr && r.when == rule.when),
                "{}: {} twice",
                filter.name,
                rule.name
            );
            if rule.when.is_empty() {
                unconditional.insert(rule.nr);
            }
        }
    }
}

/// Calls that change files or metadata and are neither granted nor refused: each must be known here, with the reason.
#[test]
fn no_changing_call_is_forgotten() {
    let (plain, notify) = (agent_plain(), agent_notify(Grants::ALL));
    let changing = [
        libc::SYS_creat,
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_mkdir,
        libc::SYS_mkdirat,
        libc::SYS_rmdir,
        libc::SYS_link,
        libc::SYS_linkat,
        libc::SYS_unlink,
        libc::SYS_unlinkat,
        libc::SYS_symlink,
        libc::SYS_symlinkat,
        libc::SYS_mknod,
        libc::SYS_mknodat,
        libc::SYS_truncate,
        libc::SYS_chmod,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchmodat2,
        libc::SYS_chown,
        libc::SYS_fchown,
        libc::SYS_lchown,
        libc::SYS_fchownat,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        libc::SYS_openat2,
        libc::SYS_connect,
        libc::SYS_bind,
        number::SETXATTRAT,
        number::REMOVEXATTRAT,
        number::FILE_SETATTR,
    ];
    for nr in changing {
        let (plain, notify) = (
            plain.decide(ARCH, nr as u32, &[0; 6]),
            notify.decide(ARCH, nr as u32, &[0; 6]),
        );
        assert!(
            matches!(plain, Action::Errno(_)) || notify == Action::Notify,
            "{nr}: {plain:?} {notify:?}"
        );
    }
    for (nr, at) in [(libc::SYS_open, 1), (libc::SYS_openat, 2)] {
        for flags in [1, 2, 0o100, 0o1000, 0o20_000_000, 0o20_200_000 | 2, 1 << 32 | 1] {
            let mut args = [0; 6];
            args[at] = flags;
            assert_eq!(notify.decide(ARCH, nr as u32, &args), Action::Notify, "{nr} {flags:o}");
        }
        for flags in [
            0,
            libc::O_DIRECTORY,
            libc::O_PATH | libc::O_NOFOLLOW,
            libc::O_CLOEXEC,
            libc::O_NONBLOCK,
        ] {
            let mut args = [0; 6];
            args[at] = flags as u64;
            assert_eq!(notify.decide(ARCH, nr as u32, &args), Action::Allow, "{nr} {flags:o}");
        }
    }
}

#[test]
fn roles_are_refused_what_the_table_says_they_lack() {
    for role in Role::ALL
        .into_iter()
        .filter(|r| !matches!(r, Role::Agent | Role::Launcher | Role::Command | Role::OutsideWeb))
    {
        let filter = for_role(role);
        let denied = selfcheck::denied_by(&filter);
        let names: BTreeSet<_> = denied.iter().map(|d| d.name).collect();
        for name in [
            "openat",
            "execve",
            "execveat",
            "ptrace",
            "io_uring_setup",
            "socket(netlink)",
            "socket(mptcp)",
            "unshare",
            "listen",
        ] {
            assert!(names.contains(name), "{}: {name}", role.name());
        }
        for name in ["socket(inet, tcp)", "connect"] {
            // A retriever asks for protocol 6 and is granted it one by one.
            let makes = matches!(role, Role::Init | Role::Broker | Role::OutsideModel | Role::Resolver)
                || (role == Role::Retriever && name == "connect");
            assert_eq!(names.contains(name), !makes, "{}: {name}", role.name());
        }
    }
}

/// Every role's list in the kernel: what its self-check tries is refused with the right error, and not without the list.
#[test]
fn every_lists_self_check_holds_in_the_kernel_and_fails_without_it() {
    for role in Role::ALL {
        let filter = for_role(role);
        let denied = selfcheck::denied_by(&filter);
        assert!(denied.len() >= 10, "{}: {}", role.name(), denied.len());
        let said = child_says(|| {
            let check = selfcheck::SelfCheck::prepare().unwrap();
            let bounding = crate::limits::drop_all_capabilities().unwrap();
            crate::limits::no_new_privs().unwrap();
            let before = format!("{:?}", check.locked(bounding, &denied).map_err(|e| e.to_string()));
            seccomp::install(&filter).unwrap();
            format!("{before}\n{:?}", check.locked(bounding, &denied))
        });
        // For each single call: bare, it does not answer what the check wants.
        let blind = child_says(|| {
            let blind = denied
                .iter()
                .filter(|d| attempt::numbers(d.nr, &d.args) == Err(d.errno));
            blind.map(|d| d.name).collect::<Vec<_>>().join("\n")
        });
        let mut lines = said.lines();
        assert_eq!(
            lines.next(),
            Some("Err(\"confinement check failed: Seccomp must be 2, found 0\")"),
            "{}",
            role.name()
        );
        assert_eq!(lines.next(), Some("Ok(())"), "{}", role.name());
        // A family that this kernel lacks answers EAFNOSUPPORT bare.
        let blind: Vec<_> = blind.lines().filter(|n| !n.starts_with("socket(")).collect();
        assert!(
            blind.is_empty(),
            "{}: {blind:?} would not show a missing list",
            role.name()
        );
    }
}

/// What any role does all the time works under every list: memory, time, locks, channels, and, where they may, threads.
#[test]
fn roles_work_under_their_lists() {
    for role in Role::ALL {
        let said = child_says(|| {
            let (a, b) = crate::channel::pair().unwrap();
            let null = std::fs::File::open("/dev/null").unwrap();
            seccomp::install(&for_role(role)).unwrap();
            a.send(b"x", &[std::os::fd::AsFd::as_fd(&null)]).unwrap();
            let fds = b.recv(&mut Vec::new()).unwrap().unwrap();
            let big = vec![1u8; 64 << 20];
            std::thread::sleep(std::time::Duration::from_millis(1));
            let threads = matches!(
                role,
                Role::Launcher | Role::Command | Role::OutsideModel | Role::OutsideWeb | Role::Agent
            );
            let thread = std::thread::Builder::new().spawn(|| 7).map(|t| t.join().unwrap());
            if threads {
                assert_eq!(thread.unwrap(), 7);
            } else {
                assert_eq!(thread.unwrap_err().raw_os_error(), Some(libc::EACCES));
            }
            let panicked = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(3))).is_err();
            format!("{} {} {panicked}", fds.len(), big.len())
        });
        assert_eq!(said, format!("1 {} true", 64 << 20), "{}", role.name());
    }
}
