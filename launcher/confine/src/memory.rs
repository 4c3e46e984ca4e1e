//! Reading the memory of a calling process: bounded, page by page, and failing when anything is unreadable.

use crate::error::{Error, Result};
use nix::errno::Errno;

/// The longest path that the kernel takes, its terminating NUL included (`PATH_MAX`).
pub const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;

/// Reads as many bytes as are readable from `address` on, at most `buffer.len()`. 0 if the first byte is unreadable.
pub fn read(pid: i32, address: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let from = match address.checked_add(done as u64) {
            Some(from) => from,
            None => break,
        };
        let room = (PAGE - from % PAGE) as usize;
        let part = room.min(buffer.len() - done);
        match read_part(pid, from, &mut buffer[done..done + part]) {
            Ok(n) if n == part => done += n,
            Ok(n) => return Ok(done + n),
            Err(Errno::EFAULT) => break,
            Err(errno) => {
                return Err(Error::ReadMemory {
                    pid,
                    address: from,
                    errno,
                });
            }
        }
    }
    Ok(done)
}

/// Fills the whole buffer or fails with `EFAULT`.
pub fn read_exact(pid: i32, address: u64, buffer: &mut [u8]) -> Result<()> {
    match read(pid, address, buffer)? {
        n if n == buffer.len() => Ok(()),
        _ => Err(Error::ReadMemory {
            pid,
            address,
            errno: Errno::EFAULT,
        }),
    }
}

/// Reads a NUL-terminated path of less than [`PATH_MAX`] bytes, without the NUL.
/// [`Error::UnterminatedString`] if it is longer (for a path: `ENAMETOOLONG`).
pub fn read_path(pid: i32, address: u64) -> Result<Vec<u8>> {
    read_string(pid, address, PATH_MAX)
}

/// Reads a NUL-terminated string of at most `limit` bytes, its NUL included; the NUL is not returned.
pub fn read_string(pid: i32, address: u64, limit: usize) -> Result<Vec<u8>> {
    let mut string = Vec::with_capacity(limit.min(256));
    // Most paths are short: a first piece of 256 bytes spares the copy of a page.
    let mut want = 256;
    while string.len() < limit {
        let start = string.len();
        let from = address.checked_add(start as u64).ok_or(Error::ReadMemory {
            pid,
            address,
            errno: Errno::EFAULT,
        })?;
        let part = ((PAGE - from % PAGE) as usize).min(want).min(limit - start);
        string.resize(start + part, 0);
        let n = read_part(pid, from, &mut string[start..]).map_err(|errno| Error::ReadMemory {
            pid,
            address: from,
            errno,
        })?;
        string.truncate(start + n);
        if let Some(end) = string[start..].iter().position(|&b| b == 0) {
            string.truncate(start + end);
            return Ok(string);
        }
        if n == 0 {
            return Err(Error::ReadMemory {
                pid,
                address: from,
                errno: Errno::EFAULT,
            });
        }
        want = PAGE as usize;
    }
    Err(Error::UnterminatedString { pid, address })
}

/// Reads a little-endian `u64`.
pub fn read_u64(pid: i32, address: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    read_exact(pid, address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// One read that does not cross a page of the other process.
fn read_part(pid: i32, address: u64, buffer: &mut [u8]) -> std::result::Result<usize, Errno> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`; the remote address is only looked up in the
    // other process.
    let rc = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    Errno::result(rc).map(|n| n as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
    use std::num::NonZeroUsize;

    /// Three pages of which the last is unreadable, filled with `x`; returns the address of the first.
    fn pages() -> u64 {
        let length = NonZeroUsize::new(3 * PAGE as usize).unwrap();
        // SAFETY: a private anonymous mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap_anonymous(
                None,
                length,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )
        }
        .unwrap();
        // SAFETY: the first two pages of the mapping are writable, and nobody else knows of it.
        unsafe {
            start.as_ptr().cast::<u8>().write_bytes(b'x', 2 * PAGE as usize);
            mprotect(start.add(2 * PAGE as usize), PAGE as usize, ProtFlags::PROT_NONE).unwrap();
        }
        start.as_ptr() as u64
    }

    fn put(address: u64, bytes: &[u8]) {
        // SAFETY: the tests only pass addresses within the first two pages of `pages`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    }

    #[test]
    fn strings_at_the_edge_of_readable_memory() {
        let (me, start) = (std::process::id() as i32, pages());
        let end = start + 2 * PAGE;
        put(end - 4, b"abc\0");
        assert_eq!(read_path(me, end - 4).unwrap(), b"abc");
        put(end - 1, b"x");
        assert!(matches!(
            read_path(me, end - 4),
            Err(Error::ReadMemory {
                errno: Errno::EFAULT,
                ..
            })
        ));
        put(start + PAGE - 2, b"ab\0");
        assert_eq!(read_path(me, start + PAGE - 2).unwrap(), b"ab");
        put(start + PAGE - 2, b"xxx");
    }

    #[test]
    fn the_longest_path_and_one_more() {
        let (me, start) = (std::process::id() as i32, pages());
        put(start + 4095, b"\0");
        assert_eq!(read_path(me, start).unwrap().len(), 4095);
        put(start + 4095, b"x\0");
        assert_eq!(
            read_path(me, start),
            Err(Error::UnterminatedString {
                pid: me,
                address: start
            })
        );
    }

    #[test]
    fn bad_addresses_fail() {
        let me = std::process::id() as i32;
        for address in [0, 8, u64::MAX, u64::MAX - 4095, 1 << 47, 0xffff_8000_0000_0000] {
            assert!(
                matches!(
                    read_path(me, address),
                    Err(Error::ReadMemory {
                        errno: Errno::EFAULT,
                        ..
                    })
                ),
                "{address:#x}"
            );
            assert_eq!(read(me, address, &mut [0; 8]).unwrap(), 0, "{address:#x}");
            assert!(read_u64(me, address).is_err());
        }
    }

    #[test]
    fn a_partial_read_says_how_much() {
        let (me, start) = (std::process::id() as i32, pages());
        let mut buffer = [0; 100];
        assert_eq!(read(me, start + 2 * PAGE - 10, &mut buffer).unwrap(), 10);
        assert!(read_exact(me, start + 2 * PAGE - 10, &mut buffer).is_err());
        let mut large = vec![0; 2 * PAGE as usize];
        read_exact(me, start, &mut large).unwrap();
        assert!(large.iter().all(|&b| b == b'x'));
    }
}
