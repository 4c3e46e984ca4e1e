//! The tier that a test program tries sessions in, and what makes it so: the same tests run in each.
//!
//! What is taken away is taken away from picktwo, not from the test: a script stands where the binary would, whoever calls it.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

/// Where sessions run, and why there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In the best tier that there is.
    Best,
    /// In the container tier, since it was asked for (`run --tier container`).
    Asked,
    /// In the container tier, since a filter refuses namespaces as a container's does (the example `no_namespaces`).
    Filtered,
    /// In the container tier, since `max_user_namespaces` is 0 in a private user namespace (the example `no_user_namespaces`).
    NoUserNamespaces,
}

/// This program's: `PICKTWO_TEST_TIER` names it (`best`, `asked`, `filtered`, `no-user-namespaces`), else the program's own name does.
///
/// # Panics
/// If the variable names none.
#[must_use]
pub fn tier() -> Tier {
    let exe = std::env::current_exe().unwrap_or_default();
    let program = exe.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match std::env::var("PICKTWO_TEST_TIER").as_deref() {
        Ok("best") => Tier::Best,
        Ok("asked") => Tier::Asked,
        Ok("filtered") => Tier::Filtered,
        Ok("no-user-namespaces") => Tier::NoUserNamespaces,
        Ok(other) => panic!("PICKTWO_TEST_TIER: there is no {other}"),
        Err(_) if program.starts_with("container_") => Tier::Filtered,
        Err(_) if program.starts_with("no_user_namespaces") => Tier::NoUserNamespaces,
        Err(_) => Tier::Best,
    }
}

/// Whether sessions are in the container tier.
#[must_use]
pub fn container() -> bool {
    tier() != Tier::Best
}

/// A text without the lines that say that a session is in the container tier, which it says where nobody asked for that.
#[must_use]
pub fn without_notice(text: &str) -> String {
    let said = |line: &&str| !line.starts_with("picktwo: container tier, since ");
    text.split_inclusive('\n').filter(said).collect()
}

/// A hostile program of the build that `picktwo` comes from.
#[must_use]
pub fn example(picktwo: &Path, name: &str) -> PathBuf {
    picktwo.with_file_name("examples").join(name)
}

/// Copies the binary to `dir`, so that `dir/picktwo` runs it in this program's tier.
///
/// # Errors
/// Those of copying and writing.
pub fn install(picktwo: &Path, dir: &Path) -> io::Result<PathBuf> {
    let called = dir.join("picktwo");
    let Some(script) = script(tier(), dir) else {
        copy(picktwo, &called)?;
        return Ok(called);
    };
    fs::create_dir_all(dir.join("built"))?;
    fs::set_permissions(dir.join("built"), Permissions::from_mode(0o755))?;
    copy(picktwo, &dir.join("built/picktwo"))?;
    if let Some(outer) = outer(tier()) {
        copy(&example(picktwo, outer), &dir.join("built").join(outer))?;
    }
    fs::write(dir.join("built/script"), script)?;
    copy(&dir.join("built/script"), &called)?;
    Ok(called)
}

fn outer(tier: Tier) -> Option<&'static str> {
    match tier {
        Tier::Best | Tier::Asked => None,
        Tier::Filtered => Some("no_namespaces"),
        Tier::NoUserNamespaces => Some("no_user_namespaces"),
    }
}

fn script(tier: Tier, dir: &Path) -> Option<String> {
    let built = dir.join("built");
    let (built, plainly) = (built.display(), "exec \"$picktwo\" \"$@\"");
    let lines = match tier {
        Tier::Best => return None,
        Tier::Asked => format!("[ \"$1\" = run ] || {plainly}\nshift\nexec \"$picktwo\" run --tier container \"$@\""),
        Tier::Filtered => format!("exec '{built}/no_namespaces' \"$picktwo\" \"$@\""),
        // Each call has a namespace of its own. Who steers a session is not in another one than the session.
        Tier::NoUserNamespaces => format!(
            "case \"$1\" in mode|sessions|audit) {plainly} ;; esac\nexec '{built}/no_user_namespaces' \"$picktwo\" \"$@\""
        ),
    };
    Some(format!("#!/bin/sh\npicktwo='{built}/picktwo'\n{lines}\n"))
}

/// By another process: a child that another thread forks meanwhile would have our descriptor, and nobody could execute what it still
/// has open for writing.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let status = Command::new("cp").arg("--").arg(from).arg(to).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("cannot copy {}: {status}", from.display())));
    }
    fs::set_permissions(to, Permissions::from_mode(0o755))
}
