//! One attempt in a child of its own, which it may end, stall or damage.

use super::{Control, Probe, Setting};
use crate::{namespace, process};
use nix::errno::Errno;
use std::io::{Read, Write};

/// Milliseconds that one attempt may take.
const PATIENCE: i32 = 5_000;

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It got through.
    Escaped,
    /// It was refused.
    Refused(Errno),
    /// A step before it failed: nothing was learned. Holds the step.
    Unprepared(String, Errno),
    /// A signal ended the process.
    Killed(i32),
    /// It did not come back in time.
    Hung,
}

impl Outcome {
    /// One line for [`Outcome::read`].
    fn line(&self) -> String {
        match self {
            Outcome::Escaped => "escaped 0 -".to_owned(),
            Outcome::Refused(errno) => format!("refused {} -", *errno as i32),
            Outcome::Unprepared(step, errno) => format!("unprepared {} {step}", *errno as i32),
            Outcome::Killed(signal) => format!("killed {signal} -"),
            Outcome::Hung => "hung 0 -".to_owned(),
        }
    }

    fn read(line: &str) -> Option<Outcome> {
        let mut words = line.splitn(3, ' ');
        let (word, number, step) = (words.next()?, words.next()?.parse::<i32>().ok()?, words.next()?);
        Some(match word {
            "escaped" => Outcome::Escaped,
            "refused" => Outcome::Refused(Errno::from_raw(number)),
            "unprepared" => Outcome::Unprepared(step.to_owned(), Errno::from_raw(number)),
            "killed" => Outcome::Killed(number),
            "hung" => Outcome::Hung,
            _ => return None,
        })
    }
}

/// Where an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// By an ordinary process: a control, in the surroundings that the probe asks for.
    Bare,
    /// In a session of picktwo's.
    Session,
    /// In another sandbox: an attacker first makes the namespaces that a probe's control is made in, if it may.
    Judged,
}

/// The result of [`Trial::run`] as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The probe.
    pub id: String,
    /// What came of it.
    pub outcome: Outcome,
}

impl Trial {
    /// Tries a probe in a child.
    pub fn run(probe: &Probe, setting: &Setting, surroundings: Surroundings) -> Trial {
        let namespaces = probe.control == Control::Namespaces;
        let outcome = match surroundings {
            Surroundings::Bare => child(probe, setting, namespaces),
            Surroundings::Judged if namespaces => match child(probe, setting, true) {
                Outcome::Escaped => Outcome::Escaped,
                _ => child(probe, setting, false),
            },
            Surroundings::Session | Surroundings::Judged => child(probe, setting, false),
        };
        Trial {
            id: probe.id.to_owned(),
            outcome,
        }
    }

    /// `id outcome number step`, without a line end.
    pub fn line(&self) -> String {
        format!("{} {}", self.id, self.outcome.line())
    }

    /// Reads [`Trial::line`]; none: something else.
    pub fn read(line: &str) -> Option<Trial> {
        let (id, rest) = line.split_once(' ')?;
        Some(Trial {
            id: id.to_owned(),
            outcome: Outcome::read(rest)?,
        })
    }
}

fn failed(step: &str) -> Outcome {
    Outcome::Unprepared(step.to_owned(), Errno::last())
}

fn child(probe: &Probe, setting: &Setting, namespaces: bool) -> Outcome {
    let Ok((mut reader, mut writer)) = std::io::pipe() else {
        return failed("a pipe");
    };
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    let work = move || {
        let outcome = match namespaces {
            true if namespace::write_own_maps(uid, gid).is_err() => failed("id maps"),
            _ => probe.attempt(setting),
        };
        u8::from(writer.write_all(outcome.line().as_bytes()).is_err())
    };
    let child = if namespaces {
        process::clone_namespaces(namespace::SESSION, "a control", work)
    } else {
        process::fork(work)
    };
    let child = match child {
        Ok(child) => child,
        Err(error) => return Outcome::Unprepared("a child".to_owned(), error.errno().unwrap_or(Errno::EIO)),
    };
    if !child.ended_within(PATIENCE).unwrap_or(false) {
        return match child.kill_and_wait() {
            Ok(_) => Outcome::Hung,
            Err(_) => failed("the end of a child"),
        };
    }
    let exit = child.wait();
    let mut said = String::new();
    // Its writing end may have been passed on by a child of its own: what is there is there.
    let _ = nonblocking(&reader).map(|()| reader.read_to_string(&mut said));
    match (exit, Outcome::read(&said)) {
        (Ok(process::Exit::Signal(signal)), _) => Outcome::Killed(signal),
        (_, Some(outcome)) => outcome,
        _ => failed("a report"),
    }
}

fn nonblocking(reader: &std::io::PipeReader) -> nix::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::{Stop, Tried, probe};

    fn of(attempt: fn(&Setting) -> Tried) -> Outcome {
        Trial::run(
            &probe("test.one", "X", "x", attempt),
            &Setting::default(),
            Surroundings::Bare,
        )
        .outcome
    }

    #[test]
    fn outcomes_come_back_from_the_child() {
        assert_eq!(of(|_| Ok(())), Outcome::Escaped);
        assert_eq!(of(|_| Err(Stop::Refused(Errno::EROFS))), Outcome::Refused(Errno::EROFS));
        assert_eq!(
            of(|_| Err(Stop::Unprepared("a step", Errno::EIO))),
            Outcome::Unprepared("a step".to_owned(), Errno::EIO)
        );
        assert_eq!(of(|_| std::process::abort()), Outcome::Killed(libc::SIGABRT));
    }

    #[test]
    fn lines_are_read_back() {
        for outcome in [
            Outcome::Hung,
            Outcome::Killed(9),
            Outcome::Unprepared("some step".to_owned(), Errno::EPERM),
        ] {
            let trial = Trial {
                id: "a.b".to_owned(),
                outcome,
            };
            assert_eq!(Trial::read(&trial.line()), Some(trial));
        }
        assert_eq!(Trial::read("nonsense"), None);
    }
}
