//! Whom attempts ask outside: stand-ins for the daemons of a desktop and a server, and a partner outside who helps an agent.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, VsockAddr, accept4, bind, getsockname,
    listen, sendmsg, socket,
};
use picktwo_confine::process::{self, Child};
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Sockets in a runtime directory.
const SOCKETS: [&str; 10] = [
    "docker.sock",
    "podman/podman.sock",
    "bus",
    "systemd/private",
    "dbus/system_bus_socket",
    "agent.sock",
    "gnupg/S.gpg-agent",
    "wayland-0",
    "vscode-ipc.sock",
    "resolve/io.systemd.Resolve",
];
/// Milliseconds between two looks of the partner for a socket inside.
const LOOK: u16 = 50;

/// All of them; they end with it.
pub(super) struct Daemons {
    listeners: Vec<UnixListener>,
    vsock: Option<OwnedFd>,
    tmp_socket: PathBuf,
    partner: Child,
    /// For settings.
    pub(super) values: Vec<(&'static str, String)>,
    /// Variables by which a person's programs find them, and which a sandbox must not pass on.
    pub(super) variables: Vec<(&'static str, String)>,
}

/// The address of a socket by its directory's descriptor: an address holds 108 bytes, and a temporary directory may be named
/// longer.
pub(super) fn near(dir: &File, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", dir.as_raw_fd())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Daemons {
    /// Starts them. Must be called while this process has one thread.
    pub(super) fn new(runtime: &Path, work: &Path, secret: &Path) -> std::io::Result<Self> {
        let id = crate::session::id::new()?;
        let mut listeners = Vec::new();
        for name in SOCKETS {
            let path = runtime.join(name);
            let (Some(dir), Some(file)) = (path.parent(), path.file_name()) else {
                continue;
            };
            std::fs::create_dir_all(dir)?;
            listeners.push(UnixListener::bind(near(&File::open(dir)?, &file.to_string_lossy()))?);
        }
        let tmp_socket = std::env::temp_dir().join(format!("picktwo-verify-{id}.sock"));
        let tmp = tmp_socket.parent().unwrap_or(Path::new("/"));
        listeners.push(UnixListener::bind(near(
            &File::open(tmp)?,
            &format!("picktwo-verify-{id}.sock"),
        ))?);
        std::fs::create_dir_all(runtime.join("gvfs/remote"))?;
        std::fs::write(runtime.join("gvfs/remote/file"), "remote\n")?;
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        let inside = format!("picktwo-verify-{id}-inside");
        let abstract_partner = format!("picktwo-verify-{id}-partner");
        let doors = [
            UnixListener::bind(near(&File::open(work)?, "partner.sock"))?,
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_partner)?)?,
        ];
        let secret = File::open(secret)?;
        let inside_address = SocketAddr::from_abstract_name(&inside)?;
        let partner = process::fork_bound("a partner", || partner(&doors, &secret, &inside_address))
            .map_err(|e| std::io::Error::other(e.to_string()))?;
        // A kernel without such sockets has no control for them.
        let vsock = vsock().ok();
        let secret_value = format!("picktwo-verify-secret-{id}");
        let bus = format!("unix:path={}", text(&runtime.join("bus")));
        let variables = vec![
            ("AWS_SECRET_ACCESS_KEY", secret_value.clone()),
            ("SSH_AUTH_SOCK", text(&runtime.join("agent.sock"))),
            ("DBUS_SESSION_BUS_ADDRESS", bus),
            ("VSCODE_IPC_HOOK_CLI", text(&runtime.join("vscode-ipc.sock"))),
            ("GIT_SSH_COMMAND", "/nonexistent/picktwo-verify".to_owned()),
            ("XDG_RUNTIME_DIR", text(runtime)),
            ("DOCKER_HOST", format!("unix://{}", text(&runtime.join("docker.sock")))),
        ];
        let mut values = vec![
            ("variable-secret", "AWS_SECRET_ACCESS_KEY".to_owned()),
            ("variable-agent", "SSH_AUTH_SOCK".to_owned()),
            ("variable-bus", "DBUS_SESSION_BUS_ADDRESS".to_owned()),
            ("variable-editor", "VSCODE_IPC_HOOK_CLI".to_owned()),
            ("variable-program", "GIT_SSH_COMMAND".to_owned()),
            ("runtime", text(runtime)),
            ("tmp-socket", text(&tmp_socket)),
            ("abstract-inside", inside),
            ("abstract-partner", abstract_partner),
            ("secret-value", secret_value),
        ];
        values.extend(vsock.as_ref().map(|(_, port)| ("vsock", port.to_string())));
        Ok(Self {
            listeners,
            vsock: vsock.map(|(fd, _)| fd),
            tmp_socket,
            partner,
            values,
            variables,
        })
    }

    /// Whether somebody connected since it was asked last.
    pub(super) fn arrived(&self) -> Option<String> {
        let mut what = None;
        for listener in &self.listeners {
            while listener.accept().is_ok() {
                what = Some("a connection arrived at a daemon of the host".to_owned());
            }
        }
        while self
            .vsock
            .as_ref()
            .is_some_and(|server| accept4(server, SockFlag::SOCK_CLOEXEC).is_ok())
        {
            what = Some("a connection arrived past the network namespaces".to_owned());
        }
        what
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // It ends with this process at the latest.
        let _ = self.partner.kill_and_wait();
        let _ = std::fs::remove_file(&self.tmp_socket);
    }
}

/// A server that every machine and hypervisor could reach, at a port of the kernel's choice.
fn vsock() -> nix::Result<(OwnedFd, u32)> {
    let fd = socket(
        AddressFamily::Vsock,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    // VMADDR_CID_LOCAL, VMADDR_PORT_ANY: nobody outside of this machine.
    bind(fd.as_raw_fd(), &VsockAddr::new(1, u32::MAX))?;
    listen(&fd, Backlog::new(4)?)?;
    let address: VsockAddr = getsockname(fd.as_raw_fd())?;
    Ok((fd, address.port()))
}

/// Gives an open file to whoever connects, and connects to a socket inside as soon as there is one.
fn partner(doors: &[UnixListener; 2], secret: &File, inside: &SocketAddr) -> u8 {
    loop {
        // Kept until the next look, so that the other side has time to accept.
        let _connected = UnixStream::connect_addr(inside);
        let mut ready = doors
            .each_ref()
            .map(|door| PollFd::new(door.as_fd(), PollFlags::POLLIN));
        if poll(&mut ready, PollTimeout::from(LOOK)).is_err() {
            return 1;
        }
        let open: Vec<bool> = ready
            .iter()
            .map(|r| r.revents().is_some_and(|e| !e.is_empty()))
            .collect();
        for (door, _) in doors.iter().zip(open).filter(|(_, open)| *open) {
            if let Ok((stream, _)) = door.accept() {
                // Whoever leaves again gets nothing.
                let _ = sendmsg::<()>(
                    stream.as_raw_fd(),
                    &[IoSlice::new(b"x")],
                    &[ControlMessage::ScmRights(&[secret.as_raw_fd()])],
                    MsgFlags::MSG_NOSIGNAL,
                    None,
                );
            }
        }
    }
}
