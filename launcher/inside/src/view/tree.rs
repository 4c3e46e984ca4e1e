//! The new root while it is made: directories, files and links on a file system of the session's own, and mounts on them.
//!
//! Every place is reached from the new root's descriptor without following any link, so that nothing that an earlier session
//! left in the private home can lead a mount or a directory elsewhere.

use super::error::Error;
use super::mounts::{self, DEVICE, INFORMATION, SHOWN, WRITABLE};
use super::plan::{Inode, ReadOnly, in_memory};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, RenameFlags, ResolveFlag, open, openat, openat2, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::unistd::symlinkat;
use picktwo_confine::sys;
use std::cell::RefCell;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

const DIRECTORY: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Where the host's tree is while the root changes.
const HOST: &str = "/host";

/// Takes the host's tree out of the view. The kernel waits for all its processors here: nothing else should have to.
pub(crate) fn let_go() -> Result<(), Error> {
    nix::mount::umount2(HOST, nix::mount::MntFlags::MNT_DETACH).map_err(Error::DetachHost)?;
    std::fs::remove_dir(HOST).map_err(|e| Error::DetachHost(Errno::from_raw(e.raw_os_error().unwrap_or(0))))
}

/// The new root.
pub(crate) struct Tree {
    root: OwnedFd,
    /// The directory that was used last: what goes into the view comes in groups.
    last: RefCell<Option<(PathBuf, Rc<OwnedFd>)>>,
    /// Where the session's own entries may lie, of an earlier one or of one that runs: the private home.
    kept: RefCell<Option<PathBuf>>,
}

impl Tree {
    /// Makes the root file system and mounts it over the present root, where nothing sees it before [`Tree::enter`].
    pub(crate) fn new() -> Result<Self, Error> {
        let options = [(c"mode", "0755"), (c"size", "16m"), (c"nr_inodes", "16k")];
        let root = mounts::file_system(c"tmpfs", &options, WRITABLE).map_err(|errno| Error::FileSystem {
            kind: "tmpfs".into(),
            errno,
        })?;
        mounts::attach(root.as_fd(), sys::CWD, OsStr::new("/")).map_err(|errno| Error::Attach("/".into(), errno))?;
        Ok(Self {
            root,
            last: RefCell::new(None),
            kept: RefCell::new(None),
        })
    }

    /// Changes this process's root to the new one. The host's stays mounted at [`HOST`] until [`let_go`].
    pub(crate) fn enter(&self) -> Result<(), Error> {
        drop(self.directory(Path::new(HOST), 0)?);
        nix::unistd::fchdir(&self.root).map_err(Error::PivotRoot)?;
        nix::unistd::pivot_root(".", HOST.trim_start_matches('/')).map_err(Error::PivotRoot)?;
        nix::unistd::chdir("/").map_err(Error::PivotRoot)
    }

    pub(crate) fn into_root(self) -> OwnedFd {
        self.root
    }

