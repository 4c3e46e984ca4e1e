//! Tries, in the process where it runs, what a session must not allow, and prints `name: answer` lines for the tests: run bare
//! they are the controls, run in a session they must be the kernel's refusals.
//!
//! `probe WORKSPACE OUTSIDE-FILE LAUNCHER-PID UDP-PORT`. WORKSPACE has a file `file`; nothing is left changed in it.

use picktwo_confine::attempt::{self, Arg};
use picktwo_confine::{Errno, sys};
use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

fn say(name: &str, result: Result<i64, Errno>) {
    match result {
        Ok(_) => println!("{name}: ok"),
        Err(errno) => println!("{name}: {errno:?}"),
    }
}

fn io(result: std::io::Result<impl Sized>) -> Result<i64, Errno> {
    result
        .map(|_| 0)
        .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))
}

fn path_call(nr: i64, path: &Path, rest: [i64; 2]) -> Result<i64, Errno> {
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    let args = [
        Arg::In(path.as_bytes_with_nul()),
        Arg::Int(rest[0]),
        Arg::Int(rest[1]),
        Arg::Null,
        Arg::Null,
        Arg::Null,
    ];
    attempt::syscall(nr, args)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let workspace = Path::new(&args[1]);
    let file = workspace.join("file");

    let made = workspace.join("made");
    say(
        "create",
        io(std::fs::write(&made, "x").and_then(|()| std::fs::remove_file(&made))),
    );
    say("append", io(std::fs::OpenOptions::new().append(true).open(&file)));
    say(
        "mkdir",
        io(std::fs::create_dir(&made).and_then(|()| std::fs::remove_dir(&made))),
    );
    say(
        "rename",
        io(std::fs::rename(&file, &made).and_then(|()| std::fs::rename(&made, &file))),
    );
    say(
        "link",
        io(std::fs::hard_link(&file, &made).and_then(|()| std::fs::remove_file(&made))),
    );
    say(
        "symlink",
        io(std::os::unix::fs::symlink("x", &made).and_then(|()| std::fs::remove_file(&made))),
    );
    say(
        "chmod",
        io(std::fs::metadata(&file).and_then(|m| std::fs::set_permissions(&file, m.permissions()))),
    );
    let opened = std::fs::File::open(&file);
    say(
        "fchmod",
        io(opened.and_then(|f| f.set_permissions(std::fs::Permissions::from_mode(0o644)))),
    );
    say(
        "times",
        io(std::fs::File::open(&file).and_then(|f| f.set_modified(std::time::SystemTime::UNIX_EPOCH))),
    );
    let name = CString::new(file.to_str().expect("UTF-8")).expect("no NUL");
    let set = sys::xattr::set(&name, c"user.picktwo", b"x", 0, true);
    let removed = set.and_then(|()| sys::xattr::remove(&name, c"user.picktwo", true));
    say("xattr", removed.map(|()| 0));
    say("truncate", path_call(76, &file, [1, 0]));
    let node = path_call(133, &made, [i64::from(libc_mode::FIFO), 0]);
    say("mkfifo", node.and_then(|_| io(std::fs::remove_file(&made))));

    say("outside file", io(std::fs::File::open(&args[2])));
    say("stat of an outside file", io(std::fs::symlink_metadata(&args[2])));
    for path in [
        "/etc/shadow",
        "/etc/passwd-",
        "/etc/machine-id",
        "/boot",
        "/var/log",
        "/dev/vda",
        "/dev/kmsg",
        "/dev/fuse",
    ] {
        say(path, io(std::fs::symlink_metadata(path)));
    }
    say("/proc/keys", io(std::fs::File::open("/proc/keys")));
    say("/proc/1/environ", io(std::fs::read("/proc/1/environ")));
    let own = std::fs::OpenOptions::new().write(true).open("/proc/self/oom_score_adj");
    say("oom_score_adj", io(own));
    say(
        "chmod of a device",
        io(std::fs::set_permissions(
            "/dev/null",
            std::fs::Permissions::from_mode(0o666),
        )),
    );
    say("write to /dev/null", io(std::fs::write("/dev/null", "x")));
    say(
        "new file in /etc",
        io(std::fs::write("/etc/picktwo-probe", "x").and_then(|()| std::fs::remove_file("/etc/picktwo-probe"))),
    );

    // On nothing, so that they are harmless where they are not refused.
    let nothing = b"/picktwo-absent\0";
    for (name, flags) in [("mount", 0), ("remount", 32)] {
        let args = [
            Arg::In(b"x\0"),
            Arg::In(nothing),
            Arg::In(b"tmpfs\0"),
            Arg::Int(flags),
            Arg::Null,
            Arg::Null,
        ];
        say(name, attempt::syscall(165, args));
    }
    say("umount", path_call(166, Path::new("/picktwo-absent"), [0, 0]));
    say("chroot", path_call(161, Path::new("/picktwo-absent"), [0, 0]));
    say(
        "signal to the launcher",
        attempt::numbers(62, &[args[3].parse().expect("a pid"), 0]),
    );
    say("signal to process 1", attempt::numbers(62, &[1, 0]));
    for (name, numbers) in [
        ("socket vsock", [40, 1, 0]),
        ("socket netlink", [16, 3, 0]),
        ("socket packet", [17, 3, 0]),
        ("socket unix datagram", [1, 2, 0]),
    ] {
        let made = attempt::numbers(41, &numbers);
        say(name, made);
    }
    say("datagram", datagram(args[4].parse().expect("a port")));

    let home = std::env::var("HOME").expect("HOME");
    let runtime = format!("/run/user/{}", nix::unistd::getuid());
    for place in [home.as_str(), "/tmp", "/dev/shm", &runtime] {
        let path = Path::new(place).join("picktwo-probe");
        say(
            &format!("write to {place}"),
            io(std::fs::write(&path, "x").and_then(|()| std::fs::remove_file(&path))),
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    for key in [
        "CapEff",
        "CapPrm",
        "CapBnd",
        "NoNewPrivs",
        "Seccomp",
        "SigIgn",
        "SigBlk",
    ] {
        let value = status
            .lines()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))
            .unwrap_or("?");
        println!("{key}: {}", value.trim());
    }
    let fds: Vec<String> = (0..64)
        .filter(|fd| attempt::numbers(72, &[*fd, 1]).is_ok())
        .map(|fd| fd.to_string())
        .collect();
    println!("descriptors: {}", fds.join(" "));
    println!(
        "host name: {}",
        nix::unistd::gethostname().expect("a name").to_string_lossy()
    );
    let mut names: Vec<String> = std::fs::read_dir("/")
        .expect("/")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into())
        .collect();
    names.sort();
    println!("root: {}", names.join(" "));
    let devices = std::fs::read_dir("/dev").expect("/dev").flatten().filter(|e| {
        e.metadata()
            .is_ok_and(|m| m.file_type().is_char_device() || m.file_type().is_block_device())
    });
    let mut devices: Vec<String> = devices.map(|e| e.file_name().to_string_lossy().into()).collect();
    devices.sort();
    println!("devices: {}", devices.join(" "));
}

/// Sends one datagram to a port of the loopback, the host's or the session's.
fn datagram(port: u16) -> Result<i64, Errno> {
    let fd = sys::socket(2, 2, 0)?;
    let mut address = [0u8; 16];
    address[..2].copy_from_slice(&2u16.to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    let number = i64::from(std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()));
    attempt::syscall(
        44,
        [
            Arg::Int(number),
            Arg::In(b"probe"),
            Arg::Int(5),
            Arg::Int(0),
            Arg::In(&address),
            Arg::Int(16),
        ],
    )
}

mod libc_mode {
    /// `S_IFIFO | 0600`.
    pub(crate) const FIFO: u32 = 0o010_600;
}
