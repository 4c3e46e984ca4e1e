//! A place to run the binary under test: an ordinary user, a fresh home, a workspace, nothing inherited.
//!
//! When the tests run as root, everything is started as an ordinary user instead (`PICKTWO_TEST_USER`, `tester` or
//! `nobody`): nothing is ever tested as root only.

use crate::{
    run::{self, Finished},
    tier,
};
use nix::unistd::{Gid, Uid, User, chown};
use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, UNIX_EPOCH},
};

/// Where scenes lie in the user's real home, unless `PICKTWO_TEST_DIR` names a directory. Not in /tmp: a session has its own,
/// and Codex refuses parts of its work with a home below it.
const BASE: &str = ".cache/picktwo-tests";

/// One scene; its directories go when it is dropped, unless the test failed or `PICKTWO_TEST_KEEP` is set.
#[derive(Debug)]
pub struct Scene {
    root: PathBuf,
    picktwo: PathBuf,
    /// Where the build has it.
    built: PathBuf,
    /// Whom to run as, if not as ourselves.
    user: Option<(Uid, Gid)>,
    name: String,
}

impl Scene {
    /// A fresh scene for the binary at `picktwo` (`env!("CARGO_BIN_EXE_picktwo")`).
    ///
    /// # Errors
    /// Its directories could not be made, or there is no ordinary user to run as.
    pub fn new(picktwo: impl AsRef<Path>) -> io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let (user, account) = ordinary_user()?;
        let base = std::env::var_os("PICKTWO_TEST_DIR").map_or_else(|| account.dir.join(BASE), PathBuf::from);
        let started = UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
        let root = base.join(format!("{started}-{}-{n}", std::process::id()));
        let scene = Self {
            picktwo: root.join("bin/picktwo"),
            built: picktwo.as_ref().to_owned(),
            root,
            user,
            name: account.name,
        };
        scene.directories(&scene.root)?;
        for part in ["bin", "home", "home/.config", "home/.config/picktwo", "work"] {
            scene.directory(&scene.root.join(part))?;
        }
        // The build's own directory may be closed to that user.
        if user.is_some() || tier::container() || fs::hard_link(picktwo.as_ref(), &scene.picktwo).is_err() {
            tier::install(picktwo.as_ref(), &scene.root.join("bin"))?;
        }
        Ok(scene)
    }

    /// Copies a program to `to` below the scene's root, where its user can execute it.
    ///
    /// # Errors
    /// Those of copying it.
    pub fn program(&self, from: &Path, to: &str) -> io::Result<PathBuf> {
        let path = self.root.join(to);
        if let Some(parent) = path.parent() {
            self.directories(parent)?;
        }
        tier::copy(from, &path)?;
        self.give(&path)?;
        Ok(path)
    }

    /// The hostile program `name`, where the scene's user can execute it.
    ///
    /// # Errors
    /// Those of copying it.
    pub fn example(&self, name: &str) -> io::Result<PathBuf> {
        self.example_to(name, &format!("hostile/{name}"))
    }

    /// The same at `to` below the scene's root.
    ///
    /// # Errors
    /// Those of copying it.
    pub fn example_to(&self, name: &str, to: &str) -> io::Result<PathBuf> {
        let path = self.root.join(to);
        if path.exists() {
            return Ok(path);
        }
        self.program(&tier::example(&self.built, name), to)
    }

    /// picktwo with these arguments, below the hostile programs of `outer`, each of which takes something away.
    ///
    /// # Errors
    /// Those of copying them.
    pub fn below(&self, outer: &[&str], args: &[&str]) -> io::Result<Command> {
        let mut words = Vec::new();
        for name in outer {
            words.push(self.example(name)?);
        }
        words.push(self.picktwo.clone());
        let mut command = self.command(&words[0]);
        command.args(&words[1..]).args(args);
        Ok(command)
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            // Another scene was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.and_then(|()| self.give(path)),
        }
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        if let Some((uid, gid)) = self.user {
            chown(path, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    /// Whether programs run as another user than we are, which means that we are root and see everything.
    #[must_use]
    pub fn as_other(&self) -> bool {
        self.user.is_some()
    }

    /// Everything of this scene lies below it.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The user's home.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The workspace.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// picktwo's state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("home/.local/state/picktwo")
    }

    /// Opens the way to the private homes, which sessions close, so that what lies there can be looked at and removed.
    pub fn open_homes(&self) {
        let below = |dir: &Path| {
            fs::read_dir(dir)
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path())
                .collect::<Vec<_>>()
        };
        for profile in below(&self.state().join("agents")) {
            for workspace in below(&profile) {
                let _ = fs::set_permissions(workspace, Permissions::from_mode(0o700));
            }
        }
    }

    /// Writes the user's policy.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn policy(&self, text: &str) -> io::Result<()> {
        self.write(self.home().join(".config/picktwo/policy.toml"), text)
    }

    /// Writes a file of the user's, with the directories above it that are missing; relative paths lie in the workspace.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.work().join(path);
        if let Some(parent) = path.parent() {
            self.directories(parent)?;
        }
        fs::write(&path, content)?;
        self.give(&path)
    }

    /// Makes a directory of the user's and those above it that are missing.
    ///
    /// # Errors
    /// Those of making them.
    pub fn directories(&self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> = path.ancestors().take_while(|p| !p.exists()).collect();
        while let Some(dir) = missing.pop() {
            self.directory(dir)?;
        }
        Ok(())
    }

    /// A program as that user, in the workspace, with a small environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs([
                ("LANG", "C.UTF-8"),
                ("TERM", "dumb"),
                ("SHELL", "/bin/sh"),
                ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ])
            .envs([("USER", &self.name), ("LOGNAME", &self.name)])
            .env("HOME", self.home())
            .current_dir(self.work());
        if let Some((uid, gid)) = self.user {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command
    }

    /// picktwo with these arguments, in this program's tier ([`tier::tier`]).
    pub fn picktwo<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command(&self.picktwo);
        command.args(args);
        command
    }

    /// Runs picktwo to its end.
    ///
    /// # Errors
    /// Those of starting it.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>, limit: Duration) -> io::Result<Finished> {
        run::run(self.picktwo(args), limit)
    }

    /// The sessions that `picktwo sessions --json` lists.
    ///
    /// # Errors
    /// It failed, or its output is not that.
    pub fn sessions(&self) -> io::Result<Vec<SessionLine>> {
        let finished = self.run(["sessions", "--json"], Duration::from_secs(20))?;
        if finished.code() != 0 {
            return Err(io::Error::other(finished.all()));
        }
        serde_json::from_str(&finished.stdout).map_err(|e| io::Error::other(format!("{e}: {}", finished.stdout)))
    }

    /// Waits for the one session of this scene.
    ///
    /// # Errors
    /// None came up within `limit`.
    pub fn session(&self, limit: Duration) -> io::Result<SessionLine> {
        let mut last = Ok(Vec::new());
        run::wait_until(limit, || {
            last = self.sessions();
            last.as_ref().is_ok_and(|s| s.len() == 1)
        });
        match last?.as_slice() {
            [one] => Ok(one.clone()),
            other => Err(io::Error::other(format!(
                "one session expected, there are {}",
                other.len()
            ))),
        }
    }
}

