//! What a document is and which characters its bytes stand for.

use super::error::FetchError;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Kinds of documents that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HTML and XHTML.
    Html,
    /// Markdown.
    Markdown,
    /// JSON in any of its types.
    Json,
    /// A Jupyter notebook.
    Notebook,
    /// XML, RSS, Atom.
    Xml,
    /// Source code.
    Source,
    /// PDF, which is no text before it is read.
    #[cfg(feature = "pdf")]
    Pdf,
    /// Anything else that is text.
    Plain,
}

/// Bytes at the start of a document in which a declared encoding is looked for (HTML §13.2.3.2).
const PRESCAN: usize = 1024;

/// Splits a `Content-Type` into the lower-case type and its `charset`.
#[must_use]
pub(crate) fn parse(header: &str) -> (String, Option<String>) {
    let mut parts = header.split(';');
    let media = parts.next().unwrap_or("").trim().to_ascii_lowercase();
    let charset = parts.find_map(|p| {
        let (name, value) = p.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    let well_formed = !media.is_empty()
        && media.len() <= 100
        && media
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/.+-_".contains(&b));
    (if well_formed { media } else { String::new() }, charset)
}

/// Text types that servers do not call `text/…`.
const TEXT_TYPES: &[&str] = &[
    "application/javascript",
    "application/ecmascript",
    "application/x-javascript",
    "application/typescript",
    "application/toml",
    "application/yaml",
    "application/x-yaml",
    "application/sql",
    "application/x-sh",
    "application/x-httpd-php",
    "application/graphql",
    "application/x-tex",
    "application/x-python-code",
    "application/x-ruby",
    "application/x-perl",
    "application/rtf",
    "application/x-subrip",
    "model/gltf+json",
];

/// Ends of names of files that hold source code or settings.
const SOURCE: &[&str] = &[
    "asm",
    "awk",
    "bash",
    "bat",
    "bzl",
    "c",
    "cc",
    "cfg",
    "clj",
    "cljs",
    "cmake",
    "conf",
    "cpp",
    "cs",
    "css",
    "cxx",
    "d",
    "dart",
    "diff",
    "el",
    "elm",
    "erl",
    "ex",
    "exs",
    "f90",
    "fish",
    "fs",
    "glsl",
    "go",
    "gradle",
    "graphql",
    "groovy",
    "h",
    "hcl",
    "hh",
    "hpp",
    "hrl",
    "hs",
    "ini",
    "java",
    "jl",
    "js",
    "jsx",
    "kt",
    "kts",
    "less",
    "lisp",
    "lock",
    "lua",
    "m",
    "mjs",
    "mk",
    "ml",
    "mli",
    "mm",
    "mod",
    "nim",
    "nix",
    "patch",
    "php",
    "pl",
    "pm",
    "properties",
    "proto",
    "ps1",
    "pxd",
    "py",
    "pyi",
    "pyx",
    "r",
    "rb",
    "rkt",
    "rs",
    "s",
    "sass",
    "scala",
    "scm",
    "scss",
    "sh",
    "sol",
    "sql",
    "svelte",
    "swift",
    "tcl",
    "tex",
    "tf",
    "toml",
    "ts",
    "tsx",
    "v",
    "vala",
    "vb",
    "vhdl",
    "vim",
    "vue",
    "wat",
    "yaml",
    "yml",
    "zig",
    "zsh",
];

fn is_source(extension: Option<&str>) -> bool {
    extension.is_some_and(|e| SOURCE.binary_search(&e).is_ok())
}

/// Readers look for the mark in the first kilobyte.
fn is_pdf(body: &[u8]) -> bool {
    let start = &body[..body.len().min(PRESCAN)];
    let text = start.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    start[text..]
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(&start[text..])
        .starts_with(b"%PDF-")
}

/// A document that is, or calls itself, PDF. Before it has come, the type is all there is.
#[cfg(feature = "pdf")]
fn pdf(body: &[u8]) -> Result<Kind, FetchError> {
    if body.is_empty() || memchr::memmem::find(&body[..body.len().min(PRESCAN)], b"%PDF-").is_some() {
        return Ok(Kind::Pdf);
    }
    Err(FetchError::Encoding("it calls itself PDF and is not".to_owned()))
}

#[cfg(not(feature = "pdf"))]
fn pdf(_: &[u8]) -> Result<Kind, FetchError> {
    Err(FetchError::ContentType {
        media: "application/pdf (this picktwo was built without PDF)".to_owned(),
    })
}

/// Decides how to read a document from its type, the URL's path and its first bytes.
pub(crate) fn kind(media: &str, path: &str, body: &[u8]) -> Result<Kind, FetchError> {
    let unread = |media: &str| {
        Err(FetchError::ContentType {
            media: media.to_owned(),
        })
    };
    if is_pdf(body) || matches!(media, "application/pdf" | "application/x-pdf") {
        return pdf(body);
    }
    let extension = path
        .rsplit('/')
        .next()
        .and_then(|name| name.rsplit_once('.'))
        .map(|(_, e)| e.to_ascii_lowercase());
    let kind = match media {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "text/markdown" | "text/x-markdown" => Kind::Markdown,
        "application/x-ipynb+json" => Kind::Notebook,
        "application/json" | "text/plain" if extension.as_deref() == Some("ipynb") => Kind::Notebook,
        // What lists of types make of `.rs` and `.ts`.
        "application/rls-services+xml" | "video/mp2t" if is_source(extension.as_deref()) => Kind::Source,
        m if m == "application/json" || m == "text/json" || m.ends_with("+json") => Kind::Json,
        m if m == "application/xml" || m == "text/xml" || m.ends_with("+xml") && !m.starts_with("image/") => Kind::Xml,
        // Servers of source code and release notes call them all plain text.
        "text/plain" if matches!(extension.as_deref(), Some("md" | "markdown")) => Kind::Markdown,
        "application/x-ndjson" | "application/jsonl" => Kind::Json,
        "text/plain" if matches!(extension.as_deref(), Some("json" | "jsonl" | "ndjson")) => Kind::Json,
        "text/plain" if is_source(extension.as_deref()) => Kind::Source,
        "text/plain" | "text/csv" | "text/tab-separated-values" | "text/rtf" | "message/rfc822" => Kind::Plain,
        // Whatever else calls itself text is written for a program.
        m if m.starts_with("text/") || TEXT_TYPES.contains(&m) => Kind::Source,
        "" | "application/octet-stream" | "binary/octet-stream" | "application/x-unknown-content-type" => {
            sniff(extension.as_deref(), body)
        }
        m => return unread(m),
    };
    // UTF-16 has NUL bytes and always a mark; anything else with a NUL is not text (HTML §5, "binary data bytes").
    let marked = Encoding::for_bom(body).is_some();
    if !marked && body.iter().take(64 * 1024).any(|b| *b == 0) {
        return unread(if media.is_empty() {
            "unknown (it is not text)"
        } else {
            "binary data"
        });
    }
    Ok(kind)
}

fn sniff(extension: Option<&str>, body: &[u8]) -> Kind {
    let start: Vec<u8> = body
        .iter()
        .copied()
        .skip_while(u8::is_ascii_whitespace)
        .take(64)
        .map(|b| b.to_ascii_lowercase())
        .collect();
    if start.starts_with(b"<?xml") {
        Kind::Xml
    } else if [&b"<!doctype html"[..], b"<html", b"<head", b"<body", b"<!--"]
        .iter()
        .any(|tag| start.starts_with(tag))
    {
        Kind::Html
    } else {
        match extension {
            Some("md" | "markdown") => Kind::Markdown,
            Some("json" | "jsonl" | "ndjson") => Kind::Json,
            Some("ipynb") => Kind::Notebook,
            extension if is_source(extension) => Kind::Source,
            _ => Kind::Plain,
        }
    }
}

/// The document's text: encoding by byte order mark, header, declaration in the document, and then UTF-8 or, where the bytes are
/// not, Windows-1252. The second value counts characters that could not be decoded.
pub(crate) fn text(kind: Kind, charset: Option<&str>, body: &[u8]) -> Result<(String, u64), FetchError> {
    #[cfg(feature = "pdf")]
    if kind == Kind::Pdf {
        return Ok((String::new(), 0));
    }
    let encoding = encoding(kind, charset, body)?;
    let (text, _, bad) = encoding.decode(body);
    let bad = if bad {
        text.matches('\u{fffd}').count() as u64
    } else {
        0
    };
    Ok((text.into_owned(), bad))
}

fn encoding(kind: Kind, charset: Option<&str>, body: &[u8]) -> Result<&'static Encoding, FetchError> {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return Ok(encoding);
    }
    let refused = |label: &str| Err(FetchError::Encoding(format!("character set “{label}” is not read")));
    if let Some(label) = charset {
        match Encoding::for_label(label.as_bytes()) {
            Some(e) if e == encoding_rs::REPLACEMENT => return refused(label),
            Some(encoding) => return Ok(encoding),
            None if label.to_ascii_lowercase().contains("utf-7") => return refused(label),
            None => {}
        }
    }
    if let Some(label) = declared(kind, body) {
        match Encoding::for_label(&label) {
            Some(e) if e == encoding_rs::REPLACEMENT => return refused(&String::from_utf8_lossy(&label)),
            // A declaration that could be read as ASCII cannot be UTF-16 (HTML §13.2.3.2).
            Some(e) if e == UTF_16LE || e == UTF_16BE => return Ok(UTF_8),
            Some(encoding) => return Ok(encoding),
            None => {}
        }
    }
    Ok(if std::str::from_utf8(body).is_ok() {
        UTF_8
    } else {
        WINDOWS_1252
    })
}

