//! The processes of picktwo and what each one holds: the table that gives the product its name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What every process title starts with.
pub const TITLE_PREFIX: &str = "picktwo: ";

/// A kind of process that picktwo starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What the person runs: starts the others, serves granted file changes, keeps the records.
    Launcher,
    /// Process 1 of a session's pid namespace: reaps, and makes sockets in the session's network namespace.
    Init,
    /// Makes the session's internet sockets and connects them to the gateway, where there is no network namespace.
    Broker,
    /// Ends what a session left running, where there is no pid namespace that would.
    Keeper,
    /// The confined command and everything that it starts, subagents included.
    Agent,
    /// The network supervisor of the model side.
    OutsideModel,
    /// The network supervisor of the web side.
    OutsideWeb,
    /// Resolves names, and nothing else.
    Resolver,
    /// Carries the agent's requests to its model API.
    Gateway,
    /// Carries a retriever's single-use operations to pinned upstreams.
    RetrieverGateway,
    /// Fetches and distils for one request.
    Retriever,
    /// A command of the person's (`mode`, `audit`, `attach`, …) that starts no session.
    Command,
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Whether the process holds this, if it were fully hijacked.
    pub held: bool,
    /// What exactly, in words for people.
    pub what: &'static str,
}

/// What a process could use if it were fully hijacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Local files of the person.
    pub files: Cell,
    /// Raw content that strangers may have written.
    pub raw: Cell,
    /// Direct network egress.
    pub egress: Cell,
    /// Credentials of the person.
    pub credentials: Cell,
}

impl Holds {
    /// How many of the three (files, raw content, egress) are held.
    pub const fn of_three(&self) -> u8 {
        self.files.held as u8 + self.raw.held as u8 + self.egress.held as u8
    }
}

const fn yes(what: &'static str) -> Cell {
    Cell { held: true, what }
}

const fn no(what: &'static str) -> Cell {
    Cell { held: false, what }
}

impl Role {
    /// Every role. The order is that of the table in the documentation.
    pub const ALL: [Role; 12] = [
        Role::Launcher,
        Role::Init,
        Role::Broker,
        Role::Keeper,
        Role::Agent,
        Role::OutsideModel,
        Role::Gateway,
        Role::OutsideWeb,
        Role::Resolver,
        Role::RetrieverGateway,
        Role::Retriever,
        Role::Command,
    ];

