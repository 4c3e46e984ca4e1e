//! The resolver: a process that asks name servers and nothing else. It holds no files, and of TCP it may reach port 53 only.
//! Where its datagrams go is up to itself below Landlock ABI 10, which is the first to know UDP: taken over, it could send
//! them elsewhere, but has nothing to send but the names that it is asked for.
//!
//! A network supervisor starts it before it locks itself and speaks to it over one channel: first [`Start`], then one
//! [`Resolve`](picktwo_wire::retrieval::Resolve) per name and one [`Resolved`] per answer, in any order. Whether the
//! addresses may be used is decided by whoever asked.

mod client;
mod lookup;
mod message;
mod service;

pub use client::{Client, ClientError, Starting};
pub use service::main_role;
pub(crate) use service::until;

use picktwo_wire::retrieval::Resolved;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The port of name servers, UDP and TCP.
pub const DNS_PORT: u16 = 53;
/// Names that are looked up at the same time; further ones wait.
pub const MAX_ACTIVE: usize = 32;
/// Names that may wait; further ones are answered with an error.
pub const MAX_WAITING: usize = 256;

/// Supervisor → resolver: the first message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Name servers, in the order in which they are asked.
    pub nameservers: Vec<IpAddr>,
}

/// Resolver → supervisor: the answer to [`Start`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Started {
    /// Locked and self-checked.
    Ready,
    /// The start failed.
    Failed {
        /// One sentence.
        reason: String,
    },
}

/// The name servers of a resolv.conf(5), in order: lines `nameserver ADDRESS`. Addresses with a zone (`fe80::1%eth0`) and
/// everything else are skipped, as search lists and options are: names are always asked for as they are written.
#[must_use]
pub fn nameservers_from(text: &str) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        if let Some(ip) = words.next().and_then(|word| word.parse::<IpAddr>().ok())
            && !servers.contains(&ip)
        {
            servers.push(ip);
        }
    }
    servers.truncate(lookup::MAX_SERVERS);
    servers
}

pub(crate) fn failure(host: &str, reason: impl std::fmt::Display) -> Resolved {
    Resolved {
        host: host.to_owned(),
        addresses: Vec::new(),
        error: Some(reason.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_read_in_order() {
        let text = "\
# nameserver 9.9.9.9
; nameserver 8.8.8.8
domain example.org
search example.org corp.example
nameserver 127.0.0.53
nameserver\t2606:4700:4700::1111   # trailing
 nameserver 1.1.1.1
nameserver fe80::1%eth0
nameserver not-an-address
nameserver
nameserver 127.0.0.53
nameserver 4.4.4.4
options edns0 trust-ad
";
        let expected: Vec<IpAddr> = ["127.0.0.53", "2606:4700:4700::1111", "1.1.1.1"]
            .iter()
            .map(|t| t.parse().expect("an address"))
            .collect();
        assert_eq!(nameservers_from(text), expected);
        assert!(nameservers_from("").is_empty());
    }
}
