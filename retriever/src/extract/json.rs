//! JSON: cut between entries, each piece under the path that leads to it. Numbers, order and duplicates stay as they are.

use super::{Block, Page, plain};
use picktwo_wire::answer::BlockKind;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Bytes of one block.
const PIECE: usize = 600;
/// Levels that are cut into pieces; what lies deeper is laid out and cut by lines.
const MAX_LEVELS: usize = 6;
/// Bytes from which on a text with line ends inside JSON is shown as text.
const LONG: usize = 400;

/// What stands above entries of the whole document that follow a cut one.
const TOP: &str = "(top level)";

/// Reads JSON, JSON lines, and what is nearly JSON.
pub(super) fn read(text: &str) -> Page {
    let mut page = Page::default();
    let text = text.trim_start_matches('\u{feff}').trim();
    if let Some(value) = raw(text) {
        value_blocks(value, &[], &mut page.blocks);
        return page;
    }
    // One document a line.
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let values: Vec<&str> = lines.iter().filter_map(|line| raw(line)).collect();
    if values.len() > 1 && values.len() == lines.len() {
        let entries = values.into_iter().enumerate();
        entry_blocks(entries.map(|(n, v)| (format!("[{n}]"), None, v)), &[], &mut page.blocks);
        return page;
    }
    // Cut off, with comments, or something else that is called so: nothing that is not JSON is laid out as if it were.
    if text.starts_with(['{', '[']) && !text.contains('\n') && !text.contains("//") {
        pieces(&lay_out(text), &mut page.blocks);
    } else if text.starts_with(['{', '[', '/']) {
        pieces(text, &mut page.blocks);
    } else {
        return plain::text(text);
    }
    page
}

fn raw(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

/// An entry: what it is called in a path, its key as it is written, its value.
type Entry<'a> = (String, Option<String>, &'a str);

fn value_blocks(value: &str, path: &[String], blocks: &mut Vec<Block>) {
    let small = value.len() <= PIECE;
    match entries(value).filter(|_| !small && path.len() < MAX_LEVELS) {
        Some(entries) => entry_blocks(entries.into_iter(), path, blocks),
        None => {
            under(path, blocks);
            match long_text(value) {
                Some(text) => blocks.extend(plain::text(&text).blocks),
                None => pieces(&lay_out_unless_done(value), blocks),
            }
        }
    }
}

/// Small entries that follow each other are one block, a large one is cut into its own.
fn entry_blocks<'a>(entries: impl Iterator<Item = Entry<'a>>, path: &[String], blocks: &mut Vec<Block>) {
    let mut piece = String::new();
    let put = |piece: &mut String, blocks: &mut Vec<Block>| {
        if !piece.is_empty() {
            under(path, blocks);
            blocks.push(Block::new(BlockKind::Code, 0, std::mem::take(piece)));
        }
    };
    for (name, key, value) in entries {
        if value.len() > PIECE {
            put(&mut piece, blocks);
            let mut below = path.to_vec();
            below.push(name);
            value_blocks(value, &below, blocks);
            continue;
        }
        if piece.len() + value.len() > PIECE {
            put(&mut piece, blocks);
        }
        if let Some(key) = key {
            piece.push_str(&key);
            piece.push_str(": ");
        }
        piece.push_str(lay_out(value).trim_end());
        piece.push_str(",\n");
    }
    put(&mut piece, blocks);
}

/// Puts the path above what follows, unless it is there already.
fn under(path: &[String], blocks: &mut Vec<Block>) {
    let mut current: Vec<&str> = vec![""; MAX_LEVELS + 1];
    for heading in blocks.iter().filter(|b| b.kind == BlockKind::Heading) {
        let level = usize::from(heading.level);
        current[level..].fill("");
        current[level] = &heading.text;
    }
    let mut known = path
        .iter()
        .enumerate()
        .take_while(|(n, p)| current[n + 1] == p.as_str())
        .count();
    // Nothing closes a heading but one of its own level or above.
    if known == path.len() && current.get(known + 1).is_some_and(|below| !matches!(*below, "" | TOP)) {
        if path.is_empty() {
            blocks.push(Block::new(BlockKind::Heading, 1, TOP.to_owned()));
            return;
        }
        known -= 1;
    }
    for (n, name) in path.iter().enumerate().skip(known) {
        blocks.push(Block::new(BlockKind::Heading, (n + 1) as u8, name.clone()));
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<Entry<'de>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let name: String = serde_json::from_str(key.get()).unwrap_or_default();
            entries.push((name, Some(key.get().to_owned()), value.get()));
        }
        Ok(entries)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(value) = seq.next_element::<&RawValue>()? {
            entries.push((format!("[{}]", entries.len()), None, value.get()));
        }
        Ok(entries)
    }
}

