//! What a directory holds, to compare two of them or one before and after.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hasher},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// One file, without its inode number and, unless asked for, without its times: those differ between two runs of the same work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind with what is special to it.
    pub what: What,
    /// Permission bits with set-id and sticky bits; for links always 0777.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Hard links, for regular files.
    pub links: u64,
    /// Time of the last change of the content in nanoseconds since 1970, where it was asked for.
    pub modified: Option<i128>,
}

/// Kinds of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A directory.
    Directory,
    /// A regular file with the hash of its content.
    File {
        /// Bytes.
        size: u64,
        /// Hash of the content; stable within one process.
        hash: u64,
    },
    /// A symbolic link.
    Link(PathBuf),
    /// A FIFO, socket or device.
    Other(&'static str),
}

/// A directory's content by path relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<PathBuf, Entry>);

impl Tree {
    /// Reads everything below `root`, links not followed.
    ///
    /// # Errors
    /// Anything that cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        Self::with_times_before(root, SystemTime::UNIX_EPOCH)
    }

    /// The same with the times that lie before `limit`: with the start of some work as the limit, those that a program set; with a
    /// limit in the future, all of them.
    ///
    /// # Errors
    /// Anything that cannot be read.
    pub fn with_times_before(root: &Path, limit: SystemTime) -> io::Result<Self> {
        let limit = limit.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let mut tree = Self::default();
        tree.add(root, Path::new(""), i128::try_from(limit).unwrap_or(i128::MAX))?;
        Ok(tree)
    }

    fn add(&mut self, root: &Path, below: &Path, limit: i128) -> io::Result<()> {
        let mut names: Vec<OsString> = fs::read_dir(root.join(below))?
            .map(|e| e.map(|e| e.file_name()))
            .collect::<io::Result<_>>()?;
        names.sort();
        for name in names {
            let path = below.join(name);
            let entry = Entry::read(&root.join(&path), limit)?;
            let directory = entry.what == What::Directory;
            self.0.insert(path.clone(), entry);
            if directory {
                self.add(root, &path, limit)?;
            }
        }
        Ok(())
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Without the entries whose path `ignored` accepts, e.g. files that hold a time.
    #[must_use]
    pub fn without(mut self, ignored: impl Fn(&Path) -> bool) -> Self {
        self.0.retain(|path, _| !ignored(path));
        self
    }

    /// One line for each path that differs.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, entry) in &self.0 {
            match other.0.get(path) {
                None => lines.push(format!("only in the first: {}", path.display())),
                Some(theirs) if theirs != entry => {
                    lines.push(format!("{}: {entry:?} became {theirs:?}", path.display()));
                }
                Some(_) => {}
            }
        }
        let added = other.0.keys().filter(|path| !self.0.contains_key(*path));
        lines.extend(added.map(|path| format!("only in the second: {}", path.display())));
        lines
    }
}

impl Entry {
    fn read(path: &Path, limit: i128) -> io::Result<Self> {
        let at = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let meta = fs::symlink_metadata(path).map_err(at)?;
        let kind = meta.file_type();
        let what = if kind.is_dir() {
            What::Directory
        } else if kind.is_file() {
            What::File {
                size: meta.len(),
                hash: hash(path).map_err(at)?,
            }
        } else if kind.is_symlink() {
            What::Link(fs::read_link(path).map_err(at)?)
        } else if kind.is_fifo() {
            What::Other("fifo")
        } else if kind.is_socket() {
            What::Other("socket")
        } else {
            What::Other("device")
        };
        let links = if kind.is_file() { meta.nlink() } else { 0 };
        let modified = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Ok(Self {
            modified: (modified < limit).then_some(modified),
            what,
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
            links,
        })
    }
}

fn hash(path: &Path) -> io::Result<u64> {
    let mut file = fs::File::open(path)?;
    let mut hasher = DefaultHasher::new();
    let mut block = vec![0; 64 * 1024];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hasher.finish()),
            n => hasher.write(&block[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn content_mode_kind_and_presence_are_compared() {
        let root = std::env::temp_dir().join(format!("picktwo-compare-{}", std::process::id()));
        fs::create_dir_all(root.join("d")).unwrap();
        fs::write(root.join("d/a"), "one").unwrap();
        fs::write(root.join("d/b"), "two").unwrap();
        symlink("a", root.join("d/l")).unwrap();
        let before = Tree::read(&root).unwrap();
        assert_eq!(before.len(), 4);
        assert_eq!(before.differences(&Tree::read(&root).unwrap()), Vec::<String>::new());

        let far = SystemTime::now() + std::time::Duration::from_secs(60);
        let timed = Tree::with_times_before(&root, far).unwrap();
        fs::File::open(root.join("d/a"))
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(before, Tree::read(&root).unwrap());
        assert_eq!(
            timed.differences(&Tree::with_times_before(&root, far).unwrap()).len(),
            1
        );

        fs::write(root.join("d/a"), "eno").unwrap();
        fs::set_permissions(root.join("d/b"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(root.join("d/l")).unwrap();
        symlink("b", root.join("d/l")).unwrap();
        fs::hard_link(root.join("d/a"), root.join("new")).unwrap();
        let after = Tree::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let differences = before.differences(&after);
        assert_eq!(differences.len(), 4, "{differences:?}");
        assert!(differences[3].ends_with("second: new"), "{differences:?}");
        assert!(
            before
                .without(|p| p != Path::new("d"))
                .differences(&after.without(|p| p != Path::new("d")))
                .is_empty()
        );
    }
}
