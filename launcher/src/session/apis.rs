//! The launcher's end of the retrievers' gateway: reads the keys once, puts them where only the gateway reads them, and hands out
//! tickets.

use super::key;
use super::secrets::wipe;
use crate::names;
use picktwo_confine::channel::{self, Channel};
use picktwo_policies::model::{Github, Policy, Upstream};
use picktwo_policies::outgoing::Secret;
use picktwo_wire::apis::{Api, ApiAddresses, ApisStart, FromApis, Service, Ticket};
use picktwo_wire::gateway::UpstreamAddress;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel as queue};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys of APIs, read once and handed over once; wiped when dropped.
pub(crate) struct ApiKeys {
    apis: Vec<Api>,
    /// Where each is, in the same order.
    addresses: ApiAddresses,
    storage: Vec<String>,
    /// Who searches.
    pub(crate) search: Searching,
    /// How GitHub is read.
    pub(crate) github: Reading,
}

/// How GitHub is read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The API's host, for the budget and the record.
    pub(crate) host: String,
    /// Why it is not; none: it is.
    pub(crate) not: Option<String>,
    /// What the policy says.
    pub(crate) policy: picktwo_policies::model::Github,
}

/// Whether there is a search.
#[derive(Clone, Debug)]
pub(crate) enum Searching {
    /// Through this provider, at this host.
    Through(Service, String),
    /// Not: one sentence that says why and what to do.
    Not(String),
}

impl ApiKeys {
    /// Reads the keys that the policy names. One that is not there costs what it is for, not the session.
    pub(crate) fn read(policy: &Policy) -> Self {
        let mut keys = Self {
            apis: Vec::new(),
            addresses: ApiAddresses::default(),
            storage: Vec::new(),
            search: Searching::Not(String::new()),
            github: Reading {
                host: String::new(),
                not: None,
                policy: policy.github.clone(),
            },
        };
        keys.search = keys.read_search(policy);
        keys.read_github();
        keys
    }

    fn read_github(&mut self) {
        let github = &self.github.policy;
        let usual = Upstream::read(Github::UPSTREAM).map_err(str::to_owned);
        let upstream = match (&github.upstream, usual) {
            (Some(named), _) => named.value.clone(),
            (None, Ok(usual)) => usual,
            (None, Err(why)) => {
                self.github.not = Some(why);
                return;
            }
        };
        self.github.host = upstream.host.clone();
        let key = match github.key.as_ref().map(|source| key::read(&source.value)).transpose() {
            Ok(key) => key.unwrap_or_default(),
            Err(e) => {
                self.github.not = Some(format!(
                    "there is no token for [github]: {e}; set it, or name another source as `key`, or none to read what anybody may"
                ));
                return;
            }
        };
        let named: Vec<String> = github.storage.iter().map(|s| s.value.clone()).collect();
        let storage = match named.is_empty() {
            true => Github::STORAGE.map(str::to_owned).to_vec(),
            false => named,
        };
        self.add(Service::Github, &upstream, key);
        self.storage = storage;
    }

    /// The addresses of all that the gateway may be connected to.
    pub(crate) fn addresses(&self) -> ApiAddresses {
        let mut all = self.addresses.clone();
        all.upstreams.extend(self.storage.iter().filter_map(|text| {
            // As it was read when the policy was: the star is no part of a URL's host.
            let plain = Upstream::read(&text.replace('*', "x")).ok()?;
            let host = match text.split_once("://")?.1.split([':', '/']).next()? {
                pattern if pattern.contains('*') => pattern.to_ascii_lowercase(),
                _ => plain.host,
            };
            Some(UpstreamAddress { host, port: plain.port })
        }));
        all
    }

    fn read_search(&mut self, policy: &Policy) -> Searching {
        let file = names::user_policy().map_or_else(|_| "the user's policy".to_owned(), |p| p.display().to_string());
        let Some(search) = &policy.retrieval.search else {
            return Searching::Not(format!(
                "no search provider is set up: the person adds [retrieval.search] to {file}, e.g. provider = \"brave\" and key = \
                 \"env:BRAVE_API_KEY\" (tavily, exa, kagi likewise; searxng with the `upstream` of an own instance)"
            ));
        };
        let Some(service) = Service::search(&search.provider) else {
            return Searching::Not(format!("the search provider `{}` is not known", search.provider.value));
        };
        let key = match search.key.as_ref().map(|source| key::read(&source.value)).transpose() {
            Ok(key) => key.unwrap_or_default(),
            Err(e) => {
                return Searching::Not(format!(
                    "there is no key for [retrieval.search]: {e}; set it, or name another source as `key` in {file}"
                ));
            }
        };
        self.add(service, &search.upstream.value, key);
        Searching::Through(service, search.upstream.host.clone())
    }

