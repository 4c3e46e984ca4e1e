//! Namespaces by themselves, and the whole order of a session: namespaces, the launcher's Landlock domain, the agent.

use super::*;
use crate::channel::{self, Channel};
use crate::filters::{self, Grants};
use crate::landlock::{self, Access, Rights};
use crate::notify::Listener;
use crate::process::{self, Child, Exit};
use crate::selfcheck::{self, SelfCheck};
use crate::testing::{child_says, in_namespaces, scratch};
use crate::{attempt, limits, memory, seccomp, sys};
use nix::mount::{MsFlags, mount};
use std::ffi::CString;
use std::path::Path;

fn ids() -> (u32, u32) {
    (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw())
}

#[test]
fn ids_are_mapped_onto_themselves_and_groups_are_locked() {
    let (uid, gid) = ids();
    let said = in_namespaces(|| {
        let (now, groups) = (ids(), std::fs::read_to_string("/proc/self/setgroups").unwrap());
        let again = write_own_maps(now.0, now.1).unwrap_err();
        format!("{now:?} {} {} {again}", groups.trim(), nix::unistd::getpid())
    });
    let again = "cannot write the id map /proc/self/setgroups: Operation not permitted (EPERM)";
    // Root may write the same word twice; the map itself only once.
    let map = "cannot write the id map /proc/self/uid_map: Operation not permitted (EPERM)";
    let start = format!("({uid}, {gid}) deny 1 ");
    assert!(
        said == format!("{start}{again}") || said == format!("{start}{map}"),
        "{said}"
    );
}

#[test]
fn loopback_works_after_it_is_up_and_nothing_else_does() {
    let said = in_namespaces(|| {
        let bind = || std::net::TcpListener::bind("127.0.0.1:0");
        let reach = |address: &str| match std::net::TcpStream::connect(address) {
            Ok(_) => "ok".to_owned(),
            Err(e) => format!("{:?}", Errno::from_raw(e.raw_os_error().unwrap())),
        };
        let before = reach("127.0.0.1:9");
        loopback_up().unwrap();
        let listener = bind().unwrap();
        let there = listener.local_addr().unwrap().to_string();
        format!(
            "{before} {} {} {}",
            reach(&there),
            reach("127.0.0.1:9"),
            reach("192.0.2.1:9")
        )
    });
    assert_eq!(said, "ENETUNREACH ok ECONNREFUSED ENETUNREACH");
}

#[test]
fn the_host_name_is_the_namespaces_own() {
    let before = nix::unistd::gethostname().unwrap();
    let said = in_namespaces(|| {
        set_host_name("picktwo").unwrap();
        format!("{:?}", nix::unistd::gethostname().unwrap())
    });
    assert_eq!(said, "\"picktwo\"");
    assert_eq!(nix::unistd::gethostname().unwrap(), before);
}

/// What an agent under test does, after everything is locked; its answer.
struct Session {
    agent: Child,
    init: Child,
    listener: Listener,
    channel: Channel,
}

