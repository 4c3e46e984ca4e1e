//! As much DNS as a scenario needs: one question for an address, one answer.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Bytes of a message over UDP.
const MAX: usize = 512;
const HEADER: usize = 12;
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks `server` for the address of `name`.
pub(super) fn ask(server: SocketAddr, name: &str) -> Result<Ipv4Addr> {
    let mut query = vec![0x50, 0x32, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|n| (1..64).contains(n));
        query.push(length.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "this is no name"))?);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send_to(&query, server)?;
    let mut reply = [0; MAX];
    let n = socket.recv(&mut reply)?;
    // The one answer of our server ends with its address.
    match reply[..n] {
        [_, _, _, _, _, _, _, 1, .., a, b, c, d] if n > query.len() => Ok(Ipv4Addr::new(a, b, c, d)),
        _ => Err(Error::new(ErrorKind::NotFound, "no such name")),
    }
}

/// The name that a query asks for, in lower case; none: it is no query.
pub(super) fn name_of(query: &[u8]) -> Option<String> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        if length == 0 {
            break;
        }
        let label = query.get(at + 1..at + 1 + length).filter(|_| length < 64)?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += 1 + length;
    }
    (!labels.is_empty()).then(|| labels.join("."))
}

/// The reply to a query: an address, or that there is no such name.
pub(super) fn reply(query: &[u8], address: Option<Ipv4Addr>) -> Option<Vec<u8>> {
    let mut end = HEADER;
    while *query.get(end)? != 0 {
        end += 1 + usize::from(query[end]);
    }
    // The root label, kind and class.
    let question = query.get(..end + 5)?;
    let mut reply = question.to_vec();
    reply[2..HEADER].copy_from_slice(&[0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
    match address {
        Some(address) if question[end + 1..end + 3] == [0, 1] => {
            reply[7] = 1;
            reply.extend_from_slice(&[0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
            reply.extend_from_slice(&address.octets());
        }
        // There is such a name, and nothing of this kind.
        Some(_) => {}
        None => reply[3] = 0x83,
    }
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str) -> Vec<u8> {
        let mut query = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, 1, 0, 1]);
        query
    }

    #[test]
    fn a_question_is_answered() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            for answer in [Some(Ipv4Addr::LOCALHOST), None] {
                let mut bytes = [0; MAX];
                let (n, peer) = server.recv_from(&mut bytes).unwrap();
                seen.push(name_of(&bytes[..n]).unwrap());
                server.send_to(&reply(&bytes[..n], answer).unwrap(), peer).unwrap();
            }
            seen
        });
        assert_eq!(ask(address, "Secret.evil.test").unwrap(), Ipv4Addr::LOCALHOST);
        assert_eq!(ask(address, "other.test").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(thread.join().unwrap(), ["secret.evil.test", "other.test"]);
    }

    #[test]
    fn what_is_no_query_has_no_name() {
        let whole = query("a.bc");
        assert_eq!(name_of(&whole).as_deref(), Some("a.bc"));
        for end in 0..whole.len() - 5 {
            assert_eq!(name_of(&whole[..end]), None, "{end}");
            assert_eq!(reply(&whole[..end], None), None, "{end}");
        }
    }
}
