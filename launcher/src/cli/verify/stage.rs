//! The place of one series of attempts: files, servers, a process and kernel objects to aim at, and the view from outside on what
//! happens to them.

use super::daemons::{Daemons, near};
use super::objects::Objects;
use super::terminal;
use super::tree;
use picktwo_confine::probes::Setting;
use picktwo_confine::process::{self, Child};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

/// How the directories of a place lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Beside HOME.
    Apart,
    /// In HOME, as a person's project and private files do.
    InHome,
}

/// What changes between two looks.
pub(super) type Snapshot = BTreeMap<PathBuf, tree::Mark>;

/// One place.
pub(super) struct Stage {
    /// What attempts are aimed at.
    pub(super) setting: Setting,
    /// The workspace.
    pub(super) work: PathBuf,
    /// Visible beside the workspace, read-only.
    pub(super) shared: PathBuf,
    /// The person's home.
    pub(super) home: PathBuf,
    /// Stand-ins for the daemons of a host.
    pub(super) daemons: Daemons,
    hidden: PathBuf,
    runtime: PathBuf,
    victim: Child,
    /// Signals that the victim is known to have got: they stay pending.
    signals: Cell<u64>,
    listeners: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
    locals: Vec<UnixListener>,
    local_datagrams: UnixDatagram,
    /// Open in this process and inherited by what it starts.
    _inherited: (File, File, TcpStream),
    /// The other end of the inherited connection.
    inherited_peer: TcpStream,
    terminal: Option<File>,
}

fn other(text: &str) -> std::io::Error {
    std::io::Error::other(text.to_owned())
}

