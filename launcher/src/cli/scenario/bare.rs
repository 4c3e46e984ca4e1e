//! What fetching a page is without picktwo: the agent asks for the name, connects, follows every redirect, and gets all that is sent.

use super::{dns, http};
use std::io::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr};

/// Redirects that are followed.
const HOPS: usize = 5;

/// Fetches a page as it is.
pub(super) fn fetch(names: SocketAddr, url: &str) -> Result<String> {
    let mut url = url.to_owned();
    for _ in 0..HOPS {
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| Error::other("no http:// address"))?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = authority.split_once(':').unwrap_or((authority, "80"));
        let port: u16 = port.parse().map_err(Error::other)?;
        let address = match host.parse::<Ipv4Addr>() {
            Ok(address) => address,
            Err(_) => dns::ask(names, host)?,
        };
        let target = if target.starts_with('/') {
            target.to_owned()
        } else {
            format!("/{target}")
        };
        let reply = http::ask((address, port).into(), &format!("GET {target}"), authority, &[], None)?;
        match reply.header("location") {
            Some(location) if reply.second().starts_with('3') => {
                url = if let Some(rest) = location.strip_prefix("//") {
                    format!("http://{rest}")
                } else if location.starts_with('/') {
                    format!("http://{authority}{location}")
                } else {
                    location.to_owned()
                };
            }
            _ => return Ok(String::from_utf8_lossy(&reply.body).into_owned()),
        }
    }
    Err(Error::other("too many redirects"))
}
