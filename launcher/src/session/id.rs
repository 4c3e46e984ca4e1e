//! Session ids: short enough to type, random enough not to collide.

use std::io::Read;

/// Without `i`, `l`, `o` and `u`, so that it reads the same aloud and on paper.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A new id: eight characters, 40 random bits.
///
/// # Errors
/// If `/dev/urandom` cannot be read.
pub(crate) fn new() -> std::io::Result<String> {
    let mut bytes = [0u8; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes
        .iter()
        .map(|b| char::from(ALPHABET[usize::from(b & 31)]))
        .collect())
}

/// `n` random bytes in hexadecimal, for tokens and envelopes.
///
/// # Errors
/// If `/dev/urandom` cannot be read.
pub(crate) fn hex(n: usize) -> std::io::Result<String> {
    let mut bytes = vec![0u8; n];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
