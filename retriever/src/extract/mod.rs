//! Reads a document into blocks of text and says which of them are its content.

mod blocks;
mod color;
mod css;
mod hidden;
mod json;
mod markdown;
mod notebook;
#[cfg(feature = "pdf")]
mod pdf;
mod plain;
mod select;
mod shape;
mod style;
mod xml;

use crate::fetch::{Document, FetchError, Kind, Large};
use picktwo_wire::answer::{BlockKind, Flag};
use reqwest::Url;

/// Levels of elements inside each other; a browser stops at 512.
const MAX_DEPTH: usize = 250;
/// Elements and text pieces of one page.
const MAX_TAGS: usize = 400_000;
/// Elements that were opened and not closed, beside those whose end tag is optional.
const MAX_OPEN: usize = 1000;

/// How many times the shown text the hidden text has to be for a page to be one that its scripts show.
const VEILED: u64 = 6;

/// A document as blocks, in its own order.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// All visible text.
    pub blocks: Vec<Block>,
    /// The links that [`Block::refs`] name.
    pub links: Vec<Link>,
    /// What was noticed.
    pub flags: Vec<Flag>,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// 1 to 6 for a heading, else 0.
    pub level: u8,
    /// The text; code byte for byte.
    pub text: String,
    /// Byte offsets in `text` behind which a link stands, with its index in [`Page::links`].
    pub refs: Vec<(usize, usize)>,
    /// Belongs to the content, not to what surrounds it.
    pub main: bool,
    /// Stands in navigation, a footer or an aside.
    pub chrome: bool,
    /// Stands in a `details` element that is closed.
    pub collapsed: bool,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Absolute http or https URL, host in ASCII, without fragment.
    pub url: String,
}

impl Block {
    pub(crate) fn new(kind: BlockKind, level: u8, text: String) -> Self {
        Self {
            kind,
            level,
            text,
            refs: Vec::new(),
            main: true,
            chrome: false,
            collapsed: false,
        }
    }
}

/// Reads a document.
///
/// # Errors
/// [`FetchError::TooLarge`] and [`FetchError::Timeout`] if it is built to exhaust whoever reads it, [`FetchError::Encoding`] if it is
/// malformed beyond reading.
pub fn read(document: &Document) -> Result<Page, FetchError> {
    let (text, url) = (document.text.as_str(), &document.url);
    Ok(match document.kind {
        Kind::Html => html(text, url)?,
        Kind::Markdown => markdown::read(text, url),
        Kind::Json => json::read(text),
        Kind::Notebook => notebook::read(text, url),
        Kind::Xml => xml::read(text, url),
        Kind::Source => plain::source(text),
        Kind::Plain => plain::text(text),
        #[cfg(feature = "pdf")]
        Kind::Pdf => pdf::read(&document.body)?,
    })
}

/// Reads Markdown that is a part of something else.
pub(crate) fn markdown(text: &str, url: &Url) -> Page {
    markdown::read(text, url)
}

/// Reads HTML.
///
/// # Errors
/// [`FetchError::TooLarge`] as for [`read`].
pub fn html(text: &str, url: &Url) -> Result<Page, FetchError> {
    html_with(text, url, true)
}

fn html_with(text: &str, url: &Url, remove_hidden: bool) -> Result<Page, FetchError> {
    bounded(text)?;
    let mut document = dom_query::Document::from(text);
    flatten(&document);
    let mut page = Page::default();
    if remove_hidden {
        let mut hidden = hidden::remove(&document, false);
        if hidden.characters + hidden.fallback > VEILED * shown(&document) {
            document = dom_query::Document::from(text);
            flatten(&document);
            hidden = hidden::remove(&document, true);
            let note = "nearly all of the page is hidden until a script shows it: it was read as if shown".to_owned();
            page.flags.push(Flag {
                id: "veiled".to_owned(),
                count: 1,
                note,
            });
        }
        if hidden.total() > 0 {
            page.flags.push(Flag {
                id: "hidden-text".to_owned(),
                count: hidden.total(),
                note: hidden.note(),
            });
        }
        if hidden.incomplete {
            let note = "the page's style sheets are too large to be read whole: hidden text may be left".to_owned();
            page.flags.push(Flag {
                id: "styles-unread".to_owned(),
                count: 1,
                note,
            });
        }
    }
    let base = document
        .base_uri()
        .and_then(|b| url.join(&b).ok())
        .filter(|b| matches!(b.scheme(), "http" | "https"));
    let base = base.as_ref().unwrap_or(url);
    page.title = document.select_single("head title, title").text().trim().to_owned();

    let content = main_text(&document.html(), url);
    let mut collector = blocks::Collector::new(base);
    collector.read(&document.body().unwrap_or_else(|| document.root()));
    page.blocks = collector.blocks;
    page.links = collector.links;
    select::mark(&mut page.blocks, &content);
    let collapsed = page.blocks.iter().filter(|b| b.main && b.collapsed).count() as u64;
    if collapsed > 0 {
        let note = "text that the page shows only when it is opened is labelled [collapsed]".to_owned();
        page.flags.push(Flag {
            id: "collapsed".to_owned(),
            count: collapsed,
            note,
        });
    }
    Ok(page)
}

