//! Looking for a canary in what arrived, however it was spelled.

use std::collections::BTreeSet;

/// A canary's usual spellings.
pub(super) struct Needle {
    /// Compared without case.
    folded: Vec<Vec<u8>>,
    /// Compared as they are.
    exact: Vec<Vec<u8>>,
}

impl Needle {
    /// A canary: as it is, backwards, in hexadecimal, in base64 at any offset.
    pub(super) fn canary(value: &str) -> Self {
        let lower = value.to_ascii_lowercase().into_bytes();
        let reversed = lower.iter().rev().copied().collect();
        let mut folded = vec![lower.clone(), reversed, hex(value.as_bytes()).into_bytes()];
        folded.push(hex(&lower).into_bytes());
        let exact = (0..3)
            .flat_map(|offset| {
                let standard = base64_at(value.as_bytes(), offset);
                let for_urls = standard.replace('+', "-").replace('/', "_");
                [standard.into_bytes(), for_urls.into_bytes()]
            })
            .collect();
        Self { folded, exact }
    }

    /// These very bytes.
    pub(super) fn text(value: &str) -> Self {
        Self {
            folded: Vec::new(),
            exact: vec![value.as_bytes().to_vec()],
        }
    }

    /// Whether it is in there, percent-encoded or not.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let views: BTreeSet<Vec<u8>> = [bytes.to_vec(), without_percent(bytes)].into();
        views.iter().any(|view| {
            let lower = view.to_ascii_lowercase();
            self.folded.iter().any(|n| contains(&lower, n)) || self.exact.iter().any(|n| contains(view, n))
        })
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

fn without_percent(bytes: &[u8]) -> Vec<u8> {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let decoded = match &bytes[at..] {
            [b'%', high, low, ..] => digit(high).zip(digit(low)).map(|(h, l)| (h * 16 + l) as u8),
            _ => None,
        };
        out.push(decoded.unwrap_or(bytes[at]));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    out
}

/// Hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Base64 without padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * n) & 63) as usize]));
        }
    }
    out
}

/// What base64 makes of `bytes` wherever they begin in a longer text: the characters that depend on nothing else.
fn base64_at(bytes: &[u8], offset: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(bytes.iter().copied()).collect();
    let text = base64(&padded);
    let (start, end) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    text[start..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_found_and_others_are_not() {
        let needle = Needle::canary("CANARY-00ff17");
        let b64 = |before: &str| base64(format!("{before}CANARY-00ff17 and more").as_bytes());
        for text in [
            "x CANARY-00ff17 y".to_owned(),
            "canary-00FF17.evil.test".to_owned(),
            "GET /?q=CANARY%2D00%66f17".to_owned(),
            "71ff00-YRANAC".to_owned(),
            "43414e4152592d303066663137".to_owned(),
            b64(""),
            b64("x"),
            b64("xy"),
        ] {
            assert!(needle.is_in(text.as_bytes()), "{text}");
        }
        assert!(!needle.is_in(b"CANARY-00ff18 CANARY- 00ff17"));
        assert!(Needle::text("\u{1b}]0;").is_in(b"a\x1b]0;b") && !Needle::text("A").is_in(b"a"));
    }

    #[test]
    fn base64_is_base64() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
