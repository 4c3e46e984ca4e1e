//! Lines, paragraphs, headings and code, from characters and their places.

use super::page::{Character, Drawn};
use crate::extract::Block;
use picktwo_wire::answer::BlockKind;
use std::collections::HashMap;

/// Share of a page's height at its upper and lower edge where its number stands.
const MARGIN: f64 = 0.1;

/// A line, as it was drawn from left to right.
struct Line {
    x: f64,
    y: f64,
    /// Where its last character ends.
    end: f64,
    size: f64,
    text: String,
    /// The advance that all of its characters have, if it is one and there are narrow and wide ones among them.
    pitch: Option<f64>,
    page: usize,
}

/// The blocks of a document; hidden characters only if `all`.
pub(super) fn blocks(pages: &[Drawn], all: bool) -> Vec<Block> {
    let mut lines = Vec::new();
    for (n, page) in pages.iter().enumerate() {
        let seen = page.glyphs.iter().filter(|g| all || !g.hidden);
        let margin = page.height * MARGIN;
        // A number alone at the edge is the page's own.
        let is_number = |l: &Line| {
            let at_edge = l.y < margin || l.y > page.height - margin;
            at_edge && l.text.trim().len() <= 4 && l.text.trim().bytes().all(|b| b.is_ascii_digit())
        };
        lines.extend(self::lines(seen, n).into_iter().filter(|l| !is_number(l)));
    }
    let usual = usual_size(&lines);
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let kind = kind(&lines[at], usual);
        let mut end = at + 1;
        while end < lines.len() && self::kind(&lines[end], usual) == kind && belongs(&lines[end - 1], &lines[end], kind)
        {
            end += 1;
        }
        let block = &lines[at..end];
        let text = if kind == BlockKind::Code {
            code(block)
        } else {
            prose(block)
        };
        if text.chars().any(char::is_alphanumeric) {
            blocks.push(Block::new(kind, level(block[0].size, usual, kind), text));
        }
        at = end;
    }
    blocks
}

fn lines<'g>(glyphs: impl Iterator<Item = &'g Character>, page: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut pitches: Vec<Option<f64>> = Vec::new();
    let mut last: Option<&Character> = None;
    for glyph in glyphs {
        let advance = glyph.advance.unwrap_or(glyph.size / 2.0);
        let joins = lines.last().zip(last).is_some_and(|(line, last)| {
            (glyph.y - last.y).abs() < 0.45 * last.size.max(glyph.size)
                && glyph.x > line.end - 0.6 * glyph.size
                && glyph.x < line.end + 6.0 * glyph.size
        });
        if !joins {
            finish(&mut lines, &pitches);
            pitches.clear();
            lines.push(Line {
                x: glyph.x,
                y: glyph.y,
                end: glyph.x,
                size: glyph.size,
                text: String::new(),
                pitch: None,
                page,
            });
        }
        let Some(line) = lines.last_mut() else { continue };
        let gap = glyph.x - line.end;
        // Code is laid out in columns; in prose, more than a narrow space is one space.
        if !line.text.is_empty() && gap > 0.16 * glyph.size && !line.text.ends_with(' ') && glyph.text != " " {
            let columns = if glyph.advance.is_some_and(|a| a > 0.0) {
                (gap / advance).round()
            } else {
                1.0
            };
            let even = glyph.advance.is_some() && pitches.iter().all(|p| close(*p, glyph.advance));
            line.text.extend(std::iter::repeat_n(
                ' ',
                if even { columns.clamp(1.0, 40.0) as usize } else { 1 },
            ));
        }
        pitches.push(glyph.advance);
        line.text.push_str(&glyph.text);
        line.size = line.size.max(glyph.size);
        line.end = glyph.x + advance;
        last = Some(glyph);
    }
    finish(&mut lines, &pitches);
    lines.retain(|l| !l.text.trim().is_empty());
    lines
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if (a - b).abs() < 0.02 * a.abs().max(b.abs()))
}

fn finish(lines: &mut [Line], pitches: &[Option<f64>]) {
    let Some(line) = lines.last_mut() else { return };
    let first = pitches.first().copied().flatten();
    if first.is_some_and(|f| f > 0.0) && pitches.iter().all(|p| close(*p, first)) {
        line.pitch = first;
    }
}

/// The size that most characters have.
fn usual_size(lines: &[Line]) -> f64 {
    let mut sizes: HashMap<i64, usize> = HashMap::new();
    for line in lines {
        *sizes.entry((line.size * 2.0).round() as i64).or_default() += line.text.len();
    }
    let most = sizes.into_iter().max_by_key(|(size, count)| (*count, *size));
    most.map_or(10.0, |(size, _)| size as f64 / 2.0)
}

fn kind(line: &Line, usual: f64) -> BlockKind {
    if line.size > 1.15 * usual && line.text.len() < 200 {
        return BlockKind::Heading;
    }
    // A short word in a font of one width says nothing: digits have one width in most fonts.
    let told = line.text.chars().filter(|c| c.is_alphabetic()).count() >= 2 || line.text.trim().len() <= 2;
    match line.pitch {
        Some(pitch) if told && (pitch / line.size - 0.6).abs() < 0.08 => BlockKind::Code,
        _ => BlockKind::Text,
    }
}

/// Whether a line goes on with what the line before it began.
fn belongs(before: &Line, line: &Line, kind: BlockKind) -> bool {
    let step = line.y - before.y;
    let same_size = (line.size - before.size).abs() < 0.12 * before.size;
    let size = before.size.max(line.size);
    match kind {
        // A listing goes on behind a blank line.
        BlockKind::Code => same_size && line.page == before.page && step > 0.0 && step < 3.2 * size,
        BlockKind::Heading => same_size && step > 0.0 && step < 1.6 * size,
        _ if line.page != before.page || step < -0.5 * size => {
            // The next column or page goes on with a sentence.
            same_size
                && !before.text.trim_end().ends_with(['.', ':', '!', '?'])
                && line.text.starts_with(char::is_lowercase)
        }
        _ => same_size && step < 1.65 * size,
    }
}

fn level(size: f64, usual: f64, kind: BlockKind) -> u8 {
    match (kind, size / usual) {
        (BlockKind::Heading, ratio) if ratio > 1.8 => 1,
        (BlockKind::Heading, ratio) if ratio > 1.35 => 2,
        (BlockKind::Heading, _) => 3,
        _ => 0,
    }
}

/// One running text; words that were divided at the end of a line are whole again.
fn prose(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let next = line.text.trim();
        if let Some(start) = text.strip_suffix(['-', '\u{ad}', '\u{2010}'])
            && start.ends_with(char::is_lowercase)
            && next.starts_with(char::is_lowercase)
        {
            text.truncate(start.len());
        } else if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(next);
    }
    text
}

/// Code with the indentation that its places stand for.
fn code(lines: &[Line]) -> String {
    let left = lines.iter().map(|l| l.x).fold(f64::INFINITY, f64::min);
    let mut text = String::new();
    let mut above: Option<&Line> = None;
    for line in lines {
        if let Some(above) = above {
            let skipped = ((line.y - above.y) / (1.2 * line.size)).round() as i64 - 1;
            text.extend(std::iter::repeat_n('\n', 1 + skipped.clamp(0, 2) as usize));
        }
        let pitch = line.pitch.filter(|p| *p > 0.0).unwrap_or(line.size * 0.6);
        let indent = ((line.x - left) / pitch).round().clamp(0.0, 200.0) as usize;
        text.extend(std::iter::repeat_n(' ', indent));
        text.push_str(line.text.trim_end());
        above = Some(line);
    }
    text
}
