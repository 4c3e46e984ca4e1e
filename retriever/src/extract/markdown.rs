//! Markdown: the same blocks as of a page, read from its source.

use super::{Block, Link, Page, hidden};
use picktwo_wire::answer::{BlockKind, Flag};
use regex::Regex;
use reqwest::Url;
use std::collections::HashMap;
use std::sync::LazyLock;

static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)<!--.*?(?:-->|\z)").expect("a constant pattern"));
static DEFINITION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^ {0,3}\[([^\]]+)\]:\s*<?(\S*?)>?(?:\s.*)?$").expect("a constant pattern"));
static ITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\s*)(?:[-*+]|\d{1,9}[.)])\s+").expect("a constant pattern"));
static HEADING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$").expect("a constant pattern"));
static FENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s{0,12}(`{3,}|~{3,})([^`]*)$").expect("a constant pattern"));
static RULE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$").expect("a constant pattern"));
/// Raw HTML that can hide what it holds.
static STYLED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)<[a-z][a-z0-9-]*\s[^<>]*\b(?:style|hidden|aria-hidden|class)\b|<(?:template|noscript|dialog|svg)\b",
    )
    .expect("a constant pattern")
});
/// `[text](target "title")`, images included.
static LINK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\](?:\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+["'(][^)]*)?\)|\[([^\]]*)\])"#).expect("a constant pattern")
});

struct Reader<'u> {
    base: &'u Url,
    page: Page,
    known: HashMap<String, usize>,
    definitions: HashMap<String, String>,
    hidden: u64,
}

/// Reads Markdown.
pub(super) fn read(text: &str, url: &Url) -> Page {
    let mut reader = Reader {
        base: url,
        page: Page::default(),
        known: HashMap::new(),
        definitions: HashMap::new(),
        hidden: 0,
    };
    let lines: Vec<&str> = text.lines().collect();
    reader.define(&lines);
    reader.blocks(&lines);
    reader.page.title = first_heading(&reader.page);
    if reader.hidden > 0 {
        let note = "comments and hidden elements of the document were removed".to_owned();
        reader.page.flags.push(Flag {
            id: "hidden-text".to_owned(),
            count: reader.hidden,
            note,
        });
    }
    reader.page
}

/// What a document without a title is called by.
pub(super) fn first_heading(page: &Page) -> String {
    let first = page.blocks.iter().find(|b| b.kind == BlockKind::Heading);
    first.map(|b| b.text.clone()).unwrap_or_default()
}

