//! Git's configuration and the other files of a git directory that decide what git runs: what ordinary tools write there is
//! read with a strict parser, and what passes is written again by the launcher, never copied.
//!
//! The grammar is that of git's config.c. What git reads in two ways in different versions is refused.

use crate::gitconfig_keys::allowed;

/// Bytes of a configuration or todo file that are looked at; more is refused.
pub const MAX_FILE: usize = 1 << 20;

/// Why a content was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Line, from 1.
    pub line: usize,
    /// The key (`core.fsmonitor`, `remote.origin.uploadpack`), the command of a todo line, or the file's kind.
    pub key: String,
    /// Why, in a few words.
    pub reason: &'static str,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.key, self.reason)
    }
}

impl std::error::Error for Refused {}

fn refused<T>(line: usize, key: impl Into<String>, reason: &'static str) -> Result<T, Refused> {
    Err(Refused {
        line,
        key: key.into(),
        reason,
    })
}

/// One assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) section: String,
    /// Case is kept and counts.
    pub(crate) subsection: Option<Vec<u8>>,
    /// As written; compare without case.
    pub(crate) key: String,
    /// None: the key stands alone, which means true.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) line: usize,
}

impl Entry {
    /// `section.subsection.key`, for messages.
    fn name(&self) -> String {
        match &self.subsection {
            Some(s) => format!(
                "{}.{}.{}",
                self.section,
                String::from_utf8_lossy(s),
                self.key.to_ascii_lowercase()
            ),
            None => format!("{}.{}", self.section, self.key.to_ascii_lowercase()),
        }
    }

    fn same(&self, other: &Self) -> bool {
        self.section == other.section
            && self.subsection == other.subsection
            && self.key.eq_ignore_ascii_case(&other.key)
            && self.value == other.value
    }
}

/// A file in order, so that it can be written again.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    Comment(Vec<u8>),
    Section { name: String, subsection: Option<Vec<u8>> },
    Entry(Entry),
}

/// Vets a configuration that has no predecessor. See [`vet_change`].
///
/// # Errors
/// [`Refused`] for the first line that does not pass.
pub fn vet(content: &[u8]) -> Result<Vec<u8>, Refused> {
    vet_change(b"", content)
}

/// Vets the new content of a git configuration file: every key is on a narrow allow list (GRANTS: remotes only `url`, `fetch` and
/// harmless switches, URLs only https, ssh or local paths) or stands in the present file with the same value. Such keys keep
/// their order, and none of them may vanish: dropping `core.hooksPath = /dev/null` opens something too.
///
/// Local paths (`/srv/x.git`, `../x`, `file:///srv/x.git`) are accepted as URLs: git then runs its own upload-pack, which takes the one
/// setting that names a program (`uploadpack.packObjectsHook`) from the user's own configuration only.
///
/// The result is what the launcher writes: its own text, which this parser reads back as the same keys.
///
/// # Errors
/// [`Refused`] for the first line that does not pass.
pub fn vet_change(present: &[u8], content: &[u8]) -> Result<Vec<u8>, Refused> {
    vet_change_at(present, content, &[])
}

/// As [`vet_change`], for a file in `directory` (components relative to the workspace): a submodule's configuration in
/// `.git/modules/…` may set `core.worktree` to a directory of the workspace that is not within a git directory.
///
/// # Errors
/// [`Refused`] for the first line that does not pass.
pub fn vet_change_at(present: &[u8], content: &[u8], directory: &[&[u8]]) -> Result<Vec<u8>, Refused> {
    let judge = |e: &Entry| {
        allowed(e).or_else(|reason| {
            if submodule_worktree(e, directory) {
                Ok(())
            } else {
                Err(reason)
            }
        })
    };
    let new = parse(content)?;
    // A present file that this parser does not understand vouches for nothing.
    let old = parse(present).unwrap_or_default();
    let mut kept = old.iter().filter_map(entry).filter(|e| judge(e).is_err());
    for e in new.iter().filter_map(entry) {
        let Err(reason) = judge(e) else { continue };
        if !kept.next().is_some_and(|k| k.same(e)) {
            return refused(e.line, e.name(), reason);
        }
    }
    if let Some(gone) = kept.next() {
        return refused(
            gone.line,
            gone.name(),
            "may not be removed: the key was set outside of the session",
        );
    }
    let text = write(&new);
    let again = parse(&text)?;
    let same = new.iter().filter_map(entry).count() == again.iter().filter_map(entry).count()
        && new
            .iter()
            .filter_map(entry)
            .zip(again.iter().filter_map(entry))
            .all(|(a, b)| a.same(b));
    if !same {
        return refused(1, "configuration", "cannot be written unambiguously");
    }
    Ok(text)
}

