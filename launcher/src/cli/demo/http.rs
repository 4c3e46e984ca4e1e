//! As much HTTP/1.1 as the demonstration needs on loopback: one request per connection, with a length.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of one body: far more than the demonstration sends.
const MAX_BODY: u64 = 1 << 20;
/// Time for one request and its answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request as it arrived.
pub(super) struct Request {
    /// Method and target.
    pub(super) line: String,
    /// Header lines, as sent.
    pub(super) head: String,
    /// The body.
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Path and query.
    pub(super) fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// A header's value; names compare without case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|l| l.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case(name)))
        .map(|(_, v)| v.trim())
}

fn read_message(stream: &TcpStream) -> std::io::Result<(String, String, Vec<u8>)> {
    let mut reader = BufReader::new(stream.take(MAX_BODY));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = Vec::new();
    match header(&head, "content-length").map(str::parse::<u64>) {
        Some(Ok(n)) => {
            reader.take(n).read_to_end(&mut body)?;
        }
        Some(Err(_)) => return Err(std::io::Error::other("a content-length that is no number")),
        None if header(&head, "transfer-encoding").is_some() => body = read_chunks(&mut reader)?,
        None => {}
    }
    Ok((first.trim_end().to_owned(), head, body))
}

fn read_chunks(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let n = u64::from_str_radix(size.trim(), 16).map_err(|_| std::io::Error::other("a chunk without a size"))?;
        if n == 0 {
            return Ok(body);
        }
        reader.take(n).read_to_end(&mut body)?;
        let mut end = String::new();
        reader.read_line(&mut end)?;
    }
}

/// Reads a request.
pub(super) fn read_request(stream: &TcpStream) -> std::io::Result<Request> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (line, head, body) = read_message(stream)?;
    Ok(Request { line, head, body })
}

/// Writes an answer and ends the connection.
pub(super) fn answer(mut stream: &TcpStream, status: &str, media_type: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

/// Sends a JSON body and gives status and body of the answer.
pub(super) fn post(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<(u16, Vec<u8>)> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()));
    (&stream).write_all(head.as_bytes())?;
    (&stream).write_all(body)?;
    let (line, _, body) = read_message(&stream)?;
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
    status
        .map(|s| (s, body))
        .ok_or_else(|| std::io::Error::other("an answer without a status"))
}
