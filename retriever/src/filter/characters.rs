//! Which characters may pass, decided by Unicode property rather than by list.

use regex::Regex;
use std::sync::LazyLock;

/// What was removed from a text, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Terminal escape sequences (ESC and the 8-bit C1 introducers), each as one.
    pub escapes: u64,
    /// Control characters other than newline and tab.
    pub controls: u64,
    /// Characters that set or isolate text direction.
    pub bidi: u64,
    /// Tag characters, which spell ASCII invisibly.
    pub tags: u64,
    /// Variation selectors, except those of an emoji.
    pub variations: u64,
    /// Private use and noncharacters.
    pub private: u64,
    /// Everything else that has no glyph: zero width, fillers, joiners out of place.
    pub invisible: u64,
    /// Chat-format tokens such as `<|im_start|>`, disarmed.
    pub roles: u64,
    /// Images written as Markdown or HTML, replaced by their description.
    pub images: u64,
}

impl Removed {
    /// All of it together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.escapes
            + self.controls
            + self.bidi
            + self.tags
            + self.variations
            + self.private
            + self.invisible
            + self.roles
            + self.images
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: &Self) {
        self.escapes += other.escapes;
        self.controls += other.controls;
        self.bidi += other.bidi;
        self.tags += other.tags;
        self.variations += other.variations;
        self.private += other.private;
        self.invisible += other.invisible;
        self.roles += other.roles;
        self.images += other.images;
    }
}

