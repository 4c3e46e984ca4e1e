//! Which headers of an upstream are passed on: those that agents use, if they look as they should.

use super::echo::Echo;
use hyper::header::HeaderMap;

const RATES: &[&str] = &["anthropic-ratelimit-", "x-ratelimit-"];

/// Words of the names of limits on rates. Anything else could be said in a name, too.
const WORDS: &[&str] = &[
    "1d",
    "1h",
    "1m",
    "5h",
    "7d",
    "after",
    "audio",
    "batch",
    "claim",
    "day",
    "disabled",
    "fallback",
    "fast",
    "hour",
    "images",
    "in",
    "input",
    "limit",
    "minute",
    "month",
    "opus",
    "output",
    "overage",
    "percentage",
    "priority",
    "project",
    "reason",
    "remaining",
    "representative",
    "requests",
    "reset",
    "retry",
    "sonnet",
    "status",
    "surpassed",
    "threshold",
    "tokens",
    "unified",
    "utilization",
];

/// Words that limits on rates have as values.
const STATES: &[&str] = &[
    "allowed",
    "allowed_warning",
    "available",
    "false",
    "five_hour",
    "overage",
    "rejected",
    "seven_day",
    "seven_day_opus",
    "seven_day_sonnet",
    "true",
];

/// Copies the few headers that agents use; what does not fit, or shows the key, is left out.
pub(crate) fn copy(from: &HeaderMap, to: &mut HeaderMap, echo: &Echo) {
    for (name, value) in from {
        let Ok(text) = value.to_str() else { continue };
        let fits = match name.as_str() {
            "retry-after" => number(text) || date(text),
            "retry-after-ms" => number(text),
            "x-should-retry" => matches!(text, "true" | "false"),
            "request-id" | "x-request-id" => identifier(text),
            name => {
                rate_name(name) && (number(text) || span(text) || date(text) || time(text) || STATES.contains(&text))
            }
        };
        if fits && !echo.is_in(text.as_bytes()) {
            to.insert(name, value.clone());
        }
    }
}

fn rate_name(name: &str) -> bool {
    let rest = RATES.iter().find_map(|start| name.strip_prefix(start));
    rest.is_some_and(|rest| name.len() <= 80 && rest.split('-').all(|word| WORDS.contains(&word)))
}

/// Digits, possibly with a fraction.
fn number(text: &str) -> bool {
    let digits = |text: &str| (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(text),
    }
}

/// A span of time like `6m0s`, `1d2h` or `12.5ms`.
fn span(text: &str) -> bool {
    let mut rest = text;
    for unit in ["d", "h", "m", "s", "ms"] {
        let length = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (amount, tail) = rest.split_at(length);
        let after = tail.strip_prefix(unit);
        if let Some(after) =
            after.filter(|after| number(amount) && (after.is_empty() || after.as_bytes()[0].is_ascii_digit()))
        {
            rest = after;
        }
    }
    rest.is_empty() && !text.is_empty()
}

/// A date of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> bool {
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    like(text, "***, 00 *** 0000 00:00:00 GMT") && days.contains(&&text[..3]) && months.contains(&&text[8..11])
}

/// A time of RFC 3339: `2026-01-27T12:00:00.5Z`.
fn time(text: &str) -> bool {
    let Some((day, rest)) = text.split_at_checked(19) else {
        return false;
    };
    let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let fraction = &rest[..rest.len() - zone.len()];
    let fraction = fraction.is_empty()
        || fraction
            .strip_prefix('.')
            .is_some_and(|digits| digits.len() <= 9 && number(digits));
    like(day, "0000-00-00T00:00:00") && fraction && (zone == "Z" || like(zone, "+00:00") || like(zone, "-00:00"))
}

/// `0` stands for a digit and `*` for a letter.
fn like(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(b, p)| match p {
            b'0' => b.is_ascii_digit(),
            b'*' => b.is_ascii_alphabetic(),
            p => b == p,
        })
}

fn identifier(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
}
