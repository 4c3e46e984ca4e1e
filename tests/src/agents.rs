//! The real agents: where they are installed, how they are told what to do, and how each calls its tools.

use crate::model::{Seen, Turn};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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
            Self::Claude => &[
                "-p",
                prompt,
                "--model",
                "claude-sonnet-4-5",
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

    /// Arguments and environment that connect it to a model API at `url` and an MCP server `picktwo` that is `command`, and
    /// keep it from everything else. A picktwo profile does this inside a session; this is for runs without.
    #[must_use]
    pub fn connection(self, url: &str, command: &[String]) -> (Vec<String>, Vec<(&'static str, String)>) {
        let (program, arguments) = command.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        match self {
            Self::Claude => {
                let config = json!({"mcpServers": {"picktwo": {"command": program, "args": arguments}}});
                let args = [
                    "--mcp-config",
                    &config.to_string(),
                    "--strict-mcp-config",
                    "--disallowedTools",
                    "WebFetch,WebSearch",
                ];
                let env = [
                    ("ANTHROPIC_BASE_URL", url),
                    ("ANTHROPIC_API_KEY", "test-key"),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                    ("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1"),
                    ("DISABLE_TELEMETRY", "1"),
                    ("DISABLE_ERROR_REPORTING", "1"),
                    ("DISABLE_AUTOUPDATER", "1"),
                    ("ENABLE_TOOL_SEARCH", "false"),
                ];
                (
                    args.map(str::to_owned).into(),
                    env.map(|(k, v)| (k, v.to_owned())).into(),
                )
            }
            Self::Codex => {
                let provider = format!(
                    "model_providers.picktwo={{name=\"picktwo\",base_url=\"{url}/v1\",wire_api=\"responses\",env_key=\"OPENAI_API_KEY\"}}"
                );
                let server = format!("mcp_servers.picktwo={{command={program:?},args={arguments:?}}}");
                let settings = [
                    "model_provider=\"picktwo\"",
                    &provider,
                    &server,
                    "web_search=\"disabled\"",
                    "analytics.enabled=false",
                    "check_for_update_on_startup=false",
                    "features.plugins=false",
                    "features.apps=false",
                ];
                let args = settings
                    .iter()
                    .flat_map(|s| ["-c".to_owned(), (*s).to_owned()])
                    .collect();
                (args, vec![("OPENAI_API_KEY", "test-key".to_owned())])
            }
        }
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
