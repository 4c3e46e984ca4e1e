//! The other files of a git directory that decide what git runs or where it looks.

use super::{MAX_FILE, Refused, refused};

/// Vets a gitfile (`gitdir: PATH`): the path has to name a worktree's or submodule's git directory
/// (`…/.git/worktrees/NAME`, `…/.git/modules/…`) within the workspace. `workspace` is the root's absolute path; `directory` the
/// components, relative to it, of the directory that holds the gitfile.
///
/// The path is judged by its text; the caller opens it beneath the workspace without following symbolic links before it
/// publishes the file.
///
/// # Errors
/// [`Refused`].
pub fn vet_gitfile(content: &[u8], workspace: &[u8], directory: &[&[u8]]) -> Result<Vec<u8>, Refused> {
    let target = gitfile_target(content, workspace, directory).or_else(|reason| refused(1, "gitdir", reason))?;
    Ok([b"gitdir: ", target.path, b"\n"].concat())
}

/// Whether a gitfile that lies in `holder` would pass [`vet_gitfile`] and names `directory`.
#[must_use]
pub fn gitfile_names(content: &[u8], workspace: &[u8], holder: &[&[u8]], directory: &[&[u8]]) -> bool {
    gitfile_target(content, workspace, holder).is_ok_and(|target| target.names == directory)
}

/// What a gitfile names.
struct Target<'a> {
    path: &'a [u8],
    names: Vec<&'a [u8]>,
}

fn gitfile_target<'a>(
    content: &'a [u8],
    workspace: &'a [u8],
    directory: &[&'a [u8]],
) -> Result<Target<'a>, &'static str> {
    let Some(path) = content.strip_prefix(b"gitdir: ") else {
        return Err("is no gitfile");
    };
    let path = path.strip_suffix(b"\n").unwrap_or(path);
    let target = relative(path, workspace, directory)?;
    let Some(git) = target.iter().position(|c| *c == b".git") else {
        return Err("names no git directory");
    };
    let right = match target.get(git + 1).copied() {
        Some(b"worktrees") => target.len() == git + 3,
        // A submodule's lies in the git directory of what is around it, so that no other name is on the way.
        Some(b"modules") => target.len() >= git + 3 && directory.starts_with(&target[..git]),
        _ => false,
    };
    if !right {
        return Err("may only name .git/worktrees/NAME or .git/modules/NAME");
    }
    Ok(Target { path, names: target })
}

/// Vets a worktree's `gitdir` file: one path, of a gitfile within the workspace. Parameters as for [`vet_gitfile`], `directory`
/// being the worktree's git directory.
///
/// # Errors
/// [`Refused`].
pub fn vet_worktree_gitdir(content: &[u8], workspace: &[u8], directory: &[&[u8]]) -> Result<Vec<u8>, Refused> {
    let path = content.strip_suffix(b"\n").unwrap_or(content);
    match relative(path, workspace, directory) {
        Ok(target) if target.last() == Some(&&b".git"[..]) => Ok([path, b"\n"].concat()),
        Ok(_) => refused(1, "gitdir", "names no gitfile"),
        Err(reason) => refused(1, "gitdir", reason),
    }
}

/// Vets a `commondir` file: only what `git worktree add` writes, and only in a worktree's git directory. `directory` as for
/// [`vet_gitfile`].
///
/// # Errors
/// [`Refused`].
pub fn vet_commondir(content: &[u8], directory: &[&[u8]]) -> Result<Vec<u8>, Refused> {
    let n = directory.len();
    // What lies two above is a git directory by its name, so that its configuration and hooks are protected whatever else it holds.
    let is_git = |names: &[&[u8]]| match names
        .iter()
        .rposition(|name| *name == b".git")
        .map(|git| &names[git + 1..])
    {
        Some([]) => true,
        Some([first, _, ..]) => *first == b"modules",
        _ => false,
    };
    let in_worktree = n >= 3 && directory[n - 2] == b"worktrees" && is_git(&directory[..n - 2]);
    if in_worktree && matches!(content, b"../..\n" | b"../..") {
        Ok(b"../..\n".to_vec())
    } else {
        refused(1, "commondir", "may only be `../..` in .git/worktrees/NAME")
    }
}

/// The components of a path relative to the workspace, by text. `..` is accepted at the start only, as git writes it: after a name, it
/// leads elsewhere once that name becomes a symbolic link.
pub(super) fn relative<'a>(
    path: &'a [u8],
    workspace: &'a [u8],
    directory: &[&'a [u8]],
) -> Result<Vec<&'a [u8]>, &'static str> {
    if path.is_empty() || path.len() > 4096 || path.iter().any(|&b| b < 0x20 || b == 0x7f) {
        return Err("is no path");
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut named = path[0] == b'/';
    let rest = if path[0] == b'/' {
        let inside = path
            .strip_prefix(workspace)
            .filter(|r| workspace != b"/" && r.starts_with(b"/"));
        inside.ok_or("lies outside of the workspace")?
    } else {
        parts.extend_from_slice(directory);
        path
    };
    for part in rest.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if named => return Err("goes back after a name"),
            b".." => {
                parts.pop().ok_or("lies outside of the workspace")?;
            }
            name => {
                named = true;
                parts.push(name);
            }
        }
    }
    Ok(parts)
}

/// Vets a rebase or sequencer todo list: every command but those that run something (`exec`, `x`).
///
/// # Errors
/// [`Refused`] for the first line that does not pass.
pub fn vet_todo(content: &[u8]) -> Result<Vec<u8>, Refused> {
    const COMMANDS: &[&str] = &[
        "pick",
        "p",
        "revert",
        "edit",
        "e",
        "reword",
        "r",
        "fixup",
        "f",
        "squash",
        "s",
        "drop",
        "d",
        "label",
        "l",
        "reset",
        "t",
        "merge",
        "m",
        "update-ref",
        "u",
        "noop",
        "break",
        "b",
    ];
    if content.len() > MAX_FILE {
        return refused(1, "todo", "is too long");
    }
    let mut out = Vec::new();
    for (i, line) in content.split(|&b| b == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().any(|&b| (b < 0x20 && b != b'\t') || b == 0x7f) {
            return refused(i + 1, "todo", "holds a control character");
        }
        let text = line.trim_ascii_start();
        // The comment character is configurable; a line that is neither `#` nor a command is refused.
        if !text.is_empty() && text[0] != b'#' {
            let word = text.split(|b| matches!(b, b' ' | b'\t')).next().unwrap_or(text);
            let word = String::from_utf8_lossy(word).into_owned();
            if !COMMANDS.contains(&word.as_str()) {
                return refused(i + 1, word, "is not an accepted command of a todo list");
            }
        }
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    // split() gives one empty piece after the last newline.
    if content.is_empty() || content.ends_with(b"\n") {
        out.pop();
    }
    Ok(out)
}
