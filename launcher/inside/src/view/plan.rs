//! What a session sees, as data: the launcher decides, the session's first process carries it out.

use nix::sys::stat::FileStat;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Who the session runs as. The same numbers inside and outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id; supplementary groups have no name inside.
    pub gid: u32,
    /// Login name.
    pub user: String,
    /// Name of the group `gid`.
    pub group: String,
    /// HOME: the path at which the private home appears.
    pub home: PathBuf,
    /// Login shell.
    pub shell: PathBuf,
}

/// The file behind a path when the launcher decided on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inode {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

impl From<&FileStat> for Inode {
    fn from(stat: &FileStat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
        }
    }
}

/// A file or directory of the host that is visible read-only, at its own path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadOnly {
    /// Absolute path without links, outside and inside.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// If given, what must be found there: another file means that it was swapped, and the session does not start.
    pub inode: Option<Inode>,
}

impl ReadOnly {
    /// A path with the identity that it has now, if there is anything.
    pub fn seen(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let inode = nix::sys::stat::lstat(&path).ok().map(|stat| Inode::from(&stat));
        Self { path, inode }
    }

    /// A path whose identity does not matter.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            inode: None,
        }
    }
}

/// Sizes of what the session may write that is not on a disk, in bytes. Each is held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// `/tmp`.
    pub tmp: u64,
    /// `/dev/shm`.
    pub shm: u64,
    /// `/run/user/UID`.
    pub runtime: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            tmp: 4 << 30,
            shm: 1 << 30,
            runtime: 64 << 20,
        }
    }
}

impl Sizes {
    /// At most a quarter (`/tmp`) and an eighth (`/dev/shm`) of the machine's memory, of which what is in them is taken.
    #[must_use]
    pub fn on_machine_with(self, memory: u64) -> Self {
        Self {
            tmp: self.tmp.min(memory / 4),
            shm: self.shm.min(memory / 8),
            runtime: self.runtime,
        }
    }
}

/// Options of a file system in memory: its size, and as many files as pages, since each costs memory of the kernel's.
pub(crate) fn in_memory(size: u64) -> [(&'static std::ffi::CStr, String); 2] {
    [
        (c"size", size.to_string()),
        (c"nr_inodes", (size / 4096).max(16).to_string()),
    ]
}

/// The part of a view that is the same whatever the policy says: it is built while the policy is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Who the session runs as.
    pub identity: Identity,
    /// The terminal of the person, if there is one (`/dev/pts/N`): shown as `/dev/console`, where `ttyname` finds it.
    pub terminal: Option<PathBuf>,
    /// Sizes of the file systems in memory.
    pub sizes: Sizes,
}

/// A file that the launcher wrote for the session (a configuration of the agent, say), on picktwo's own file systems and never
/// below a directory of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Absolute path.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// What is in it.
    pub content: Vec<u8>,
}

/// The rest of a view: what the person and the policies decide. The launcher sends it to the session's first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// HOME: the path at which the private home appears; that of the [`Identity`].
    #[serde(with = "bytes")]
    pub home: PathBuf,
    /// The workspace and every other directory that grants may change: read-only in the view, in both modes.
    pub roots: Vec<ReadOnly>,
    /// Without granted calls in edit mode: the roots are writable in the view, but for these.
    pub fixed: Option<Fixed>,
    /// Toolchains and what policy adds (see [`super::toolchains`]). System directories are always there.
    pub read_only: Vec<ReadOnly>,
    /// What the launcher wrote.
    pub files: Vec<Made>,
    /// The directory of the host that is the private home, writable.
    #[serde(with = "bytes")]
    pub private_home: PathBuf,
    /// Sizes that the policy asks for: the file systems are there already, with those of the [`Base`].
    pub sizes: Sizes,
    /// The most processes and threads at the same time (and 300 more, until process numbers begin anew), for a session whose user the kernel exempts from RLIMIT_NPROC.
    pub processes: Option<u64>,
    /// picktwo's binary, shown at [`BINARY`].
    pub binary: Option<ReadOnly>,
    /// Make a listening TCP socket on `127.0.0.1` for the gateway.
    pub gateway: bool,
    /// Make the listening UNIX socket [`TOOLS_SOCKET`].
    pub tools: bool,
    /// What must never be visible: picktwo's state, configuration and policy.
    pub hidden: Vec<ReadOnly>,
}

