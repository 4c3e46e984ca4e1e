//! What a session may use of the machine: from the policy's `[limits]` to what enforces them here.

use super::tier::Tier;
use picktwo_confine::Result;
use picktwo_confine::cgroup::{Cgroup, Most, Parent};
use picktwo_confine::limits::Bounds;
use picktwo_inside::view::Sizes;
use picktwo_policies::model::Limits;
use std::path::Path;

/// What enforces the bounds of memory and processes here.
pub(crate) struct Means {
    /// Where control groups can be made.
    groups: Option<Parent>,
    tier: Tier,
    /// The kernel exempts the machine's root from RLIMIT_NPROC.
    root: bool,
    /// Pid namespaces have bounds of their own.
    pid_bounds: bool,
    /// Bytes of memory of this machine.
    memory: u64,
}

/// The bounds of one session.
pub(crate) struct Made {
    /// Of each process.
    pub(crate) bounds: Bounds,
    /// Of the session.
    pub(crate) group: Option<Cgroup>,
}

impl Means {
    /// Looks what there is.
    pub(crate) fn find(tier: Tier) -> Self {
        Self {
            groups: Parent::find(),
            tier,
            root: nix::unistd::getuid().is_root(),
            pid_bounds: has_pid_bounds(),
            memory: memory(),
        }
    }

    /// What bounds the memory of a session.
    pub(crate) fn of_memory(&self) -> &'static str {
        match &self.groups {
            Some(groups) if groups.memory => "cgroup",
            _ => "rlimit",
        }
    }

    /// What bounds the number of its processes.
    pub(crate) fn of_processes(&self) -> &'static str {
        match (&self.groups, self.tier) {
            (Some(groups), _) if groups.processes => "cgroup",
            _ if !self.root => "rlimit",
            (_, Tier::Full | Tier::Nested) if self.pid_bounds => "pid namespace",
            _ => "none",
        }
    }

    /// The same for people, with what could be done.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines = vec![match (self.of_memory(), &self.groups) {
            ("cgroup", Some(groups)) => format!("memory of the session: control group in {}", groups.path().display()),
            _ => "memory of each process, not of the session: no control group can be made here, so `limits.memory_bytes` bounds each \
                  process's data and the kernel ends the session first where memory runs out; \
                  `systemd-run --user --scope picktwo …` gives it a group"
                .to_owned(),
        }];
        lines.push(match self.of_processes() {
            "cgroup" => "processes of the session: the same control group".to_owned(),
            "rlimit" if self.tier != Tier::Container => {
                "processes of the session: RLIMIT_NPROC, counted in its user namespace".to_owned()
            }
            "rlimit" => "processes: RLIMIT_NPROC, which counts all of this user's: `limits.processes` beyond what runs at the start".to_owned(),
            "pid namespace" => "processes of the session: the bound of its pid namespace".to_owned(),
            _ => "processes: not bounded, since the kernel exempts root from RLIMIT_NPROC and there is neither a control group nor a pid \
                  namespace with a bound (Linux 6.14)"
                .to_owned(),
        });
        lines
    }

    /// Makes the session's group, if there can be one, and the bounds of its processes. `open_files` are the person's own limits, soft
    /// and hard.
    ///
    /// # Errors
    /// The group cannot be made although it should be possible.
    pub(crate) fn make(&self, session: &str, limits: &Limits, open_files: (u64, u64)) -> Result<Made> {
        let memory = self.memory_of(limits);
        let processes = limits.processes.value;
        let group = match &self.groups {
            Some(groups) => Some(groups.create(session, Most { memory, processes })?),
            None => None,
        };
        let most = limits.open_files.value;
        let bounds = Bounds {
            open_files: (open_files.0.min(most), open_files.1.min(most)),
            processes: match self.tier {
                Tier::Full | Tier::Nested => Some(processes),
                // All tasks of the machine, this user's among them: what is left for the session is never less than asked for.
                Tier::Container => tasks().map(|now| now + processes),
            },
            data: (self.of_memory() != "cgroup").then_some(limits.memory_bytes.value),
            file: limits.file_bytes.value,
        };
        Ok(Made { bounds, group })
    }

    fn memory_of(&self, limits: &Limits) -> u64 {
        let part = self.memory / 100 * limits.memory_percent.value;
        limits.memory_bytes.value.min(part)
    }

    /// The bound of the session's pid namespace, where nothing else bounds its processes.
    pub(crate) fn pid_bound(&self, limits: &Limits) -> Option<u64> {
        (self.of_processes() == "pid namespace").then_some(limits.processes.value)
    }

    /// The sizes of the session's file systems in memory.
    pub(crate) fn sizes(&self, limits: &Limits) -> Sizes {
        let asked = Sizes {
            tmp: limits.tmp_bytes.value,
            shm: limits.shm_bytes.value,
            ..Sizes::default()
        };
        asked.on_machine_with(self.memory)
    }
}

/// Bytes of memory of this machine.
pub(crate) fn memory() -> u64 {
    nix::sys::sysinfo::sysinfo().map_or(u64::MAX, |machine| machine.ram_total())
}

/// Linux 6.14 gave each pid namespace a bound of its own. Asked by the version: before, the same file is the whole machine's.
fn has_pid_bounds() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 14)
}

/// Processes and threads on the machine (proc_loadavg(5)): one small file, where a count of this user's own takes milliseconds.
fn tasks() -> Option<u64> {
    let load = std::fs::read_to_string(Path::new("/proc/loadavg")).ok()?;
    load.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}
