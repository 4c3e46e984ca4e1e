//! A repository's files out of a tarball, in memory. Nothing of it is unpacked; links are named, never followed.

use super::page::Builder;
use crate::fetch::{self, FetchError, Kind, Large};
use flate2::read::GzDecoder;
use picktwo_wire::github::Github;
use reqwest::Url;
use std::io::Read;
use tar::{Archive, EntryType};

/// Entries of an archive.
const MAX_ENTRIES: usize = 100_000;
/// Bytes of one file that is read.
const MAX_FILE: u64 = 512 * 1024;
/// Bytes of all files that are read for a question.
const MAX_READ: u64 = 24 << 20;
/// Files that are named.
const MAX_NAMED: usize = 5000;

/// With `contents`, the files themselves, to be asked about; else their names and sizes.
pub(super) fn read(
    github: &Github,
    body: &[u8],
    most: u64,
    contents: bool,
    page: &mut Builder,
) -> Result<(), FetchError> {
    let broken = |_| FetchError::Api {
        cause: "answer",
        reason: "the snapshot is not the archive that GitHub documents".to_owned(),
    };
    // One byte more than is allowed tells that there is more.
    let mut archive = Archive::new(GzDecoder::new(body).take(most + 1));
    let mut seen = 0u64;
    let (mut named, mut read, mut left_out) = (0, 0u64, 0u64);
    let wanted = github.path.as_deref();
    page.heading(1, &format!("Files of {}", github.repository.as_deref().unwrap_or("")));
    for (n, entry) in archive.entries().map_err(broken)?.enumerate() {
        let mut entry = entry.map_err(broken)?;
        if n >= MAX_ENTRIES {
            return Err(FetchError::TooLarge(Large::Elements));
        }
        seen = seen.saturating_add(entry.size()).saturating_add(512);
        if seen > most {
            return Err(FetchError::TooLarge(Large::Decoded(most)));
        }
        let bytes = entry.path_bytes().into_owned();
        let full = String::from_utf8_lossy(&bytes).into_owned();
        // Everything lies in one directory that is named after the commit.
        let Some((_, path)) = full.split_once('/') else {
            continue;
        };
        let below = wanted.is_none_or(|w| path == w || path.strip_prefix(w).is_some_and(|rest| rest.starts_with('/')));
        if path.is_empty() || path.ends_with('/') || !below {
            continue;
        }
        if path.split('/').any(|part| part == "..") {
            left_out += 1;
            continue;
        }
        let kind = entry.header().entry_type();
        let size = entry.size();
        if !contents {
            if named >= MAX_NAMED {
                left_out += 1;
                continue;
            }
            named += 1;
            match kind {
                EntryType::Regular => page.item(&format!("{path} ({size} bytes)"), None),
                EntryType::Symlink | EntryType::Link => page.item(&format!("{path} (a link)"), None),
                _ => {}
            }
            continue;
        }
        if kind != EntryType::Regular {
            continue;
        }
        if size > MAX_FILE || read + size > MAX_READ {
            left_out += 1;
            continue;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(broken)?;
        read += size;
        let url = Url::parse("https://github.com/").map_err(|e| FetchError::Url(e.to_string()))?;
        // What is no text has nothing to say.
        let Ok(document) = fetch::document(url, path, content) else {
            continue;
        };
        page.heading(2, path);
        match document.kind {
            Kind::Markdown => page.markdown(&document.text, 2),
            _ => page.lines(&document.text),
        }
    }
    if left_out > 0 {
        page.flag(
            "files-left-out",
            left_out,
            "files were left out for their size, number or name",
        );
    }
    Ok(())
}
