//! Turns the visible tree of a page into blocks: headings, paragraphs, list items, whole tables, code byte for byte.

use super::hidden::COLLAPSED;
use super::shape::{is_data_table, pre_text, rows_of};
use super::{Block, Link};
use dom_query::NodeRef;
use picktwo_wire::answer::BlockKind;
use reqwest::Url;
use std::collections::HashMap;

/// Elements without text for readers.
const SKIPPED: &[&str] = &[
    "script",
    "style",
    "head",
    "select",
    "option",
    "textarea",
    "input",
    "button",
    "datalist",
    "map",
    "meter",
    "progress",
    "title",
    "annotation",
    "annotation-xml",
    "rp",
];
/// Elements that flow within a line.
const INLINE: &[&str] = &[
    "a",
    "abbr",
    "acronym",
    "b",
    "bdi",
    "bdo",
    "big",
    "cite",
    "code",
    "data",
    "del",
    "dfn",
    "em",
    "font",
    "i",
    "img",
    "ins",
    "kbd",
    "label",
    "mark",
    "math",
    "nobr",
    "q",
    "rb",
    "rt",
    "ruby",
    "s",
    "samp",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "time",
    "tt",
    "u",
    "var",
    "wbr",
    "mrow",
    "mi",
    "mo",
    "mn",
    "msup",
    "msub",
    "mfrac",
    "msqrt",
    "mtext",
    "semantics",
    "mstyle",
    "mspace",
];
/// Bytes of a URL that is worth a reference; longer ones carry data rather than name a place.
const MAX_LINK: usize = 500;
/// Links kept of one page.
const MAX_LINKS: usize = 4000;

/// Text of one line-flow, white space collapsed, with the links in it.
#[derive(Default)]
struct Flow {
    text: String,
    refs: Vec<(usize, usize)>,
    /// A white space waits for the next word.
    gap: bool,
}

impl Flow {
    fn push(&mut self, text: &str) {
        for c in text.chars() {
            if c.is_whitespace() && c != '\u{a0}' {
                self.gap = true;
                continue;
            }
            if self.gap && !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push(' ');
            }
            self.gap = false;
            self.text.push(c);
        }
    }

    fn line_break(&mut self) {
        self.gap = false;
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }
}

/// Collects blocks from a tree.
pub(super) struct Collector<'u> {
    base: &'u Url,
    pub(super) blocks: Vec<Block>,
    pub(super) links: Vec<Link>,
    known: HashMap<String, usize>,
    flow: Flow,
    /// Inside `nav`, `footer` and their kind.
    chrome: u32,
    collapsed: u32,
    list: u32,
    /// Marks the next text as the start of a list item.
    bullet: Option<String>,
}

impl<'u> Collector<'u> {
    pub(super) fn new(base: &'u Url) -> Self {
        Self {
            base,
            blocks: Vec::new(),
            links: Vec::new(),
            known: HashMap::new(),
            flow: Flow::default(),
            chrome: 0,
            collapsed: 0,
            list: 0,
            bullet: None,
        }
    }

    /// Reads everything below `node`.
    pub(super) fn read(&mut self, node: &NodeRef<'_>) {
        self.children(node);
        self.flush(BlockKind::Text, 0);
    }

    fn children(&mut self, node: &NodeRef<'_>) {
        for child in node.children_it(false) {
            self.node(&child);
        }
    }

