//! XML, RSS and Atom.

use super::{Block, Link, Page, hidden};
use picktwo_wire::answer::BlockKind;
use reqwest::Url;

/// Bytes of one block.
const PIECE: usize = 1200;
/// Elements inside each other whose names are kept.
const MAX_NAMES: usize = 1000;

/// One piece of an XML document.
enum Token<'a> {
    /// Name and attributes as they are written.
    Open(&'a str, &'a str),
    Close,
    Text(String),
}

/// Reads the tokens of XML that matter for its text. Entities of a document type are not expanded.
fn tokens(xml: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut rest = xml;
    while !rest.is_empty() {
        let Some(at) = rest.find('<') else {
            out.push(Token::Text(unescape(rest)));
            break;
        };
        if at > 0 {
            out.push(Token::Text(unescape(&rest[..at])));
        }
        rest = &rest[at..];
        let until = |rest: &str, end: &str| rest.find(end).map_or(rest.len(), |e| e + end.len());
        if let Some(data) = rest.strip_prefix("<![CDATA[") {
            let end = data.find("]]>").unwrap_or(data.len());
            out.push(Token::Text(data[..end].to_owned()));
            rest = data.get(end + 3..).unwrap_or("");
        } else if rest.starts_with("<!--") {
            rest = &rest[until(rest, "-->")..];
        } else if rest.starts_with("<?") || rest.starts_with("<!") {
            // A document type may have a subset in brackets.
            let bracket = rest.find('[').filter(|b| rest.find('>').is_some_and(|g| *b < g));
            rest = &rest[until(rest, if bracket.is_some() { "]>" } else { ">" })..];
        } else {
            let end = until(rest, ">");
            let tag = rest[1..end].trim_end_matches('>');
            if tag.starts_with('/') {
                out.push(Token::Close);
            } else {
                let whole = tag.trim_end_matches('/');
                let end = whole.find(char::is_whitespace).unwrap_or(whole.len());
                out.push(Token::Open(&whole[..end], whole[end..].trim()));
                if tag.ends_with('/') {
                    out.push(Token::Close);
                }
            }
            rest = &rest[end..];
        }
    }
    out
}

fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').filter(|e| *e <= 10);
        let resolved = end.and_then(|e| match &rest[1..e] {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            "nbsp" => Some(' '),
            number => {
                let code = number.strip_prefix('#')?;
                let code = code
                    .strip_prefix(['x', 'X'])
                    .map_or_else(|| code.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
                char::from_u32(code?)
            }
        });
        match (end, resolved) {
            (Some(end), Some(c)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            _ => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Reads XML: the text of its elements by name, with their attributes; in feeds, each item under its title.
pub(super) fn read(text: &str, url: &Url) -> Page {
    let mut reader = Reader {
        page: Page::default(),
        base: url,
        names: Vec::new(),
        value: String::new(),
        lines: Vec::new(),
        item: false,
    };
    for token in tokens(text) {
        match token {
            Token::Open(name, attributes) => reader.open(local(name), attributes),
            Token::Text(text) => reader.value.push_str(&text),
            Token::Close => reader.close(),
        }
    }
    reader.flush();
    reader.page
}

/// A name without its prefix.
fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

struct Reader<'t> {
    page: Page,
    base: &'t Url,
    /// The elements that are open, each with its attributes.
    names: Vec<(&'t str, &'t str)>,
    value: String,
    lines: Vec<String>,
    /// An item of a feed is open.
    item: bool,
}

impl<'t> Reader<'t> {
    fn flush(&mut self) {
        if !self.lines.is_empty() {
            let text = std::mem::take(&mut self.lines).join("\n");
            self.page.blocks.push(Block::new(BlockKind::Text, 0, text));
        }
    }

    fn open(&mut self, name: &'t str, attributes: &'t str) {
        // Text before an element inside an element: a document, not data.
        let before = std::mem::take(&mut self.value);
        if !before.trim().is_empty() {
            self.line(before.trim().to_owned());
        }
        if matches!(name, "item" | "entry") {
            self.flush();
            self.item = true;
        }
        // No deeper than this does anybody ask for a name.
        if self.names.len() < MAX_NAMES {
            self.names.push((name, attributes));
        } else {
            self.names.push(("", ""));
        }
    }

    fn close(&mut self) {
        let (name, attributes) = self.names.pop().unwrap_or_default();
        let shown = readable(self.value.trim());
        self.value.clear();
        if matches!(name, "item" | "entry") {
            self.flush();
            self.item = false;
            return;
        }
        if name == "title" && !shown.is_empty() {
            return self.title(shown);
        }
        if name == "link" && self.item {
            let alternate = attribute(attributes, "rel").is_none_or(|r| r == "alternate");
            let target = attribute(attributes, "href").unwrap_or_else(|| shown.clone());
            if alternate && self.link(&target) {
                return;
            }
        }
        if shown.is_empty() && attributes.is_empty() {
            return;
        }
        let mut line = name.to_owned();
        if !attributes.is_empty() {
            line.push(' ');
            line.push_str(&unescape(attributes));
        }
        if !shown.is_empty() {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(&shown);
        }
        self.line(line);
    }

    fn line(&mut self, line: String) {
        self.lines.push(line);
        if self.lines.iter().map(String::len).sum::<usize>() > PIECE {
            self.flush();
        }
    }

    fn title(&mut self, shown: String) {
        self.flush();
        if self.page.title.is_empty() {
            self.page.title.clone_from(&shown);
        }
        let level = if self.item { 2 } else { 1 };
        self.page.blocks.push(Block::new(BlockKind::Heading, level, shown));
    }

    /// Notes the link of an item, as a line of its own with a reference; says whether there was one.
    fn link(&mut self, target: &str) -> bool {
        let Ok(mut url) = self.base.join(target.trim()) else {
            return false;
        };
        url.set_fragment(None);
        let plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
        if !plain || target.trim().is_empty() || url.as_str().len() > 500 {
            return false;
        }
        self.flush();
        let text = format!("link: {url}");
        let mut block = Block::new(BlockKind::Text, 0, text);
        block.refs.push((block.text.len(), self.page.links.len()));
        self.page.links.push(Link { url: url.into() });
        self.page.blocks.push(block);
        true
    }
}

/// The value of an attribute.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes;
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let quote = after.chars().next().filter(|q| matches!(q, '"' | '\''))?;
        let (value, next) = after[1..].split_once(quote)?;
        if local(key.trim()) == name {
            return Some(unescape(value));
        }
        rest = next;
    }
    None
}

