//! What the person's next git command would run, in edit mode.

use super::calls::{
    CWD, attack, file_with, num, on, open, open_at, plain_directory, plain_file, prepared, sys, two, two_at,
};
use super::changing::reading;
use super::{Expected, Place, Probe, Setting, Tried, probe};
use crate::attempt::Arg;
use libc::{O_APPEND, O_CREAT, O_TRUNC, O_WRONLY};
use nix::errno::Errno::EACCES;

fn create(s: &Setting, rel: &str) -> Tried {
    attack(open(&s.work(rel)?, O_CREAT | O_WRONLY))
}

const EVIL: &[u8] = b"[core]\n\tfsmonitor = touch owned\n";

fn config_by_rename(s: &Setting, lock: &str, config: &str, content: &[u8]) -> Tried {
    let file = file_with(s, "config", content)?;
    let lock = s.work(lock)?;
    // Git writes config.lock and renames it: both steps are granted, but only for contents that name no program.
    two(libc::SYS_rename, &file, &lock)?;
    attack(two(libc::SYS_rename, &lock, &s.work(config)?))
}

/// Opens for a configuration give a memory file, which comes into force only if its content names no program: what counts is
/// that the file does not change.
fn write_directly(s: &Setting, rel: &str, flags: i32) -> Tried {
    let fd = open(&s.work(rel)?, O_WRONLY | flags)?;
    sys(
        libc::SYS_write,
        [Arg::Int(fd), Arg::In(EVIL), Arg::Int(EVIL.len() as i64)],
    )?;
    num(libc::SYS_close, &[fd])?;
    // Any granted call is decided after what was staged.
    let _ = on(libc::SYS_unlink, &s.work("absent")?, &[]);
    Ok(())
}