/// What stays as it is in roots that a session changes by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Directories that are mounted on themselves, writable: a mount point cannot be renamed or removed.
    pub ways: Vec<ReadOnly>,
    /// Files, directories and links that are mounted on themselves, read-only.
    pub kept: Vec<ReadOnly>,
}

/// Paths as their bytes: they need not be UTF-8.
mod bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Spelled {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match Spelled::deserialize(deserializer)? {
            Spelled::Text(text) => text.into(),
            Spelled::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

/// Where picktwo's binary is inside.
pub const BINARY: &str = "/run/picktwo/bin/picktwo";
/// The session's socket for tools.
pub const TOOLS_SOCKET: &str = "/run/picktwo/tools.sock";
/// The host name inside.
pub const HOST_NAME: &str = "picktwo";

/// Why a plan is refused before anything is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A path that is relative or has `.`, `..` or a NUL byte in it.
    NotPlain(PathBuf),
    /// A visible path contains or lies in one that must stay hidden.
    Exposes {
        /// What would be visible.
        path: PathBuf,
        /// What must not be.
        hidden: PathBuf,
    },
    /// A path of the plan is one that picktwo makes itself (`/`, `/proc`, `/dev`, …).
    Reserved(PathBuf),
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotPlain(path) => write!(f, "{} is not an absolute path without `.` and `..`", path.display()),
            Self::Exposes { path, hidden } => {
                write!(
                    f,
                    "{} cannot be visible in the session: it would show {}",
                    path.display(),
                    hidden.display()
                )
            }
            Self::Reserved(path) => write!(
                f,
                "{} is made by picktwo itself and cannot be shown from the host",
                path.display()
            ),
        }
    }
}

impl std::error::Error for PlanError {}

/// Directories whose own content is made new for each session: a plan may name things below some of them, never them.
const OWN: &[&str] = &[
    "/",
    "/dev",
    "/dev/pts",
    "/dev/shm",
    "/etc",
    "/home",
    "/proc",
    "/run",
    "/run/picktwo",
    "/sys",
    "/tmp",
    "/var",
    "/var/tmp",
];
/// Trees into which a plan may not reach at all.
const OWN_TREES: &[&str] = &["/proc", "/sys", "/run/picktwo", "/dev/pts"];

impl Plan {
    /// Checks what can be checked without looking at the file system.
    ///
    /// # Errors
    /// The first path that cannot be part of a view.
    pub fn check(&self) -> Result<(), PlanError> {
        let shown = self.roots.iter().chain(&self.read_only).map(|r| r.path.as_path());
        let mut paths: Vec<&Path> = shown.collect();
        for path in &paths {
            let mut hidden = self.hidden.iter().map(|h| h.path.as_path());
            if let Some(hidden) = hidden.find(|h| h.starts_with(path) || path.starts_with(h)) {
                return Err(PlanError::Exposes {
                    path: path.to_path_buf(),
                    hidden: hidden.to_path_buf(),
                });
            }
            if *path == self.home.as_path() || self.home.starts_with(path) {
                return Err(PlanError::Reserved(path.to_path_buf()));
            }
        }
        paths.push(&self.home);
        paths.extend(self.files.iter().map(|file| file.path.as_path()));
        for path in paths {
            if !plain(path) {
                return Err(PlanError::NotPlain(path.to_path_buf()));
            }
            // A made file may lie in picktwo's own directory, which nothing shown from the host may.
            let made = self.files.iter().any(|file| file.path == path);
            if made && path.parent() == Some(Path::new("/run/picktwo")) {
                continue;
            }
            let inside_own = OWN_TREES.iter().any(|own| path.starts_with(own));
            if inside_own || OWN.iter().any(|own| path == Path::new(own)) {
                return Err(PlanError::Reserved(path.to_path_buf()));
            }
        }
        let binary = self.binary.as_ref().map(|b| &b.path);
        for path in std::iter::once(&self.private_home).chain(binary) {
            if !plain(path) {
                return Err(PlanError::NotPlain(path.clone()));
            }
        }
        Ok(())
    }
}

