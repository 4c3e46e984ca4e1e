//! `supervised CMD…`: runs a command below a supervisor of system calls that listens already, as some container runtimes, WSL2 and
//! other sandboxes have one: a second listener answers EBUSY. It decides on nothing but the calls of one number that nobody makes.

use picktwo_confine::channel;
use picktwo_confine::notify::Listener;
use picktwo_confine::process;
use picktwo_confine::seccomp::{self, Action, Filter, Rule};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let failed = |e: &dyn std::fmt::Display| {
        eprintln!("supervised: {e}");
        ExitCode::from(125)
    };
    let filter = Filter {
        name: "supervised",
        foreign: Action::Allow,
        x32: Action::Allow,
        newer: None,
        rules: vec![Rule {
            nr: nix::libc::SYS_lookup_dcookie,
            name: "lookup_dcookie",
            when: Vec::new(),
            then: Action::Notify,
            reason: "so that there is something to listen for",
        }],
        otherwise: Action::Allow,
    };
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        return failed(&"no command");
    };
    let (ours, theirs) = match channel::pair() {
        Ok(pair) => pair,
        Err(e) => return failed(&e),
    };
    // The supervisor lives as long as the command, which this process becomes.
    let supervisor = process::fork_bound("a supervisor", || {
        let mut message = Vec::new();
        let Ok(Some(mut fds)) = theirs.recv(&mut message) else {
            return 1;
        };
        let Some(listener) = fds.pop().map(Listener::from) else {
            return 1;
        };
        while !listener.ended() {
            if let Ok(true) = listener.wait(1000)
                && let Ok(Some(request)) = listener.recv()
            {
                let _ = listener.reply_errno(request.id, nix::errno::Errno::ENOSYS);
            }
        }
        0
    });
    if let Err(e) = supervisor {
        return failed(&e);
    }
    let listener = picktwo_confine::limits::no_new_privs().and_then(|()| seccomp::install_listener(&filter));
    let listener = match listener {
        Ok(listener) => OwnedFd::from(listener),
        Err(e) => return failed(&e),
    };
    if let Err(e) = ours.send(b"listener", &[listener.as_fd()]) {
        return failed(&e);
    }
    drop((ours, theirs, listener));
    let error = Command::new(&program).args(words).exec();
    failed(&format!("{}: {error}", program.display()))
}
