//! Mounts by descriptor: copied, changed, attached.

use super::{Result, done, owned};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// `open_tree`: a descriptor of a mount tree. Flags: `OPEN_TREE_CLONE`, `AT_RECURSIVE`, `AT_EMPTY_PATH`, `AT_SYMLINK_NOFOLLOW`.
pub fn open_tree(dir: BorrowedFd<'_>, path: &CStr, flags: u32) -> Result<OwnedFd> {
    const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC as u32;
    // SAFETY: the kernel reads a path; makes a descriptor or fails.
    owned(unsafe {
        libc::syscall(
            libc::SYS_open_tree,
            dir.as_raw_fd(),
            path.as_ptr(),
            flags | OPEN_TREE_CLOEXEC,
        )
    })
}

/// `OPEN_TREE_CLONE` of [`open_tree`]: a detached copy.
pub const OPEN_TREE_CLONE: u32 = 1;
/// `AT_RECURSIVE` of [`open_tree`] and [`mount_setattr`]: the mounts below, too.
pub const AT_RECURSIVE: u32 = 0x8000;

/// Attaches the mount tree `tree` at `path` below `dir`.
pub fn move_mount(tree: BorrowedFd<'_>, dir: BorrowedFd<'_>, path: &CStr) -> Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
    // SAFETY: the kernel reads two paths.
    done(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            dir.as_raw_fd(),
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
}

/// Attributes for [`mount_setattr`].
pub mod mount_attr {
    /// Read-only.
    pub const RDONLY: u64 = 0x1;
    /// Set-uid bits mean nothing.
    pub const NOSUID: u64 = 0x2;
    /// Device files do not open.
    pub const NODEV: u64 = 0x4;
    /// Nothing executes.
    pub const NOEXEC: u64 = 0x8;
    /// Symbolic links are not followed.
    pub const NOSYMFOLLOW: u64 = 0x20_0000;
}

/// `mount_setattr`: sets and clears attributes of a mount, or of a tree with [`AT_RECURSIVE`]. `propagation`: `MS_PRIVATE`,
/// `MS_SLAVE` or 0.
pub fn mount_setattr(
    dir: BorrowedFd<'_>,
    path: &CStr,
    flags: u32,
    set: u64,
    clear: u64,
    propagation: u64,
) -> Result<()> {
    #[repr(C)]
    struct MountAttr {
        attr_set: u64,
        attr_clr: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let attr = MountAttr {
        attr_set: set,
        attr_clr: clear,
        propagation,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads a path and a structure of the size that is passed.
    done(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_raw_fd(),
            path.as_ptr(),
            flags,
            &attr,
            size_of::<MountAttr>(),
        )
    })
}
