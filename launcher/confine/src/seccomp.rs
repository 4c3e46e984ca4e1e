//! System call filters: rules as data, compiled to BPF, and installed.
//!
//! The architecture is checked first, then the x32 bit, then numbers by binary search, then arguments. What `seccompiler` can express
//! is compiled by it, too, in a test: both must decide alike.

mod bpf;

use crate::error::{Error, Result};
use crate::notify::Listener;
use crate::process;
use nix::errno::Errno;
use std::os::fd::{FromRawFd, OwnedFd};

pub use bpf::Instruction;

/// What a filter does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel performs it.
    Allow,
    /// It fails with this error.
    Errno(Errno),
    /// It is not performed and answers 0: for calls that change nothing the caller could rely on, where a refusal makes
    /// programs give up.
    Pretend,
    /// The supervisor decides.
    Notify,
    /// The whole process is killed.
    KillProcess,
}

/// A condition on one argument. All but the `64` ones look at the low 32 bits only, as the kernel does with an `int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Equal.
    Is(u32),
    /// Not equal.
    IsNot(u32),
    /// At least one of these bits is set.
    Any(u32),
    /// None of these bits is set.
    None(u32),
    /// The bits of the mask have this value.
    Masked {
        /// Which bits.
        mask: u32,
        /// Their value.
        value: u32,
    },
    /// The bits of the mask have another value.
    NotMasked {
        /// Which bits.
        mask: u32,
        /// The value that they do not have.
        value: u32,
    },
    /// All 64 bits are zero: a null pointer.
    Null64,
    /// Not all 64 bits are zero.
    NotNull64,
}

impl Test {
    /// Whether an argument passes.
    pub fn passes(self, argument: u64) -> bool {
        let low = argument as u32;
        match self {
            Test::Is(value) => low == value,
            Test::IsNot(value) => low != value,
            Test::Any(mask) => low & mask != 0,
            Test::None(mask) => low & mask == 0,
            Test::Masked { mask, value } => low & mask == value,
            Test::NotMasked { mask, value } => low & mask != value,
            Test::Null64 => argument == 0,
            Test::NotNull64 => argument != 0,
        }
    }
}

/// A condition: which argument, and what must hold for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cond {
    /// The argument's index, 0 to 5.
    pub argument: u8,
    /// What must hold.
    pub test: Test,
}

/// A rule: one call under some conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number of the call (x86-64).
    pub nr: i64,
    /// Its name.
    pub name: &'static str,
    /// All of them must hold; none: always.
    pub when: Vec<Cond>,
    /// What happens then.
    pub then: Action,
    /// Why.
    pub reason: &'static str,
}

/// A filter: rules, of which the first that applies decides, and what happens to everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its name, for errors and reports.
    pub name: &'static str,
    /// Calls of the 32-bit ABIs (`int 0x80`, compat).
    pub foreign: Action,
    /// Calls with the x32 bit (0x40000000) or a negative number.
    pub x32: Action,
    /// The highest call number that this filter knows, and what happens to higher ones.
    pub newer: Option<(i64, Action)>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Everything that no rule decides.
    pub otherwise: Action,
}

/// `AUDIT_ARCH_X86_64`.
pub const ARCH: u32 = 0xC000_003E;
/// `AUDIT_ARCH_I386`.
pub const ARCH_I386: u32 = 0x4000_0003;
/// The bit that marks a call of the x32 ABI.
pub const X32_BIT: u32 = 0x4000_0000;

impl Filter {
    /// What this filter decides, by its definition: the reference that compiled programs are tested against.
    pub fn decide(&self, arch: u32, nr: u32, args: &[u64; 6]) -> Action {
        if arch != ARCH {
            return self.foreign;
        }
        if nr >= X32_BIT {
            return self.x32;
        }
        if let Some((newest, action)) = self.newer
            && i64::from(nr) > newest
        {
            return action;
        }
        self.rules
            .iter()
            .filter(|rule| rule.nr == i64::from(nr))
            .find(|rule| {
                rule.when
                    .iter()
                    .all(|cond| cond.test.passes(args[cond.argument as usize]))
            })
            .map_or(self.otherwise, |rule| rule.then)
    }

