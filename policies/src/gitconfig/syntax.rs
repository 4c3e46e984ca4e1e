//! The syntax of git's configuration files: a strict reader, and a writer that lays lines out as git does.

use super::{MAX_FILE, Refused, refused};

/// One assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) section: String,
    /// Case is kept and counts.
    pub(super) subsection: Option<Vec<u8>>,
    /// As written; compare without case.
    pub(super) key: String,
    /// None: the key stands alone, which means true.
    pub(super) value: Option<Vec<u8>>,
    pub(super) line: usize,
}

impl Entry {
    /// `section.subsection.key`, for messages.
    pub(super) fn name(&self) -> String {
        match &self.subsection {
            Some(s) => format!(
                "{}.{}.{}",
                self.section,
                String::from_utf8_lossy(s),
                self.key.to_ascii_lowercase()
            ),
            None => format!("{}.{}", self.section, self.key.to_ascii_lowercase()),
        }
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        self.section == other.section
            && self.subsection == other.subsection
            && self.key.eq_ignore_ascii_case(&other.key)
            && self.value == other.value
    }
}

/// A file in order, so that it can be written again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Comment(Vec<u8>),
    Section { name: String, subsection: Option<Vec<u8>> },
    Entry(Entry),
}

/// Reads a file.
///
/// # Errors
/// [`Refused`] for the first line that is not understood.
pub(super) fn parse(content: &[u8]) -> Result<Vec<Item>, Refused> {
    if content.len() > MAX_FILE {
        return refused(1, "configuration", "is too long");
    }
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    if let Some(at) = content
        .iter()
        .position(|&b| (b < 0x20 && !matches!(b, b'\n' | b'\r' | b'\t')) || b == 0x7f)
    {
        let line = 1 + content[..at].iter().filter(|&&b| b == b'\n').count();
        return refused(line, "configuration", "holds a control character");
    }
    let mut reader = Reader {
        bytes: content,
        at: 0,
        line: 1,
    };
    let mut items = Vec::new();
    let mut section: Option<(String, Option<Vec<u8>>)> = None;
    loop {
        reader.skip_blanks()?;
        let Some(c) = reader.peek()? else { return Ok(items) };
        match c {
            b'#' | b';' => items.push(Item::Comment(reader.comment()?)),
            b'[' => {
                let (name, subsection) = reader.header()?;
                section = Some((name.clone(), subsection.clone()));
                items.push(Item::Section { name, subsection });
            }
            c if c.is_ascii_alphabetic() => {
                let line = reader.line;
                let Some((name, subsection)) = section.clone() else {
                    return refused(line, "configuration", "has a key before the first section");
                };
                let (key, value) = reader.assignment()?;
                items.push(Item::Entry(Entry {
                    section: name,
                    subsection,
                    key,
                    value,
                    line,
                }));
            }
            _ => return refused(reader.line, "configuration", "is not valid: unexpected character"),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Reader<'_> {
    /// The next byte, with CR LF as LF. A lone CR is refused: git's versions differ.
    fn peek(&self) -> Result<Option<u8>, Refused> {
        match self.bytes.get(self.at) {
            Some(b'\r') if self.bytes.get(self.at + 1) == Some(&b'\n') => Ok(Some(b'\n')),
            Some(b'\r') => refused(self.line, "configuration", "holds a carriage return"),
            other => Ok(other.copied()),
        }
    }

    fn next(&mut self) -> Result<Option<u8>, Refused> {
        let c = self.peek()?;
        if c.is_some() {
            self.at += if self.bytes[self.at] == b'\r' { 2 } else { 1 };
        }
        if c == Some(b'\n') {
            self.line += 1;
        }
        Ok(c)
    }

    fn skip_blanks(&mut self) -> Result<(), Refused> {
        while matches!(self.peek()?, Some(b' ' | b'\t' | b'\n')) {
            self.next()?;
        }
        Ok(())
    }

    fn skip_spaces(&mut self) -> Result<(), Refused> {
        while matches!(self.peek()?, Some(b' ' | b'\t')) {
            self.next()?;
        }
        Ok(())
    }

    fn comment(&mut self) -> Result<Vec<u8>, Refused> {
        let mut text = Vec::new();
        while let Some(c) = self.peek()? {
            if c == b'\n' {
                break;
            }
            text.push(c);
            self.next()?;
        }
        Ok(text)
    }

    fn header(&mut self) -> Result<(String, Option<Vec<u8>>), Refused> {
        let line = self.line;
        let bad = |reason| refused(line, "section", reason);
        self.next()?;
        let mut name = String::new();
        loop {
            match self.next()? {
                Some(b']') => break,
                Some(c) if c.is_ascii_alphanumeric() || c == b'-' => name.push(c.to_ascii_lowercase() as char),
                Some(b'.') => return bad("the old form [section.subsection] is not accepted"),
                Some(b' ' | b'\t') if !name.is_empty() => return self.subsection(name, line),
                _ => return bad("malformed header"),
            }
        }
        if name.is_empty() {
            bad("has no name")
        } else {
            Ok((name, None))
        }
    }

    fn subsection(&mut self, name: String, line: usize) -> Result<(String, Option<Vec<u8>>), Refused> {
        let bad = |reason| refused(line, name.clone(), reason);
        self.skip_spaces()?;
        if self.next()? != Some(b'"') {
            return bad("malformed subsection");
        }
        let mut subsection = Vec::new();
        loop {
            match self.next()? {
                Some(b'"') => break,
                Some(b'\\') => match self.next()? {
                    Some(b'\n') | None => return bad("malformed subsection"),
                    Some(c) => subsection.push(c),
                },
                Some(b'\n') | None => return bad("malformed subsection"),
                Some(c) => subsection.push(c),
            }
        }
        if self.next()? != Some(b']') {
            return bad("malformed subsection");
        }
        Ok((name, Some(subsection)))
    }

    fn assignment(&mut self) -> Result<(String, Option<Vec<u8>>), Refused> {
        let line = self.line;
        let mut key = String::new();
        while let Some(c) = self.peek()?.filter(|c| c.is_ascii_alphanumeric() || *c == b'-') {
            key.push(c as char);
            self.next()?;
        }
        self.skip_spaces()?;
        match self.next()? {
            None | Some(b'\n') => Ok((key, None)),
            Some(b'=') => {
                let value = self.value(line, &key)?;
                Ok((key, Some(value)))
            }
            _ => refused(line, key, "malformed key"),
        }
    }

    fn value(&mut self, line: usize, key: &str) -> Result<Vec<u8>, Refused> {
        let bad = |reason| refused(line, key, reason);
        let mut value = Vec::new();
        let mut kept = 0; // bytes that are not trailing blanks
        let mut quoted = false;
        self.skip_spaces()?;
        loop {
            match self.next()? {
                None | Some(b'\n') if quoted => return bad("a quote is not closed"),
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !quoted => {
                    self.comment()?;
                    self.next()?;
                    break;
                }
                Some(c @ (b' ' | b'\t')) if !quoted => {
                    // Older versions read a tab between words as a blank.
                    if !value.is_empty() {
                        value.push(if c == b'\t' { b' ' } else { c });
                    }
                }
                Some(b'"') => {
                    quoted = !quoted;
                    kept = value.len();
                }
                Some(b'\\') => match self.next()? {
                    // Blanks before a continuation are kept.
                    Some(b'\n') => kept = value.len(),
                    Some(c) => {
                        value.push(match c {
                            b't' => b'\t',
                            b'n' => b'\n',
                            b'"' | b'\\' => c,
                            b'b' => return bad("holds a control character"),
                            _ => return bad("unknown escape"),
                        });
                        kept = value.len();
                    }
                    None => return bad("ends within an escape"),
                },
                Some(c) => {
                    value.push(c);
                    kept = value.len();
                }
            }
        }
        value.truncate(kept);
        Ok(value)
    }
}

/// Writes a file that reads as the same keys.
pub(super) fn write(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Item::Comment(text) => {
                out.extend_from_slice(text);
                out.push(b'\n');
            }
            Item::Section { name, subsection } => {
                out.push(b'[');
                out.extend_from_slice(name.as_bytes());
                if let Some(s) = subsection {
                    out.extend_from_slice(b" \"");
                    for &b in s {
                        if matches!(b, b'"' | b'\\') {
                            out.push(b'\\');
                        }
                        out.push(b);
                    }
                    out.push(b'"');
                }
                out.extend_from_slice(b"]\n");
            }
            Item::Entry(e) => {
                out.push(b'\t');
                out.extend_from_slice(e.key.as_bytes());
                if let Some(value) = &e.value {
                    out.extend_from_slice(b" = ");
                    write_value(value, &mut out);
                }
                out.push(b'\n');
            }
        }
    }
    out
}

/// As git writes values: quotes where blanks or comment characters would be lost.
fn write_value(value: &[u8], out: &mut Vec<u8>) {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let quote = blank(value.first()) || blank(value.last()) || value.iter().any(|b| matches!(b, b'#' | b';'));
    if quote {
        out.push(b'"');
    }
    for &b in value {
        match b {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            _ => out.push(b),
        }
    }
    if quote {
        out.push(b'"');
    }
}