/// One element of `picktwo sessions --json`; members that it may gain are ignored.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct SessionLine {
    /// Session id.
    pub id: String,
    /// `read-only` or `edit`.
    pub mode: String,
    /// The workspace.
    pub workspace: String,
    /// Process id of the launcher.
    pub pid: i32,
    /// The tier.
    pub tier: String,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("PICKTWO_TEST_KEEP").is_some_and(|v| !v.is_empty()) {
            use std::io::Write as _;
            let _ = writeln!(io::stderr(), "kept for a look: {}", self.root.display());
        } else {
            self.open_homes();
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// Whom to run as (nobody else if we are an ordinary user ourselves), and that user's account.
fn ordinary_user() -> io::Result<(Option<(Uid, Gid)>, User)> {
    let own = Uid::effective();
    if !own.is_root() {
        let account = User::from_uid(own)?.ok_or_else(|| io::Error::other(format!("user {own} has no account")))?;
        return Ok((None, account));
    }
    let wanted = std::env::var("PICKTWO_TEST_USER").ok();
    let names: Vec<&str> = wanted
        .as_deref()
        .map_or_else(|| vec!["tester", "nobody"], |name| vec![name]);
    for name in &names {
        if let Some(user) = User::from_name(name)?
            && !user.uid.is_root()
        {
            return Ok((Some((user.uid, user.gid)), user));
        }
    }
    Err(io::Error::other(format!(
        "no ordinary user to run as: {}",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_as_an_ordinary_user_with_nothing_inherited() {
        let scene = Scene::new("/bin/true").unwrap();
        scene.write("deep/er/file", "text").unwrap();
        let mut command = scene.command("sh");
        command.args([
            "-c",
            "id -u; pwd; cat deep/er/file; env | sort; echo x > deep/new && stat -c %u deep/new",
        ]);
        let finished = run::run(command, Duration::from_secs(20)).unwrap();
        assert_eq!(finished.code(), 0, "{}", finished.all());
        let lines: Vec<&str> = finished.stdout.lines().collect();
        assert_ne!(lines[0], "0");
        assert_eq!(lines[1], scene.work().to_str().unwrap());
        assert!(!finished.stdout.contains("CARGO"), "{}", finished.stdout);
        assert_eq!(lines.last(), Some(&lines[0]));
        assert_eq!(scene.run([""; 0], Duration::from_secs(20)).unwrap().code(), 0);
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let scene = Scene::new("/bin/true").unwrap();
        let mut command = scene.command("sh");
        command.args(["-c", "echo here; sleep 1000 & sleep 1000"]);
        let finished = run::run(command, Duration::from_millis(300)).unwrap();
        assert!(finished.timed_out && finished.code() == 137, "{}", finished.all());
        assert_eq!(finished.stdout, "here\n");
        assert!(
            finished.took < Duration::from_secs(4),
            "the pipe is closed: nothing is left"
        );
    }
}