    /// The BPF program.
    pub fn compile(&self) -> Result<Vec<Instruction>> {
        bpf::compile(self).map_err(|reason| Error::Compile {
            filter: self.name.into(),
            reason,
        })
    }
}

#[cfg(test)]
mod tests;

const SET_MODE_FILTER: libc::c_ulong = 1;

/// A filter that was compiled ahead of the moment that it is installed, possibly by a parent that had to wait for something else.
#[derive(Clone, Debug)]
pub struct Compiled {
    name: &'static str,
    program: Vec<Instruction>,
}

impl Compiled {
    /// Compiles a filter.
    pub fn new(filter: &Filter) -> Result<Compiled> {
        Ok(Compiled {
            name: filter.name,
            program: filter.compile()?,
        })
    }

    /// As [`install`].
    pub fn install(&self) -> Result<()> {
        process::single_threaded()?;
        crate::limits::no_new_privs()?;
        self.put_in_force(0).map(drop)
    }

    /// As [`install_listener`].
    pub fn install_listener(&self) -> Result<Listener> {
        process::single_threaded()?;
        crate::limits::no_new_privs()?;
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        let number = self.put_in_force(flags as libc::c_ulong)?;
        // SAFETY: with NEW_LISTENER the kernel answers a descriptor that it just made for us.
        Ok(Listener::from(unsafe { OwnedFd::from_raw_fd(number as i32) }))
    }

    /// As [`install_both`]: this one notifies, `plain` lies on top.
    pub fn install_listener_below(&self, plain: &Compiled) -> Result<Listener> {
        let listener = self.install_listener()?;
        // Whether there is one thread was asked before: by now the question itself might be a call that waits for an answer.
        plain.put_in_force(0)?;
        Ok(listener)
    }

    fn put_in_force(&self, flags: libc::c_ulong) -> Result<i64> {
        let header = libc::sock_fprog {
            len: self.program.len() as u16,
            filter: self.program.as_ptr().cast_mut().cast(),
        };
        // SAFETY: Instruction has the layout of sock_filter; the kernel reads `len` of them and copies.
        let rc = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &header) };
        match Errno::result(rc) {
            Ok(value) => Ok(value),
            Err(Errno::EBUSY) => Err(Error::SecondListener {
                filter: self.name.into(),
            }),
            Err(errno) => Err(Error::InstallFilter {
                filter: self.name.into(),
                errno,
            }),
        }
    }
}

/// Whether this process may be under a filter: without one, nobody can be listening already. A kernel or a filter that does not answer
/// counts as one.
pub fn filtered() -> bool {
    // SAFETY: PR_GET_SECCOMP takes no further argument and answers the mode.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    mode != 0
}

/// Installs a filter for this process, which must have one thread, for good. Sets `no_new_privs`.
pub fn install(filter: &Filter) -> Result<()> {
    Compiled::new(filter)?.install()
}

/// Installs a filter with [`Action::Notify`] rules and returns where the notifications arrive. At most one such filter can
/// exist in a process's chain: [`Error::SecondListener`] otherwise.
///
/// A notified call is interrupted by fatal signals only, from the moment that the supervisor has received it.
pub fn install_listener(filter: &Filter) -> Result<Listener> {
    Compiled::new(filter)?.install_listener()
}

/// Installs a filter that notifies and a plain one on top, and returns where the notifications arrive: in this order, so that the
/// plain filter may refuse what installing takes.
pub fn install_both(plain: &Filter, notifying: &Filter) -> Result<Listener> {
    Compiled::new(notifying)?.install_listener_below(&Compiled::new(plain)?)
}
