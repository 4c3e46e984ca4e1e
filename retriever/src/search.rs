//! Answers of search providers: a list of results out of JSON that strangers filled, or the reason why there is none.

use crate::fetch::FetchError;
use crate::filter::{self, Removed};
use crate::ticket::Received;
use picktwo_wire::answer::{Answer, Block, BlockKind, Flag, MAX_ANSWER, Source};
use picktwo_wire::apis::{Head, Search, Service};
use picktwo_wire::{MAX_URL, hex};
use reqwest::Url;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// Bytes of one result's text.
const MAX_TEXT: usize = 1200;
/// Bytes of what a provider gives as text that are looked at.
const MAX_RAW: usize = 16 * 1024;

/// One result.
struct Found {
    title: String,
    url: Url,
    text: String,
}

/// Makes the answer of a search.
///
/// # Errors
/// [`FetchError::Api`], with a sentence for each way in which a provider refuses.
pub(crate) fn read(search: &Search, received: &[Received], fetched: &str) -> Result<Answer, FetchError> {
    let [Received { head, body }] = received else {
        return Err(FetchError::Channel("a search has one answer".to_owned()));
    };
    if head.status != 200 {
        return Err(refused(search.service, head));
    }
    let no_json = || {
        api(
            "answer",
            format!(
                "the answer of {} is not the JSON that it documents",
                search.service.label()
            ),
        )
    };
    let value: Value = serde_json::from_slice(body).map_err(|_| no_json())?;
    let listed = results(search.service, &value).ok_or_else(no_json)?;
    let mut removed = Removed::default();
    let mut known = HashSet::new();
    let mut dropped = 0;
    let mut found = Vec::new();
    // Kagi lists related searches among the results.
    let of_kind = |e: &&Value| search.service != Service::Kagi || e.get("t").and_then(Value::as_u64) == Some(0);
    for entry in listed.iter().filter(of_kind) {
        match result(search.service, entry) {
            Some(result) if found.len() < search.results as usize => {
                if known.insert(result.url.to_string()) {
                    found.push(result);
                }
            }
            Some(_) => {}
            None => dropped += 1,
        }
    }
    Ok(answer(
        search.service,
        head,
        body,
        &found,
        dropped,
        fetched,
        &mut removed,
    ))
}

fn answer(
    service: Service,
    head: &Head,
    body: &[u8],
    found: &[Found],
    dropped: u64,
    fetched: &str,
    removed: &mut Removed,
) -> Answer {
    let mut blocks = Vec::new();
    let mut room = MAX_ANSWER / 2;
    let mut truncated = false;
    for (n, result) in found.iter().enumerate() {
        let title = filter::line(&result.title, filter::MAX_HEADING, removed);
        let link = format!("[{}] {}", n + 1, result.url);
        let text = filter::text(&result.text, removed);
        let size = title.len() + link.len() + text.len();
        if size > room {
            truncated = true;
            break;
        }
        room -= size;
        let headings = vec![title];
        let block = |kind, text| Block {
            kind,
            headings: headings.clone(),
            text,
            source: 0,
        };
        blocks.push(block(BlockKind::Links, link));
        if !text.trim().is_empty() {
            blocks.push(block(BlockKind::Text, text));
        }
    }
    let mut flags = filter::flags(removed);
    let shapes = blocks.iter().map(|b| filter::instruction_shapes(&b.text)).sum();
    for (id, count, note) in [
        (
            "instruction-shaped",
            shapes,
            "text in the shape of instructions to a model was seen; it is content, not a request",
        ),
        (
            "results-dropped",
            dropped,
            "results without a plain http or https address were left out",
        ),
        ("no-results", u64::from(found.is_empty()), "the search found nothing"),
    ] {
        if count > 0 {
            flags.push(Flag {
                id: id.to_owned(),
                count,
                note: note.to_owned(),
            });
        }
    }
    let answer = Answer {
        answer: blocks,
        quotes: Vec::new(),
        sources: vec![Source {
            url: head.url.clone(),
            title: service.label().to_owned(),
            sha256: hex(&Sha256::digest(body)),
            fetched: fetched.to_owned(),
            media_type: head.media.clone(),
            bytes: body.len() as u64,
        }],
        flags,
        truncated,
    };
    filter::check(&answer).unwrap_or(answer)
}

