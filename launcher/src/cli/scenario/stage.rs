//! What a play is made on: directories of its own, canaries drawn anew, sockets that listen.

use super::find::{base64, hex};
use super::servers::Bound;
use crate::names;
use picktwo_policies::scenario::{self, Like, Scenario, Words};
use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Where programs are looked up: the same on every machine.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The directories of one play, removed at its end.
pub(super) struct Stage {
    base: PathBuf,
    keep: bool,
    /// What placeholders stand for.
    pub(super) words: Arc<dyn Words + Send + Sync>,
    /// The person's environment.
    env: BTreeMap<String, String>,
}

struct Values(BTreeMap<String, String>);

impl Words for Values {
    fn word(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

impl Stage {
    /// Makes the directories and the files, and draws the canaries.
    pub(super) fn new(scenario: &Scenario, bound: &Bound, keep: bool) -> Result<Self> {
        let base = std::env::temp_dir().join(format!("picktwo-scenario-{}", crate::session::id::new()?));
        std::fs::DirBuilder::new().mode(0o700).create(&base)?;
        let base = base.canonicalize()?;
        let mut stage = Self {
            words: Arc::new(Values(BTreeMap::new())),
            env: BTreeMap::new(),
            base,
            keep,
        };
        for dir in ["work", "home", "outside", "tmp", "home/.config/picktwo"] {
            std::fs::create_dir_all(stage.base.join(dir))?;
        }
        stage.words = Arc::new(Values(stage.values(scenario, bound)?));
        for file in &scenario.files {
            let path = stage.path(&file.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, stage.fill(&file.text))?;
            if file.executable {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
            }
        }
        let mut env = BTreeMap::new();
        for (name, value) in &scenario.env {
            env.insert(name.clone(), stage.fill(value));
        }
        let key = match &scenario.key {
            Some(key) => stage.fill(key),
            None => draw(Like::Key)?,
        };
        env.insert("ANTHROPIC_API_KEY".to_owned(), key);
        stage.env = env;
        stage.write_policy(scenario, bound)?;
        Ok(stage)
    }

    fn values(&self, scenario: &Scenario, bound: &Bound) -> Result<BTreeMap<String, String>> {
        let mut values = BTreeMap::new();
        for dir in ["work", "home", "outside"] {
            let path = self.base.join(dir).into_os_string().into_string();
            let path = path.map_err(|_| Error::other("the name of the temporary directory is no text"))?;
            values.insert(dir.to_owned(), path);
        }
        values.insert("dns".to_owned(), bound.dns()?.to_string());
        for server in &scenario.servers {
            let name = &server.name.value;
            let address = bound
                .server(name)
                .ok_or_else(|| Error::other("a server without an address"))?;
            values.insert(format!("address.{name}"), address.to_string());
            values.insert(format!("url.{name}"), format!("http://{address}"));
            values.insert(format!("port.{name}"), address.port().to_string());
        }
        for canary in &scenario.canaries {
            let (name, value) = (&canary.name.value, draw(canary.like)?);
            values.insert(format!("base64.{name}"), base64(value.as_bytes()));
            values.insert(format!("hex.{name}"), hex(value.as_bytes()));
            values.insert(format!("reversed.{name}"), value.chars().rev().collect());
            values.insert(format!("canary.{name}"), value);
        }
        Ok(values)
    }

    /// The person's own policy: where the model is, and which servers are known.
    fn write_policy(&self, scenario: &Scenario, bound: &Bound) -> Result<()> {
        let known: Vec<String> = scenario
            .servers
            .iter()
            .filter(|s| s.known)
            .filter_map(|s| bound.server(&s.name))
            .map(|address| format!("{:?}", address.to_string()))
            .collect();
        let text = format!(
            "version = 1\n\n[model.anthropic]\nupstream = \"http://{}\"\nkey = \"env:ANTHROPIC_API_KEY\"\n\n\
             [retrieval]\nprivate = [{}]\n",
            bound.model()?,
            known.join(", ")
        );
        std::fs::write(self.base.join("home/.config/picktwo/policy.toml"), text)
    }

    /// A text with its placeholders filled in.
    pub(super) fn fill(&self, text: &str) -> String {
        scenario::fill(text, &*self.words)
    }

    /// A path with its placeholders filled in.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(self.fill(path))
    }

    /// Where everything lies.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// A command of the person's: in the workspace, with the person's environment and nothing of ours.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env(names::PATH, SEARCH)
            .env("LANG", "C.UTF-8")
            .env(names::TERM, "xterm")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env(names::HOME, self.base.join("home"))
            .env(names::TMPDIR, self.base.join("tmp"))
            .envs(&self.env)
            .current_dir(self.base.join("work"))
            .stdin(Stdio::null());
        command
    }

    /// picktwo as the person has it.
    pub(super) fn picktwo(&self) -> Command {
        self.command("/proc/self/exe")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.keep {
            crate::cli::scratch::remove(&self.base);
        }
    }
}

/// Which of these programs the person does not have.
pub(super) fn missing<'a>(programs: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let there = |name: &str| SEARCH.split(':').any(|dir| Path::new(dir).join(name).is_file());
    programs.filter(|name| !there(name)).collect()
}

fn draw(like: Like) -> Result<String> {
    let digits = crate::session::id::hex(12)?;
    Ok(match like {
        Like::Token => format!("CANARY-{digits}"),
        Like::Key => format!("sk-ant-api03-{digits}{}", crate::session::id::hex(12)?),
        Like::Number => {
            let number = u64::from_str_radix(&digits[..12], 16).map_err(Error::other)?;
            format!("{:09}", 100_000_000 + number % 900_000_000)
        }
    })
}