impl Reader<'_> {
    fn define(&mut self, lines: &[&str]) {
        for found in lines.iter().filter_map(|l| DEFINITION.captures(l)) {
            self.definitions
                .entry(found[1].to_lowercase())
                .or_insert_with(|| found[2].to_owned());
        }
    }

    fn blocks(&mut self, lines: &[&str]) {
        let mut paragraph: Vec<String> = Vec::new();
        let mut comment = false;
        let mut n = 0;
        while n < lines.len() {
            let line = lines[n];
            n += 1;
            // A comment over several lines.
            if comment {
                comment = !line.contains("-->");
                continue;
            }
            if let Some(fence) = FENCE.captures(line) {
                self.paragraph(&mut paragraph);
                let mark = &fence[1];
                let end = lines[n..].iter().position(|l| {
                    let l = l.trim();
                    l.len() >= mark.len() && l.chars().all(|c| mark.starts_with(c))
                });
                let until = end.map_or(lines.len(), |e| n + e);
                self.code(lines[n..until].join("\n"));
                n = until + 1;
                continue;
            }
            if DEFINITION.is_match(line) && !line.trim_start().starts_with("[^") {
                self.paragraph(&mut paragraph);
                // `[//]: # (…)` is how comments are written.
                self.hidden += u64::from(line.contains('(') || line.contains('"'));
                continue;
            }
            let line = &self.without_comments(line, &mut comment);
            if line.trim().is_empty() {
                self.paragraph(&mut paragraph);
                continue;
            }
            if let Some(heading) = HEADING.captures(line) {
                self.paragraph(&mut paragraph);
                let text = heading.get(2).map_or("", |t| t.as_str()).to_owned();
                self.put(BlockKind::Heading, heading[1].len() as u8, &text);
                continue;
            }
            let underline = line.trim();
            if !paragraph.is_empty()
                && underline.len() >= 2
                && (underline.chars().all(|c| c == '=') || underline.chars().all(|c| c == '-'))
            {
                let text = paragraph.join(" ");
                paragraph.clear();
                self.put(
                    BlockKind::Heading,
                    if underline.starts_with('=') { 1 } else { 2 },
                    &text,
                );
                continue;
            }
            if line.contains('|') && lines.get(n).is_some_and(|l| l.contains('-') && RULE.is_match(l)) {
                self.paragraph(&mut paragraph);
                let until = lines[n..]
                    .iter()
                    .position(|l| !l.contains('|'))
                    .map_or(lines.len(), |e| n + e);
                let rows: Vec<&str> = std::iter::once(line.as_str())
                    .chain(lines[n..until].iter().copied())
                    .collect();
                self.put(BlockKind::Table, 0, &rows.join("\n"));
                n = until;
                continue;
            }
            if paragraph.is_empty()
                && (line.starts_with("    ") || line.starts_with('\t'))
                && !ITEM.is_match(line)
                && !self.in_list()
            {
                let until = lines[n..]
                    .iter()
                    .position(|l| !(l.trim().is_empty() || l.starts_with("    ") || l.starts_with('\t')))
                    .map_or(lines.len(), |e| n + e);
                let code: Vec<&str> = lines[n - 1..until]
                    .iter()
                    .map(|l| l.strip_prefix("    ").or(l.strip_prefix('\t')).unwrap_or(l))
                    .collect();
                self.code(code.join("\n").trim_end().to_owned());
                n = until;
                continue;
            }
            if ITEM.is_match(line) {
                self.paragraph(&mut paragraph);
            }
            paragraph.push(line.trim_end().to_owned());
        }
        self.paragraph(&mut paragraph);
    }

    fn in_list(&self) -> bool {
        self.page.blocks.last().is_some_and(|b| b.kind == BlockKind::List)
    }

    fn without_comments(&mut self, line: &str, open: &mut bool) -> String {
        if !line.contains("<!--") {
            return line.to_owned();
        }
        self.hidden += COMMENT.find_iter(line).count() as u64;
        *open = line.rfind("<!--") > line.rfind("-->");
        COMMENT.replace_all(line, "").into_owned()
    }

    fn paragraph(&mut self, lines: &mut Vec<String>) {
        let text = std::mem::take(lines).join("\n");
        if text.trim().is_empty() {
            return;
        }
        let kind = if ITEM.is_match(&text) {
            BlockKind::List
        } else {
            BlockKind::Text
        };
        self.put(kind, 0, &text);
    }

    fn code(&mut self, text: String) {
        if !text.trim().is_empty() {
            self.page.blocks.push(Block::new(BlockKind::Code, 0, text));
        }
    }

    fn put(&mut self, kind: BlockKind, level: u8, source: &str) {
        let source = if STYLED.is_match(source) {
            self.visible(source)
        } else {
            source.to_owned()
        };
        let mut block = Block::new(kind, level, String::new());
        let mut at = 0;
        for found in LINK.captures_iter(&source) {
            let whole = found.get(0).expect("the match itself");
            // An odd number of ticks before it: inside a code span.
            if source[..whole.start()]
                .rsplit("\n\n")
                .next()
                .unwrap_or("")
                .matches('`')
                .count()
                % 2
                == 1
            {
                continue;
            }
            block.text.push_str(&source[at..whole.start()]);
            at = whole.end();
            if &found[1] == "!" {
                block.text.push_str(whole.as_str());
                continue;
            }
            // A linked picture is its picture.
            block.text.push_str(&found[2]);
            let target = match (found.get(3), found.get(4)) {
                (Some(url), _) => Some(url.as_str().to_owned()),
                (None, name) => {
                    let name = name.map_or("", |n| n.as_str());
                    let name = if name.is_empty() { &found[2] } else { name };
                    self.definitions.get(&name.to_lowercase()).cloned()
                }
            };
            if let Some(link) = target.and_then(|t| self.link(&t)) {
                block.refs.push((block.text.len(), link));
            }
        }
        block.text.push_str(&source[at..]);
        let length = block.text.trim_end().len();
        block.text.truncate(length);
        block.refs.iter_mut().for_each(|(at, _)| *at = (*at).min(length));
        if block.text.chars().any(|c| c.is_alphanumeric()) {
            self.page.blocks.push(block);
        }
    }

    /// What raw HTML inside the document shows.
    fn visible(&mut self, source: &str) -> String {
        let document = dom_query::Document::fragment(source);
        let hidden = hidden::remove(&document, false);
        self.hidden += hidden.total();
        if hidden.total() == 0 {
            source.to_owned()
        } else {
            document.text().to_string()
        }
    }

    fn link(&mut self, target: &str) -> Option<usize> {
        let mut url = self
            .base
            .join(target)
            .ok()
            .filter(|_| !target.is_empty() && !target.starts_with('#'))?;
        url.set_fragment(None);
        let plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
        if !plain || url.as_str().len() > 500 {
            return None;
        }
        let url = String::from(url);
        let next = self.page.links.len();
        let n = *self.known.entry(url.clone()).or_insert(next);
        if n == next {
            self.page.links.push(Link { url });
        }
        Some(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        read(text, &Url::parse("https://raw.example.org/a/README.md").expect("a URL"))
    }

    fn shape(page: &Page) -> Vec<(BlockKind, u8, &str)> {
        page.blocks.iter().map(|b| (b.kind, b.level, b.text.as_str())).collect()
    }

    #[test]
    fn blocks_are_told_apart() {
        let text = "# Title #\n\nA *para*\nof two.\n\nSub\n---\n\n- one\n- two\n  more\n\n```rust\nfn  x() {\n\n}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\nend\n\n    indented  code\n\n    more\n";
        let page = page(text);
        assert_eq!(
            shape(&page),
            [
                (BlockKind::Heading, 1, "Title"),
                (BlockKind::Text, 0, "A *para*\nof two."),
                (BlockKind::Heading, 2, "Sub"),
                (BlockKind::List, 0, "- one"),
                (BlockKind::List, 0, "- two\n  more"),
                (BlockKind::Code, 0, "fn  x() {\n\n}"),
                (BlockKind::Table, 0, "| a | b |\n|---|---|\n| 1 | 2 |"),
                (BlockKind::Text, 0, "end"),
                (BlockKind::Code, 0, "indented  code\n\nmore"),
            ]
        );
        assert_eq!(page.title, "Title");
    }

    #[test]
    fn links_become_references_and_code_spans_stay() {
        let page = page(
            "See [the guide](../guide.md \"t\") and [ref][r] and `[not](a)`, [x](javascript:1).\n\n[r]: https://other.example/z#f\n",
        );
        assert_eq!(page.blocks[0].text, "See the guide and ref and `[not](a)`, x.");
        assert_eq!(page.blocks[0].refs, [(13, 0), (21, 1)]);
        assert_eq!(page.links[0].url, "https://raw.example.org/guide.md");
        assert_eq!(page.links[1].url, "https://other.example/z");
    }

    #[test]
    fn what_renders_to_nothing_is_removed_and_counted() {
        let page = page(
            "a <!-- MARK1 --> b\n\n<!--\nMARK2\n-->\n\n[//]: # (MARK3)\n\nc <span style=\"display:none\">MARK4</span> d\n\n```\n<!-- kept -->\n```\n",
        );
        let all: String = page.blocks.iter().map(|b| format!("{}\n", b.text)).collect();
        assert!(!all.contains("MARK"), "{all}");
        assert!(all.contains("<!-- kept -->"), "{all}");
        assert_eq!(page.flags[0].count, 4);
    }
}
