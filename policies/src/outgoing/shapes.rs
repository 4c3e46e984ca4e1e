//! Texts that are shaped like secrets. The rules are data: `policies/secrets.toml`.

use aho_corasick::AhoCorasick;
use regex::Regex;
use serde::Deserialize;
use std::sync::{LazyLock, OnceLock};

const BUILTIN: &str = include_str!("../../secrets.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    rule: Vec<Raw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    id: String,
    keywords: Vec<String>,
    regex: String,
    #[serde(default)]
    entropy: Option<f64>,
    #[serde(default)]
    mixed: bool,
}

struct Rule {
    raw: Raw,
    /// Compiled when a keyword first occurs.
    regex: OnceLock<Regex>,
}

struct Rules {
    rules: Vec<Rule>,
    keywords: AhoCorasick,
    /// Rule of each keyword.
    owner: Vec<usize>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let file: File = toml::from_str(BUILTIN).expect("policies/secrets.toml is checked by a test");
    assert_eq!(file.version, 1, "policies/secrets.toml is of version 1");
    let mut words = Vec::new();
    let mut owner = Vec::new();
    for (i, rule) in file.rule.iter().enumerate() {
        words.extend(rule.keywords.iter().cloned());
        owner.extend(rule.keywords.iter().map(|_| i));
    }
    let keywords = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(&words)
        .expect("keywords are short");
    Rules {
        rules: file
            .rule
            .into_iter()
            .map(|raw| Rule {
                raw,
                regex: OnceLock::new(),
            })
            .collect(),
        keywords,
        owner,
    }
});

/// The first rule that a text matches.
pub(crate) fn find(text: &str) -> Option<&'static str> {
    let rules: &'static Rules = &RULES;
    let mut wanted: Vec<usize> = rules
        .keywords
        .find_overlapping_iter(text)
        .map(|m| rules.owner[m.pattern().as_usize()])
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
        .into_iter()
        .map(|i| &rules.rules[i])
        .find(|r| matches(r, text))
        .map(|r| r.raw.id.as_str())
}

fn matches(rule: &'static Rule, text: &str) -> bool {
    let regex = rule
        .regex
        .get_or_init(|| Regex::new(&rule.raw.regex).expect("policies/secrets.toml is checked by a test"));
    regex.captures_iter(text).any(|c| {
        let value = c.get(1).or_else(|| c.get(0)).map_or("", |m| m.as_str());
        let mixed = value.bytes().any(|b| b.is_ascii_digit()) && value.bytes().any(|b| b.is_ascii_alphabetic());
        !placeholder(value)
            && (mixed || !rule.raw.mixed)
            && rule.raw.entropy.is_none_or(|least| entropy(value) >= least)
    })
}

/// What documentation writes instead of a secret.
fn placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut kinds: Vec<u8> = lower.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let long = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    // Nearly all the same character.
    (long > 16 && kinds.len() <= 6 && !lower.bytes().all(|b| b.is_ascii_digit()))
        || lower.contains("example")
        || lower.contains("xxxxxx")
}

fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let n = text.len() as f64;
    -counts
        .iter()
        .filter(|c| **c > 0)
        .map(|c| f64::from(*c) / n)
        .map(|p| p * p.log2())
        .sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles_and_has_a_unique_name() {
        let mut names: Vec<&str> = RULES.rules.iter().map(|r| r.raw.id.as_str()).collect();
        for rule in &RULES.rules {
            assert!(Regex::new(&rule.raw.regex).is_ok(), "{}", rule.raw.id);
            assert!(
                !rule.raw.keywords.is_empty() && rule.raw.keywords.iter().all(|k| k.len() >= 2),
                "{}",
                rule.raw.id
            );
        }
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
    }
}
