//! Which model names pass.

use super::hosted;
use super::refusal::{Refusal, shown};

/// Words in names of models that search the web, research on their own or are another service (GATEWAY §6). They are
/// refused even if a list names them. Words are what lies between `-`, `_`, `.`, `:`, `/` and `@`.
const REACHING: &[&str] = &[
    "search",
    "websearch",
    "online",
    "sonar",
    "compound",
    "deepresearch",
    "audio",
    "realtime",
    "image",
    "imagen",
    "dall",
    "sora",
    "veo",
    "tts",
    "transcribe",
    "whisper",
    "embedding",
    "embeddings",
    "moderation",
    "aqa",
    "preset",
];
/// The same for two words.
const REACHING_PAIRS: &[&str] = &["deep-research", "computer-use"];

/// The rule for names and the list of an upstream.
pub(crate) struct Models<'a> {
    /// Names that the policy allows; empty: every name that keeps to the rule.
    pub(crate) allowed: &'a [String],
    /// Name of the section of the policy, e.g. `model.openai`.
    pub(crate) section: &'a str,
}

impl Models<'_> {
    /// Accepts a model name or says why not.
    pub(crate) fn check(&self, name: &str) -> Result<(), Refusal> {
        let small = name.to_ascii_lowercase();
        let word = small
            .split(['-', '_', '.', ':', '/', '@'])
            .find(|word| REACHING.contains(word));
        if let Some(found) = word.or_else(|| REACHING_PAIRS.iter().find(|pair| small.contains(**pair)).copied()) {
            let reason = format!(
                "{}: models named `{found}` search the web or are another service",
                shown(name)
            );
            return Err(Refusal::new("model", reason).instead(hosted::WEB));
        }
        if self.allowed.iter().any(|allowed| allowed == name) {
            return Ok(());
        }
        let line = format!("models = [\"{name}\"] in [{}]", self.section);
        if !plain(name) {
            let refusal = Refusal::new("model", format!("{} is not a plain model name", shown(name)));
            return Err(if listable(name) { refusal.line(line) } else { refusal });
        }
        if self.allowed.is_empty() {
            return Ok(());
        }
        Err(Refusal::new("model", format!("the model {} is not on the list", shown(name))).line(line))
    }
}

/// `^[a-z0-9][a-z0-9._-]{0,63}$`: no suffix, route or preset of a router can hide in it.
pub(crate) fn plain(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=64).contains(&bytes.len())
        && (bytes[0].is_ascii_lowercase() || bytes[0].is_ascii_digit())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b))
}

/// Names that a list may name although they are not plain, e.g. `vendor/model` or `model:8b` of a local server.
fn listable(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:/".contains(&b))
}