/// The order of a session, in the process that plays the launcher. `workspace` is read-only inside.
fn start(workspace: &Path, agent_work: impl FnOnce() -> String) -> Session {
    let (uid, gid) = ids();
    let (to_init, from_launcher) = channel::pair().unwrap();
    let init = process::clone_namespaces(SESSION, "the init", || {
        write_own_maps(uid, gid).unwrap();
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(
            Some("proc"),
            "/proc",
            Some("proc"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
            none,
        )
        .unwrap();
        let path = CString::new(workspace.to_str().unwrap()).unwrap();
        let tree = sys::open_tree(sys::CWD, &path, sys::OPEN_TREE_CLONE).unwrap();
        sys::mount_setattr(
            tree.as_fd(),
            c"",
            libc::AT_EMPTY_PATH as u32,
            sys::mount_attr::RDONLY,
            0,
            0,
        )
        .unwrap();
        sys::move_mount(tree.as_fd(), sys::CWD, &path).unwrap();
        loopback_up().unwrap();
        from_launcher.send(b"ready", &[]).unwrap();
        let check = SelfCheck::prepare().unwrap();
        let bounding = limits::drop_all_capabilities().unwrap();
        landlock::restrict(Access::none()).unwrap();
        let filter = filters::for_role(crate::Role::Init);
        seccomp::install(&filter).unwrap();
        check.locked(bounding, &selfcheck::denied_by(&filter)).unwrap();
        assert!(bounding);
        // Nothing here notices the launcher's end: the kernel must.
        std::thread::sleep(std::time::Duration::from_secs(100));
        0
    })
    .unwrap();
    assert!(to_init.recv(&mut Vec::new()).unwrap().is_some(), "{:?}", init.wait());
    let namespaces = NamespaceFds::open(init.pid()).unwrap();
    let me = process::pidfd_open(std::process::id() as i32).unwrap();

    // The init was started before: without `allow_signals` it would outlive this process.
    let access = Access::none()
        .allow_unix_connect()
        .allow_signals()
        .path(Rights::Write, workspace)
        .unwrap();
    landlock::restrict(access.path(Rights::Execute, Path::new("/")).unwrap()).unwrap();

    let (ours, theirs) = channel::pair().unwrap();
    let middle = process::fork_bound("the agent", || {
        join(&namespaces).unwrap();
        let agent = process::clone_into_parent(None, "the agent", || {
            process::parent_death_kill(me.as_fd()).unwrap();
            let check = SelfCheck::prepare().unwrap();
            std::env::set_current_dir(workspace).unwrap();
            let bounding = limits::drop_all_capabilities().unwrap();
            limits::no_new_privs().unwrap();
            limits::new_session_keyring().unwrap();
            limits::core_limit().unwrap();
            limits::sweep(&[0, 1, 2, check_fd(&check), theirs.as_raw_fd()]).unwrap();
            landlock::restrict(Access::none().path(Rights::Execute, Path::new("/")).unwrap()).unwrap();
            let plain = filters::agent_plain();
            let listener = seccomp::install_both(&plain, &filters::agent_notify(Grants::ALL)).unwrap();
            theirs.send(b"listener", &[listener.as_fd()]).unwrap();
            drop(listener);
            check.locked(bounding, &selfcheck::denied_by(&plain)).unwrap();
            assert!(bounding);
            theirs.send(format!("={}", agent_work()).as_bytes(), &[]).unwrap();
            7
        })
        .unwrap();
        let (pid, pidfd) = agent.into_parts();
        theirs.send(format!("{pid}").as_bytes(), &[pidfd.as_fd()]).unwrap();
        0
    })
    .unwrap();
    drop(theirs);
    let (mut agent, mut listener, mut message) = (None, None, Vec::new());
    while agent.is_none() || listener.is_none() {
        let fd = ours
            .recv(&mut message)
            .unwrap()
            .expect("the agent's start")
            .pop()
            .unwrap();
        match message.as_slice() {
            b"listener" => listener = Some(Listener::from(fd)),
            pid => {
                agent = Some(Child::from_parts(
                    std::str::from_utf8(pid).unwrap().parse().unwrap(),
                    fd,
                ))
            }
        }
    }
    assert_eq!(middle.wait().unwrap(), Exit::Code(0));
    std::mem::forget(to_init);
    Session {
        agent: agent.unwrap(),
        init,
        listener: listener.unwrap(),
        channel: ours,
    }
}

fn check_fd(check: &SelfCheck) -> i32 {
    check.descriptor().expect("/proc is visible here")
}

fn errno_of<T>(result: std::io::Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(e) => e
            .raw_os_error()
            .map_or("?".into(), |n| format!("{:?}", Errno::from_raw(n))),
    }
}

