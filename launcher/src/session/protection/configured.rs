//! Git's configuration: which files hold it, and what it names.

use picktwo_policies::gitconfig::{self, Named};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Configuration files that include each other.
pub(super) const MAX_INCLUDES: usize = 8;

/// What git's configuration names for the roots themselves, read while all of it can be read.
pub(super) struct Configured {
    /// Of the person and the system: holds in every repository.
    pub(super) everywhere: Vec<(Named, PathBuf)>,
    /// Of the repository that a root is or lies in, with its work tree.
    pub(super) here: Vec<(Named, PathBuf, PathBuf)>,
    pub(super) home: Option<PathBuf>,
}

/// Reads git's configuration of the person, the system and the repositories of the roots.
pub(super) fn read(roots: &[PathBuf]) -> Configured {
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = var("HOME");
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    files.extend(
        var("XDG_CONFIG_HOME")
            .or_else(|| home.as_ref().map(|h| h.join(".config")))
            .map(|c| c.join("git/config")),
    );
    files.extend(home.as_ref().map(|h| h.join(".gitconfig")));
    let mut configured = Configured {
        everywhere: Vec::new(),
        here: Vec::new(),
        home,
    };
    for file in &files {
        let home = configured.home.clone();
        read_configuration(file, home.as_deref(), MAX_INCLUDES, &mut configured.everywhere);
    }
    for root in roots {
        let Some(top) = top_of(root) else { continue };
        let mut found = Vec::new();
        let home = configured.home.clone();
        for file in configurations(&top.join(".git")) {
            read_configuration(&file, home.as_deref(), MAX_INCLUDES, &mut found);
        }
        configured
            .here
            .extend(found.into_iter().map(|(named, base)| (named, base, top.to_path_buf())));
    }
    configured
}

/// The top of the repository that a directory is or lies in.
pub(super) fn top_of(root: &Path) -> Option<&Path> {
    root.ancestors().find(|at| at.join(".git").symlink_metadata().is_ok())
}

/// The configuration files of a git directory, or of that which a gitfile names.
pub(super) fn configurations(git: &Path) -> Vec<PathBuf> {
    let line = |path: &Path, prefix: &str| {
        let text = read_small(path)?;
        let text = text.strip_prefix(prefix.as_bytes())?.trim_ascii();
        Some(path.parent()?.join(OsStr::from_bytes(text)))
    };
    let directory = line(git, "gitdir:").unwrap_or_else(|| git.to_path_buf());
    let common = line(&directory.join("commondir"), "").unwrap_or_else(|| directory.clone());
    vec![
        common.join("config"),
        common.join("config.worktree"),
        directory.join("config.worktree"),
    ]
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    // Neither a FIFO nor a device: opening one may wait.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(gitconfig::MAX_FILE as u64 + 1)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

/// Reads a configuration and what it includes. `false` if one of them cannot be understood.
pub(super) fn read_configuration(
    file: &Path,
    home: Option<&Path>,
    left: usize,
    into: &mut Vec<(Named, PathBuf)>,
) -> bool {
    let (Some(base), Some(content)) = (file.parent(), read_small(file)) else {
        return true;
    };
    let Some(found) = gitconfig::named(&content) else {
        return false;
    };
    let mut understood = true;
    for named in found {
        if let Named::Include(path) = &named
            && left > 0
        {
            understood &= read_configuration(&place(path, base, home), home, left - 1, into);
        }
        into.push((named, base.to_path_buf()));
    }
    understood
}

/// A path of a configuration, with `~/` for the home directory.
pub(super) fn place(path: &[u8], base: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix(b"~/"), home) {
        (Some(rest), Some(home)) => home.join(OsStr::from_bytes(rest)),
        _ => base.join(OsStr::from_bytes(path)),
    }
}
