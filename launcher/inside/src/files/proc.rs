//! Opening for reading where there is no view: the session's own part of `/proc`, and what takes the place of files of `/etc`.
//!
//! Landlock refuses all of `/proc`: a rule on it would show every process of this machine, and a rule for the session's own ones cannot
//! be made in advance. So these opens are granted: of a process of the session, what a view's `/proc` would show; of the system,
//! what programs size themselves by. Whatever else is opened is left to the kernel, and so to Landlock: that the caller changes
//! the path meanwhile gains nothing.

use super::open::How;
use super::{Answer, Call, Fail, Grants, Outcome, Place, Shared, Step};
use nix::libc;
use picktwo_confine::Errno;
use picktwo_confine::sys::{self, resolve};
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Of a process, by the names in its directory. `fd` and `fdinfo` list its descriptors; `task` its threads.
const OF_A_PROCESS: &[&[u8]] = &[
    b"auxv",
    b"cgroup",
    b"cmdline",
    b"comm",
    b"coredump_filter",
    b"environ",
    b"fd",
    b"fdinfo",
    b"io",
    b"limits",
    b"loginuid",
    b"maps",
    b"mountinfo",
    b"mounts",
    b"numa_maps",
    b"oom_adj",
    b"oom_score",
    b"oom_score_adj",
    b"personality",
    b"sched",
    b"schedstat",
    b"sessionid",
    b"smaps",
    b"smaps_rollup",
    b"stat",
    b"statm",
    b"status",
    b"task",
    b"wchan",
];
/// Of the system. What tells of keys, addresses of the kernel, or other processes' work is not among them.
const OF_THE_SYSTEM: &[&[u8]] = &[
    b"cgroups",
    b"cmdline",
    b"cpuinfo",
    b"devices",
    b"diskstats",
    b"filesystems",
    b"interrupts",
    b"loadavg",
    b"meminfo",
    b"modules",
    b"partitions",
    b"pressure",
    b"stat",
    b"swaps",
    b"uptime",
    b"version",
    b"vmstat",
];
/// How everything beneath /proc is opened: no magic link is ever followed here.
const BENEATH: u64 = resolve::BENEATH | resolve::NO_SYMLINKS | resolve::NO_MAGICLINKS | resolve::NO_XDEV;
/// What of the caller's flags counts.
const FLAGS: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;

