//! BM25 over sentences, with a share of the score of their block and of their neighbours.
//!
//! Measured on questions over articles, this keeps more answers in a budget than whole paragraphs, query-free ranking or
//! diversification do, at no cost.

use super::words::{self, Term};
use std::collections::{HashMap, HashSet};

/// Share of a block's own score that each of its sentences gets.
const BLOCK_SHARE: f64 = 0.5;
/// Share of the better neighbour's score.
const NEIGHBOUR_SHARE: f64 = 0.25;
/// How much a word in the headings above counts of one in the text.
const HEADING_SHARE: f64 = 0.5;
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// What is ranked as one: a sentence, a list item, a whole table, whole code.
#[derive(Clone, Debug)]
pub struct Sentence {
    pub(super) block: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    terms: Vec<Term>,
    above: Vec<Term>,
}

impl Sentence {
    pub(super) fn new(block: usize, start: usize, end: usize, text: &str, above: &str) -> Self {
        Self {
            block,
            start,
            end,
            terms: words::terms(text),
            above: words::terms(above),
        }
    }
}

/// Okapi BM25 of a set of texts.
struct Bm25<'q> {
    question: &'q [Term],
    idf: Vec<f64>,
    average: f64,
}

impl<'q> Bm25<'q> {
    fn new(question: &'q [Term], texts: &[Vec<&Term>]) -> Self {
        let sets: Vec<HashSet<&Term>> = texts.iter().map(|t| t.iter().copied().collect()).collect();
        let n = texts.len() as f64;
        let idf = question
            .iter()
            .map(|term| {
                let df = sets.iter().filter(|s| s.contains(term)).count() as f64;
                ((n - df + 0.5) / (df + 0.5) + 1.0).ln()
            })
            .collect();
        let average = (texts.iter().map(Vec::len).sum::<usize>() as f64 / n.max(1.0)).max(1.0);
        Self { question, idf, average }
    }

    fn score(&self, terms: &[&Term], above: &[Term]) -> f64 {
        let mut frequency: HashMap<&Term, f64> = HashMap::new();
        for term in above {
            *frequency.entry(term).or_default() = HEADING_SHARE;
        }
        for &term in terms {
            *frequency.entry(term).or_default() += 1.0;
        }
        let length = K1 * (1.0 - B + B * terms.len() as f64 / self.average);
        let scored = self.question.iter().zip(&self.idf).map(|(term, idf)| {
            let f = frequency.get(term).copied().unwrap_or(0.0);
            idf * f * (K1 + 1.0) / (f + length)
        });
        scored.sum()
    }
}

/// The score of each unit for the question; 0 for those that no word of it touches.
pub(super) fn scores(units: &[Sentence], question: &[Term]) -> Vec<f64> {
    let texts: Vec<Vec<&Term>> = units.iter().map(|u| u.terms.iter().collect()).collect();
    let by_sentence = Bm25::new(question, &texts);
    let own: Vec<f64> = units
        .iter()
        .zip(&texts)
        .map(|(u, t)| by_sentence.score(t, &u.above))
        .collect();

    let mut blocks: Vec<(usize, Vec<&Term>)> = Vec::new();
    for unit in units {
        match blocks.last_mut() {
            Some((block, terms)) if *block == unit.block => terms.extend(&unit.terms),
            _ => blocks.push((unit.block, unit.terms.iter().collect())),
        }
    }
    let block_texts: Vec<Vec<&Term>> = blocks.iter().map(|(_, t)| t.clone()).collect();
    let by_block = Bm25::new(question, &block_texts);
    let block_scores: HashMap<usize, f64> = blocks.iter().map(|(n, t)| (*n, by_block.score(t, &[]))).collect();

    (0..units.len())
        .map(|n| {
            // What stands under another heading is no neighbour.
            let beside = |m: Option<usize>| {
                m.filter(|m| units.get(*m).is_some_and(|u| u.above == units[n].above))
                    .map_or(0.0, |m| own[m])
            };
            let (before, after) = (beside(n.checked_sub(1)), beside(n.checked_add(1)));
            let block = block_scores.get(&units[n].block).copied().unwrap_or(0.0);
            own[n] + BLOCK_SHARE * block + NEIGHBOUR_SHARE * before.max(after)
        })
        .collect()
}
