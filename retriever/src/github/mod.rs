//! Answers of GitHub, read as what they are: issues and pull requests with who wrote what, files as files, lists as lists. All of it was
//! written by strangers, names and titles included.

mod page;
mod refused;
mod shapes;
mod snapshot;
#[cfg(test)]
mod tests;

use crate::distil;
use crate::fetch::{Document, FetchError, Kind};
use crate::ticket::Received;
use page::Builder;
use picktwo_wire::answer::Answer;
use picktwo_wire::github::{Github, Op};
use reqwest::Url;
use serde_json::Value;

/// Bytes of a snapshot after decompression.
const MAX_SNAPSHOT: u64 = 64 << 20;

/// What a ticket asked, and for what.
pub(crate) struct Wanted<'j> {
    /// The operation.
    pub(crate) github: &'j Github,
    /// What is wanted of it.
    pub(crate) question: Option<&'j str>,
    /// Tokens.
    pub(crate) budget: u32,
    /// When, RFC 3339.
    pub(crate) fetched: &'j str,
}

/// Makes the answer of an operation.
///
/// # Errors
/// [`FetchError::Api`], with a sentence for each way in which GitHub refuses.
pub(crate) fn read(wanted: &Wanted<'_>, received: &[Received]) -> Result<Answer, FetchError> {
    let github = wanted.github;
    let Some(first) = received.first() else {
        return Err(FetchError::Channel("the gateway sent no answer".to_owned()));
    };
    if first.head.status != 200 {
        return Err(refused::reason(github, &first.head));
    }
    let url = address(github, first)?;
    let mut page = Builder::new(&url);
    let mut kind = Kind::Json;
    let mut cut = false;
    match github.op {
        Op::File => kind = file(github, first, &url, &mut page)?,
        Op::PrDiff => {
            kind = Kind::Plain;
            page.lines(&String::from_utf8_lossy(&first.body));
        }
        Op::Log => {
            kind = Kind::Plain;
            let log = String::from_utf8_lossy(&first.body);
            // Why a job failed stands at the end.
            let end = match wanted.question {
                Some(_) => &*log,
                None => tail(&log, wanted.budget as usize * distil::BYTES_PER_TOKEN),
            };
            if end.len() < log.len() {
                cut = true;
                page.flag(
                    "log-cut",
                    1,
                    "only the end of the log is shown: ask a question about the rest",
                );
            }
            page.lines(end);
        }
        Op::Snapshot => {
            kind = Kind::Plain;
            snapshot::read(github, &first.body, MAX_SNAPSHOT, wanted.question.is_some(), &mut page)?;
        }
        op => {
            let parts: Vec<Option<Value>> = received
                .iter()
                .map(|r| (r.head.status == 200).then(|| json(&r.body)).transpose())
                .collect::<Result<_, _>>()?;
            let mut parts = parts.into_iter().flatten();
            let main = parts.next().ok_or_else(garbage)?;
            shapes::write(op, &main, &parts.collect::<Vec<_>>(), &mut page).ok_or_else(garbage)?;
        }
    }
    if let Some(bad) = received.iter().find(|r| r.head.status != 200) {
        page.flag(
            "part-missing",
            1,
            &format!("a part of it was refused ({})", bad.head.status),
        );
    }
    if received.iter().any(|r| r.head.more) {
        page.flag("more-pages", 1, "there are more entries: ask for the next page");
    }
    let page = page.finish(&title(github));
    let document = Document {
        url,
        kind,
        media: first.head.media.clone(),
        body: received.iter().flat_map(|r| r.body.iter().copied()).collect(),
        text: String::new(),
        undecodable: 0,
        wire_bytes: 0,
    };
    let mut answer = distil::distil(&document, &page, wanted.question, wanted.budget, wanted.fetched);
    answer.truncated |= cut;
    Ok(answer)
}

/// The last whole lines of a text, at most this many bytes.
fn tail(text: &str, bytes: usize) -> &str {
    // The pieces are joined with some room between them.
    let from = text.len().saturating_sub(bytes - bytes / 8);
    match text.as_bytes()[from..].iter().position(|b| *b == b'\n') {
        Some(at) if from > 0 => &text[from + at + 1..],
        _ => text,
    }
}

fn json(body: &[u8]) -> Result<Value, FetchError> {
    serde_json::from_slice(body).map_err(|_| garbage())
}

fn garbage() -> FetchError {
    FetchError::Api {
        cause: "answer",
        reason: "the answer of GitHub is not of the form that it documents".to_owned(),
    }
}

/// What the source of the answer is called.
fn title(github: &Github) -> String {
    format!("GitHub {github}")
}

/// The address for the source: what was asked of the API. What lies in storage has an address that is a permission: it is not told.
fn address(github: &Github, first: &Received) -> Result<Url, FetchError> {
    let told = match (github.op, github.repository()) {
        (Op::Log | Op::Snapshot, Some((owner, name))) => format!("https://github.com/{owner}/{name}"),
        _ => first.head.url.clone(),
    };
    Url::parse(&told).map_err(|e| FetchError::Url(e.to_string()))
}

/// One file, or what is in a directory.
fn file(github: &Github, first: &Received, url: &Url, page: &mut Builder) -> Result<Kind, FetchError> {
    let path = github.path.as_deref().unwrap_or("");
    // What was asked for is raw; JSON of this type is a list of what is in a directory.
    if first.head.media == "application/json"
        && let Ok(Value::Array(entries)) = serde_json::from_slice(&first.body)
    {
        shapes::directory(path, &entries, page);
        return Ok(Kind::Json);
    }
    let document = crate::fetch::document(url.clone(), path, first.body.clone())?;
    match github.lines {
        Some((from, to)) => {
            let total = document.text.lines().count();
            let (from, to) = (from as usize, (to as usize).min(total));
            if from > total {
                return Err(FetchError::Api {
                    cause: "lines",
                    reason: format!("the file has {total} lines"),
                });
            }
            page.heading(1, &format!("{path}, lines {from} to {to} of {total}"));
            let lines: Vec<&str> = document.text.lines().skip(from - 1).take(to + 1 - from).collect();
            page.code(&lines.join("\n"));
        }
        None => page.append(crate::extract::read(&document)?, 0),
    }
    page.undecodable(document.undecodable);
    Ok(document.kind)
}
