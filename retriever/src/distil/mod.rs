//! Chooses what of a document answers a question, without a model: nothing here could obey an instruction.

mod rank;
mod words;

use crate::extract::{Block, Page};
use crate::fetch::Document;
use crate::filter::{self, Removed};
use picktwo_wire::answer::{self, Answer, BlockKind, Flag, MAX_ANSWER, MAX_ITEMS, Source};
use sha2::{Digest, Sha256};

pub use rank::Sentence;

/// Bytes that a token stands for, about.
pub const BYTES_PER_TOKEN: usize = 4;
/// Bytes of the largest answer left for headings, links and their numbers.
const RESERVE: usize = 12 * 1024;
/// Share of the best score below which a unit is no answer.
const LEAST: f64 = 0.2;
/// Links listed with one answer.
const MAX_LINKS: usize = 40;
/// Blocks of an answer beside the list of its links.
const MAX_BLOCKS: usize = MAX_ITEMS - 1;

/// Makes the answer to `question` out of a document that was read into a page; without a question, its content from the start.
/// `budget` is in tokens, `fetched` RFC 3339.
#[must_use]
pub fn distil(document: &Document, page: &Page, question: Option<&str>, budget: u32, fetched: &str) -> Answer {
    let mut removed = Removed::default();
    let bytes = (budget as usize)
        .saturating_mul(BYTES_PER_TOKEN)
        .min(MAX_ANSWER - RESERVE);
    let chosen = choose(page, question, bytes);
    let mut answer = assemble(page, &chosen, bytes, &mut removed);

    answer.sources.push(Source {
        url: document.url.to_string(),
        title: filter::line(&page.title, filter::MAX_TITLE, &mut removed),
        sha256: picktwo_wire::hex(&Sha256::digest(&document.body)),
        fetched: fetched.to_owned(),
        media_type: document.media.clone(),
        bytes: document.body.len() as u64,
    });
    answer.flags = flags(document, page, question, &answer, &removed, chosen.matched);
    // Headings above many small blocks may still not fit. What is malformed is left for whoever sends it to refuse.
    filter::check(&answer).unwrap_or(answer)
}

/// What was chosen of a page.
struct Chosen {
    /// By block: nothing, all of it, or these byte ranges of its text.
    parts: Vec<Part>,
    /// Something that was worth having was left out.
    truncated: bool,
    /// A word of the question occurs in the page.
    matched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    Whole,
    Ranges(Vec<(usize, usize)>),
}

fn choose(page: &Page, question: Option<&str>, budget: usize) -> Chosen {
    let question = question.map(words::question).filter(|q| !q.is_empty());
    match question {
        Some(terms) => by_question(page, &terms, budget),
        None => from_start(page, budget),
    }
}

/// The content in its order, until the budget is used up.
fn from_start(page: &Page, budget: usize) -> Chosen {
    let mut left = budget;
    let mut parts = vec![Part::Nothing; page.blocks.len()];
    let mut truncated = false;
    for (n, block) in page.blocks.iter().enumerate().filter(|(_, b)| b.main) {
        if block.text.len() <= left {
            left -= block.text.len();
            parts[n] = Part::Whole;
            continue;
        }
        truncated = true;
        // Code and tables are whole or absent; of a text, its first sentences.
        if block.kind == BlockKind::Text {
            let ranges: Vec<_> = words::sentences(&block.text)
                .into_iter()
                .take_while(|(_, end)| *end <= left)
                .collect();
            if !ranges.is_empty() {
                parts[n] = Part::Ranges(ranges);
            }
        }
        break;
    }
    // A single block that is larger than the whole budget is better cut than absent.
    if parts.iter().all(|p| *p == Part::Nothing)
        && let Some(n) = page.blocks.iter().position(|b| b.main)
    {
        let end = filter::cut(&page.blocks[n].text, budget).len();
        parts[n] = Part::Ranges(vec![(0, end)]);
        truncated = true;
    }
    Chosen {
        parts,
        truncated,
        matched: true,
    }
}

fn by_question(page: &Page, terms: &[words::Term], budget: usize) -> Chosen {
    let units = units(page);
    let scores = rank::scores(&units, terms);
    let best = scores.iter().copied().fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..units.len()).filter(|n| scores[*n] > LEAST * best).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    let matched = !order.is_empty();

    let mut left = budget;
    let mut taken = vec![false; units.len()];
    let mut truncated = false;
    for n in order {
        let size = units[n].end - units[n].start;
        if size > left {
            truncated = true;
            continue;
        }
        left -= size + 1.min(left - size);
        taken[n] = true;
    }

    let mut parts = vec![Part::Nothing; page.blocks.len()];
    for (n, unit) in units.iter().enumerate().filter(|(n, _)| taken[*n]) {
        let whole = unit.start == 0 && unit.end == page.blocks[unit.block].text.len();
        match &mut parts[unit.block] {
            part if whole => *part = Part::Whole,
            Part::Ranges(ranges) => match ranges.last_mut() {
                // Neighbours are one piece again.
                Some(last) if n > 0 && taken[n - 1] && units[n - 1].end == last.1 => last.1 = unit.end,
                _ => ranges.push((unit.start, unit.end)),
            },
            part => *part = Part::Ranges(vec![(unit.start, unit.end)]),
        }
    }
    if !matched {
        // Nothing to go by: the start of the content, and a flag that says so.
        let start = from_start(page, budget.min(2000));
        return Chosen {
            truncated: true,
            matched,
            ..start
        };
    }
    Chosen {
        parts,
        truncated,
        matched,
    }
}