    /// Opens what is at a path of the view, without following links.
    fn look(&self, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
        let how = OpenHow::new()
            .flags(flags)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS);
        openat2(&self.root, &relative(path), how)
    }

    /// A directory of the view; it and its parents are made where they are missing.
    ///
    /// In the private home, what an earlier session left in the way is moved aside and stays there, and rights that it took from a
    /// directory are given back: it must not keep later sessions from starting.
    pub(crate) fn directory(&self, path: &Path, mode: u32) -> Result<OwnedFd, Error> {
        let kept = self
            .kept
            .borrow()
            .clone()
            .filter(|kept| path != kept && path.starts_with(kept));
        match self.look(path, DIRECTORY) {
            _ if kept.is_some() => {}
            // A link as the last component is no directory either: the walk below tells.
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(Errno::ELOOP) => return Err(Error::LinkInTheWay(path.into())),
            other => return other.map_err(|errno| Error::Directory(path.into(), errno)),
        }
        let failed = |errno| match errno {
            // O_DIRECTORY on a link that O_NOFOLLOW does not follow.
            Errno::ELOOP => Error::LinkInTheWay(path.into()),
            errno => Error::Directory(path.into(), errno),
        };
        let mut at = self.look(Path::new("/"), DIRECTORY).map_err(failed)?;
        let mut parts = path.components().peekable();
        let mut reached = PathBuf::new();
        while let Some(part) = parts.next() {
            reached.push(part);
            let Component::Normal(name) = part else { continue };
            let mode = if parts.peek().is_none() { mode } else { 0o755 };
            if kept
                .as_ref()
                .is_some_and(|kept| reached != *kept && reached.starts_with(kept))
            {
                clear_way(&at, name, SFlag::S_IFDIR).map_err(failed)?;
            }
            at = match openat(&at, name, DIRECTORY, Mode::empty()) {
                Err(Errno::ENOENT) => {
                    mkdirat(&at, name, Mode::from_bits_truncate(mode)).map_err(failed)?;
                    openat(&at, name, DIRECTORY, Mode::empty()).map_err(failed)?
                }
                Err(Errno::ENOTDIR) if is_link(&at, name) => return Err(Error::LinkInTheWay(path.into())),
                other => other.map_err(failed)?,
            };
        }
        Ok(at)
    }

    fn parent(&self, path: &Path) -> Result<(Rc<OwnedFd>, OsString), Error> {
        let name = path
            .file_name()
            .ok_or_else(|| Error::File(path.into(), Errno::EINVAL))?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        if let Some((last, fd)) = &*self.last.borrow()
            && last == directory
        {
            return Ok((Rc::clone(fd), name.into()));
        }
        let fd = Rc::new(self.directory(directory, 0o755)?);
        *self.last.borrow_mut() = Some((directory.into(), Rc::clone(&fd)));
        Ok((fd, name.into()))
    }

    /// A new file of the view.
    pub(crate) fn file(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let failed = |errno| Error::File(path.into(), errno);
        let fd = openat(&*parent, name.as_os_str(), flags, Mode::from_bits_truncate(mode)).map_err(failed)?;
        File::from(fd)
            .write_all(content)
            .map_err(|e| failed(Errno::from_raw(e.raw_os_error().unwrap_or(0))))
    }

    /// A symbolic link of the view.
    pub(crate) fn link(&self, path: &Path, target: &OsStr) -> Result<(), Error> {
        let (parent, name) = self.parent(path)?;
        symlinkat(target, &*parent, name.as_os_str()).map_err(|errno| Error::Link(path.into(), errno))
    }

    /// The parent and name of the place where a mount goes; what it covers is made where it is missing.
    fn place(&self, path: &Path, directory: bool) -> Result<(Rc<OwnedFd>, OsString), Error> {
        let (parent, name) = self.parent(path)?;
        let failed = |errno| {
            if directory {
                Error::Directory(path.into(), errno)
            } else {
                Error::File(path.into(), errno)
            }
        };
        if self
            .kept
            .borrow()
            .as_ref()
            .is_some_and(|kept| path != kept && path.starts_with(kept))
        {
            let wanted = if directory { SFlag::S_IFDIR } else { SFlag::S_IFREG };
            clear_way(&parent, &name, wanted).map_err(failed)?;
        }
        match nix::sys::stat::fstatat(&*parent, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) if directory => {
                mkdirat(&*parent, name.as_os_str(), Mode::from_bits_truncate(0o755)).map_err(failed)?
            }
            Err(Errno::ENOENT) => {
                let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                drop(openat(&*parent, name.as_os_str(), flags, Mode::from_bits_truncate(0o644)).map_err(failed)?);
            }
            Err(errno) => return Err(failed(errno)),
            Ok(stat) if kind(&stat) == SFlag::S_IFLNK => return Err(Error::LinkInTheWay(path.into())),
            Ok(stat) if directory != (kind(&stat) == SFlag::S_IFDIR) => {
                return Err(failed(if directory { Errno::ENOTDIR } else { Errno::EISDIR }));
            }
            Ok(_) => {}
        }
        Ok((parent, name))
    }

    /// Shows a part of the system. The source may be a link; what is mounted below it comes along, read-only as well.
    pub(crate) fn bind_system(&self, source: &Path, place: &Path) -> Result<(), Error> {
        let failed = |errno| Error::Source(source.into(), errno);
        let fd = open(source, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).map_err(failed)?;
        let stat = fstat(&fd).map_err(failed)?;
        self.bind(&fd, &stat, source, place, SHOWN)
    }

    /// Shows a path that the launcher decided on, at `place`.
    pub(crate) fn bind_decided(&self, what: &ReadOnly, place: &Path, attributes: u64) -> Result<(), Error> {
        let (fd, stat) = open_decided(what)?;
        self.bind(&fd, &stat, &what.path, place, attributes)
    }

    /// Mounts a part of a root, which may be a link, on itself. Nothing is made for it: the view shows it already.
    pub(crate) fn fix(&self, what: &ReadOnly, attributes: u64) -> Result<(), Error> {
        let (fd, _) = open_decided(what)?;
        let tree = mounts::copy_tree(fd.as_fd()).map_err(|errno| Error::Source(what.path.clone(), errno))?;
        mounts::set_attributes(tree.as_fd(), attributes, true)
            .map_err(|errno| Error::ReadOnly(what.path.clone(), errno))?;
        let (parent, name) = self.parent(&what.path)?;
        mounts::attach(tree.as_fd(), parent.as_fd(), &name).map_err(|errno| Error::Attach(what.path.clone(), errno))?;
        self.last.borrow_mut().take_if(|(last, _)| last.starts_with(&what.path));
        Ok(())
    }

    /// Shows a directory of the host writable: the private home.
    pub(crate) fn bind_writable(&self, source: &Path, place: &Path) -> Result<(), Error> {
        let (fd, stat) = open_plain(source)?;
        self.bind(&fd, &stat, source, place, WRITABLE)?;
        *self.kept.borrow_mut() = Some(place.into());
        Ok(())
    }

    /// Shows a directory of the view at a second place, writable.
    pub(crate) fn bind_own(&self, source: &Path, place: &Path) -> Result<(), Error> {
        let failed = |errno| Error::Source(source.into(), errno);
        let fd = self.look(source, DIRECTORY).map_err(failed)?;
        let stat = fstat(&fd).map_err(failed)?;
        self.bind(&fd, &stat, source, place, WRITABLE)
    }

    /// Shows a device node: usable, but its metadata is not changeable.
    pub(crate) fn bind_device(&self, source: &Path, place: &Path) -> Result<(), Error> {
        let failed = |errno| Error::Source(source.into(), errno);
        let fd = open(
            source,
            OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(failed)?;
        let stat = fstat(&fd).map_err(failed)?;
        if kind(&stat) != SFlag::S_IFCHR {
            return Err(failed(Errno::ENODEV));
        }
        self.bind(&fd, &stat, source, place, DEVICE)
    }

    fn bind(&self, source: &OwnedFd, stat: &FileStat, name: &Path, place: &Path, attributes: u64) -> Result<(), Error> {
        let tree = mounts::copy_tree(source.as_fd()).map_err(|errno| Error::Source(name.into(), errno))?;
        // All or nothing, over every mount in the tree: a tree that cannot be made read-only is not shown.
        mounts::set_attributes(tree.as_fd(), attributes, true).map_err(|errno| Error::ReadOnly(name.into(), errno))?;
        self.attach(&tree, place, kind(stat) == SFlag::S_IFDIR)
    }

    /// Mounts a new file system of the session's own.
    pub(crate) fn mount(
        &self,
        fs: &CStr,
        options: &[(&CStr, &str)],
        attributes: u64,
        place: &Path,
    ) -> Result<(), Error> {
        let made = mounts::file_system(fs, options, attributes);
        let fs = made.map_err(|errno| Error::FileSystem {
            kind: fs.to_string_lossy().into_owned(),
            errno,
        })?;
        self.attach(&fs, place, true)
    }

    /// Mounts a new file system in memory that the session may write.
    pub(crate) fn mount_memory(&self, mode: &str, size: u64, place: &Path) -> Result<(), Error> {
        let [(size_name, size), (files_name, files)] = in_memory(size);
        let options = [
            (c"mode", mode),
            (size_name, size.as_str()),
            (files_name, files.as_str()),
        ];
        self.mount(c"tmpfs", &options, WRITABLE, place)
    }

    fn attach(&self, tree: &OwnedFd, place: &Path, directory: bool) -> Result<(), Error> {
        let (parent, name) = self.place(place, directory)?;
        mounts::attach(tree.as_fd(), parent.as_fd(), &name).map_err(|errno| Error::Attach(place.into(), errno))?;
        // What lay there is covered now.
        self.last.borrow_mut().take_if(|(last, _)| last.starts_with(place));
        Ok(())
    }

    /// Covers a file or directory of a mounted file system with an empty one that nobody can open. Absent ones need no cover.
    pub(crate) fn mask(&self, cover: &Path, path: &Path) -> Result<(), Error> {
        let Ok(_) = self.look(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC) else {
            return Ok(());
        };
        let source = self
            .look(cover, OFlag::O_PATH | OFlag::O_CLOEXEC)
            .map_err(|errno| Error::Source(cover.into(), errno))?;
        let stat = fstat(&source).map_err(|errno| Error::Source(cover.into(), errno))?;
        self.bind(&source, &stat, cover, path, INFORMATION)
    }
}

