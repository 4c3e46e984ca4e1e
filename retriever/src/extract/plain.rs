//! Plain text and source code.

use super::{Block, Page};
use picktwo_wire::answer::BlockKind;

/// Bytes of one block of a document without blocks of its own.
const PIECE: usize = 1200;

/// Plain text: paragraphs, and what is laid out by hand as it is.
pub(super) fn text(text: &str) -> Page {
    let mut page = Page::default();
    let mut paragraph: Vec<&str> = Vec::new();
    for line in text.lines().chain([""]) {
        if !line.trim().is_empty() {
            paragraph.push(line);
            // A file without blank lines is cut where it is long.
            if paragraph.iter().map(|l| l.len()).sum::<usize>() < 4 * PIECE {
                continue;
            }
        }
        if paragraph.is_empty() {
            continue;
        }
        // Indentation, columns and braces are the form of code, of tables and of output.
        let formed = paragraph
            .iter()
            .filter(|l| l.starts_with([' ', '\t']) || l.trim().contains("  ") || l.ends_with(['{', '}', ';']))
            .count();
        let kind = if 2 * formed >= paragraph.len() {
            BlockKind::Code
        } else {
            BlockKind::Text
        };
        page.blocks.push(Block::new(kind, 0, paragraph.join("\n")));
        paragraph.clear();
    }
    page
}

/// Source code, byte for byte, cut where something begins at the left edge behind a blank line.
pub(super) fn source(text: &str) -> Page {
    let mut page = Page::default();
    let mut start = 0;
    let (mut at, mut blank) = (0, false);
    for line in text.split_inclusive('\n') {
        let begins = blank && !line.trim().is_empty() && !line.starts_with([' ', '\t', '}', ')', ']']);
        if begins && at - start > PIECE / 4 || at - start > 4 * PIECE {
            piece(&text[start..at], &mut page);
            start = at;
        }
        blank = line.trim().is_empty();
        at += line.len();
    }
    piece(&text[start..], &mut page);
    page
}

fn piece(text: &str, page: &mut Page) {
    let text = text.trim_end().trim_start_matches(['\n', '\r']);
    if !text.is_empty() {
        page.blocks.push(Block::new(BlockKind::Code, 0, text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(page: &Page) -> Vec<(BlockKind, &str)> {
        page.blocks.iter().map(|b| (b.kind, b.text.as_str())).collect()
    }

    #[test]
    fn plain_text_keeps_its_form() {
        let page = text("A line\nof prose.\n\nfn main() {\n    x();\n}\n\nlast");
        assert_eq!(
            shape(&page),
            [
                (BlockKind::Text, "A line\nof prose."),
                (BlockKind::Code, "fn main() {\n    x();\n}"),
                (BlockKind::Text, "last")
            ]
        );
    }

    #[test]
    fn source_code_is_cut_between_its_parts_and_changed_nowhere() {
        let part = |n: usize| {
            format!(
                "fn part_{n}() {{\n{}\n\n    let y = {n};\n}}\n",
                "    call(\"a  b\");\n".repeat(20)
            )
        };
        let text: String = (0..9).map(|n| part(n) + "\n").collect();
        let page = source(&text);
        assert_eq!(page.blocks.len(), 9);
        assert!(page.blocks.iter().all(|b| b.kind == BlockKind::Code));
        let again: String = page.blocks.iter().map(|b| format!("{}\n\n", b.text)).collect();
        assert_eq!(again, text);
        let long = source(
            &"x".repeat(100)
                .repeat(30)
                .replace("xxxxxxxxxx", "xxxxxxxxx\n")
                .repeat(9),
        );
        assert!(long.blocks.iter().all(|b| b.text.len() < 6 * PIECE));
    }
}
