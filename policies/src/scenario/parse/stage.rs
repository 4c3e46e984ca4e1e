//! Reading `[[file]]` and `[[server]]`: what is there before anything runs.

use super::Reader;
use crate::model::Set;
use crate::scenario::{File, Page, Server};
use std::ops::Range;
use toml::de::DeTable;

impl Reader {
    pub(super) fn file(&mut self, t: &DeTable<'_>, span: Range<usize>) -> Option<File> {
        self.walk.known(t, &["path", "text", "executable"], "file");
        let path = self.needed(t, span.clone(), "path", "file.path");
        let text = self.needed(t, span, "text", "file.text");
        let executable = self.flag(t, "executable", "file.executable");
        self.plants(text.as_ref());
        if let Some(path) = &path {
            self.own_path(path);
        }
        Some(File {
            path: path?,
            text: text?,
            executable,
        })
    }

    pub(super) fn server(&mut self, t: &DeTable<'_>, span: Range<usize>) -> Option<Server> {
        self.walk.known(t, &["name", "known", "names", "page"], "server");
        let name = self.needed(t, span, "name", "server.name");
        let known = self.flag(t, "known", "server.known");
        let names = self.walk.list(t, "names", "server.names");
        let pages = self.each(t, "page", Self::page);
        Some(Server {
            name: name?,
            known,
            names,
            pages,
        })
    }

    pub(super) fn page(&mut self, t: &DeTable<'_>, span: Range<usize>) -> Option<Page> {
        self.walk
            .known(t, &["path", "status", "type", "location", "body"], "page");
        let path = self.needed(t, span.clone(), "path", "page.path")?;
        if path.value != "*" && (!path.value.starts_with('/') || path.value.contains('?')) {
            let label = "* or a path from / on, without a query";
            self.walk
                .problem(path.place.span.clone(), "is no path of a page", label, None);
        }
        let location = self.optional(t, "location", "page.location");
        let body = self.optional(t, "body", "page.body");
        self.plants(location.as_ref());
        self.plants(body.as_ref());
        let status = t
            .get("status")
            .and_then(|v| self.walk.integer(v, "page.status", 200, 599));
        let media_type = self.optional(t, "type", "page.type").unwrap_or_else(|| Set {
            value: "text/html; charset=utf-8".to_owned(),
            place: self.walk.place(span),
        });
        for header in [Some(&media_type), location.as_ref()].into_iter().flatten() {
            if header.value.chars().any(char::is_control) {
                let span = header.place.span.clone();
                self.walk.problem(span, "a header holds a control character", "", None);
            }
        }
        Some(Page {
            path,
            status: status.map_or(if location.is_some() { 302 } else { 200 }, |s| s.value as u16),
            media_type,
            location,
            body,
        })
    }
}
