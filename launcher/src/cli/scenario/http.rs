//! As much HTTP/1.1 as a scenario needs on loopback: one request per connection.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of one message: far more than a scenario sends.
const MAX: u64 = 4 << 20;
/// Time for one request and its answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request or an answer.
pub(super) struct Message {
    /// The first line.
    pub(super) line: String,
    /// Header lines, as sent.
    pub(super) head: String,
    /// The body.
    pub(super) body: Vec<u8>,
}

impl Message {
    /// The second word of the first line: a request's target, an answer's status.
    pub(super) fn second(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// A header's value; names compare without case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|l| l.split_once(':').filter(|(n, _)| n.trim().eq_ignore_ascii_case(name)))
        .map(|(_, v)| v.trim())
}

/// Whether these bytes are a whole request: what is no HTTP never is.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let length = header(&head, "content-length").and_then(|n| n.parse::<usize>().ok());
    match (target(bytes), header(&head, "transfer-encoding")) {
        (None, _) => false,
        (_, Some(_)) => bytes.ends_with(b"0\r\n\r\n"),
        _ => bytes.len() - end - 4 >= length.unwrap_or(0),
    }
}

/// The target of a request that begins with these bytes, if they are one.
pub(super) fn target(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|b| *b == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.trim_end().split(' ');
    let (_, target, version) = (words.next()?, words.next()?, words.next()?);
    version.starts_with("HTTP/").then(|| target.to_owned())
}

fn read_message(stream: &TcpStream) -> Result<Message> {
    let mut reader = BufReader::new(stream.take(MAX));
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
        Some(Err(_)) => return Err(Error::other("a content-length that is no number")),
        None if header(&head, "transfer-encoding").is_some() => body = read_chunks(&mut reader)?,
        None => {}
    }
    Ok(Message {
        line: first.trim_end().to_owned(),
        head,
        body,
    })
}

fn read_chunks(reader: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let n = u64::from_str_radix(size.trim(), 16).map_err(|_| Error::other("a chunk without a size"))?;
        if n == 0 {
            return Ok(body);
        }
        reader.take(n).read_to_end(&mut body)?;
        let mut end = String::new();
        reader.read_line(&mut end)?;
    }
}

/// Reads a request.
pub(super) fn read_request(stream: &TcpStream) -> Result<Message> {
    stream.set_read_timeout(Some(PATIENCE))?;
    read_message(stream)
}

/// Writes an answer and ends the connection.
pub(super) fn answer(
    mut stream: &TcpStream,
    status: u16,
    media_type: &str,
    location: Option<&str>,
    body: &[u8],
) -> Result<()> {
    let location = location.map(|l| format!("location: {l}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\n{location}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

/// Sends a request and gives the answer.
pub(super) fn ask(
    address: SocketAddr,
    line: &str,
    host: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Result<Message> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("{line} HTTP/1.1\r\nhost: {host}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("connection: close\r\n\r\n");
    (&stream).write_all(head.as_bytes())?;
    (&stream).write_all(body.unwrap_or_default())?;
    read_message(&stream)
}
