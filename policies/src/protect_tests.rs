use super::*;

fn path(text: &str) -> Vec<&[u8]> {
    text.split('/').map(str::as_bytes).collect()
}

fn kind(p: &Protected, text: &str) -> Option<Kind> {
    p.check(&path(text)).map(|r| r.kind)
}

#[test]
fn agent_configuration_is_protected_at_any_depth_and_in_any_spelling() {
    let p = Protected::builtin();
    for text in [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/hooks/x.sh",
        "a/b/.claude/commands/x.md",
        "CLAUDE.md",
        "claude.md",
        "sub/CLAUDE.MD",
        ".mcp.json",
        ".cursor/hooks.json",
        ".cursor/rules/x.mdc",
        ".codex/config.toml",
        ".gemini/settings.json",
        "opencode.json",
        ".opencode/plugin/x.js",
        ".github/hooks/x.json",
        ".github/copilot-instructions.md",
        ".qwen/settings.json",
        ".aider.conf.yml",
        ".windsurfrules",
        ".clinerules",
        ".clinerules/x.md",
        ".continue/config.yaml",
        ".goosehints",
        "AGENTS.md",
        "deep/er/AGENTS.md",
        ".picktwo.toml",
        "x/.picktwo.toml",
        ".vscode/tasks.json",
        ".VSCode/settings.json",
        ".idea/workspace.xml",
        "a.code-workspace",
        ".devcontainer/devcontainer.json",
        ".envrc",
        "mise.toml",
        "mise.local.toml",
        ".husky/pre-commit",
        ".cl\u{200c}aude/settings.json",
        ".claude./settings.json",
        ".CLAUDE/SETTINGS.JSON",
        "CLAUDE~1/settings.json",
        ".claude::$INDEX_ALLOCATION/x",
        ".curſor/hooks.json",
        ".\u{ff43}laude/settings.json",
        ".claude/plans/.claude/hooks/x",
        ".claude/todos/.git/hooks/pre-commit",
        ".github/copilot-setup-steps.yml",
        ".roorules-code",
        ".run/build.run.xml",
        "a/.helix/languages.toml",
        "sub/.npmrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".yarn/releases/yarn-4.cjs",
        ".direnv/flake-profile.rc",
        ".gitpod.yml",
        ".lefthook-local.yml",
        ".config/lefthook.yml",
        ".huskyrc.json",
        ".hg/hgrc",
        ".hg/sharedpath",
        ".sl/sharedpath",
        "a/.lazygit.yml",
        ".fos",
        "sub/devbox.json",
        "conductor.json",
        "vendor/.sl/config",
        ".jj/repo/config.toml",
        ".jj/repo/store/git_target",
        ".bzr/branch/branch.conf",
        "CVS/Root",
        ".github/workflows/copilot-setup-steps.yml",
        ".config/goose/config.yaml",
        ".serena/project.yml",
    ] {
        assert_eq!(kind(&p, text), Some(Kind::Refuse), "{text}");
    }
}

#[test]
fn a_jujutsu_repository_is_a_directory_with_its_own_configuration() {
    let p = Protected::builtin();
    // A file of that name would say where the repository, with its configuration, lies.
    assert_eq!(kind(&p, ".jj/repo"), Some(Kind::Directory));
    assert_eq!(kind(&p, "a/.jj/repo/config.toml"), Some(Kind::Refuse));
    assert_eq!(kind(&p, ".jj/repo/store/type"), None);
}

#[test]
fn ordinary_paths_are_free() {
    let p = Protected::builtin();
    for text in [
        "src/main.rs",
        "package.json",
        "Makefile",
        ".cargo/config.toml",
        "lint-staged.config.js",
        ".jj/repo/store/extra/heads/x",
        ".jj/working_copy/checkout",
        ".svn/wc.db",
        ".yarn/cache/x.zip",
        "node_modules/simple-git-hooks/simple-git-hooks.js",
        "claude/settings.json",
        ".claude/plans/a.md",
        ".claude/todos/x/y.json",
        ".github/workflows/ci.yml",
        ".github",
        "docs/CLAUDE",
        ".gitignore",
        ".gitattributes",
        ".gitmodules",
        "config",
        "hooks/pre-commit",
        "rules",
        "settings.json",
        "a~1",
        "notes~",
        "x/config/mise.rs",
        ".env",
        "README.md",
        "package.json",
        ".git/HEAD",
        ".git/index",
        ".git/objects/ab/cdef",
        ".git/refs/heads/hooks/x",
        ".git/config.lock",
        ".git/refs/heads/config",
        ".git/logs/refs/heads/config",
        ".git/hooks/pre-commit.sample",
        ".git/COMMIT_EDITMSG",
        ".git/rebase-merge/done",
        ".git/rebase-merge/git-rebase-todo.lock",
        ".git/worktrees/hooks/HEAD",
        ".git/worktrees/config/index",
        ".git/modules/sub/HEAD",
        ".git/modules/sub/refs/remotes/origin/main",
        ".git/modules/sub/refs/remotes/origin/HEAD",
        ".git/modules/sub/refs/heads/HEAD",
        ".git/modules/refs/HEAD",
        ".git/modules/refs/refs/remotes/origin/main",
        "lazygit.yml",
        ".git/worktrees/x/refs/bisect/bad",
        ".git/info/exclude",
    ] {
        assert_eq!(kind(&p, text), None, "{text}");
    }
}