    /// The name of the role, as process titles and reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Launcher => "launcher",
            Role::Init => "init",
            Role::Broker => "broker",
            Role::Keeper => "keeper",
            Role::Agent => "agent",
            Role::OutsideModel => "outside-model",
            Role::OutsideWeb => "outside-web",
            Role::Resolver => "resolver",
            Role::Gateway => "gateway",
            Role::RetrieverGateway => "retriever-gateway",
            Role::Retriever => "retriever",
            Role::Command => "command",
        }
    }

    /// The process title: [`TITLE_PREFIX`] and the name.
    pub const fn title(self) -> &'static str {
        match self {
            Role::Launcher => "picktwo: launcher",
            Role::Init => "picktwo: init",
            Role::Broker => "picktwo: broker",
            Role::Keeper => "picktwo: keeper",
            Role::Agent => "picktwo: agent",
            Role::OutsideModel => "picktwo: outside-model",
            Role::OutsideWeb => "picktwo: outside-web",
            Role::Resolver => "picktwo: resolver",
            Role::Gateway => "picktwo: gateway",
            Role::RetrieverGateway => "picktwo: retriever-gateway",
            Role::Retriever => "picktwo: retriever",
            Role::Command => "picktwo: command",
        }
    }

    /// The role that a title (`argv[0]`) names.
    pub fn from_title(title: &OsStr) -> Option<Role> {
        let name = title.as_bytes().strip_prefix(TITLE_PREFIX.as_bytes())?;
        Role::ALL.into_iter().find(|role| role.name().as_bytes() == name)
    }

    /// What the role holds if it were fully hijacked.
    pub const fn holds(self) -> Holds {
        match self {
            Role::Launcher => Holds {
                files: yes("the workspace, its state, the records"),
                raw: no("distilled answers and the agent's messages only, bounded and parsed strictly"),
                egress: no("closed by its own Landlock and seccomp"),
                credentials: yes("read at start, handed over, wiped"),
            },
            Role::Init => Holds {
                files: no("Landlock allows none"),
                raw: no("none"),
                egress: no("sockets in an empty network namespace only"),
                credentials: no("none"),
            },
            Role::Broker => Holds {
                files: no("Landlock allows none"),
                raw: no("none: it never reads from what it connects"),
                egress: no("the port of the session's own gateway only"),
                credentials: no("none"),
            },
            Role::Keeper => Holds {
                files: no("Landlock allows none"),
                raw: no("none"),
                egress: no("no sockets"),
                credentials: no("none"),
            },
            Role::Agent => Holds {
                files: yes("reads by policy; changes only what is granted"),
                raw: no("distilled answers only"),
                egress: no("none: an empty network namespace, or no internet socket but to the gateway"),
                credentials: no("a phantom token at most"),
            },
            Role::OutsideModel => Holds {
                files: no("none"),
                raw: no("none: it never reads from what it connects"),
                egress: yes("opens connections to the pinned upstream"),
                credentials: no("none"),
            },
            Role::Gateway => Holds {
                files: no("none; carries what the agent sends to its model"),
                raw: yes("the model's output"),
                egress: yes("connected sockets handed to it, to one upstream"),
                credentials: yes("the model key"),
            },
            Role::OutsideWeb => Holds {
                files: no("none"),
                raw: no("addresses and names only"),
                egress: yes("opens public connections"),
                credentials: no("none"),
            },
            Role::Resolver => Holds {
                files: no("none"),
                raw: yes("DNS answers"),
                egress: yes("DNS servers only"),
                credentials: no("none"),
            },
            Role::RetrieverGateway => Holds {
                files: no("none"),
                raw: yes("in transit"),
                egress: yes("connected sockets handed to it, to pinned upstreams"),
                credentials: yes("model, search and GitHub keys"),
            },
            Role::Retriever => Holds {
                files: no("none"),
                raw: yes("the pages of one request"),
                egress: yes("connections granted one by one, or tickets of the gateway; never both at once"),
                credentials: no("none"),
            },
            Role::Command => Holds {
                files: yes("sessions and records of the person"),
                raw: no("distilled answers and records only"),
                egress: no("none: it speaks to launchers on local sockets"),
                credentials: no("none"),
            },
        }
    }
}

// The sentence that the product is named for, checked while compiling.
const _: () = {
    let mut i = 0;
    while i < Role::ALL.len() {
        assert!(
            Role::ALL[i].holds().of_three() < 3,
            "a role holds local files, raw content and egress"
        );
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_role_holds_all_three() {
        for role in Role::ALL {
            let holds = role.holds();
            assert!(
                holds.of_three() < 3,
                "{} holds files, raw content and egress: {holds:?}",
                role.name()
            );
        }
    }

    #[test]
    fn who_holds_raw_content_and_egress_holds_no_files() {
        for role in Role::ALL {
            let holds = role.holds();
            if holds.raw.held && holds.egress.held {
                assert!(!holds.files.held, "{}", role.name());
            }
        }
    }

    #[test]
    fn every_role_is_in_the_table_once_and_found_by_its_title() {
        let names: HashSet<_> = Role::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), Role::ALL.len());
        for role in Role::ALL {
            assert_eq!(role.title(), format!("{TITLE_PREFIX}{}", role.name()));
            assert_eq!(Role::from_title(OsStr::new(role.title())), Some(role));
        }
    }

    #[test]
    fn other_titles_are_no_role() {
        for title in [
            "picktwo",
            "retriever",
            "picktwo: ",
            "picktwo: Retriever",
            "picktwo: retriever ",
            "/usr/bin/picktwo",
        ] {
            assert_eq!(Role::from_title(OsStr::new(title)), None, "{title}");
        }
    }
}
