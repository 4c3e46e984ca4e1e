//! Where a retriever may connect to.
//!
//! An address is granted if its port is allowed and it is public by table and neither local to nor on-link of this host, or
//! if the person's policy names exactly this host and port as an exception. A name counts as asked for once it was resolved
//! for this retriever, and only with the addresses that it had then.

use crate::local::Neighbourhood;
use crate::names::{self, BadName, Host, Name};
use picktwo_policies::address;
use picktwo_wire::retrieval::{HostPort, WebStart};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The rules of a session, the same for all its retrievers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    ports: BTreeSet<u16>,
    /// Exceptions by literal address.
    addresses: BTreeSet<(IpAddr, u16)>,
    /// Exceptions by name.
    names: BTreeSet<(Name, u16)>,
}

/// An exception that is neither an address nor a name.
#[derive(Debug)]
pub(crate) struct BadException {
    host: String,
    why: BadName,
}

impl std::fmt::Display for BadException {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "private host {:?}: {}", self.host, self.why)
    }
}

/// Why an address is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not public, or local to or on-link of this host.
    Private,
    /// The address names a port that is not allowed.
    Port,
}

impl Refusal {
    /// The outcome as it is recorded.
    pub(crate) fn outcome(self) -> &'static str {
        match self {
            Self::Private => "refused-private",
            Self::Port => "refused-port",
        }
    }
}

/// What tells whether an address is near this host.
pub(crate) trait Near {
    /// Whether it is local or on-link; an error counts as yes.
    fn is_near(&mut self, ip: IpAddr) -> bool;
}

impl Near for Neighbourhood {
    fn is_near(&mut self, ip: IpAddr) -> bool {
        self.contains(ip).unwrap_or(true)
    }
}

/// The names that one retriever asked for, with the addresses they had.
#[derive(Debug, Default)]
pub(crate) struct Pins(BTreeMap<Name, Vec<IpAddr>>);

impl Pins {
    /// The addresses that a name was pinned to.
    pub(crate) fn get(&self, name: &Name) -> Option<&[IpAddr]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Pins a name. Addresses are given once: a later answer does not change them.
    pub(crate) fn pin(&mut self, name: Name, addresses: Vec<IpAddr>) {
        self.0.entry(name).or_insert(addresses);
    }

    fn names_of(&self, ip: IpAddr) -> impl Iterator<Item = &Name> {
        self.0
            .iter()
            .filter(move |(_, ips)| ips.iter().any(|i| i.to_canonical() == ip))
            .map(|(name, _)| name)
    }
}

impl Rules {
    /// Reads the rules of a start message.
    pub(crate) fn new(start: &WebStart) -> Result<Self, BadException> {
        let mut rules = Self {
            ports: start.ports.iter().copied().collect(),
            addresses: BTreeSet::new(),
            names: BTreeSet::new(),
        };
        for HostPort { host, port } in &start.private {
            match Host::parse(host) {
                Ok(Host::Literal(ip)) => rules.addresses.insert((ip, *port)),
                Ok(Host::Name(name)) => rules.names.insert((name, *port)),
                Err(why) => {
                    return Err(BadException {
                        host: host.clone(),
                        why,
                    });
                }
            };
        }
        Ok(rules)
    }

    /// Every port that some connection may be granted to; what Landlock is told.
    pub(crate) fn all_ports(&self) -> Vec<u16> {
        let exceptions = self.addresses.iter().map(|e| e.1).chain(self.names.iter().map(|e| e.1));
        self.ports
            .iter()
            .copied()
            .chain(exceptions)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn is_exception(&self, name: &Name) -> bool {
        self.names.iter().any(|(n, _)| n == name)
    }

    /// Whether a name may be asked for, or why not.
    pub(crate) fn may_ask(&self, name: &Name) -> Result<(), String> {
        if self.is_exception(name) || names::is_public(name) {
            return Ok(());
        }
        Err(format!(
            "{name} is a name of the local network; only hosts that your policy lists under private may be asked for"
        ))
    }

    /// Whether the addresses of a name may be used: all of them, or none.
    pub(crate) fn judge(&self, name: &Name, addresses: &[IpAddr], near: &mut dyn Near) -> Result<(), String> {
        if self.is_exception(name) {
            return Ok(());
        }
        for ip in addresses {
            if let Err(why) = address::public(*ip) {
                return Err(format!("{name} has the address {ip}, which is not public: {why}"));
            }
            if near.is_near(*ip) {
                return Err(format!(
                    "{name} has the address {ip}, which belongs to this host or its local network"
                ));
            }
        }
        Ok(())
    }

    /// Whether a literal address may be used, on some port.
    pub(crate) fn judge_literal(&self, ip: IpAddr, near: &mut dyn Near) -> Result<(), String> {
        if self.addresses.iter().any(|(exception, _)| *exception == ip) {
            return Ok(());
        }
        address::public(ip).map_err(|why| format!("{ip} is not public: {why}"))?;
        if near.is_near(ip) {
            Err(format!("{ip} belongs to this host or its local network"))
        } else {
            Ok(())
        }
    }

    /// Decides on one connection. On success, the name it is made for; none for a literal address.
    pub(crate) fn connect<'a>(
        &self,
        to: SocketAddr,
        pins: &'a Pins,
        near: &mut dyn Near,
    ) -> Result<Option<&'a Name>, Refusal> {
        let (ip, port) = (to.ip().to_canonical(), to.port());
        let of_port = |name: &Name| self.names.contains(&(name.clone(), port));
        if let Some(name) = pins.names_of(ip).find(|name| of_port(name)) {
            return Ok(Some(name));
        }
        if self.addresses.contains(&(ip, port)) {
            return Ok(pins.names_of(ip).next());
        }
        if !self.ports.contains(&port) {
            return Err(Refusal::Port);
        }
        if address::public(ip).is_err() || near.is_near(ip) {
            return Err(Refusal::Private);
        }
        Ok(pins.names_of(ip).next())
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