pub(super) static PROBES: &[Probe] = &[
    probe("git.hook", "B01", "creates a git hook", |s| {
        create(s, ".git/hooks/pre-commit")
    })
    .edit(&[EACCES]),
    probe("git.hook-sample", "B01", "renames a sample to a live hook", |s| {
        attack(two(
            libc::SYS_rename,
            &s.work(".git/hooks/update.sample")?,
            &s.work(".git/hooks/update")?,
        ))
    })
    .edit(&[EACCES]),
    probe("git.hook-rename", "B01", "renames a plain file to a hook", |s| {
        attack(two(
            libc::SYS_rename,
            &plain_file(s)?,
            &s.work(".git/hooks/pre-commit")?,
        ))
    })
    .edit(&[EACCES]),
    probe("git.hook-link", "B01 B19", "gives a plain file a hook's name", |s| {
        attack(two(libc::SYS_link, &plain_file(s)?, &s.work(".git/hooks/pre-commit")?))
    })
    .edit(&[EACCES]),
    probe("git.hook-symlink", "B01", "makes a git hook a link", |s| {
        attack(two(libc::SYS_symlink, "../../file", &s.work(".git/hooks/pre-commit")?))
    })
    .edit(&[EACCES]),
    probe("git.hook-case", "B01", "creates a hook in other letters", |s| {
        on(libc::SYS_mkdir, &s.work(".GIT")?, &[0o755])?;
        on(libc::SYS_mkdir, &s.work(".GIT/Hooks")?, &[0o755])?;
        create(s, ".GIT/Hooks/pre-commit")
    })
    .edit(&[EACCES]),
    probe(
        "git.hook-by-directory",
        "B01",
        "creates a hook by the directory's descriptor",
        |s| {
            attack(open_at(
                reading(&s.work(".git/hooks")?)?,
                "pre-push",
                O_CREAT | O_WRONLY,
            ))
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.hook-by-cwd",
        "B01",
        "creates a hook from within the directory",
        |s| {
            prepared("the directory", on(libc::SYS_chdir, &s.work(".git/hooks")?, &[]))?;
            attack(open("post-checkout", O_CREAT | O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.hook-through-link",
        "B01",
        "creates a hook through a linked directory",
        |s| {
            let link = s.work(&format!("hooks-{}", std::process::id()))?;
            prepared("a link", two(libc::SYS_symlink, ".git/hooks", &link))?;
            attack(open(&format!("{link}/pre-commit"), O_CREAT | O_WRONLY))
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.hook-unnamed",
        "B01 D11",
        "gives a file without a name a hook's",
        |s| {
            let fd = prepared(
                "a file without a name",
                open(s.get("work")?, libc::O_TMPFILE | libc::O_RDWR),
            )?;
            let from = format!("/proc/self/fd/{fd}");
            let to = s.work(".git/hooks/pre-commit")?;
            attack(two_at(
                libc::SYS_linkat,
                (CWD, &from),
                (CWD, &to),
                libc::AT_SYMLINK_FOLLOW.into(),
            ))
        },
    )
    .edit(&[EACCES]),
    probe("git.hooks-away", "B03", "renames the hooks directory away", |s| {
        attack(two(libc::SYS_rename, &s.work(".git/hooks")?, &s.work(".git/old")?))
    })
    .edit(&[EACCES]),
    probe(
        "git.hooks-exchange",
        "B03 D11",
        "exchanges the hooks directory with one of its own",
        |s| {
            let dir = plain_directory(s)?;
            prepared("its hook", open(&format!("{dir}/pre-commit"), O_CREAT | O_WRONLY))?;
            attack(two_at(
                libc::SYS_renameat2,
                (CWD, &dir),
                (CWD, &s.work(".git/hooks")?),
                2,
            ))
        },
    )
    .edit(&[EACCES]),
    probe("git.away", "B03", "renames .git away", |s| {
        attack(two(libc::SYS_rename, &s.work(".git")?, &s.work("git")?))
    })
    .edit(&[EACCES]),
    probe(
        "git.exchange",
        "B03",
        "exchanges .git with a directory of its own",
        |s| {
            attack(two_at(
                libc::SYS_renameat2,
                (CWD, &plain_directory(s)?),
                (CWD, &s.work(".git")?),
                2,
            ))
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.into-place",
        "B03 B05",
        "renames a directory with a hook to .git of a subdirectory",
        |s| {
            let dir = plain_directory(s)?;
            prepared("hooks", on(libc::SYS_mkdir, &format!("{dir}/hooks"), &[0o755]))?;
            prepared("a hook", open(&format!("{dir}/hooks/pre-commit"), O_CREAT | O_WRONLY))?;
            attack(two(libc::SYS_rename, &dir, &s.work("dir/.git")?))
        },
    )
    .edit(&[EACCES]),
    probe("git.symlink", "B05", "makes .git of a subdirectory a link", |s| {
        attack(two(libc::SYS_symlink, "../dir", &s.work("dir/.git")?))
    })
    .edit(&[EACCES]),
    probe(
        "git.nested-hook",
        "B05",
        "creates a hook in a repository within the workspace",
        |s| create(s, "nested/.git/hooks/pre-commit"),
    )
    .edit(&[EACCES]),
    probe(
        "git.nested-config",
        "B05",
        "writes a program into the configuration of a repository within the workspace",
        |s| write_directly(s, "nested/.git/config", O_APPEND),
    )
    .at(Place::Edit, Expected::Unseen),
    probe("git.module-hook", "B05", "creates a hook of a submodule", |s| {
        create(s, ".git/modules/sub/hooks/post-checkout")
    })
    .edit(&[EACCES]),
    probe(
        "git.gitfile",
        "B05",
        "renames a gitfile of its own content into place",
        |s| {
            let file = file_with(s, "gitfile", b"gitdir: ../dir\n")?;
            attack(two(libc::SYS_rename, &file, &s.work("dir/.git")?))
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.config-write",
        "B02",
        "writes a program into the configuration",
        |s| write_directly(s, ".git/config", 0),
    )
    .at(Place::Edit, Expected::Unseen),
    probe(
        "git.config-append",
        "B02",
        "appends a program to the configuration",
        |s| write_directly(s, ".git/config", O_APPEND),
    )
    .at(Place::Edit, Expected::Unseen),
    probe(
        "git.config-truncate",
        "B02 D02",
        "empties the configuration and writes a program",
        |s| write_directly(s, ".git/config", O_TRUNC),
    )
    .at(Place::Edit, Expected::Unseen),
    probe("git.config-cut", "B02 D02", "cuts the configuration", |s| {
        attack(on(libc::SYS_truncate, &s.work(".git/config")?, &[1]))
    })
    .edit(&[EACCES]),
    probe(
        "git.config-program",
        "B02",
        "renames a configuration that names a program into place",
        |s| config_by_rename(s, ".git/config.lock", ".git/config", EVIL),
    )
    .edit(&[EACCES]),
    probe(
        "git.config-upload-pack",
        "B02",
        "renames a configuration whose remote names a program into place",
        |s| {
            config_by_rename(
                s,
                ".git/config.lock",
                ".git/config",
                b"[remote \"origin\"]\n\turl = https://example.org/x\n\tuploadpack = touch owned\n",
            )
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.config-include",
        "B02",
        "renames a configuration that includes a file into place",
        |s| config_by_rename(s, ".git/config.lock", ".git/config", b"[include]\n\tpath = ../file\n"),
    )
    .edit(&[EACCES]),
    probe(
        "git.config-direct",
        "B02",
        "renames a plain file over the configuration",
        |s| {
            attack(two(
                libc::SYS_rename,
                &file_with(s, "evil", EVIL)?,
                &s.work(".git/config")?,
            ))
        },
    )
    .edit(&[EACCES]),
    probe("git.config-unlink", "B03", "removes the configuration", |s| {
        attack(on(libc::SYS_unlink, &s.work(".git/config")?, &[]))
    })
    .edit(&[EACCES]),
    probe("git.config-alias", "B19", "gives the configuration a plain name", |s| {
        attack(two(libc::SYS_link, &s.work(".git/config")?, &s.work("config-alias")?))
    })
    .edit(&[EACCES]),
    probe(
        "git.config-mode",
        "D03",
        "makes the configuration writable for everybody",
        |s| attack(num(libc::SYS_fchmod, &[reading(&s.work(".git/config")?)?, 0o666])),
    )
    .edit(&[EACCES]),
    probe(
        "git.config-worktree",
        "B02",
        "creates config.worktree that names a program",
        |s| config_by_rename(s, ".git/config.worktree.lock", ".git/config.worktree", EVIL),
    )
    .edit(&[EACCES]),
    probe(
        "git.commondir",
        "B05",
        "creates a commondir that leads to its own configuration",
        |s| {
            let file = file_with(s, "commondir", b"../dir\n")?;
            attack(two(libc::SYS_rename, &file, &s.work(".git/commondir")?))
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.legacy-remote",
        "B02",
        "creates a remote outside the configuration",
        |s| {
            on(libc::SYS_mkdir, &s.work(".git/remotes")?, &[0o755])?;
            create(s, ".git/remotes/evil")
        },
    )
    .edit(&[EACCES]),
    probe(
        "git.bare-config",
        "B05",
        "creates the configuration of a bare repository with a program",
        |s| write_directly(s, "bare/config", O_CREAT),
    )
    .at(Place::Edit, Expected::Unseen),
    probe("git.bare-hook", "B05", "creates a hook of a bare repository", |s| {
        create(s, "bare/hooks/post-update")
    })
    .edit(&[EACCES]),
    probe("git.global", "B02", "creates a global configuration", |s| {
        create(s, ".gitconfig")
    })
    .edit(&[EACCES]),
];
