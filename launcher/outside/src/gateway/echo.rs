//! Finds the model key in what an upstream sends: whichever way it is written, whole or in long runs.
//!
//! An upstream that reports requests back, or a model that was made to, shows the key by mistake or by a trick; that is what is
//! found here. One that wants to give the key away can encode it in ways that nobody looks for.

use super::json::Value;
use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Bytes from which on a key is looked for. Shorter ones are those of test servers.
const SHORTEST: usize = 12;
/// Letters and digits in a row of a key that are too many. The public beginnings of keys are shorter.
const RUN: usize = 28;
/// Escapes within escapes that are undone.
const DEPTH: usize = 3;
/// Places whose texts are followed from one to the next.
const LANES: usize = 1024;

/// Bytes that are passed over, and those that no form of the key holds.
const SKIPPED: u8 = u8::MAX;
const FOREIGN: u8 = u8::MAX - 1;

/// All runs of all forms of one key: a suffix automaton.
pub(crate) struct Echo {
    classes: [u8; 256],
    width: usize,
    nodes: Vec<Node>,
    next: Vec<u32>,
    run: u32,
}

struct Node {
    length: u32,
    /// The next shorter run; none at the root.
    link: Option<u32>,
}

/// How much of the key the end of a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct At {
    node: u32,
    length: u32,
}

impl Echo {
    pub(crate) fn new(key: &str) -> Self {
        let key = telling(key);
        let plain = normal(key.as_bytes());
        let mixed = plain.iter().any(u8::is_ascii_digit) && plain.iter().any(u8::is_ascii_alphabetic);
        // A key made of words would be found in prose if separators did not count.
        let loose = plain.len() >= SHORTEST && (mixed || plain.len() >= RUN);
        let forms = if key.len() < SHORTEST {
            Vec::new()
        } else if loose {
            let mut forms = vec![plain, hex(key.as_bytes())];
            forms.extend((0..3).map(|skip| normal(&base64(key.as_bytes(), skip))));
            forms
        } else {
            vec![key.to_ascii_lowercase().into_bytes()]
        };
        let mut classes = [FOREIGN; 256];
        if loose {
            (0..=u8::MAX)
                .filter(|b| !b.is_ascii_alphanumeric())
                .for_each(|b| classes[usize::from(b)] = SKIPPED);
        }
        let mut width = 0;
        for &byte in forms.iter().flatten() {
            if classes[usize::from(byte)] == FOREIGN {
                classes[usize::from(byte)] = width;
                classes[usize::from(byte.to_ascii_uppercase())] = width;
                width += 1;
            }
        }
        let run = forms.first().map_or(0, Vec::len);
        let mut echo = Self {
            classes,
            width: usize::from(width),
            nodes: Vec::new(),
            next: Vec::new(),
            run: if loose { run.min(RUN) } else { run } as u32,
        };
        if !forms.is_empty() {
            echo.node(0, None);
        }
        for form in forms {
            let mut last = 0;
            for byte in form {
                last = echo.extend(last, usize::from(echo.classes[usize::from(byte)]));
            }
        }
        echo
    }

    fn node(&mut self, length: u32, link: Option<u32>) -> u32 {
        self.nodes.push(Node { length, link });
        self.next.resize(self.nodes.len() * self.width, 0);
        (self.nodes.len() - 1) as u32
    }

    /// The node after `at`; 0, where nothing leads, if there is none.
    fn follow(&self, at: u32, class: usize) -> u32 {
        self.next[at as usize * self.width + class]
    }

    fn extend(&mut self, last: u32, class: usize) -> u32 {
        let length = self.nodes[last as usize].length + 1;
        let there = self.follow(last, class);
        if there != 0 {
            return self.whole(last, there, class);
        }
        let new = self.node(length, Some(0));
        let mut from = Some(last);
        while let Some(at) = from {
            let there = self.follow(at, class);
            if there != 0 {
                let link = self.whole(at, there, class);
                self.nodes[new as usize].link = Some(link);
                break;
            }
            self.next[at as usize * self.width + class] = new;
            from = self.nodes[at as usize].link;
        }
        new
    }

