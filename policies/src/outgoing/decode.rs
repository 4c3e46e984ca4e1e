//! The texts that a text may stand for: every usual encoding undone, a few levels deep.

/// Levels of encoding that are undone.
const DEPTH: usize = 3;
/// Texts that are looked at for one request, and bytes of all together.
const MAX_VIEWS: usize = 96;
const MAX_BYTES: usize = 256 * 1024;
/// Characters from which on a piece is tried as an encoding.
const SHORTEST: usize = 12;

/// The text itself and what it decodes to.
pub(crate) fn views(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    let (mut from, mut bytes) = (0, text.len());
    for _ in 0..DEPTH {
        let to = all.len();
        for i in from..to {
            for new in once(&all[i].clone()) {
                if all.len() >= MAX_VIEWS || bytes + new.len() > MAX_BYTES {
                    return all;
                }
                if !all.contains(&new) {
                    bytes += new.len();
                    all.push(new);
                }
            }
        }
        from = to;
    }
    all
}

/// Everything one level down.
fn once(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |new: String| {
        if new != text && !new.is_empty() {
            found.push(new);
        }
    };
    add(percent(text));
    add(percent(&text.replace('+', " ")));
    add(escapes(text));
    for piece in text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_' | '='))) {
        encoded(piece, &mut add);
        // A path is base64 as a whole, or its segments are.
        if piece.contains('/') {
            piece.split('/').for_each(|p| encoded(p, &mut add));
        }
        if piece.contains('=') {
            piece.split('=').for_each(|p| encoded(p, &mut add));
        }
    }
    found
}

fn encoded(piece: &str, add: &mut impl FnMut(String)) {
    let plain = piece.trim_end_matches('=');
    if plain.len() < SHORTEST {
        return;
    }
    for skip in 0..4 {
        if let Some(bytes) = plain.get(skip..).and_then(base64) {
            texts(&bytes, add);
        }
    }
    if let Some(bytes) = hex(plain) {
        texts(&bytes, add);
    }
    for skip in 0..8 {
        if let Some(bytes) = plain.get(skip..).and_then(base32) {
            texts(&bytes, add);
        }
    }
}

/// Bytes that are text, whole or from the first readable character on.
fn texts(bytes: &[u8], add: &mut impl FnMut(String)) {
    let readable = bytes
        .iter()
        .filter(|b| matches!(b, 0x20..=0x7e | b'\n' | b'\t'))
        .count();
    if bytes.len() >= 6 && readable * 10 >= bytes.len() * 8 {
        add(String::from_utf8_lossy(bytes).into_owned());
    }
    // UTF-16 in either order.
    if bytes.len() >= 12 && bytes.len().is_multiple_of(2) {
        for at in [0, 1] {
            if bytes.iter().skip(1 - at).step_by(2).all(|b| *b == 0) {
                add(bytes.iter().skip(at).step_by(2).map(|b| char::from(*b)).collect());
            }
        }
    }
}

/// `%XX` undone; anything else stays.
pub(crate) fn percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let pair = (bytes[i] == b'%').then(|| bytes.get(i + 1..i + 3)).flatten();
        match pair.and_then(|p| Some((digit(p[0])? << 4) | digit(p[1])?)) {
            Some(b) => {
                out.push(b);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// `\u0041`, `\x41`, `&#65;`, `&#x41;` undone.
fn escapes(text: &str) -> String {
    if !text.contains(['\\', '&']) {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '&']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (value, length) = one_escape(rest).unwrap_or_else(|| {
            (
                rest.chars().next().unwrap_or(' '),
                rest.chars().next().map_or(1, char::len_utf8),
            )
        });
        out.push(value);
        rest = &rest[length..];
    }
    out + rest
}

fn one_escape(text: &str) -> Option<(char, usize)> {
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    for (prefix, n) in [("\\u", 4), ("\\x", 2), ("\\U", 8)] {
        if let Some(digits) = text.strip_prefix(prefix).and_then(|r| r.get(..n)) {
            return Some((number(digits, 16)?, prefix.len() + n));
        }
    }
    let inner = text.strip_prefix("&#")?;
    let end = inner.find(';').filter(|e| *e <= 8)?;
    let value = match inner[..end].strip_prefix(['x', 'X']) {
        Some(hex) => number(hex, 16)?,
        None => number(&inner[..end], 10)?,
    };
    Some((value, end + 3))
}

fn digit(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).map(|d| d as u8)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    bytes
        .chunks_exact(2)
        .map(|p| Some((digit(p[0])? << 4) | digit(p[1])?))
        .collect()
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    bits(text, 6, value)
}

fn base32(text: &str) -> Option<Vec<u8>> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a'),
        b'2'..=b'7' => Some(b - b'2' + 26),
        _ => None,
    };
    bits(text, 5, value)
}

/// Groups of `width` bits as bytes; what is left over at the end is dropped.
fn bits(text: &str, width: u32, value: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let (mut held, mut count, mut out) = (0u32, 0, Vec::new());
    for b in text.bytes() {
        held = (held << width) | u32::from(value(b)?);
        count += width;
        if count >= 8 {
            count -= 8;
            out.push((held >> count) as u8);
            held &= (1 << count) - 1;
        }
    }
    Some(out)
}
