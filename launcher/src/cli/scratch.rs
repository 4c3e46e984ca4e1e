//! Directories that a command makes for itself and takes away again.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes a directory with all that is in it, closed directories included (the way to a private home is one). What cannot be
/// removed stays: it lies in a temporary directory and holds nothing real.
pub(crate) fn remove(path: &Path) {
    let Ok(meta) = path.symlink_metadata() else { return };
    if !meta.is_dir() {
        let _ = std::fs::remove_file(path);
        return;
    }
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        remove(&entry.path());
    }
    let _ = std::fs::remove_dir(path);
}
