//! Confinement: what fixes, in the kernel, what a process of picktwo may do by itself.
//!
//! Landlock, system call filters and their notification, namespaces, descriptors, limits, and the [`role::Role`] table
//! that says what each process holds. This is the only crate with `unsafe` code: everything it offers to the others is
//! safe to call. Nothing here decides policy: the lists in [`filters`] are data, and whoever serves a granted call decides
//! on it elsewhere.
//!
//! Every lock step expects one thread, fails with an [`error::Error`] that names the call and its object, and can be
//! checked from inside by [`selfcheck`].

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "picktwo confines with Linux system calls by their x86-64 numbers: other targets have no filter tables yet"
);

pub mod attempt;
pub mod cgroup;
pub mod channel;
pub mod error;
pub mod filters;
pub mod landlock;
pub mod limits;
pub mod memory;
pub mod namespace;
pub mod notify;
pub mod probes;
pub mod process;
pub mod role;
pub mod seccomp;
pub mod selfcheck;
pub mod sys;

#[cfg(test)]
mod testing;

pub use error::{Error, Result};
pub use role::Role;

/// Error numbers, as the kernel answers them.
pub use nix::errno::Errno;
