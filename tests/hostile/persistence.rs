//! Makes and changes files that would run, or steer an agent, later: `persistence NAMES`, where NAMES is a file with one relative path a
//! line. Below `absent/KIND/N/` it makes the Nth name by a call of that kind; below `present/KIND/`, where each is there already, it changes
//! it. What came of it is seen from outside.

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags, open, renameat2};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::linkat;
use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

type Call = (&'static str, fn(&Path) -> io::Result<()>);

const EVIL: &[u8] = b"EVIL-BYTES";

/// A fresh ordinary file, of which the name says nothing.
fn ordinary() -> io::Result<PathBuf> {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    fs::create_dir_all("ordinary")?;
    let path = PathBuf::from(format!("ordinary/{n}"));
    fs::write(&path, EVIL)?;
    Ok(path)
}

fn mode() -> Mode {
    Mode::from_bits_truncate(0o644)
}

const MAKING: &[Call] = &[
    ("create", |path| fs::write(path, EVIL)),
    ("mkdir", |path| fs::create_dir(path)),
    ("symlink", |path| symlink(fs::canonicalize(ordinary()?)?, path)),
    ("link", |path| fs::hard_link(ordinary()?, path)),
    ("rename", |path| fs::rename(ordinary()?, path)),
    ("fifo", |path| Ok(mknod(path, SFlag::S_IFIFO, mode(), 0)?)),
    ("node", |path| Ok(mknod(path, SFlag::S_IFREG, mode(), 0)?)),
    ("bind", |path| {
        // An address is short.
        let directory = path.parent().unwrap_or(Path::new("."));
        let here = std::env::current_dir()?;
        std::env::set_current_dir(directory)?;
        let bound = UnixListener::bind(path.file_name().unwrap_or_default()).map(drop);
        std::env::set_current_dir(here)?;
        bound
    }),
    ("unnamed", |path| {
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut file = File::from(open(directory, OFlag::O_TMPFILE | OFlag::O_RDWR, mode())?);
        file.write_all(EVIL)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        let from = format!("/proc/self/fd/{number}");
        Ok(linkat(
            AT_FDCWD,
            from.as_str(),
            AT_FDCWD,
            path,
            AtFlags::AT_SYMLINK_FOLLOW,
        )?)
    }),
    ("through-link", |path| {
        let link = ordinary()?;
        fs::remove_file(&link)?;
        let parent = fs::canonicalize(path.parent().unwrap_or(Path::new(".")))?;
        symlink(parent.join(path.file_name().unwrap_or_default()), &link)?;
        fs::write(link, EVIL)
    }),
];

const CHANGING: &[Call] = &[
    ("write", |path| File::options().write(true).open(path)?.write_all(EVIL)),
    ("append", |path| {
        File::options().append(true).open(path)?.write_all(EVIL)
    }),
    ("truncate", |path| Ok(nix::unistd::truncate(path, 0)?)),
    ("unlink", |path| fs::remove_file(path)),
    ("replace", |path| fs::rename(ordinary()?, path)),
    ("rename-away", |path| fs::rename(path, ordinary()?)),
    ("exchange", |path| {
        let other = ordinary()?;
        Ok(renameat2(
            AT_FDCWD,
            &other,
            AT_FDCWD,
            path,
            RenameFlags::RENAME_EXCHANGE,
        )?)
    }),
    ("mode", |path| {
        fs::set_permissions(path, PermissionsExt::from_mode(0o777))
    }),
    ("times", |path| {
        let times = FileTimes::new().set_modified(UNIX_EPOCH);
        File::open(path)?.set_times(times)
    }),
];

/// The whole of what a name needs, made elsewhere and moved into place by its first component.
fn moved_tree(directory: &Path, name: &Path) -> io::Result<()> {
    let first = name
        .components()
        .next()
        .map(|first| PathBuf::from(first.as_os_str()))
        .unwrap_or_default();
    let tree = ordinary()?;
    let Ok(rest) = name.strip_prefix(&first) else {
        return Ok(());
    };
    if rest.as_os_str().is_empty() {
        return fs::rename(tree, directory.join(first));
    }
    fs::remove_file(&tree)?;
    let inner = tree.join(rest);
    fs::create_dir_all(inner.parent().unwrap_or(&tree))?;
    fs::write(inner, EVIL)?;
    fs::rename(tree, directory.join(first))
}

fn main() {
    let list = std::env::args().nth(1).expect("a list of names");
    let names = fs::read_to_string(list).expect("names");
    for (n, name) in names.lines().map(Path::new).enumerate() {
        let n = n.to_string();
        for (kind, make) in MAKING {
            let path = Path::new("absent").join(kind).join(&n).join(name);
            let _ = fs::create_dir_all(path.parent().unwrap_or(Path::new(".")));
            let _ = make(&path);
        }
        let directory = Path::new("absent/moved-tree").join(&n);
        let _ = fs::create_dir_all(&directory);
        let _ = moved_tree(&directory, name);
        for (kind, change) in CHANGING {
            let _ = change(&Path::new("present").join(kind).join(name));
        }
    }
    println!("done");
}
