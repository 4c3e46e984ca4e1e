//! Acting on the person's terminal.

use super::calls::{attack, num, open, prepared, reach, sys};
use super::{Probe, Stop, probe};
use crate::attempt::Arg;
use nix::errno::Errno::{EACCES, EIO, ENOTTY, ENXIO, EPERM};

/// The slave of a pseudoterminal of its own, not its controlling one.
fn own_terminal() -> Result<i64, Stop> {
    let flags = libc::O_RDWR | libc::O_NOCTTY;
    let master = prepared("a terminal", open("/dev/ptmx", flags))?;
    let unlock = 0i32.to_ne_bytes();
    prepared(
        "its lock",
        sys(
            libc::SYS_ioctl,
            [Arg::Int(master), Arg::Int(0x4004_5431), Arg::In(&unlock)],
        ),
    )?;
    let mut number = [0u8; 4];
    prepared(
        "its number",
        sys(
            libc::SYS_ioctl,
            [Arg::Int(master), Arg::Int(0x8004_5430), Arg::Out(&mut number)],
        ),
    )?;
    prepared(
        "its other end",
        open(&format!("/dev/pts/{}", i32::from_ne_bytes(number)), flags),
    )
}

fn ioctl(request: i64, argument: &[u8]) -> Result<i64, Stop> {
    Ok(sys(
        libc::SYS_ioctl,
        [Arg::Int(own_terminal()?), Arg::Int(request), Arg::In(argument)],
    )?)
}

pub(super) static PROBES: &[Probe] = &[
    probe("terminal.type", "G10", "types into a terminal", |_| {
        let fd = own_terminal()?;
        prepared("a session", num(libc::SYS_setsid, &[]))?;
        prepared("the terminal", num(libc::SYS_ioctl, &[fd, libc::TIOCSCTTY as i64, 0]))?;
        // Where the kernel has switched typing off, it says EIO to all but the administrator.
        attack(sys(
            libc::SYS_ioctl,
            [Arg::Int(fd), Arg::Int(libc::TIOCSTI as i64), Arg::In(b"#")],
        ))
    })
    .agent(&[EPERM]),
    probe(
        "terminal.type-high-bits",
        "G10",
        "types into a terminal with bits set that the kernel does not look at",
        |_| {
            let fd = own_terminal()?;
            let request = libc::TIOCSTI as i64 | 1 << 32;
            // The terminal is not its own: EPERM is the kernel's answer, too, and says nothing.
            reach(
                sys(libc::SYS_ioctl, [Arg::Int(-1), Arg::Int(request), Arg::In(b"#")]),
                &[nix::errno::Errno::EBADF],
            )
            .and(prepared("the terminal", Ok(fd)).map(drop))
        },
    )
    .agent(&[EPERM]),
    probe("terminal.person", "G10", "types into the person's terminal", |s| {
        let fd = open(s.get("terminal")?, libc::O_RDWR | libc::O_NOCTTY)?;
        attack(sys(
            libc::SYS_ioctl,
            [Arg::Int(fd), Arg::Int(libc::TIOCSTI as i64), Arg::In(b"#")],
        ))
    })
    .agent(&[EPERM, ENXIO]),
    probe("terminal.discipline", "G11", "sets a line discipline", |_| {
        ioctl(libc::TIOCSETD as i64, &0i32.to_ne_bytes()).map(drop)
    })
    .agent(&[EPERM]),
    probe("terminal.exclusive", "G11", "locks others out of a terminal", |_| {
        ioctl(libc::TIOCEXCL as i64, &[0; 4]).map(drop)
    })
    .agent(&[EPERM]),
    probe("terminal.console", "G10", "pastes into a console", |_| {
        // TIOCL_GETSHIFTSTATE asks only.
        reach(
            sys(
                libc::SYS_ioctl,
                [
                    Arg::Int(own_terminal()?),
                    Arg::Int(libc::TIOCLINUX as i64),
                    Arg::In(&[6u8]),
                ],
            ),
            &[ENOTTY],
        )
    })
    .agent(&[EPERM]),
    probe("terminal.console-output", "G11", "takes a console's output", |_| {
        reach(
            num(libc::SYS_ioctl, &[own_terminal()?, libc::TIOCCONS as i64, 0]),
            &[nix::errno::Errno::EBUSY],
        )
    })
    .agent(&[EPERM]),
    probe("terminal.steal", "G11", "takes a terminal from another session", |_| {
        let fd = own_terminal()?;
        prepared("a session", num(libc::SYS_setsid, &[]))?;
        attack(num(libc::SYS_ioctl, &[fd, libc::TIOCSCTTY as i64, 1]))
    })
    .agent(&[EPERM]),
    probe("terminal.keyboard", "G11", "asks for a console's keyboard", |_| {
        reach(num(libc::SYS_ioctl, &[own_terminal()?, 0x4b44, 0]), &[ENOTTY, EIO])
    })
    .agent(&[EPERM]),
    probe("terminal.switch", "G11", "asks for a console's state", |_| {
        reach(num(libc::SYS_ioctl, &[own_terminal()?, 0x5603, 0]), &[ENOTTY, EIO])
    })
    .agent(&[EPERM]),
    probe("terminal.open", "G10", "opens its terminal", |_| {
        reach(open("/dev/tty", libc::O_RDWR | libc::O_NOCTTY), &[ENXIO])
    })
    .network(&[EACCES]),
    probe("terminal.hang-up", "G08", "hangs up its terminal", |_| {
        // Without a terminal of its own there is nothing that it would hang up.
        prepared("a session", num(libc::SYS_setsid, &[]))?;
        attack(num(libc::SYS_vhangup, &[]))
    })
    .agent(&[EPERM])
    .in_namespaces(),
];
