//! Which attempts reach nothing by themselves: a sandbox that lets them through leaves kernel surface open, or a step of which
//! attacks are made, but nothing outside was read, changed or spoken to.

/// Classes of probes that are surface, apart from [`REACHING`].
const CLASSES: [&str; 3] = ["kernel.", "namespace.", "terminal."];

/// Probes of these classes that reach something.
const REACHING: [&str; 2] = ["namespace.join-init", "terminal.person"];

/// Attempts that picktwo refuses in both modes, and that only change a file of the workspace: where edits are allowed, they are
/// no escape.
const EDITS: [&str; 4] = [
    "change.file-setattr",
    "change.flags",
    "change.fsxattr",
    "change.setxattrat",
];

/// Surface in other classes.
const OTHERS: [&str; 41] = [
    "change.access",
    "ipc.key-add",
    "ipc.key-session",
    "net.bluetooth",
    "net.can",
    "net.crypto",
    "net.multipath",
    "net.netlink-diagnosis",
    "net.netlink-events",
    "net.netlink-generic",
    "net.netlink-route",
    "net.packet",
    "net.ping",
    "net.raw",
    "net.ring",
    "net.ring-enter",
    "net.ring-register",
    "net.sctp",
    "net.smc",
    "net.tipc",
    "net.udp-lite",
    "net.vsock",
    "net.xdp",
    "process.advise",
    "process.compare",
    "process.core-limit",
    "process.input-priority-group",
    "process.owner-group",
    "process.owner-ioctl",
    "process.owner-pointer",
    "process.performance",
    "process.priority-group",
    "process.priority-user",
    "process.release",
    "process.trace-me",
    "read.fanotify",
    "read.name-to-handle",
    "read.open-by-handle",
    "socket.datagram",
    "socket.pair-datagram",
    "socket.sequenced",
];

pub(super) fn opens_surface_only(id: &str) -> bool {
    OTHERS.contains(&id) || (CLASSES.iter().any(|class| id.starts_with(class)) && !REACHING.contains(&id))
}

pub(super) fn is_plain_edit(id: &str) -> bool {
    EDITS.contains(&id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_probe() {
        for id in OTHERS.iter().chain(&REACHING).chain(&EDITS) {
            assert!(crate::probes::find(id).is_some(), "{id}");
        }
        for class in CLASSES {
            assert!(crate::probes::all().any(|probe| probe.id.starts_with(class)), "{class}");
        }
    }
}
