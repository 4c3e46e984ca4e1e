//! What can fail while a process is confined: one variant per call, with the object that it failed on.

use nix::errno::Errno;
use std::fmt;

/// The result of a confinement step.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! errors {
    (
        calls { $( $(#[$cm:meta])* $call:ident { $($cf:ident : $ct:ty),* } => $ctext:literal; )* }
        states { $( $(#[$sm:meta])* $state:ident { $($sf:ident : $st:ty),* } => $stext:literal; )* }
    ) => {
        /// A confinement step that failed. `Display` gives one sentence with the object and the kernel's reason.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Error {
            $( $(#[$cm])* $call {
                $(#[doc = concat!("The object: ", stringify!($cf), ".")] $cf: $ct,)*
                /// The kernel's answer.
                errno: Errno
            }, )*
            $( $(#[$sm])* $state { $(#[doc = concat!("The object: ", stringify!($sf), ".")] $sf: $st),* }, )*
        }

        impl Error {
            /// The kernel's answer, where a system call failed.
            pub fn errno(&self) -> Option<Errno> {
                match self {
                    $( Error::$call { errno, .. } => Some(*errno), )*
                    $( Error::$state { .. } => None, )*
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Error::$call { $($cf,)* errno } => {
                        write!(f, $ctext)?;
                        write!(f, ": {} ({:?})", errno.desc(), errno)
                    } )*
                    $( Error::$state { $($sf),* } => write!(f, $stext), )*
                }
            }
        }
    };
}

errors! {
    calls {
        /// `open`, `openat` or `openat2` of something that confinement needs.
        Open { path: String } => "cannot open {path}";
        /// `read` of a descriptor.
        Read { what: String } => "cannot read {what}";
        /// `write` to a descriptor.
        Write { what: String } => "cannot write {what}";
        /// `dup`, `dup2` or `fcntl(F_DUPFD)`.
        Duplicate { fd: i32 } => "cannot duplicate descriptor {fd}";
        /// `fcntl` on a descriptor.
        DescriptorFlags { fd: i32 } => "cannot read or set the flags of descriptor {fd}";
        /// `close_range`, which sweeps inherited descriptors.
        CloseRange { first: u32, last: u32 } => "cannot close descriptors {first} to {last}";
        /// `socketpair` for a channel.
        SocketPair {} => "cannot make a channel";
        /// `sendmsg` on a channel.
        ChannelSend {} => "cannot send on a channel";
        /// `recvmsg` on a channel.
        ChannelReceive {} => "cannot receive from a channel";
        /// `fork` or `clone`.
        Fork { what: String } => "cannot start {what}";
        /// `pidfd_open`.
        PidfdOpen { pid: i32 } => "cannot open a descriptor of process {pid}";
        /// `waitid`.
        Wait { pid: i32 } => "cannot wait for process {pid}";
        /// `pidfd_send_signal` or `kill`.
        Signal { pid: i32, signal: i32 } => "cannot send signal {signal} to process {pid}";
        /// `execveat` or `execve`.
        Execute { what: String } => "cannot execute {what}";
        /// `setsid`.
        NewSession {} => "cannot start a session of its own";
        /// `prctl` that sets a property of the process.
        ProcessControl { option: &'static str } => "prctl({option}) failed";
        /// `setns`.
        JoinNamespace { namespace: &'static str } => "cannot join the {namespace} namespace";
        /// Writing an id map of a user namespace.
        WriteMap { file: String } => "cannot write the id map {file}";
        /// Bringing up the loopback interface of a new network namespace.
        Loopback { step: &'static str } => "cannot bring up the loopback interface ({step})";
        /// `sethostname` in a new UTS namespace.
        HostName { name: String } => "cannot set the host name {name}";
        /// Dropping a set of capabilities.
        Capabilities { set: &'static str } => "cannot clear the {set} capability set";
        /// `keyctl(KEYCTL_JOIN_SESSION_KEYRING)`.
        SessionKeyring {} => "cannot join a new session keyring";
        /// `setrlimit` or `getrlimit`.
        ResourceLimit { limit: &'static str } => "cannot set the limit {limit}";
        /// A file of a control group.
        ControlGroup { file: String } => "cannot use the control group's {file}";
        /// `landlock_create_ruleset` asked for the version.
        LandlockVersion {} => "Landlock is not available in this kernel";
        /// `seccomp(SECCOMP_SET_MODE_FILTER)`.
        InstallFilter { filter: String } => "cannot install the system call filter `{filter}`";
        /// `SECCOMP_IOCTL_NOTIF_*` on a listener.
        Notification { step: &'static str } => "seccomp notification failed ({step})";
        /// `process_vm_readv`.
        ReadMemory { pid: i32, address: u64 } => "cannot read the memory of process {pid} at {address:#x}";
    }
    states {
        /// Confinement was about to be applied while more than one thread existed.
        Threads { count: usize } => "confinement must be applied while one thread exists, but there are {count}";
        /// A system call filter with a listener exists already in this chain (seccomp answers `EBUSY`).
        SecondListener { filter: String } => "a supervisor of system calls is listening already, so the filter `{filter}` cannot notify one";
        /// This kernel's Landlock is older than what the tier needs.
        LandlockFloor { needed: u32, found: u32 } => "this kernel has Landlock ABI {found}, but ABI {needed} is needed";
        /// The `landlock` crate refused or the kernel did not enforce a ruleset.
        Landlock { step: &'static str, object: String, reason: String } => "Landlock failed to {step} {object}: {reason}";
        /// A filter table that cannot be compiled.
        Compile { filter: String, reason: String } => "the system call filter `{filter}` does not compile: {reason}";
        /// A message longer than a channel carries, in bytes.
        MessageTooLong { length: usize } => "a message of {length} bytes is longer than a channel carries";
        /// More descriptors than one message may carry.
        TooManyDescriptors { count: usize } => "a message may carry 4 descriptors, not {count}";
        /// A received message or its descriptors did not fit.
        Truncated {} => "a message or its descriptors were cut off";
        /// A descriptor of a fixed number is not open or not of the expected kind.
        NoDescriptor { fd: i32, expected: &'static str } => "descriptor {fd} is not {expected}";
        /// A string in the memory of another process is not terminated within the limit of bytes.
        UnterminatedString { pid: i32, address: u64 } => "process {pid} passed a string at {address:#x} that does not end within its limit";
        /// A text with a NUL byte where the kernel wants none.
        NulByte { what: &'static str } => "{what} contains a NUL byte";
        /// The parent ended while its child was being set up.
        ParentGone {} => "the parent process has ended";
        /// A check from inside found a lock open.
        NotLocked { check: String, found: String } => "confinement check failed: {check}, found {found}";
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_sentence_with_object_and_reason() {
        let open = Error::Open {
            path: "/x".into(),
            errno: Errno::ENOENT,
        };
        assert_eq!(open.to_string(), "cannot open /x: No such file or directory (ENOENT)");
        assert_eq!(open.errno(), Some(Errno::ENOENT));
        let floor = Error::LandlockFloor { needed: 6, found: 4 };
        assert_eq!(floor.to_string(), "this kernel has Landlock ABI 4, but ABI 6 is needed");
        assert_eq!(floor.errno(), None);
    }
}
