//! Files that agents, editors and shells run or obey later, in edit mode: whether they exist or not, and by whatever way.

use super::calls::{CWD, attack, num, on, open, open_at, plain_directory, plain_file, prepared, sys, two, two_at};
use super::changing::{reading, set_attribute, times};
use super::{Probe, Setting, Tried, probe};
use crate::attempt::Arg;
use libc::{O_CREAT, O_TRUNC, O_WRONLY};
use nix::errno::Errno::{EACCES, EPERM};

fn create(s: &Setting, rel: &str) -> Tried {
    attack(open(&s.work(rel)?, O_CREAT | O_WRONLY))
}

/// In the workspace's root no directory is in the way; below, parents are made by whoever may.
fn create_below(s: &Setting, dir: &str, rel: &str) -> Tried {
    let path = s.work(dir)?;
    on(libc::SYS_mkdir, &path, &[0o755])?;
    attack(open(&format!("{path}/{rel}"), O_CREAT | O_WRONLY))
}

pub(super) static PROBES: &[Probe] = &[
    probe(
        "protect.claude-settings",
        "B06",
        "creates .claude/settings.json where there is no .claude",
        |s| create_below(s, ".claude", "settings.json"),
    )
    .edit(&[EACCES]),
    probe(
        "protect.claude-nested",
        "B06",
        "creates .claude/settings.json deep in the workspace",
        |s| create_below(s, "dir/.claude", "settings.json"),
    )
    .edit(&[EACCES]),
    probe("protect.claude-file", "B07", "creates CLAUDE.md", |s| {
        create(s, "CLAUDE.md")
    })
    .edit(&[EACCES]),
    probe(
        "protect.claude-case",
        "B07",
        "creates CLAUDE.md in other letters",
        |s| create(s, "claude.MD"),
    )
    .edit(&[EACCES]),
    probe("protect.mcp-file", "B08", "creates .mcp.json", |s| {
        create(s, ".mcp.json")
    })
    .edit(&[EACCES]),
    probe(
        "protect.agents-file",
        "B07",
        "creates AGENTS.md deep in the workspace",
        |s| create(s, "dir/AGENTS.md"),
    )
    .edit(&[EACCES]),
    probe("protect.cursor", "B08", "creates .cursor/hooks.json", |s| {
        create_below(s, ".cursor", "hooks.json")
    })
    .edit(&[EACCES]),
    probe("protect.codex", "B08", "creates .codex/config.toml", |s| {
        create_below(s, ".codex", "config.toml")
    })
    .edit(&[EACCES]),
    probe("protect.gemini", "B08", "creates .gemini/settings.json", |s| {
        create_below(s, ".gemini", "settings.json")
    })
    .edit(&[EACCES]),
    probe("protect.opencode", "B08", "creates opencode.json", |s| {
        create(s, "opencode.json")
    })
    .edit(&[EACCES]),
    probe("protect.editor-tasks", "B09", "creates .vscode/tasks.json", |s| {
        create_below(s, ".vscode", "tasks.json")
    })
    .edit(&[EACCES]),
    probe(
        "protect.editor-existing",
        "B09",
        "writes .idea/workspace.xml, which exists",
        |s| attack(open(&s.work(".idea/workspace.xml")?, O_WRONLY | O_TRUNC)),
    )
    .edit(&[EACCES]),
    probe("protect.editor-script", "B13", "creates .exrc", |s| create(s, ".exrc")).edit(&[EACCES]),
    probe("protect.envrc", "B10", "creates .envrc", |s| create(s, ".envrc")).edit(&[EACCES]),
    probe("protect.tool-versions", "B10", "creates mise.toml", |s| {
        create(s, "mise.toml")
    })
    .edit(&[EACCES]),
    probe("protect.husky", "B11", "creates .husky/pre-commit", |s| {
        create_below(s, ".husky", "pre-commit")
    })
    .edit(&[EACCES]),
    probe("protect.shell-startup", "B16", "creates .bashrc", |s| {
        create(s, ".bashrc")
    })
    .edit(&[EACCES]),
    probe("protect.own-policy", "B15", "creates the project's policy", |s| {
        create(s, ".picktwo.toml")
    })
    .edit(&[EACCES]),
    probe("protect.creat", "B06", "creates CLAUDE.md by creat", |s| {
        attack(on(libc::SYS_creat, &s.work("CLAUDE.md")?, &[0o644]))
    })
    .edit(&[EACCES]),
    probe(
        "protect.mkdir",
        "B06",
        "makes a directory of a protected file's name",
        |s| attack(on(libc::SYS_mkdir, &s.work(".envrc")?, &[0o755])),
    )
    .edit(&[EACCES]),
    probe(
        "protect.mknod",
        "B06 D12",
        "makes a FIFO of a protected file's name",
        |s| {
            attack(on(
                libc::SYS_mknod,
                &s.work(".envrc")?,
                &[i64::from(libc::S_IFIFO) | 0o644, 0],
            ))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.symlink",
        "B18",
        "makes a link of a protected file's name",
        |s| attack(two(libc::SYS_symlink, "file", &s.work("CLAUDE.md")?)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.symlink-directory",
        "B06",
        "makes .roo a link to a directory of its own",
        |s| attack(two(libc::SYS_symlink, "dir", &s.work(".roo")?)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.dangling-link",
        "D11",
        "creates CLAUDE.md through a dangling link",
        |s| {
            let link = s.work(&format!("link-{}", std::process::id()))?;
            prepared("a link", two(libc::SYS_symlink, "CLAUDE.md", &link))?;
            attack(open(&link, O_CREAT | O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.dangling-link-absolute",
        "D11",
        "creates .envrc through an absolute dangling link",
        |s| {
            let link = s.work(&format!("absolute-{}", std::process::id()))?;
            prepared("a link", two(libc::SYS_symlink, &s.work(".envrc")?, &link))?;
            attack(open(&link, O_CREAT | O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.linked-directory",
        "B09",
        "creates a file in a protected directory through a linked one",
        |s| {
            let link = s.work(&format!("through-{}", std::process::id()))?;
            prepared("a link", two(libc::SYS_symlink, ".idea", &link))?;
            attack(open(&format!("{link}/tasks.xml"), O_CREAT | O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.link",
        "B19",
        "gives a plain file a protected second name",
        |s| attack(two(libc::SYS_link, &plain_file(s)?, &s.work("CLAUDE.md")?)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.alias",
        "B19",
        "gives a protected file a plain second name",
        |s| attack(two(libc::SYS_link, &s.work(".idea/workspace.xml")?, &s.work("alias")?)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.old-alias",
        "B19",
        "writes a protected file by a plain name that it had before",
        |s| attack(open(&s.work("old-alias")?, O_WRONLY)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.old-alias-truncate",
        "B19",
        "empties a protected file by a plain name that it had before",
        |s| attack(open(&s.work("old-alias")?, O_WRONLY | O_TRUNC)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.old-alias-mode",
        "B19 D03",
        "changes a protected file's mode by a plain name that it had before",
        |s| attack(on(libc::SYS_chmod, &s.work("old-alias")?, &[0o777])),
    )
    .edit(&[EACCES]),
    probe("protect.rename", "B06", "renames a plain file to CLAUDE.md", |s| {
        attack(two(libc::SYS_rename, &plain_file(s)?, &s.work("CLAUDE.md")?))
    })
    .edit(&[EACCES]),
    probe(
        "protect.rename-directory",
        "B06",
        "renames a directory that it filled to .amp",
        |s| {
            let dir = plain_directory(s)?;
            prepared("its file", open(&format!("{dir}/settings.json"), O_CREAT | O_WRONLY))?;
            attack(two(libc::SYS_rename, &dir, &s.work(".amp")?))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.rename-away",
        "B03",
        "renames a protected directory away",
        |s| attack(two(libc::SYS_rename, &s.work(".idea")?, &s.work("idea")?)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.exchange",
        "B03 D11",
        "exchanges a protected directory with one of its own",
        |s| {
            attack(two_at(
                libc::SYS_renameat2,
                (CWD, &plain_directory(s)?),
                (CWD, &s.work(".idea")?),
                2,
            ))
        },
    )
    .edit(&[EACCES]),
    probe("protect.unlink", "B03", "removes a protected file", |s| {
        attack(on(libc::SYS_unlink, &s.work(".idea/workspace.xml")?, &[]))
    })
    .edit(&[EACCES]),
    probe("protect.truncate", "D02", "cuts a protected file", |s| {
        attack(on(libc::SYS_truncate, &s.work(".idea/workspace.xml")?, &[1]))
    })
    .edit(&[EACCES]),
    probe(
        "protect.chmod",
        "D03",
        "makes a protected file writable for everybody",
        |s| attack(on(libc::SYS_chmod, &s.work(".idea/workspace.xml")?, &[0o666])),
    )
    .edit(&[EACCES]),
    probe(
        "protect.fchmod",
        "D03",
        "makes a protected file writable for everybody by a descriptor for reading",
        |s| {
            attack(num(
                libc::SYS_fchmod,
                &[reading(&s.work(".idea/workspace.xml")?)?, 0o666],
            ))
        },
    )
    .edit(&[EACCES]),
    probe("protect.times", "D05", "sets a protected file's times", |s| {
        times(&s.work(".idea/workspace.xml")?)
    })
    .edit(&[EACCES]),
    probe(
        "protect.attribute",
        "D06",
        "sets a protected file's extended attribute",
        |s| set_attribute(libc::SYS_setxattr, &s.work(".idea/workspace.xml")?),
    )
    .edit(&[EACCES]),
    probe(
        "protect.reopen",
        "D14",
        "opens a protected file's descriptor again for writing",
        |s| {
            let fd = reading(&s.work(".idea/workspace.xml")?)?;
            attack(open(&format!("/proc/self/fd/{fd}"), O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.by-directory",
        "B09",
        "creates a file by a protected directory's descriptor",
        |s| attack(open_at(reading(&s.work(".idea")?)?, "tasks.xml", O_CREAT | O_WRONLY)),
    )
    .edit(&[EACCES]),
    probe(
        "protect.by-cwd",
        "B09",
        "creates a file from within a protected directory",
        |s| {
            prepared("the directory", on(libc::SYS_chdir, &s.work(".idea")?, &[]))?;
            attack(open("tasks.xml", O_CREAT | O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.by-cwd-link",
        "C02",
        "creates CLAUDE.md through /proc/self/cwd",
        |s| {
            prepared("the directory", on(libc::SYS_chdir, s.get("work")?, &[]))?;
            attack(open("/proc/self/cwd/CLAUDE.md", O_CREAT | O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "protect.dotdot",
        "B06",
        "creates CLAUDE.md by a path with detours",
        |s| create(s, "dir/../dir/./..//CLAUDE.md"),
    )
    .edit(&[EACCES]),
    probe(
        "protect.unnamed",
        "D11",
        "gives a file without a name a protected one",
        |s| {
            let fd = prepared(
                "a file without a name",
                open(s.get("work")?, libc::O_TMPFILE | libc::O_RDWR),
            )?;
            let from = format!("/proc/self/fd/{fd}");
            attack(two_at(
                libc::SYS_linkat,
                (CWD, &from),
                (CWD, &s.work("CLAUDE.md")?),
                libc::AT_SYMLINK_FOLLOW.into(),
            ))
        },
    )
    .edit(&[EACCES]),
    probe("protect.bind", "D12", "binds a socket of a protected name", |s| {
        let fd = prepared("a socket", num(libc::SYS_socket, &[1, 1, 0]))?;
        let address = super::sockets::near_address(&s.work(".envrc")?)?;
        attack(sys(
            libc::SYS_bind,
            [Arg::Int(fd), Arg::In(&address), Arg::Int(address.len() as i64)],
        ))
    })
    .edit(&[EACCES]),
    probe(
        "protect.flags",
        "D18",
        "sets a protected file's flags by a descriptor for reading",
        |s| super::changing::set_flags(&s.work(".idea/workspace.xml")?),
    )
    .edit(&[EPERM]),
];