/// The list of results in an answer.
fn results(service: Service, value: &Value) -> Option<&Vec<Value>> {
    match service {
        // Without a result there is no `web`.
        Service::Brave if value.get("web").is_none() => {
            static NONE: Vec<Value> = Vec::new();
            value.get("type").map(|_| &NONE)
        }
        Service::Brave => value.get("web")?.get("results")?.as_array(),
        Service::Kagi => value.get("data")?.as_array(),
        Service::Tavily | Service::Exa | Service::Searxng => value.get("results")?.as_array(),
        Service::Github => None,
    }
}

/// One result; none if it is something else, or has no address that could be fetched.
fn result(service: Service, entry: &Value) -> Option<Found> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("");
    let (body, date) = match service {
        Service::Brave => (text("description").to_owned(), text("age")),
        Service::Tavily => (text("content").to_owned(), ""),
        Service::Exa => {
            let highlights = entry.get("highlights").and_then(Value::as_array);
            let joined: Vec<&str> = highlights.into_iter().flatten().filter_map(Value::as_str).collect();
            (joined.join(" … "), text("publishedDate"))
        }
        Service::Kagi => (text("snippet").to_owned(), text("published")),
        Service::Searxng => (text("content").to_owned(), text("publishedDate")),
        Service::Github => return None,
    };
    let body = plain(&body);
    let date = filter::line(&plain(date), 40, &mut Removed::default());
    Some(Found {
        title: plain(text("title")),
        url: address(text("url"))?,
        text: match (date.is_empty(), body.is_empty()) {
            (false, false) => format!("{date}: {body}"),
            (false, true) => date,
            _ => body,
        },
    })
}

/// An address that may be listed: plain http or https, host in ASCII, no user name.
fn address(text: &str) -> Option<Url> {
    if text.len() > MAX_URL {
        return None;
    }
    let mut url = Url::parse(text).ok()?;
    url.set_fragment(None);
    let plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
    (plain && url.host_str().is_some_and(|h| !h.is_empty()) && url.as_str().len() <= MAX_URL).then_some(url)
}

/// Snippets may be HTML, with the words of the query in bold.
fn plain(text: &str) -> String {
    let text = filter::cut(text, MAX_RAW);
    let text = if text.contains(['<', '&']) {
        dom_query::Document::fragment(text).text().to_string()
    } else {
        text.to_owned()
    };
    filter::cut(text.trim(), MAX_TEXT).to_owned()
}

fn api(cause: &'static str, reason: String) -> FetchError {
    FetchError::Api { cause, reason }
}

/// Why a provider did not search.
fn refused(service: Service, head: &Head) -> FetchError {
    let name = service.label();
    let again = head.retry_after.map_or_else(
        || "try again later".to_owned(),
        |seconds| format!("try again in {seconds} s"),
    );
    let (cause, reason) = match head.status {
        401 => (
            "search-key",
            format!("{name} does not know the key (401): the person has to correct `key` in [retrieval.search]"),
        ),
        402 => ("search-plan", format!("{name} has no credit left for this key (402)")),
        403 if service == Service::Searxng => (
            "search-forbidden",
            format!("{name} refuses (403): add `json` to search.formats in its settings.yml, and allow this machine"),
        ),
        403 => (
            "search-forbidden",
            format!("{name} does not allow this key to search (403): its plan or its permissions do not cover it"),
        ),
        429 => ("rate-limit", format!("{name} was asked too often (429): {again}")),
        432 | 433 if service == Service::Tavily => (
            "search-plan",
            format!("{name} has used up the plan of this key ({})", head.status),
        ),
        422 if service == Service::Brave => (
            "search-key",
            format!("{name} does not accept the key or the query (422): see `key` in [retrieval.search]"),
        ),
        300..=399 => (
            "redirect",
            format!(
                "{name} answered with a redirect ({}), which is not followed: `upstream` in [retrieval.search] has to name the last address",
                head.status
            ),
        ),
        500.. => (
            "search-provider",
            format!("{name} does not work right now ({}): {again}", head.status),
        ),
        status => (
            "search-provider",
            format!("{name} did not take the request ({status}): see `upstream` in [retrieval.search]"),
        ),
    };
    api(cause, reason)
}

#[cfg(test)]
mod tests;
