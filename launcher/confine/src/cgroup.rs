//! Control groups, version 2: bounds on a whole session, where its person may make groups.
//!
//! A group holds processes or has groups with controllers below it, never both (cgroups(7), "no internal processes"). So a
//! session's group is made beside the launcher's, in their common parent, or below the launcher's where that is a root without
//! this rule. Nothing of the person's own hierarchy is changed: a parent counts if it gives its children the controllers already.

use crate::error::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::AccessFlags;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// What the names of groups begin with.
const PREFIX: &str = "picktwo-";
/// Where the hierarchy is mounted: alone, or beside those of version 1. The table of mounts would say so, too, at the price of a
/// hundred microseconds.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Seconds after which a group that nobody holds was left by a launcher that was killed, and is not just being made.
const STALE: i64 = 10;
/// How often the removal of a group is tried, once a millisecond: the kernel lets go of what was killed in its own time.
const ATTEMPTS: u32 = 100;

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    dir: PathBuf,
    /// Bounds of this process's own group, which a group beside it would escape.
    own: Option<PathBuf>,
    /// Memory can be bounded.
    pub memory: bool,
    /// Processes can be bounded.
    pub processes: bool,
}

/// What a group may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Bytes of memory, what it keeps in file systems in memory included. A quarter more may be swapped out.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// A session's group. It goes with this value, with whatever runs in it.
#[derive(Debug)]
pub struct Cgroup {
    parent: File,
    parent_path: PathBuf,
    name: String,
    /// The group's directory, held with a lock while the launcher lives.
    dir: Flock<File>,
    kill: Option<File>,
}

impl Parent {
    /// Where this process may make groups that bound something, if anywhere.
    pub fn find() -> Option<Parent> {
        if !crate::process::has_clone_into_group() {
            return None;
        }
        let (own, top) = own_group()?;
        Self::near(&own, top)
    }

    /// The group `own` or its parent, not above `top`.
    fn near(own: &Path, top: &Path) -> Option<Parent> {
        let beside = own.parent().filter(|parent| parent.starts_with(top));
        [Some(own), beside].into_iter().flatten().find_map(|dir| {
            let given = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
            let has = |name| given.split_whitespace().any(|word| word == name);
            let (memory, processes) = (has("memory"), has("pids"));
            let may = |name: &str| nix::unistd::eaccess(&dir.join(name), AccessFlags::W_OK).is_ok();
            // A process moves between two groups only for whom may write to their common parent's list.
            ((memory || processes) && may("") && may("cgroup.procs")).then(|| Parent {
                dir: dir.to_path_buf(),
                own: (dir != own).then(|| own.to_path_buf()),
                memory,
                processes,
            })
        })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Makes a group, and takes away what sessions whose launcher was killed have left.
    ///
    /// # Errors
    /// The file that cannot be made, opened or written.
    pub fn create(&self, session: &str, most: Most) -> Result<Cgroup> {
        sweep(&self.dir);
        let name = format!("{PREFIX}{session}");
        let path = self.dir.join(&name);
        fs::create_dir(&path).map_err(|e| failed(&path, &e))?;
        let made = self.furnish(&path, &name, most);
        if made.is_err() {
            let _ = fs::remove_dir(&path);
        }
        made
    }

    fn furnish(&self, path: &Path, name: &str, most: Most) -> Result<Cgroup> {
        let open = |path: &Path| File::open(path).map_err(|e| failed(path, &e));
        let dir = Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| failed(path, &errno.into()))?;
        if self.memory {
            let memory = self.at_most("memory.max", most.memory);
            write(&path.join("memory.max"), memory)?;
            // Where the kernel has no swap, there is no such file.
            absent_is_fine(write(&path.join("memory.swap.max"), memory / 4))?;
            // All of it or nothing: an agent without the one process that was killed is no session.
            absent_is_fine(write(&path.join("memory.oom.group"), 1))?;
        }
        if self.processes {
            write(&path.join("pids.max"), self.at_most("pids.max", most.processes))?;
        }
        Ok(Cgroup {
            parent: open(&self.dir)?,
            parent_path: self.dir.clone(),
            name: name.to_owned(),
            dir,
            kill: File::options().write(true).open(path.join("cgroup.kill")).ok(),
        })
    }

    /// A bound, or that of this process's own group if it is lower.
    fn at_most(&self, file: &str, wanted: u64) -> u64 {
        let own = self
            .own
            .as_ref()
            .and_then(|own| fs::read_to_string(own.join(file)).ok());
        // "max" is no number, and no bound.
        own.and_then(|text| text.trim().parse().ok())
            .map_or(wanted, |own: u64| own.min(wanted))
    }
}

impl Cgroup {
    /// The group, for [`crate::process::fork_bound_into`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The directory that it lies in: its owner needs the right to remove directories there, to the end.
    pub fn parent(&self) -> &Path {
        &self.parent_path
    }

    fn remove(&mut self) {
        if let Some(kill) = &mut self.kill {
            let _ = kill.write_all(b"1");
        }
        for _ in 0..ATTEMPTS {
            // What is still there then is found by the next session's start.
            match nix::unistd::unlinkat(&self.parent, self.name.as_str(), nix::unistd::UnlinkatFlags::RemoveDir) {
                Err(Errno::EBUSY) => std::thread::sleep(Duration::from_millis(1)),
                _ => break,
            }
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// This process's group, and the top of the hierarchy that can be seen.
fn own_group() -> Option<(PathBuf, &'static Path)> {
    let top = MOUNTS
        .iter()
        .map(Path::new)
        .find(|top| top.join("cgroup.procs").exists())?;
    let own = below(top, &fs::read_to_string("/proc/self/cgroup").ok()?)?;
    // Where another part of the hierarchy is mounted than this process's namespace begins with, its name leads nowhere.
    own.join("cgroup.procs").exists().then_some((own, top))
}

/// The group of version 2 among those of a process (cgroups(7)).
fn below(top: &Path, groups: &str) -> Option<PathBuf> {
    let own = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::/"))?);
    // Outside of the namespace's own root.
    (!own.components().any(|part| part == Component::ParentDir)).then(|| top.join(own))
}

/// Removes the groups of this user's that no launcher holds, with whatever runs in them.
fn sweep(parent: &Path) {
    let user = nix::unistd::geteuid().as_raw();
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs().cast_signed());
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let old = entry
            .metadata()
            .is_ok_and(|m| m.is_dir() && m.uid() == user && m.ctime() + STALE < now);
        let path = entry.path();
        let held = || {
            let lock = File::open(&path).map(|dir| Flock::lock(dir, FlockArg::LockExclusiveNonblock));
            matches!(lock, Ok(Err(_)))
        };
        if old && !held() {
            let _ = fs::write(path.join("cgroup.kill"), "1");
            // One that is not empty yet is the next session's.
            let _ = fs::remove_dir(&path);
        }
    }
}

fn write(path: &Path, value: u64) -> Result<()> {
    let file = File::options().write(true).open(path);
    file.and_then(|mut file| file.write_all(value.to_string().as_bytes()))
        .map_err(|e| failed(path, &e))
}

fn absent_is_fine(written: Result<()>) -> Result<()> {
    match written {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::ControlGroup {
        file: path.display().to_string(),
        errno: Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

#[cfg(test)]
mod tests;