    /// The node that stands for exactly one byte after `at`; it is split off from `there` if that stands for more.
    fn whole(&mut self, at: u32, there: u32, class: usize) -> u32 {
        let length = self.nodes[at as usize].length + 1;
        if self.nodes[there as usize].length == length {
            return there;
        }
        let new = self.node(length, self.nodes[there as usize].link);
        let row = there as usize * self.width;
        self.next.copy_within(row..row + self.width, new as usize * self.width);
        self.nodes[there as usize].link = Some(new);
        let mut from = Some(at);
        while let Some(at) = from.filter(|at| self.follow(*at, class) == there) {
            self.next[at as usize * self.width + class] = new;
            from = self.nodes[at as usize].link;
        }
        new
    }

    /// Goes on by one byte; whether that makes too much of the key.
    fn step(&self, at: &mut At, byte: u8) -> bool {
        let class = match self.classes[usize::from(byte)] {
            SKIPPED => return false,
            FOREIGN => {
                *at = At::default();
                return false;
            }
            class => usize::from(class),
        };
        loop {
            let there = self.follow(at.node, class);
            if there != 0 {
                at.node = there;
                at.length += 1;
                return at.length >= self.run;
            }
            let Some(link) = self.nodes[at.node as usize].link else {
                at.length = 0;
                return false;
            };
            at.node = link;
            at.length = self.nodes[link as usize].length;
        }
    }

    /// Goes on by a text from several places at once: after a few bytes they are the same.
    fn feed(&self, places: &mut [At], text: &[u8]) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        let mut bytes = text.iter();
        while places.windows(2).any(|pair| pair[0] != pair[1]) {
            let Some(byte) = bytes.next() else { return false };
            // Every place goes on, whatever the others found.
            if places.iter_mut().fold(false, |found, at| self.step(at, *byte) | found) {
                return true;
            }
        }
        let mut at = places[0];
        if bytes.any(|byte| self.step(&mut at, *byte)) {
            return true;
        }
        places.fill(at);
        false
    }

    /// Whether too much of the key is in a text, as it is or with its escapes undone.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        if self.feed(&mut [At::default()], text) {
            return true;
        }
        let mut text = Cow::Borrowed(text);
        for _ in 0..DEPTH {
            let Some(undone) = undone(&text) else { return false };
            if self.feed(&mut [At::default()], &undone) {
                return true;
            }
            text = Cow::Owned(undone);
        }
        false
    }
}

/// Looks for the key in one answer, also where it is spread over texts that an agent joins: those that follow one another, and
/// those at one place of the events of a stream.
pub(crate) struct Watch {
    echo: Arc<Echo>,
    raw: At,
    row: At,
    lanes: Vec<At>,
    hasher: RandomState,
}

impl Watch {
    pub(crate) fn new(echo: Arc<Echo>) -> Self {
        Self {
            echo,
            raw: At::default(),
            row: At::default(),
            lanes: vec![At::default(); LANES],
            hasher: RandomState::new(),
        }
    }

