//! Protected names that do not exist yet, made by every call that can make a name.

use crate::{Counts, calls};
use nix::libc;
use picktwo_confine::attempt::{Arg, syscall};
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
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
    "ok-tree/.claude",
    "ok-tree/CLAUDE.md",
    "ok-tree/deep/.mcp.json",
    ".git/hooks/post-checkout",
    ".git/remotes/origin",
    ".git/config.worktree",
    ".claude/settings.local.json",
];

/// Where `name` is made by this kind of call: each kind has directories of its own, so that one does not stand in another's way.
fn place(kind: &str, name: &str) -> PathBuf {
    let path = if name.starts_with(".git/") || name.starts_with(".claude/") {
        PathBuf::from(name)
    } else {
        Path::new("ok-tree").join(kind.replace(' ', "-")).join(name)
    };
    if let Some(parent) = path.parent() {
        let _ = fs::create_dir_all(parent);
    }
    path
}

pub(crate) fn every_absent_name(counts: &mut Counts) {
    let _ = fs::create_dir_all("ok-tree/deep");
    let mut source = 0;
    for name in ABSENT {
        let mut fresh = || {
            source += 1;
            let name = format!("ok-tree/source-{source}");
            calls::put(&name);
            name
        };
        let mut kind =
            |what: &'static str, make: &mut dyn FnMut(&Path) -> bool| counts.note(what, make(&place(what, name)));
        kind("create", &mut |p| calls::put(p));
        kind("mkdir", &mut |p| fs::create_dir(p).is_ok());
        kind("symlink", &mut |p| symlink("ok-tree", p).is_ok());
        kind("dangling link", &mut |p| symlink("no-such-file", p).is_ok());
        kind("link", &mut |p| fs::hard_link(fresh(), p).is_ok());
        kind("rename", &mut |p| fs::rename(fresh(), p).is_ok());
        kind("rename directory", &mut |p| {
            let _ = fs::create_dir("ok-tree/tree");
            calls::put("ok-tree/tree/inner");
            fs::rename("ok-tree/tree", p).is_ok()
        });
        kind("bind", &mut |p| UnixListener::bind(p).is_ok());
        for (what, bits) in [
            ("mknod file", libc::S_IFREG),
            ("mknod fifo", libc::S_IFIFO),
            ("mknod socket", libc::S_IFSOCK),
        ] {
            kind(what, &mut |p| {
                let text = format!("{}\0", p.display());
                let mode = Arg::Int((bits | 0o644).into());
                syscall(
                    libc::SYS_mknod,
                    [
                        Arg::In(text.as_bytes()),
                        mode,
                        Arg::Int(0),
                        Arg::Null,
                        Arg::Null,
                        Arg::Null,
                    ],
                )
                .is_ok()
            });
        }
        kind("create through a link", &mut |p| {
            let link = format!("ok-tree/to-{}", name.replace('/', "-"));
            let _ = symlink(fs::canonicalize(".").unwrap_or_default().join(p), &link);
            calls::put(&link)
        });
        // As many tools write: a new file beside it, moved over the name.
        kind("replace", &mut |p| {
            let temporary = p.with_extension("tmp");
            calls::put(&temporary) && fs::rename(&temporary, p).is_ok()
        });
        kind("trailing slash", &mut |p| {
            fs::create_dir(format!("{}/", p.display())).is_ok()
        });
        // In the root itself, too.
        counts.note("create in the root", calls::put(name));
    }
}