impl Stage {
    /// Builds a place below `base`. Must be called while this process has one thread.
    pub(super) fn new(base: &Path, layout: Layout, objects: &Objects) -> std::io::Result<Self> {
        // First, so that it holds nothing of the rest.
        let victim = process::fork_bound("a victim", victim).map_err(|e| std::io::Error::other(e.to_string()))?;
        let home = base.join("home");
        let parent = match layout {
            Layout::Apart => base,
            Layout::InHome => &home,
        };
        let [work, shared, hidden, runtime] = ["work", "shared", "hidden", "run"].map(|name| parent.join(name));
        for dir in [&home, &work, &shared, &hidden, &runtime] {
            std::fs::create_dir_all(dir)?;
        }
        tree::furnish(&tree::Places {
            work: &work,
            shared: &shared,
            hidden: &hidden,
            home: &home,
        })?;

        let daemons = Daemons::new(&runtime, &work, &hidden.join("secret"))?;
        let mut locals = Vec::new();
        for dir in [&work, &shared, &hidden] {
            locals.push(UnixListener::bind(near(&File::open(dir)?, "daemon.sock"))?);
        }
        let abstract_name = format!("picktwo-verify-{}", crate::session::id::new()?);
        locals.push(UnixListener::bind_addr(&SocketAddr::from_abstract_name(
            &abstract_name,
        )?)?);
        let local_datagrams = UnixDatagram::bind(near(&File::open(&shared)?, "daemon.dgram"))?;
        local_datagrams.set_nonblocking(true)?;

        let mut listeners = vec![TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
        let tcp = listeners[0].local_addr()?.port();
        listeners.push(TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), tcp))?);
        let lan = own_address();
        let mut datagrams = vec![UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?];
        let udp = datagrams[0].local_addr()?.port();
        // A host without IPv6 has no control for it.
        let datagram6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).ok();
        let udp6 = datagram6.as_ref().map(UdpSocket::local_addr).transpose()?;
        datagrams.extend(datagram6);
        if let Some(address) = lan {
            listeners.push(TcpListener::bind((address, tcp))?);
            datagrams.push(UdpSocket::bind((address, udp))?);
        }
        let six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).ok();
        let tcp6 = six
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()?
            .map_or(0, |a| a.port());
        listeners.extend(six);

        let connection = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let ours = TcpStream::connect(connection.local_addr()?)?;
        let (inherited_peer, _) = connection.accept()?;
        inherited_peer.set_nonblocking(true)?;
        let directory = File::open(&hidden)?;
        let file = File::options().read(true).write(true).open(hidden.join("inherited"))?;
        for fd in [directory.as_fd(), file.as_fd(), ours.as_fd()] {
            nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
        }
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        for socket in &datagrams {
            socket.set_nonblocking(true)?;
        }
        for listener in &locals {
            listener.set_nonblocking(true)?;
        }

        let terminal = objects.terminal.as_ref().map(OwnedFd::try_clone).transpose()?;
        let terminal = terminal.map(File::from);
        let mut setting = Setting::default();
        let text = |path: &Path| {
            path.to_str()
                .map(str::to_owned)
                .ok_or_else(|| other("the temporary directory's name is no text"))
        };
        let mut values = vec![
            ("work", text(&work)?),
            ("shared", text(&shared)?),
            ("hidden", text(&hidden)?),
            ("home", text(&home)?),
            ("control", text(&hidden.join("daemon.sock"))?),
            ("tcp", tcp.to_string()),
            ("tcp6", tcp6.to_string()),
            ("udp", udp.to_string()),
            ("abstract", abstract_name),
            ("victim", victim.pid().to_string()),
            ("init", victim.pid().to_string()),
            ("fd-directory", directory.as_raw_fd().to_string()),
            ("fd-file", file.as_raw_fd().to_string()),
            ("fd-socket", ours.as_raw_fd().to_string()),
        ];
        values.extend(udp6.map(|address| ("udp6", address.port().to_string())));
        values.extend(lan.map(|address| ("lan", address.to_string())));
        values.extend(daemons.values.iter().cloned());
        values.extend(
            objects
                .values
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone())),
        );
        for (name, value) in values {
            if !setting.set(name, &value) {
                return Err(other("the temporary directory's name holds `;`, `=` or a line end"));
            }
        }
        Ok(Self {
            setting,
            work,
            shared,
            home,
            hidden,
            runtime,
            daemons,
            victim,
            signals: Cell::new(0),
            listeners,
            datagrams,
            locals,
            local_datagrams,
            _inherited: (directory, file, ours),
            inherited_peer,
            terminal,
        })
    }

    /// Puts the files back as they were.
    pub(super) fn restore(&self) -> std::io::Result<()> {
        tree::clear(&[&self.work, &self.shared, &self.hidden, &self.home], &self.runtime)?;
        tree::furnish(&tree::Places {
            work: &self.work,
            shared: &self.shared,
            hidden: &self.hidden,
            home: &self.home,
        })
    }

    /// The state of everything that may be changed.
    pub(super) fn look(&self) -> std::io::Result<Snapshot> {
        let mut marks = Snapshot::new();
        for dir in [&self.work, &self.shared, &self.hidden] {
            tree::look(dir, &mut marks)?;
        }
        for name in tree::WATCHED {
            tree::look(&self.home.join(name), &mut marks)?;
        }
        Ok(marks)
    }

    /// What has happened since the last look, if anything; takes what arrived. `edit`: the workspace may change, apart from
    /// what is protected in it.
    pub(super) fn effect(&self, before: &Snapshot, after: &Snapshot, edit: bool) -> Option<String> {
        let counts = |path: &Path, mark: &tree::Mark| match path.strip_prefix(&self.work) {
            Ok(rel) => !edit || tree::guarded(rel, mark.size()),
            Err(_) => true,
        };
        let differs = |from: &Snapshot, to: &Snapshot| {
            from.iter()
                .find(|(path, mark)| to.get(*path) != Some(*mark) && counts(path, mark))
                .map(|(path, _)| format!("{} changed", path.display()))
        };
        let changed = differs(after, before).or_else(|| differs(before, after));
        // All of it is looked at, so that nothing is left for the next attempt.
        let arrived = [self.arrived(), self.signalled()];
        changed.or_else(|| arrived.into_iter().flatten().next())
    }

    fn arrived(&self) -> Option<String> {
        let mut what = self.daemons.arrived();
        for listener in &self.listeners {
            while listener.accept().is_ok() {
                what = Some("a connection arrived".to_owned());
            }
        }
        for listener in &self.locals {
            while listener.accept().is_ok() {
                what = Some("a local connection arrived".to_owned());
            }
        }
        let mut buffer = [0u8; 64];
        for socket in &self.datagrams {
            while socket.recv_from(&mut buffer).is_ok() {
                what = Some("a datagram arrived".to_owned());
            }
        }
        while self.local_datagrams.recv_from(&mut buffer).is_ok() {
            what = Some("a local datagram arrived".to_owned());
        }
        if self.terminal.as_ref().is_some_and(terminal::typed) {
            what = Some("something was typed into the person's terminal".to_owned());
        }
        while matches!(std::io::Read::read(&mut &self.inherited_peer, &mut buffer), Ok(1..)) {
            what = Some("bytes arrived on an inherited connection".to_owned());
        }
        what
    }

    /// Whether a signal arrived that had not arrived before.
    fn signalled(&self) -> Option<String> {
        if self.victim.ended_within(0).unwrap_or(true) {
            return Some("a process of the host ended".to_owned());
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.victim.pid())).ok()?;
        let masks = ["SigPnd:", "ShdPnd:"].iter().filter_map(|field| {
            let mask = status.lines().find_map(|line| line.strip_prefix(field))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        });
        let pending = masks.fold(0, |all, mask| all | mask);
        let known = self.signals.replace(pending);
        (pending & !known != 0).then(|| "a signal arrived at a process of the host".to_owned())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It ends with this process at the latest.
        let _ = self.victim.kill_and_wait();
    }
}

/// A process of the host in our process group: whatever signal reaches it stays pending.
fn victim() -> u8 {
    let all = nix::sys::signal::SigSet::all();
    if all.thread_block().is_err() {
        return 1;
    }
    loop {
        nix::unistd::pause();
    }
}

/// The address by which others on its network reach this machine. Nothing is sent.
fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // TEST-NET-1 (RFC 5737): the route is asked for, no packet leaves.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(address) if !address.is_loopback() && !address.is_unspecified() => Some(address),
        _ => None,
    }
}
