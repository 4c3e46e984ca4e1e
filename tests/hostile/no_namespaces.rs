//! `no_namespaces CMD…`: runs a command where no namespace can be had, as Docker's default profile has it for containers without
//! CAP_SYS_ADMIN: unshare, clone with CLONE_NEW*, mount and setns answer EPERM, clone3 ENOSYS. What that profile refuses besides is
//! refused, too (moby/profiles, seccomp/default.json), and what older ones of other runtimes do and picktwo would use.

use nix::errno::Errno;
use picktwo_confine::seccomp::{self, Action, Cond, Filter, Rule, Test};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const NEW_NAMESPACES: i32 = nix::libc::CLONE_NEWNS
    | nix::libc::CLONE_NEWCGROUP
    | nix::libc::CLONE_NEWUTS
    | nix::libc::CLONE_NEWIPC
    | nix::libc::CLONE_NEWUSER
    | nix::libc::CLONE_NEWPID
    | nix::libc::CLONE_NEWNET;

fn main() -> ExitCode {
    let eperm = Action::Errno(Errno::EPERM);
    let rule = |nr, name, when, then| Rule {
        nr,
        name,
        when,
        then,
        reason: "as in a container",
    };
    let mut rules: Vec<Rule> = [
        (nix::libc::SYS_unshare, "unshare"),
        (nix::libc::SYS_setns, "setns"),
        (nix::libc::SYS_mount, "mount"),
        (nix::libc::SYS_umount2, "umount2"),
        (nix::libc::SYS_pivot_root, "pivot_root"),
        (nix::libc::SYS_open_tree, "open_tree"),
        (nix::libc::SYS_move_mount, "move_mount"),
        (nix::libc::SYS_fsopen, "fsopen"),
        (nix::libc::SYS_mount_setattr, "mount_setattr"),
        (nix::libc::SYS_pidfd_getfd, "pidfd_getfd"),
        (nix::libc::SYS_keyctl, "keyctl"),
        (nix::libc::SYS_add_key, "add_key"),
        (nix::libc::SYS_request_key, "request_key"),
        (nix::libc::SYS_fsconfig, "fsconfig"),
        (nix::libc::SYS_fsmount, "fsmount"),
        (nix::libc::SYS_fspick, "fspick"),
        (nix::libc::SYS_bpf, "bpf"),
        (nix::libc::SYS_perf_event_open, "perf_event_open"),
        (nix::libc::SYS_fanotify_init, "fanotify_init"),
        (nix::libc::SYS_lookup_dcookie, "lookup_dcookie"),
        (nix::libc::SYS_open_by_handle_at, "open_by_handle_at"),
        (nix::libc::SYS_quotactl, "quotactl"),
        (nix::libc::SYS_sethostname, "sethostname"),
        (nix::libc::SYS_setdomainname, "setdomainname"),
        (nix::libc::SYS_syslog, "syslog"),
        (nix::libc::SYS_io_uring_setup, "io_uring_setup"),
        (nix::libc::SYS_io_uring_enter, "io_uring_enter"),
        (nix::libc::SYS_io_uring_register, "io_uring_register"),
        (nix::libc::SYS_userfaultfd, "userfaultfd"),
        (nix::libc::SYS_kcmp, "kcmp"),
        (nix::libc::SYS_acct, "acct"),
        (nix::libc::SYS_vhangup, "vhangup"),
        (nix::libc::SYS_fchmodat2, "fchmodat2"),
    ]
    .into_iter()
    .map(|(nr, name)| rule(nr, name, Vec::new(), eperm))
    .collect();
    let namespaces = Cond {
        argument: 0,
        test: Test::Any(NEW_NAMESPACES as u32),
    };
    rules.push(rule(nix::libc::SYS_clone, "clone", vec![namespaces], eperm));
    let vsock = Cond {
        argument: 0,
        test: Test::Is(nix::libc::AF_VSOCK as u32),
    };
    rules.push(rule(nix::libc::SYS_socket, "socket", vec![vsock], eperm));
    rules.push(rule(
        nix::libc::SYS_clone3,
        "clone3",
        Vec::new(),
        Action::Errno(Errno::ENOSYS),
    ));
    let filter = Filter {
        name: "no namespaces",
        foreign: Action::Allow,
        x32: Action::Allow,
        newer: None,
        rules,
        otherwise: Action::Allow,
    };
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("no_namespaces: no command");
        return ExitCode::from(125);
    };
    if let Err(e) = picktwo_confine::limits::no_new_privs().and_then(|()| seccomp::install(&filter)) {
        eprintln!("no_namespaces: {e}");
        return ExitCode::from(125);
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("no_namespaces: {}: {error}", program.display());
    ExitCode::from(126)
}
