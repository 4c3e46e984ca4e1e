use super::*;
use crate::testing::{child_says, in_namespaces, scratch};
use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn directory(path: &Path) -> OwnedFd {
    openat(CWD, &c(path), libc::O_PATH | libc::O_DIRECTORY, 0).unwrap()
}

#[test]
fn resolution_is_as_narrow_as_asked() {
    let dir = scratch("resolve");
    std::fs::create_dir(dir.join("sub")).unwrap();
    std::fs::write(dir.join("file"), "x").unwrap();
    std::os::unix::fs::symlink("../file", dir.join("sub/link")).unwrap();
    let sub = directory(&dir.join("sub"));
    let open = |path: &CStr, resolve| openat2(sub.as_fd(), path, libc::O_RDONLY, 0, resolve).map(drop);
    assert_eq!(open(c"../file", 0), Ok(()));
    assert_eq!(open(c"link", 0), Ok(()));
    assert_eq!(open(c"../file", resolve::BENEATH), Err(Errno::EXDEV));
    assert_eq!(open(c"link", resolve::BENEATH), Err(Errno::EXDEV));
    assert_eq!(open(c"link", resolve::NO_SYMLINKS), Err(Errno::ELOOP));
    assert_eq!(open(c"../file", resolve::IN_ROOT), Err(Errno::ENOENT));
    let made = openat2(
        sub.as_fd(),
        c"new",
        libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
        0o640,
        resolve::BENEATH,
    )
    .unwrap();
    assert_eq!(fstat(made.as_fd()).unwrap().mode & 0o777 & !0o640, 0);
    let flags = nix::fcntl::fcntl(&made, nix::fcntl::FcntlArg::F_GETFD).unwrap();
    assert_eq!(flags, libc::FD_CLOEXEC);
}

#[test]
fn names_are_changed_in_their_directories() {
    let dir = scratch("names");
    let d = directory(&dir);
    let d = d.as_fd();
    mkdirat(d, c"a", 0o700).unwrap();
    mknodat(d, c"fifo", libc::S_IFIFO | 0o600, 0).unwrap();
    assert_eq!(fstatat(d, c"fifo", 0).unwrap().kind(), libc::S_IFIFO);
    symlinkat(c"a", d, c"link").unwrap();
    assert_eq!(readlinkat(d, c"link").unwrap(), b"a");
    assert_eq!(
        renameat2(d, c"fifo", d, c"a", libc::RENAME_NOREPLACE),
        Err(Errno::EEXIST)
    );
    renameat2(d, c"fifo", d, c"a", libc::RENAME_EXCHANGE).unwrap();
    assert_eq!(fstatat(d, c"a", 0).unwrap().kind(), libc::S_IFIFO);
    linkat(d, c"a", d, c"b", 0).unwrap();
    let (a, b) = (fstatat(d, c"a", 0).unwrap(), fstatat(d, c"b", 0).unwrap());
    assert!(a.same(&b) && a.nlink == 2);
    assert_eq!(unlinkat(d, c"fifo", 0), Err(Errno::EISDIR));
    unlinkat(d, c"fifo", libc::AT_REMOVEDIR).unwrap();
    unlinkat(d, c"b", 0).unwrap();
    assert_eq!(fstatat(d, c"b", 0), Err(Errno::ENOENT));
}

#[test]
fn metadata_is_changed_by_path_and_through_path_descriptors() {
    let dir = scratch("metadata");
    let file = dir.join("file");
    std::fs::write(&file, "12345").unwrap();
    let d = directory(&dir);
    let fd = openat(CWD, &c(&file), libc::O_PATH, 0).unwrap();
    fchmodat2(fd.as_fd(), c"", 0o640, libc::AT_EMPTY_PATH).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    utimensat(d.as_fd(), c"file", Some([(1, 2), (3, 4)]), 0).unwrap();
    let meta = std::fs::metadata(&file).unwrap();
    assert_eq!(
        (meta.atime(), meta.atime_nsec(), meta.mtime(), meta.mtime_nsec()),
        (1, 2, 3, 4)
    );
    utimensat(fd.as_fd(), c"", None, libc::AT_EMPTY_PATH).unwrap();
    assert!(std::fs::metadata(&file).unwrap().mtime() > 1_000_000_000);
    fchownat(fd.as_fd(), c"", u32::MAX, u32::MAX, libc::AT_EMPTY_PATH).unwrap();
    truncate(&fd_path(fd.as_fd()), 2).unwrap();
    assert_eq!(fstat(fd.as_fd()).unwrap().size, 2);
    // A file system without user attributes says so; both answers come from the kernel.
    let path = fd_path(fd.as_fd());
    match xattr::set(&path, c"user.test", b"value", libc::XATTR_CREATE, true) {
        Ok(()) => {
            assert_eq!(xattr::get(&path, c"user.test", true).unwrap(), b"value");
            assert!(
                xattr::list(&path, true)
                    .unwrap()
                    .windows(10)
                    .any(|w| w == b"user.test\0")
            );
            assert_eq!(
                xattr::set(&path, c"user.test", b"", libc::XATTR_CREATE, true),
                Err(Errno::EEXIST)
            );
            xattr::remove(&path, c"user.test", true).unwrap();
            assert_eq!(xattr::get(&path, c"user.test", true), Err(Errno::ENODATA));
        }
        Err(errno) => assert_eq!(errno, Errno::EOPNOTSUPP),
    }
}

