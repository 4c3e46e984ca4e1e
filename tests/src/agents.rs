//! The real agents: where they are installed, how they are told what to do, and how each calls its tools.

use crate::{
    model::{Seen, Turn},
    scene::Scene,
};
use picktwo_policies::{
    diagnostics::Diagnostics,
    model::{Placeholders, Seed, effective, stack},
};
use serde_json::{Value, json};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The pinned agents, as `tests/agents/install` puts them.
#[derive(Clone, Debug)]
pub struct Install {
    dir: PathBuf,
}

impl Install {
    /// Finds them in `PICKTWO_AGENTS`, the user's cache or the system's.
    ///
    /// # Errors
    /// They are nowhere; the text says where was looked.
    pub fn find() -> Result<Self, String> {
        let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let cache = || var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|h| h.join(".cache")));
        let places: Vec<PathBuf> = match var("PICKTWO_AGENTS") {
            Some(dir) => vec![dir],
            None => cache()
                .map(|c| c.join("picktwo-agents"))
                .into_iter()
                .chain([PathBuf::from("/var/cache/picktwo-agents")])
                .collect(),
        };
        places
            .iter()
            .find(|dir| dir.join("installed").is_file())
            .map(|dir| Self { dir: dir.clone() })
            .ok_or_else(|| {
                let looked: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
                format!("no agents in {} (run tests/agents/install)", looked.join(" or "))
            })
    }

    /// Where they are.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory with their programs.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }
}

/// An agent that is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
}

/// How an agent is connected by its profile.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Arguments after the program's name.
    pub arguments: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
}

impl Agent {
    /// Its program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// Arguments for one run without questions, apart from what connects it to a model and to an MCP server.
    #[must_use]
    pub fn arguments(self, prompt: &str) -> Vec<String> {
        let words: &[&str] = match self {
            // The prompt first, as people type it: it must not be taken for one more value of a profile's option.
            Self::Claude => &[
                prompt,
                "-p",
                "--model",
                "claude-sonnet-5-5",
                "--dangerously-skip-permissions",
            ],
            Self::Codex => &[
                "exec",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "-m",
                "gpt-5-codex",
                prompt,
            ],
        };
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    /// What connects it to a model API at `url` and to an MCP server that is `picktwo mcp`, by its built-in profile, for a run
    /// without a session: the arguments that stand before [`Self::arguments`], and the environment. The profile's files are
    /// written into the scene.
    ///
    /// # Errors
    /// The profile is unusable, or a file cannot be written.
    pub fn connect(self, scene: &Scene, url: &str, picktwo: &Path) -> io::Result<Connection> {
        let broken = |e: Diagnostics| io::Error::other(e.render(false));
        let policy = effective(&stack(Some(self.program()), Vec::new()).map_err(broken)?).map_err(broken)?;
        let profile = &policy.profile;
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let files = scene.root().join("files");
        let values = Placeholders {
            gateway: Some(url.to_owned()),
            key: profile
                .key
                .as_ref()
                .map(|k| k.shape.replace("{random}", "0123456789abcdef")),
            mcp: text(&files.join("mcp.json")),
            picktwo: text(picktwo),
            home: text(&scene.home()),
            workspace: text(&scene.work()),
            session: Some("none".into()),
        };
        let below = |root: &Path, list: &[Seed]| {
            list.iter()
                .filter_map(|f| Some((root.join(&f.path.value), f.fill(&values)?)))
                .collect::<Vec<_>>()
        };
        for (path, content) in below(&files, &profile.files)
            .into_iter()
            .chain(below(&scene.home(), &profile.seed))
        {
            scene.write(path, content)?;
        }
        for directory in &profile.state {
            scene.directories(&scene.home().join(&directory.value))?;
        }
        let env = policy
            .env
            .set
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), values.expand(&value.value)?)));
        Ok(Connection {
            arguments: profile.arguments(&values),
            env: env.collect(),
        })
    }

    /// Reads a file.
    #[must_use]
    pub fn read(self, path: &Path) -> Turn {
        match self {
            Self::Claude => Turn::call("Read", json!({"file_path": path})),
            Self::Codex => self.shell(&format!("cat '{}'", path.display())),
        }
    }

    /// Writes a file with the agent's own tool for it, or Codex's shell: its patch tool is a command, too.
    #[must_use]
    pub fn write(self, path: &Path, content: &str) -> Turn {
        match self {
            Self::Claude => Turn::call("Write", json!({"file_path": path, "content": content})),
            Self::Codex => self.shell(&format!("printf %s '{content}' > '{}'", path.display())),
        }
    }

    /// Runs a shell command.
    #[must_use]
    pub fn shell(self, command: &str) -> Turn {
        match self {
            Self::Claude => Turn::call(
                "Bash",
                json!({"command": command, "description": "a step of the script"}),
            ),
            Self::Codex => Turn::call("exec_command", json!({"cmd": command})),
        }
    }

    /// Fetches a page through picktwo.
    #[must_use]
    pub fn fetch(self, arguments: Value) -> Turn {
        match self {
            Self::Claude => Turn::call("mcp__picktwo__web_fetch", arguments),
            Self::Codex => Turn::call("web_fetch", arguments),
        }
    }

    /// Whether none of the tools on offer makes the agent or its provider reach out by itself.
    #[must_use]
    pub fn offers_no_web_of_its_own(self, seen: &Seen) -> bool {
        let own = |name: &str| matches!(name, "WebFetch" | "WebSearch" | "web_search");
        let hosted = seen.body.to_string().contains(r#""type":"web_search"#);
        // picktwo's tools lie in a namespace of its own where names are bare.
        let picktwo = |namespace: Option<&str>| namespace.is_some_and(|n| n.contains("picktwo"));
        !hosted
            && !seen
                .tools
                .iter()
                .any(|t| own(&t.name) && !picktwo(t.namespace.as_deref()))
    }

    /// Whether the newest result is an ordinary error of a write to a read-only file system.
    #[must_use]
    pub fn write_was_refused(self, seen: &Seen) -> bool {
        let text = seen.last().to_lowercase();
        let says = text.contains("read-only file system") || text.contains("erofs");
        match self {
            Self::Claude => says && seen.last_is_error(),
            // Codex gives the model the command's output and exit code.
            Self::Codex => says && !text.contains("exited with code 0"),
        }
    }
}