fn property(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// Everything that is looked at twice. Arabic and Syriac number signs are format characters with a glyph and stay.
static SUSPECT: LazyLock<Regex> = LazyLock::new(|| {
    property(
        r"[[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]--[\n\t\p{Prepended_Concatenation_Mark}]]",
    )
});
static BIDI: LazyLock<Regex> = LazyLock::new(|| property(r"\p{Bidi_Control}"));
static PRIVATE: LazyLock<Regex> = LazyLock::new(|| property(r"[\p{Co}\p{Noncharacter_Code_Point}]"));
static VARIATION: LazyLock<Regex> = LazyLock::new(|| property(r"\p{Variation_Selector}"));
static PICTOGRAPH: LazyLock<Regex> =
    LazyLock::new(|| property(r"^[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}]$"));
/// Scripts in which a joiner or non-joiner changes how a word looks.
static JOINING: LazyLock<Regex> = LazyLock::new(|| {
    property(concat!(
        r"^[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Nko}\p{Mandaic}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}",
        r"\p{Oriya}\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{Khmer}\p{Myanmar}\p{Tibetan}]$"
    ))
});

fn is(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

/// The longest escape sequence that is taken as one; a longer one loses its introducer only.
const MAX_ESCAPE: usize = 4096;

/// Length in bytes of the terminal escape sequence at the start of `text`, if there is one.
fn escape(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    let (_, first) = chars.next()?;
    let kind = match first {
        '\u{1b}' => match chars.next() {
            Some((_, c @ ('[' | ']' | 'P' | 'X' | '^' | '_'))) => c,
            // ESC, intermediates (0x20-0x2f), one final byte.
            Some((_, c @ ' '..='/')) => {
                let _ = c;
                for (at, c) in chars {
                    if ('0'..='~').contains(&c) {
                        return Some(at + 1);
                    }
                    if !(' '..='/').contains(&c) {
                        break;
                    }
                }
                return Some(1);
            }
            Some((at, '0'..='~')) => return Some(at + 1),
            _ => return Some(1),
        },
        '\u{9b}' => '[',
        '\u{9d}' => ']',
        '\u{90}' => 'P',
        '\u{98}' => 'X',
        '\u{9e}' => '^',
        '\u{9f}' => '_',
        _ => return None,
    };
    let start = chars.offset();
    if kind == '[' {
        for (at, c) in chars {
            match c {
                ' '..='?' => {}
                '@'..='~' => return Some(at + 1),
                _ => break,
            }
        }
        return Some(start);
    }
    // A control string ends with BEL or ST; an unterminated one must not swallow the page.
    let mut before = '\0';
    for (at, c) in chars.take(MAX_ESCAPE) {
        match c {
            '\u{7}' | '\u{9c}' => return Some(at + c.len_utf8()),
            '\\' if before == '\u{1b}' => return Some(at + 1),
            _ => before = c,
        }
    }
    Some(start)
}

/// Removes what has no place in a text that a person or a model reads as it looks, and counts it.
#[must_use]
pub fn clean(text: &str, removed: &mut Removed) -> String {
    if text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\t')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(hit) = SUSPECT.find_at(text, at) {
        out.push_str(&text[at..hit.start()]);
        let rest = &text[hit.start()..];
        let c = rest.chars().next().unwrap_or('\0');
        at = hit.end();
        if let Some(length) = escape(rest) {
            removed.escapes += 1;
            at = hit.start() + length;
            continue;
        }
        match c {
            // Line ends of other systems, and form feed, which old text files use to part sections.
            '\r' => {
                if !rest[1..].starts_with('\n') {
                    out.push('\n');
                }
            }
            '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\u{fe0e}' | '\u{fe0f}' if emoji_before(&out) || text[at..].starts_with('\u{20e3}') => out.push(c),
            '\u{200d}' if emoji_before(&out) && next_is(&PICTOGRAPH, &text[at..]) => out.push(c),
            '\u{200c}' | '\u{200d}' if last_is(&JOINING, &out) && next_is(&JOINING, &text[at..]) => out.push(c),
            '\u{e0000}'..='\u{e007f}' => removed.tags += 1,
            _ if c.is_control() => removed.controls += 1,
            _ if is(&BIDI, c) => removed.bidi += 1,
            _ if is(&VARIATION, c) => removed.variations += 1,
            _ if is(&PRIVATE, c) => removed.private += 1,
            _ => removed.invisible += 1,
        }
    }
    out.push_str(&text[at..]);
    out
}

fn last_is(class: &Regex, text: &str) -> bool {
    text.chars().next_back().is_some_and(|c| is(class, c))
}

fn next_is(class: &Regex, text: &str) -> bool {
    text.chars().next().is_some_and(|c| is(class, c))
}

fn emoji_before(out: &str) -> bool {
    let out = out.strip_suffix('\u{fe0f}').unwrap_or(out);
    last_is(&PICTOGRAPH, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> (String, Removed) {
        let mut removed = Removed::default();
        let out = clean(text, &mut removed);
        (out, removed)
    }

    #[test]
    fn invisible_characters_go_and_are_counted_by_kind() {
        let (out, removed) = cleaned("a\u{200b}b\u{202e}c\u{e0041}d\u{fe05}e\u{e000}f\u{0}g\u{3164}h\u{ad}i\u{2066}");
        assert_eq!(out, "abcdefghi");
        assert_eq!((removed.invisible, removed.bidi, removed.tags), (3, 2, 1));
        assert_eq!((removed.variations, removed.private, removed.controls), (1, 1, 1));
    }

    #[test]
    fn every_listed_range_goes() {
        let ranges: &[(u32, u32)] = &[
            (0x00, 0x08),
            (0x0e, 0x1a),
            (0x1c, 0x1f),
            (0x7f, 0x84),
            (0x86, 0x8f),
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x17b4, 0x17b5),
            (0x180b, 0x180e),
            (0x200b, 0x200f),
            (0x202a, 0x202e),
            (0x2060, 0x206f),
            (0x3164, 0x3164),
            (0xfe00, 0xfe0f),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff9, 0xfffb),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe0fff),
            (0xe000, 0xe010),
            (0xfdd0, 0xfdef),
            (0xffffe, 0xfffff),
        ];
        for &(low, high) in ranges {
            for code in low..=high {
                let c = char::from_u32(code).expect("a scalar value");
                assert_eq!(cleaned(&format!("a{c}b")).0, "ab", "U+{code:04X}");
            }
        }
    }

    #[test]
    fn writing_that_needs_joiners_and_emoji_keeps_them() {
        for text in [
            "👩\u{200d}💻",
            "❤\u{fe0f}",
            "1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
            "क\u{94d}\u{200d}ष",
            "naïve — “quoted” 日本語\tx\n",
        ] {
            assert_eq!(cleaned(text), (text.to_owned(), Removed::default()), "{text:?}");
        }
        assert_eq!(cleaned("pass\u{200d}word").0, "password");
        assert_eq!(cleaned("می\u{200c}\u{200c}خواهم").0, "می\u{200c}خواهم", "one at a time");
    }

    #[test]
    fn terminal_escapes_go_whole() {
        for (text, want) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{9b}31mred", "red"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;https://x.example\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb"),
            ("a\u{9d}52;c;Zm9v\u{9c}b", "ab"),
            ("a\u{1b}(0b", "ab"),
            ("a\u{1b}cb", "ab"),
            ("a\u{1b}]no end of it", "ano end of it"),
            ("end\u{1b}", "end"),
            ("a\u{1b}[", "a"),
        ] {
            let (out, removed) = cleaned(text);
            assert_eq!(out, want, "{text:?}");
            assert!(removed.escapes > 0, "{text:?}");
        }
    }

    #[test]
    fn foreign_line_ends_become_newlines() {
        assert_eq!(
            cleaned("a\r\nb\rc\u{2028}d\u{c}e"),
            ("a\nb\nc\nd\ne".to_owned(), Removed::default())
        );
    }

    #[test]
    fn cleaning_twice_changes_nothing() {
        let text = "a\u{1b}\u{1b}[[31mx\u{200b}\u{200d}\u{fe0f}👩\u{200d}\u{200d}💻\u{9b}\u{202e}\u{e0001}";
        let once = cleaned(text).0;
        assert_eq!(cleaned(&once), (once.clone(), Removed::default()));
    }
}