#[test]
fn the_family_and_protocol_of_a_socket_show_in_its_name() {
    let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let name = xattr::get(&fd_path(socket.as_fd()), c"system.sockprotoname", true).unwrap();
    assert_eq!(name, b"TCP\0");
}

#[test]
fn a_lease_is_refused_while_a_writer_exists() {
    let dir = scratch("lease");
    let path = dir.join("file");
    std::fs::write(&path, "x").unwrap();
    // In a child, so that no other test's child holds a copy of the descriptors.
    let said = child_says(|| {
        let writer = std::fs::File::options().write(true).open(&path).unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        let first = set_lease(reader.as_fd(), libc::F_RDLCK);
        drop(writer);
        let second = set_lease(reader.as_fd(), libc::F_RDLCK);
        format!("{first:?} {second:?} {:?}", set_lease(reader.as_fd(), libc::F_UNLCK))
    });
    assert_eq!(said, "Err(EAGAIN) Ok(()) Ok(())");
}

#[test]
fn the_peer_of_a_socket_is_known_by_descriptor() {
    let dir = scratch("peer");
    let path = dir.join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let child = crate::process::fork(|| {
        let _stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(100));
        0
    })
    .unwrap();
    let (stream, _) = listener.accept().unwrap();
    let peer = peer_credentials(stream.as_fd()).unwrap();
    assert_eq!((peer.pid, peer.uid), (child.pid(), nix::unistd::getuid().as_raw()));
    let pidfd = peer_pidfd(stream.as_fd()).unwrap();
    assert_eq!(pidfd_pid(pidfd.as_fd()), Some(child.pid()));
    pidfd_signal(pidfd.as_fd(), libc::SIGKILL).unwrap();
    child.wait().unwrap();
    assert_eq!(pidfd_pid(pidfd.as_fd()), None);
    assert_eq!(pidfd_signal(pidfd.as_fd(), 0), Err(Errno::ESRCH));
}

#[test]
fn addresses_are_passed_as_bytes() {
    let listener = socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let mut address = vec![0u8; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    bind(listener.as_fd(), &address).unwrap();
    listen(listener.as_fd(), 1).unwrap();
    let there = socket_name(listener.as_fd()).unwrap();
    let client = socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0).unwrap();
    assert_eq!(
        status_flags(client.as_fd()).unwrap() & libc::O_NONBLOCK,
        libc::O_NONBLOCK
    );
    set_status_flags(client.as_fd(), 0).unwrap();
    connect(client.as_fd(), &there).unwrap();
    let accepted = accept(listener.as_fd(), 0).unwrap();
    assert_eq!(
        socket_option(accepted.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap(),
        0
    );
    let fresh = socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    assert_eq!(connect(fresh.as_fd(), &address[..4]), Err(Errno::EINVAL));
}

#[test]
fn mounts_are_copied_made_read_only_and_told_apart() {
    let dir = scratch("mounts");
    std::fs::write(dir.join("file"), "x").unwrap();
    let said = in_namespaces(|| {
        let none: Option<&str> = None;
        nix::mount::mount(
            none,
            "/",
            none,
            nix::mount::MsFlags::MS_REC | nix::mount::MsFlags::MS_PRIVATE,
            none,
        )
        .unwrap();
        let before = mount_id(directory(&dir).as_fd()).unwrap();
        let tree = open_tree(CWD, &c(&dir), OPEN_TREE_CLONE).unwrap();
        mount_setattr(
            tree.as_fd(),
            c"",
            libc::AT_EMPTY_PATH as u32,
            mount_attr::RDONLY | mount_attr::NOEXEC,
            0,
            0,
        )
        .unwrap();
        move_mount(tree.as_fd(), CWD, &c(&dir)).unwrap();
        let write = openat(CWD, &c(&dir.join("file")), libc::O_WRONLY, 0).err();
        let same = before == mount_id(directory(&dir).as_fd()).unwrap();
        format!("{write:?} {same}")
    });
    assert_eq!(said, "Some(EROFS) false");
    std::fs::write(dir.join("file"), "outside it is as it was").unwrap();
}

#[test]
fn descriptors_by_number_are_taken_only_if_open() {
    assert!(take_fd(-1).is_none());
    let said = child_says(|| {
        crate::limits::nofile(400, 400).unwrap();
        let free = take_fd(399).is_none();
        let null = std::fs::File::open("/dev/null").unwrap();
        let number = duplicate_above(null.as_fd(), 300).unwrap();
        let raw = number.as_raw_fd();
        std::mem::forget(number);
        let taken = take_fd(raw).unwrap();
        format!("{free} {} {}", raw >= 300, taken.as_raw_fd() == raw)
    });
    assert_eq!(said, "true true true");
}

#[test]
fn a_thread_can_have_its_own_umask() {
    let said = child_says(|| {
        umask(0o22);
        let thread = std::thread::spawn(|| {
            own_thread_filesystem_state().unwrap();
            umask(0o77)
        });
        format!("{:o} {:o}", thread.join().unwrap(), umask(0o22))
    });
    assert_eq!(said, "22 22");
}

#[test]
fn random_bytes_differ() {
    let (mut a, mut b) = ([0u8; 300], [0u8; 300]);
    random(&mut a).unwrap();
    random(&mut b).unwrap();
    assert!(a != b && a[..100] != a[100..200]);
}
