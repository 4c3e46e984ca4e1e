//! What would run or steer an agent after an edit session: every name is refused to every call that makes or changes one, absent and
//! present, at some depth. The same program bare makes and changes all of them.

use picktwo_tests::{run, scene::Scene};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const LIMIT: Duration = Duration::from_secs(120);

/// By whom they are obeyed or run.
const NAMES: &[(&str, &[&str])] = &[
    (
        "Claude Code",
        &[
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".claude/agents/x.md",
            ".claude/skills/x/SKILL.md",
            "CLAUDE.md",
            "CLAUDE.local.md",
            ".mcp.json",
            ".claude-plugin/plugin.json",
        ],
    ),
    (
        "Codex",
        &[
            ".codex/config.toml",
            ".codex/hooks.json",
            "AGENTS.md",
            "AGENTS.override.md",
        ],
    ),
    (
        "opencode",
        &[
            "opencode.json",
            "opencode.jsonc",
            ".opencode/plugin/x.js",
            ".config/opencode/opencode.json",
        ],
    ),
    ("Gemini CLI", &[".gemini/settings.json", "GEMINI.md"]),
    ("Qwen Code", &[".qwen/settings.json", "QWEN.md"]),
    (
        "Copilot",
        &[
            ".github/copilot-instructions.md",
            ".github/hooks/x.json",
            ".github/instructions/x.instructions.md",
            ".github/workflows/copilot-setup-steps.yml",
            ".copilot/config.json",
        ],
    ),
    ("pi", &[".pi/extensions/x.ts", ".pi/SYSTEM.md"]),
    ("aider", &[".aider.conf.yml", ".aider.model.settings.yml"]),
    (
        "goose",
        &[".goosehints", ".goose/recipes/x.yaml", ".config/goose/config.yaml"],
    ),
    (
        "Cursor",
        &[
            ".cursor/hooks.json",
            ".cursor/mcp.json",
            ".cursor/rules/x.mdc",
            ".cursorrules",
        ],
    ),
    ("Windsurf", &[".windsurf/workflows/x.md", ".windsurfrules"]),
    (
        "Cline, Roo, Kilo",
        &[".clinerules/x.md", ".roo/mcp.json", ".roomodes", ".kilocode/mcp.json"],
    ),
    ("Continue", &[".continue/config.yaml"]),
    (
        "other agents",
        &[
            ".kiro/hooks/x.json",
            ".junie/guidelines.md",
            ".agents/skills/x/SKILL.md",
            ".serena/project.yml",
        ],
    ),
    ("Zed", &[".zed/tasks.json", ".rules"]),
    (
        "JetBrains",
        &[".idea/workspace.xml", ".run/x.run.xml", ".aiassistant/rules/x.md"],
    ),
    (
        "VS Code",
        &[".vscode/tasks.json", ".vscode/settings.json", "x.code-workspace"],
    ),
    (
        "development containers",
        &[
            ".devcontainer/devcontainer.json",
            ".devcontainer.json",
            ".gitpod.yml",
            "devfile.yaml",
        ],
    ),
    (
        "Vim, Emacs, Helix",
        &[".exrc", ".nvim.lua", ".dir-locals.el", ".helix/languages.toml"],
    ),
    (
        "direnv, mise",
        &[
            ".envrc",
            ".direnv/x.rc",
            "mise.toml",
            ".mise/config.toml",
            ".tool-versions",
        ],
    ),
    (
        "hook managers",
        &[
            ".husky/pre-commit",
            ".huskyrc.json",
            "lefthook.yml",
            ".config/lefthook.yml",
            "lefthook-local.yml",
            ".pre-commit-config.yaml",
            ".githooks/pre-commit",
        ],
    ),
    ("git", &[".git/hooks/pre-commit", ".git/commondir", ".gitconfig"]),
    (
        "other version control",
        &[
            ".hg/hgrc",
            ".hg/sharedpath",
            ".sl/config",
            ".jj/repo/config.toml",
            ".bzr/branch/branch.conf",
            "CVS/Root",
        ],
    ),
    (
        "package managers",
        &[".npmrc", ".yarnrc.yml", ".yarn/releases/x.cjs", ".pnpmfile.cjs"],
    ),
    (
        "shells and debuggers",
        &[".bashrc", ".zshenv", ".gdbinit", ".local/bin/ls", ".ssh/config"],
    ),
    ("picktwo", &[".picktwo.toml"]),
    // By the user's own policy, below.
    ("files.protect", &["deploy/run.sh", ".house/rules.md"]),
];