/// Opens a path of the host that the launcher decided on, if it still is what it was then.
fn open_decided(what: &ReadOnly) -> Result<(OwnedFd, FileStat), Error> {
    let (fd, stat) = open_plain(&what.path)?;
    if what.inode.is_some_and(|inode| inode != Inode::from(&stat)) {
        return Err(Error::Changed(what.path.clone()));
    }
    Ok((fd, stat))
}

/// Opens a path of the host that has no link in it, or had none when it was decided on.
fn open_plain(path: &Path) -> Result<(OwnedFd, FileStat), Error> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let failed = |errno| match errno {
        Errno::ELOOP => Error::Changed(path.into()),
        errno => Error::Source(path.into(), errno),
    };
    let fd = openat2(nix::fcntl::AT_FDCWD, path, how).map_err(failed)?;
    let stat = fstat(&fd).map_err(failed)?;
    Ok((fd, stat))
}

/// Makes a name of the private home free for an entry of another kind, and a directory of that name usable for its owner. What lay
/// there keeps its content under a name of its own.
fn clear_way(directory: &OwnedFd, name: &OsStr, wanted: SFlag) -> Result<(), Errno> {
    let stat = match nix::sys::stat::fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => return Ok(()),
        other => other?,
    };
    if kind(&stat) == wanted {
        if wanted == SFlag::S_IFDIR && stat.st_mode & 0o700 != 0o700 {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let fd = openat(directory, name, flags, Mode::empty())?;
            nix::sys::stat::fchmod(&fd, Mode::from_bits_truncate(stat.st_mode & 0o777 | 0o700))?;
        }
        return Ok(());
    }
    // By chance: a session could have taken every name that can be foretold.
    loop {
        let mut number = [0; 8];
        sys::random(&mut number)?;
        let mut aside = name.to_owned();
        aside.push(format!(".in-the-way-{:016x}", u64::from_ne_bytes(number)));
        match renameat2(
            directory,
            name,
            directory,
            aside.as_os_str(),
            RenameFlags::RENAME_NOREPLACE,
        ) {
            Err(Errno::EEXIST) => {}
            other => return other,
        }
    }
}

fn is_link(directory: &OwnedFd, name: &OsStr) -> bool {
    nix::sys::stat::fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| kind(&stat) == SFlag::S_IFLNK)
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn relative(path: &Path) -> PathBuf {
    let stripped = path.strip_prefix("/").unwrap_or(path);
    if stripped.as_os_str().is_empty() {
        ".".into()
    } else {
        stripped.into()
    }
}