/// Text of an element, which in feeds is HTML more often than not.
fn readable(value: &str) -> String {
    if !(value.contains('<') && value.contains('>')) || super::bounded(value).is_err() {
        return value.to_owned();
    }
    let document = dom_query::Document::fragment(value);
    super::flatten(&document);
    hidden::remove(&document, false);
    document.formatted_text().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        read(text, &Url::parse("https://a.example/feed").expect("a URL"))
    }

    #[test]
    fn feeds_become_items_under_their_titles() {
        let feed = "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e 'MARK'>]><rss><channel><title>Blog &amp; more</title><!-- MARK -->
            <item><title>One</title><link>https://a.example/1</link><description><![CDATA[<p>Hello <b>there</b></p><p style='display:none'>MARK</p>]]></description></item>
            <item><title>Two</title><description>&lt;p&gt;Escaped&lt;/p&gt; &e;</description></item></channel></rss>";
        let page = page(feed);
        let all: String = page.blocks.iter().map(|b| format!("{}|", b.text)).collect();
        assert_eq!(page.title, "Blog & more");
        assert!(!all.contains("MARK"), "{all}");
        assert!(
            all.contains("One|link: https://a.example/1|description: Hello there|Two|description: Escaped"),
            "{all}"
        );
    }

    #[test]
    fn broken_xml_ends() {
        for source in [
            "<",
            "<a",
            "<![CDATA[",
            "<!--",
            "<!DOCTYPE [",
            "</a></b>",
            "&#x110000; &bogus; &",
            "<a/><b/>text",
        ] {
            let _ = page(source);
        }
    }

    #[test]
    fn atom_links_and_attributes_are_kept() {
        let feed = page(
            r#"<feed xmlns="http://www.w3.org/2005/Atom"><title>Releases</title><entry><title type="html">v2 &amp;lt;b&amp;gt;</title>
            <link rel="edit" href="/edit"/><link href="/r/2?a=1&amp;b=2"/><updated>2026-01-01</updated></entry></feed>"#,
        );
        assert_eq!(feed.links[0].url, "https://a.example/r/2?a=1&b=2");
        assert!(
            feed.blocks.iter().any(|b| b.text.contains("updated: 2026-01-01")),
            "{:?}",
            feed.blocks
        );
        let project =
            page(r#"<Project><ItemGroup><PackageReference Include="Serilog" Version='2.1'/></ItemGroup></Project>"#);
        assert_eq!(
            project.blocks[0].text,
            r#"PackageReference Include="Serilog" Version='2.1'"#
        );
    }
}
