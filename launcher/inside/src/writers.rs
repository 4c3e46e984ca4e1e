//! Who can still write to granted roots after the session went back to read-only.
//!
//! Three looks: descriptors in /proc, shared writable mappings in /proc (they outlive their descriptors), and a lease probe on
//! every file that was granted for writing ([`Grants::still_written`]), which also finds a descriptor that is parked in a
//! socket's queue, though not who parked it.

use crate::files::Grants;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a file is held for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By an open descriptor of this number.
    Descriptor(i32),
    /// By a shared writable mapping.
    Mapping,
    /// By nothing that /proc shows: a descriptor in a socket's queue, or a process outside of the session.
    Unseen,
}

/// Something that can still write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWriter {
    /// The process, in the launcher's pid namespace; 0 for [`How::Unseen`].
    pub pid: i32,
    /// Its command line, shortened; empty for [`How::Unseen`].
    pub command: String,
    /// The file.
    pub path: PathBuf,
    /// How it is held.
    pub how: How,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The writers.
    pub writers: Vec<OpenWriter>,
    /// Whether every file that was granted for writing could be asked about.
    pub complete: bool,
}

/// How the processes of a session are told from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// By their pid namespace: the one of this process.
    OfNamespace(i32),
    /// By their Landlock domain: those that the kernel lets this confined launcher look into, since they are below its own domain,
    /// but for these, which are picktwo's.
    OfDomain(Vec<i32>),
}

impl Members {
    /// The processes, in the launcher's numbers.
    pub fn list(&self) -> Vec<i32> {
        match self {
            Members::OfNamespace(member) => session_processes(*member),
            Members::OfDomain(others) => processes()
                .filter(|pid| !others.contains(pid) && looked_into(*pid))
                .collect(),
        }
    }
}

/// Whether the kernel lets this process look into another. One whose first thread has ended has no program, but may be looked into.
fn looked_into(pid: i32) -> bool {
    match fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(_) => true,
        Err(e) => e.kind() == io::ErrorKind::NotFound && Path::new(&format!("/proc/{pid}")).exists(),
    }
}

/// The processes of the pid namespace whose process 1 is `init`, in the launcher's numbers.
pub fn session_processes(init: i32) -> Vec<i32> {
    let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(own) = namespace(init) else { return Vec::new() };
    processes()
        .filter(|&pid| namespace(pid).is_some_and(|other| other == own))
        .collect()
}

pub(crate) fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Finds what can still write to the granted roots. `processes` are those of the session ([`session_processes`]).
pub fn find(grants: &Grants, processes: &[i32]) -> Found {
    let mut found = Found::default();
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    for &pid in processes {
        let mut known: HashSet<(i32, PathBuf)> = HashSet::new();
        for thread in threads(pid) {
            for (fd, path) in descriptors(&thread) {
                if grants.lies_in_root(&path) && !known.contains(&(fd, path.clone())) && writable(&thread, fd) {
                    if let Ok(meta) = fs::metadata(thread.join(format!("fd/{fd}"))) {
                        seen.insert((meta.dev(), meta.ino()));
                    }
                    known.insert((fd, path.clone()));
                    note(&mut found, pid, path, How::Descriptor(fd));
                }
            }
        }
        for path in mappings(pid) {
            if grants.lies_in_root(&path) {
                if let Ok(meta) = fs::metadata(&path) {
                    seen.insert((meta.dev(), meta.ino()));
                }
                note(&mut found, pid, path, How::Mapping);
            }
        }
    }
    let (still, complete) = grants.still_written();
    found.complete = complete;
    for file in still {
        if !seen.contains(&file.inode) {
            found.writers.push(OpenWriter {
                pid: 0,
                command: String::new(),
                path: file.path,
                how: How::Unseen,
            });
        }
    }
    found
}

fn note(found: &mut Found, pid: i32, path: PathBuf, how: How) {
    found.writers.push(OpenWriter {
        pid,
        command: command(pid),
        path,
        how,
    });
}

/// The directories of a process's threads in /proc. The first one may have ended before the others, and its directory, which is the
/// process's, shows nothing then; each may have descriptors of its own.
fn threads(pid: i32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Descriptors of a thread with what they refer to.
fn descriptors(thread: &Path) -> Vec<(i32, PathBuf)> {
    let entries = fs::read_dir(thread.join("fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                fs::read_link(entry.path()).ok()?,
            ))
        })
        .collect()
}

/// Whether a descriptor was opened for writing (`flags:` of its fdinfo, octal).
fn writable(thread: &Path, fd: i32) -> bool {
    const O_PATH: u32 = 0o10000000;
    let Ok(text) = fs::read_to_string(thread.join(format!("fdinfo/{fd}"))) else {
        return false;
    };
    let flags = text
        .lines()
        .find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_PATH == 0 && flags & 3 != 0)
}

/// A file of /proc about the memory of a process, which all its threads share but those that have ended.
fn of_some_thread(pid: i32, name: &str) -> Vec<u8> {
    threads(pid)
        .iter()
        .filter_map(|thread| fs::read(thread.join(name)).ok())
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// Files that a process has mapped shared and writable.
fn mappings(pid: i32) -> Vec<PathBuf> {
    let text = of_some_thread(pid, "maps");
    let mut found: Vec<PathBuf> = Vec::new();
    for line in text.split(|&b| b == b'\n') {
        // address perms offset dev inode path
        let mut parts = line.splitn(6, |&b| b == b' ');
        let perms = parts.nth(1).unwrap_or_default();
        let path = parts.nth(3).unwrap_or_default().trim_ascii_start();
        if perms.get(1) == Some(&b'w') && perms.get(3) == Some(&b's') && path.starts_with(b"/") {
            let path = Path::new(OsStr::from_bytes(path)).to_owned();
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

fn command(pid: i32) -> String {
    const LONGEST: usize = 80;
    let text = of_some_thread(pid, "cmdline");
    let words: Vec<_> = text
        .split(|&b| b == 0)
        .filter(|w| !w.is_empty())
        .map(String::from_utf8_lossy)
        .collect();
    let line: String = words
        .join(" ")
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if line.chars().count() <= LONGEST {
        line
    } else {
        line.chars().take(LONGEST - 1).chain(['…']).collect()
    }
}

/// Socket inodes that processes have descriptors of.
pub(crate) fn open_sockets(processes: &[i32]) -> HashSet<u64> {
    let links = processes
        .iter()
        .flat_map(|&pid| threads(pid))
        .flat_map(|thread| descriptors(&thread));
    links
        .filter_map(|(_, link)| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}
