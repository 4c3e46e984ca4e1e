//! A session in small: namespaces in which the workspace is read-only, processes under the notifying filter, and the threads that
//! serve them.

use nix::libc;
use nix::mount::{MsFlags, mount};
use picktwo_confine::attempt::{Arg, syscall};
use picktwo_confine::channel::{self, Channel};
use picktwo_confine::landlock::{self, Access};
use picktwo_confine::namespace::{self, NamespaceFds};
use picktwo_confine::notify::Listener;
use picktwo_confine::process::{self, Child, Exit};
use picktwo_confine::{Errno, filters, limits, seccomp, sys};
use picktwo_inside::container::Rights;
use picktwo_inside::files::{Config, Event, Grants, Lock, Root, Shared};
use picktwo_inside::mode::{Mode, SharedMode};
use picktwo_inside::sockets::Sockets;
use picktwo_inside::supervise;
use picktwo_inside::writers::Members;
use picktwo_policies::protect::Protected;
use std::cell::RefCell;
use std::fmt::Debug;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Whether this test program is the one for sessions without namespaces.
pub(crate) fn container() -> bool {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("container_"))
}

/// A workspace `w` and a directory `out` beside it.
pub(crate) struct Scene {
    pub(crate) base: PathBuf,
    first: bool,
    pub(crate) w: PathBuf,
    pub(crate) out: PathBuf,
    pub(crate) grants: Arc<Grants>,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
    pub(crate) sockets: Option<Arc<Sockets>>,
    /// Process 1 of the session.
    pub(crate) init: i32,
    keeper: Option<Child>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);
static FORKS: RwLock<()> = RwLock::new(());

impl Scene {
    pub(crate) fn new(mode: Mode) -> Scene {
        Scene::with(mode, &[])
    }

    /// With protected paths beside the built-in ones.
    pub(crate) fn with(mode: Mode, protect: &[&str]) -> Scene {
        Scene::at("/tmp", mode, protect)
    }

    /// In another directory than /tmp.
    pub(crate) fn at(parent: &str, mode: Mode, protect: &[&str]) -> Scene {
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let base = PathBuf::from(format!("{parent}/picktwo-grants-{}-{number}", std::process::id()));
        for dir in ["w", "out", "locks"] {
            fs::create_dir_all(base.join(dir)).unwrap();
        }
        Scene::on(base, mode, protect, true)
    }

