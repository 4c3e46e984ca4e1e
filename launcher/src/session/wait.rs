//! Waiting for the agent as if picktwo were not there: signals are passed on, stops are shared, the end is the agent's own.

use super::group::Group;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, raise, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use picktwo_confine::process::{Child, Exit};

/// How the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this code.
    Code(i32),
    /// By the signal of this number, which may be a real-time signal's.
    Signal(i32),
}

impl End {
    /// The exit code a shell would report.
    pub(crate) fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Signals that someone may send to the launcher and that mean the agent.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];
/// Signals the terminal sends to a whole group: an agent in the launcher's group gets its own copy and decides.
const LEFT_TO_AGENT: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// The signals the launcher takes in order; made before the agent is forked, so that none is lost in between.
pub(crate) struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Blocks the signals above and `SIGCHLD`, to be read in order.
    pub(crate) fn take() -> Result<Self, Errno> {
        let mut set = SigSet::empty();
        let others = [Signal::SIGWINCH, Signal::SIGCHLD];
        for s in PASSED_ON.into_iter().chain(LEFT_TO_AGENT).chain(others) {
            set.add(s);
        }
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None)?;
        Ok(Self {
            fd: SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)?,
        })
    }

    /// Waits until `agent` has ended.
    ///
    /// A signal that a process sent to the launcher goes to the agent. One that the terminal sent (`SI_KERNEL`) has reached an agent in
    /// the same process group already, and goes to the whole group of one that has its own. When the agent stops, the launcher stops,
    /// so that the shell sees a stopped job; when the launcher is continued, so is the agent.
    ///
    /// `reap` is called when some child has ended, for those that nobody waits for.
    pub(crate) fn wait(&self, agent: &Child, group: Group, reap: &dyn Fn()) -> Result<End, Errno> {
        let end = self.wait_for_end(agent, group, reap);
        take_terminal_back();
        end
    }

    fn wait_for_end(&self, child: &Child, group: Group, reap: &dyn Fn()) -> Result<End, Errno> {
        let agent = Pid::from_raw(child.pid());
        loop {
            match child.try_change() {
                Ok(Some(Exit::Code(code))) => return Ok(End::Code(code)),
                Ok(Some(Exit::Signal(signal))) => return Ok(End::Signal(signal)),
                // Stops are shared where a shell with job control stopped the whole job. One that the command arranged by itself would
                // keep the launcher from answering the person.
                Ok(Some(Exit::Stopped(signal)))
                    if LEFT_TO_AGENT.iter().any(|&known| known as i32 == signal) && has_terminal() =>
                {
                    stop_as_a_job()?;
                    kill(agent, Signal::SIGCONT)?;
                    continue;
                }
                Ok(_) => {}
                Err(e) => return Err(e.errno().unwrap_or(Errno::ECHILD)),
            }
            let Some(info) = self.fd.read_signal()? else { continue };
            let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else {
                continue;
            };
            if signal == Signal::SIGCHLD {
                reap();
            }
            let by_terminal = info.ssi_code == SI_KERNEL;
            let meant = PASSED_ON.contains(&signal);
            let sent = match group {
                Group::Shared if by_terminal || !meant => Ok(()),
                Group::Own if !meant && ![Signal::SIGTSTP, Signal::SIGWINCH].contains(&signal) => Ok(()),
                Group::Own if by_terminal => killpg(agent, signal),
                Group::Shared | Group::Own => kill(agent, signal),
            };
            match sent {
                // The agent may have ended in between; the next turn of the loop sees it.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// `SI_KERNEL` (sigaction(2)): the kernel itself sent the signal, here the terminal.
const SI_KERNEL: i32 = 0x80;

/// Whether there is a terminal whose jobs somebody may stop.
fn has_terminal() -> bool {
    nix::unistd::tcgetpgrp(std::io::stdin()).is_ok()
        || nix::unistd::tcgetpgrp(std::io::stdout()).is_ok()
        || nix::unistd::tcgetpgrp(std::io::stderr()).is_ok()
}

/// Stops this process as Ctrl-Z does, until a shell continues it. Where none could (an orphaned group), the kernel does not stop it.
fn stop_as_a_job() -> Result<(), Errno> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTSTP);
    raise(Signal::SIGTSTP)?;
    // Delivered here. Every other thread has it blocked.
    sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&set), None)?;
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None)
}

/// Gives the terminal's foreground back to the launcher's own process group. A shell inside had made a group of its own the
/// foreground, and cannot restore a group that its pid namespace does not know.
pub(super) fn take_terminal_back() {
    let (stdin, own) = (std::io::stdin(), nix::unistd::getpgrp());
    // Only where the group that has the terminal is gone: another job of the person's may have it by right.
    let Ok(foreground) = nix::unistd::tcgetpgrp(&stdin) else {
        return;
    };
    let gone = nix::sys::signal::killpg(foreground, None) == Err(Errno::ESRCH);
    if foreground != own && gone {
        // SIGTTOU is blocked here, so that the call is allowed from the background.
        let _ = nix::unistd::tcsetpgrp(&stdin, own);
    }
}

/// Ends this process the way the agent ended, so that a caller sees the same: a signal by the same signal.
pub(crate) fn end_like(end: End) -> std::process::ExitCode {
    match end {
        End::Code(code) => std::process::ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        End::Signal(number) => {
            if let Ok(signal) = Signal::try_from(number) {
                let mut set = SigSet::empty();
                set.add(signal);
                let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&set), None);
                let _ = raise(signal);
            }
            // Some cannot be raised to a deadly end (SIGSTOP, real-time signals …): the shell's number is the same information.
            std::process::ExitCode::from(u8::try_from(end.shell_code()).unwrap_or(u8::MAX))
        }
    }
}

/// Signals that the person's shell had ignored when picktwo started (`nohup`), to stay ignored in the command.
pub(crate) fn ignored_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    // The standard library ignores SIGPIPE itself, before main: nobody can tell whether the shell did, and few do.
    (1..=64)
        .filter(|n| mask & (1 << (n - 1)) != 0 && *n != Signal::SIGPIPE as i32)
        .collect()
}
