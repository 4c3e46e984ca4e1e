//! The typed answer of a retrieval: what crosses the wall back to the agent.

use serde::{Deserialize, Serialize};

/// Bytes of text in one answer, all blocks and quotes together.
pub const MAX_ANSWER: usize = 64 * 1024;
/// Blocks, quotes, sources or flags in one answer, each.
pub const MAX_ITEMS: usize = 256;

/// What a retriever found. Text in it is still untrusted content: it was filtered, not judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The parts of the page that answer the question, in the page's order.
    pub answer: Vec<Block>,
    /// Verbatim pieces of the source.
    #[serde(default)]
    pub quotes: Vec<Quote>,
    /// Where it came from; blocks and quotes name a source by its index.
    pub sources: Vec<Source>,
    /// What was noticed on the way (hidden text removed, instruction-shaped text …).
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// Whether something was left out for the budget or a limit.
    pub truncated: bool,
}

/// One block of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// What kind of text this is.
    pub kind: BlockKind,
    /// The headings above it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// The text; code and tables byte for byte apart from the output filter.
    pub text: String,
    /// Index into [`Answer::sources`].
    pub source: usize,
}

/// Kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// Running text.
    Text,
    /// A heading.
    Heading,
    /// Code, kept whole.
    Code,
    /// A table, kept whole.
    Table,
    /// A list item or a list.
    List,
    /// A numbered reference to a link: `[n] host path`.
    Links,
}

/// A verbatim piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quote {
    /// The piece.
    pub text: String,
    /// Index into [`Answer::sources`].
    pub source: usize,
}

/// A fetched document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The URL after redirects, host in ASCII form.
    pub url: String,
    /// The document's title, filtered.
    #[serde(default)]
    pub title: String,
    /// SHA-256 of the decoded body, hexadecimal.
    pub sha256: String,
    /// When it was fetched, RFC 3339 UTC.
    pub fetched: String,
    /// Media type without parameters.
    pub media_type: String,
    /// Decoded bytes that were read.
    pub bytes: u64,
}

/// Something worth knowing about the source; never a verdict that it is safe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flag {
    /// Stable identifier, e.g. `hidden-text`, `invisible-characters`, `instruction-shaped`, `truncated-body`.
    pub id: String,
    /// How often.
    pub count: u64,
    /// One short sentence for people.
    pub note: String,
}
