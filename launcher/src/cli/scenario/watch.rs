//! Files as the host sees them, before and after.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of one file that are compared and searched.
const MAX: u64 = 16 << 20;

/// What one name was: kind and mode, when it was last changed, content or target.
type Mark = (u32, (i64, i64), Vec<u8>);

/// A name and all below it; empty if there is nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<PathBuf, Mark>);

/// Looks at a name and all below it.
///
/// # Errors
/// What is there and cannot be read.
pub(super) fn look(path: &Path) -> io::Result<Tree> {
    let mut marks = BTreeMap::new();
    walk(path, &mut marks)?;
    Ok(Tree(marks))
}

fn walk(path: &Path, into: &mut BTreeMap<PathBuf, Mark>) -> io::Result<()> {
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        Err(e) => return Err(e),
    };
    let content = if meta.is_symlink() {
        std::os::unix::ffi::OsStringExt::into_vec(path.read_link()?.into_os_string())
    } else if meta.is_file() {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX).read_to_end(&mut bytes)?;
        bytes
    } else {
        Vec::new()
    };
    let changed = if meta.is_dir() {
        // Its own time changes with every lock file that comes and goes; its names are compared.
        (0, 0)
    } else {
        (meta.ctime(), meta.ctime_nsec())
    };
    into.insert(path.to_owned(), (meta.mode(), changed, content));
    if meta.is_dir() {
        for entry in std::fs::read_dir(path)? {
            walk(&entry?.path(), into)?;
        }
    }
    Ok(())
}

impl Tree {
    /// Whether anything is there.
    pub(super) fn is_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether some name or content satisfies `found`.
    pub(super) fn any(&self, found: impl Fn(&[u8]) -> bool) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let name = |path: &Path| path.file_name().is_some_and(|n| found(n.as_bytes()));
        self.0
            .iter()
            .any(|(path, (_, _, content))| name(path) || found(content))
    }
}