const POLICY: &str = "version = 1\n[files]\nprotect = [\"deploy/run.sh\", \".house/\"]\n";

const MAKING: &[&str] = &[
    "create",
    "mkdir",
    "symlink",
    "link",
    "rename",
    "fifo",
    "node",
    "bind",
    "unnamed",
    "through-link",
    "moved-tree",
];
const CHANGING: &[&str] = &[
    "write",
    "append",
    "truncate",
    "unlink",
    "replace",
    "rename-away",
    "exchange",
    "mode",
    "times",
];

fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flat_map(|(_, names)| names.iter().copied())
}

/// Content, mode, time of change and number of a file.
type Look = (Vec<u8>, u32, SystemTime, u64);

fn look(path: &Path) -> Option<Look> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((
        fs::read(path).unwrap_or_default(),
        meta.mode(),
        meta.modified().unwrap(),
        meta.ino(),
    ))
}

fn present(scene: &Scene) -> BTreeMap<PathBuf, Look> {
    let mut found = BTreeMap::new();
    for kind in CHANGING {
        for name in names() {
            let path = scene.work().join("present").join(kind).join(name);
            found.extend(look(&path).map(|seen| (path, seen)));
        }
    }
    found
}

/// Runs the program in an edit session or bare, and answers what it made and what it changed, as seen from outside.
fn attempt(sandboxed: bool) -> (Vec<String>, Vec<String>) {
    let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
    scene.policy(POLICY).unwrap();
    let program = scene.example_to("persistence", "work/program").unwrap();
    let list: Vec<&str> = names().collect();
    scene.write("names", list.join("\n")).unwrap();
    for kind in CHANGING {
        for name in names() {
            scene
                .write(Path::new("present").join(kind).join(name), "as it was")
                .unwrap();
        }
    }
    let before = present(&scene);
    assert_eq!(before.len(), CHANGING.len() * list.len());
    let command = if sandboxed {
        scene.picktwo(["run", "--edit", "--", program.to_str().unwrap(), "names"])
    } else {
        let mut command = scene.command(&program);
        command.arg("names");
        command
    };
    let finished = run::run(command, LIMIT).unwrap();
    assert_eq!(
        (finished.code(), finished.stdout.as_str()),
        (0, "done\n"),
        "{}",
        finished.all()
    );
    // It does change what it may: else nothing below would say anything.
    assert!(scene.work().join("ordinary/0").exists() && scene.work().join("absent/create/0").exists());
    let made = MAKING
        .iter()
        .flat_map(|kind| {
            names()
                .enumerate()
                .map(move |(n, name)| format!("absent/{kind}/{n}/{name}"))
        })
        .filter(|path| fs::symlink_metadata(scene.work().join(path)).is_ok())
        .collect();
    let after = present(&scene);
    let changed = before
        .iter()
        .filter(|(path, seen)| after.get(*path) != Some(seen))
        .map(|(path, _)| path.strip_prefix(scene.work()).unwrap().display().to_string())
        .collect();
    (made, changed)
}

#[test]
fn nothing_that_runs_later_is_made_or_changed() {
    let (made, changed) = attempt(true);
    assert_eq!(made, Vec::<String>::new());
    assert_eq!(changed, Vec::<String>::new());
}

/// Without picktwo each call makes each name and changes each file: the calls are right, and the names possible.
#[test]
fn everything_is_made_and_changed_bare() {
    let (made, changed) = attempt(false);
    assert_eq!(made.len(), MAKING.len() * names().count());
    assert_eq!(changed.len(), CHANGING.len() * names().count());
}
