//! Runs tests in namespaces, and what they share: a name server, listeners, messages with a time limit.

use super::Test;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use picktwo_confine::channel::Channel;
use picktwo_confine::namespace;
use picktwo_confine::process::{self, Child, Exit};
use serde::de::DeserializeOwned;
use simple_dns::rdata::{A, AAAA, RData};
use simple_dns::{CLASS, Packet, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Where the name server of a test listens.
pub(crate) const NAME_SERVER: &str = "127.0.0.53";
/// Milliseconds that a test may take.
const TEST_TIME: i32 = 60_000;
/// Time for one message.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs what the arguments select, as the usual harness would.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let selected: Vec<&Test> = tests
        .iter()
        .filter(|t| wanted.is_empty() || wanted.iter().any(|w| t.0.contains(w.as_str())))
        .collect();
    if std::env::args().any(|a| a == "--list") {
        selected.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", selected.len());
    let failed = selected.iter().filter(|(name, test)| !passes(name, *test)).count();
    let passed = selected.len() - failed;
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed\n",
        if failed == 0 { "ok" } else { "FAILED" }
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(101)
    }
}

fn passes(name: &str, test: fn()) -> bool {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
    let work = || {
        namespace::write_own_maps(uid, gid).expect("id maps");
        namespace::loopback_up().expect("loopback");
        test();
        0
    };
    let child = process::clone_namespaces(flags, name, work).expect("namespaces of an ordinary user");
    let outcome = match child.ended_within(TEST_TIME).expect("a child") {
        true => child.wait().expect("a child"),
        false => child.kill_and_wait().expect("a child"),
    };
    println!(
        "test {name} ... {}",
        if outcome == Exit::Code(0) { "ok" } else { "FAILED" }
    );
    outcome == Exit::Code(0)
}

/// Receives one message within a time.
pub(crate) fn receive_within(channel: &Channel, time: Duration) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let mut entry = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    let ms = PollTimeout::try_from(time).expect("a timeout");
    if poll(&mut entry, ms).expect("poll") == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    let fds = channel.recv(&mut bytes).expect("a message")?;
    Some((bytes, fds))
}

/// Receives one message.
pub(crate) fn receive<T: DeserializeOwned>(channel: &Channel) -> (T, Vec<OwnedFd>) {
    let (bytes, fds) = receive_within(channel, PATIENCE).expect("a message in time");
    let text = String::from_utf8_lossy(&bytes);
    (
        picktwo_wire::decode(&bytes).unwrap_or_else(|e| panic!("{e}: {text}")),
        fds,
    )
}

/// Whether the other end of a channel is closed within the usual time; messages before that are dropped.
pub(crate) fn closes(channel: &Channel) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let mut entry = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
        if poll(&mut entry, PollTimeout::from(100_u8)).expect("poll") == 1
            && channel.recv(&mut Vec::new()).expect("a channel").is_none()
        {
            return true;
        }
    }
    false
}

/// A connection to a listener, if one comes within a time.
pub(crate) fn accept_within(listener: &TcpListener, time: Duration) -> Option<TcpStream> {
    let mut entry = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let ms = PollTimeout::try_from(time).expect("a timeout");
    (poll(&mut entry, ms).expect("poll") == 1).then(|| listener.accept().expect("a connection").0)
}

/// Addresses of the names that the fake server knows.
fn known(name: &str) -> Option<Vec<IpAddr>> {
    let texts: &[&str] = match name {
        "public.example.org" => &["1.1.1.1", "2606:4700:4700::1111"],
        "other.example.org" => &["8.8.8.8"],
        "half.example.org" => &["1.1.1.1", "127.0.0.1"],
        "rebound.example.org" => &["127.0.0.1"],
        "mapped.example.org" => &["::ffff:10.0.0.1"],
        "meta.example.org" => &["169.254.169.254"],
        "dev.lan" | "api.example.org" => &["127.0.0.7"],
        "empty.example.org" => &[],
        _ => return None,
    };
    Some(texts.iter().map(|t| t.parse().expect("an address")).collect())
}

/// Starts a name server at [`NAME_SERVER`]; it ends with the test. `slow.example.org` is never answered.
pub(crate) fn name_server() -> Child {
    let socket = UdpSocket::bind((NAME_SERVER, 53)).expect("port 53 of an own network namespace");
    process::fork_bound("a name server", move || {
        let mut packet = [0; 1024];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            let asked = Packet::parse(&packet[..length]).expect("a question");
            let question = asked.questions[0].clone();
            let name = question.qname.to_string().to_lowercase();
            if name == "slow.example.org" {
                continue;
            }
            let mut reply = Packet::new_reply(asked.id());
            let found = known(&name);
            *reply.rcode_mut() = if found.is_some() {
                RCODE::NoError
            } else {
                RCODE::NameError
            };
            for ip in found.into_iter().flatten() {
                let rdata = match (ip, question.qtype) {
                    (IpAddr::V4(ip), QTYPE::TYPE(TYPE::A)) => RData::A(A { address: ip.to_bits() }),
                    (IpAddr::V6(ip), QTYPE::TYPE(TYPE::AAAA)) => RData::AAAA(AAAA { address: ip.to_bits() }),
                    _ => continue,
                };
                reply
                    .answers
                    .push(ResourceRecord::new(question.qname.clone(), CLASS::IN, 60, rdata));
            }
            reply.questions.push(question);
            let _ = socket.send_to(&reply.build_bytes_vec().expect("a packet"), from);
        }
        0
    })
    .expect("a child")
}

/// Gives `lo` an address with a prefix length: RTM_NEWADDR of rtnetlink(7), which needs this namespace's capabilities.
pub(crate) fn add_address(ip: IpAddr, length: u8) {
    use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockType, recv, sendto, socket};
    use std::os::fd::AsRawFd;
    const RTM_NEWADDR: u16 = 20;
    const REQUEST_ACK_CREATE: u16 = 0x1 | 0x4 | 0x400;
    const NLMSG_ERROR: u16 = 2;
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    let (family, bytes) = match ip {
        IpAddr::V4(ip) => (nix::libc::AF_INET as u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (nix::libc::AF_INET6 as u8, ip.octets().to_vec()),
    };
    // In use at once, without a search for others that have it.
    const IFA_F_NODAD: u8 = 2;
    let mut body = vec![family, length, IFA_F_NODAD, 0];
    body.extend(1_u32.to_ne_bytes());
    for kind in [IFA_LOCAL, IFA_ADDRESS] {
        body.extend((bytes.len() as u16 + 4).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(&bytes);
    }
    let mut message = (body.len() as u32 + 16).to_ne_bytes().to_vec();
    message.extend(RTM_NEWADDR.to_ne_bytes());
    message.extend(REQUEST_ACK_CREATE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    let netlink = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    sendto(
        netlink.as_raw_fd(),
        &message,
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )
    .expect("a request");
    let mut answer = [0; 1024];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty()).expect("an answer");
    assert_eq!(u16::from_ne_bytes([answer[4], answer[5]]), NLMSG_ERROR);
    assert_eq!(answer[16..20.min(length)], [0; 4], "the kernel's errno, 0 for success");
    // Routes follow in their own time. Nobody listens: a refusal is what a working address gives.
    let usable = || TcpStream::connect((ip, 9)).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
    let end = Instant::now() + PATIENCE;
    while !usable() {
        assert!(Instant::now() < end, "{ip} never came to be");
        std::thread::sleep(Duration::from_millis(10));
    }
}
