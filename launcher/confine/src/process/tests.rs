use super::*;
use crate::testing::{child_says, in_child, in_namespaces};
use std::os::unix::ffi::OsStrExt;

#[test]
fn exits_are_told_apart() {
    assert_eq!(fork(|| 0).unwrap().wait().unwrap(), Exit::Code(0));
    assert_eq!(fork(|| 200).unwrap().wait().unwrap(), Exit::Code(200));
    let child = fork(|| {
        std::thread::sleep(std::time::Duration::from_secs(100));
        0
    })
    .unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    assert!(!child.ended_within(1).unwrap());
    child.signal(Signal::SIGSTOP).unwrap();
    assert_eq!(child.wait_change().unwrap(), Exit::Stopped(libc::SIGSTOP));
    child.signal(Signal::SIGCONT).unwrap();
    assert_eq!(child.wait_change().unwrap(), Exit::Continued);
    child.signal(Signal::SIGTERM).unwrap();
    assert!(child.ended_within(5_000).unwrap());
    assert_eq!(child.wait().unwrap(), Exit::Signal(libc::SIGTERM));
    assert_eq!(Exit::Signal(libc::SIGTERM).code(), 143);
    child.signal(Signal::SIGTERM).unwrap();
    assert!(matches!(
        child.wait(),
        Err(Error::Wait {
            errno: Errno::ECHILD,
            ..
        })
    ));
}

#[test]
fn a_panicking_child_ends_without_running_the_parents_code() {
    let (exit, said) = in_child(|| std::panic::resume_unwind(Box::new(1)));
    assert_eq!((exit, said.as_str()), (Exit::Code(PANICKED.into()), ""));
}

/// A child of a process that is killed is killed, too; the race between the two is closed.
#[test]
fn children_end_with_their_parent() {
    let sleep = || {
        std::thread::sleep(std::time::Duration::from_secs(100));
        0
    };
    for namespaced in [false, true] {
        for _ in 0..10 {
            let (ours, theirs) = channel::pair().unwrap();
            let parent = fork(|| {
                let child = match namespaced {
                    true => clone_namespaces(crate::namespace::SESSION, "a child", sleep),
                    false => fork_bound("a child", sleep),
                }
                .unwrap();
                theirs.send(b"x", &[child.pidfd()]).unwrap();
                // At once, while the child is perhaps not yet asking for its end.
                nix::sys::signal::kill(nix::unistd::getpid(), Signal::SIGKILL).unwrap();
                0
            })
            .unwrap();
            drop(theirs);
            let child = ours.recv(&mut Vec::new()).unwrap().unwrap().pop().unwrap();
            assert_eq!(parent.wait().unwrap(), Exit::Signal(libc::SIGKILL));
            assert!(ended(child.as_fd(), 5_000).unwrap());
        }
    }
}

#[test]
fn a_parent_that_is_gone_is_noticed() {
    let said = child_says(|| {
        let gone = fork(|| 0).unwrap();
        gone.wait().unwrap();
        format!("{:?}", parent_death_kill(gone.pidfd()))
    });
    assert_eq!(said, "Err(ParentGone)");
}

#[test]
fn a_new_pid_namespace_starts_at_1_without_a_visible_parent() {
    let said = in_namespaces(|| format!("{} {}", nix::unistd::getpid(), nix::unistd::getppid()));
    assert_eq!(said, "1 0");
}

#[test]
fn a_process_with_threads_starts_nothing_that_needs_one() {
    let said = child_says(|| {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        let results = [
            fork_bound("x", || 0).unwrap_err(),
            clone_namespaces(crate::namespace::SESSION, "x", || 0).unwrap_err(),
            clone_into_parent(None, "x", || 0).unwrap_err(),
            single_threaded().unwrap_err(),
        ];
        drop(go);
        let _ = thread.join();
        format!(
            "{} {:?}",
            results.iter().all(|e| *e == Error::Threads { count: 2 }),
            single_threaded()
        )
    });
    assert_eq!(said, "true Ok(())");
}