    /// A session of a workspace that is there: the first one, or another one.
    pub(crate) fn on(base: PathBuf, mode: Mode, protect: &[&str], first: bool) -> Scene {
        let (w, out) = (base.join("w"), base.join("out"));
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let (keeper, init) = if container() {
            (None, std::process::id().cast_signed())
        } else {
            let (keeper, init) = namespaces(&w);
            (Some(keeper), init)
        };
        let mut roots = vec![Root {
            path: w.clone(),
            dir: directory(&w),
            own: false,
            moved: false,
        }];
        let others = Arc::new(OnceLock::from(vec![init]));
        let shared = container().then(|| {
            // What a view leaves to the kernel is the session's own here.
            roots.push(Root {
                path: out.clone(),
                dir: directory(&out),
                own: true,
                moved: false,
            });
            Shared {
                replaced: Vec::new(),
                others,
            }
        });
        let locks = vec![Lock {
            file: lock(&base),
            exclusive: true,
        }];
        let protect: Vec<String> = protect.iter().map(|p| (*p).to_owned()).collect();
        let grants = Grants::new(Config {
            roots,
            private: Vec::new(),
            session_root: directory(Path::new(&format!("/proc/{init}/root"))),
            locks,
            shared,
            mode: SharedMode::new(mode),
            protected: Protected::builtin().with(&protect).unwrap(),
            finder: None,
            events: Box::new(move |event| told.lock().unwrap().push(event)),
        })
        .unwrap();
        Scene {
            base,
            first,
            w,
            out,
            grants,
            events,
            sockets: None,
            keeper,
            init,
        }
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.w.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.w.join(name)).unwrap_or_else(|error| format!("({error})"))
    }

    /// Runs a process of the session, in the workspace, to its end.
    pub(crate) fn run(&self, child: impl FnOnce(&Checks)) {
        self.run_beside(child, || {});
    }

    /// The same, while no other test forks: a fork would keep the supervisor's descriptors open for a while.
    pub(crate) fn run_alone(&self, child: impl FnOnce(&Checks)) {
        let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
        self.session(child, || {});
    }

    /// The same as [`Scene::run`], and something in this process meanwhile.
    pub(crate) fn run_beside(&self, child: impl FnOnce(&Checks), beside: impl FnOnce()) {
        if container() {
            // Without a namespace, what other tests fork is not told apart from what this session does.
            let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
            return self.session(child, beside);
        }
        let _others = FORKS.read().unwrap_or_else(PoisonError::into_inner);
        self.session(child, beside);
    }

    fn session(&self, child: impl FnOnce(&Checks), beside: impl FnOnce()) {
        let (ours, theirs) = channel::pair().unwrap();
        let (w, out) = (self.w.clone(), self.out.clone());
        let session = (!container()).then(|| NamespaceFds::open(self.init).unwrap());
        let inside = move || {
            let checks = Checks {
                failures: RefCell::new(Vec::new()),
                w,
                out,
            };
            // A test that waits for ever fails by itself.
            nix::unistd::alarm::set(180);
            match enter(&checks, &theirs) {
                Ok(()) => child(&checks),
                Err(error) => checks.fail(error),
            }
            let text = checks.failures.borrow().join("\n");
            let _ = theirs.send(format!("done\n{text}").as_bytes(), &[]);
            0
        };
        let started = process::fork(move || {
            let joined = session.as_ref().map_or(Ok(()), namespace::join);
            let joined = joined
                .and_then(|()| process::fork(inside))
                .and_then(|child| child.wait());
            if joined == Ok(Exit::Code(0)) { 0 } else { 1 }
        })
        .unwrap();
        let mut message = Vec::new();
        let fds = ours.recv(&mut message).unwrap().expect("the child reports");
        let listener: OwnedFd = fds
            .into_iter()
            .next()
            .unwrap_or_else(|| panic!("no listener: {}", String::from_utf8_lossy(&message)));
        let supervisors = supervise::serve(
            Arc::new(Listener::from(listener)),
            self.grants.clone(),
            self.sockets.clone(),
            3,
        )
        .unwrap();
        ours.send(b"go", &[]).unwrap();
        beside();
        let report = match ours.recv(&mut message).unwrap() {
            Some(_) => String::from_utf8_lossy(&message).into_owned(),
            None => String::from("(no report)"),
        };
        assert_eq!(started.wait().unwrap(), Exit::Code(0), "{report}");
        supervisors.join();
        assert_eq!(report.trim(), "done", "in the session; refused: {:?}", self.rules());
    }

    /// How to tell the session's processes.
    pub(crate) fn members(&self) -> Members {
        if container() {
            Members::OfDomain(vec![self.init])
        } else {
            Members::OfNamespace(self.init)
        }
    }

    /// The rules that refused something so far.
    pub(crate) fn rules(&self) -> Vec<String> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .filter(|e| e.refused.is_some())
            .filter_map(|e| e.rule.clone())
            .collect()
    }
}

/// A process that holds namespaces in which `w` is read-only, and the number of their process 1.
fn namespaces(w: &Path) -> (Child, i32) {
    let _alone = FORKS.read().unwrap_or_else(PoisonError::into_inner);
    let (ours, theirs) = channel::pair().unwrap();
    let w = w.to_owned();
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    let keeper = process::fork(move || {
        let init = process::clone_namespaces(namespace::SESSION, "a session", || {
            let made = make_view(&w, uid, gid);
            let _ = theirs.send(made.err().unwrap_or_else(|| "ready".into()).as_bytes(), &[]);
            loop {
                nix::unistd::pause();
            }
        });
        let Ok(init) = init else { return 1 };
        let _ = theirs.send(init.pid().to_string().as_bytes(), &[]);
        let _ = init.wait();
        0
    })
    .unwrap();
    let mut number = None;
    let mut ready = false;
    while number.is_none() || !ready {
        let mut message = Vec::new();
        ours.recv(&mut message).unwrap().expect("namespaces");
        let text = String::from_utf8(message).unwrap();
        match text.parse() {
            Ok(pid) => number = Some(pid),
            Err(_) => ready = text == "ready" || panic!("the view: {text}"),
        }
    }
    (keeper, number.unwrap())
}

