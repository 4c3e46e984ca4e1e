//! The escapes that `picktwo verify` tries: one attempt each, with the exact answer that a confined process must get.
//!
//! An attempt is the same code inside and outside. Outside, in a prepared place, it must succeed: that is its control, without
//! which a refusal proves nothing. Every attempt is harmless if it succeeds: it touches only what its [`Setting`] names, sends
//! signals that do nothing, or passes arguments that the kernel refuses once all permission checks are behind it.

mod calls;
mod changing;
mod container;
mod daemons;
mod ipc;
mod kernel;
mod namespaces;
mod nested;
mod network;
mod processes;
mod protected;
mod protected_git;
mod reading;
mod setting;
mod shared;
mod sockets;
mod surface;
mod terminal;
mod trial;

pub use container::InTier;
pub use setting::Setting;
pub use trial::{Outcome, Surroundings, Trial};

use nix::errno::Errno;

/// Who makes an attempt, and in which mode of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A process of a session in read-only mode.
    ReadOnly,
    /// A process of a session in edit mode.
    Edit,
    /// A retriever.
    Retriever,
    /// The agent's gateway.
    Gateway,
    /// The network supervisor of the web side.
    OutsideWeb,
    /// The network supervisor of the model side.
    OutsideModel,
    /// What resolves names.
    Resolver,
    /// The retrievers' gateway.
    RetrieverGateway,
}

impl Place {
    /// All of them.
    pub const ALL: [Place; 8] = [
        Place::ReadOnly,
        Place::Edit,
        Place::Retriever,
        Place::Gateway,
        Place::OutsideWeb,
        Place::OutsideModel,
        Place::Resolver,
        Place::RetrieverGateway,
    ];

    /// The role's name.
    pub fn role(self) -> &'static str {
        match self {
            Place::ReadOnly | Place::Edit => "agent",
            Place::Retriever => "retriever",
            Place::Gateway => "gateway",
            Place::OutsideWeb => "outside-web",
            Place::OutsideModel => "outside-model",
            Place::Resolver => "resolver",
            Place::RetrieverGateway => "retriever-gateway",
        }
    }

    /// The session's mode, for the agent.
    pub fn mode(self) -> Option<&'static str> {
        match self {
            Place::ReadOnly => Some("read-only"),
            Place::Edit => Some("edit"),
            Place::Retriever
            | Place::Gateway
            | Place::OutsideWeb
            | Place::OutsideModel
            | Place::Resolver
            | Place::RetrieverGateway => None,
        }
    }
}

/// What a confined process must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly one of these errors.
    Errno(&'static [Errno]),
    /// A step before the attack, which the attack cannot do without, is refused with exactly one of these errors.
    Step(&'static [Errno]),
    /// The process is ended by this signal.
    Killed(i32),
    /// The process is ended; by what, its parent does not tell.
    Ended,
    /// The call may succeed; what matters is that nothing arrives outside.
    Unseen,
}

/// Where the control of an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// By an ordinary process of the person's.
    Plain,
    /// By a process with all capabilities over new namespaces of its own: what any user's process can become.
    Namespaces,
}

/// Why an attempt did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The attack itself was refused.
    Refused(Errno),
    /// A step before the attack, which must work in a session, did not.
    Unprepared(&'static str, Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Stop::Refused(errno)
    }
}

/// What an attempt answers.
pub type Tried = std::result::Result<(), Stop>;

/// One escape.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Stable name, `class.what`.
    pub id: &'static str,
    /// Classes of docs/THREATS.md that it belongs to, for example `C01`.
    pub threats: &'static str,
    /// What is tried, as the rest of a sentence.
    pub what: &'static str,
    /// Where its control is made.
    pub control: Control,
    expected: [Option<Expected>; 7],
    attempt: fn(&Setting) -> Tried,
}

const fn probe(id: &'static str, threats: &'static str, what: &'static str, attempt: fn(&Setting) -> Tried) -> Probe {
    Probe {
        id,
        threats,
        what,
        control: Control::Plain,
        expected: [None; 7],
        attempt,
    }
}

