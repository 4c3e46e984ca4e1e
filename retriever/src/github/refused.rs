//! Why GitHub did not do what was asked: rate limits and permissions in words.

use crate::fetch::FetchError;
use picktwo_wire::apis::Head;
use picktwo_wire::github::{Github, Op};

pub(super) fn reason(github: &Github, head: &Head) -> FetchError {
    let what = github.repository.as_deref().unwrap_or("what was asked for");
    let again = wait(head);
    let exhausted = head.rate.as_ref().is_some_and(|r| r.remaining == 0);
    let anonymous = if head.credentials {
        ""
    } else {
        "; without a token GitHub allows 60 requests an hour: the person can name one as `key` in [github]"
    };
    let (cause, reason) = match head.status {
        301 | 302 | 307 | 308 => ("redirect", format!("GitHub redirects without saying where to ({})", head.status)),
        401 if head.credentials => (
            "github-key",
            "GitHub does not know the token (401): it is wrong or has expired; the person has to correct `key` in [github]".to_owned(),
        ),
        401 => (
            "github-key",
            "GitHub answers this to those with a token only (401): the person can name one as `key` in [github]".to_owned(),
        ),
        403 | 429 if exhausted => {
            let limit = head.rate.as_ref().map_or(0, |r| r.limit);
            (
                "rate-limit",
                format!("GitHub's limit of {limit} requests is used up ({}): {again}{anonymous}", head.status),
            )
        }
        403 | 429 if head.retry_after.is_some() || head.status == 429 => (
            "rate-limit",
            format!("GitHub was asked too often in a short time ({}): {again}{anonymous}", head.status),
        ),
        403 => {
            let needed = match &head.permissions {
                Some(permissions) => format!("; it takes a token with {permissions}"),
                None => String::new(),
            };
            ("forbidden", format!("GitHub does not allow this for {what} (403){needed}"))
        }
        404 if github.op == Op::Log => (
            "not-found",
            format!("there is no such job in {what}, or its log has expired (404)"),
        ),
        404 if head.credentials => (
            "not-found",
            format!("there is no such thing in {what} (404): it is not there, or the token may not read it, which GitHub answers alike"),
        ),
        404 => (
            "not-found",
            format!(
                "there is no such thing in {what} (404): it is not there, or it is private, which GitHub answers alike to those without a token"
            ),
        ),
        409 => ("empty", format!("{what} is empty (409)")),
        410 => ("gone", format!("{what}: it was deleted, or its log has expired (410)")),
        422 => (
            "not-understood",
            "GitHub does not take these arguments (422): see names, numbers and words of the search".to_owned(),
        ),
        451 => ("gone", format!("{what} is not shown for legal reasons (451)")),
        500.. => ("github", format!("GitHub does not work right now ({}): {again}", head.status)),
        status => ("github", format!("GitHub did not take the request ({status})")),
    };
    FetchError::Api { cause, reason }
}

fn wait(head: &Head) -> String {
    let until = head.rate.as_ref().filter(|r| r.remaining == 0).map(|r| r.reset_in);
    match head.retry_after.or(until) {
        Some(seconds) if seconds >= 120 => format!("try again in {} minutes", seconds.div_ceil(60)),
        Some(seconds) => format!("try again in {seconds} s"),
        None => "try again later".to_owned(),
    }
}
