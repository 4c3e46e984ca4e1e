//! Whose process group the command is in. Signals to a whole group, when it comes from the kernel, ask no Landlock domain: so the
//! command shares none with others whom it could have signalled.

use nix::unistd::{Pid, getpgid, getpgrp, getpid, getppid, getsid};

/// What the command's process group is to the launcher's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The same: the terminal's signals reach both.
    Shared,
    /// One of its own, in a session of its own without a controlling terminal: the terminal's signals are passed on.
    Own,
}

impl Group {
    /// Which of the two it has to be.
    ///
    /// A group that loses its last link to a shell with job control while a member is stopped gets SIGHUP and SIGCONT from the kernel
    /// (setpgid(2), orphaned groups). Without a terminal, or without such a shell, a member brings that about by itself.
    pub(crate) fn choose() -> Self {
        let terminal = stat("self").is_some_and(|own| own.terminal != 0);
        if terminal && (!orphaned() || alone()) {
            Self::Shared
        } else {
            Self::Own
        }
    }
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    parent: i32,
    group: i32,
    /// The controlling terminal's device, 0 for none.
    terminal: i32,
}

fn stat(pid: &str) -> Option<Stat> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(text: &str) -> Option<Stat> {
    // The name is in parentheses and may hold anything. State, parent, group, session, terminal follow.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(1);
    let mut next = || fields.next()?.parse().ok();
    let (parent, group) = (next()?, next()?);
    let _session: i32 = next()?;
    Some(Stat {
        parent,
        group,
        terminal: next()?,
    })
}

/// Whether no shell looks after this process's group: no process of the group has a parent in another group of the same session. Only
/// this process and those above it are looked at: what else is in the group has the same ones.
fn orphaned() -> bool {
    let (group, session) = (getpgrp(), getsid(None));
    let mut parent = getppid();
    loop {
        if parent.as_raw() <= 1 || getsid(Some(parent)) != session {
            return true;
        }
        if getpgid(Some(parent)) != Ok(group) {
            return false;
        }
        let above = stat(&parent.to_string()).map_or(0, |stat| stat.parent);
        parent = Pid::from_raw(above);
    }
}

/// Whether nobody but picktwo is in this process's group.
fn alone() -> bool {
    let own = getpid().as_raw();
    let Ok(numbers) = std::fs::read_dir("/proc") else {
        return false;
    };
    let names = numbers.flatten().map(|entry| entry.file_name());
    let mut others = names.filter_map(|name| {
        let number: i32 = name.to_str()?.parse().ok()?;
        stat(name.to_str()?).filter(|stat| number != own && stat.parent != own)
    });
    getpgrp().as_raw() == own && !others.any(|other| other.group == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = parse("12 (a ) S 1 (b) R 7 8 9 34817 8 4194304 0").unwrap();
        assert_eq!((stat.parent, stat.group, stat.terminal), (7, 8, 34817));
        assert!(parse("12 (a").is_none());
    }

    #[test]
    fn this_process_is_what_the_kernel_says() {
        let own = stat("self").unwrap();
        assert_eq!((own.parent, own.group), (getppid().as_raw(), getpgrp().as_raw()));
    }
}
