//! The state that git keeps between the steps of a rebase, `git am`, a cherry-pick, a revert or a bisection. The command that continues
//! takes programs and options from it: a strategy is run as `git-merge-STRATEGY`, options are handed to other commands, and versions
//! of git that are shell scripts evaluate the quoted ones.

use super::syntax::{Item, parse, write};
use super::{Entry, MAX_FILE, Refused, refused};

/// The strategies that git itself has.
const STRATEGIES: &[&str] = &[
    "ort",
    "recursive",
    "resolve",
    "octopus",
    "ours",
    "subtree",
    "recursive-ours",
    "recursive-theirs",
];

/// What `-X` may say without a value.
const STRATEGY_OPTIONS: &[&str] = &[
    "ours",
    "theirs",
    "subtree",
    "patience",
    "histogram",
    "minimal",
    "ignore-space-change",
    "ignore-all-space",
    "ignore-space-at-eol",
    "ignore-cr-at-eol",
    "renormalize",
    "no-renormalize",
    "no-renames",
    "find-renames",
];

const DIFF_ALGORITHMS: &[&str] = &["myers", "default", "minimal", "patience", "histogram"];

/// Options of `git apply` that `git am` keeps.
const APPLY_OPTIONS: &[&str] = &["--ignore-space-change", "--ignore-whitespace", "--reject"];

/// Vets a state file by its name: `strategy`, `strategy_opts`, `gpg_sign_opt`, `allow_rerere_autoupdate`, `autostash`, `author-script`,
/// `apply-opt`, `BISECT_NAMES` and the sequencer's `opts`. An empty one says nothing.
///
/// # Errors
/// [`Refused`].
pub fn vet_state(content: &[u8], name: &[u8]) -> Result<Vec<u8>, Refused> {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    if content.len() > MAX_FILE {
        return refused(1, name, "is too long");
    }
    if content.is_empty() {
        return Ok(Vec::new());
    }
    if name == "opts" {
        return vet_options(content);
    }
    let text = content.strip_suffix(b"\n").unwrap_or(content);
    let right = match name.as_str() {
        "strategy" => is_one_of(text, STRATEGIES),
        "strategy_opts" => words(text).is_some_and(|all| all.iter().all(|word| strategy_option(word))),
        "gpg_sign_opt" => text == b"--no-gpg-sign" || text.strip_prefix(b"-S").is_some_and(key_id),
        "allow_rerere_autoupdate" => is_one_of(text, &["--rerere-autoupdate", "--no-rerere-autoupdate"]),
        "autostash" => !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit),
        "author-script" => author(text),
        "apply-opt" => words(text).is_some_and(|all| all.iter().all(|word| apply_option(word))),
        "bisect_names" => words(text).is_some(),
        _ => return refused(1, name, "is no state of git that is known"),
    };
    if right {
        Ok(content.to_vec())
    } else {
        refused(
            1,
            name,
            "may only hold what git itself writes for its built-in strategies and options",
        )
    }
}

/// `.git/sequencer/opts` is written as a configuration file.
fn vet_options(content: &[u8]) -> Result<Vec<u8>, Refused> {
    let items = parse(content)?;
    for item in &items {
        let Item::Entry(entry) = item else { continue };
        if !option(entry) {
            return refused(
                entry.line,
                entry.name(),
                "is no accepted option of a cherry-pick or revert",
            );
        }
    }
    Ok(write(&items))
}

fn option(entry: &Entry) -> bool {
    if entry.section != "options" || entry.subsection.is_some() {
        return false;
    }
    let value = entry.value.as_deref();
    match entry.key.to_ascii_lowercase().as_str() {
        "no-commit"
        | "edit"
        | "allow-empty"
        | "allow-empty-message"
        | "drop-redundant-commits"
        | "keep-redundant-commits"
        | "signoff"
        | "record-origin"
        | "allow-ff"
        | "allow-rerere-auto" => value.is_none_or(|value| is_one_of(value, &["true", "false"])),
        "mainline" => value.is_some_and(number),
        "strategy" => value.is_some_and(|value| is_one_of(value, STRATEGIES)),
        "strategy-option" => value.is_some_and(strategy_option),
        "gpg-sign" => value.is_some_and(key_id),
        "default-msg-cleanup" => {
            value.is_some_and(|value| is_one_of(value, &["default", "strip", "whitespace", "verbatim", "scissors"]))
        }
        _ => false,
    }
}

fn is_one_of(text: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| word.as_bytes() == text)
}

fn number(text: &[u8]) -> bool {
    !text.is_empty() && text.len() < 10 && text.iter().all(u8::is_ascii_digit)
}

/// With or without the dashes that some versions write.
fn strategy_option(word: &[u8]) -> bool {
    let word = word.strip_prefix(b"--").unwrap_or(word);
    if is_one_of(word, STRATEGY_OPTIONS) {
        return true;
    }
    let Some(at) = word.iter().position(|&b| b == b'=') else {
        return false;
    };
    let (name, value) = (&word[..at], &word[at + 1..]);
    match name {
        b"subtree" => true,
        b"diff-algorithm" => is_one_of(value, DIFF_ALGORITHMS),
        b"find-renames" | b"rename-threshold" => number(value.strip_suffix(b"%").unwrap_or(value)),
        _ => false,
    }
}

fn apply_option(word: &[u8]) -> bool {
    let valued = |name: &[u8]| word.strip_prefix(name);
    is_one_of(word, APPLY_OPTIONS)
        || valued(b"-C").or_else(|| valued(b"-p")).is_some_and(number)
        || valued(b"--whitespace=").is_some_and(|mode| mode.iter().all(|b| b.is_ascii_lowercase() || *b == b'-'))
        || [&b"--directory="[..], b"--exclude=", b"--include="]
            .iter()
            .any(|name| valued(name).is_some())
}

/// A key's number, fingerprint, name or address; nothing that a signing program takes for an option or a file.
fn key_id(text: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"@.+_ <>-!".contains(b);
    text.first().is_none_or(u8::is_ascii_alphanumeric) && text.iter().all(plain)
}

/// Lines `GIT_AUTHOR_…='…'`, one for each; a value may hold line breaks.
fn author(text: &[u8]) -> bool {
    words(text).is_some_and(|all| {
        all.iter().all(|word| {
            [&b"GIT_AUTHOR_NAME="[..], b"GIT_AUTHOR_EMAIL=", b"GIT_AUTHOR_DATE="]
                .iter()
                .any(|name| word.starts_with(name))
        })
    })
}

/// Words as a shell reads them, if all it would do is to take them apart: quotes, and of the rest only what means itself.
fn words(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut rest = text.iter();
    while let Some(&b) = rest.next() {
        match b {
            b' ' | b'\n' => all.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match *rest.next()? {
                        b'\'' => break,
                        0 => return None,
                        b => word.push(b),
                    }
                }
            }
            b'"' => {
                let word = word.get_or_insert_default();
                loop {
                    match *rest.next()? {
                        b'"' => break,
                        b'\\' => word.push(*rest.next().filter(|b| matches!(b, b'"' | b'\\'))?),
                        0 | b'$' | b'`' => return None,
                        b => word.push(b),
                    }
                }
            }
            b'\\' => {
                let quoted = rest.next().filter(|b| matches!(b, b'\'' | b'!'))?;
                word.get_or_insert_default().push(*quoted);
            }
            b if b.is_ascii_alphanumeric() || b"-._/=+@,:%".contains(&b) => word.get_or_insert_default().push(b),
            _ => return None,
        }
    }
    all.extend(word);
    Some(all)
}
