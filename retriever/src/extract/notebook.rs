//! Jupyter notebooks: what is written in Markdown, the code, and what it printed.

use super::{Block, Page, markdown, plain};
use picktwo_wire::answer::{BlockKind, Flag};
use reqwest::Url;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Bytes of what one cell printed that are kept.
const OUTPUT: usize = 8 * 1024;

/// Formats 4 and, with worksheets, 3. What is not named here is not read.
#[derive(Deserialize)]
struct Notebook {
    #[serde(default)]
    cells: Vec<Cell>,
    #[serde(default)]
    worksheets: Vec<Worksheet>,
}

#[derive(Deserialize)]
struct Worksheet {
    #[serde(default)]
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    #[serde(default)]
    cell_type: String,
    #[serde(default, alias = "input")]
    source: Lines,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    text: Lines,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    traceback: Lines,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default, rename = "text/plain")]
    plain: Lines,
    /// Pictures and the like are told by the presence of something else.
    #[serde(default, rename = "image/png")]
    picture: Option<Box<RawValue>>,
}

/// Text as one string or as lines with their ends.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Lines {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
    /// Whatever else is there is no text.
    Other(serde::de::IgnoredAny),
}

impl Lines {
    fn join(&self, between: &str) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Many(lines) => lines.join(between),
            Self::None | Self::Other(_) => String::new(),
        }
    }
}

/// Reads a notebook; what only looks like one is read as JSON.
pub(super) fn read(text: &str, url: &Url) -> Page {
    let Ok(notebook) = serde_json::from_str::<Notebook>(text) else {
        return super::json::read(text);
    };
    let cells: Vec<&Cell> = notebook
        .cells
        .iter()
        .chain(notebook.worksheets.iter().flat_map(|w| &w.cells))
        .collect();
    if cells.is_empty() {
        return super::json::read(text);
    }
    let mut page = Page::default();
    let (mut hidden, mut pictures) = (0, 0);
    for cell in cells {
        let source = cell.source.join("");
        match cell.cell_type.as_str() {
            "markdown" | "heading" => {
                let part = markdown::read(&source, url);
                let from = page.links.len();
                hidden += part
                    .flags
                    .iter()
                    .filter(|f| f.id == "hidden-text")
                    .map(|f| f.count)
                    .sum::<u64>();
                page.links.extend(part.links);
                page.blocks.extend(part.blocks.into_iter().map(|mut block| {
                    block.refs.iter_mut().for_each(|(_, link)| *link += from);
                    block
                }));
            }
            "raw" => page.blocks.extend(plain::text(&source).blocks),
            _ if !source.trim().is_empty() => {
                page.blocks
                    .push(Block::new(BlockKind::Code, 0, source.trim_end().to_owned()));
            }
            _ => {}
        }
        for output in &cell.outputs {
            pictures += u64::from(output.data.as_ref().is_some_and(|d| d.picture.is_some()));
            let data = output.data.as_ref().map(|d| d.plain.join("")).unwrap_or_default();
            let printed = [output.text.join(""), data, output.traceback.join("\n")].concat();
            let kept = crate::filter::cut(printed.trim_end(), OUTPUT);
            if !kept.is_empty() {
                page.blocks.push(Block::new(BlockKind::Code, 0, kept.to_owned()));
            }
        }
    }
    page.title = markdown::first_heading(&page);
    let mut flag = |id: &str, count: u64, note: &str| {
        if count > 0 {
            page.flags.push(Flag {
                id: id.to_owned(),
                count,
                note: note.to_owned(),
            });
        }
    };
    flag(
        "hidden-text",
        hidden,
        "comments and hidden elements of the document were removed",
    );
    flag(
        "pictures",
        pictures,
        "outputs of the notebook are pictures, which are not read",
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        read(text, &Url::parse("https://raw.example.org/a/b.ipynb").expect("a URL"))
    }

    fn shape(page: &Page) -> Vec<(BlockKind, &str)> {
        page.blocks.iter().map(|b| (b.kind, b.text.as_str())).collect()
    }

    #[test]
    fn cells_and_what_they_printed_are_read() {
        let page = page(
            r##"{"nbformat":4,"metadata":{"x":1},"cells":[
            {"cell_type":"markdown","source":["# Fitting\n","\n","See [the guide](guide.md). <!-- MARK -->\n"]},
            {"cell_type":"code","execution_count":1,"metadata":{},"source":"def f(x):\n    return x\n",
             "outputs":[{"output_type":"stream","name":"stdout","text":["a\n","b\n"]},
                        {"output_type":"execute_result","data":{"text/plain":["42"],"image/png":"iVBOR"}},
                        {"output_type":"error","ename":"E","traceback":["Traceback","ValueError: bad"]}]},
            {"cell_type":"code","source":[],"outputs":[]}]}"##,
        );
        assert_eq!(
            shape(&page),
            [
                (BlockKind::Heading, "Fitting"),
                (BlockKind::Text, "See the guide."),
                (BlockKind::Code, "def f(x):\n    return x"),
                (BlockKind::Code, "a\nb"),
                (BlockKind::Code, "42"),
                (BlockKind::Code, "Traceback\nValueError: bad"),
            ]
        );
        assert_eq!(page.title, "Fitting");
        assert_eq!(
            page.links[page.blocks[1].refs[0].1].url,
            "https://raw.example.org/a/guide.md"
        );
        let flags: Vec<(&str, u64)> = page.flags.iter().map(|f| (f.id.as_str(), f.count)).collect();
        assert_eq!(flags, [("hidden-text", 1), ("pictures", 1)]);
    }

    #[test]
    fn the_third_format_is_read_and_what_is_no_notebook_is_json() {
        let third =
            page(r#"{"nbformat":3,"worksheets":[{"cells":[{"cell_type":"code","input":["x = 1"],"outputs":[]}]}]}"#);
        assert_eq!(shape(&third), [(BlockKind::Code, "x = 1")]);
        for other in [r#"{"a":1}"#, r#"{"cells":3}"#, "not JSON"] {
            assert!(
                page(other).blocks[0]
                    .text
                    .contains(other.trim_matches(['{', '}']).split(':').next().unwrap_or(""))
            );
        }
    }
}