/// The encoding that a document's start declares: `<meta charset>`, `<meta http-equiv … content="…; charset=…">`, `<?xml … ?>`.
fn declared(kind: Kind, body: &[u8]) -> Option<Vec<u8>> {
    let start: Vec<u8> = body.iter().take(PRESCAN).map(u8::to_ascii_lowercase).collect();
    let find = |haystack: &[u8], needle: &[u8]| haystack.windows(needle.len()).position(|w| w == needle);
    let value = |after: &[u8]| -> Option<Vec<u8>> {
        let after: &[u8] = after.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
        let after = after.strip_prefix(b"\"").or(after.strip_prefix(b"'")).unwrap_or(after);
        let label: Vec<u8> = after
            .iter()
            .copied()
            .take_while(|b| b.is_ascii_alphanumeric() || b"-_:.".contains(b))
            .collect();
        (!label.is_empty()).then_some(label)
    };
    if matches!(kind, Kind::Xml | Kind::Html) && start.trim_ascii_start().starts_with(b"<?xml") {
        let end = find(&start, b"?>")?;
        if let Some(at) = find(&start[..end], b"encoding") {
            return value(&start[at + 8..end]);
        }
    }
    if kind != Kind::Html {
        return None;
    }
    let mut rest = &start[..];
    loop {
        // Declarations inside comments do not count.
        let tag = find(rest, b"<meta")?;
        if let Some(comment) = find(rest, b"<!--").filter(|c| *c < tag) {
            let end = find(&rest[comment..], b"-->")?;
            rest = &rest[comment + end..];
            continue;
        }
        let end = find(&rest[tag..], b">")?;
        let attributes = &rest[tag..tag + end];
        if let Some(at) = find(attributes, b"charset")
            && let Some(label) = value(&attributes[at + 7..])
        {
            return Some(label);
        }
        rest = &rest[tag + end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sorted() {
        let kind = |header: &str, path, body: &[u8]| kind(&parse(header).0, path, body);
        assert_eq!(kind("Text/HTML; charset=x", "/", b"x"), Ok(Kind::Html));
        assert_eq!(kind("application/problem+json", "/", b"{}"), Ok(Kind::Json));
        assert_eq!(kind("application/atom+xml", "/", b"<feed/>"), Ok(Kind::Xml));
        assert_eq!(kind("text/plain", "/README.md", b"# x"), Ok(Kind::Markdown));
        assert_eq!(kind("text/x-rust", "/a", b"fn"), Ok(Kind::Source));
        assert_eq!(kind("text/plain", "/a.rs", b"fn"), Ok(Kind::Source));
        assert_eq!(kind("application/octet-stream", "/a.toml", b"[a]"), Ok(Kind::Source));
        assert_eq!(kind("application/rls-services+xml", "/a.rs", b"fn"), Ok(Kind::Source));
        assert_eq!(kind("video/mp2t", "/a.ts", b"let"), Ok(Kind::Source));
        assert_eq!(kind("text/plain", "/a.rs.txt", b"fn"), Ok(Kind::Plain));
        assert_eq!(kind("text/plain", "/a.ipynb", b"{}"), Ok(Kind::Notebook));
        assert_eq!(kind("application/jsonl", "/a", b"{}"), Ok(Kind::Json));
        assert_eq!(kind("", "/", b" <!DOCTYPE html>"), Ok(Kind::Html));
        assert_eq!(kind("application/octet-stream", "/x", b"plain"), Ok(Kind::Plain));
        assert_eq!(kind("text/plain", "/", b"\xff\xfea\0b\0"), Ok(Kind::Plain));
        for (header, body) in [
            ("image/png", &b"x"[..]),
            ("image/svg+xml", b"<svg/>"),
            ("text/plain", b"a\0b"),
            ("application/octet-stream", b"\x7fELF\0"),
            ("application/zip", b"PK"),
            ("video/mp4", b"x"),
            ("video/mp2t", b"x"),
        ] {
            assert!(
                matches!(kind(header, "/", body), Err(FetchError::ContentType { .. })),
                "{header}"
            );
        }
        assert_eq!(
            parse("text/html\u{202e}; charset=\"UTF-8\""),
            (String::new(), Some("UTF-8".to_owned()))
        );
    }

    #[test]
    fn ends_of_names_are_in_order() {
        assert!(SOURCE.is_sorted());
    }

    #[cfg(feature = "pdf")]
    #[test]
    fn pdf_is_told_by_its_bytes() {
        for header in ["application/pdf", "text/html", "application/octet-stream", ""] {
            assert_eq!(kind(header, "/", b"%PDF-1.7\0"), Ok(Kind::Pdf), "{header}");
        }
        assert_eq!(kind("application/pdf", "/", b""), Ok(Kind::Pdf));
        assert!(matches!(
            kind("application/pdf", "/", b"<html>"),
            Err(FetchError::Encoding(_))
        ));
    }

    #[test]
    fn mark_beats_header_beats_declaration() {
        let read = |charset, body: &[u8]| text(Kind::Html, charset, body).map(|(t, _)| t);
        assert_eq!(read(Some("windows-1252"), b"\xef\xbb\xbf\xc3\xa9"), Ok("é".to_owned()));
        assert_eq!(read(Some("utf-8"), b"\xff\xfe\xe9\0"), Ok("é".to_owned()));
        assert!(read(Some("windows-1251"), b"<meta charset=utf-8>\xe9").is_ok_and(|t| t.ends_with('й')));
        assert!(read(None, b"<meta charset=\"windows-1251\">\xe9").is_ok_and(|t| t.ends_with('й')));
        assert!(
            read(
                None,
                b"<meta http-equiv=content-type content='text/html; charset=koi8-r'>\xca"
            )
            .is_ok_and(|t| t.ends_with('й'))
        );
        assert!(read(None, b"<?xml version='1.0' encoding='windows-1251'?>\xe9").is_ok_and(|t| t.ends_with('й')));
        assert!(
            read(None, b"<!-- <meta charset=koi8-r> --><meta charset=windows-1251>\xe9")
                .is_ok_and(|t| t.ends_with('й'))
        );
        assert!(read(None, "<meta charset=utf-16>é".as_bytes()).is_ok_and(|t| t.ends_with('é')));
        assert_eq!(read(None, "é".as_bytes()), Ok("é".to_owned()));
        assert_eq!(read(None, b"caf\xe9"), Ok("café".to_owned()));
        assert_eq!(read(Some("no-such-thing"), "é".as_bytes()), Ok("é".to_owned()));
        assert_eq!(read(Some("shift_jis"), b"\x93\xfa\x96{"), Ok("日本".to_owned()));
    }

    #[test]
    fn sets_that_smuggle_are_refused() {
        for charset in ["utf-7", "x-UTF-7", "hz-gb-2312", "iso-2022-kr"] {
            assert!(
                matches!(text(Kind::Html, Some(charset), b"x"), Err(FetchError::Encoding(_))),
                "{charset}"
            );
        }
        assert!(matches!(
            text(Kind::Html, None, b"<meta charset=iso-2022-kr>"),
            Err(FetchError::Encoding(_))
        ));
    }

    #[test]
    fn undecodable_characters_are_counted() {
        assert_eq!(
            text(Kind::Plain, Some("utf-8"), b"a\xffb\xfe"),
            Ok(("a\u{fffd}b\u{fffd}".to_owned(), 2))
        );
    }
}
