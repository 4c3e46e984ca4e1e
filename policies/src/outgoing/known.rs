//! Secrets whose values the launcher knows. Kept are keyed hashes of overlapping pieces of every usual form of each, so that neither the
//! value nor a part of it stays in memory, and so that a secret that is sent in pieces, over several requests, is found too.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Characters of one piece.
const GRAM: usize = 6;
/// Characters in a row that are always a hit (or the whole secret, if it is shorter).
const RUN: usize = 14;
/// Shortest secret that can be told from a word, in letters and digits.
const SHORTEST: usize = 8;

/// A secret as the launcher read it.
#[derive(Clone)]
pub struct Secret {
    /// Its name for people, e.g. `GITHUB_TOKEN`.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

struct Form {
    /// Index of the secret's name.
    secret: usize,
    /// Number of pieces.
    grams: usize,
    /// Pieces that already went out.
    sent: Vec<bool>,
}

/// All known secrets.
pub(crate) struct Known {
    names: Vec<String>,
    forms: Vec<Form>,
    /// Hash of a piece → form and position.
    pieces: HashMap<u64, Vec<(usize, usize)>>,
    hasher: RandomState,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Known({:?})", self.names)
    }
}

/// Pieces found in a text that was not refused.
#[derive(Debug, Default)]
pub(crate) struct Found(Vec<(usize, usize)>);

impl Known {
    pub(crate) fn new(secrets: &[Secret]) -> Self {
        let mut known = Self {
            names: Vec::new(),
            forms: Vec::new(),
            pieces: HashMap::new(),
            hasher: RandomState::new(),
        };
        for secret in secrets {
            if !tellable(&normal(secret.value.as_bytes())) {
                continue;
            }
            let index = known.names.len();
            known.names.push(secret.name.clone());
            for form in forms(secret.value.as_bytes()) {
                known.add(index, &normal(&form));
            }
        }
        known
    }

    fn add(&mut self, secret: usize, text: &[u8]) {
        let form = self.forms.len();
        let mut grams = 0;
        for (at, piece) in text.windows(GRAM).enumerate() {
            self.pieces
                .entry(self.hasher.hash_one(piece))
                .or_default()
                .push((form, at));
            grams = at + 1;
        }
        if grams > 0 {
            self.forms.push(Form {
                secret,
                grams,
                sent: vec![false; grams],
            });
        }
    }

    /// The name of a secret of which too much is in a text, together with what already went out; else the pieces found.
    pub(crate) fn look(&self, text: &str, found: &mut Found) -> Option<&str> {
        if self.pieces.is_empty() {
            return None;
        }
        let text = normal(text.as_bytes());
        let mut runs: HashMap<usize, (usize, usize)> = HashMap::new();
        for piece in text.windows(GRAM) {
            let mut next: HashMap<usize, (usize, usize)> = HashMap::new();
            for &(form, at) in self.pieces.get(&self.hasher.hash_one(piece)).into_iter().flatten() {
                found.0.push((form, at));
                // Pieces in a row of one form; a piece that occurs twice keeps the longer run.
                let run = runs
                    .get(&form)
                    .filter(|(last, _)| last + 1 == at)
                    .map_or(1, |(_, n)| n + 1);
                if run + GRAM > RUN.min(self.forms[form].grams + GRAM - 1) {
                    return Some(&self.names[self.forms[form].secret]);
                }
                let best = next.entry(form).or_insert((at, run));
                if run > best.1 {
                    *best = (at, run);
                }
            }
            runs = next;
        }
        self.covered(found)
    }

    /// A secret of which half went out in pieces.
    fn covered(&self, found: &Found) -> Option<&str> {
        let mut new: HashMap<usize, Vec<bool>> = HashMap::new();
        for &(form, at) in &found.0 {
            new.entry(form).or_insert_with(|| self.forms[form].sent.clone())[at] = true;
        }
        new.into_iter().find_map(|(form, sent)| {
            let n = sent.iter().filter(|s| **s).count();
            (n * 2 >= self.forms[form].grams && n > 2).then(|| self.names[self.forms[form].secret].as_str())
        })
    }

    /// The text went out.
    pub(crate) fn keep(&mut self, found: Found) {
        for (form, at) in found.0 {
            self.forms[form].sent[at] = true;
        }
    }
}

/// Letters and digits in lower case: what separators, quotes and case changes leave.
fn normal(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .filter(|b| b.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .collect()
}

/// A short value made of letters only is a word, and would refuse every request that uses it.
fn tellable(normal: &[u8]) -> bool {
    let mut kinds: Vec<u8> = normal.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let mixed = normal.iter().any(u8::is_ascii_digit) && normal.iter().any(u8::is_ascii_alphabetic);
    normal.len() >= SHORTEST && kinds.len() >= 5 && (mixed || normal.len() >= 16)
}

/// The value and what common encodings make of it; the base64 ones for each of the three places it may begin at.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![value.to_vec()];
    all.push(value.iter().rev().copied().collect());
    all.push(value.iter().map(|b| rot13(*b)).collect());
    all.push(value.iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect());
    for skip in 0..3 {
        all.push(encode(
            value,
            skip,
            6,
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        ));
    }
    for skip in 0..5 {
        all.push(encode(value, skip, 5, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"));
    }
    all.retain(|form| normal(form).len() >= SHORTEST);
    all
}

fn rot13(b: u8) -> u8 {
    match b {
        b'a'..=b'z' => (b - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (b - b'A' + 13) % 26 + b'A',
        _ => b,
    }
}

/// The characters of an encoding with `width` bits each that depend on the value alone, when `skip` unknown bytes come before it.
fn encode(value: &[u8], skip: usize, width: usize, alphabet: &[u8]) -> Vec<u8> {
    let bit = |i: usize| (value[i / 8] >> (7 - i % 8)) & 1;
    let first = (width - skip * 8 % width) % width;
    let total = value.len() * 8;
    (first..total.saturating_sub(width - 1))
        .step_by(width)
        .map(|at| alphabet[(at..at + width).fold(0usize, |n, i| (n << 1) | usize::from(bit(i)))])
        .collect()
}
