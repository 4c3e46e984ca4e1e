//! Socket addresses as callers give them.

use nix::libc;
use picktwo_confine::Errno;

/// Offset of the path in `sockaddr_un`.
const PATH_AT: usize = 2;
/// Longest path in `sockaddr_un`.
const PATH_MAX: usize = 108;

/// What an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address<'a> {
    /// A path.
    Unix(&'a [u8]),
    /// A name that is no path.
    Abstract,
    /// A UNIX address without a name.
    Unnamed,
    /// An internet address; the kernel checks its length.
    Internet,
    /// `AF_UNSPEC`.
    Unspecified,
    /// Another family.
    Other,
}

impl<'a> Address<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Address<'a>, Errno> {
        let [a, b, rest @ ..] = bytes else {
            return Err(Errno::EINVAL);
        };
        Ok(match i32::from(u16::from_ne_bytes([*a, *b])) {
            libc::AF_UNIX if rest.len() > PATH_MAX => return Err(Errno::EINVAL),
            libc::AF_UNIX => match rest {
                [] => Address::Unnamed,
                [0, ..] => Address::Abstract,
                path => Address::Unix(&path[..path.iter().position(|&b| b == 0).unwrap_or(path.len())]),
            },
            libc::AF_INET | libc::AF_INET6 => Address::Internet,
            libc::AF_UNSPEC => Address::Unspecified,
            _ => Address::Other,
        })
    }
}

/// `sockaddr_un` for a path of at most 107 bytes.
pub(super) fn unix(path: &[u8]) -> Vec<u8> {
    let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    debug_assert_eq!(bytes.len(), PATH_AT);
    bytes.extend_from_slice(path);
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let family = |family: i32, rest: &[u8]| [&(family as u16).to_ne_bytes()[..], rest].concat();
        assert_eq!(Address::parse(&[1]), Err(Errno::EINVAL));
        assert_eq!(Address::parse(&family(1, b"")), Ok(Address::Unnamed));
        assert_eq!(Address::parse(&family(1, b"\0x")), Ok(Address::Abstract));
        assert_eq!(Address::parse(&family(1, b"a/b\0junk")), Ok(Address::Unix(b"a/b")));
        assert_eq!(
            Address::parse(&family(1, &[b'x'; 108])),
            Ok(Address::Unix(&[b'x'; 108]))
        );
        assert_eq!(Address::parse(&family(1, &[b'x'; 109])), Err(Errno::EINVAL));
        assert_eq!(Address::parse(&family(2, b"")), Ok(Address::Internet));
        assert_eq!(Address::parse(&family(0, b"")), Ok(Address::Unspecified));
        assert_eq!(Address::parse(&family(16, b"")), Ok(Address::Other));
        assert_eq!(unix(b"/x"), family(1, b"/x\0"));
    }
}