/// The launcher is below a Landlock domain when it starts the agent, and yet the agent joins namespaces that were made before,
/// is the launcher's own child, and its calls are served: its memory is read and a descriptor from the writable side injected.
#[test]
fn a_landlocked_launcher_starts_and_serves_an_agent_in_namespaces_made_before() {
    let dir = scratch("session");
    std::fs::write(dir.join("file"), "before").unwrap();
    let said = child_says(|| {
        let session = start(&dir, || {
            let write = std::fs::write("file", "by the agent");
            let refused = std::fs::write("refused", "by the agent");
            let network = std::net::TcpStream::connect("127.0.0.1:9");
            let namespace = attempt::describe(&attempt::numbers(libc::SYS_unshare, &[libc::CLONE_NEWUSER.into()]));
            let pids = std::fs::read_dir("/proc")
                .unwrap()
                .filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().parse::<i32>().is_ok())
                .count();
            format!(
                "{} {} {} {namespace} {pids} {}",
                errno_of(write),
                errno_of(refused),
                errno_of(network),
                nix::unistd::getppid()
            )
        });
        let workspace = CString::new(dir.to_str().unwrap()).unwrap();
        let writable = sys::openat(sys::CWD, &workspace, libc::O_PATH | libc::O_DIRECTORY, 0).unwrap();
        for _ in 0..3 {
            assert!(session.listener.wait(10_000).unwrap());
            let request = session.listener.recv().unwrap().unwrap();
            assert_eq!(request.pid, session.agent.pid());
            if request.nr != libc::SYS_openat {
                session.listener.reply_errno(request.id, Errno::ENETUNREACH).unwrap();
                continue;
            }
            let path = memory::read_path(request.pid, request.args[1]).unwrap();
            assert!(session.listener.valid(request.id));
            if path != b"file" {
                session.listener.reply_errno(request.id, Errno::EROFS).unwrap();
                continue;
            }
            let flags = request.int(2) & !libc::O_CREAT;
            let file = sys::openat2(
                writable.as_fd(),
                &CString::new(path).unwrap(),
                flags,
                0,
                sys::resolve::BENEATH,
            )
            .unwrap();
            session
                .listener
                .inject_and_reply(request.id, file.as_fd(), true)
                .unwrap();
        }
        let mut message = Vec::new();
        session.channel.recv(&mut message).unwrap().unwrap();
        let signal_init = sys::pidfd_signal(session.init.pidfd(), 0).err();
        let signal_agent = sys::pidfd_signal(session.agent.pidfd(), 0).err();
        let exit = session.agent.wait().unwrap();
        format!(
            "{} {signal_init:?} {signal_agent:?} {exit:?}",
            String::from_utf8_lossy(&message[1..])
        )
    });
    assert_eq!(said, "ok EROFS ENETUNREACH EPERM 2 0 None None Code(7)");
    assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "by the agent");
}

/// The control to the one above: inside, without a grant, the workspace is a read-only mount.
#[test]
fn a_continued_write_meets_the_read_only_mount() {
    let dir = scratch("readonly");
    std::fs::write(dir.join("file"), "before").unwrap();
    let said = child_says(|| {
        let session = start(&dir, || errno_of(std::fs::write("file", "x")));
        assert!(session.listener.wait(10_000).unwrap());
        let request = session.listener.recv().unwrap().unwrap();
        session.listener.proceed(request.id).unwrap();
        let mut message = Vec::new();
        session.channel.recv(&mut message).unwrap().unwrap();
        session.agent.wait().unwrap();
        String::from_utf8_lossy(&message[1..]).into_owned()
    });
    assert_eq!(said, "EROFS");
    assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "before");
}

#[test]
fn nothing_survives_a_killed_launcher() {
    let dir = scratch("killed");
    std::fs::write(dir.join("file"), "before").unwrap();
    let (ours, theirs) = channel::pair().unwrap();
    let launcher = process::fork(|| {
        let session = start(&dir, || {
            std::thread::sleep(std::time::Duration::from_secs(100));
            String::new()
        });
        theirs
            .send(b"x", &[session.agent.pidfd(), session.init.pidfd()])
            .unwrap();
        std::thread::sleep(std::time::Duration::from_secs(100));
        0
    })
    .unwrap();
    drop(theirs);
    let fds = ours.recv(&mut Vec::new()).unwrap().expect("both processes");
    assert_eq!(fds.len(), 2);
    for fd in &fds {
        assert!(!process::ended(fd.as_fd(), 0).unwrap());
    }
    launcher.kill_and_wait().unwrap();
    for fd in &fds {
        assert!(process::ended(fd.as_fd(), 5_000).unwrap());
    }
}
