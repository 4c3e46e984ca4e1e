//! Where everything of one judgement lies, and what goes with it.

use super::super::scratch;
use crate::session::id;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The temporary directory of it all, removed at the end.
pub(super) struct Base(PathBuf);

impl Base {
    /// In the given directory.
    pub(super) fn new(parent: &Path) -> std::io::Result<Self> {
        let path = parent.join(format!("picktwo-verify-{}", id::new()?));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let base = Self(path.canonicalize()?);
        for (file, text) in [
            ("state/picktwo/mark", "mark\n"),
            ("config/picktwo/policy.toml", "version = 1\n"),
        ] {
            let file = base.0.join(file);
            if let Some(dir) = file.parent() {
                std::fs::create_dir_all(dir)?;
            }
            std::fs::write(file, text)?;
        }
        Ok(base)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        scratch::remove(&self.0);
    }
}
