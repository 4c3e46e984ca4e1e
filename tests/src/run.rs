//! Programs with a time limit: nothing a test starts may hang it.

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{
    io::{self, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// What a program left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Whether it was killed for the time limit.
    pub timed_out: bool,
    /// Whether both pipes had come to their ends, five seconds later at most: no process holds one any more.
    pub closed: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
}

impl Finished {
    /// The exit code, or 128 + signal.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Standard error without the sentence that says that a session is in the container tier.
    #[must_use]
    pub fn errors(&self) -> String {
        crate::tier::without_notice(&self.stderr)
    }

    /// Both streams, for messages.
    #[must_use]
    pub fn all(&self) -> String {
        format!(
            "exit {}{} after {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.code(),
            if self.timed_out {
                " (killed for the time limit)"
            } else {
                ""
            },
            self.took,
            self.stdout,
            self.stderr
        )
    }
}

/// A program under way, in a process group of its own.
#[derive(Debug)]
pub struct Running {
    child: Child,
    since: Instant,
    stdout: Stream,
    stderr: Stream,
}

#[derive(Debug)]
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Stream {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let thread = thread::spawn(move || {
            let mut block = [0; 8192];
            while let Ok(n @ 1..) = from.read(&mut block) {
                into.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&block[..n]);
            }
        });
        Self { text, thread }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Starts `command` with its output captured and `input` on its standard input.
///
/// # Errors
/// Those of starting it.
pub fn start(mut command: Command, input: &[u8]) -> io::Result<Running> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let since = Instant::now();
    let mut child = command.spawn()?;
    let (stdout, stderr) = match (child.stdout.take(), child.stderr.take()) {
        (Some(out), Some(err)) => (Stream::read(out), Stream::read(err)),
        _ => return Err(io::Error::other("the child has no pipes")),
    };
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_vec();
        // A program need not read its input.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    Ok(Running {
        child,
        since,
        stdout,
        stderr,
    })
}

/// Runs `command` to its end, or kills it and its process group after `limit`.
///
/// # Errors
/// Those of starting it and of waiting.
pub fn run(command: Command, limit: Duration) -> io::Result<Finished> {
    start(command, b"")?.finish(limit)
}

impl Running {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Standard output up to now.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.so_far()
    }

    /// Standard error up to now.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.so_far()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// Those of `waitpid`.
    pub fn ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for the end, at most `limit` from now.
    ///
    /// # Errors
    /// Those of `waitpid`.
    pub fn finish(mut self, limit: Duration) -> io::Result<Finished> {
        let until = Instant::now() + limit;
        let (status, timed_out) = loop {
            if let Some(status) = self.child.try_wait()? {
                break (status, false);
            }
            if Instant::now() >= until {
                self.kill();
                break (self.child.wait()?, true);
            }
            thread::sleep(Duration::from_millis(5));
        };
        let took = self.since.elapsed();
        // A descendant that outlives the program may hold the pipes: what came until now is what counts.
        let closed = wait_until(Duration::from_secs(5), || {
            self.stdout.thread.is_finished() && self.stderr.thread.is_finished()
        });
        Ok(Finished {
            status,
            timed_out,
            closed,
            stdout: self.stdout(),
            stderr: self.stderr(),
            took,
        })
    }

    /// Kills its process group.
    pub fn kill(&mut self) {
        // The child is not reaped yet, so the id is still its own.
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// Asks `condition` every 10 ms until it holds or `limit` has passed; says whether it held.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
