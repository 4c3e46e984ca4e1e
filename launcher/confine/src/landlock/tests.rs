use super::*;
use crate::process;
use crate::sys;
use crate::testing::{child_says, scratch};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

fn answer<T>(result: std::io::Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(e) => e
            .raw_os_error()
            .map_or_else(|| format!("{e}"), |n| format!("{:?}", Errno::from_raw(n))),
    }
}

/// What a process can do to the files of `dir`, in words.
fn tries(dir: &Path) -> String {
    let inside = dir.join("file");
    [
        answer(std::fs::read(&inside)),
        answer(std::fs::read_dir(dir)),
        answer(File::options().write(true).open(&inside)),
        answer(File::create(dir.join("new"))),
        answer(std::fs::rename(dir.join("new"), dir.join("newer"))),
        answer(std::fs::remove_file(dir.join("newer"))),
        answer(std::process::Command::new(dir.join("true")).status()),
    ]
    .join(" ")
}

#[test]
fn rights_are_what_they_say() {
    let dir = scratch("rights");
    std::fs::write(dir.join("file"), "x").unwrap();
    // By another program: a descriptor of ours could be open for writing in another test's child (ETXTBSY).
    assert!(
        std::process::Command::new("cp")
            .arg("/bin/true")
            .arg(dir.join("true"))
            .status()
            .unwrap()
            .success()
    );
    let under = |rights: Option<Rights>| {
        child_says(|| {
            // What /bin/true itself needs.
            let mut access = Access::none().path(Rights::Execute, Path::new("/usr")).unwrap();
            access = access
                .path(Rights::Read, Path::new("/etc"))
                .unwrap()
                .path(Rights::Device, Path::new("/dev/null"))
                .unwrap();
            if let Some(rights) = rights {
                access = access.path(rights, &dir).unwrap();
            }
            restrict(access).unwrap();
            tries(&dir)
        })
    };
    let no = "EACCES EACCES EACCES EACCES";
    assert_eq!(under(Some(Rights::Write)), "ok ok ok ok ok ok ok");
    assert_eq!(under(Some(Rights::WriteNoExecute)), "ok ok ok ok ok ok EACCES");
    assert_eq!(under(Some(Rights::Execute)), "ok ok EACCES EACCES ENOENT ENOENT ok");
    assert_eq!(under(Some(Rights::Read)), "ok ok EACCES EACCES ENOENT ENOENT EACCES");
    assert_eq!(under(None), format!("{no} ENOENT ENOENT EACCES"));
    assert_eq!(tries(&dir), "ok ok ok ok ok ok ok", "the control, without any domain");
}

#[test]
fn an_absent_path_is_an_error() {
    let error = Access::none()
        .path(Rights::Read, Path::new("/does/not/exist"))
        .unwrap_err();
    assert_eq!(
        error,
        Error::Open {
            path: "/does/not/exist".into(),
            errno: Errno::ENOENT
        }
    );
}

#[test]
fn tcp_is_refused_but_for_the_ports_that_are_given() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = move || answer(std::net::TcpStream::connect(("127.0.0.1", port)));
    let under = |access: Access| {
        child_says(move || {
            restrict(access).unwrap();
            format!("{} {}", connect(), answer(std::net::TcpListener::bind("127.0.0.1:0")))
        })
    };
    assert_eq!(under(Access::none()), "EACCES EACCES");
    assert_eq!(under(Access::none().connect_port(port)), "ok EACCES");
    assert_eq!(under(Access::none().bind_port(0)), "EACCES ok");
    assert_eq!(connect(), "ok");
}

#[test]
fn signals_and_abstract_sockets_stay_in_the_domain() {
    let name = SocketAddr::from_abstract_name(format!("picktwo-test-{}", std::process::id())).unwrap();
    let _listener = UnixListener::bind_addr(&name).unwrap();
    let me = process::Child::from_pid(std::process::id() as i32).unwrap();
    let under = |access: Option<Access>| {
        child_says(|| {
            if let Some(access) = access {
                restrict(access).unwrap();
            }
            let signal = sys::pidfd_signal(me.pidfd(), 0).err();
            let own = process::fork(|| 0).unwrap();
            let below = sys::pidfd_signal(own.pidfd(), 0).err();
            format!("{signal:?} {below:?} {}", answer(UnixStream::connect_addr(&name)))
        })
    };
    assert_eq!(under(Some(Access::none())), "Some(EPERM) None EPERM");
    assert_eq!(under(Some(Access::none().allow_signals())), "None None EPERM");
    assert_eq!(under(None), "None None ok");
}

#[test]
fn sockets_by_path_are_left_to_other_layers_where_that_is_asked_for() {
    let dir = scratch("unix");
    let path = dir.join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let said = child_says(|| {
        restrict(Access::none().allow_unix_connect()).unwrap();
        answer(UnixStream::connect(&path))
    });
    assert_eq!(said, "ok");
    let said = child_says(|| {
        restrict(Access::none()).unwrap();
        answer(UnixStream::connect(&path))
    });
    // ABI 9 refuses it; before, nothing in Landlock does, and the report says so.
    assert_eq!(said, if abi().unwrap() >= 9 { "EACCES" } else { "ok" });
}

#[test]
fn the_report_names_what_newer_kernels_would_add() {
    let said = child_says(|| format!("{:?}", restrict(Access::none()).unwrap()));
    let dropped: Vec<&str> = NEWER
        .iter()
        .filter(|(since, _)| abi().unwrap() < *since)
        .map(|(_, name)| *name)
        .collect();
    assert_eq!(
        said,
        format!("Report {{ abi: {}, dropped: {dropped:?} }}", abi().unwrap())
    );
    let said = child_says(|| format!("{:?}", restrict(Access::none().allow_unix_connect()).unwrap().dropped));
    assert!(!said.contains("UNIX"), "{said}");
}

#[test]
fn a_kernel_below_the_floor_is_refused() {
    let found = abi().unwrap();
    let said = child_says(|| {
        let error = restrict(Access::none().floor(found + 1)).unwrap_err();
        // Nothing was restricted by the attempt.
        format!("{error} {}", answer(std::fs::read_dir("/")))
    });
    assert_eq!(
        said,
        format!(
            "this kernel has Landlock ABI {found}, but ABI {} is needed ok",
            found + 1
        )
    );
}

#[test]
fn threads_are_an_error() {
    let said = child_says(|| {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        let error = restrict(Access::none()).unwrap_err();
        drop(go);
        let _ = thread.join();
        format!("{error:?} {}", answer(std::fs::read_dir("/")))
    });
    assert_eq!(said, "Threads { count: 2 } ok");
}

#[test]
fn a_rule_for_a_single_file_and_by_descriptor_holds() {
    let dir = scratch("single");
    std::fs::write(dir.join("file"), "x").unwrap();
    std::fs::write(dir.join("other"), "x").unwrap();
    let fd = sys::openat(
        sys::CWD,
        &std::ffi::CString::new(dir.join("file").to_str().unwrap()).unwrap(),
        libc::O_PATH,
        0,
    )
    .unwrap();
    assert_eq!(sys::fstat(fd.as_fd()).unwrap().kind(), libc::S_IFREG);
    let said = child_says(|| {
        restrict(Access::none().fd(Rights::Write, fd, &dir.join("file"))).unwrap();
        let write = |name: &str| answer(File::options().write(true).open(dir.join(name)));
        format!("{} {}", write("file"), write("other"))
    });
    assert_eq!(said, "ok EACCES");
}
