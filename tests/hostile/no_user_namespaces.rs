//! `no_user_namespaces CMD…`: runs a command in a private user namespace where `max_user_namespaces` is 0, as hardened hosts have it.
//! The command is the same user there, without any capability of its own.

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use picktwo_confine::namespace;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const LIMIT: &str = "/proc/sys/user/max_user_namespaces";

fn prepare() -> Result<(), String> {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    match unshare(CloneFlags::CLONE_NEWUSER) {
        Ok(()) => {}
        // It is so already.
        Err(Errno::ENOSPC) => return Ok(()),
        Err(e) => return Err(format!("unshare: {e}")),
    }
    namespace::write_own_maps(uid, gid).map_err(|e| e.to_string())?;
    std::fs::write(LIMIT, "0").map_err(|e| format!("{LIMIT}: {e}"))?;
    match unshare(CloneFlags::CLONE_NEWUSER) {
        Err(Errno::ENOSPC) => Ok(()),
        other => Err(format!("another namespace can be had: {other:?}")),
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("no_user_namespaces: no command");
        return ExitCode::from(125);
    };
    if let Err(why) = prepare() {
        eprintln!("no_user_namespaces: {why}");
        return ExitCode::from(125);
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("no_user_namespaces: {}: {error}", program.display());
    ExitCode::from(126)
}