/// What a path beneath `/proc` names.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    /// `/proc` itself.
    Top,
    /// Of the system: the path.
    System(&'a [u8]),
    /// Of a process: who, and the path in its directory, empty for the directory.
    Process(Who, &'a [u8]),
    /// For the kernel to refuse, or to follow.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
enum Who {
    /// The caller's process.
    Own,
    /// The caller's thread.
    OwnThread,
    /// By number.
    Number(i32),
}

impl Grants {
    /// An open that only reads.
    pub(crate) fn open_read(&self, call: &Call<'_>, dirfd: Option<usize>, path: usize, how: How) -> Outcome {
        let Some(shared) = &self.shared else {
            return Ok(Answer::Proceed);
        };
        if how.flags & libc::O_PATH != 0 {
            return Ok(Answer::Proceed);
        }
        // A caller that cannot be read gets what Landlock gives it.
        let Ok(text) = call.path(path) else {
            return Ok(Answer::Proceed);
        };
        let rest = match text.strip_prefix(b"/proc") {
            Some(rest) if rest.first().is_none_or(|&b| b == b'/') => rest,
            _ if text == b"/etc/mtab" => b"/self/mounts",
            _ if text == b"/dev/fd" => b"/self/fd",
            _ if text.first() == Some(&b'/') => {
                if let Some(outcome) = self.open_terminal(call, &text, how) {
                    return outcome;
                }
                if let Some((root, rel)) = self.split_root(&text)
                    && self.roots[root].moved
                {
                    return self.open_read_moved(call, root, rel, how);
                }
                return match shared.replacement(&text) {
                    Some(fd) => self.give_copy(call, fd, how),
                    None => Ok(Answer::Proceed),
                };
            }
            _ => return self.open_read_at(call, dirfd, &text, how),
        };
        self.open_proc_read(call, shared, rest, how)
    }

    /// A relative path, from a descriptor that may be one of `/proc`.
    fn open_read_at(&self, call: &Call<'_>, dirfd: Option<usize>, text: &[u8], how: How) -> Outcome {
        let (Some(shared), Some(fd)) = (&self.shared, dirfd.map(|index| call.int(index))) else {
            return Ok(Answer::Proceed);
        };
        if fd == libc::AT_FDCWD {
            return Ok(Answer::Proceed);
        }
        let Ok(dir) = call.object(fd) else {
            return Ok(Answer::Proceed);
        };
        let Ok(start) = self.path_of(dir.as_fd()) else {
            return Ok(Answer::Proceed);
        };
        match start.strip_prefix(b"/proc") {
            Some(rest) if rest.first().is_none_or(|&b| b == b'/') => {
                self.open_proc_read(call, shared, &[rest, b"/", text].concat(), how)
            }
            _ => Ok(Answer::Proceed),
        }
    }

    fn open_proc_read(&self, call: &Call<'_>, shared: &Shared, rest: &[u8], how: How) -> Outcome {
        let flags = how.flags & FLAGS;
        let opened = match named(rest) {
            Named::Top => self.proc_file(self.proc.as_fd(), b".", flags),
            Named::System(path) => self.proc_file(self.proc.as_fd(), path, flags),
            Named::Process(who, path) => match self.process(call, shared, &who) {
                Some(dir) => self.proc_file(dir.as_fd(), if path.is_empty() { b"." } else { path }, flags),
                None => return Ok(Answer::Proceed),
            },
            Named::Other => return Ok(Answer::Proceed),
        };
        match opened {
            Ok(fd) => {
                call.alive()?;
                self.give_read(fd, how)
            }
            // What does not exist, and links that the kernel follows for the caller.
            Err(_) => Ok(Answer::Proceed),
        }
    }

    /// `pidfd_open`, of processes of the session: of all others there are none.
    pub(crate) fn open_process(&self, call: &Call<'_>) -> Outcome {
        let Some(shared) = &self.shared else {
            return Ok(Answer::Proceed);
        };
        match call.int(0) {
            number if number > 0 && self.process(call, shared, &Who::Number(number)).is_none() => Err(Errno::ESRCH),
            // Its arguments are in registers. That the number may be another's by then gives a descriptor that no right comes with.
            _ => Ok(Answer::Proceed),
        }
    }

    fn proc_file(&self, dir: BorrowedFd<'_>, path: &[u8], flags: i32) -> Result<OwnedFd, Errno> {
        let path = super::cstring(path)?;
        let fd = sys::openat2(dir, &path, flags | libc::O_RDONLY | libc::O_NOCTTY, 0, BENEATH)?;
        // The launcher may be root, and root's own view of a file is nobody else's.
        let identity = sys::fstat(fd.as_fd())?;
        let own = nix::unistd::getuid();
        if identity.mode & 0o004 == 0 && (identity.uid != own.as_raw() || own.is_root() && is_system(&path)) {
            return Err(Errno::EACCES);
        }
        Ok(fd)
    }

    /// Whether a process is one of the session's.
    pub(crate) fn is_of_session(&self, call: &Call<'_>, shared: &Shared, number: i32) -> bool {
        self.process(call, shared, &Who::Number(number)).is_some()
    }

    /// The directory of a process, if it is one of the session's: those that are in a Landlock domain below the launcher's, which is
    /// what the kernel asks before it lets the launcher look into one. The descriptor never comes to mean another process.
    fn process(&self, call: &Call<'_>, shared: &Shared, who: &Who) -> Option<OwnedFd> {
        let number = match who {
            Who::Own => call.status("Tgid:").ok()?,
            Who::OwnThread => call.pid().to_string(),
            Who::Number(number) => number.to_string(),
        };
        let path = CString::new(number).ok()?;
        let dir = sys::openat(self.proc.as_fd(), &path, libc::O_PATH | libc::O_DIRECTORY, 0).ok()?;
        match sys::readlinkat(dir.as_fd(), c"exe") {
            // One that has ended and waits for its parent has none.
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(_) => return None,
        }
        // A thread's number leads to its process's directory, too.
        let status = sys::openat(dir.as_fd(), c"status", libc::O_RDONLY, 0).ok()?;
        let text = std::io::read_to_string(std::fs::File::from(status)).ok()?;
        let process: i32 = text
            .lines()
            .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())?;
        (!shared.others.get()?.contains(&process)).then_some(dir)
    }

    /// A file of one of the session's own directories that lies elsewhere than its path says: shared memory, which is what
    /// programs have there, and directories.
    pub(crate) fn open_moved(&self, call: &Call<'_>, place: &Place, how: How) -> Step {
        const SHARED_MEMORY: i32 =
            FLAGS | libc::O_ACCMODE | libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_APPEND;
        let creates = how.flags & libc::O_CREAT != 0;
        if creates {
            call.assume_umask()?;
        }
        // Whatever else was put there must not make this thread wait.
        let flags = how.flags & SHARED_MEMORY | libc::O_NONBLOCK | libc::O_NOCTTY;
        let fd = place.open(self, flags, if creates { how.mode } else { 0 })?;
        if how.flags & libc::O_NONBLOCK == 0 {
            sys::set_status_flags(fd.as_fd(), how.flags & libc::O_APPEND)?;
        }
        Ok(self.offer(fd, how.cloexec(), false))
    }

    fn open_read_moved(&self, call: &Call<'_>, root: usize, rel: &[u8], how: How) -> Outcome {
        let place = Place {
            root,
            rel: trim(rel).to_vec(),
            slash: rel.last() == Some(&b'/'),
            exact: true,
        };
        call.alive()?;
        match self.open_moved(call, &place, how) {
            Ok(answer) => Ok(answer),
            Err(Fail::Errno(errno)) => Err(errno),
            Err(Fail::Again) => Err(Errno::EACCES),
        }
    }

    fn give_copy(&self, call: &Call<'_>, fd: BorrowedFd<'_>, how: How) -> Outcome {
        let copy = sys::openat(sys::CWD, &sys::fd_path(fd), libc::O_RDONLY, 0)?;
        call.alive()?;
        self.give_read(copy, how)
    }

    fn give_read(&self, fd: OwnedFd, how: How) -> Outcome {
        Ok(self.offer(fd, how.cloexec(), false))
    }
}

impl Shared {
    fn replacement(&self, path: &[u8]) -> Option<BorrowedFd<'_>> {
        let found = self
            .replaced
            .iter()
            .find(|(own, _)| own.as_os_str().as_bytes() == path)?;
        Some(found.1.as_fd())
    }
}

