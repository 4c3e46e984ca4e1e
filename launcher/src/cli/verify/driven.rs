//! A command that makes attempts: picktwo's own, bare or wrapped in whatever is judged.

use super::inside::READY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use picktwo_confine::probes::{Outcome, SETTING_MARK, Setting, Trial};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time that one answer may take: an attempt has 5 s by itself.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time that a command has to end once it is told.
const END: Duration = Duration::from_secs(10);
/// The longest line that is looked at.
const LINE: usize = 4096;

/// A command that makes attempts.
pub(super) struct Driven {
    child: Child,
    /// None: it was told to end.
    input: Option<ChildStdin>,
    output: ChildStdout,
    buffer: Vec<u8>,
}

impl Driven {
    /// Starts it.
    pub(super) fn spawn(mut command: Command) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("pipes are missing"));
        };
        Ok(Self {
            child,
            input: Some(input),
            output,
            buffer: Vec::new(),
        })
    }

    /// Waits until it reads names. `false`: it ended, or said nothing in that time.
    pub(super) fn ready(&mut self, patience: Duration) -> bool {
        self.find(patience, |line| (line == READY).then_some(())).is_some()
    }

    /// Says what the attempts are aimed at.
    pub(super) fn aim(&mut self, setting: &Setting) -> std::io::Result<()> {
        self.say(&format!("{SETTING_MARK}{}", setting.text()))
    }

    fn say(&mut self, line: &str) -> std::io::Result<()> {
        match &mut self.input {
            Some(input) => writeln!(input, "{line}"),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Makes one attempt; none: there is nobody left who could.
    pub(super) fn attempt(&mut self, id: &str) -> Option<Outcome> {
        self.say(id).ok()?;
        let outcome = self.find(PATIENCE, |line| {
            Trial::read(line)
                .filter(|trial| trial.id == id)
                .map(|trial| trial.outcome)
        });
        if outcome.is_none() {
            // It is gone, or hangs, which ends the series.
            let _ = self.child.kill();
        }
        outcome
    }

    /// Ends it: its input is at its end, and what does not take that is killed.
    pub(super) fn end(mut self) -> std::io::Result<ExitStatus> {
        self.finish()
    }

    fn finish(&mut self) -> std::io::Result<ExitStatus> {
        self.input = None;
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if since.elapsed() > END {
                self.child.kill()?;
                return self.child.wait();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The first line that `wanted` takes. Other lines are somebody else's.
    fn find<T>(&mut self, patience: Duration, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        let until = Instant::now() + patience;
        loop {
            while let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if let Some(found) = std::str::from_utf8(&line).ok().and_then(|line| wanted(line.trim_end())) {
                    return Some(found);
                }
            }
            if self.buffer.len() > LINE {
                self.buffer.clear();
            }
            let left = until.saturating_duration_since(Instant::now());
            let mut ready = [PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            if !matches!(poll(&mut ready, timeout), Ok(1..)) {
                return None;
            }
            let mut block = [0u8; 1024];
            match self.output.read(&mut block) {
                Ok(n @ 1..) => self.buffer.extend_from_slice(&block[..n]),
                _ => return None,
            }
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // Nothing that it uses is taken away while it runs. One that was ended before answers at once.
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use picktwo_confine::Errno;

    fn shell(script: &str) -> Driven {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Driven::spawn(command).unwrap()
    }

    #[test]
    fn lines_of_others_are_passed_over() {
        let mut driven = shell(
            "echo hello; printf 'picktwo-verify ready\\r\\n'; read id; echo other escaped 0 -; echo \"$id refused 13 -\"",
        );
        assert!(driven.ready(PATIENCE));
        assert_eq!(driven.attempt("a.b"), Some(Outcome::Refused(Errno::EACCES)));
        assert!(driven.end().unwrap().success());
    }

    #[test]
    fn what_ends_or_says_nothing_is_not_ready() {
        let mut gone = shell("exit 127");
        assert!(!gone.ready(PATIENCE));
        assert_eq!(gone.end().unwrap().code(), Some(127));
        let mut mute = shell("read x");
        assert!(!mute.ready(Duration::from_millis(50)));
        assert_eq!(mute.attempt("a.b"), None);
    }
}
