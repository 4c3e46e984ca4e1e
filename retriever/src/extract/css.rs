//! The small part of CSS that decides whether text can be seen.
//!
//! Style sheets inside the page and `style` attributes are read; external sheets and scripts are not, so text that only they
//! hide is not found.

/// A rule that may hide or show text.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// One complex selector, without commas.
    pub(super) selector: String,
    /// Ids, then classes and attributes, then tags.
    pub(super) specificity: (u32, u32, u32),
    /// The declarations that matter here.
    pub(super) declarations: Vec<Declaration>,
}

/// One declaration of a property that decides whether text can be seen, or of a custom property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declaration {
    pub(super) property: String,
    pub(super) value: String,
    pub(super) important: bool,
}

const PROPERTIES: &[&str] = &[
    "display",
    "visibility",
    "opacity",
    "font-size",
    "font",
    "color",
    "background",
    "background-color",
    "background-image",
    "clip",
    "clip-path",
    "-webkit-clip-path",
    "position",
    "left",
    "right",
    "top",
    "bottom",
    "inset",
    "text-indent",
    "width",
    "height",
    "max-width",
    "max-height",
    "overflow",
    "overflow-x",
    "overflow-y",
    "transform",
    "scale",
    "translate",
    "margin",
    "margin-left",
    "margin-top",
    "content-visibility",
    "filter",
    "zoom",
    "-webkit-text-fill-color",
    "line-height",
    // They tell text that an animation brings in from text that nobody is to see.
    "animation",
    "animation-name",
    "transition",
    "will-change",
];

/// The width, in pixels, that media queries are judged by.
const VIEWPORT: f32 = 1280.0;
/// Rules read from one page; a page with more is one whose sheets were generated, and the first ones are its base.
const MAX_RULES: usize = 20_000;

/// Takes comments out of a style sheet; strings are left alone.
fn without_comments(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(at) = rest.find("/*") {
        out.push_str(&rest[..at]);
        out.push(' ');
        match rest[at + 2..].find("*/") {
            Some(end) => rest = &rest[at + 2 + end + 2..],
            None => return out,
        }
    }
    out.push_str(rest);
    out
}

/// The end of a block whose opening brace was just read: the index of its closing brace.
fn block_end(css: &str) -> usize {
    let mut depth = 1;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in css.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (_, '\\') => escaped = true,
            (Some(q), c) if c == q || c == '\n' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    css.len()
}

/// Reads a style sheet.
pub(super) fn sheet(css: &str, rules: &mut Vec<Rule>) {
    let css = without_comments(css);
    let mut pending: Vec<&str> = vec![&css];
    // Conditional groups are put behind what was already there; order inside a group is kept.
    while let Some(mut rest) = pending.pop() {
        while let Some(open) = rest.find(['{', ';']) {
            let prelude = rest[..open]
                .trim()
                .trim_start_matches(['}', ' ', '\n'])
                .trim_start_matches("<!--")
                .trim();
            if rest.as_bytes()[open] == b';' {
                rest = &rest[open + 1..];
                continue;
            }
            let after = &rest[open + 1..];
            let end = block_end(after);
            let body = &after[..end];
            rest = after.get(end + 1..).unwrap_or("");
            if let Some(at_rule) = prelude.strip_prefix('@') {
                if group_applies(at_rule) && pending.len() < 1000 {
                    pending.push(rest);
                    rest = body;
                }
                continue;
            }
            let declarations = declarations(body);
            if declarations.is_empty() {
                continue;
            }
            for selector in split(prelude, ',') {
                if rules.len() >= MAX_RULES {
                    return;
                }
                let selector = selector.trim();
                if selector.is_empty() || is_stateful(selector) {
                    continue;
                }
                rules.push(Rule {
                    selector: selector.to_owned(),
                    specificity: specificity(selector),
                    declarations: declarations.clone(),
                });
            }
        }
    }
}

fn group_applies(at_rule: &str) -> bool {
    let (name, condition) = at_rule
        .split_once(|c: char| c.is_whitespace() || c == '(')
        .unwrap_or((at_rule, ""));
    match name.to_ascii_lowercase().as_str() {
        "layer" | "supports" | "scope" => true,
        "media" => media_applies(condition),
        _ => false,
    }
}

/// Whether a media attribute or query holds on a screen of the width that is assumed.
pub(super) fn media_applies(query: &str) -> bool {
    let query = query.to_ascii_lowercase();
    query.trim().is_empty()
        || query.split(',').any(|q| {
            let negated = q.trim_start().starts_with("not ");
            let other = ["print", "speech", "aural", "tty", "braille"]
                .iter()
                .any(|m| q.contains(m));
            let preference = [
                "prefers-",
                "forced-colors",
                "inverted-colors",
                "hover: none",
                "pointer: coarse",
            ]
            .iter()
            .any(|m| q.contains(m));
            let width = |name: &str| {
                let after = q.split_once(name)?.1.trim_start().strip_prefix(':')?;
                length(after.split(')').next()?.trim(), 16.0)
            };
            let narrow = width("max-width").is_some_and(|w| w < VIEWPORT);
            let wide = width("min-width").is_some_and(|w| w > VIEWPORT);
            (!other && !preference && !narrow && !wide) != negated
        })
}