/// Characters of the page that a reader sees, navigation and the like left out.
fn shown(document: &dom_query::Document) -> u64 {
    let Some(body) = document.body() else { return 0 };
    let base = Url::parse("https://picktwo.invalid/").expect("a constant URL");
    let mut collector = blocks::Collector::new(&base);
    collector.read(&body);
    collector
        .blocks
        .iter()
        .filter(|b| !b.chrome)
        .map(|b| b.text.chars().filter(|c| !c.is_whitespace()).count() as u64)
        .sum()
}

/// What the extractor takes for the content, as plain text; empty if it fails.
fn main_text(html: &str, url: &Url) -> String {
    let options = rs_trafilatura::Options {
        url: Some(url.to_string()),
        include_tables: true,
        ..Default::default()
    };
    // Its mistakes on strange pages cost the choice of blocks, not the answer.
    let extracted = std::panic::catch_unwind(|| rs_trafilatura::extract_with_options(html, &options));
    extracted
        .ok()
        .and_then(Result::ok)
        .map(|r| r.content_text)
        .unwrap_or_default()
}

/// Refuses pages that only exist to exhaust a parser, before one sees them.
fn bounded(html: &str) -> Result<(), FetchError> {
    const OPTIONAL: &[&str] = &[
        "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "colgroup", "rt", "rp", "body",
        "html", "head", "br", "img", "input", "hr", "meta", "link", "area", "base", "col", "embed", "param", "source",
        "track", "wbr", "path", "circle", "rect", "use",
    ];
    let (mut tags, mut open) = (0usize, 0usize);
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        tags += 1;
        if tags > MAX_TAGS {
            return Err(FetchError::TooLarge(Large::Elements));
        }
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end..]);
            continue;
        }
        let closing = rest.starts_with('/');
        let name_at = usize::from(closing);
        let length = rest[name_at..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .unwrap_or(0);
        let name = &rest[name_at..name_at + length];
        if name.is_empty() || OPTIONAL.iter().any(|o| o.eq_ignore_ascii_case(name)) {
            continue;
        }
        // Their content is no markup.
        if !closing
            && let Some(end) = ["script", "style", "textarea"]
                .iter()
                .find(|r| r.eq_ignore_ascii_case(name))
        {
            rest = skip_raw(rest, end);
        } else if closing {
            open = open.saturating_sub(1);
        } else if !rest[..rest.find('>').unwrap_or(rest.len())].ends_with('/') {
            open += 1;
            if open > MAX_OPEN {
                return Err(FetchError::TooLarge(Large::Nesting));
            }
        }
    }
    Ok(())
}

/// What follows the content of an element that holds raw text.
fn skip_raw<'a>(rest: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(at) = rest[from..].find("</") {
        let after = &rest[from + at + 2..];
        if after.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name)) {
            return after;
        }
        from += at + 2;
    }
    ""
}

/// Replaces what lies too deep by its text, so that everything after may recurse.
fn flatten(document: &dom_query::Document) {
    let mut stack = vec![(document.root(), 0)];
    while let Some((node, depth)) = stack.pop() {
        if depth >= MAX_DEPTH && node.is_element() {
            let text = node.text();
            node.set_text(text);
            continue;
        }
        stack.extend(node.children_it(false).map(|c| (c, depth + 1)));
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
