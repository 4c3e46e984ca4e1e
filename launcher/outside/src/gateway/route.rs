//! Which requests are model calls: methods, paths and queries, by list.

use super::hosted;
use super::models;
use super::refusal::{Refusal, shown};
use super::schema::{anthropic, chat, gemini, responses};
use super::shape::Object;
use picktwo_wire::gateway::Protocol;

/// Bytes of a path that is looked at at all.
const MAX_PATH: usize = 256;

/// What a request asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Ask<'a> {
    /// Claude Code's look whether the API is there.
    Hello,
    /// The list of models.
    Models,
    /// A model call.
    Call(Call<'a>),
}

/// A model call.
#[derive(Debug, PartialEq)]
pub(crate) struct Call<'a> {
    pub(crate) operation: Operation,
    /// The path as it came; it is one of the known ones.
    pub(crate) path: &'a str,
    /// The query that is forwarded, one of the known ones.
    pub(crate) query: Option<&'static str>,
    /// The model, if the path names it.
    pub(crate) model: Option<&'a str>,
}

/// Operations of the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Messages,
    CountTokens,
    Responses,
    Chat,
    Generate,
    StreamGenerate,
    GeminiCountTokens,
}

impl Operation {
    /// Whose operation it is.
    pub(crate) fn protocol(self) -> Protocol {
        match self {
            Self::Messages | Self::CountTokens => Protocol::Anthropic,
            Self::Responses | Self::Chat => Protocol::Openai,
            Self::Generate | Self::StreamGenerate | Self::GeminiCountTokens => Protocol::Gemini,
        }
    }

    /// What its body may hold.
    pub(crate) fn schema(self) -> &'static Object {
        match self {
            Self::Messages => &anthropic::MESSAGES,
            Self::CountTokens => &anthropic::COUNT_TOKENS,
            Self::Responses => &responses::RESPONSES,
            Self::Chat => &chat::CHAT,
            Self::Generate | Self::StreamGenerate => &gemini::GENERATE,
            Self::GeminiCountTokens => &gemini::COUNT_TOKENS,
        }
    }

    /// Whether the Responses error events are spoken.
    pub(crate) fn is_responses(self) -> bool {
        self == Self::Responses
    }
}

/// The protocol in which to answer a request that is not understood.
pub(crate) fn dialect(path: &str, anthropic_version: bool) -> Protocol {
    if path.starts_with("/v1beta") {
        Protocol::Gemini
    } else if anthropic_version || path.starts_with("/v1/messages") {
        Protocol::Anthropic
    } else {
        Protocol::Openai
    }
}

/// Reads method, path and query.
///
/// # Errors
/// Everything that is not on the list: 404 for paths, 400 for queries.
pub(crate) fn read<'a>(method: &str, path: &'a str, query: Option<&str>) -> Result<Ask<'a>, Refusal> {
    if path.len() > MAX_PATH {
        return Err(unknown(method, path));
    }
    match (method, path) {
        ("HEAD" | "GET", "/api/hello") => return Ok(Ask::Hello),
        ("GET", "/v1/models") => return Ok(Ask::Models),
        _ => {}
    }
    if method != "POST" {
        return Err(unknown(method, path));
    }
    let (operation, model) = match path {
        "/v1/messages" => (Operation::Messages, None),
        "/v1/messages/count_tokens" => (Operation::CountTokens, None),
        "/v1/responses" => (Operation::Responses, None),
        "/v1/chat/completions" => (Operation::Chat, None),
        _ => {
            let (model, verb) = path
                .strip_prefix("/v1beta/models/")
                .and_then(|rest| rest.split_once(':'))
                .ok_or_else(|| unknown(method, path))?;
            let operation = match verb {
                "generateContent" => Operation::Generate,
                "streamGenerateContent" => Operation::StreamGenerate,
                "countTokens" => Operation::GeminiCountTokens,
                _ => return Err(unknown(method, path)),
            };
            if !models::plain(model) {
                return Err(Refusal::new(
                    "model",
                    format!("{} is not a plain model name", shown(model)),
                ));
            }
            (operation, Some(model))
        }
    };
    let query = match (query, operation) {
        (None | Some(""), _) => None,
        (Some("beta=true"), Operation::Messages | Operation::CountTokens) => Some("beta=true"),
        (Some("alt=sse"), Operation::StreamGenerate) => Some("alt=sse"),
        (Some(other), _) => {
            // A key may be in it: only names of parameters are shown.
            let names: Vec<&str> = other
                .split('&')
                .map(|pair| pair.split('=').next().unwrap_or(""))
                .collect();
            return Err(Refusal::new(
                "query",
                format!("the query parameter {} is not on the list", shown(&names.join(", "))),
            ));
        }
    };
    Ok(Ask::Call(Call {
        operation,
        path,
        query,
        model,
    }))
}

fn unknown(method: &str, path: &str) -> Refusal {
    let refusal = Refusal::new(
        "path",
        format!(
            "{} is not on the list of model calls",
            shown(&format!("{method} {path}"))
        ),
    )
    .status(404);
    let web = [
        "search",
        "fetch",
        "files",
        "batch",
        "containers",
        "uploads",
        "domain_info",
    ]
    .iter()
    .any(|part| path.contains(part));
    if web { refusal.instead(hosted::WEB) } else { refusal }
}

/// Whether an entry of a policy's `allow` names this method and path. `*` or `{model}` stands for a model's name; a `*` at the end
/// for any rest. An entry never allows a path that [`read`] does not know.
pub(crate) fn allows(entry: &str, method: &str, path: &str) -> bool {
    let Some((entry_method, pattern)) = entry.split_once(' ') else {
        return false;
    };
    if entry_method != method {
        return false;
    }
    let pattern = pattern.trim();
    let hole = pattern
        .find('*')
        .map(|at| (at, at + 1))
        .or_else(|| pattern.find('{').zip(pattern.find('}').map(|at| at + 1)));
    match hole {
        None => pattern == path,
        Some((from, to)) if pattern[from..] == *"*" && to == pattern.len() => path.starts_with(&pattern[..from]),
        Some((from, to)) if from < to => {
            let (before, after) = (&pattern[..from], &pattern[to..]);
            path.strip_prefix(before)
                .and_then(|rest| rest.strip_suffix(after))
                .is_some_and(models::plain)
        }
        Some(_) => false,
    }
}