/// Whether an entry is the worktree of a submodule, where git puts it.
fn submodule_worktree(e: &Entry, directory: &[&[u8]]) -> bool {
    let modules = directory.windows(2).any(|w| w == [&b".git"[..], &b"modules"[..]]);
    let key = e.section == "core" && e.subsection.is_none() && e.key.eq_ignore_ascii_case("worktree");
    let Some(path) = e.value.as_deref().filter(|v| modules && key && v.starts_with(b"../")) else {
        return false;
    };
    relative(path, b"/", directory).is_ok_and(|target| !target.is_empty() && !target.contains(&&b".git"[..]))
}

fn entry(item: &Item) -> Option<&Entry> {
    match item {
        Item::Entry(e) => Some(e),
        _ => None,
    }
}

/// The value of a key (`core.hookspath`, section and key in lower case) in a configuration, the last one that is set.
#[must_use]
pub fn value(content: &[u8], section: &str, key: &str) -> Option<Vec<u8>> {
    let items = parse(content).ok()?;
    let mut entries = items
        .iter()
        .filter_map(entry)
        .filter(|e| e.section == section && e.subsection.is_none() && e.key.eq_ignore_ascii_case(key));
    entries
        .next_back()
        .map(|e| e.value.clone().unwrap_or_else(|| b"true".to_vec()))
}