fn make_view(w: &Path, uid: u32, gid: u32) -> Result<(), String> {
    let none = None::<&str>;
    namespace::write_own_maps(uid, gid).map_err(|e| e.to_string())?;
    namespace::loopback_up().map_err(|e| e.to_string())?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(|e| format!("private: {e}"))?;
    mount(Some(w), w, none, MsFlags::MS_BIND, none).map_err(|e| format!("bind: {e}"))?;
    let path = std::ffi::CString::new(w.as_os_str().as_bytes()).unwrap();
    sys::mount_setattr(sys::CWD, &path, 0, sys::mount_attr::RDONLY, 0, 0).map_err(|e| format!("read-only: {e}"))?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).map_err(|e| format!("proc: {e}"))
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            let _ = keeper.kill_and_wait();
        }
        if self.first {
            let _ = fs::remove_dir_all(&self.base);
        }
    }
}

/// What the sessions of a workspace lock, opened once more.
pub(crate) fn lock(base: &Path) -> fs::File {
    let mut options = fs::File::options();
    options.create(true).truncate(false).write(true);
    options.open(base.join("locks/w")).unwrap()
}

pub(crate) fn directory(path: &Path) -> OwnedFd {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    sys::openat(sys::CWD, &path, libc::O_PATH | libc::O_DIRECTORY, 0).unwrap()
}

fn enter(checks: &Checks, channel: &Channel) -> Result<(), String> {
    std::env::set_current_dir(&checks.w).map_err(|e| e.to_string())?;
    limits::drop_all_capabilities().map_err(|e| e.to_string())?;
    let mut grants = filters::Grants::ALL;
    if container() {
        grants = filters::Grants::CONTAINER;
        let mut rights = Rights::system();
        rights.execute.push(checks.w.clone());
        rights.write.push(checks.out.clone());
        let access = rights.add_to(Access::none()).map_err(|e| e.to_string())?;
        landlock::restrict(access).map_err(|e| e.to_string())?;
    }
    let listener = seccomp::install_listener(&filters::agent_notify(grants)).map_err(|e| e.to_string())?;
    channel
        .send(b"listener", &[listener.as_fd()])
        .map_err(|e| e.to_string())?;
    drop(listener);
    channel.recv(&mut Vec::new()).map_err(|e| e.to_string())?;
    Ok(())
}

/// What the process of the session finds.
pub(crate) struct Checks {
    failures: RefCell<Vec<String>>,
    pub(crate) w: PathBuf,
    pub(crate) out: PathBuf,
}

impl Checks {
    pub(crate) fn fail(&self, text: impl Into<String>) {
        self.failures.borrow_mut().push(text.into());
    }

    pub(crate) fn equal<T: PartialEq + Debug>(&self, what: &str, got: T, wanted: T) {
        if got != wanted {
            self.fail(format!("{what}: {got:?} instead of {wanted:?}"));
        }
    }

    /// A call that must be performed.
    #[track_caller]
    pub(crate) fn granted(&self, what: &str, got: Result<i64, Errno>) -> i64 {
        match got {
            Ok(value) => value,
            Err(errno) => {
                self.fail(format!(
                    "{what}: {errno:?} instead of a grant ({})",
                    std::panic::Location::caller()
                ));
                -1
            }
        }
    }

    /// A call that must fail with exactly this error.
    #[track_caller]
    pub(crate) fn refused(&self, what: &str, got: Result<i64, Errno>, errno: Errno) {
        if got != Err(errno) {
            self.fail(format!(
                "{what}: {got:?} instead of {errno:?} ({})",
                std::panic::Location::caller()
            ));
        }
    }

