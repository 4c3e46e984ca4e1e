//! What a session without namespaces may open by itself, as Landlock rules.

use crate::view;
use picktwo_confine::landlock::{self, Access};
use picktwo_confine::{Errno, Error};
use std::path::PathBuf;

/// Device files that may be written and controlled.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Paths with what the session may do at and below them. Everything else is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Read and execute: system, toolchains, the workspace.
    pub execute: Vec<PathBuf>,
    /// Read only.
    pub read: Vec<PathBuf>,
    /// The session's own directories.
    pub write: Vec<PathBuf>,
}

impl Rights {
    /// What every session may read: the system's programs, of `/etc` and `/sys` what a view would show.
    pub fn system() -> Self {
        Self {
            execute: view::system_directories(),
            read: [view::readable_of_etc(), view::readable_of_sys()].concat(),
            write: Vec::new(),
        }
    }

    /// Adds them to what a process may do. A path that is absent, or that this user cannot reach anyway, adds nothing.
    ///
    /// # Errors
    /// A path that cannot be opened for another reason.
    pub fn add_to(&self, mut access: Access) -> Result<Access, Error> {
        let devices: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
        for (paths, rights) in [
            (&self.execute, landlock::Rights::Execute),
            (&self.read, landlock::Rights::Read),
            (&self.write, landlock::Rights::Write),
            (&devices, landlock::Rights::Device),
        ] {
            for path in paths {
                access = match landlock::open_object(path) {
                    Ok(fd) => access.fd(rights, fd, path),
                    Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EACCES)) => access,
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(access)
    }
}