    /// Depth is bounded by the parser's caller, so recursion is.
    fn node(&mut self, node: &NodeRef<'_>) {
        if node.is_text() {
            self.flow.push(&node.text());
            return;
        }
        let Some(name) = node.node_name() else { return };
        let name = &*name;
        if SKIPPED.contains(&name) {
            return;
        }
        match name {
            "br" => self.flow.line_break(),
            "hr" => self.flush(BlockKind::Text, 0),
            "a" => self.anchor(node),
            "code" | "kbd" | "samp" | "tt" => self.inline_code(node),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.flush(BlockKind::Text, 0);
                self.children(node);
                self.flush(BlockKind::Heading, name.as_bytes()[1] - b'0');
            }
            "pre" | "xmp" | "listing" => self.code(node),
            "table" if is_data_table(node) => self.table(node),
            "ul" | "ol" | "menu" | "dir" => self.list(node, name == "ol"),
            "dt" => {
                self.flush(BlockKind::Text, 0);
                self.children(node);
                // Signatures of an API are headings of what describes them.
                let signature =
                    node.has_class("sig") || node.parent().is_some_and(|p| p.has_class("py") || p.has_class("rust"));
                match signature {
                    true => self.flush(BlockKind::Heading, 6),
                    false => self.flush(BlockKind::Text, 0),
                }
            }
            "details" => {
                let closed = !node.has_attr("open");
                self.flush(BlockKind::Text, 0);
                for child in node.children_it(false) {
                    let content = closed && !child.has_name("summary");
                    self.collapsed += u32::from(content);
                    self.node(&child);
                    if content {
                        self.flush(BlockKind::Text, 0);
                    }
                    self.collapsed -= u32::from(content);
                }
                self.flush(BlockKind::Text, 0);
            }
            _ if node.has_attr(COLLAPSED) => {
                self.flush(BlockKind::Text, 0);
                self.collapsed += 1;
                self.children(node);
                self.flush(BlockKind::Text, 0);
                self.collapsed -= 1;
            }
            _ if INLINE.contains(&name) => self.children(node),
            _ => {
                let chrome = matches!(name, "nav" | "footer" | "aside")
                    || node.attr("role").is_some_and(|r| {
                        matches!(&*r, "navigation" | "contentinfo" | "complementary" | "search" | "menu")
                    });
                self.chrome += u32::from(chrome);
                self.flush(BlockKind::Text, 0);
                self.children(node);
                self.flush(BlockKind::Text, 0);
                self.chrome -= u32::from(chrome);
            }
        }
    }

    /// Ends the current flow as one block.
    fn flush(&mut self, kind: BlockKind, level: u8) {
        let flow = std::mem::take(&mut self.flow);
        let text = flow.text.trim_end();
        if !text.chars().any(|c| c.is_alphanumeric() || !c.is_ascii()) {
            return;
        }
        let (kind, prefix) = match (kind, self.bullet.take(), self.list) {
            (BlockKind::Text, Some(bullet), depth) => (BlockKind::List, format!("{}{bullet}", indent(depth))),
            (BlockKind::Text, None, depth) if depth > 0 => (BlockKind::List, format!("{}  ", indent(depth))),
            (kind, _, _) => (kind, String::new()),
        };
        let text = match kind {
            BlockKind::Heading => text
                .trim_end_matches(['¶', '#', '§', '🔗'])
                .trim_end()
                .replace('\n', " "),
            BlockKind::List => format!("{prefix}{}", text.replace('\n', &format!("\n{}  ", indent(self.list)))),
            _ => text.to_owned(),
        };
        let end = text.len();
        let refs = flow
            .refs
            .into_iter()
            .map(|(at, link)| ((at + prefix.len()).min(end), link))
            .filter(|(at, _)| text.is_char_boundary(*at))
            .collect();
        self.put(kind, level, text, refs);
    }

    fn put(&mut self, kind: BlockKind, level: u8, text: String, refs: Vec<(usize, usize)>) {
        let block = Block {
            kind,
            level,
            text,
            refs,
            main: false,
            chrome: self.chrome > 0,
            collapsed: self.collapsed > 0,
        };
        self.blocks.push(block);
    }

    fn anchor(&mut self, node: &NodeRef<'_>) {
        let before = self.flow.text.len();
        let blocks = self.blocks.len();
        self.children(node);
        let href = node.attr("href").unwrap_or_default();
        // A link around blocks has no place within a line, and a mark without words names nothing.
        let inside = self.blocks.len() == blocks && self.flow.text.len() > before;
        if !inside || !self.flow.text[before..].chars().any(char::is_alphanumeric) {
            if inside
                && self.flow.text[before..]
                    .trim()
                    .chars()
                    .all(|c| matches!(c, '¶' | '#' | '§' | '🔗'))
            {
                self.flow.text.truncate(before);
            }
            return;
        }
        if let Some(link) = self.link(&href) {
            self.flow.refs.push((self.flow.text.len(), link));
        }
    }

    fn link(&mut self, href: &str) -> Option<usize> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') || href.len() > 4 * MAX_LINK {
            return None;
        }
        let mut url = self.base.join(href).ok()?;
        let web = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
        if !web || url.as_str().len() > MAX_LINK {
            return None;
        }
        url.set_fragment(None);
        if url == *self.base {
            return None;
        }
        let url = String::from(url);
        if let Some(&n) = self.known.get(&url) {
            return Some(n);
        }
        if self.links.len() >= MAX_LINKS {
            return None;
        }
        self.links.push(Link { url: url.clone() });
        self.known.insert(url, self.links.len() - 1);
        Some(self.links.len() - 1)
    }

    fn inline_code(&mut self, node: &NodeRef<'_>) {
        let text = node.text();
        if node.first_element_child().is_some_and(|c| c.has_name("pre")) || text.contains('`') || text.trim().is_empty()
        {
            self.children(node);
            return;
        }
        // `code` inside `code` and links inside code are common in API pages; the link is kept, the marks are not doubled.
        let open = !self.flow.text.ends_with('`');
        if open {
            self.flow.push("`");
        }
        let before = self.flow.text.len();
        self.children(node);
        let inner = self.flow.text.len() > before && !self.flow.text.ends_with('`');
        if open && inner {
            self.flow.text.push('`');
            for (at, _) in self
                .flow
                .refs
                .iter_mut()
                .filter(|(at, _)| *at == self.flow.text.len() - 1)
            {
                *at += 1;
            }
        }
    }

    fn code(&mut self, node: &NodeRef<'_>) {
        self.flush(BlockKind::Text, 0);
        let text = pre_text(node);
        let gutter = text.lines().all(|l| l.trim().chars().all(|c| c.is_ascii_digit()))
            && node.ancestors(Some(6)).iter().any(|a| a.has_name("td"));
        if !text.trim().is_empty() && !gutter {
            self.bullet = None;
            self.put(BlockKind::Code, 0, text, Vec::new());
        }
    }

    fn list(&mut self, node: &NodeRef<'_>, numbered: bool) {
        self.flush(BlockKind::Text, 0);
        self.list += 1;
        let mut number: i64 = node.attr("start").and_then(|s| s.parse().ok()).unwrap_or(1);
        for item in node.children_it(false) {
            if !item.has_name("li") {
                self.node(&item);
                continue;
            }
            self.flush(BlockKind::Text, 0);
            self.bullet = Some(if numbered {
                format!("{number}. ")
            } else {
                "- ".to_owned()
            });
            number = number.saturating_add(1);
            self.children(&item);
            self.flush(BlockKind::Text, 0);
            self.bullet = None;
        }
        self.list -= 1;
    }

    fn table(&mut self, node: &NodeRef<'_>) {
        self.flush(BlockKind::Text, 0);
        let mut text = String::new();
        let mut refs = Vec::new();
        let mut rows = 0;
        for row in rows_of(node) {
            let mut cells = 0;
            let mut header = true;
            for cell in row.element_children() {
                let is_header = cell.has_name("th");
                if !is_header && !cell.has_name("td") {
                    continue;
                }
                header &= is_header;
                if cells > 0 {
                    text.push_str(" | ");
                }
                cells += 1;
                let (inner, links) = self.cell(&cell);
                refs.extend(links.into_iter().map(|(at, link)| (text.len() + at, link)));
                text.push_str(&inner);
            }
            if cells == 0 {
                continue;
            }
            text.push('\n');
            if header && rows == 0 {
                text.push_str(&vec!["---"; cells].join(" | "));
                text.push('\n');
            }
            rows += 1;
        }
        if let Some(caption) = node.element_children().iter().find(|c| c.has_name("caption")) {
            self.children(caption);
            self.flush(BlockKind::Text, 0);
        }
        let trimmed = text.trim_end().len();
        text.truncate(trimmed);
        if text.chars().any(char::is_alphanumeric) {
            self.bullet = None;
            self.put(BlockKind::Table, 0, text, refs);
        }
    }

    /// The text of one cell on one line, and the links in it.
    fn cell(&mut self, cell: &NodeRef<'_>) -> (String, Vec<(usize, usize)>) {
        let outer = std::mem::take(&mut self.flow);
        let blocks = self.blocks.len();
        let (list, bullet) = (std::mem::take(&mut self.list), self.bullet.take());
        self.children(cell);
        self.flush(BlockKind::Text, 0);
        (self.list, self.bullet) = (list, bullet);
        self.flow = outer;
        let mut text = String::new();
        let mut refs = Vec::new();
        for block in self.blocks.split_off(blocks) {
            if !text.is_empty() {
                text.push(' ');
            }
            refs.extend(block.refs.iter().map(|(at, link)| (text.len() + at, *link)));
            // Same length, so that the places of links stay right.
            text.push_str(&block.text.replace(['\n', '|'], " "));
        }
        (text, refs)
    }
}

fn indent(depth: u32) -> String {
    "  ".repeat(depth.saturating_sub(1).min(10) as usize)
}
