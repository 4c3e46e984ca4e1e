//! Sentences and the words that are compared.

use rust_stemmers::{Algorithm, Stemmer};
use std::collections::HashSet;
use std::sync::LazyLock;

/// A word as it is compared: stemmed, or whole where a stem would lose what matters.
pub(super) type Term = String;

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
static STOP: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "a about after all also am an and any are as at be because been before being between both but by can could did do does doing \
     for from had has have having he her here him his how i if in into is it its itself just me more most my no nor not of on once \
     only or other our out over own same she should so some such than that the their them then there these they this those through \
     to too under until up very was we were what when where which while who whom why will with would you your many much name \
     tell show give explain find describe please"
        .split_ascii_whitespace()
        .collect()
});

/// Characters inside names of code, versions and paths.
fn joins(c: char) -> bool {
    matches!(c, '_' | '.' | ':' | '-' | '/' | '#' | '+' | '@' | '$')
}

/// The terms of a text, stop words left out. A name like `std::fs::File`, `max_size`, `E0308` or `1.2.3` is one term as a whole,
/// and its parts are terms too.
pub(super) fn terms(text: &str) -> Vec<Term> {
    let mut out = Vec::new();
    for token in text.split(|c: char| !(c.is_alphanumeric() || joins(c))) {
        let token = token.trim_matches(|c: char| joins(c) && c != '_');
        if token.is_empty() {
            continue;
        }
        let lower = token.to_lowercase();
        let parts: Vec<&str> = lower.split(joins).filter(|p| !p.is_empty()).collect();
        if parts.len() > 1 {
            out.push(lower.clone());
        }
        for part in parts {
            if STOP.contains(part) {
                continue;
            }
            // Scripts without spaces: two characters at a time are as good as words.
            if part.chars().any(wide) {
                let chars: Vec<char> = part.chars().collect();
                out.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
                if chars.len() == 1 {
                    out.push(part.to_owned());
                }
            } else if part.chars().any(|c| c.is_ascii_digit()) || !part.is_ascii() {
                out.push(part.to_owned());
            } else {
                out.push(STEMMER.stem(part).into_owned());
            }
        }
    }
    out
}

/// The terms of a question, each once. A question of nothing but stop words is no question.
pub(super) fn question(text: &str) -> Vec<Term> {
    let mut seen = HashSet::new();
    terms(text).into_iter().filter(|t| seen.insert(t.clone())).collect()
}

fn wide(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

const ABBREVIATIONS: &[&str] = &[
    "e.g", "i.e", "etc", "vs", "cf", "mr", "mrs", "ms", "dr", "prof", "st", "no", "fig", "inc", "ltd", "approx", "jr",
    "sr", "vol", "ca",
];

/// Byte ranges of the sentences of a text, white space at their ends left out.
pub(super) fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut push = |from: usize, to: usize| {
        let piece = &text[from..to];
        let lead = piece.len() - piece.trim_start().len();
        let trimmed = piece.trim();
        if !trimmed.is_empty() {
            out.push((from + lead, from + lead + trimmed.len()));
        }
    };
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = at + c.len_utf8();
        let rest = &text[after..];
        let ends = match c {
            '。' | '！' | '？' => true,
            '\n' => rest.starts_with('\n'),
            '.' | '!' | '?' => {
                let tail = rest
                    .trim_start_matches(['"', '\'', ')', ']', '”', '’', '`', '['])
                    .trim_start_matches(|c: char| c.is_ascii_digit() || c == ']');
                let gap = tail.starts_with(char::is_whitespace) || tail.is_empty();
                let next = tail.trim_start().chars().next();
                let starts = next.is_none_or(|n| !n.is_lowercase());
                gap && starts && !(c == '.' && abbreviated(&text[start..at]))
            }
            _ => false,
        };
        if !ends {
            continue;
        }
        // Closing quotes and brackets belong to the sentence.
        let mut end = after;
        while let Some((n, c)) = chars.peek().copied() {
            if !matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '`') {
                break;
            }
            end = n + c.len_utf8();
            chars.next();
        }
        push(start, end);
        start = end;
    }
    push(start, text.len());
    out
}

fn abbreviated(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or("");
    let initial = word.len() == 1 && word.chars().all(|c| c.is_ascii_uppercase());
    initial || ABBREVIATIONS.iter().any(|a| a.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_they_end() {
        let text =
            "One, e.g. this v1.2.3 thing. “Two!” (Three?) Dr. No came. see a.b for 3.5 of it\n\nNew one. 日本。語";
        let got: Vec<_> = sentences(text).into_iter().map(|(a, b)| &text[a..b]).collect();
        assert_eq!(
            got,
            [
                "One, e.g. this v1.2.3 thing.",
                "“Two!”",
                "(Three?)",
                "Dr. No came. see a.b for 3.5 of it",
                "New one.",
                "日本。",
                "語"
            ]
        );
    }

    #[test]
    fn names_versions_and_errors_stay_whole() {
        let got = terms("Calling std::fs::read failed with E0308 in libfoo-1.2.3: max_sizes are settings.");
        for whole in [
            "std::fs::read",
            "e0308",
            "libfoo-1.2.3",
            "max_sizes",
            "set",
            "call",
            "fail",
        ] {
            assert!(got.contains(&whole.to_owned()), "{whole} is not in {got:?}");
        }
        assert!(!got.contains(&"with".to_owned()));
    }

    #[test]
    fn scripts_without_spaces_have_terms() {
        assert_eq!(terms("東京都"), ["東京", "京都"]);
    }
}