impl Probe {
    /// The part of the id before the dot.
    pub fn class(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(class, _)| class)
    }

    /// What must come of it there; none: it is not tried there.
    pub fn expected(&self, place: Place) -> Option<Expected> {
        // Both gateways hold the same.
        let place = match place {
            Place::RetrieverGateway => Place::Gateway,
            other => other,
        };
        self.expected[place as usize]
    }

    /// Whether success by itself reaches nothing: it leaves kernel surface open, or takes a step that attacks are made of.
    pub fn is_surface(&self) -> bool {
        surface::opens_surface_only(self.id)
    }

    /// Whether success is an escape from any sandbox whose agent is in this place; what picktwo refuses for reasons of its own
    /// is not.
    pub fn judges_others(&self, place: Place) -> bool {
        self.expected(place).is_some() && !(place == Place::Edit && surface::is_plain_edit(self.id))
    }

    /// Tries it, in this process.
    pub fn attempt(&self, setting: &Setting) -> Outcome {
        match (self.attempt)(setting) {
            Ok(()) => Outcome::Escaped,
            Err(Stop::Refused(errno)) => Outcome::Refused(errno),
            Err(Stop::Unprepared(step, errno)) => Outcome::Unprepared(step.to_owned(), errno),
        }
    }

    const fn at(mut self, place: Place, expected: Expected) -> Probe {
        self.expected[place as usize] = Some(expected);
        self
    }

    /// The agent, in both modes.
    const fn agent(self, errnos: &'static [Errno]) -> Probe {
        self.read_only(errnos).edit(errnos)
    }

    const fn read_only(self, errnos: &'static [Errno]) -> Probe {
        self.at(Place::ReadOnly, Expected::Errno(errnos))
    }

    const fn edit(self, errnos: &'static [Errno]) -> Probe {
        self.at(Place::Edit, Expected::Errno(errnos))
    }

    const fn retriever(self, errnos: &'static [Errno]) -> Probe {
        self.at(Place::Retriever, Expected::Errno(errnos))
    }

    const fn gateway(self, errnos: &'static [Errno]) -> Probe {
        self.at(Place::Gateway, Expected::Errno(errnos))
    }

    /// Retriever, gateway, resolver and both supervisors, whose lists answer alike.
    const fn network(self, errnos: &'static [Errno]) -> Probe {
        self.retriever(errnos).gateway(errnos).outside(errnos)
    }

    /// Both supervisors, and the resolver.
    const fn outside(self, errnos: &'static [Errno]) -> Probe {
        self.at(Place::OutsideWeb, Expected::Errno(errnos))
            .at(Place::OutsideModel, Expected::Errno(errnos))
            .at(Place::Resolver, Expected::Errno(errnos))
    }

    /// What that place needs for its work.
    const fn but_for(mut self, place: Place) -> Probe {
        self.expected[place as usize] = None;
        self
    }

    const fn unseen(self) -> Probe {
        self.at(Place::ReadOnly, Expected::Unseen)
            .at(Place::Edit, Expected::Unseen)
    }

    const fn in_namespaces(mut self) -> Probe {
        self.control = Control::Namespaces;
        self
    }
}

/// Every probe, class by class. What ends a process that is refused comes last, for roles that try them in one process.
pub fn all() -> impl Iterator<Item = &'static Probe> {
    [
        reading::PROBES,
        changing::PROBES,
        shared::PROBES,
        protected::PROBES,
        protected_git::PROBES,
        sockets::PROBES,
        daemons::PROBES,
        network::PROBES,
        ipc::PROBES,
        processes::PROBES,
        namespaces::PROBES,
        terminal::PROBES,
        kernel::PROBES,
    ]
    .into_iter()
    .flatten()
}

/// The probe of that name.
pub fn find(id: &str) -> Option<&'static Probe> {
    all().find(|probe| probe.id == id)
}

/// Mark of an entry that describes the setting of the probes after it, where probes travel as a list of names.
pub const SETTING_MARK: char = '@';

/// Tries a list of probes in this process, for roles that cannot fork. `report` gets each name, what came of it (`escaped`,
/// `denied` or `unavailable`) and the error's number.
pub fn run_listed<E>(
    entries: &[String],
    mut report: impl FnMut(&str, &'static str, i32) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut setting = Setting::default();
    for entry in entries {
        if let Some(text) = entry.strip_prefix(SETTING_MARK) {
            setting = Setting::parse(text);
            continue;
        }
        let outcome = find(entry).map(|probe| probe.attempt(&setting));
        let (word, errno) = match outcome {
            Some(Outcome::Escaped) => ("escaped", 0),
            Some(Outcome::Refused(errno)) => ("denied", errno as i32),
            Some(Outcome::Unprepared(_, errno)) => ("unavailable", errno as i32),
            _ => ("unavailable", 0),
        };
        report(entry, word, errno)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_probe_is_tried_somewhere() {
        let mut seen = BTreeSet::new();
        for probe in all() {
            assert!(seen.insert(probe.id), "{} twice", probe.id);
            assert!(
                probe.id.contains('.') && !probe.threats.is_empty() && !probe.what.is_empty(),
                "{}",
                probe.id
            );
            assert!(
                Place::ALL.iter().any(|&p| probe.expected(p).is_some()),
                "{} is tried nowhere",
                probe.id
            );
            for place in Place::ALL {
                if let Some(Expected::Errno(errnos)) = probe.expected(place) {
                    assert!(!errnos.is_empty(), "{} expects nothing", probe.id);
                }
            }
        }
    }

    #[test]
    fn there_are_enough_for_each_role() {
        let count = |place: Place| all().filter(|p| p.expected(place).is_some()).count();
        let agent = all()
            .filter(|p| p.expected(Place::ReadOnly).is_some() || p.expected(Place::Edit).is_some())
            .count();
        assert!(agent >= 140, "agent: {agent}");
        assert!(count(Place::Retriever) >= 30, "retriever: {}", count(Place::Retriever));
        assert!(count(Place::Gateway) >= 25, "gateway: {}", count(Place::Gateway));
    }

    #[test]
    fn unknown_names_are_unavailable() {
        let mut got = Vec::new();
        run_listed(&["@work=/x".to_owned(), "no.such".to_owned()], |id, word, errno| {
            got.push((id.to_owned(), word, errno));
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(got, [("no.such".to_owned(), "unavailable", 0)]);
    }
}
