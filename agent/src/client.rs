//! Speaks to the launcher over the session's tools socket: one connection and one request line per call, reply lines until
//! the last one.

use picktwo_wire::{
    MAX_MESSAGE, MessageError, decode, encode,
    tools::{NO_TOOLS, Reply, Request},
};
use std::{
    fmt,
    io::{self, BufRead, BufReader, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long the launcher may be silent. A retrieval takes at most half a minute; a person who is asked about a host may
/// take longer.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Why a call got no last reply.
#[derive(Debug)]
pub enum ClientError {
    /// The request could not be written as a message.
    Request(MessageError),
    /// No connection to the tools socket.
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The session has no tools; holds the reason, as the launcher wrote it down.
    NoTools(String),
    /// A bound on waiting could not be set.
    Timeout(io::Error),
    /// The request could not be sent.
    Send(io::Error),
    /// A reply could not be read.
    Receive(io::Error),
    /// The launcher was silent for [`PATIENCE`].
    Silent,
    /// The launcher closed the connection before the last reply.
    Closed,
    /// A reply line exceeds [`MAX_MESSAGE`] or is not a reply.
    Reply(MessageError),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(e) => write!(f, "the request cannot be sent: {e}"),
            Self::Connect { socket, error } => {
                write!(
                    f,
                    "{}: {error} (there is one inside a picktwo session only)",
                    socket.display()
                )
            }
            Self::NoTools(reason) => f.write_str(reason),
            Self::Timeout(e) => write!(f, "cannot limit the wait for the launcher: {e}"),
            Self::Send(e) => write!(f, "cannot send to the launcher: {e}"),
            Self::Receive(e) => write!(f, "cannot read from the launcher: {e}"),
            Self::Silent => write!(f, "the launcher was silent for {} seconds", PATIENCE.as_secs()),
            Self::Closed => f.write_str("the launcher closed the connection before it answered"),
            Self::Reply(e) => write!(f, "the launcher sent an unusable reply: {e}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Where a session's tools are reached.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// A client of the tools socket at `socket`. Nothing is opened yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// The socket this client speaks to.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Why the session that this process is in has no tools, if it has none.
    pub fn absent(&self) -> Option<String> {
        std::fs::read_to_string(self.socket.with_file_name(NO_TOOLS)).ok()
    }

    /// Sends one request.
    ///
    /// # Errors
    /// [`ClientError::Request`], [`ClientError::NoTools`], [`ClientError::Connect`], [`ClientError::Timeout`] or [`ClientError::Send`].
    pub fn open(&self, request: &Request) -> Result<Exchange, ClientError> {
        let mut line = encode(request).map_err(ClientError::Request)?;
        line.push(b'\n');
        let mut stream = UnixStream::connect(&self.socket).map_err(|error| match self.absent() {
            Some(reason) => ClientError::NoTools(reason),
            None => ClientError::Connect {
                socket: self.socket.clone(),
                error,
            },
        })?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Timeout)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(ClientError::Timeout)?;
        stream.write_all(&line).map_err(ClientError::Send)?;
        Ok(Exchange {
            reader: BufReader::new(stream),
            over: false,
        })
    }

    /// Sends one request and waits for its last reply; `progress` sees the notes on the way.
    ///
    /// # Errors
    /// Every [`ClientError`].
    pub fn ask(&self, request: &Request, mut progress: impl FnMut(&str)) -> Result<Reply, ClientError> {
        let mut exchange = self.open(request)?;
        loop {
            match exchange.reply()? {
                Reply::Progress { note } => progress(&note),
                last => return Ok(last),
            }
        }
    }
}

/// One request under way. Dropping it closes the connection, which tells the launcher to end the work.
#[derive(Debug)]
pub struct Exchange {
    reader: BufReader<UnixStream>,
    over: bool,
}

impl Exchange {
    /// A handle by which another thread can end this exchange.
    ///
    /// # Errors
    /// The error of `fcntl(F_DUPFD_CLOEXEC)`.
    pub fn canceller(&self) -> io::Result<Canceller> {
        self.reader.get_ref().try_clone().map(Canceller)
    }

    /// The next reply; every kind but [`Reply::Progress`] is the last.
    ///
    /// # Errors
    /// [`ClientError::Silent`], [`ClientError::Receive`], [`ClientError::Closed`] or [`ClientError::Reply`].
    pub fn reply(&mut self) -> Result<Reply, ClientError> {
        if self.over {
            return Err(ClientError::Closed);
        }
        let line = match read_line(&mut self.reader, MAX_MESSAGE) {
            Ok(Line::Whole(line)) => line,
            Ok(Line::TooLong(n)) => return Err(ClientError::Reply(MessageError::TooLong(n))),
            Ok(Line::End) => return Err(ClientError::Closed),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(ClientError::Silent);
            }
            Err(e) => return Err(ClientError::Receive(e)),
        };
        let reply: Reply = decode(&line).map_err(ClientError::Reply)?;
        self.over = !matches!(reply, Reply::Progress { .. });
        Ok(reply)
    }
}

/// Ends an exchange from another thread: its reader sees [`ClientError::Closed`].
#[derive(Debug)]
pub struct Canceller(UnixStream);

impl Canceller {
    /// Closes the connection in both directions. An exchange that is already over is left alone.
    pub fn cancel(&self) {
        // Fails only if the launcher closed first; then there is nothing to end.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A line of bounded length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The line without its newline.
    Whole(Vec<u8>),
    /// The line was longer than allowed and was skipped up to its newline; holds its length.
    TooLong(usize),
    /// The stream ended.
    End,
}

/// Reads one line and never keeps more than `max` bytes of it. A last line without a newline counts.
pub(crate) fn read_line(reader: &mut impl BufRead, max: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut length = 0usize;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if chunk.is_empty() {
            return Ok(match length {
                0 => Line::End,
                n if n > max => Line::TooLong(n),
                _ => Line::Whole(line),
            });
        }
        let end = chunk.iter().position(|&b| b == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        length = length.saturating_add(part.len());
        if length <= max {
            line.extend_from_slice(part);
        } else {
            line = Vec::new();
        }
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(if length > max {
                Line::TooLong(length)
            } else {
                Line::Whole(line)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, os::unix::net::UnixListener, thread};

    #[test]
    fn lines_are_bounded_and_the_stream_goes_on_after_a_long_one() {
        let mut input = BufReader::with_capacity(4, &b"one\n0123456789\n\nlast"[..]);
        assert_eq!(read_line(&mut input, 5).unwrap(), Line::Whole(b"one".to_vec()));
        assert_eq!(read_line(&mut input, 5).unwrap(), Line::TooLong(10));
        assert_eq!(read_line(&mut input, 5).unwrap(), Line::Whole(Vec::new()));
        assert_eq!(read_line(&mut input, 5).unwrap(), Line::Whole(b"last".to_vec()));
        assert_eq!(read_line(&mut input, 5).unwrap(), Line::End);
    }

    fn against(script: impl FnOnce(UnixStream) + Send + 'static) -> (Client, thread::JoinHandle<()>) {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("picktwo-client-{}-{n}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let served = path.clone();
        let thread = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            std::fs::remove_file(&served).unwrap();
            script(stream);
        });
        (Client::new(path), thread)
    }

    #[test]
    fn progress_comes_before_the_last_reply() {
        let (client, server) = against(|stream| {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            assert_eq!(line, "{\"do\":\"status\"}\n");
            reader
                .into_inner()
                .write_all(
                    b"{\"is\":\"progress\",\"note\":\"a\"}\n{\"is\":\"failed\",\"cause\":\"dns\",\"reason\":\"no\"}\n",
                )
                .unwrap();
        });
        let mut notes = Vec::new();
        let reply = client.ask(&Request::Status, |n| notes.push(n.to_owned())).unwrap();
        assert_eq!(notes, ["a"]);
        assert_eq!(
            reply,
            Reply::Failed {
                cause: "dns".into(),
                reason: "no".into()
            }
        );
        server.join().unwrap();
    }

    #[test]
    fn a_launcher_that_closes_sends_garbage_or_too_much_is_an_error() {
        let (client, server) = against(drop);
        // The kernel may notice the closed peer while sending or while reading.
        let error = client.ask(&Request::Status, |_| {}).unwrap_err();
        assert!(
            matches!(
                error,
                ClientError::Closed | ClientError::Send(_) | ClientError::Receive(_)
            ),
            "{error}"
        );
        server.join().unwrap();
        let (client, server) = against(|mut s| s.write_all(b"{\"is\":\"answer\"}\n").unwrap());
        assert!(matches!(
            client.ask(&Request::Status, |_| {}),
            Err(ClientError::Reply(MessageError::Malformed(_)))
        ));
        server.join().unwrap();
        let (client, server) = against(|mut s| {
            s.write_all(&vec![b' '; MAX_MESSAGE + 1]).unwrap();
            s.write_all(b"\n").unwrap();
        });
        assert!(matches!(
            client.ask(&Request::Status, |_| {}),
            Err(ClientError::Reply(MessageError::TooLong(_)))
        ));
        server.join().unwrap();
        let nowhere = Client::new("/nonexistent/tools.sock")
            .ask(&Request::Status, |_| {})
            .unwrap_err();
        assert!(nowhere.to_string().contains("/nonexistent/tools.sock"), "{nowhere}");
    }

    #[test]
    fn cancelling_ends_the_wait_and_tells_the_launcher() {
        let (client, server) = against(|mut s| {
            let mut all = Vec::new();
            s.read_to_end(&mut all).unwrap();
            assert!(all.ends_with(b"\n"));
        });
        let mut exchange = client.open(&Request::Status).unwrap();
        exchange.canceller().unwrap().cancel();
        assert!(matches!(exchange.reply(), Err(ClientError::Closed)));
        server.join().unwrap();
    }
}
