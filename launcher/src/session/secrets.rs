//! The model keys of a session between their source and the gateway.

use super::key;
use super::plan::Plan;
use super::start::StartError;
use picktwo_policies::model::Model;
use picktwo_wire::gateway::{GatewayStart, ModelStart, Protocol, Upstream, UpstreamAddress};
use std::net::IpAddr;

/// Model keys, read once and handed over once; wiped when dropped.
pub(super) struct Secrets {
    upstreams: Vec<Upstream>,
    addresses: Vec<UpstreamAddress>,
    nameservers: Vec<IpAddr>,
}

impl Secrets {
    /// Reads the keys of the models that the profile speaks to, and of every other model of the policy whose key is there.
    ///
    /// # Errors
    /// If a model that the profile needs has no key.
    pub(super) fn read(plan: &Plan) -> Result<Self, StartError> {
        let needed = |name: &str| plan.policy.profile.models.iter().any(|m| m.value == name);
        let mut secrets = Self {
            upstreams: Vec::new(),
            addresses: Vec::new(),
            nameservers: nameservers(),
        };
        for (name, model) in &plan.policy.models {
            let key = match &model.key {
                None => String::new(),
                Some(source) => match key::read(&source.value) {
                    Ok(key) => key,
                    Err(e) if needed(name) => return Err(StartError::Key(name.clone(), e)),
                    // Named for other agents; this one goes without.
                    Err(_) => continue,
                },
            };
            secrets.upstreams.push(upstream(name, model, key)?);
            secrets.addresses.push(UpstreamAddress {
                host: model.upstream.host.clone(),
                port: model.upstream.port,
            });
        }
        Ok(secrets)
    }

    /// The model side's first message; none if there is no model.
    pub(super) fn model_start(&self) -> Option<ModelStart> {
        (!self.upstreams.is_empty()).then(|| ModelStart {
            upstreams: self.addresses.clone(),
            nameservers: self.nameservers.clone(),
        })
    }

    /// The gateway's first message, with the keys. `phantom`: the token that every request must present, where the gateway's door is
    /// open to others than the session; a network namespace of the session's own is the only door there is.
    pub(super) fn gateway_start(&self, phantom: Option<String>) -> GatewayStart {
        GatewayStart {
            upstreams: self.upstreams.clone(),
            phantom,
            roots: Vec::new(),
            probes: Vec::new(),
        }
    }

    /// The keys, for the check of what leaves.
    pub(super) fn keys(&self) -> Vec<&str> {
        self.upstreams
            .iter()
            .map(|u| u.key.as_str())
            .filter(|k| !k.is_empty())
            .collect()
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        for upstream in &mut self.upstreams {
            wipe(&mut upstream.key);
        }
    }
}

/// Overwrites a key where it lies.
pub(super) fn wipe(key: &mut String) {
    let mut bytes = std::mem::take(key).into_bytes();
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

fn upstream(name: &str, model: &Model, key: String) -> Result<Upstream, StartError> {
    let protocol = match model.protocol.as_str() {
        "anthropic" => Protocol::Anthropic,
        "openai" => Protocol::Openai,
        "gemini" => Protocol::Gemini,
        other => {
            return Err(StartError::Policy(format!(
                "[model.{name}] speaks `{other}`, which the gateway does not know"
            )));
        }
    };
    Ok(Upstream {
        protocol,
        base: model.upstream.url.clone(),
        key,
        allow: model.allow.iter().map(|a| a.value.clone()).collect(),
        models: model.models.iter().map(|m| m.value.clone()).collect(),
    })
}

/// The name servers of this machine, for the resolvers, which have no files.
pub(super) fn nameservers() -> Vec<IpAddr> {
    picktwo_outside::resolver::nameservers_from(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}
