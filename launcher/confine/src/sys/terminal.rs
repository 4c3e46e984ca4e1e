//! Settings of terminals, as they come from another process.

use super::{Result, done};
use crate::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A call that sets them: the request of its `ioctl`, and the layout of what its argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The request's number.
    pub request: u32,
    /// The size of the structure.
    pub size: usize,
    /// Where its control characters begin.
    pub keys: usize,
    /// How many there are.
    pub count: usize,
}

const fn setting(request: u32, size: usize, keys: usize, count: usize) -> Setting {
    Setting {
        request,
        size,
        keys,
        count,
    }
}

/// All of them: `TCSETS` and its kin for `struct termios`, `struct termio` and `struct termios2` (x86-64).
pub const SETTINGS: &[Setting] = &[
    setting(0x5402, 36, 17, 19),
    setting(0x5403, 36, 17, 19),
    setting(0x5404, 36, 17, 19),
    setting(0x5406, 18, 9, 8),
    setting(0x5407, 18, 9, 8),
    setting(0x5408, 18, 9, 8),
    setting(0x402c_542b, 44, 17, 19),
    setting(0x402c_542c, 44, 17, 19),
    setting(0x402c_542d, 44, 17, 19),
];

/// Sets them from a structure of that layout.
pub fn set_settings(terminal: BorrowedFd<'_>, setting: Setting, structure: &[u8]) -> Result<()> {
    if structure.len() < setting.size || !SETTINGS.contains(&setting) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the kernel reads a structure of the size that belongs to the request, which is that long.
    done(unsafe {
        libc::syscall(
            libc::SYS_ioctl,
            terminal.as_raw_fd(),
            u64::from(setting.request),
            structure.as_ptr(),
        )
    })
}
