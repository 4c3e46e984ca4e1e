//! Timing whole commands in turn, and the directories they run in.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program on PATH.
pub(crate) fn find(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| p.is_file())
        .map(|p| p.display().to_string())
}

/// A private directory with a workspace, a state and a policy; in memory where that is possible.
pub(crate) struct Bench {
    picktwo: PathBuf,
    dir: PathBuf,
}

impl Bench {
    /// Makes the directories.
    pub(crate) fn new(picktwo: PathBuf) -> Result<Self> {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() {
            shm.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        let dir = base.join(format!("picktwo-bench-{}", std::process::id()));
        for sub in ["work", "state", "config/picktwo", "home"] {
            std::fs::create_dir_all(dir.join(sub))?;
        }
        Ok(Self {
            picktwo: picktwo.canonicalize()?,
            dir,
        })
    }

    /// Where everything is.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The workspace.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// A command outside.
    pub(crate) fn bare(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.env("HOME", self.dir.join("home"));
        command
    }

    /// A command in a session.
    pub(crate) fn session(&self, options: &[&str], program: &str, args: &[&str]) -> Command {
        let mut command = self.bare(&self.picktwo.display().to_string(), &["run"]);
        command
            .env("XDG_STATE_HOME", self.dir.join("state"))
            .env("XDG_CONFIG_HOME", self.dir.join("config"));
        command.args(options).arg("--").arg(program).args(args);
        command
    }

    /// A command in a session with a gateway to `upstream`.
    pub(crate) fn session_with_gateway(&self, upstream: &str, program: &str, args: &[&str]) -> Command {
        let policy = self.dir.join(format!("gateway-{}.toml", upstream.len()));
        let text = format!("version = 1\n[model.anthropic]\nupstream = \"{upstream}\"\nkey = \"env:BENCH_KEY\"\n");
        // A policy that cannot be written shows when the session starts.
        let _ = std::fs::write(&policy, text);
        let mut command = self.session(&["--policy", &policy.display().to_string()], program, args);
        command.env("BENCH_KEY", "sk-ant-bench");
        command
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Runs a command to its end; an exit code other than 0 is an error.
pub(crate) fn run(mut command: Command) -> Result<Duration> {
    let start = Instant::now();
    let output = command.stderr(Stdio::piped()).spawn()?.wait_with_output()?;
    let took = start.elapsed();
    if output.status.success() {
        Ok(took)
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::other(format!(
            "{command:?} ended with {}: {}",
            output.status,
            said.lines().next().unwrap_or_default()
        )))
    }
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs two commands in turn and prints both medians, the median of the paired differences and of the paired ratios.
pub(crate) fn pair(name: &str, rounds: usize, a: impl Fn() -> Command, b: impl Fn() -> Command) -> Result<()> {
    pair_with(name, rounds, a, b, || Ok(()))
}

/// As [`pair`], with a preparation before each single run.
pub(crate) fn pair_with(
    name: &str,
    rounds: usize,
    a: impl Fn() -> Command,
    b: impl Fn() -> Command,
    prepare: impl Fn() -> Result<()>,
) -> Result<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        prepare()?;
        let x = run(a())?.as_secs_f64() * 1e3;
        prepare()?;
        let y = run(b())?.as_secs_f64() * 1e3;
        // The first round warms the caches.
        if round > 0 {
            ours.push(x);
            theirs.push(y);
        }
    }
    let mut differences: Vec<f64> = ours.iter().zip(&theirs).map(|(x, y)| x - y).collect();
    let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(x, y)| x / y).collect();
    println!(
        "  {name:<34} {:>9.2} ms {:>9.2} ms   {:>+8.2} ms   × {:.2}",
        median(&mut ours),
        median(&mut theirs),
        median(&mut differences),
        median(&mut ratios)
    );
    Ok(())
}