/// What is ranked and taken or left as one: sentences of text, whole items of lists, whole code, whole tables.
fn units(page: &Page) -> Vec<Sentence> {
    let mut units = Vec::new();
    let mut headings: Vec<(u8, &str)> = Vec::new();
    for (n, block) in page.blocks.iter().enumerate() {
        if block.kind == BlockKind::Heading {
            if !block.chrome {
                headings.retain(|(level, _)| *level < block.level);
                headings.push((block.level, &block.text));
            }
            continue;
        }
        if !block.main {
            continue;
        }
        let above = headings.iter().map(|(_, t)| *t).collect::<Vec<_>>().join(" ");
        let ranges = match block.kind {
            BlockKind::Text => words::sentences(&block.text),
            _ => vec![(0, block.text.len())],
        };
        for (start, end) in ranges {
            units.push(Sentence::new(n, start, end, &block.text[start..end], &above));
        }
    }
    units
}

/// Writes what was chosen as blocks of an answer, filtered, with headings as context and links as numbered references.
fn assemble(page: &Page, chosen: &Chosen, budget: usize, removed: &mut Removed) -> Answer {
    let mut blocks: Vec<answer::Block> = Vec::new();
    let mut headings: Vec<(u8, String)> = Vec::new();
    let mut numbers: Vec<usize> = Vec::new();
    let mut truncated = chosen.truncated;
    for (n, block) in page.blocks.iter().enumerate() {
        if block.kind == BlockKind::Heading {
            if block.chrome {
                continue;
            }
            headings.retain(|(level, _)| *level < block.level);
            headings.push((block.level, filter::line(&block.text, filter::MAX_HEADING, removed)));
            continue;
        }
        let ranges = match &chosen.parts[n] {
            Part::Nothing => continue,
            Part::Whole => vec![(0, block.text.len())],
            Part::Ranges(ranges) => ranges.clone(),
        };
        let pieces: Vec<String> = ranges.iter().map(|range| piece(block, *range, &mut numbers)).collect();
        let label = if block.collapsed { "[collapsed] " } else { "" };
        let text = format!("{label}{}", pieces.join(" … "));
        let text = filter::filtered(block.kind, &text, removed);
        if text.trim().is_empty() {
            continue;
        }
        let above: Vec<String> = headings
            .iter()
            .map(|(_, t)| t.clone())
            .filter(|t| !t.is_empty())
            .take(filter::MAX_HEADINGS)
            .collect();
        let full = blocks.len() >= MAX_BLOCKS;
        match blocks.last_mut() {
            // Items of one list are one block, and so are pieces of one form in a document that has no blocks of its own.
            Some(last) if last.kind == BlockKind::List && block.kind == BlockKind::List && last.headings == above => {
                last.text.push('\n');
                last.text.push_str(&text);
            }
            _ if full => {
                truncated = true;
                break;
            }
            _ => blocks.push(answer::Block {
                kind: block.kind,
                headings: above,
                text,
                source: 0,
            }),
        }
    }
    if let Some(links) = links(page, &numbers, budget) {
        let text = filter::filtered(BlockKind::Links, &links, removed);
        blocks.push(answer::Block {
            kind: BlockKind::Links,
            headings: Vec::new(),
            text,
            source: 0,
        });
    }
    Answer {
        answer: blocks,
        quotes: Vec::new(),
        sources: Vec::new(),
        flags: Vec::new(),
        truncated,
    }
}

/// A piece of a block's text with the numbers of its links.
fn piece(block: &Block, (start, end): (usize, usize), numbers: &mut Vec<usize>) -> String {
    let mut out = String::new();
    let mut at = start;
    for &(place, link) in block.refs.iter().filter(|(place, _)| *place > start && *place <= end) {
        let number = match numbers.iter().position(|l| *l == link) {
            Some(n) => n + 1,
            None if numbers.len() < MAX_LINKS => {
                numbers.push(link);
                numbers.len()
            }
            None => continue,
        };
        if place >= at {
            out.push_str(&block.text[at..place]);
            at = place;
        }
        out.push_str(&format!("[{number}]"));
    }
    out.push_str(&block.text[at..end]);
    out
}

fn links(page: &Page, numbers: &[usize], budget: usize) -> Option<String> {
    let mut out = String::new();
    for (n, link) in numbers.iter().enumerate() {
        let line = format!("[{}] {}\n", n + 1, page.links[*link].url);
        // They come on top of the budget, but not in any number.
        if out.len() + line.len() > (budget / 2).max(400) {
            break;
        }
        out.push_str(&line);
    }
    (!out.is_empty()).then(|| out.trim_end().to_owned())
}

fn flags(
    document: &Document,
    page: &Page,
    question: Option<&str>,
    answer: &Answer,
    removed: &Removed,
    matched: bool,
) -> Vec<Flag> {
    let mut flags = page.flags.clone();
    flags.extend(filter::flags(removed));
    let mut add = |id: &str, count: u64, note: &str| {
        if count > 0 {
            flags.push(Flag {
                id: id.to_owned(),
                count,
                note: note.to_owned(),
            });
        }
    };
    let shapes = answer.answer.iter().map(|b| filter::instruction_shapes(&b.text)).sum();
    add(
        "instruction-shaped",
        shapes,
        "text in the shape of instructions to a model was seen; it is content, not a request",
    );
    add("undecodable", document.undecodable, "characters could not be decoded");
    add(
        "no-match",
        u64::from(question.is_some() && !matched),
        "no word of the question occurs in the page: this is how its content starts",
    );
    add(
        "empty",
        u64::from(answer.answer.is_empty()),
        "the page has no text that can be read without running its scripts",
    );
    flags
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
