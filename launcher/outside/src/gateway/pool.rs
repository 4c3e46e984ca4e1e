//! Connections to the upstreams: sockets come from `outside`, one request each at a time, kept for the next one.

use super::channel::AsyncChannel;
use super::payload::Payload;
use super::tls::{Tls, TlsError};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use picktwo_wire::gateway::{Connect, Connected};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

/// For one connection, TLS included. `outside` gives up by itself within that time.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// How much longer `outside` is waited for: the name has to be resolved, too.
const GRACE: Duration = Duration::from_secs(8);
/// Unused connections that are kept for an upstream, and for how long.
const IDLE: usize = 4;
const KEEP: Duration = Duration::from_secs(55);
/// Buffer for the head of an answer and for reading.
const BUFFER: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// May be better next time.
    Now(String),
    /// Will fail again until something is changed, e.g. the certificate is not trusted.
    Always(String),
}

/// A connection that one request may use.
pub(crate) struct Link {
    sender: SendRequest<Payload>,
    read: Arc<AtomicU64>,
    upstream: usize,
    /// Whether an earlier request used it.
    pub(crate) reused: bool,
}

impl Link {
    /// Sends a request. The second value of an error: whether not a single byte came back.
    pub(crate) async fn send(&mut self, request: Request<Payload>) -> Result<Response<Incoming>, (hyper::Error, bool)> {
        let before = self.read.load(Ordering::Relaxed);
        let sent = self.sender.send_request(request).await;
        sent.map_err(|error| (error, self.read.load(Ordering::Relaxed) == before))
    }
}

struct Wanted {
    upstream: usize,
    host: Option<String>,
    answer: oneshot::Sender<Result<TcpStream, String>>,
}

/// The connections of all upstreams.
pub(crate) struct Pool {
    idle: Mutex<Vec<(Link, Instant)>>,
    wanted: mpsc::Sender<Wanted>,
    tls: Tls,
    sweeping: AtomicBool,
}

impl Pool {
    /// Starts the task that asks `outside` for sockets.
    pub(crate) fn start(outside: AsyncChannel, roots: Vec<Vec<u8>>) -> Self {
        let (wanted, asked) = mpsc::channel(64);
        tokio::spawn(ask(outside, asked));
        Self {
            idle: Mutex::new(Vec::new()),
            wanted,
            tls: Tls::new(roots),
            sweeping: AtomicBool::new(false),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Link, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kept connection, the one used last.
    pub(crate) fn take(&self, upstream: usize) -> Option<Link> {
        let mut idle = self.idle();
        while let Some(at) = idle.iter().rposition(|(link, _)| link.upstream == upstream) {
            let (link, since) = idle.remove(at);
            if link.sender.is_ready() && since.elapsed() < KEEP {
                return Some(link);
            }
        }
        None
    }

    /// Gives a connection back after its answer was read to the end.
    pub(crate) fn give_back(self: &Arc<Self>, mut link: Link) {
        let pool = self.clone();
        tokio::spawn(async move {
            if !matches!(timeout(Duration::from_secs(1), link.sender.ready()).await, Ok(Ok(()))) {
                return;
            }
            link.reused = true;
            {
                let mut idle = pool.idle();
                if idle.iter().filter(|(other, _)| other.upstream == link.upstream).count() >= IDLE {
                    return;
                }
                idle.push((link, Instant::now()));
            }
            // One task sweeps as long as anything is kept; a gateway without traffic does not wake up.
            if !pool.sweeping.swap(true, Ordering::Relaxed) {
                pool.sweep().await;
            }
        });
    }

    async fn sweep(&self) {
        loop {
            sleep(KEEP / 4).await;
            let mut idle = self.idle();
            idle.retain(|(link, since)| !link.sender.is_closed() && since.elapsed() < KEEP);
            if idle.is_empty() {
                self.sweeping.store(false, Ordering::Relaxed);
                return;
            }
        }
    }

    /// A new connection to what messages call `name`, with TLS for the certificate of `tls`.
    /// `host`: which one, where the upstream is a pattern.
    pub(crate) async fn connect(
        &self,
        upstream: usize,
        host: Option<&str>,
        name: &str,
        tls: Option<&str>,
    ) -> Result<Link, Unreachable> {
        let (answer, answered) = oneshot::channel();
        let gone = || Unreachable::Always("the process that connects has ended".to_owned());
        self.wanted
            .send(Wanted {
                upstream,
                host: host.map(str::to_owned),
                answer,
            })
            .await
            .map_err(|_| gone())?;
        let socket = answered.await.map_err(|_| gone())?.map_err(Unreachable::Now)?;
        let stream = match tls {
            None => Stream::Plain(socket),
            Some(host) => match timeout(CONNECT, self.tls.connect(host, socket)).await {
                Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                Ok(Err(TlsError::Refused(reason))) => {
                    return Err(Unreachable::Always(format!("{name}: TLS: {reason}")));
                }
                Ok(Err(TlsError::Broken(reason))) => return Err(Unreachable::Now(format!("{name}: TLS: {reason}"))),
                Err(_) => {
                    return Err(Unreachable::Now(format!(
                        "{name}: no TLS connection within {} s",
                        CONNECT.as_secs()
                    )));
                }
            },
        };
        let read = Arc::new(AtomicU64::new(0));
        let io = TokioIo::new(Counted {
            stream,
            read: read.clone(),
        });
        let shaken = http1::Builder::new()
            .max_buf_size(BUFFER)
            .max_headers(MAX_HEADERS)
            .handshake(io)
            .await;
        let (sender, connection) = shaken.map_err(|error| Unreachable::Now(format!("{name}: {error}")))?;
        tokio::spawn(async move {
            // Its errors reach the request that waits for it.
            let _ = connection.await;
        });
        Ok(Link {
            sender,
            read,
            upstream,
            reused: false,
        })
    }
}

/// Asks `outside` for one socket after another: its answers carry no number.
async fn ask(outside: AsyncChannel, mut asked: mpsc::Receiver<Wanted>) {
    // Answers that nobody waits for any more.
    let mut late = 0;
    while let Some(Wanted { upstream, host, answer }) = asked.recv().await {
        if answer.is_closed() {
            continue;
        }
        let result = match timeout(CONNECT + GRACE, one(&outside, Connect { upstream, host }, &mut late)).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                let _ = answer.send(Err(format!("the process that connects cannot be asked: {error}")));
                return;
            }
            Err(_) => {
                late += 1;
                Err(format!("no connection within {} s", (CONNECT + GRACE).as_secs()))
            }
        };
        let _ = answer.send(result);
    }
}

async fn one(outside: &AsyncChannel, connect: Connect, late: &mut usize) -> io::Result<Result<TcpStream, String>> {
    let message = picktwo_wire::encode(&connect).map_err(|e| io::Error::other(e.to_string()))?;
    outside.send(&message).await?;
    loop {
        let (message, mut fds) = outside.recv().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if *late > 0 {
            *late -= 1;
            continue;
        }
        let connected: Connected = picktwo_wire::decode(&message).map_err(|e| io::Error::other(e.to_string()))?;
        return match (connected, fds.pop(), fds.is_empty()) {
            (Connected::Socket, Some(fd), true) => {
                let socket = std::net::TcpStream::from(fd);
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                Ok(Ok(TcpStream::from_std(socket)?))
            }
            (Connected::Failed { reason }, None, _) => Ok(Err(reason)),
            _ => Err(io::Error::other("an answer with the wrong number of descriptors")),
        };
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream that counts what was read, to tell whether an answer had begun.
struct Counted {
    stream: Stream,
    read: Arc<AtomicU64>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
        };
        self.read
            .fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