fn is_system(path: &std::ffi::CStr) -> bool {
    path.to_bytes().starts_with(b"sys/") || OF_THE_SYSTEM.contains(&path.to_bytes())
}

/// Reads a path beneath `/proc`: what follows `/proc`.
fn named(rest: &[u8]) -> Named<'_> {
    let rest = trim(rest);
    let (first, tail) = split(rest);
    let who = match first {
        b"" => return Named::Top,
        b"sys" if plain(tail) => return Named::System(rest),
        b"mounts" if tail.is_empty() => return Named::Process(Who::Own, b"mounts"),
        b"self" => Who::Own,
        b"thread-self" => Who::OwnThread,
        _ => match std::str::from_utf8(first).ok().and_then(|text| text.parse().ok()) {
            Some(number) => Who::Number(number),
            None if OF_THE_SYSTEM.contains(&first) && plain(tail) => return Named::System(rest),
            None => return Named::Other,
        },
    };
    // A thread has the same files as its process.
    let (mut name, mut below) = split(tail);
    if name == b"task" && !below.is_empty() {
        let (number, rest) = split(below);
        if !number.iter().all(u8::is_ascii_digit) {
            return Named::Other;
        }
        (name, below) = split(rest);
    }
    let known = name.is_empty() || OF_A_PROCESS.contains(&name);
    let listed = below.is_empty() || name == b"fdinfo" && below.iter().all(u8::is_ascii_digit);
    if known && listed && plain(tail) {
        Named::Process(who, tail)
    } else {
        Named::Other
    }
}

/// Without slashes at both ends.
fn trim(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&b| b != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|&b| b != b'/').map_or(start, |at| at + 1);
    &path[start..end]
}

/// The first component and what follows it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&b| b == b'/') {
        Some(at) => (&path[..at], trim(&path[at..])),
        None => (path, b""),
    }
}

/// Whether a path only goes down.
fn plain(path: &[u8]) -> bool {
    path.split(|&b| b == b'/').all(|name| !matches!(name, b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_paths_name() {
        for (path, wanted) in [
            ("", Named::Top),
            ("/", Named::Top),
            ("/self", Named::Process(Who::Own, b"")),
            ("//self//status", Named::Process(Who::Own, b"status")),
            ("/thread-self/stat", Named::Process(Who::OwnThread, b"stat")),
            ("/12/fd/", Named::Process(Who::Number(12), b"fd")),
            ("/12/fdinfo/3", Named::Process(Who::Number(12), b"fdinfo/3")),
            ("/self/task/7/maps", Named::Process(Who::Own, b"task/7/maps")),
            ("/mounts", Named::Process(Who::Own, b"mounts")),
            ("/meminfo", Named::System(b"meminfo")),
            ("/sys/kernel/osrelease", Named::System(b"sys/kernel/osrelease")),
        ] {
            assert_eq!(named(path.as_bytes()), wanted, "{path}");
        }
        for other in [
            "/self/mem",
            "/self/fd/3",
            "/self/exe",
            "/self/root/etc/shadow",
            "/self/cwd",
            "/self/ns/pid",
            "/self/net/tcp",
            "/self/map_files/1",
            "/self/../1/cmdline",
            "/self/task/../../1/cmdline",
            "/self/task/x/stat",
            "/self/status/..",
            "/kcore",
            "/keys",
            "/net/tcp",
            "/sys/../1/cmdline",
            "/sysrq-trigger",
            "/kallsyms",
        ] {
            assert_eq!(named(other.as_bytes()), Named::Other, "{other}");
        }
    }
}