/// What an object or an array holds; none for anything else.
fn entries(value: &str) -> Option<Vec<Entry<'_>>> {
    if !value.starts_with(['{', '[']) {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(value);
    reader.deserialize_any(Entries).ok()
}

fn long_text(value: &str) -> Option<String> {
    if value.len() < LONG || !value.starts_with('"') || !value.contains("\\n") {
        return None;
    }
    serde_json::from_str(value).ok()
}

fn pieces(laid_out: &str, blocks: &mut Vec<Block>) {
    let mut piece = String::new();
    for line in laid_out.lines() {
        let shallow = line.len() - line.trim_start().len() <= 4;
        if piece.len() + line.len() > PIECE && shallow || piece.len() > 4 * PIECE {
            blocks.push(Block::new(BlockKind::Code, 0, std::mem::take(&mut piece)));
        }
        piece.push_str(line);
        piece.push('\n');
    }
    if !piece.trim().is_empty() {
        blocks.push(Block::new(BlockKind::Code, 0, piece));
    }
}

/// Lays out what is not written with line ends already.
fn lay_out_unless_done(json: &str) -> String {
    if json.lines().take(50).count() >= 20 {
        json.to_owned()
    } else {
        lay_out(json)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_without_changing_a_token() {
        let source = r#"{"a":1e400,"a":{"b":[1, 2,{}],"c":"x,\"{y}"},"d":[]}"#;
        let page = read(source);
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
        let page = read(&format!("[{}]", entries.join(",")));
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
    fn pieces_stand_under_the_path_that_leads_to_them() {
        let files: Vec<String> = (0..60)
            .map(|n| format!("\"f{n}\":\"a file with the number {n}\""))
            .collect();
        let prose = "Line of the text.\\n\\n".repeat(90);
        let source = format!(
            "{{\"name\":\"x\",\"dist\":{{\"files\":{{{}}},\"size\":1}},\"readme\":\"# Title\\n\\n{prose}\"}}",
            files.join(",")
        );
        let page = read(&source);
        let shape: Vec<(BlockKind, u8, &str)> = page
            .blocks
            .iter()
            .map(|b| (b.kind, b.level, b.text.split('\n').next().unwrap_or("")))
            .collect();
        assert_eq!(shape[0], (BlockKind::Code, 0, "\"name\": \"x\","));
        assert_eq!(shape[1], (BlockKind::Heading, 1, "dist"));
        assert_eq!(shape[2], (BlockKind::Heading, 2, "files"));
        assert_eq!(shape[3], (BlockKind::Code, 0, "\"f0\": \"a file with the number 0\","));
        let after = shape
            .iter()
            .position(|s| s.2 == "\"size\": 1,")
            .expect("the entry behind the large one");
        assert_eq!(shape[after - 1], (BlockKind::Heading, 1, "dist"), "{shape:?}");
        let readme = shape.iter().position(|s| s.2 == "readme").expect("the key");
        assert_eq!(shape[readme + 1], (BlockKind::Text, 0, "# Title"));
    }

    #[test]
    fn lines_of_json_and_what_is_nearly_json_are_read() {
        let lines: String = (0..100)
            .map(|n| format!("{{\"n\":{n},\"text\":\"entry {n} of many\"}}\n"))
            .collect();
        let page = read(&lines);
        assert!(page.blocks.len() > 2 && page.blocks.iter().all(|b| b.text.len() < 2 * PIECE));
        assert_eq!(read("not JSON at all").blocks[0].text, "not JSON at all");
        assert_eq!(
            read("{ // a comment\n  \"a\": 1\n}").blocks[0].text,
            "{ // a comment\n  \"a\": 1\n}\n"
        );
        assert_eq!(read("{\"a\":[1,2").blocks[0].text, "{\n  \"a\": [\n    1,\n    2\n");
        let deep = "[".repeat(200_000);
        read(&deep);
        read(&format!("{deep}{}", "]".repeat(200_000)));
        let page = read("{\"a\":".repeat(5000).as_str());
        assert!(!page.blocks.is_empty());
    }
}