/// A role gets its title, its channel and nothing else. The program executed here is a shell that looks around.
#[test]
fn a_role_starts_with_four_descriptors_an_empty_environment_and_its_title() {
    let secret = File::open("/dev/zero").unwrap();
    // SAFETY: clears a flag, so that the descriptor would be inherited.
    unsafe { libc::fcntl(secret.as_raw_fd(), libc::F_SETFD, 0) };
    let program = File::open("/bin/cat").unwrap();
    let said = child_says(|| {
        // A role that waits: cat with no argument would end at /dev/null, so it is looked at through a stopped child.
        let (ours, theirs) = channel::pair().unwrap();
        let exe = program.as_fd().try_clone_to_owned().unwrap();
        let child = fork_bound("a role", || {
            nix::unistd::setsid().unwrap();
            // Stops at its exec, where we look at it.
            crate::attempt::numbers(libc::SYS_ptrace, &[libc::PTRACE_TRACEME.into()]).unwrap();
            let _error = become_role(Role::Resolver, exe, theirs);
            126
        })
        .unwrap();
        let seen = child.wait_change().unwrap();
        let proc = format!("/proc/{}", child.pid());
        let mut fds: Vec<_> = std::fs::read_dir(format!("{proc}/fd"))
            .unwrap()
            .map(|e| e.unwrap())
            .map(|e| {
                format!(
                    "{}={}",
                    e.file_name().to_string_lossy(),
                    std::fs::read_link(e.path())
                        .unwrap()
                        .to_string_lossy()
                        .split(':')
                        .next()
                        .unwrap()
                )
            })
            .collect();
        fds.sort();
        let cmdline = std::fs::read(format!("{proc}/cmdline")).unwrap();
        let environ = std::fs::read(format!("{proc}/environ")).unwrap();
        let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(child.pid())))
            .unwrap()
            .as_raw()
            == child.pid();
        child.kill_and_wait().unwrap();
        drop(ours);
        format!(
            "{seen:?} {} {:?} {} {session}",
            fds.join(" "),
            std::ffi::OsStr::from_bytes(&cmdline),
            environ.len()
        )
    });
    assert_eq!(
        said,
        "Stopped(5) 0=/dev/null 1=/dev/null 2=/dev/null 3=socket \"picktwo: resolver\\0\" 0 true"
    );
}

/// The same without an execution: what the copy brought along is gone, in /proc and in memory.
#[test]
fn a_role_in_place_keeps_neither_arguments_nor_environment_nor_descriptors() {
    let secret = File::open("/dev/zero").unwrap();
    let said = child_says(|| {
        let look = |what: &str| std::fs::read(format!("/proc/self/{what}")).unwrap();
        let before = look("environ").windows(5).any(|w| w == b"PATH=") && !look("cmdline").is_empty();
        let (ours, theirs) = channel::pair().unwrap();
        let child = fork_bound("a role", || {
            let channel = become_role_in_place(Role::Init, theirs).unwrap();
            let mut open: Vec<_> = std::fs::read_dir("/proc/self/fd")
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            open.sort();
            let environ = look("environ");
            let line = format!(
                "{} {:?} {} {:?}",
                open.join(","),
                String::from_utf8_lossy(&look("cmdline")).trim_end_matches('\0'),
                environ.iter().all(|b| *b == 0),
                std::env::vars_os().count(),
            );
            channel.send(line.as_bytes(), &[]).unwrap();
            0
        })
        .unwrap();
        let mut line = Vec::new();
        ours.recv(&mut line).unwrap().unwrap();
        child.wait().unwrap();
        format!("{before} {}", String::from_utf8(line).unwrap())
    });
    drop(secret);
    // The fourth is the directory that is being read.
    assert_eq!(said, "true 0,1,2,3,4 \"picktwo: init\" true 0");
}