#[test]
fn git_directories_are_vetted_where_git_itself_writes() {
    let p = Protected::builtin();
    for (text, want) in [
        (".git", Kind::Gitfile),
        ("wt/.git", Kind::Gitfile),
        (".GIT", Kind::Gitfile),
        ("git~1", Kind::Gitfile),
        (".git/config", Kind::GitConfig),
        (".Git/CONFIG", Kind::GitConfig),
        ("git~1/config", Kind::GitConfig),
        (".git/conﬁg", Kind::GitConfig),
        ("sub/.git/config", Kind::GitConfig),
        (".git/config.worktree", Kind::GitConfig),
        (".git/worktrees/x/config.worktree", Kind::GitConfig),
        (".git/modules/a/config", Kind::GitConfig),
        (".git/modules/a/b/config", Kind::GitConfig),
        (".git/modules/a/modules/b/config", Kind::GitConfig),
        (".git/worktrees/x/modules/b/config", Kind::GitConfig),
        (".git/commondir", Kind::Commondir),
        (".git/worktrees/x/commondir", Kind::Commondir),
        (".git/worktrees/x/gitdir", Kind::WorktreeGitdir),
        (".git/rebase-merge/git-rebase-todo", Kind::Todo),
        (".git/worktrees/x/rebase-merge/git-rebase-todo", Kind::Todo),
        (".git/sequencer/todo", Kind::Todo),
        (".git/rebase-merge/strategy", Kind::State),
        (".git/Rebase-Apply/Apply-Opt", Kind::State),
        (".git/sequencer/opts", Kind::State),
        (".git/worktrees/x/rebase-merge/strategy_opts", Kind::State),
        (".git/modules/a/b/rebase-merge/strategy", Kind::State),
        (".git/bisect_names", Kind::State),
        (".git/gitweb/httpd.conf", Kind::Refuse),
        (".git/hooks", Kind::Directory),
        (".git/modules/a/hooks", Kind::Directory),
        (".git/hooks/pre-commit", Kind::Refuse),
        (".git/hookſ/pre-commit", Kind::Refuse),
        (".git/hooks/x.sample.sh", Kind::Refuse),
        (".git/modules/a/b/hooks/post-checkout", Kind::Refuse),
        (".git/modules/refs/heads/hooks/post-checkout", Kind::Refuse),
        (".git/worktrees/x/hooks/pre-commit", Kind::Refuse),
        (".git/remotes/origin", Kind::Refuse),
        (".git/modules/refs/remotes/origin", Kind::Refuse),
        (".git/modules/a/refs/HEAD", Kind::Refuse),
        (".git/modules/refs/refs/head", Kind::Refuse),
        (".git/modules/a/refs/b/remotes/origin", Kind::Refuse),
        (".git/lazygit.yml", Kind::Refuse),
        (".git/sl/config", Kind::Refuse),
        (".git/branches", Kind::Directory),
    ] {
        assert_eq!(kind(&p, text), Some(want), "{text}");
    }
}

#[test]
fn directories_that_hold_free_ones_may_be_made() {
    let p = Protected::builtin();
    assert_eq!(kind(&p, ".claude"), Some(Kind::Directory));
    assert_eq!(kind(&p, ".claude/settings.json"), Some(Kind::Refuse));
    assert_eq!(kind(&p, ".cursor"), Some(Kind::Refuse));
    assert!(
        Kind::Directory.may_mkdir()
            && !Kind::GitConfig.may_mkdir()
            && Kind::GitConfig.vetted()
            && !Kind::Directory.vetted()
    );
}

#[test]
fn components_of_patterns_are_not_moved_or_linked() {
    let p = Protected::builtin();
    for name in [
        ".git",
        ".GIT",
        ".claude",
        ".github",
        "git~1",
        ".vscode",
        "CLAUDE.md",
        ".config",
        "x.code-workspace",
        ".picktwo.toml",
        "GITHUB~1",
    ] {
        assert!(p.inner_name(name.as_bytes()), "{name}");
    }
    for name in ["src", ".gitignore", "workflows", "git", "claude"] {
        assert!(!p.inner_name(name.as_bytes()), "{name}");
    }
    assert!(p.moving(&path("a/.github"), true).is_some());
    assert!(p.moving(&path("a/b"), true).is_none());
    assert!(p.moving(&path(".git/x"), true).is_some_and(|r| r.name == "git-layout"));
    assert!(p.moving(&path(".git/index.lock"), false).is_none());
    assert!(p.moving(&path(".git/hooks/pre-commit"), false).is_some());
}

