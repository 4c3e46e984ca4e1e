//! A retriever in the hands of an attacker: it hands over its listener as it must to be served at all, and then performs any
//! system call that the test names. With `plain`, it has a retriever's own list of calls as well; without, only what the
//! supervisor's list leaves to everything it starts, which is more than any real retriever has.

use super::harness::receive;
use nix::libc;
use picktwo_confine::attempt::{self, Arg};
use picktwo_confine::channel::Channel;
use picktwo_confine::role::Role;
use picktwo_confine::{filters, limits, seccomp};
use picktwo_wire::retrieval::{Resolve, Resolved};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, IntoRawFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Test → hostile retriever.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Install the filters and hand over the listener.
    Lock { plain: bool },
    /// Ask for a name.
    Resolve { host: String },
    /// Perform a system call.
    Call { nr: i64, args: Vec<Argument> },
    /// Keep the descriptor that comes along; its number is reported.
    Keep,
    /// Connect a socket again and again while another thread swaps the address between two.
    Race {
        socket: i64,
        good: [u64; 2],
        bad: [u64; 2],
        rounds: usize,
    },
    /// Send bytes to the supervisor, with so many descriptors.
    Send { bytes: Vec<u8>, fds: usize },
}

/// An argument of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Argument {
    Int(i64),
    Bytes(Vec<u8>),
    Null,
    /// The last bytes of a mapping that nothing follows.
    Edge(u64),
}

/// Hostile retriever → test.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// What the call returned.
    pub(crate) value: i64,
    /// Its errno, or 0.
    pub(crate) errno: i32,
    /// The answer to a name.
    pub(crate) resolved: Option<Resolved>,
    /// How often each errno came, of a race.
    pub(crate) seen: BTreeMap<i32, u32>,
}

fn report(outcome: Result<i64, nix::errno::Errno>) -> Report {
    match outcome {
        Ok(value) => Report {
            value,
            errno: 0,
            resolved: None,
            seen: BTreeMap::new(),
        },
        Err(errno) => Report {
            value: -1,
            errno: errno as i32,
            resolved: None,
            seen: BTreeMap::new(),
        },
    }
}

/// The end of this process's stack, below which everything is readable and above which nothing is.
fn stack_end() -> u64 {
    let local = 0_u8;
    // The next page: below are the frames of the calls made here, with the very word that is compared.
    let mut page = (&raw const local as u64 / 4096 + 1) * 4096;
    // Reads a word and compares it: without a fault, it is another one (EAGAIN).
    const UNLIKELY: i64 = 0x5ca1_ab1e;
    let read = |page: u64| attempt::numbers(libc::SYS_futex, &[page as i64, libc::FUTEX_WAIT.into(), UNLIKELY, 0]);
    while read(page) == Err(nix::errno::Errno::EAGAIN) {
        page += 4096;
    }
    page
}

pub(crate) fn main_role(supervisor: Channel) -> ExitCode {
    let mut bytes = Vec::new();
    let first = supervisor.recv(&mut bytes).ok().flatten();
    let Some(test) = first.and_then(|mut fds| fds.pop()).map(Channel::from) else {
        return ExitCode::from(3);
    };
    let edge = stack_end();
    loop {
        let (order, fds) = receive::<Order>(&test);
        let answer = match order {
            Order::Lock { plain } => {
                limits::no_new_privs().expect("no_new_privs");
                let listener = seccomp::install_listener(&filters::retriever_notify()).expect("a listener");
                if plain {
                    seccomp::install(&filters::for_role(Role::Retriever)).expect("the retriever's list");
                }
                supervisor.send(b"{}", &[listener.as_fd()]).expect("the supervisor");
                report(Ok(0))
            }
            Order::Resolve { host } => {
                supervisor
                    .send(&picktwo_wire::encode(&Resolve { host }).expect("a message"), &[])
                    .expect("the supervisor");
                let (resolved, _) = receive::<Resolved>(&supervisor);
                Report {
                    value: 0,
                    errno: 0,
                    resolved: Some(resolved),
                    seen: BTreeMap::new(),
                }
            }
            Order::Call { nr, args } => report(call(nr, &args, edge)),
            Order::Keep => report(Ok(fds.into_iter().next().map_or(-1, |fd| i64::from(fd.into_raw_fd())))),
            Order::Race {
                socket,
                good,
                bad,
                rounds,
            } => race(socket, good, bad, rounds),
            Order::Send { bytes, fds } => {
                let null = supervisor.as_fd();
                let _ = supervisor.send(&bytes, &vec![null; fds]);
                report(Ok(0))
            }
        };
        test.send(&picktwo_wire::encode(&answer).expect("a message"), &[])
            .expect("the test");
    }
}

fn call(nr: i64, args: &[Argument], edge: u64) -> Result<i64, nix::errno::Errno> {
    let mut raw = [const { Arg::Int(0) }; 6];
    for (place, argument) in raw.iter_mut().zip(args) {
        *place = match argument {
            Argument::Int(n) => Arg::Int(*n),
            Argument::Bytes(bytes) => Arg::In(bytes),
            Argument::Null => Arg::Null,
            Argument::Edge(before) => Arg::Int((edge - before) as i64),
        };
    }
    attempt::syscall(nr, raw)
}

/// Swaps an address, as two words, under `rounds` connections; reports how often each errno came.
fn race(socket: i64, good: [u64; 2], bad: [u64; 2], rounds: usize) -> Report {
    let address: Arc<[AtomicU64; 2]> = Arc::new([AtomicU64::new(good[0]), AtomicU64::new(good[1])]);
    let done = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (address, done) = (address.clone(), done.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for words in [bad, good] {
                    address[0].store(words[0], Ordering::Relaxed);
                    address[1].store(words[1], Ordering::Relaxed);
                    (0..200).for_each(|_| std::hint::spin_loop());
                }
            }
        })
    };
    let pointer = address[0].as_ptr() as i64;
    let mut seen = BTreeMap::new();
    for round in 0..rounds {
        // However the swapping thread is scheduled, both addresses have their turn.
        let first = if round % 2 == 0 { good } else { bad };
        address[0].store(first[0], Ordering::Relaxed);
        let errno = attempt::numbers(libc::SYS_connect, &[socket, pointer, 16]).map_or_else(|e| e as i32, |_| 0);
        *seen.entry(errno).or_insert(0) += 1;
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().expect("the swapping thread");
    Report {
        value: 0,
        errno: 0,
        resolved: None,
        seen,
    }
}
