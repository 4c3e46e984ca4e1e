//! A page out of pieces, each of which stays below the heading that says whose it is.

use crate::extract::{self, Block, Link, Page};
use picktwo_wire::answer::{BlockKind, Flag};
use reqwest::Url;

/// Bytes of one block of lines.
const PIECE: usize = 2000;

pub(super) struct Builder {
    page: Page,
    base: Url,
}

impl Builder {
    pub(super) fn new(base: &Url) -> Self {
        Self {
            page: Page::default(),
            base: base.clone(),
        }
    }

    pub(super) fn finish(mut self, title: &str) -> Page {
        self.page.title = title.to_owned();
        self.page
    }

    pub(super) fn heading(&mut self, level: u8, text: &str) {
        self.page
            .blocks
            .push(Block::new(BlockKind::Heading, level, text.to_owned()));
    }

    pub(super) fn text(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.page
                .blocks
                .push(Block::new(BlockKind::Text, 0, text.trim().to_owned()));
        }
    }

    pub(super) fn code(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.page
                .blocks
                .push(Block::new(BlockKind::Code, 0, text.trim_end().to_owned()));
        }
    }

    /// One entry of a list, with where it leads.
    pub(super) fn item(&mut self, text: &str, url: Option<&str>) {
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return;
        }
        let mut block = Block::new(BlockKind::List, 0, format!("- {text}"));
        if let Some(link) = url.and_then(|u| self.link(u)) {
            block.refs.push((block.text.len(), link));
        }
        self.page.blocks.push(block);
    }

    /// Lines that belong together as they are, cut into pieces that can be chosen from.
    pub(super) fn lines(&mut self, text: &str) {
        let (mut start, mut at) = (0, 0);
        for line in text.split_inclusive('\n') {
            // A file of a diff begins anew.
            if at - start > PIECE || at > start && line.starts_with("diff --git ") {
                self.code(&text[start..at]);
                start = at;
            }
            at += line.len();
        }
        self.code(&text[start..]);
    }

    /// What somebody wrote in Markdown, below a heading of this level.
    pub(super) fn markdown(&mut self, text: &str, below: u8) {
        let page = extract::markdown(text, &self.base);
        self.append(page, below);
    }

    /// Another page's content, whose headings go below one of this level: they cannot end it.
    pub(super) fn append(&mut self, page: Page, below: u8) {
        let first = self.page.links.len();
        self.page.links.extend(page.links);
        for mut block in page.blocks {
            if block.kind == BlockKind::Heading {
                block.level = block.level.saturating_add(below);
            }
            block.refs.iter_mut().for_each(|(_, link)| *link += first);
            self.page.blocks.push(block);
        }
        for flag in page.flags {
            self.flag(&flag.id, flag.count, &flag.note);
        }
    }

    pub(super) fn undecodable(&mut self, count: u64) {
        if count > 0 {
            self.flag("undecodable", count, "characters could not be decoded");
        }
    }

    pub(super) fn flag(&mut self, id: &str, count: u64, note: &str) {
        match self.page.flags.iter_mut().find(|f| f.id == id) {
            Some(flag) => flag.count += count,
            None => self.page.flags.push(Flag {
                id: id.to_owned(),
                count,
                note: note.to_owned(),
            }),
        }
    }

    fn link(&mut self, url: &str) -> Option<usize> {
        let mut url = Url::parse(url).ok()?;
        url.set_fragment(None);
        let plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
        if !plain || url.as_str().len() > picktwo_wire::MAX_URL {
            return None;
        }
        let url = url.to_string();
        if let Some(at) = self.page.links.iter().position(|l| l.url == url) {
            return Some(at);
        }
        self.page.links.push(Link { url });
        Some(self.page.links.len() - 1)
    }
}