#[test]
fn policy_adds_names_at_any_depth_or_at_the_root() {
    let p = Protected::builtin()
        .with(&[".github/workflows/".into(), "/ci/deploy.sh".into(), "*.pem".into()])
        .expect("patterns");
    assert_eq!(
        p.check(&path("a/.github/workflows/x.yml")).map(|r| r.name.as_ref()),
        Some("policy")
    );
    assert_eq!(kind(&p, "ci/deploy.sh"), Some(Kind::Refuse));
    assert_eq!(kind(&p, "a/ci/deploy.sh"), None);
    assert_eq!(kind(&p, "a/Key.PEM"), Some(Kind::Refuse));
    assert!(p.moving(&path("ci"), true).is_some());
    assert!(p.moving(&path("a/ci"), true).is_none());
    assert!(p.moving(&path("x/.github/workflows"), true).is_some());
    let long = Protected::builtin()
        .with(&["a/b/c/d".into(), "/r/s/t".into()])
        .expect("patterns");
    for (text, refused) in [
        ("a", true),
        ("x/a/b", true),
        ("a/b/c", true),
        ("a/b/c/e", false),
        ("b", false),
        ("r/s", true),
        ("r", true),
        ("x/r", false),
    ] {
        assert_eq!(long.moving(&path(text), true).is_some(), refused, "{text}");
    }
    for bad in ["", "/", "a//b", "../x", "**/x", "*"] {
        assert!(Protected::builtin().with(&[bad.into()]).is_err(), "{bad:?}");
    }
}

#[test]
fn bare_repositories_are_found_by_what_they_hold() {
    let p = Protected::builtin();
    let has = |names: &'static [&'static str]| move |n: &str| names.contains(&n);
    assert!(is_git_directory(has(&["HEAD", "objects", "refs"])));
    assert!(is_git_directory(has(&["HEAD", "commondir"])));
    assert!(!is_git_directory(has(&["HEAD", "objects", "config"])));
    assert!(completes_git_directory(b"refs", has(&["HEAD", "objects"])));
    assert!(completes_git_directory(b"head", has(&["refs", "objects"])));
    assert!(!completes_git_directory(b"refs", has(&["objects"])));
    assert!(!completes_git_directory(b"config", has(&["HEAD", "objects", "refs"])));
    assert_eq!(
        p.check_in_git_directory(&path("config")).map(|r| r.kind),
        Some(Kind::GitConfig)
    );
    assert_eq!(
        p.check_in_git_directory(&path("hooks/update")).map(|r| r.kind),
        Some(Kind::Refuse)
    );
    assert_eq!(p.check_in_git_directory(&path("HEAD")), None);
}

#[test]
fn every_builtin_rule_has_a_reason_and_hits_itself() {
    // Read again here: the table holds all that the file says.
    let file: toml::Table = toml::from_str(include_str!("../protected.toml")).expect("the embedded file");
    let count = |of: &str| file[of].as_array().map(Vec::len);
    assert_eq!((count("protect"), count("git")), (Some(PROTECT.len()), Some(GIT.len())));
    let p = Protected::builtin();
    for entry in PROTECT {
        assert!(!entry.reason.is_empty(), "{}", entry.name);
        for text in entry.paths {
            let sample = text.trim_end_matches('/').replace('*', "x");
            let hit = p
                .check(&path(&sample))
                .unwrap_or_else(|| panic!("{text} is not protected"));
            assert_eq!(hit.name, entry.name, "{text}");
        }
    }
}

#[test]
fn places_hold_from_the_root_or_from_any_directory() {
    let names = |text: &str| text.split('/').map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>();
    let p = Protected::builtin()
        .with_places([names("a/here*")])
        .with_places_anywhere([names("Scripts/hk")]);
    for text in [
        "a/here*",
        "a/here*/x",
        "scripts/hk/pre-commit",
        "wt/scripts/HK",
        "a/b/scripts/hk/x",
    ] {
        assert_eq!(kind(&p, text), Some(Kind::Refuse), "{text}");
    }
    for text in ["x/a/here*", "a/here1", "scripts/x", "hk/x"] {
        assert_eq!(kind(&p, text), None, "{text}");
    }
    // Neither moves what leads there.
    assert!(p.moving(&path("wt/scripts"), true).is_some() && p.moving(&path("a"), true).is_some());
    assert!(p.moving(&path("x/a"), true).is_none());
}

#[test]
fn everything_is_everything() {
    let p = Protected::builtin().with_everything();
    for text in ["x", "a/b", ".git", ".git/config", ".git/index", ".claude/plans/x"] {
        assert_eq!(kind(&p, text), Some(Kind::Refuse), "{text}");
    }
}
