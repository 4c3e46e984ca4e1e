//! The files of a place: a workspace with repositories, and what lies outside of it.

use picktwo_confine::sys::{self, xattr};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Directories of a place; they exist.
pub(super) struct Places<'a> {
    pub(super) work: &'a Path,
    pub(super) shared: &'a Path,
    pub(super) hidden: &'a Path,
    pub(super) home: &'a Path,
}

/// What `stat` says of a file, apart from when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark([i64; 10]);

impl Mark {
    /// The file's length; 0 for a directory.
    pub(super) fn size(&self) -> u64 {
        self.0[6].unsigned_abs()
    }
}

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";

fn write(path: PathBuf, text: &str) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, text)
}

fn repository(dir: &Path, config: bool) -> std::io::Result<()> {
    for name in ["objects", "refs", "hooks"] {
        std::fs::create_dir_all(dir.join(name))?;
    }
    write(dir.join("HEAD"), "ref: refs/heads/main\n")?;
    if config {
        write(dir.join("config"), CONFIG)?;
    }
    Ok(())
}

/// Makes the files.
pub(super) fn furnish(places: &Places<'_>) -> std::io::Result<()> {
    let Places {
        work,
        shared,
        hidden,
        home,
    } = places;
    for (path, text) in [
        (work.join("file"), "content\n"),
        (work.join("other"), "other\n"),
        (work.join("marked"), "marked\n"),
        (work.join("dir/inner"), "inner\n"),
        (work.join(".idea/workspace.xml"), "<project/>\n"),
        (work.join(".git/hooks/update.sample"), "#!/bin/sh\n"),
        (shared.join("file"), "shared\n"),
        (hidden.join("secret"), "secret\n"),
        (hidden.join("inherited"), "inherited\n"),
        (home.join(".ssh/id_ed25519"), "key\n"),
        (home.join(".mozilla/profile"), "profile\n"),
    ] {
        write(path, text)?;
    }
    std::fs::create_dir_all(work.join("empty"))?;
    for (name, config) in [
        (".git", true),
        ("nested/.git", true),
        (".git/modules/sub", true),
        ("bare", false),
    ] {
        repository(&work.join(name), config)?;
    }
    std::fs::hard_link(work.join(".idea/workspace.xml"), work.join("old-alias"))?;
    for (link, target) in [
        ("to-hidden", hidden.to_path_buf()),
        ("to-file", PathBuf::from("file")),
        ("to-shared", shared.join("file")),
        ("to-absent", shared.join("absent")),
        ("to-daemon", shared.join("daemon.sock")),
    ] {
        symlink(target, work.join(link))?;
    }
    symlink("secret", hidden.join("link"))?;
    nix::unistd::mkfifo(&hidden.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o600))?;
    // A file system without such attributes has no control for their removal.
    let marked = std::fs::File::open(work.join("marked"))?;
    let _ = xattr::set(&sys::fd_path(marked.as_fd()), c"user.mark", b"x", 0, true);
    Ok(())
}

/// Removes everything but sockets, which stay bound, the directories of the list themselves, and one that is left as it is.
pub(super) fn clear(dirs: &[&Path], left: &Path) -> std::io::Result<()> {
    for dir in dirs {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let path = entry.path();
            if path == left || dirs.contains(&path.as_path()) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                std::fs::remove_dir_all(entry.path())?;
            } else if !kind.is_socket() {
                std::fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Notes a path and everything below it.
pub(super) fn look(path: &Path, into: &mut BTreeMap<PathBuf, Mark>) -> std::io::Result<()> {
    let stat = match std::fs::symlink_metadata(path) {
        Ok(stat) => stat,
        // What is judged may take its own files away meanwhile.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    into.insert(path.to_owned(), mark(&stat));
    if !stat.is_dir() {
        return Ok(());
    }
    let entries = match std::fs::read_dir(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        look(&entry?.path(), into)?;
    }
    Ok(())
}

/// What of a HOME is watched: programs write caches and settings into it all the time.
pub(super) const WATCHED: [&str; 7] = [
    ".ssh",
    ".mozilla",
    ".bashrc",
    ".profile",
    ".config/autostart",
    ".config/systemd",
    ".local/bin",
];

fn mark(stat: &std::fs::Metadata) -> Mark {
    // A directory's times and size change with what is in it, which is noted by itself.
    let file = |value: i64| if stat.is_dir() { 0 } else { value };
    Mark([
        stat.dev() as i64,
        stat.ino() as i64,
        stat.mode().into(),
        stat.uid().into(),
        stat.gid().into(),
        file(stat.nlink() as i64),
        file(stat.size() as i64),
        file(stat.mtime().wrapping_mul(1_000_000_000).wrapping_add(stat.mtime_nsec())),
        file(stat.ctime().wrapping_mul(1_000_000_000).wrapping_add(stat.ctime_nsec())),
        stat.rdev() as i64,
    ])
}

/// Directories whose content is protected, and files that are, as the attempts name them.
const DIRECTORIES: [&str; 9] = [
    ".claude", ".cursor", ".codex", ".gemini", ".vscode", ".idea", ".husky", ".roo", ".amp",
];
const FILES: [&str; 11] = [
    "claude.md",
    "agents.md",
    ".mcp.json",
    "opencode.json",
    ".exrc",
    ".envrc",
    "mise.toml",
    ".bashrc",
    ".picktwo.toml",
    ".gitconfig",
    "old-alias",
];
/// The same in git directories.
const GIT_DIRECTORIES: [&str; 2] = ["hooks", "remotes"];
const GIT_FILES: [&str; 3] = ["config", "config.worktree", "commondir"];

/// Whether a path of the workspace is one that edit mode must not change. Directories by themselves do nothing, and neither does
/// an empty file in place of a git configuration: the name is taken at the open, the content is decided on afterwards.
pub(super) fn guarded(rel: &Path, size: u64) -> bool {
    let names: Vec<String> = rel.iter().map(|name| name.to_string_lossy().to_lowercase()).collect();
    let Some((last, parents)) = names.split_last() else {
        return false;
    };
    let in_git = parents.iter().any(|name| name == ".git" || name == "bare");
    FILES.contains(&last.as_str())
        || parents.iter().any(|name| DIRECTORIES.contains(&name.as_str()))
        || (in_git && size > 0 && GIT_FILES.contains(&last.as_str()))
        || (in_git && parents.iter().any(|name| GIT_DIRECTORIES.contains(&name.as_str())))
        || (last == ".git" && names.len() > 1 && !parents.contains(&"nested".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_edit_mode_must_not_change() {
        for path in [
            "CLAUDE.md",
            "dir/AGENTS.md",
            ".git/hooks/pre-commit",
            ".GIT/Hooks/x",
            "dir/.git",
            ".idea/x",
            "bare/config",
        ] {
            assert!(guarded(Path::new(path), 1), "{path}");
        }
        for path in [
            "file",
            "dir/inner",
            "plain-1",
            ".git/config.lock",
            ".git/HEAD",
            "directory-1/hooks/pre-commit",
            "config-1",
        ] {
            assert!(!guarded(Path::new(path), 1), "{path}");
        }
        assert!(!guarded(Path::new("bare/config"), 0));
    }
}