fn parse(content: &[u8]) -> Result<Vec<Item>, Refused> {
    if content.len() > MAX_FILE {
        return refused(1, "configuration", "is too long");
    }
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    if let Some(at) = content
        .iter()
        .position(|&b| (b < 0x20 && !matches!(b, b'\n' | b'\r' | b'\t')) || b == 0x7f)
    {
        let line = 1 + content[..at].iter().filter(|&&b| b == b'\n').count();
        return refused(line, "configuration", "holds a control character");
    }
    let mut reader = Reader {
        bytes: content,
        at: 0,
        line: 1,
    };
    let mut items = Vec::new();
    let mut section: Option<(String, Option<Vec<u8>>)> = None;
    loop {
        reader.skip_blanks()?;
        let Some(c) = reader.peek()? else { return Ok(items) };
        match c {
            b'#' | b';' => items.push(Item::Comment(reader.comment()?)),
            b'[' => {
                let (name, subsection) = reader.header()?;
                section = Some((name.clone(), subsection.clone()));
                items.push(Item::Section { name, subsection });
            }
            c if c.is_ascii_alphabetic() => {
                let line = reader.line;
                let Some((name, subsection)) = section.clone() else {
                    return refused(line, "configuration", "has a key before the first section");
                };
                let (key, value) = reader.assignment()?;
                items.push(Item::Entry(Entry {
                    section: name,
                    subsection,
                    key,
                    value,
                    line,
                }));
            }
            _ => return refused(reader.line, "configuration", "is not valid: unexpected character"),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Reader<'_> {
    /// The next byte, with CR LF as LF. A lone CR is refused: git's versions differ.
    fn peek(&self) -> Result<Option<u8>, Refused> {
        match self.bytes.get(self.at) {
            Some(b'\r') if self.bytes.get(self.at + 1) == Some(&b'\n') => Ok(Some(b'\n')),
            Some(b'\r') => refused(self.line, "configuration", "holds a carriage return"),
            other => Ok(other.copied()),
        }
    }

    fn next(&mut self) -> Result<Option<u8>, Refused> {
        let c = self.peek()?;
        if c.is_some() {
            self.at += if self.bytes[self.at] == b'\r' { 2 } else { 1 };
        }
        if c == Some(b'\n') {
            self.line += 1;
        }
        Ok(c)
    }

    fn skip_blanks(&mut self) -> Result<(), Refused> {
        while matches!(self.peek()?, Some(b' ' | b'\t' | b'\n')) {
            self.next()?;
        }
        Ok(())
    }

    fn skip_spaces(&mut self) -> Result<(), Refused> {
        while matches!(self.peek()?, Some(b' ' | b'\t')) {
            self.next()?;
        }
        Ok(())
    }

    fn comment(&mut self) -> Result<Vec<u8>, Refused> {
        let mut text = Vec::new();
        while let Some(c) = self.peek()? {
            if c == b'\n' {
                break;
            }
            text.push(c);
            self.next()?;
        }
        Ok(text)
    }

    fn header(&mut self) -> Result<(String, Option<Vec<u8>>), Refused> {
        let line = self.line;
        let bad = |reason| refused(line, "section", reason);
        self.next()?;
        let mut name = String::new();
        loop {
            match self.next()? {
                Some(b']') => break,
                Some(c) if c.is_ascii_alphanumeric() || c == b'-' => name.push(c.to_ascii_lowercase() as char),
                Some(b'.') => return bad("the old form [section.subsection] is not accepted"),
                Some(b' ' | b'\t') if !name.is_empty() => return self.subsection(name, line),
                _ => return bad("malformed header"),
            }
        }
        if name.is_empty() {
            bad("has no name")
        } else {
            Ok((name, None))
        }
    }

    fn subsection(&mut self, name: String, line: usize) -> Result<(String, Option<Vec<u8>>), Refused> {
        let bad = |reason| refused(line, name.clone(), reason);
        self.skip_spaces()?;
        if self.next()? != Some(b'"') {
            return bad("malformed subsection");
        }
        let mut subsection = Vec::new();
        loop {
            match self.next()? {
                Some(b'"') => break,
                Some(b'\\') => match self.next()? {
                    Some(b'\n') | None => return bad("malformed subsection"),
                    Some(c) => subsection.push(c),
                },
                Some(b'\n') | None => return bad("malformed subsection"),
                Some(c) => subsection.push(c),
            }
        }
        if self.next()? != Some(b']') {
            return bad("malformed subsection");
        }
        Ok((name, Some(subsection)))
    }

    fn assignment(&mut self) -> Result<(String, Option<Vec<u8>>), Refused> {
        let line = self.line;
        let mut key = String::new();
        while let Some(c) = self.peek()?.filter(|c| c.is_ascii_alphanumeric() || *c == b'-') {
            key.push(c as char);
            self.next()?;
        }
        self.skip_spaces()?;
        match self.next()? {
            None | Some(b'\n') => Ok((key, None)),
            Some(b'=') => {
                let value = self.value(line, &key)?;
                Ok((key, Some(value)))
            }
            _ => refused(line, key, "malformed key"),
        }
    }

    fn value(&mut self, line: usize, key: &str) -> Result<Vec<u8>, Refused> {
        let bad = |reason| refused(line, key, reason);
        let mut value = Vec::new();
        let mut kept = 0; // bytes that are not trailing blanks
        let mut quoted = false;
        self.skip_spaces()?;
        loop {
            match self.next()? {
                None | Some(b'\n') if quoted => return bad("a quote is not closed"),
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !quoted => {
                    self.comment()?;
                    self.next()?;
                    break;
                }
                Some(c @ (b' ' | b'\t')) if !quoted => {
                    // Older versions read a tab between words as a blank.
                    if !value.is_empty() {
                        value.push(if c == b'\t' { b' ' } else { c });
                    }
                }
                Some(b'"') => {
                    quoted = !quoted;
                    kept = value.len();
                }
                Some(b'\\') => match self.next()? {
                    // Blanks before a continuation are kept.
                    Some(b'\n') => kept = value.len(),
                    Some(c) => {
                        value.push(match c {
                            b't' => b'\t',
                            b'n' => b'\n',
                            b'"' | b'\\' => c,
                            b'b' => return bad("holds a control character"),
                            _ => return bad("unknown escape"),
                        });
                        kept = value.len();
                    }
                    None => return bad("ends within an escape"),
                },
                Some(c) => {
                    value.push(c);
                    kept = value.len();
                }
            }
        }
        value.truncate(kept);
        Ok(value)
    }
}

fn write(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Item::Comment(text) => {
                out.extend_from_slice(text);
                out.push(b'\n');
            }
            Item::Section { name, subsection } => {
                out.push(b'[');
                out.extend_from_slice(name.as_bytes());
                if let Some(s) = subsection {
                    out.extend_from_slice(b" \"");
                    for &b in s {
                        if matches!(b, b'"' | b'\\') {
                            out.push(b'\\');
                        }
                        out.push(b);
                    }
                    out.push(b'"');
                }
                out.extend_from_slice(b"]\n");
            }
            Item::Entry(e) => {
                out.push(b'\t');
                out.extend_from_slice(e.key.as_bytes());
                if let Some(value) = &e.value {
                    out.extend_from_slice(b" = ");
                    write_value(value, &mut out);
                }
                out.push(b'\n');
            }
        }
    }
    out
}

