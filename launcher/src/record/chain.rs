//! Lines that are chained: each holds the hash of the one before, so that none can be altered, taken out or put in unseen.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// The `prev` of a first line.
pub(crate) const START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A line without its own hash.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Body<T> {
    /// Number in the file, from 1.
    pub(crate) seq: u64,
    /// When, RFC 3339 UTC.
    pub(crate) time: String,
    /// Hash of the line before.
    pub(crate) prev: String,
    /// What happened.
    pub(crate) event: T,
}

/// SHA-256 in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Now, RFC 3339 UTC with milliseconds.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string()
}

/// One whole line with its newline, and its hash.
///
/// # Errors
/// If the event cannot be written as JSON.
pub(crate) fn line<T: Serialize>(body: &Body<T>) -> Result<(String, String), serde_json::Error> {
    let text = serde_json::to_string(body)?;
    let hash = hash(text.as_bytes());
    let open = text.strip_suffix('}').unwrap_or(&text);
    Ok((format!("{open},\"hash\":\"{hash}\"}}\n"), hash))
}

/// What is wrong with a file of chained lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The line is not what its hash says.
    Altered(usize),
    /// The line does not follow the one before: something was taken out, put in or moved.
    Broken(usize),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Altered(n) => write!(f, "line {n} was altered"),
            Self::Broken(n) => write!(
                f,
                "line {n} does not follow line {}: something was removed, inserted or moved",
                n - 1
            ),
        }
    }
}

/// A file of chained lines, as far as it holds.
#[derive(Debug)]
pub(crate) struct Read<T> {
    /// The lines and their hashes, up to the first fault.
    pub(crate) lines: Vec<(Body<T>, String)>,
    /// The first fault.
    pub(crate) fault: Option<Fault>,
    /// The file ends in the middle of a line: its writer was killed, or it was cut there.
    pub(crate) torn: bool,
}

/// Reads and checks a whole file.
pub(crate) fn read<T: DeserializeOwned>(text: &[u8]) -> Read<T> {
    let mut read = Read {
        lines: Vec::new(),
        fault: None,
        torn: false,
    };
    let mut prev = START.to_owned();
    for (i, raw) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        let Some(raw) = raw.strip_suffix(b"\n") else {
            read.torn = true;
            break;
        };
        // A line torn by a killed writer is ended by the next one; it says nothing and breaks nothing, since it is in no chain.
        if torn_line(raw) {
            read.torn = true;
            continue;
        }
        match check::<T>(raw) {
            Some((body, _)) if body.prev != prev || body.seq != read.lines.len() as u64 + 1 => {
                read.fault = Some(Fault::Broken(i + 1));
                break;
            }
            Some((body, hash)) => {
                prev.clone_from(&hash);
                read.lines.push((body, hash));
            }
            None => {
                read.fault = Some(Fault::Altered(i + 1));
                break;
            }
        }
    }
    read
}

/// Bytes of `,"hash":"…"}`.
const TAIL: usize = 9 + 64 + 2;

fn torn_line(raw: &[u8]) -> bool {
    raw.is_empty() || (raw.first() == Some(&b'{') && raw.last() != Some(&b'}'))
}

fn check<T: DeserializeOwned>(raw: &[u8]) -> Option<(Body<T>, String)> {
    let open = raw.len().checked_sub(TAIL)?;
    let (body, tail) = raw.split_at(open);
    let stated = std::str::from_utf8(tail)
        .ok()?
        .strip_prefix(",\"hash\":\"")?
        .strip_suffix("\"}")?;
    let mut body = body.to_vec();
    body.push(b'}');
    let found = hash(&body);
    (found == stated).then_some(())?;
    Some((serde_json::from_slice(&body).ok()?, found))
}

/// Number and hash of the last whole line, of a text that may start in the middle of a line.
pub(crate) fn last(text: &[u8]) -> Option<(u64, String)> {
    let lines = text.split(|b| *b == b'\n').rev().filter(|l| !torn_line(l));
    lines
        .take(1)
        .find_map(check::<serde::de::IgnoredAny>)
        .map(|(body, hash)| (body.seq, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(n: u64) -> Vec<u8> {
        let mut text = String::new();
        let mut prev = START.to_owned();
        for seq in 1..=n {
            let body = Body {
                seq,
                time: now(),
                prev,
                event: format!("event {seq}"),
            };
            let (line, hash) = line(&body).unwrap();
            text.push_str(&line);
            prev = hash;
        }
        text.into_bytes()
    }

    #[test]
    fn a_whole_file_holds() {
        let read = read::<String>(&file(5));
        assert_eq!((read.lines.len(), &read.fault, read.torn), (5, &None, false));
    }

    #[test]
    fn every_single_changed_byte_is_found() {
        let good = file(3);
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            let read = read::<String>(&bad);
            assert!(read.fault.is_some() || read.torn || read.lines.len() < 3, "byte {i}");
        }
    }

    #[test]
    fn a_line_taken_out_moved_or_repeated_is_found() {
        let good = file(3);
        let lines: Vec<&[u8]> = good.split_inclusive(|b| *b == b'\n').collect();
        for order in [vec![0, 2], vec![1, 2], vec![0, 2, 1], vec![0, 1, 1, 2]] {
            let bad: Vec<u8> = order.iter().flat_map(|i| lines[*i]).copied().collect();
            assert!(
                matches!(read::<String>(&bad).fault, Some(Fault::Broken(_))),
                "{order:?}"
            );
        }
    }

    #[test]
    fn a_torn_last_line_is_told_apart_from_an_altered_one() {
        let good = file(3);
        let read = read::<String>(&good[..good.len() - 20]);
        assert_eq!((read.lines.len(), &read.fault, read.torn), (2, &None, true));
    }
}