    /// Runs a program; its exit code and everything that it printed.
    pub(crate) fn program(&self, line: &str) -> (i32, String) {
        match std::process::Command::new("/bin/sh")
            .arg("-c")
            .arg(line)
            .env("HOME", &self.out)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
        {
            Ok(done) => {
                let text = format!(
                    "{}{}",
                    String::from_utf8_lossy(&done.stdout),
                    String::from_utf8_lossy(&done.stderr)
                );
                (done.status.code().unwrap_or(-1), text)
            }
            Err(error) => (-1, error.to_string()),
        }
    }

    /// A program that must succeed.
    pub(crate) fn works(&self, line: &str) -> String {
        let (code, text) = self.program(line);
        if code != 0 {
            self.fail(format!("`{line}` ended with {code}: {text}"));
        }
        text
    }
}

fn c(path: &str) -> Vec<u8> {
    [path.as_bytes(), b"\0"].concat()
}

pub(crate) const CWD: i64 = libc::AT_FDCWD as i64;

/// Raw calls, by path.
pub(crate) fn path1(nr: i64, path: &str, more: &[i64]) -> Result<i64, Errno> {
    let path = c(path);
    let n = |i: usize| Arg::Int(more.get(i).copied().unwrap_or(0));
    syscall(nr, [Arg::In(&path), n(0), n(1), n(2), n(3), n(4)])
}

pub(crate) fn path_at(nr: i64, dir: i64, path: &str, more: &[i64]) -> Result<i64, Errno> {
    let path = c(path);
    let n = |i: usize| Arg::Int(more.get(i).copied().unwrap_or(0));
    syscall(nr, [Arg::Int(dir), Arg::In(&path), n(0), n(1), n(2), n(3)])
}

pub(crate) fn path2(nr: i64, a: &str, b: &str) -> Result<i64, Errno> {
    let (a, b) = (c(a), c(b));
    syscall(
        nr,
        [Arg::In(&a), Arg::In(&b), Arg::Null, Arg::Null, Arg::Null, Arg::Null],
    )
}

pub(crate) fn rename2(a: &str, b: &str, flags: u32) -> Result<i64, Errno> {
    let (a, b) = (c(a), c(b));
    syscall(
        libc::SYS_renameat2,
        [
            Arg::Int(CWD),
            Arg::In(&a),
            Arg::Int(CWD),
            Arg::In(&b),
            Arg::Int(flags.into()),
            Arg::Null,
        ],
    )
}

pub(crate) fn link_at(dir: i64, a: &str, b: &str, flags: i32) -> Result<i64, Errno> {
    let (a, b) = (c(a), c(b));
    syscall(
        libc::SYS_linkat,
        [
            Arg::Int(dir),
            Arg::In(&a),
            Arg::Int(CWD),
            Arg::In(&b),
            Arg::Int(flags.into()),
            Arg::Null,
        ],
    )
}

pub(crate) fn open(path: &str, flags: i32, mode: i64) -> Result<i64, Errno> {
    path_at(libc::SYS_openat, CWD, path, &[flags.into(), mode])
}

pub(crate) fn close(fd: i64) {
    let _ = syscall(
        libc::SYS_close,
        [Arg::Int(fd), Arg::Null, Arg::Null, Arg::Null, Arg::Null, Arg::Null],
    );
}

/// Opens, writes and closes.
pub(crate) fn write_file(path: &str, flags: i32, text: &str) -> Result<i64, Errno> {
    let fd = open(path, flags, 0o666)?;
    let done = write_fd(fd, text);
    close(fd);
    done
}

pub(crate) fn write_fd(fd: i64, text: &str) -> Result<i64, Errno> {
    let bytes = text.as_bytes();
    syscall(
        libc::SYS_write,
        [
            Arg::Int(fd),
            Arg::In(bytes),
            Arg::Int(bytes.len() as i64),
            Arg::Null,
            Arg::Null,
            Arg::Null,
        ],
    )
}

pub(crate) fn fd_call(nr: i64, fd: i64, more: &[i64]) -> Result<i64, Errno> {
    let n = |i: usize| Arg::Int(more.get(i).copied().unwrap_or(0));
    syscall(nr, [Arg::Int(fd), n(0), n(1), n(2), n(3), n(4)])
}
