//! JSON as the gateway needs it: strict RFC 8259, duplicate keys refused, numbers kept as written, strings borrowed from
//! the body where they hold no escape. What leaves is always written by [`write_value`] and [`write_string`], never copied.

use std::borrow::Cow;

/// One JSON value; text borrows from the document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// The number exactly as it was written.
    Number(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    /// In the order written; no key occurs twice unless [`Limits::duplicates`] allows it.
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The member of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Value<'a>> {
        match self {
            Self::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// What kind of value this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Bounds of one document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Arrays and objects inside each other.
    pub(crate) depth: usize,
    /// Items of one array, members of one object.
    pub(crate) items: usize,
    /// Values in the whole document; bounds the memory of the tree (about 40 bytes each).
    pub(crate) values: usize,
    /// Whether a key may occur twice in an object: only in answers, which are inspected and passed on as they came.
    pub(crate) duplicates: bool,
}

/// Requests: GATEWAY's suggestion, far above what any agent was seen to send.
pub(crate) const REQUEST: Limits = Limits {
    depth: 64,
    items: 20_000,
    values: 1_000_000,
    duplicates: false,
};
/// Answers: they may echo a request one level deeper.
pub(crate) const ANSWER: Limits = Limits {
    depth: 96,
    items: 100_000,
    values: 1_000_000,
    duplicates: true,
};

/// Why a document was not accepted. Offsets are bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not UTF-8.
    Encoding { at: usize },
    /// Not JSON.
    Syntax { at: usize, expected: &'static str },
    /// An escaped half of a surrogate pair.
    LoneSurrogate { at: usize },
    /// The same key twice in one object.
    Duplicate { key: String, before: usize },
    /// More than [`Limits::depth`] levels.
    TooDeep { at: usize },
    /// More than [`Limits::items`] items or members.
    TooManyItems { at: usize },
    /// More than [`Limits::values`] values.
    TooManyValues { at: usize },
}

/// Bytes of one number; the longest that a double needs is below 800.
const MAX_NUMBER: usize = 1024;

/// Reads one document.
pub(crate) fn parse(body: &[u8], limits: Limits) -> Result<Value<'_>, Fault> {
    let text = std::str::from_utf8(body).map_err(|e| Fault::Encoding { at: e.valid_up_to() })?;
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        values: 0,
        limits,
    };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    if reader.at != reader.bytes.len() {
        return Err(reader.syntax("the end of the document"));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    values: usize,
    limits: Limits,
}

impl<'a> Reader<'a> {
    fn syntax(&self, expected: &'static str) -> Fault {
        Fault::Syntax { at: self.at, expected }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, Fault> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.syntax("a value"))
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, Fault> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(Fault::TooManyValues { at: self.at });
        }
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.syntax("a value")),
        }
    }

    fn enter(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > self.limits.depth {
            return Err(Fault::TooDeep { at: self.at });
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// After an item: true if another one follows, false at the end.
    fn more(&mut self, close: u8, items: usize, expected: &'static str) -> Result<bool, Fault> {
        self.space();
        match self.peek() {
            Some(b',') => {
                if items >= self.limits.items {
                    return Err(Fault::TooManyItems { at: self.at });
                }
                self.at += 1;
                self.space();
                Ok(true)
            }
            Some(b) if b == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.syntax(expected)),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, Fault> {
        self.enter(depth)?;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if !self.more(b']', items.len(), "`,` or `]`")? {
                return Ok(Value::Array(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, Fault> {
        self.enter(depth)?;
        let mut members: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.syntax("a key"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.syntax("`:`"));
            }
            self.at += 1;
            self.space();
            let value = self.value(depth)?;
            members.push((key, value));
            if !self.more(b'}', members.len(), "`,` or `}`")? {
                break;
            }
        }
        if !self.limits.duplicates
            && let Some(key) = duplicate(&members)
        {
            return Err(Fault::Duplicate {
                key: key.to_owned(),
                before: self.at,
            });
        }
        Ok(Value::Object(members))
    }

    fn number(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.syntax("a digit")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        if self.at - start > MAX_NUMBER {
            return Err(Fault::Syntax {
                at: start,
                expected: "a number of at most 1024 characters",
            });
        }
        Ok(Value::Number(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.syntax("a digit"))
        } else {
            Ok(())
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.at += 1;
        let start = self.at;
        self.plain()?;
        if self.peek() == Some(b'"') {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Cow::Borrowed(text));
        }
        let mut owned = String::from(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(owned));
                }
                Some(b'\\') => owned.push(self.escape()?),
                _ => {
                    let from = self.at;
                    self.plain()?;
                    owned.push_str(&self.text[from..self.at]);
                }
            }
        }
    }

    /// Goes to the next quote or backslash.
    fn plain(&mut self) -> Result<(), Fault> {
        self.at += plain_length(&self.bytes[self.at..]);
        match self.peek() {
            Some(b'"' | b'\\') => Ok(()),
            Some(_) => Err(self.syntax("no raw control character in a string")),
            None => Err(self.syntax("the end of the string")),
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let start = self.at;
        self.at += 1;
        let simple = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode(start);
            }
            _ => return Err(self.syntax("an escape")),
        };
        self.at += 1;
        Ok(simple)
    }

    fn unicode(&mut self, start: usize) -> Result<char, Fault> {
        let lone = Fault::LoneSurrogate { at: start };
        let first = self.hex4()?;
        let code = match first {
            0xD800..=0xDBFF => {
                if !self.bytes[self.at..].starts_with(b"\\u") {
                    return Err(lone);
                }
                self.at += 2;
                let second = self.hex4()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(lone);
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            _ => first,
        };
        char::from_u32(code).ok_or(lone)
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self
                .peek()
                .and_then(|b| char::from(b).to_digit(16))
                .ok_or(self.syntax("four hex digits"))?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// A key that occurs twice.
fn duplicate<'v>(members: &'v [(Cow<'_, str>, Value<'_>)]) -> Option<&'v str> {
    if members.len() <= 16 {
        return members
            .iter()
            .enumerate()
            .find(|(n, (key, _))| members[..*n].iter().any(|(k, _)| k == key))
            .map(|(_, (key, _))| &**key);
    }
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| &**key).collect();
    keys.sort_unstable();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Bytes before the first quote, backslash or control character. Eight at a time: images come as strings of megabytes.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // Whether any byte of a word is 0, or below 0x20 (Bit Twiddling Hacks, "haszero" and "hasless").
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let control = |word: u64| word.wrapping_sub(ONES * 0x20) & !word & HIGH;
    let (words, _) = bytes.as_chunks::<8>();
    let clean = words.iter().take_while(|word| {
        let word = u64::from_le_bytes(**word);
        zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\'))) | control(word) == 0
    });
    let start = clean.count() * 8;
    let rest = &bytes[start..];
    start
        + rest
            .iter()
            .position(|&b| b == b'"' || b == b'\\' || b < 0x20)
            .unwrap_or(rest.len())
}

/// Writes a string: escapes only what RFC 8259 demands.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, tail) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((&byte, tail)) = tail.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        rest = tail;
    }
    out.push(b'"');
}

/// Writes a value, without any space.
pub(crate) fn write_value(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(text) => out.extend_from_slice(text.as_bytes()),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (n, (key, member)) in members.iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write_value(member, out);
            }
            out.push(b'}');
        }
    }
}
