//! Pieces that look random. Words, identifiers, versions and hashes of commits do not.

/// Characters from which on a piece is judged.
const SHORTEST: usize = 24;

/// The first piece of a text that looks random.
pub(crate) fn random_piece(text: &str) -> Option<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '_' | '-' | '=')))
        .find(|p| random(p))
}

fn random(piece: &str) -> bool {
    if piece.len() < SHORTEST || uuid(piece) {
        return false;
    }
    let digits: String = piece.chars().filter(char::is_ascii_alphanumeric).collect();
    if digits.len() >= SHORTEST && spells_text(&digits) {
        return true;
    }
    // Words joined by hyphens are judged one by one; a random text with a few hyphens in it stays one piece.
    let words: Vec<&str> = piece.split(['-', '_', '+']).filter(|w| !w.is_empty()).collect();
    if words.iter().filter(|w| wordlike(w)).map(|w| w.len()).sum::<usize>() * 2 >= piece.len() {
        return words.iter().any(|w| w.len() >= SHORTEST && random_word(w));
    }
    random_word(piece)
}

fn random_word(word: &str) -> bool {
    let letters: Vec<u8> = word.bytes().filter(u8::is_ascii_alphabetic).collect();
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if word.bytes().all(|b| b.is_ascii_hexdigit()) {
        // No time, number of an item or version is that long.
        if digits == word.len() {
            return true;
        }
        // SHA-1, SHA-256 and MD5 name commits, objects and files; what they could carry is charged in bits.
        return !matches!(word.len(), 32 | 40 | 64) && entropy(word) > 3.0;
    }
    if entropy(word) < 3.5 {
        return false;
    }
    if digits == 0 {
        return !wordlike(word) && word.len() >= SHORTEST;
    }
    // A name with a number at an end (`ubuntu2404server`) has one change of kind, random text many.
    let changes = word
        .as_bytes()
        .windows(2)
        .filter(|p| p[0].is_ascii_digit() != p[1].is_ascii_digit())
        .count();
    changes >= 4 || letters.is_empty() || !wordlike(&String::from_utf8_lossy(&letters))
}

/// Whether hexadecimal digits spell a text, beginning at either of the first two: its characters are too much alike to look random.
/// Of twelve random bytes all are printable once in 100 000 times.
fn spells_text(digits: &str) -> bool {
    let value = |b: u8| char::from(b).to_digit(16);
    let text = |digits: &[u8]| {
        digits.chunks_exact(2).all(|pair| {
            let byte = value(pair[0]).zip(value(pair[1])).map(|(high, low)| high * 16 + low);
            byte.is_some_and(|b| matches!(b, 0x20..=0x7e | 0x09 | 0x0a | 0x0d))
        })
    };
    text(digits.as_bytes()) || text(&digits.as_bytes()[1..])
}

/// Letters as words have them: vowels, and capitals only where words begin.
fn wordlike(word: &str) -> bool {
    let letters: Vec<u8> = word.bytes().filter(u8::is_ascii_alphabetic).collect();
    if letters.len() * 2 < word.len() {
        return word.len() <= 8;
    }
    let vowels = letters
        .iter()
        .filter(|b| matches!(b.to_ascii_lowercase(), b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
        .count();
    let flips = letters
        .windows(2)
        .filter(|p| p[0].is_ascii_lowercase() && p[1].is_ascii_uppercase())
        .count();
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    letters.len() <= 4 || (vowels * 5 >= letters.len() && flips * 4 <= letters.len() && digits * 3 <= letters.len())
}

fn uuid(piece: &str) -> bool {
    let lengths: Vec<usize> = piece.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && piece.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// Shannon's, in bits for each character.
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
