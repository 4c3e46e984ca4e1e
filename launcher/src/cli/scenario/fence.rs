//! What keeps a play on its stage: attacks that nothing stops, and commands of the person's, may change the play's own directories
//! and reach the play's own servers, nothing else. It is a safeguard for whoever runs scenarios, and no part of what is judged.

use picktwo_confine::error::Result;
use picktwo_confine::landlock::{self, Access, Rights};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Devices that programs write to.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Shuts this process in: everything is readable, `base` may be changed, these TCP ports may be connected to.
///
/// # Errors
/// The kernel does not do it.
pub(super) fn enter(base: &Path, ports: &[u16]) -> Result<()> {
    let mut access = Access::none()
        .path(Rights::Execute, Path::new("/"))?
        .path(Rights::Write, base)?;
    for device in DEVICES.map(Path::new).into_iter().filter(|d| d.exists()) {
        access = access.path(Rights::Device, device)?;
    }
    let access = ports.iter().fold(access, |access, port| access.connect_port(*port));
    landlock::restrict(access).map(drop)
}

/// Becomes a command; comes back only if that fails.
pub(super) fn become_command(words: &[OsString]) -> std::io::Error {
    match words.split_first() {
        Some((program, rest)) => Command::new(program).args(rest).exec(),
        None => std::io::Error::other("no command"),
    }
}