    fn add(&mut self, service: Service, upstream: &Upstream, key: String) {
        self.apis.push(Api {
            service,
            base: upstream.url.clone(),
            key,
        });
        self.addresses.upstreams.push(UpstreamAddress {
            host: upstream.host.clone(),
            port: upstream.port,
        });
    }

    /// The keys, for the check of what leaves.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.apis
            .iter()
            .filter(|a| !a.key.is_empty())
            .map(|a| Secret {
                name: format!("the {} key of this session", a.service.label()),
                value: a.key.clone(),
            })
            .collect()
    }

    /// Puts the keys into the gateway's channel, where they wait for it.
    ///
    /// # Errors
    /// If the channel cannot be made or the message not be written.
    pub(crate) fn hand_over(self, roots: &[Vec<u8>]) -> Result<Apis, String> {
        let (ours, theirs) = channel::pair().map_err(|e| e.to_string())?;
        let start = ApisStart {
            upstreams: self.apis.clone(),
            storage: self.storage.clone(),
            roots: roots.to_vec(),
            probes: Vec::new(),
        };
        let sent = picktwo_wire::encode(&start)
            .map_err(|e| e.to_string())
            .and_then(|mut bytes| {
                let sent = ours.send(&bytes, &[]).map_err(|e| e.to_string());
                bytes.fill(0);
                std::hint::black_box(&bytes);
                sent
            });
        start.upstreams.into_iter().for_each(|mut api| wipe(&mut api.key));
        sent?;
        Ok(Apis {
            ours,
            theirs: Mutex::new(Some(theirs)),
            running: Mutex::new(HashMap::new()),
            down: Mutex::new(None),
        })
    }
}

impl Drop for ApiKeys {
    fn drop(&mut self) {
        self.apis.iter_mut().for_each(|api| wipe(&mut api.key));
    }
}

/// The retrievers' gateway of one session.
pub(crate) struct Apis {
    ours: Channel,
    /// The gateway's end, until it is started.
    theirs: Mutex<Option<Channel>>,
    running: Mutex<HashMap<u64, Sender<FromApis>>>,
    down: Mutex<Option<String>>,
}

impl Apis {
    /// Starts the gateway, once: `start` hands its end of the channel to the web side.
    pub(super) fn wake<E>(self: &Arc<Self>, start: impl FnOnce(BorrowedFd<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut theirs = lock(&self.theirs);
        if let Some(channel) = theirs.take() {
            start(channel.as_fd())?;
            let apis = Arc::clone(self);
            std::thread::spawn(move || apis.listen());
        }
        Ok(())
    }

    /// Gives out a ticket: its answers are written to `answers`.
    pub(super) fn ticket(&self, ticket: &Ticket, answers: BorrowedFd<'_>) -> Result<Receiver<FromApis>, String> {
        let (sender, events) = queue();
        lock(&self.running).insert(ticket.id, sender);
        // Whoever listens clears the list after saying that it is over: looked at in this order, no ticket waits in vain.
        if let Some(reason) = &*lock(&self.down) {
            return Err(format!("the retrievers' gateway is not available: {reason}"));
        }
        let bytes = picktwo_wire::encode(ticket).map_err(|e| e.to_string())?;
        self.ours.send(&bytes, &[answers]).map_err(|e| e.to_string())?;
        Ok(events)
    }

    /// Forgets a ticket.
    pub(super) fn over(&self, id: u64) {
        lock(&self.running).remove(&id);
    }

    /// Reads what the gateway reports until its end.
    fn listen(&self) {
        let mut buffer = Vec::new();
        let down = loop {
            match self.ours.recv(&mut buffer) {
                Ok(Some(_)) => {}
                Ok(None) => break "it has ended".to_owned(),
                Err(e) => break e.to_string(),
            }
            match picktwo_wire::decode::<FromApis>(&buffer) {
                Ok(FromApis::Failed { reason }) => break reason,
                Ok(event @ (FromApis::Called { id, .. } | FromApis::Done { id })) => {
                    if let Some(sender) = lock(&self.running).get(&id) {
                        // A retrieval that is over has no receiver any more.
                        let _ = sender.send(event);
                    }
                }
                Ok(FromApis::Ready | FromApis::Probe { .. }) => {}
                Err(e) => break e.to_string(),
            }
        };
        *lock(&self.down) = Some(down);
        lock(&self.running).clear();
    }
}

/// A poisoned lock only means that another thread panicked between two whole updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
