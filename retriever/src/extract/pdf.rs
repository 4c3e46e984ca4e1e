//! The text of PDF documents: what their pages show, in the order in which they draw it.

mod layout;
mod page;

use super::{Page, VEILED, markdown};
use crate::fetch::{FetchError, Large, Slow};
use hayro_interpret::hayro_syntax::{LoadPdfError, Pdf};
use hayro_interpret::kurbo::Rect;
use hayro_interpret::{Context, InterpreterCache, InterpreterSettings, interpret_page};
use page::{Drawn, Reader, Stop};
use picktwo_wire::answer::Flag;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Time for one document.
const TIME: Duration = Duration::from_secs(20);
/// Bytes that one compressed stream may become.
const MAX_STREAM: u64 = 64 << 20;
/// Bytes that all streams but those of pictures may become.
const MAX_STREAMS: u64 = 128 << 20;
/// Pages that are read.
const MAX_PAGES: usize = 1000;
/// Characters that are read.
const MAX_CHARACTERS: usize = 2_000_000;

/// Reads a document.
///
/// # Errors
/// [`FetchError::TooLarge`] and [`FetchError::Timeout`] for one that is built to exhaust its reader, [`FetchError::Encoding`] for
/// one that cannot be read.
pub(super) fn read(body: &[u8]) -> Result<Page, FetchError> {
    let deadline = Instant::now() + TIME;
    bounded(body, deadline)?;
    // A malformed file may be more than the library was prepared for; and only unwinding leaves its interpreter early.
    match catch_unwind(AssertUnwindSafe(|| document(body, deadline))) {
        Ok(read) => read,
        Err(cause) if cause.is::<Stop>() => Err(too_slow()),
        Err(_) => Err(malformed()),
    }
}

fn too_slow() -> FetchError {
    FetchError::Timeout(Slow::Reading(TIME.as_secs()))
}

fn malformed() -> FetchError {
    FetchError::Encoding("the PDF document is malformed".to_owned())
}

fn document(body: &[u8], deadline: Instant) -> Result<Page, FetchError> {
    let pdf = Pdf::new(body.to_vec()).map_err(|e| match e {
        LoadPdfError::Decryption(_) => {
            FetchError::Encoding("the PDF document is encrypted and does not open without a password".to_owned())
        }
        LoadPdfError::Invalid => malformed(),
    })?;
    let cache = InterpreterCache::new();
    let mut drawn = Vec::new();
    let mut characters = 0;
    for shown in pdf.pages().iter().take(MAX_PAGES) {
        let (width, height) = shown.render_dimensions();
        let area = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
        let place = hayro_interpret::kurbo::Affine::new(shown.initial_transform(true).as_coeffs());
        let mut context = Context::new(place, area, &cache, pdf.xref(), InterpreterSettings::default());
        let mut reader = Reader::new(area, deadline, MAX_CHARACTERS - characters);
        interpret_page(shown, &mut context, &mut reader);
        let page = reader.finish();
        characters += page.glyphs.len();
        drawn.push(page);
        if Instant::now() > deadline {
            resume_unwind(Box::new(Stop));
        }
        if characters >= MAX_CHARACTERS {
            break;
        }
    }
    let cut = pdf.pages().len() > drawn.len() || characters >= MAX_CHARACTERS;
    Ok(finish(&drawn, pdf.metadata().title.as_deref(), cut))
}

/// Makes blocks of what was drawn and says what was left out.
fn finish(drawn: &[Drawn], title: Option<&[u8]>, cut: bool) -> Page {
    let glyphs = || drawn.iter().flat_map(|p| &p.glyphs);
    let hidden = glyphs().filter(|g| g.hidden).count() as u64;
    let shown = glyphs().count() as u64 - hidden;
    // Scanned pages carry their text invisibly, behind or above the picture.
    let veiled = hidden > VEILED * shown;
    let mut page = Page {
        blocks: layout::blocks(drawn, veiled),
        title: title.map(string).unwrap_or_default(),
        ..Page::default()
    };
    if page.title.trim().is_empty() {
        page.title = markdown::first_heading(&page);
    }
    let mut flag = |id: &str, count: u64, note: &str| {
        if count > 0 {
            page.flags.push(Flag {
                id: id.to_owned(),
                count,
                note: note.to_owned(),
            });
        }
    };
    if veiled {
        flag(
            "veiled",
            1,
            "the document shows pictures and carries its text invisibly: it was read as if shown",
        );
    } else {
        let note = format!("{hidden} characters that the document does not show were removed");
        flag("hidden-text", hidden, &note);
    }
    flag("cut", u64::from(cut), "the document is longer than what was read of it");
    page
}

/// A string of the document's information: UTF-16 by its mark, UTF-8 by its mark, else nearly Latin-1.
fn string(bytes: &[u8]) -> String {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode(bytes).0.into_owned(),
        None => encoding_rs::WINDOWS_1252
            .decode_without_bom_handling(bytes)
            .0
            .into_owned(),
    }
}

/// Refuses compressed streams that become too large, before anything keeps what comes out of them. What it cannot see, because
/// streams are encrypted or compressed twice, ends at this process's limit of memory.
fn bounded(body: &[u8], deadline: Instant) -> Result<(), FetchError> {
    let mut total = 0;
    let mut at = 0;
    while let Some(found) = find(&body[at..], b"stream") {
        let keyword = at + found;
        at = keyword + b"stream".len();
        let data = &body[at..];
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        let data = data.strip_prefix(b"\n").unwrap_or(data);
        if body[..keyword].ends_with(b"end") || !matches!(data, [head, _, ..] if head & 0x0f == 8) {
            continue;
        }
        let bytes = inflated(data, deadline)?;
        let dictionary = &body[keyword.saturating_sub(400)..keyword];
        let dictionary = &dictionary[rfind(dictionary, b" obj").unwrap_or(0)..];
        if find(dictionary, b"/Image").is_none() {
            total += bytes;
        }
        if bytes > MAX_STREAM || total > MAX_STREAMS {
            return Err(FetchError::TooLarge(Large::Decoded(MAX_STREAM)));
        }
    }
    Ok(())
}

/// How many bytes come out of a zlib stream, at most one more than allowed.
fn inflated(data: &[u8], deadline: Instant) -> Result<u64, FetchError> {
    use std::io::Read;
    let mut decoder = flate2::read::ZlibDecoder::new(data).take(MAX_STREAM + 1);
    let mut piece = [0; 32 * 1024];
    let mut bytes = 0;
    // Where it is malformed, it ends.
    while let Ok(n @ 1..) = decoder.read(&mut piece) {
        bytes += n as u64;
        if Instant::now() > deadline {
            return Err(too_slow());
        }
    }
    Ok(bytes)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

fn rfind(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::rfind(haystack, needle)
}

#[cfg(test)]
mod tests;
