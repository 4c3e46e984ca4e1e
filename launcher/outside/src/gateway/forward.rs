//! One call to an upstream, from the request to the answer or to an error that says what happened.

use super::Limits;
use super::echo::Watch;
use super::events::Events;
use super::headers::copy;
use super::inspect::hosted_result;
use super::json::{ANSWER, Value, parse};
use super::payload::Payload;
use super::pool::{Link, Pool, Unreachable};
use super::record::{CallRecord, Recorder};
use super::refusal::{Refusal, error_body};
use super::reply::{Frame, Reply};
use super::route::Call;
use super::server::respond;
use super::target::Target;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::timeout;

/// Bytes of an answer that is not a stream: it is looked at as a whole.
const MAX_WHOLE: usize = 32 << 20;
/// Bytes of an error of the upstream.
const MAX_ERROR: usize = 256 << 10;
/// One call.
pub(crate) struct Forward<'c> {
    pub(crate) pool: &'c Arc<Pool>,
    pub(crate) recorder: &'c Recorder,
    pub(crate) target: &'c Target,
    pub(crate) index: usize,
    pub(crate) call: &'c Call<'c>,
    pub(crate) limits: &'c Limits,
}

/// Why there is no answer to pass on.
struct Failure {
    status: u16,
    /// Whether another try makes sense.
    again: bool,
    reason: String,
}

impl Failure {
    fn garbage(reason: impl Into<String>) -> Self {
        Self {
            status: 502,
            again: false,
            reason: reason.into(),
        }
    }
}

