//! A web server on loopback that answers each path with bytes written by hand, and what a fetch needs around it.

#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use picktwo_retriever::fetch::{self, Document, FetchError, Hops, Names};
use picktwo_wire::retrieval::{Limits, Resolved};
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Writes the answer to one request: the stream and the request's head.
pub type Handler = dyn Fn(&mut dyn Write, &str) + Send + Sync;

/// A server that ends with the test.
pub struct Server {
    pub address: SocketAddr,
    /// The heads of all requests so far.
    pub requests: Arc<Mutex<Vec<String>>>,
    /// Its certificate, DER, if it speaks TLS.
    pub root: Option<Vec<u8>>,
}

impl Server {
    /// Serves plain HTTP; `answer` gets the path and writes the whole response.
    pub fn plain(answer: impl Fn(&mut dyn Write, &str) + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(answer), None)
    }

    /// Serves HTTPS for the names, with an authority of its own.
    pub fn tls(names: &[&str], answer: impl Fn(&mut dyn Write, &str) + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(answer), Some(names.iter().map(|n| (*n).to_owned()).collect()))
    }

    fn start(answer: Arc<Handler>, names: Option<Vec<String>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (tls, root) = match names {
            None => (None, None),
            Some(names) => {
                let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
                let der = made.cert.der().to_vec();
                let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
                let config =
                    rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                        .with_safe_default_protocol_versions()
                        .expect("versions")
                        .with_no_client_auth()
                        .with_single_cert(vec![der.clone().into()], key)
                        .expect("a server");
                (Some(Arc::new(config)), Some(der))
            }
        };
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, tls, seen) = (Arc::clone(&answer), tls.clone(), Arc::clone(&seen));
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    match tls {
                        None => connection(stream, &*answer, &seen),
                        Some(config) => {
                            let session = rustls::ServerConnection::new(config).expect("a session");
                            connection(rustls::StreamOwned::new(session, stream), &*answer, &seen);
                        }
                    }
                });
            }
        });
        Self {
            address,
            requests,
            root,
        }
    }

    /// A URL on this server.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.root.is_some() { "https" } else { "http" };
        format!("{scheme}://site.test:{}{path}", self.address.port())
    }
}

fn connection(mut stream: impl Read + Write, answer: &Handler, seen: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or("").to_owned();
    seen.lock().expect("no panic").push(head);
    answer(&mut stream, &path);
    let _ = stream.flush();
}

/// A response with a type and a body.
pub fn respond(out: &mut dyn Write, content_type: &str, body: &[u8]) {
    head(
        out,
        200,
        &[
            ("content-type", content_type),
            ("content-length", &body.len().to_string()),
        ],
    );
    let _ = out.write_all(body);
}

/// A response's head; the connection is closed after it.
pub fn head(out: &mut dyn Write, status: u16, fields: &[(&str, &str)]) {
    let mut text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let _ = out.write_all(text.as_bytes());
}

/// A raw stream, to have it closed in a special way.
pub fn raw(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || listener.incoming().flatten().for_each(&answer));
    address
}

/// Resolves every name that ends in `.test` to loopback and refuses the others.
pub struct Loopback;

impl Names for Loopback {
    fn resolve(&self, host: String) -> Pin<Box<dyn Future<Output = Result<Resolved, String>> + Send>> {
        Box::pin(async move {
            if host == "hang.test" {
                std::future::pending::<()>().await;
            }
            let known = host.ends_with(".test");
            let addresses = if known {
                vec![Ipv4Addr::LOCALHOST.into()]
            } else {
                Vec::new()
            };
            let error = (!known).then(|| "no such name".to_owned());
            let host = if host == "liar.test" {
                "other.test".to_owned()
            } else {
                host
            };
            Ok(Resolved { host, addresses, error })
        })
    }
}

/// Records hops; follows every redirect but those to a path with `refuse` in it.
#[derive(Default)]
pub struct Record {
    pub hops: Vec<(String, u16, Option<String>)>,
    /// How long to think about each redirect.
    pub think: Duration,
}

impl Hops for Record {
    async fn hop(&mut self, url: &str, status: u16, location: Option<&str>) -> Result<(), FetchError> {
        self.hops.push((url.to_owned(), status, location.map(str::to_owned)));
        if location.is_some() {
            tokio::time::sleep(self.think).await;
        }
        match location {
            Some(l) if l.contains("refuse") => Err(FetchError::RefusedRedirect {
                rule: "unknown-host".to_owned(),
                reason: "no".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Small limits, so that tests are short.
pub fn limits() -> Limits {
    Limits {
        connect_ms: 500,
        total_ms: 3_000,
        wire_bytes: 256 << 10,
        decoded_bytes: 1 << 20,
        redirects: 3,
        min_rate: 1024,
    }
}

/// Fetches on a thread of its own event loop.
pub fn fetch_with(url: &str, limits: &Limits, roots: &[Vec<u8>], record: &mut Record) -> Result<Document, FetchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("an event loop");
    runtime.block_on(fetch::fetch(url, limits, roots, Arc::new(Loopback), record))
}

/// Fetches with small limits and the server's own root.
pub fn get(server: &Server, path: &str) -> Result<Document, FetchError> {
    let roots: Vec<Vec<u8>> = server.root.clone().into_iter().collect();
    fetch_with(&server.url(path), &limits(), &roots, &mut Record::default())
}
