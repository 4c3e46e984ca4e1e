//! One spelling for all spellings of a file name that some file system takes for the same name.

/// Folds a name: ASCII and Unicode case, characters that case-folding file systems ignore (default ignorables), compatibility
/// forms of ASCII, a trailing dot or blank and a stream suffix (`name:stream`), which Windows file systems drop.
///
/// Bytes that are not UTF-8 stay as they are, as those file systems do it.
pub(crate) fn fold(name: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if name.is_ascii() {
        out.extend(name.iter().map(u8::to_ascii_lowercase));
    } else {
        for chunk in name.utf8_chunks() {
            for c in chunk.valid().chars() {
                push(c, out);
            }
            out.extend_from_slice(chunk.invalid());
        }
    }
    if let Some(at) = out.iter().position(|&b| b == b':')
        && at > 0
    {
        out.truncate(at);
    }
    while out.len() > 1 && matches!(out.last(), Some(b'.' | b' ')) && out.iter().any(|b| !matches!(b, b'.' | b' ')) {
        out.pop();
    }
}

fn push(c: char, out: &mut Vec<u8>) {
    let ascii: &str = match c {
        'ſ' => "s",
        '\u{212a}' => "k",
        'ı' | 'İ' => "i",
        'ß' | 'ẞ' => "ss",
        'ﬀ' => "ff",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ﬃ' => "ffi",
        'ﬄ' => "ffl",
        'ﬅ' | 'ﬆ' => "st",
        '\u{2024}' | '\u{fe52}' | '\u{3002}' | '\u{ff61}' => ".",
        '\u{2025}' => "..",
        '\u{2026}' => "...",
        '\u{ff01}'..='\u{ff5e}' => {
            let narrow = (c as u32 - 0xff01 + 0x21) as u8;
            out.push(narrow.to_ascii_lowercase());
            return;
        }
        // Letters that are ASCII with a style: circled, mathematical.
        '\u{24b6}'..='\u{24cf}' => return out.push((c as u32 - 0x24b6) as u8 + b'a'),
        '\u{24d0}'..='\u{24e9}' => return out.push((c as u32 - 0x24d0) as u8 + b'a'),
        '\u{1d400}'..='\u{1d6a3}' => return out.push(((c as u32 - 0x1d400) % 26) as u8 + b'a'),
        _ if ignorable(c) => return,
        _ => {
            let mut utf8 = [0; 4];
            for l in c.to_lowercase() {
                out.extend_from_slice(l.encode_utf8(&mut utf8).as_bytes());
            }
            return;
        }
    };
    out.extend_from_slice(ascii.as_bytes());
}

/// Default_Ignorable_Code_Point of Unicode, which Linux's case folding and HFS+ leave out of names.
fn ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a folded name is a Windows short name (`GIT~1`, `SETTIN~1.JSO`, `SETTI~10.JSO`) of the folded long name `of`.
pub(crate) fn is_short_of(folded: &[u8], of: &[u8]) -> bool {
    let Some(tilde) = folded.iter().position(|&b| b == b'~') else {
        return false;
    };
    let (base, rest) = (&folded[..tilde], &folded[tilde + 1..]);
    let dot = rest.iter().position(|&b| b == b'.').unwrap_or(rest.len());
    let (number, extension) = (&rest[..dot], rest.get(dot + 1..).unwrap_or(b""));
    if !(1..=6).contains(&number.len()) || !number.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let at = of.iter().rposition(|&b| b == b'.').filter(|&at| at > 0);
    let (long_base, long_extension) = at.map_or((of, &b""[..]), |at| (&of[..at], &of[at + 1..]));
    let same = |short: &[u8], long: &[u8], n: usize| {
        long.iter()
            .filter(|b| !matches!(b, b'.' | b' '))
            .take(n)
            .eq(short.iter())
    };
    same(base, long_base, 7 - number.len()) && same(extension, long_extension, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(name: &str) -> String {
        let mut out = Vec::new();
        fold(name.as_bytes(), &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn spellings_of_one_name_fold_to_it() {
        for name in [
            ".git",
            ".GIT",
            ".gIt",
            ".g\u{200c}it",
            ".git.",
            ".git ",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "\u{ff0e}ｇｉｔ",
            ".gıt",
            ".GİT",
            ".𝐠𝐢𝐭",
            ".ⓖⓘⓣ",
            "\u{feff}.git",
            ".gi\u{ad}t",
        ] {
            assert_eq!(folded(name), ".git", "{name:?}");
        }
        assert_eq!(folded("hookſ"), "hooks");
        assert_eq!(folded("hoo\u{212a}s"), "hooks");
        assert_eq!(folded("conﬁg"), "config");
        assert_eq!(folded("ﬆyle"), "style");
        assert_eq!(folded("..."), "...");
        assert_eq!(folded(":x"), ":x");
    }

    #[test]
    fn other_names_stay_apart() {
        for name in ["git", ".gitignore", "a.git", ".gitx", "é", "hooks2"] {
            assert_ne!(folded(name), ".git");
            assert_ne!(folded(name), "hooks");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept() {
        let mut out = Vec::new();
        fold(b".g\xffIT", &mut out);
        assert_eq!(out, b".g\xffit");
    }

    #[test]
    fn short_names_belong_to_their_long_name() {
        assert!(is_short_of(b"git~1", b".git"));
        assert!(is_short_of(b"claude~1", b".claude"));
        assert!(is_short_of(b"claude~2.jso", b".claude.json"));
        assert!(is_short_of(b"claud~10.md", b"claude.local.md"));
        assert!(!is_short_of(b"a~1", b"agents.md"));
        assert!(!is_short_of(b"git~", b".git"));
        assert!(!is_short_of(b"git~x", b".git"));
        assert!(!is_short_of(b"gi~1", b".git"));
        assert!(!is_short_of(b"notes~", b"notes"));
    }
}