impl Forward<'_> {
    /// Sends the request and passes on the answer.
    pub(crate) async fn run(
        &self,
        request: &(dyn Fn() -> Result<Request<Payload>, Refusal> + Sync),
        mut record: CallRecord,
    ) -> Result<Response<Payload>, Refusal> {
        let first = match self.send(request).await? {
            Ok((response, link)) => {
                record.status = response.status().as_u16();
                self.pass(response, link, record).await
            }
            Err(failure) => Err(failure),
        };
        Ok(first.unwrap_or_else(|failure| self.failed(&failure)))
    }

    async fn send(
        &self,
        request: &(dyn Fn() -> Result<Request<Payload>, Refusal> + Sync),
    ) -> Result<Result<(Response<Incoming>, Link), Failure>, Refusal> {
        let name = &self.target.name;
        let mut kept = self.pool.take(self.index);
        loop {
            let mut link = match kept.take() {
                Some(link) => link,
                None => match self
                    .pool
                    .connect(self.index, None, name, self.target.tls.as_deref())
                    .await
                {
                    Ok(link) => link,
                    Err(Unreachable::Now(reason)) => {
                        return Ok(Err(Failure {
                            status: 502,
                            again: true,
                            reason,
                        }));
                    }
                    Err(Unreachable::Always(reason)) => {
                        return Ok(Err(Failure {
                            status: 502,
                            again: false,
                            reason,
                        }));
                    }
                },
            };
            return Ok(match timeout(self.limits.first_byte, link.send(request()?)).await {
                Ok(Ok(response)) => Ok((response, link)),
                // The upstream had closed the kept connection: nothing came back, so a fresh one is tried, once.
                Ok(Err((_, true))) if link.reused => continue,
                Ok(Err((error, _))) if error.is_parse() => {
                    Err(Failure::garbage(format!("{name}: the answer is not HTTP: {error}")))
                }
                Ok(Err((error, _))) => Err(Failure {
                    status: 502,
                    again: true,
                    reason: format!("{name}: no answer: {error}"),
                }),
                Err(_) => {
                    let reason = format!("{name}: no answer within {} s", self.limits.first_byte.as_secs());
                    Err(Failure {
                        status: 504,
                        again: true,
                        reason,
                    })
                }
            });
        }
    }

    async fn pass(
        &self,
        response: Response<Incoming>,
        link: Link,
        mut record: CallRecord,
    ) -> Result<Response<Payload>, Failure> {
        let name = &self.target.name;
        let (parts, body) = response.into_parts();
        if parts
            .headers
            .get(header::CONTENT_ENCODING)
            .is_some_and(|value| value != "identity")
        {
            return Err(Failure::garbage(format!(
                "{name}: the answer is compressed although that was not asked for"
            )));
        }
        let kind = parts
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or("")
            .to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or("").trim().to_owned();
        let protocol = self.target.protocol;
        match (parts.status.as_u16(), kind.as_str()) {
            (200, "text/event-stream") => {
                let frame = Frame {
                    pool: self.pool.clone(),
                    events: Events::new(protocol, self.target.echo.clone()),
                    protocol,
                    responses: self.call.operation.is_responses(),
                    record,
                    recorder: self.recorder.clone(),
                    path: self.call.path.to_owned(),
                    limits: *self.limits,
                };
                let mut response = Response::new(Payload::Reply(Box::new(Reply::new(body, link, frame))));
                let headers = response.headers_mut();
                headers.insert(
                    header::CONTENT_TYPE,
                    HeaderValue::from_static("text/event-stream; charset=utf-8"),
                );
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                copy(&parts.headers, headers, &self.target.echo);
                Ok(response)
            }
            (200, "application/json") => {
                let bytes = self.whole(body, MAX_WHOLE, &mut record).await?;
                self.pool.give_back(link);
                self.look(&bytes)?;
                let mut response = respond(StatusCode::OK, bytes);
                copy(&parts.headers, response.headers_mut(), &self.target.echo);
                Ok(response)
            }
            (200, other) => Err(Failure::garbage(format!(
                "{name}: an answer of type {} is not one of a model",
                named(other)
            ))),
            (status @ 400..=599, _) => {
                let bytes = self.whole(body, MAX_ERROR, &mut record).await?;
                self.pool.give_back(link);
                let readable =
                    kind == "application/json" && parse(&bytes, ANSWER).is_ok_and(|value| !self.echoes(&bytes, &value));
                let body = if readable {
                    bytes
                } else {
                    let message = format!(
                        "{name} answered with status {status} and {} bytes that are not an error of its API",
                        bytes.len()
                    );
                    error_body(protocol, status, "upstream", &message).into()
                };
                let mut response = respond(parts.status, body);
                copy(&parts.headers, response.headers_mut(), &self.target.echo);
                Ok(response)
            }
            (status, _) => Err(Failure::garbage(format!(
                "{name}: status {status} is not one of a model API; redirects are not followed"
            ))),
        }
    }

    /// Reads an answer that is not a stream.
    async fn whole(&self, mut body: Incoming, most: usize, record: &mut CallRecord) -> Result<Bytes, Failure> {
        let name = &self.target.name;
        let mut bytes = Vec::new();
        loop {
            let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
            match timeout(self.limits.silence, next).await {
                Ok(None) => return Ok(bytes.into()),
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    record.received += data.len() as u64;
                    if bytes.len() + data.len() > most {
                        return Err(Failure::garbage(format!(
                            "{name}: the answer is larger than {most} bytes"
                        )));
                    }
                    bytes.extend_from_slice(&data);
                }
                Ok(Some(Err(error))) => {
                    return Err(Failure {
                        status: 502,
                        again: true,
                        reason: format!("{name}: the answer broke off: {error}"),
                    });
                }
                Err(_) => {
                    let reason = format!(
                        "{name}: silent for {} s in the middle of the answer",
                        self.limits.silence.as_secs()
                    );
                    return Err(Failure {
                        status: 504,
                        again: true,
                        reason,
                    });
                }
            }
        }
    }

    /// Whether the key is in an answer that is not a stream.
    fn echoes(&self, bytes: &[u8], value: &Value<'_>) -> bool {
        let mut watch = Watch::new(self.target.echo.clone());
        watch.bytes(bytes) || watch.document(value)
    }

    /// Looks into an answer that is not a stream.
    fn look(&self, bytes: &[u8]) -> Result<(), Failure> {
        let name = &self.target.name;
        let value = parse(bytes, ANSWER).map_err(|_| Failure::garbage(format!("{name}: the answer is not JSON")))?;
        let (rule, reason) = if self.echoes(bytes, &value) {
            ("key-echo", "the answer holds the model key; it was dropped".to_owned())
        } else if let Some(found) = hosted_result(self.target.protocol, &value) {
            (
                "hosted-result",
                format!("the answer holds `{found}`, a result of a tool that the provider ran; it was dropped"),
            )
        } else {
            return Ok(());
        };
        self.recorder.refused("POST", self.call.path, rule, &reason);
        Err(Failure {
            status: 400,
            again: false,
            reason,
        })
    }

    fn failed(&self, failure: &Failure) -> Response<Payload> {
        // A reason may quote what the upstream says of itself, such as the names in its certificate.
        let reason = if self.target.echo.is_in(failure.reason.as_bytes()) {
            "the reason holds the model key"
        } else {
            &failure.reason
        };
        let message = format!("picktwo: the model's upstream failed: {reason}.");
        let body = error_body(self.target.protocol, failure.status, "upstream", &message);
        let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut response = respond(status, body.into());
        let (name, value) = if failure.again {
            ("retry-after", "2")
        } else {
            ("x-should-retry", "false")
        };
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        response
    }
}

/// The content type for messages: only names from here, for the upstream could say anything in its own.
fn named(kind: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        "application/octet-stream",
        "application/x-ndjson",
        "application/xml",
        "text/html",
        "text/plain",
        "text/xml",
    ];
    match KNOWN.iter().find(|known| **known == kind) {
        Some(known) => known,
        None if kind.is_empty() => "that is not given",
        None => "that is not known",
    }
}
