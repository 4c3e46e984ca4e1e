//! Settings of terminals: of the person's, the session decides on all but the keys that interrupt, quit and stop.
//!
//! A terminal answers questions as if it were typed at. Whoever may choose the key that interrupts has it signal whatever job has
//! the foreground, and the kernel asks no Landlock domain. The structure lies behind a pointer, and a descriptor may be another by the
//! time the kernel looks: so every such call is performed here, on the terminal that was looked at.

use super::jobs::Job;
use super::{Answer, Call, Grants, Outcome, unreadable};
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::fstat;
use nix::sys::termios::{SpecialCharacterIndices as Key, tcgetattr};
use nix::unistd::{Pid, getsid, tcgetpgrp};
use picktwo_confine::sys::terminal::{SETTINGS, Setting, set_settings};
use picktwo_confine::sys::{self, Identity};
use picktwo_confine::{Errno, memory};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// `/dev/tty`: the caller's controlling terminal.
const CONTROLLING: libc::dev_t = libc::makedev(5, 0);
/// `/dev/ptmx`.
const MASTER: libc::dev_t = libc::makedev(5, 2);
/// Major numbers of the ends of pairs that have a name.
const ENDS: std::ops::RangeInclusive<u32> = 136..=143;
/// The keys that signal.
const SIGNAL: [Key; 3] = [Key::VINTR, Key::VQUIT, Key::VSUSP];

/// A terminal of the person's.
struct Person {
    identity: Identity,
    fd: OwnedFd,
    /// Its keys that signal, when the session began.
    keys: [u8; 3],
}

/// Those that the session has.
#[derive(Default)]
pub(super) struct Persons(Vec<Person>);

impl Persons {
    /// Standard descriptors, and the controlling terminal, which has a name of its own.
    pub(super) fn new(standard: &[Option<(Identity, OwnedFd)>], session_root: &OwnedFd) -> Self {
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let given = standard
            .iter()
            .flatten()
            .map(|(_, fd)| sys::duplicate_above(fd.as_fd(), 3));
        let controlling = sys::openat(session_root.as_fd(), c"dev/tty", flags, 0);
        let all = given.chain([controlling]).filter_map(|fd| {
            let fd = fd.ok()?;
            let settings = tcgetattr(&fd).ok()?;
            Some(Person {
                identity: sys::fstat(fd.as_fd()).ok()?,
                keys: SIGNAL.map(|key| settings.control_chars[key as usize]),
                fd,
            })
        });
        Self(all.collect())
    }

    /// The launcher's controlling terminal, which is that of whoever is in the same session.
    pub(super) fn controlling(&self) -> Result<BorrowedFd<'_>, Errno> {
        let found = self.0.iter().find(|person| tcgetpgrp(&person.fd).is_ok());
        found.map(|person| person.fd.as_fd()).ok_or(Errno::ENOTTY)
    }

    /// Whether a descriptor is the controlling terminal, by whatever name.
    pub(super) fn is_controlling(&self, asked: &OwnedFd) -> Result<bool, Errno> {
        let identity = sys::fstat(asked.as_fd())?;
        let known = self.0.iter().find(|person| person.identity.same(&identity));
        Ok(fstat(asked)?.st_rdev == CONTROLLING || known.is_some_and(|person| tcgetpgrp(&person.fd).is_ok()))
    }
}

/// What a call is about.
enum Meant<'a> {
    Persons(&'a Person),
    /// One of the session's own.
    Own(OwnedFd),
}

impl Grants {
    /// `ioctl(TCSETS)` and its kin.
    pub(crate) fn set_settings(&self, call: &Call<'_>) -> Outcome {
        if self.persons.0.is_empty() {
            // None of the person's can be meant.
            return Ok(Answer::Proceed);
        }
        let asked = SETTINGS.iter().find(|setting| setting.request == call.int(1) as u32);
        let setting: Setting = *asked.ok_or(Errno::ENOTTY)?;
        let mut structure = vec![0; setting.size];
        memory::read_exact(call.pid(), call.word(2), &mut structure).map_err(unreadable)?;
        let object = call.object(call.int(0))?;
        let job = Job::of(call)?;
        // A session (setsid(2)) that was made inside has another controlling terminal, if any.
        let apart = getsid(Some(Pid::from_raw(call.pid())))? != getsid(None)?;
        let meant = self.meant(call, &object, &job, apart)?;
        call.alive()?;
        let terminal = match &meant {
            Meant::Persons(person) => {
                let keys = &mut structure[setting.keys..setting.keys + setting.count];
                for (key, before) in SIGNAL.into_iter().zip(person.keys) {
                    match keys.get_mut(key as usize) {
                        // None, rather than another.
                        Some(now) if *now != before => *now = 0,
                        _ => {}
                    }
                }
                person.fd.as_fd()
            }
            Meant::Own(fd) => fd.as_fd(),
        };
        let own_controlling = match &meant {
            Meant::Persons(person) => !apart && tcgetpgrp(&person.fd).is_ok(),
            Meant::Own(fd) => apart && fstat(fd)?.st_rdev == job.terminal(),
        };
        if own_controlling && job.is_behind() && !job.goes_on(call)? {
            return job.stop();
        }
        set_settings(terminal, setting, &structure)?;
        Ok(Answer::Value(0))
    }

    fn meant(&self, call: &Call<'_>, object: &OwnedFd, job: &Job, apart: bool) -> Result<Meant<'_>, Errno> {
        let (identity, number) = (sys::fstat(object.as_fd())?, fstat(object)?.st_rdev);
        if identity.kind() != libc::S_IFCHR {
            return Err(Errno::ENOTTY);
        }
        if number == CONTROLLING && apart {
            return self.own_end(libc::minor(job.terminal())).map(Meant::Own);
        }
        let controlling = |person: &&Person| tcgetpgrp(&person.fd).is_ok();
        let named = |person: &&Person| person.identity.same(&identity);
        let persons = if number == CONTROLLING {
            self.persons.0.iter().find(controlling)
        } else {
            self.persons.0.iter().find(named)
        };
        if let Some(person) = persons {
            return Ok(Meant::Persons(person));
        }
        if ENDS.contains(&libc::major(number)) {
            let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK;
            return sys::openat(sys::CWD, &sys::fd_path(object.as_fd()), flags, 0).map(Meant::Own);
        }
        if number == MASTER {
            let info = File::from(call.open_proc(&format!("fdinfo/{}", call.int(0)), libc::O_RDONLY)?);
            let info = std::io::read_to_string(info).map_err(|_| Errno::EACCES)?;
            let index = super::terminals::index(&info).ok_or(Errno::ENOTTY)?;
            return self.own_end(index).map(Meant::Own);
        }
        Err(Errno::ENOTTY)
    }
}

impl Job {
    /// Stops the caller's group, as the kernel does with one that acts on its terminal from the background.
    pub(super) fn stop(&self) -> Outcome {
        if self.is_orphaned() {
            return Err(Errno::EIO);
        }
        killpg(Pid::from_raw(self.group), Signal::SIGTTOU)?;
        Ok(Answer::Again)
    }
}
