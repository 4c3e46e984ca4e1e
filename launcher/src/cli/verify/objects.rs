//! Kernel objects without files: made for the time of the attempts, removed at the end.

use super::terminal::Terminal;
use picktwo_confine::attempt::{self, Arg};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const IPC_CREAT: i64 = 0o1000;
const IPC_RMID: i64 = 0;
const SESSION_KEYRING: i64 = -3;
const KEYCTL_UNLINK: i64 = 9;
const KEYCTL_JOIN_SESSION_KEYRING: i64 = 1;

/// What exists on the host. What cannot be made has no control.
pub(super) struct Objects {
    shm: Option<i64>,
    messages: Option<i64>,
    semaphores: Option<i64>,
    key: Option<i64>,
    queue: String,
    shm_file: PathBuf,
    tmp_file: PathBuf,
    /// The terminal that everything shares.
    pub(super) terminal: Option<OwnedFd>,
    /// For settings.
    pub(super) values: Vec<(String, String)>,
}

fn call<const N: usize>(nr: i64, args: [Arg<'_>; N]) -> Option<i64> {
    let mut given = args.into_iter();
    attempt::syscall(nr, std::array::from_fn(|_| given.next().unwrap_or(Arg::Null))).ok()
}

impl Objects {
    /// Makes them.
    pub(super) fn new(base: &Path, terminal: Option<&Terminal>) -> std::io::Result<Self> {
        use nix::libc;
        let id = crate::session::id::hex(6)?;
        // Never 0, which would mean a private object.
        let key = i64::from(u32::from_str_radix(&id[..7], 16).unwrap_or(1)) | 1;
        let queue = format!("picktwo-verify-{id}");
        let shm_name = format!("picktwo-verify-{id}");
        let shm_file = Path::new("/dev/shm").join(&shm_name);
        // A host without it has no control.
        let _ = std::fs::write(&shm_file, "shared\n");
        let tmp_file = std::env::temp_dir().join(format!("picktwo-verify-{id}.mark"));
        std::fs::write(&tmp_file, "mark\n")?;
        let (create, mode) = (IPC_CREAT | 0o600, 0o600);
        let name = format!("{queue}\0");
        if let Some(fd) = call(
            libc::SYS_mq_open,
            [
                Arg::In(name.as_bytes()),
                Arg::Int(i64::from(libc::O_CREAT | libc::O_RDWR)),
                Arg::Int(mode),
                Arg::Null,
            ],
        ) {
            call(libc::SYS_close, [Arg::Int(fd)]);
        }
        // A keyring of this judge's own stands for the person's: what the login has may be nobody's, or somebody else's (`su`). What is
        // started from here on has it, too.
        call(libc::SYS_keyctl, [Arg::Int(KEYCTL_JOIN_SESSION_KEYRING), Arg::Null]);
        let held = call(
            libc::SYS_add_key,
            [
                Arg::In(b"user\0"),
                Arg::In(b"picktwo-verify\0"),
                Arg::In(b"x"),
                Arg::Int(1),
                Arg::Int(SESSION_KEYRING),
            ],
        );
        let disk = std::fs::read_dir("/sys/block")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| Path::new("/dev").join(entry.file_name()))
            .find(|path| path.exists())
            .unwrap_or_else(|| "/dev/vda".into());
        let text = |path: &Path| path.display().to_string();
        let mut values = vec![
            ("ipc-key".to_owned(), key.to_string()),
            ("key".to_owned(), held.unwrap_or(0).to_string()),
            ("queue".to_owned(), queue.clone()),
            ("shm-file".to_owned(), shm_name),
            ("disk".to_owned(), text(&disk)),
            ("tmp-file".to_owned(), text(&tmp_file)),
            ("state".to_owned(), text(&base.join("state/picktwo/mark"))),
            ("policy".to_owned(), text(&base.join("config/picktwo/policy.toml"))),
        ];
        values.extend(terminal.map(|_| ("terminal".to_owned(), "/dev/tty".to_owned())));
        Ok(Self {
            terminal: terminal.map(Terminal::watch).transpose()?,
            shm: call(libc::SYS_shmget, [Arg::Int(key), Arg::Int(4096), Arg::Int(create)]),
            messages: call(libc::SYS_msgget, [Arg::Int(key), Arg::Int(create)]),
            semaphores: call(libc::SYS_semget, [Arg::Int(key), Arg::Int(1), Arg::Int(create)]),
            key: held,
            queue,
            shm_file,
            tmp_file,
            values,
        })
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        use nix::libc;
        // Whatever is gone already needs no removal.
        if let Some(id) = self.shm {
            call(libc::SYS_shmctl, [Arg::Int(id), Arg::Int(IPC_RMID), Arg::Null]);
        }
        if let Some(id) = self.messages {
            call(libc::SYS_msgctl, [Arg::Int(id), Arg::Int(IPC_RMID), Arg::Null]);
        }
        if let Some(id) = self.semaphores {
            call(
                libc::SYS_semctl,
                [Arg::Int(id), Arg::Int(0), Arg::Int(IPC_RMID), Arg::Null],
            );
        }
        if let Some(key) = self.key {
            call(
                libc::SYS_keyctl,
                [Arg::Int(KEYCTL_UNLINK), Arg::Int(key), Arg::Int(SESSION_KEYRING)],
            );
        }
        call(libc::SYS_mq_unlink, [Arg::In(format!("{}\0", self.queue).as_bytes())]);
        let _ = std::fs::remove_file(&self.shm_file);
        let _ = std::fs::remove_file(&self.tmp_file);
    }
}
