//! Documents that are no pages: plain text, JSON, XML and feeds.

use super::{Block, Page, hidden};
use picktwo_wire::answer::BlockKind;

/// Bytes of one block of a document without blocks of its own.
const PIECE: usize = 1200;

/// Plain text: paragraphs, and what is laid out by hand as it is.
pub(super) fn text(text: &str) -> Page {
    let mut page = Page::default();
    let mut paragraph: Vec<&str> = Vec::new();
    for line in text.lines().chain([""]) {
        if !line.trim().is_empty() {
            paragraph.push(line);
            // A file without blank lines is cut where it is long.
            if paragraph.iter().map(|l| l.len()).sum::<usize>() < 4 * PIECE {
                continue;
            }
        }
        if paragraph.is_empty() {
            continue;
        }
        // Indentation, columns and braces are the form of code, of tables and of output.
        let formed = paragraph
            .iter()
            .filter(|l| l.starts_with([' ', '\t']) || l.trim().contains("  ") || l.ends_with(['{', '}', ';']))
            .count();
        let kind = if 2 * formed >= paragraph.len() {
            BlockKind::Code
        } else {
            BlockKind::Text
        };
        page.blocks.push(Block::new(kind, 0, paragraph.join("\n")));
        paragraph.clear();
    }
    page
}

/// JSON, laid out with one entry a line and cut between entries. It is not parsed into values: numbers, order and duplicates
/// stay as they are.
pub(super) fn json(text: &str) -> Page {
    let laid_out = if text.lines().take(50).count() >= 20 {
        text.to_owned()
    } else {
        lay_out(text)
    };
    let mut page = Page::default();
    let mut piece = String::new();
    for line in laid_out.lines() {
        let shallow = line.len() - line.trim_start().len() <= 4;
        if piece.len() + line.len() > PIECE && shallow || piece.len() > 4 * PIECE {
            page.blocks
                .push(Block::new(BlockKind::Code, 0, std::mem::take(&mut piece)));
        }
        piece.push_str(line);
        piece.push('\n');
    }
    if !piece.trim().is_empty() {
        page.blocks.push(Block::new(BlockKind::Code, 0, piece));
    }
    page
}

/// Puts line ends and indentation between the tokens of JSON.
fn lay_out(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 5 / 4);
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth.min(20)));
    };
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.peek().is_some_and(|c| c.is_whitespace()) {
                    chars.next();
                }
                if matches!(chars.peek(), Some('}' | ']')) {
                    out.extend(chars.next());
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// One piece of an XML document.
enum Token<'a> {
    Open(&'a str),
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
                let name = tag.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or("");
                out.push(Token::Open(name));
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

/// XML: the text of its elements by name; in feeds, each item under its title.
pub(super) fn xml(text: &str) -> Page {
    let mut page = Page::default();
    let mut names: Vec<&str> = Vec::new();
    let mut value = String::new();
    let mut lines: Vec<String> = Vec::new();
    let flush = |page: &mut Page, lines: &mut Vec<String>| {
        if !lines.is_empty() {
            page.blocks
                .push(Block::new(BlockKind::Text, 0, std::mem::take(lines).join("\n")));
        }
    };
    for token in tokens(text) {
        match token {
            Token::Open(name) => {
                if matches!(name, "item" | "entry") {
                    flush(&mut page, &mut lines);
                }
                if names.len() < 1000 {
                    names.push(name);
                }
                value.clear();
            }
            Token::Text(text) => value.push_str(&text),
            Token::Close => {
                let name = names.pop().unwrap_or("");
                let shown = readable(value.trim());
                value.clear();
                if shown.is_empty() {
                    continue;
                }
                if name == "title" {
                    let level = if names.iter().any(|n| matches!(*n, "item" | "entry")) {
                        2
                    } else {
                        1
                    };
                    flush(&mut page, &mut lines);
                    if page.title.is_empty() {
                        page.title.clone_from(&shown);
                    }
                    page.blocks.push(Block::new(BlockKind::Heading, level, shown));
                    continue;
                }
                lines.push(if name.is_empty() {
                    shown
                } else {
                    format!("{name}: {shown}")
                });
                if lines.iter().map(String::len).sum::<usize>() > PIECE {
                    flush(&mut page, &mut lines);
                }
            }
        }
    }
    flush(&mut page, &mut lines);
    page
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

    fn shape(page: &Page) -> Vec<(BlockKind, &str)> {
        page.blocks.iter().map(|b| (b.kind, b.text.as_str())).collect()
    }

    #[test]
    fn plain_text_keeps_its_form() {
        let page = text("A line\nof prose.\n\nfn main() {\n    x();\n}\n\nlast");
        assert_eq!(
            shape(&page),
            [
                (BlockKind::Text, "A line\nof prose."),
                (BlockKind::Code, "fn main() {\n    x();\n}"),
                (BlockKind::Text, "last")
            ]
        );
    }

    #[test]
    fn json_is_laid_out_without_changing_a_token() {
        let source = r#"{"a":1e400,"a":{"b":[1, 2,{}],"c":"x,\"{y}"},"d":[]}"#;
        let page = json(source);
        assert_eq!(
            page.blocks[0].text,
            "{\n  \"a\": 1e400,\n  \"a\": {\n    \"b\": [\n      1,\n      2,\n      {}\n    ],\n    \"c\": \"x,\\\"{y}\"\n  },\n  \"d\": []\n}\n"
        );
    }

    #[test]
    fn long_json_is_cut_between_entries() {
        let entries: Vec<String> = (0..200)
            .map(|n| format!("{{\"id\":{n},\"name\":\"entry number {n}\"}}"))
            .collect();
        let page = json(&format!("[{}]", entries.join(",")));
        assert!(page.blocks.len() > 5);
        assert!(page.blocks.iter().all(|b| b.text.len() < 2 * PIECE));
        assert_eq!(
            page.blocks
                .iter()
                .map(|b| b.text.matches("\"id\"").count())
                .sum::<usize>(),
            200
        );
    }

    #[test]
    fn feeds_become_items_under_their_titles() {
        let feed = "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e 'MARK'>]><rss><channel><title>Blog &amp; more</title><!-- MARK -->
            <item><title>One</title><link>https://a.example/1</link><description><![CDATA[<p>Hello <b>there</b></p><p style='display:none'>MARK</p>]]></description></item>
            <item><title>Two</title><description>&lt;p&gt;Escaped&lt;/p&gt; &e;</description></item></channel></rss>";
        let page = xml(feed);
        let all: String = page.blocks.iter().map(|b| format!("{}|", b.text)).collect();
        assert_eq!(page.title, "Blog & more");
        assert!(!all.contains("MARK"), "{all}");
        assert!(
            all.contains("One|link: https://a.example/1\ndescription: Hello there|Two|description: Escaped"),
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
            let _ = xml(source);
        }
    }
}