    /// Takes the next bytes of the answer as they came.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.echo.feed(std::slice::from_mut(&mut self.raw), bytes)
    }

    /// Takes a line of the answer that belongs to no document.
    pub(crate) fn line(&self, line: &[u8]) -> bool {
        self.echo.is_in(line)
    }

    /// Takes the next document of the answer.
    pub(crate) fn document(&mut self, value: &Value<'_>) -> bool {
        !self.echo.nodes.is_empty() && self.walk(value, 0, 0)
    }

    /// `path`: the members that lead here; `numbered`: these and the numbers of the blocks, choices or calls.
    fn walk(&mut self, value: &Value<'_>, path: u64, numbered: u64) -> bool {
        match value {
            Value::String(text) => self.text(text.as_bytes(), path, numbered),
            Value::Array(items) => items.iter().any(|item| self.walk(item, path, numbered)),
            Value::Object(members) => {
                let mut numbered = numbered;
                for name in ["index", "output_index", "content_index"] {
                    if let Some(Value::Number(number)) = value.get(name) {
                        numbered = self.hasher.hash_one((numbered, name, number));
                    }
                }
                members.iter().any(|(key, member)| {
                    let (path, numbered) = (self.hasher.hash_one((path, key)), self.hasher.hash_one((numbered, key)));
                    self.echo.feed(std::slice::from_mut(&mut self.row), key.as_bytes())
                        || self.echo.is_in(key.as_bytes())
                        || self.walk(member, path, numbered)
                })
            }
            _ => false,
        }
    }

    fn text(&mut self, text: &[u8], path: u64, numbered: u64) -> bool {
        let lane = |hash: u64| hash as usize % LANES;
        let (path, numbered) = (lane(path), lane(numbered));
        let mut places = [self.row, self.lanes[path], self.lanes[numbered]];
        if self.echo.feed(&mut places, text) {
            return true;
        }
        [self.row, self.lanes[path], self.lanes[numbered]] = places;
        text.iter().any(|b| matches!(b, b'\\' | b'%' | b'&')) && self.echo.is_in(text)
    }
}

/// The part of a key that is not public: of a signed token the signature, for what precedes it looks alike in many tokens.
fn telling(key: &str) -> &str {
    match key.rsplit_once('.') {
        Some((start, signature)) if start.starts_with("eyJ") && signature.len() >= RUN => signature,
        _ => key,
    }
}

/// Letters and digits in lower case.
fn normal(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_ascii_lowercase();
    out.retain(u8::is_ascii_alphanumeric);
    out
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect()
}

/// The characters of base64 that depend on the bytes alone when `skip` unknown ones come before them.
fn base64(bytes: &[u8], skip: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |i: usize| (bytes[i / 8] >> (7 - i % 8)) & 1;
    let first = (6 - skip * 8 % 6) % 6;
    (first..(bytes.len() * 8).saturating_sub(5))
        .step_by(6)
        .map(|at| ALPHABET[(at..at + 6).fold(0, |n, i| (n << 1) | usize::from(bit(i)))])
        .collect()
}

/// One level of the escapes of JSON, shells, URLs and HTML undone; none if there are none.
fn undone(text: &[u8]) -> Option<Vec<u8>> {
    let at = text.iter().position(|b| matches!(b, b'\\' | b'%' | b'&'))?;
    let mut out = text[..at].to_vec();
    let mut rest = &text[at..];
    let mut changed = false;
    while let Some((&byte, tail)) = rest.split_first() {
        let found = match (byte, tail) {
            (b'\\', [b'u', digits @ ..]) => number(digits, 4, 16).map(|code| (code, 6)),
            (b'\\', [b'x', digits @ ..]) => number(digits, 2, 16).map(|code| (code, 4)),
            (b'\\', [b'n' | b'r' | b't' | b'b' | b'f', ..]) => Some((u32::from(b' '), 2)),
            (b'\\', [other, ..]) => Some((u32::from(*other), 2)),
            (b'%', digits) => number(digits, 2, 16).map(|code| (code, 3)),
            (b'&', [b'#', digits @ ..]) => {
                let (start, radix) = match digits {
                    [b'x' | b'X', ..] => (1, 16),
                    _ => (0, 10),
                };
                let length = digits.iter().take(10).position(|b| *b == b';');
                length
                    .filter(|length| *length > start)
                    .and_then(|length| Some((number(&digits[start..], length - start, radix)?, length + 3)))
            }
            _ => None,
        };
        let (code, length) = found.unwrap_or((u32::from(byte), 1));
        changed |= found.is_some();
        // Other characters are no part of a key.
        out.push(u8::try_from(code).unwrap_or(u8::MAX));
        rest = &rest[length..];
    }
    changed.then_some(out)
}

fn number(digits: &[u8], length: usize, radix: u32) -> Option<u32> {
    digits.get(..length)?.iter().try_fold(0, |code: u32, b| {
        code.checked_mul(radix)?.checked_add(char::from(*b).to_digit(radix)?)
    })
}
