//! Extended attributes by path; `follow` says whether a final symbolic link is followed. For an object that is open as a path
//! descriptor, use [`super::fd_path`] and follow.

use super::{CStr, Errno, Result, done};

/// The largest value or list that the kernel takes (`XATTR_SIZE_MAX`), in bytes.
pub const SIZE_MAX: usize = 64 * 1024;

/// A value.
pub fn get(path: &CStr, name: &CStr, follow: bool) -> Result<Vec<u8>> {
    let call = if follow { libc::getxattr } else { libc::lgetxattr };
    let mut value = vec![0u8; SIZE_MAX];
    // SAFETY: the kernel reads two strings and writes at most the buffer's length.
    let rc = unsafe { call(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    value.truncate(Errno::result(rc)? as usize);
    Ok(value)
}

/// Sets a value. Flags: `XATTR_CREATE`, `XATTR_REPLACE`.
pub fn set(path: &CStr, name: &CStr, value: &[u8], flags: i32, follow: bool) -> Result<()> {
    let call = if follow { libc::setxattr } else { libc::lsetxattr };
    // SAFETY: the kernel reads two strings and the value.
    done(unsafe { call(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags) }.into())
}

/// The names, each ended by a NUL byte.
pub fn list(path: &CStr, follow: bool) -> Result<Vec<u8>> {
    let call = if follow { libc::listxattr } else { libc::llistxattr };
    let mut names = vec![0u8; SIZE_MAX];
    // SAFETY: the kernel reads a path and writes at most the buffer's length.
    let rc = unsafe { call(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(Errno::result(rc)? as usize);
    Ok(names)
}

/// Removes an attribute.
pub fn remove(path: &CStr, name: &CStr, follow: bool) -> Result<()> {
    let call = if follow { libc::removexattr } else { libc::lremovexattr };
    // SAFETY: the kernel reads two strings.
    done(unsafe { call(path.as_ptr(), name.as_ptr()) }.into())
}