/// As git writes values: quotes where blanks or comment characters would be lost.
fn write_value(value: &[u8], out: &mut Vec<u8>) {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let quote = blank(value.first()) || blank(value.last()) || value.iter().any(|b| matches!(b, b'#' | b';'));
    if quote {
        out.push(b'"');
    }
    for &b in value {
        match b {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            _ => out.push(b),
        }
    }
    if quote {
        out.push(b'"');
    }
}

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
    let bad = |reason| refused(1, "gitdir", reason);
    let Some(path) = content.strip_prefix(b"gitdir: ") else {
        return bad("is no gitfile");
    };
    let path = path.strip_suffix(b"\n").unwrap_or(path);
    let target = match relative(path, workspace, directory) {
        Ok(target) => target,
        Err(reason) => return bad(reason),
    };
    let Some(git) = target.iter().position(|c| *c == b".git") else {
        return bad("names no git directory");
    };
    let right = match target.get(git + 1).copied() {
        Some(b"worktrees") => target.len() == git + 3,
        Some(b"modules") => target.len() >= git + 3,
        _ => false,
    };
    if !right {
        return bad("may only name .git/worktrees/NAME or .git/modules/NAME");
    }
    Ok([b"gitdir: ", path, b"\n"].concat())
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
    let in_worktree = n >= 3 && directory[n - 2] == b"worktrees" && directory[..n - 2].contains(&&b".git"[..]);
    if in_worktree && matches!(content, b"../..\n" | b"../..") {
        Ok(b"../..\n".to_vec())
    } else {
        refused(1, "commondir", "may only be `../..` in .git/worktrees/NAME")
    }
}

/// The components of a path relative to the workspace, by text.
fn relative<'a>(path: &'a [u8], workspace: &'a [u8], directory: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, &'static str> {
    if path.is_empty() || path.len() > 4096 || path.iter().any(|&b| b < 0x20 || b == 0x7f) {
        return Err("is no path");
    }
    let mut parts: Vec<&[u8]> = Vec::new();
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
            b".." => {
                parts.pop().ok_or("lies outside of the workspace")?;
            }
            name => parts.push(name),
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

#[cfg(test)]
#[path = "gitconfig_tests.rs"]
mod tests;