/// Whether a path is absolute and names each of its components literally.
pub(crate) fn plain(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    let parts_are_names = path
        .components()
        .skip(1)
        .all(|c| matches!(c, std::path::Component::Normal(_)));
    // `components` drops `.` and doubled slashes by itself, so compare with what it understood.
    path.is_absolute()
        && parts_are_names
        && !bytes.contains(&0)
        && path.components().as_path().as_os_str() == path.as_os_str()
        && !bytes.windows(2).any(|w| w == b"//")
        && !bytes.windows(3).any(|w| w == b"/./")
        && (bytes.len() == 1 || !bytes.ends_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            home: "/home/u".into(),
            roots: vec![ReadOnly::new("/home/u/work")],
            fixed: None,
            read_only: vec![ReadOnly::new("/opt/tool")],
            files: vec![],
            private_home: "/home/u/.local/state/picktwo/agents/x/home".into(),
            sizes: Sizes::default(),
            processes: None,
            binary: None,
            gateway: false,
            tools: false,
            hidden: ["/home/u/.local/state/picktwo", "/home/u/.config/picktwo"]
                .map(ReadOnly::new)
                .to_vec(),
        }
    }

    #[test]
    fn an_ordinary_plan_is_fine() {
        assert_eq!(plan().check(), Ok(()));
    }

    #[test]
    fn a_plan_arrives_as_it_was_sent() {
        use std::os::unix::ffi::OsStringExt;
        let mut plan = plan();
        plan.roots
            .push(ReadOnly::new(std::ffi::OsString::from_vec(b"/srv/caf\xe9".to_vec())));
        plan.files.push(Made {
            path: "/run/picktwo/mcp.json".into(),
            content: vec![0, 255, b'{'],
        });
        let sent = picktwo_wire::encode(&plan).unwrap();
        assert_eq!(picktwo_wire::decode::<Plan>(&sent).unwrap(), plan);
    }

    #[test]
    fn state_and_policy_cannot_be_shown() {
        for path in [
            "/home/u/.local",
            "/home/u/.config",
            "/home/u/.config/picktwo/x",
            "/home/u/.local/state/picktwo",
        ] {
            let mut plan = plan();
            plan.read_only.push(ReadOnly::new(path));
            assert!(matches!(plan.check(), Err(PlanError::Exposes { .. })), "{path}");
        }
    }

    #[test]
    fn home_its_ancestors_and_own_directories_are_reserved() {
        for path in [
            "/home/u",
            "/home",
            "/",
            "/tmp",
            "/proc",
            "/proc/sys",
            "/sys/kernel",
            "/dev",
            "/etc",
            "/run/picktwo/bin",
        ] {
            let mut plan = plan();
            plan.hidden.clear();
            plan.roots.push(ReadOnly::new(path));
            assert_eq!(plan.check(), Err(PlanError::Reserved(path.into())), "{path}");
        }
    }

    #[test]
    fn only_plain_paths() {
        for path in ["work", "/a/../b", "/a/./b", "/a//b", "/a/", ""] {
            assert!(!plain(Path::new(path)), "{path}");
        }
        for path in ["/", "/a", "/a/.b/..c"] {
            assert!(plain(Path::new(path)), "{path}");
        }
    }
}
