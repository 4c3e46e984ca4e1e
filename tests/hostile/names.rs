//! Protected names that do not exist yet, made by every call that can make a name.

use crate::{Counts, calls};
use nix::libc;
use picktwo_confine::attempt::{Arg, syscall};
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
};

/// In everything that this program writes, so that it is recognised wherever it turns up.
pub(crate) const EVIL: &str = "[core]\n\tfsmonitor = EVIL-BYTES\n\thooksPath = EVIL-BYTES\n";

/// Absent at the start, in the workspace's root and below.
pub(crate) const ABSENT: &[&str] = &[
    ".mcp.json",
    "CLAUDE.md",
    "AGENTS.md",
    ".cursor",
    ".codex",
    ".vscode",
    ".envrc",
    ".picktwo.toml",
    ".husky",
    "claude.MD",
    ".Cursor",
    "ok-two/.claude",
    "ok-two/CLAUDE.md",
    "ok-two/deep/.mcp.json",
    ".git/hooks/post-checkout",
    ".git/info/attributes",
    ".git/config.worktree",
    ".claude/settings.local.json",
];

pub(crate) fn every_absent_name(counts: &mut Counts) {
    let _ = fs::create_dir_all("ok-two/deep");
    let mut source = 0;
    for name in ABSENT {
        let path = Path::new(name);
        let mut fresh = || {
            source += 1;
            let name = format!("ok-two/source-{source}");
            let _ = fs::write(&name, EVIL);
            name
        };
        counts.note("create", fs::write(path, EVIL).is_ok());
        counts.note("mkdir", fs::create_dir(path).is_ok());
        counts.note("symlink", symlink("ok-two", path).is_ok());
        counts.note("dangling link", symlink(format!("ok-two/{}", name.replace('/', "-")), path).is_ok());
        counts.note("link", fs::hard_link(fresh(), path).is_ok());
        counts.note("rename", fs::rename(fresh(), path).is_ok());
        counts.note("exchange", calls::exchange(fresh(), path).is_ok());
        let _ = fs::create_dir("ok-two/tree");
        let _ = fs::write("ok-two/tree/inner", EVIL);
        counts.note("rename directory", fs::rename("ok-two/tree", path).is_ok());
        counts.note("bind", UnixListener::bind(path).is_ok());
        for (nr, kind) in [(libc::SYS_mknod, libc::S_IFREG), (libc::SYS_mknod, libc::S_IFIFO), (libc::SYS_mknod, libc::S_IFSOCK)] {
            let text = format!("{name}\0");
            let done = syscall(nr, [Arg::In(text.as_bytes()), Arg::Int((kind | 0o644).into()), Arg::Int(0), Arg::Null, Arg::Null, Arg::Null]);
            counts.note("mknod", done.is_ok());
        }
        // Through a link that leads there.
        let link = format!("ok-two/to-{}", name.replace('/', "-"));
        let _ = symlink(fs::canonicalize(".").unwrap_or_default().join(name), &link);
        counts.note("create through a link", fs::write(&link, EVIL).is_ok());
        // Only the way that tools write: a new file, moved over the name.
        let temporary = format!("{name}.tmp");
        if fs::write(&temporary, EVIL).is_ok() {
            counts.note("replace", fs::rename(&temporary, path).is_ok());
            let _ = fs::remove_file(&temporary);
        }
        // Case folding and other spellings are other names here, but not everywhere.
        counts.note("trailing slash", fs::create_dir(format!("{name}/")).is_ok());
    }
}
