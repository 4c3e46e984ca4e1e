//! How picktwo speaks to people: one sentence per error, colour only on terminals.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Prints `picktwo: SENTENCE` to stderr and gives picktwo's own exit code.
pub(crate) fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    say(error);
    ExitCode::from(super::EXIT_FAILED)
}

/// Prints `picktwo: SENTENCE` to stderr. A closed stderr is no reason to fail.
pub(crate) fn say(line: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "picktwo: {line}");
}

/// Writes to stdout; a closed pipe (`| head`) ends the command quietly.
pub(crate) fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => fail(&format!("cannot write to stdout: {e}")),
    }
}

/// Colours for one stream: codes on a terminal, nothing elsewhere or with `NO_COLOR` (no-color.org).
#[derive(Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For stdout.
    pub(crate) fn stdout() -> Self {
        Self(std::io::stdout().is_terminal() && allowed())
    }

    /// For stderr.
    pub(crate) fn stderr() -> Self {
        Self(std::io::stderr().is_terminal() && allowed())
    }

    /// Green.
    pub(crate) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Red.
    pub(crate) fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Yellow.
    pub(crate) fn warn(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Bold.
    pub(crate) fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Faint.
    pub(crate) fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Whether diagnostics on stderr may be coloured.
pub(crate) fn colourful_stderr() -> bool {
    std::io::stderr().is_terminal() && allowed()
}

fn allowed() -> bool {
    std::env::var_os(crate::names::NO_COLOR).is_none_or(|v| v.is_empty())
        && std::env::var_os(crate::names::TERM).is_none_or(|t| t != "dumb")
}

/// Text that others had a hand in (paths, URLs, commands), made harmless for a terminal: control and format characters show as
/// their numbers.
pub(crate) fn plain(text: &str) -> String {
    let strange = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars()
        .map(|c| {
            if strange(c) {
                format!("\\u{{{:x}}}", c as u32)
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// Text for XML 1.0, which has no place for most control characters.
pub(crate) fn xml(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => "\u{fffd}".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

/// A table with aligned columns, no borders. Cells are shown as [`plain`] text.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            rows.iter()
                .filter_map(|r| r.get(c))
                .map(|s| s.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            line.push_str(cell);
            if c + 1 < row.len() {
                let pad = widths[c].saturating_sub(cell.chars().count()) + 2;
                line.extend(std::iter::repeat_n(' ', pad));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_made_harmless() {
        assert_eq!(xml("a<b> & \"c\"\n"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}");
    }
}
