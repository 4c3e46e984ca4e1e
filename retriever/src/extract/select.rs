//! Which blocks are the page's content.
//!
//! An extractor that was trained on the kinds of pages there are reads the page and gives back plain text; the blocks whose words
//! are in it are the content. So what is shown always comes from the visible tree, never from metadata or scripts that the
//! extractor may fall back to, and code and tables keep their form.

use super::Block;
use picktwo_wire::answer::BlockKind;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Words in a row that are compared.
const SHINGLE: usize = 3;
/// Share of a block's shingles that must be in the content.
const ENOUGH: f64 = 0.6;

fn words(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(|w| {
            let mut hasher = DefaultHasher::new();
            w.to_lowercase().hash(&mut hasher);
            hasher.finish()
        })
        .collect()
}

/// Marks the blocks that are content. `content` is what the extractor found; where it found nothing, everything outside of
/// navigation is content.
pub(super) fn mark(blocks: &mut [Block], content: &str) {
    let content_words = words(content);
    let shingles: HashSet<&[u64]> = content_words.windows(SHINGLE).collect();
    let lines: HashSet<Vec<u64>> = content.lines().map(words).filter(|l| !l.is_empty()).collect();
    let mut sure = vec![false; blocks.len()];
    let mut short = vec![false; blocks.len()];
    for (n, block) in blocks.iter().enumerate() {
        let own = words(&block.text);
        if own.len() < SHINGLE {
            short[n] = !own.is_empty()
                && (lines.contains(&own) || own.len() == 2 && content_words.windows(2).any(|w| w == own));
            continue;
        }
        let hits = own.windows(SHINGLE).filter(|w| shingles.contains(w)).count();
        sure[n] = hits as f64 >= ENOUGH * (own.len() - SHINGLE + 1) as f64;
    }

    if !sure.iter().any(|s| *s) {
        let all = blocks.iter().all(|b| b.chrome);
        for block in blocks.iter_mut() {
            block.main = all || !block.chrome;
        }
        return;
    }
    for n in 0..blocks.len() {
        blocks[n].main = sure[n] || short[n] && near(&sure, n, 4);
    }

    let first = sure.iter().position(|s| *s).unwrap_or(0);
    let last = sure.iter().rposition(|s| *s).unwrap_or(0);
    // The extractor drops code it takes for a widget; between two pieces of content it is content.
    for block in &mut blocks[first..=last] {
        block.main |= block.kind == BlockKind::Code && !block.chrome;
    }
    headings(blocks, first);
}

fn near(sure: &[bool], n: usize, reach: usize) -> bool {
    let from = n.saturating_sub(reach);
    let to = (n + reach + 1).min(sure.len());
    sure[from..to].iter().any(|s| *s)
}

/// A heading belongs to the content if something below it does; code right below a heading that does, too.
fn headings(blocks: &mut [Block], first: usize) {
    let mut below = [false; 8];
    for n in (0..blocks.len()).rev() {
        let level = blocks[n].level as usize;
        if blocks[n].kind == BlockKind::Heading && (1..=6).contains(&level) {
            if below[level] && !blocks[n].chrome {
                blocks[n].main = true;
            }
            let any = blocks[n].main;
            // What lies below this heading is no longer below one further up on the same or a deeper level.
            for deeper in below.iter_mut().skip(level) {
                *deeper = false;
            }
            for upper in below.iter_mut().take(level) {
                *upper |= any;
            }
        } else if blocks[n].main {
            below.iter_mut().for_each(|b| *b = true);
        }
    }
    // A code example right above the first paragraph or right below the last one.
    let mut n = first;
    while n > 0 && blocks[n - 1].kind == BlockKind::Code && !blocks[n - 1].chrome {
        n -= 1;
        blocks[n].main = true;
    }
    for n in 1..blocks.len() {
        if blocks[n].kind == BlockKind::Code && !blocks[n].chrome && blocks[n - 1].main {
            blocks[n].main = true;
        }
    }
}