/// Selectors that hold only for a while or for no element.
fn is_stateful(selector: &str) -> bool {
    let selector = selector.to_ascii_lowercase();
    selector.contains("::")
        || [
            ":hover",
            ":focus",
            ":active",
            ":target",
            ":visited",
            ":checked",
            ":before",
            ":after",
            ":first-line",
            ":first-letter",
            ":disabled",
            ":placeholder",
            ":-webkit",
            ":-moz",
            ":-ms",
        ]
        .iter()
        .any(|state| selector.contains(state))
}

/// Splits at a character, outside brackets and quotes.
fn split(text: &str, at: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut quote, mut start) = (0i32, None, 0);
    for (n, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            (None, c) if c == at && depth <= 0 => {
                parts.push(&text[start..n]);
                start = n + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn specificity(selector: &str) -> (u32, u32, u32) {
    let (mut ids, mut classes, mut tags) = (0, 0, 0);
    let mut before = ' ';
    for c in selector.chars() {
        match c {
            '#' => ids += 1,
            '.' | '[' | ':' => classes += 1,
            c if (c.is_ascii_alphabetic()) && matches!(before, ' ' | '>' | '+' | '~' | '\n' | '\t' | '(') => tags += 1,
            _ => {}
        }
        before = c;
    }
    (ids, classes, tags)
}

/// The class, id or tag without which the selector's subject cannot match; none if there is no such part.
pub(super) fn subject_key(selector: &str) -> Option<String> {
    let mut depth = 0i32;
    let mut start = 0;
    for (at, c) in selector.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ' ' | '>' | '+' | '~' | '\n' | '\t' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    let subject = &selector[start..];
    let simple = subject.split(['(', '[', ':']).next().unwrap_or("");
    // An escaped name is compared by the matcher alone.
    if simple.contains('\\') {
        return None;
    }
    let name = |mark: char| {
        let after = &simple[simple.find(mark)? + 1..];
        let end = after.find(['.', '#']).unwrap_or(after.len());
        (end > 0).then(|| format!("{mark}{}", &after[..end]))
    };
    name('#').or_else(|| name('.')).or_else(|| {
        let tag = simple.split(['.', '#']).next().unwrap_or("").to_ascii_lowercase();
        (!tag.is_empty() && tag != "*").then_some(tag)
    })
}

/// Reads declarations, of a rule or of a `style` attribute, and keeps those that matter.
pub(super) fn declarations(text: &str) -> Vec<Declaration> {
    let text = if text.contains("/*") {
        without_comments(text)
    } else {
        text.to_owned()
    };
    let mut out = Vec::new();
    for part in split(&text, ';') {
        // A nested rule: what precedes its selector is not a declaration either.
        if part.contains('{') {
            continue;
        }
        let Some((property, value)) = part.split_once(':') else {
            continue;
        };
        let property = unescape(property.trim()).to_ascii_lowercase();
        if !property.starts_with("--") && !PROPERTIES.contains(&property.as_str()) {
            continue;
        }
        let mut value = unescape(value.trim()).to_ascii_lowercase();
        let mut important = false;
        if let Some((before, mark)) = value.rsplit_once('!')
            && mark.trim() == "important"
        {
            important = true;
            value = before.trim_end().to_owned();
        }
        out.push(Declaration {
            property,
            value,
            important,
        });
    }
    out
}

/// Resolves CSS escapes: `\64 isplay` is `display`.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let mut code = String::new();
        while code.len() < 6 && chars.peek().is_some_and(char::is_ascii_hexdigit) {
            code.extend(chars.next());
        }
        if code.is_empty() {
            out.extend(chars.next());
            continue;
        }
        if chars.peek().is_some_and(|c| c.is_whitespace()) {
            chars.next();
        }
        out.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
    }
    out
}

/// A length in pixels, given the font size that `em` stands for; percentages and sizes of the viewport are taken of
/// [`VIEWPORT`].
pub(super) fn length(value: &str, em: f32) -> Option<f32> {
    let value = value.trim();
    let digits = value
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(value.len());
    // 1e3px: the exponent belongs to the number only if digits follow.
    let (number, unit) = value.split_at(digits);
    let (number, unit) = match unit.strip_prefix('e').map(|u| {
        (
            u.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(u.len()),
            u,
        )
    }) {
        Some((n, exponent)) if n > 0 => (format!("{number}e{}", &exponent[..n]), &exponent[n..]),
        _ => (number.to_owned(), unit),
    };
    let number: f32 = number.parse().ok()?;
    let factor = match unit.trim() {
        "px" => 1.0,
        "" => {
            if number != 0.0 {
                return None;
            }
            1.0
        }
        "pt" => 4.0 / 3.0,
        "pc" => 16.0,
        "em" => em,
        "rem" => 16.0,
        "ex" | "ch" => em / 2.0,
        "cm" => 37.8,
        "mm" => 3.78,
        "q" => 0.945,
        "in" => 96.0,
        "%" | "vw" | "vh" | "vmin" | "vmax" | "dvw" | "dvh" | "svh" | "lvh" => VIEWPORT / 100.0,
        _ => return None,
    };
    Some(number * factor)
}

/// Whether any length in a value, `calc()` and functions included, reaches `limit` pixels in the negative.
pub(super) fn far_negative(value: &str, em: f32, limit: f32) -> bool {
    let mut minus = false;
    value
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '*'))
        .any(|token| {
            if token == "-" {
                minus = true;
                return false;
            }
            let far = length(token, em).is_some_and(|l| if minus { l >= limit } else { l <= -limit });
            minus &= token.is_empty();
            far
        })
}

#[cfg(test)]
mod tests;
