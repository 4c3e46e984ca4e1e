//! Placeholders: `{{work}}`, `{{canary.NAME}}`, `{{url.SERVER}}` …

use std::ops::Range;

/// What placeholders stand for.
pub trait Words {
    /// The value of one, by its name without braces.
    fn word(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> Words for F {
    fn word(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// Every placeholder in a text, with its range (braces included) and its name.
pub(super) fn placeholders(text: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("{{").map(|at| from + at) {
        let inner = &text[start + 2..];
        let length = inner
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')))
            .unwrap_or(inner.len());
        if length > 0 && inner[length..].starts_with("}}") {
            let end = start + 2 + length + 2;
            found.push((start..end, &inner[..length]));
            from = end;
        } else {
            from = start + 1;
        }
    }
    found
}

/// The text with its placeholders filled in; those without a value stay as they are.
pub fn fill(text: &str, words: &dyn Words) -> String {
    let mut out = String::new();
    let mut from = 0;
    for (range, name) in placeholders(text) {
        out.push_str(&text[from..range.start]);
        match words.word(name) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&text[range.clone()]),
        }
        from = range.end;
    }
    out.push_str(&text[from..]);
    out
}

/// [`fill`] for every text of a table.
pub fn fill_table(table: &toml::Table, words: &dyn Words) -> toml::Table {
    table.iter().map(|(k, v)| (k.clone(), value(v, words))).collect()
}

fn value(v: &toml::Value, words: &dyn Words) -> toml::Value {
    match v {
        toml::Value::String(text) => toml::Value::String(fill(text, words)),
        toml::Value::Array(items) => toml::Value::Array(items.iter().map(|v| value(v, words)).collect()),
        toml::Value::Table(table) => toml::Value::Table(fill_table(table, words)),
        other => other.clone(),
    }
}
