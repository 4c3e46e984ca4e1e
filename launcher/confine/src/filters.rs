//! The system call lists: data, each call with the reason for what happens to it.

use crate::role::Role;
use crate::seccomp::Filter;
