//! Web pages on loopback, with whatever a page or a server may do wrong.

use crate::http::{Request, Responder, Server};
use flate2::{Compression, write::GzEncoder};
use std::{
    collections::HashMap,
    io::{self, Write},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// What a path answers.
#[derive(Clone, Debug)]
pub enum Page {
    /// A document.
    Document {
        /// Content type with parameters.
        media_type: String,
        /// The body.
        body: Vec<u8>,
    },
    /// A document compressed with gzip.
    Gzip {
        /// Content type with parameters.
        media_type: String,
        /// The body before compression.
        body: Vec<u8>,
    },
    /// A redirect with that status.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// The `Location` header.
        to: String,
    },
    /// An error page.
    Status(u16),
    /// An HTML document that comes in small pieces.
    Slow {
        /// The body.
        body: Vec<u8>,
        /// Bytes per piece.
        piece: usize,
        /// The pause before each piece.
        pause: Duration,
    },
    /// An HTML body of that many bytes, generated.
    Endless(u64),
    /// These bytes instead of an HTTP answer.
    Raw(Vec<u8>),
}

impl Page {
    /// An HTML document.
    pub fn html(body: impl Into<String>) -> Self {
        Self::Document {
            media_type: "text/html; charset=utf-8".into(),
            body: body.into().into_bytes(),
        }
    }

    /// A redirect with status 302.
    pub fn redirect(to: impl Into<String>) -> Self {
        Self::Redirect {
            status: 302,
            to: to.into(),
        }
    }
}

/// A running page server.
#[derive(Debug)]
pub struct Pages {
    server: Server,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Pages {
    /// Serves `routes` (path without query → page); everything else is 404.
    ///
    /// # Errors
    /// Those of `bind`.
    pub fn start<P: Into<String>>(routes: impl IntoIterator<Item = (P, Page)>) -> io::Result<Self> {
        let routes: HashMap<String, Page> = routes.into_iter().map(|(path, page)| (path.into(), page)).collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let server = Server::start(move |request, responder| {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            answer(routes.get(request.path()), responder)
        })?;
        Ok(Self { server, requests })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn answer(page: Option<&Page>, responder: &mut Responder<'_>) -> io::Result<()> {
    const HTML: (&str, &str) = ("content-type", "text/html; charset=utf-8");
    match page {
        None => responder.full(404, &[HTML], b"<p>not found</p>"),
        Some(Page::Document { media_type, body }) => responder.full(200, &[("content-type", media_type)], body),
        Some(Page::Gzip { media_type, body }) => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(body)?;
            responder.full(
                200,
                &[("content-type", media_type), ("content-encoding", "gzip")],
                &encoder.finish()?,
            )
        }
        Some(Page::Redirect { status, to }) => responder.full(*status, &[("location", to)], b""),
        Some(Page::Status(status)) => responder.full(*status, &[HTML], b"<p>error</p>"),
        Some(Page::Slow { body, piece, pause }) => {
            responder.chunked(200, &[HTML])?;
            for piece in body.chunks((*piece).max(1)) {
                thread::sleep(*pause);
                responder.chunk(piece)?;
            }
            responder.end()
        }
        Some(Page::Endless(bytes)) => {
            responder.chunked(200, &[HTML])?;
            let block = b"<p>and on it goes</p>\n".repeat(3000);
            let mut left = *bytes;
            while left > 0 {
                let n = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                responder.chunk(&block[..n])?;
                left -= n as u64;
            }
            responder.end()
        }
        Some(Page::Raw(bytes)) => responder.raw().write_all(bytes),
    }
}
