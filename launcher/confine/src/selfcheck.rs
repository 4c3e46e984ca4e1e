//! Checks from inside that a process is locked, before the first foreign byte or instruction.

use crate::attempt;
use crate::error::{Error, Result};
use nix::errno::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A call that must fail with exactly this error in a locked process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The call's name.
    pub name: &'static str,
    /// Its number.
    pub nr: i64,
    /// Its arguments. They make the call harmless if it is not denied.
    pub args: [i64; 6],
    /// What a locked process gets.
    pub errno: Errno,
}

/// The check, prepared before the lock: it holds what a locked process can no longer open.
#[derive(Debug)]
pub struct SelfCheck {
    status: File,
}

impl SelfCheck {
    /// To be called in the process that will be checked, before it is locked.
    pub fn prepare() -> Result<SelfCheck> {
        let path = "/proc/self/status";
        let status = File::open(path)
            .map_err(|e| Error::Open { path: path.into(), errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)) })?;
        Ok(SelfCheck { status })
    }

    /// Fails unless `no_new_privs` is set, a filter is installed, all capability sets are empty, one thread exists, and every call
    /// of `denied` fails as it must.
    ///
    /// `bounding_empty` is the answer of [`crate::limits::drop_all_capabilities`].
    pub fn locked(&self, bounding_empty: bool, denied: &[Denied]) -> Result<()> {
        let mut buffer = [0u8; 8192];
        let length = self.status.read_at(&mut buffer, 0).map_err(|e| Error::Read {
            what: "/proc/self/status".into(),
            errno: Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
        })?;
        check_status(&String::from_utf8_lossy(&buffer[..length]), bounding_empty)?;
        for call in denied {
            let result = attempt::numbers(call.nr, &call.args);
            if result != Err(call.errno) {
                let check = format!("{} must fail with {:?}", call.name, call.errno);
                return Err(Error::NotLocked { check, found: attempt::describe(&result) });
            }
        }
        Ok(())
    }
}

fn check_status(status: &str, bounding_empty: bool) -> Result<()> {
    let mut expected = vec![
        ("Threads", "1"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapInh", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
    ];
    if bounding_empty {
        expected.push(("CapBnd", "0000000000000000"));
    }
    for (key, value) in expected {
        let found = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
        if found != Some(value) {
            return Err(Error::NotLocked { check: format!("{key} must be {value}"), found: found.unwrap_or("nothing").into() });
        }
    }
    Ok(())
}
