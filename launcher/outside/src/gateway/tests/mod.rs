//! Tests of the gateway: what passes, what must not, the server against upstreams that misbehave.

mod bodies;
mod echoes;
mod fake;
mod forbidden;
mod fuzz;
mod parser;
mod refusals;
mod seen;
mod streams;
mod tls;
mod upstreams;

use super::check::rewrite;
use super::json::{REQUEST, parse};
use super::models::Models;
use super::refusal::Refusal;
use super::route::Operation;
use serde_json::Value;

/// What would be forwarded for a body.
fn pass(operation: Operation, body: &str) -> Result<String, Refusal> {
    let value = parse(body.as_bytes(), REQUEST)?;
    let models = Models {
        allowed: &[],
        section: "model.test",
    };
    let out = rewrite(&value, operation.schema(), &models)?;
    Ok(String::from_utf8(out).expect("what is written is UTF-8"))
}

/// What would be forwarded for a body, read again by another parser.
fn passed(operation: Operation, body: &Value) -> Value {
    match pass(operation, &body.to_string()) {
        Ok(out) => serde_json::from_str(&out).expect("what is written is JSON"),
        Err(refusal) => panic!("{operation:?}: {}\n{body:#}", refusal.message()),
    }
}
