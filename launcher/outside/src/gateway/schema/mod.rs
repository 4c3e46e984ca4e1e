//! What each protocol's requests may hold: closed objects, as static data.
//!
//! The tables are the accept lists of GATEWAY §7: what eight agents were recorded to send, and of the documented rest what
//! cannot make a provider reach out, run, load or keep anything. An agent's update may bring a field that is refused here;
//! then its name is in the refusal, and a new recording decides.

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod responses;

use super::shape::{Field, Object, Shape, may, must, object};

/// What the tables were recorded against; part of refusals of unknown fields.
pub(crate) const RECORDED: &str = "the schema was recorded against claude 2.1, codex 0.171, opencode 1.18, gemini 0.61, pi 0.73, \
     qwen 0.24, copilot 1.0, aider 0.86";

/// Most tokens that a limit may name; only keeps the number sane.
pub(crate) const TOKENS: Shape = Shape::Whole(10_000_000);

/// A list that has to be empty.
pub(crate) const EMPTY: Shape = Shape::List(&Shape::OneOf(&[]));

pub(crate) static EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

pub(crate) const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
pub(crate) const FILE_TYPES: &[&str] = &["application/pdf", "text/plain"];

/// `json_schema` of OpenAI's answers, in either API.
pub(crate) static JSON_SCHEMA_FIELDS: [Field; 4] = [
    must("name", Shape::Name),
    may("schema", Shape::Schema),
    may("strict", Shape::Bool).or_null(),
    may("description", Shape::Text).or_null(),
];

/// A grammar of a custom tool, in either API of OpenAI.
pub(crate) static GRAMMAR: Object = object(&[
    must("syntax", Shape::OneOf(&["lark", "regex"])),
    must("definition", Shape::Text),
]);

pub(crate) static STREAM_OPTIONS: Object = object(&[
    may("include_usage", Shape::Bool),
    may("include_obfuscation", Shape::Bool),
]);
