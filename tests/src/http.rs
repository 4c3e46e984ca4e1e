//! A small HTTP/1.1 server on loopback: one thread per connection, keep-alive, everything under the handler's control.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Bytes of a request's head.
const MAX_HEAD: u64 = 256 * 1024;
/// Bytes of a request's body.
const MAX_BODY: usize = 64 << 20;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names as sent, in order.
    pub headers: Vec<(String, String)>,
    /// The body, without transfer encoding.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of that name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    /// The target without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Request line, headers and body, to search for something that must not be there.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = format!("{} {}\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            all.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        all.push(b'\n');
        all.extend_from_slice(&self.body);
        all
    }
}

/// Where the handler writes its answer.
#[derive(Debug)]
pub struct Responder<'a> {
    stream: &'a mut TcpStream,
    head_only: bool,
    close: bool,
}

impl Responder<'_> {
    /// A whole answer with a length.
    ///
    /// # Errors
    /// The client went away.
    pub fn full(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut out = head(status, headers);
        out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        if !self.head_only {
            out.extend_from_slice(body);
        }
        self.stream.write_all(&out)
    }

    /// The head of a chunked answer.
    ///
    /// # Errors
    /// The client went away.
    pub fn chunked(&mut self, status: u16, headers: &[(&str, &str)]) -> io::Result<()> {
        let mut out = head(status, headers);
        out.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        self.stream.write_all(&out)
    }

    /// One chunk of it, sent at once.
    ///
    /// # Errors
    /// The client went away.
    pub fn chunk(&mut self, data: &[u8]) -> io::Result<()> {
        let mut out = format!("{:x}\r\n", data.len()).into_bytes();
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
        self.stream.write_all(&out)
    }

    /// Its end.
    ///
    /// # Errors
    /// The client went away.
    pub fn end(&mut self) -> io::Result<()> {
        self.stream.write_all(b"0\r\n\r\n")
    }

    /// The connection itself, for answers that no server should give; it is closed afterwards.
    pub fn raw(&mut self) -> &mut TcpStream {
        self.close = true;
        self.stream
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Status\r\n").into_bytes();
    for (name, value) in headers {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out
}

/// A running server; it stops accepting when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// Serves on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// Those of `bind`.
    pub fn start<H>(handler: H) -> io::Result<Self>
    where
        H: Fn(&Request, &mut Responder<'_>) -> io::Result<()> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let handler = Arc::new(handler);
        let stopped = Arc::clone(&stop);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let handler = Arc::clone(&handler);
                // A client that goes away in the middle is that client's business.
                thread::spawn(move || drop(connection(stream, &*handler)));
            }
        });
        Ok(Self { address, stop })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

fn connection<H>(mut stream: TcpStream, handler: &H) -> io::Result<()>
where
    H: Fn(&Request, &mut Responder<'_>) -> io::Result<()>,
{
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read_request(&mut reader, &mut stream)? {
        let close = request
            .header("connection")
            .is_some_and(|v| v.eq_ignore_ascii_case("close"));
        let mut responder = Responder {
            stream: &mut stream,
            head_only: request.method == "HEAD",
            close,
        };
        handler(&request, &mut responder)?;
        if responder.close {
            break;
        }
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>, stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let mut head = reader.by_ref().take(MAX_HEAD);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(bad("no request line"));
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Err(bad("head too long or cut off"));
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("header without colon"))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request {
        method,
        target,
        headers,
        body: Vec::new(),
    };
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if request
        .header("transfer-encoding")
        .is_some_and(|v| v.eq_ignore_ascii_case("chunked"))
    {
        request.body = read_chunks(reader)?;
    } else if let Some(length) = request.header("content-length") {
        let length: usize = length.parse().map_err(|_| bad("content-length"))?;
        if length > MAX_BODY {
            return Err(bad("body too long"));
        }
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
    }
    Ok(Some(request))
}

fn read_chunks(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.by_ref().take(64).read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_| bad("chunk size"))?;
        if body.len() + size > MAX_BODY {
            return Err(bad("body too long"));
        }
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..])?;
        reader.by_ref().take(2).read_line(&mut line)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
