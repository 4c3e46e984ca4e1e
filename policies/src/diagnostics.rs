//! What is wrong with a policy, shown with file, line, column and the place underlined.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::ops::Range;
use std::sync::Arc;

/// Which layer a file belongs to, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Embedded in the binary.
    Builtin,
    /// `/etc/picktwo/policy.toml`.
    System,
    /// `$XDG_CONFIG_HOME/picktwo/policy.toml` and what it extends.
    User,
    /// `.picktwo.toml` at the workspace's root; it may only tighten.
    Project,
    /// `--policy` and options.
    CommandLine,
}

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its layer.
    pub kind: Kind,
    /// Its name in messages: a path, `built-in claude`, `--policy` …
    pub name: String,
}

impl Origin {
    /// An origin.
    #[must_use]
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }
}

/// A policy text with its origin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) origin: Origin,
    pub(crate) text: String,
}

/// The place in a policy file that sets something.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    pub(crate) source: Arc<Source>,
    pub(crate) span: Range<usize>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Place {
    /// The file's name in messages.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.source.origin.name
    }

    /// The layer.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.source.origin.kind
    }

    /// Line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        let before = self.source.text.get(..self.span.start).unwrap_or(&self.source.text);
        1 + before.bytes().filter(|&b| b == b'\n').count()
    }

    /// Column, from 1, in characters.
    #[must_use]
    pub fn column(&self) -> usize {
        let before = self.source.text.get(..self.span.start).unwrap_or(&self.source.text);
        1 + before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file(), self.line())
    }
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, in one phrase without a full stop.
    pub message: String,
    /// What the underline says; may be empty.
    pub label: String,
    /// What to do instead.
    pub help: Option<String>,
}

/// All errors of a policy; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics {
    /// The errors in the order of the files.
    pub problems: Vec<Problem>,
}

impl Diagnostics {
    /// For a terminal (`color`) or for anything else, one block per error.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut blocks = Vec::new();
        for p in &self.problems {
            let text = &p.place.source.text;
            let end = p.place.span.end.min(text.len());
            let mut underline = AnnotationKind::Primary.span(p.place.span.start.min(end)..end);
            if !p.label.is_empty() {
                underline = underline.label(p.label.as_str());
            }
            let snippet = Snippet::source(text.as_str())
                .path(p.place.file())
                .annotation(underline);
            let mut report = vec![Level::ERROR.primary_title(p.message.as_str()).element(snippet)];
            if let Some(help) = &p.help {
                report.push(Group::with_title(Level::HELP.secondary_title(help.as_str())));
            }
            blocks.push(renderer.render(&report));
        }
        blocks.join("\n\n")
    }
}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Diagnostics {}

/// The known word that is nearest to a mistyped one, if one is near.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let limit = (word.len() / 3).max(1);
    known
        .iter()
        .map(|k| (distance(word, k), *k))
        .filter(|(d, _)| *d <= limit)
        .min()
        .map(|(_, k)| k)
}

/// Edits (with swapped neighbours as one) between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            rows[i][j] = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}
