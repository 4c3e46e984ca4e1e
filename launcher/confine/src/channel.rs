//! Channels between the processes: messages with descriptors over `AF_UNIX` sequenced packets.
//!
//! One message is one packet of at most [`MAX`] bytes with at most [`MAX_FDS`] descriptors. A message that does not fit is an
//! error on either side, never a shorter message; descriptors of a refused message are closed.

use crate::error::{Error, Result};
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The longest message, in bytes.
pub const MAX: usize = 128 * 1024;
/// The most descriptors in one message.
pub const MAX_FDS: usize = 4;
/// The descriptor number at which a role finds the channel to its parent.
pub const PARENT_FD: RawFd = 3;

// Kernel: space for one SCM_RIGHTS header with MAX_FDS + 1 numbers, so that one too many is seen and refused.
const CONTROL_WORDS: usize = 8;

/// One end of a channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// Makes a channel. Both ends are closed on exec.
pub fn pair() -> Result<(Channel, Channel)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptor numbers into the array that it is given.
    let rc = unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            fds.as_mut_ptr(),
        )
    };
    Errno::result(rc).map_err(|errno| Error::SocketPair { errno })?;
    // SAFETY: both descriptors were just made and belong to nobody else.
    let (a, b) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
    for fd in [&a, &b] {
        // The default send buffer may be smaller than two full messages; a larger one is granted up to the host's limit.
        let _ = crate::sys::set_socket_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, 2 * MAX as i32);
    }
    Ok((Channel(a), Channel(b)))
}

/// Makes a channel that carries messages and descriptors one way only: from the second end to the first. That holds for whoever has
/// the first end later, since what was shut down is never opened again.
pub fn one_way() -> Result<(Channel, Channel)> {
    let (reader, writer) = pair()?;
    nix::sys::socket::shutdown(reader.0.as_raw_fd(), nix::sys::socket::Shutdown::Write)
        .map_err(|errno| Error::SocketPair { errno })?;
    Ok((reader, writer))
}

impl Channel {
    /// The channel that a role was started with, at [`PARENT_FD`]. To be called once, before anything else is opened.
    pub fn from_parent() -> Result<Channel> {
        let expected = "the channel to the parent process";
        let fd = crate::sys::take_fd(PARENT_FD).ok_or(Error::NoDescriptor {
            fd: PARENT_FD,
            expected,
        })?;
        match crate::sys::socket_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TYPE) {
            Ok(libc::SOCK_SEQPACKET) => Ok(Channel(fd)),
            _ => Err(Error::NoDescriptor {
                fd: PARENT_FD,
                expected,
            }),
        }
    }

    /// Sends one message, waiting for room.
    pub fn send(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        match self.send_with(message, fds, 0)? {
            true => Ok(()),
            false => Err(Error::ChannelSend { errno: Errno::EAGAIN }),
        }
    }

    /// Sends one message if there is room for it now. `false`: there is none.
    pub fn try_send(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<bool> {
        self.send_with(message, fds, libc::MSG_DONTWAIT)
    }

    fn send_with(&self, message: &[u8], fds: &[BorrowedFd<'_>], flags: i32) -> Result<bool> {
        // An empty packet would read as the end of the channel.
        if message.is_empty() || message.len() > MAX {
            return Err(Error::MessageTooLong { length: message.len() });
        }
        if fds.len() > MAX_FDS {
            return Err(Error::TooManyDescriptors { count: fds.len() });
        }
        let mut control = [0u64; CONTROL_WORDS];
        let mut part = libc::iovec {
            iov_base: message.as_ptr().cast_mut().cast(),
            iov_len: message.len(),
        };
        // SAFETY: msghdr is plain data, for which all zeroes is a valid value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        if !fds.is_empty() {
            let bytes = (fds.len() * size_of::<RawFd>()) as u32;
            header.msg_control = control.as_mut_ptr().cast();
            // SAFETY: CMSG_SPACE only computes a size. CONTROL_WORDS has room for MAX_FDS + 1 numbers.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
            // SAFETY: the header points at `control`, which is aligned, zeroed and large enough for `bytes` of numbers
            // behind its cmsghdr; CMSG_FIRSTHDR and CMSG_DATA stay inside of it.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
                let numbers = libc::CMSG_DATA(first).cast::<RawFd>();
                for (i, fd) in fds.iter().enumerate() {
                    numbers.add(i).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        loop {
            // SAFETY: the header refers to live buffers of the lengths it states; the kernel only reads them.
            let rc = unsafe { libc::sendmsg(self.0.as_raw_fd(), &header, libc::MSG_NOSIGNAL | flags) };
            match Errno::result(rc) {
                Ok(sent) if sent as usize == message.len() => return Ok(true),
                Ok(_) => return Err(Error::Truncated {}),
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) if flags & libc::MSG_DONTWAIT != 0 => return Ok(false),
                Err(errno) => return Err(Error::ChannelSend { errno }),
            }
        }
    }

    /// Receives one message into `message`, whose former content is replaced. `None`: the other end is closed.
    pub fn recv(&self, message: &mut Vec<u8>) -> Result<Option<Vec<OwnedFd>>> {
        self.recv_with(message, 0)
    }

    /// Like [`Channel::recv`], but without waiting: an [`Error::ChannelReceive`] with `EAGAIN` if nothing is there.
    pub fn try_recv(&self, message: &mut Vec<u8>) -> Result<Option<Vec<OwnedFd>>> {
        self.recv_with(message, libc::MSG_DONTWAIT)
    }

    fn recv_with(&self, message: &mut Vec<u8>, flags: i32) -> Result<Option<Vec<OwnedFd>>> {
        message.clear();
        message.reserve_exact(MAX);
        let mut control = [0u64; CONTROL_WORDS];
        let mut part = libc::iovec {
            iov_base: message.as_mut_ptr().cast(),
            iov_len: MAX,
        };
        // SAFETY: msghdr is plain data, for which all zeroes is a valid value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let mut reset = false;
        let length = loop {
            // SAFETY: the header refers to live buffers with the room that it states.
            let rc = unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC | flags) };
            match Errno::result(rc) {
                Ok(length) => break length as usize,
                Err(Errno::EINTR) => continue,
                // The other end was closed while it had unread messages. That is said once, and before what it sent.
                Err(Errno::ECONNRESET) if !reset => reset = true,
                Err(Errno::ECONNRESET) => break 0,
                Err(errno) => return Err(Error::ChannelReceive { errno }),
            }
        };
        let mut fds = Vec::new();
        // SAFETY: the kernel filled in the control buffer; the CMSG macros walk it within msg_controllen, and every number
        // of an SCM_RIGHTS entry is a descriptor that was just made for this process.
        unsafe {
            let mut entry = libc::CMSG_FIRSTHDR(&header);
            while !entry.is_null() {
                if (*entry).cmsg_level == libc::SOL_SOCKET && (*entry).cmsg_type == libc::SCM_RIGHTS {
                    let bytes = (*entry).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                    let numbers = libc::CMSG_DATA(entry).cast::<RawFd>();
                    for i in 0..bytes / size_of::<RawFd>() {
                        fds.push(OwnedFd::from_raw_fd(numbers.add(i).read_unaligned()));
                    }
                }
                entry = libc::CMSG_NXTHDR(&header, entry);
            }
        }
        if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 || fds.len() > MAX_FDS {
            return Err(Error::Truncated {});
        }
        if length == 0 {
            return Ok(None);
        }
        // SAFETY: the kernel wrote `length` bytes, at most MAX, into the reserved room.
        unsafe { message.set_len(length) };
        Ok(Some(fds))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Channel {
        Channel(fd)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (a, b) = pair().unwrap();
        let (x, y) = (file(), file());
        a.send(b"hello", &[x.as_fd(), y.as_fd()]).unwrap();
        a.send(&vec![7; MAX], &[]).unwrap();
        let mut message = Vec::new();
        let fds = b.recv(&mut message).unwrap().unwrap();
        assert_eq!((message.as_slice(), fds.len()), (&b"hello"[..], 2));
        for fd in &fds {
            let flags = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_GETFD).unwrap();
            assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        }
        assert!(b.recv(&mut message).unwrap().unwrap().is_empty());
        assert_eq!(message, vec![7; MAX]);
    }

    #[test]
    fn the_end_is_none_even_with_unread_messages() {
        let (a, b) = pair().unwrap();
        b.send(b"never read", &[]).unwrap();
        a.send(b"last", &[]).unwrap();
        drop(a);
        let mut message = Vec::new();
        while b.recv(&mut message).unwrap().is_some() {}
        assert!(message.is_empty());
        assert!(matches!(
            b.send(b"x", &[]),
            Err(Error::ChannelSend { errno: Errno::EPIPE })
        ));
    }

    #[test]
    fn too_long_and_too_many_are_refused_by_the_sender() {
        let (a, b) = pair().unwrap();
        let f = file();
        assert_eq!(
            a.send(&vec![0; MAX + 1], &[]),
            Err(Error::MessageTooLong { length: MAX + 1 })
        );
        assert_eq!(a.send(b"", &[]), Err(Error::MessageTooLong { length: 0 }));
        assert_eq!(
            a.send(b"x", &[f.as_fd(); 5]),
            Err(Error::TooManyDescriptors { count: 5 })
        );
        assert!(matches!(
            b.try_recv(&mut Vec::new()),
            Err(Error::ChannelReceive { errno: Errno::EAGAIN })
        ));
    }

    #[test]
    fn too_long_and_too_many_are_refused_by_the_receiver() {
        use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
        let (a, b) = pair().unwrap();
        let (f, mut message) = (file(), Vec::new());
        for count in [5, 20] {
            let fds = vec![f.as_raw_fd(); count];
            let parts = [std::io::IoSlice::new(b"x")];
            sendmsg::<()>(
                a.as_raw_fd(),
                &parts,
                &[ControlMessage::ScmRights(&fds)],
                MsgFlags::empty(),
                None,
            )
            .unwrap();
            let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
            assert_eq!(b.recv(&mut message).unwrap_err(), Error::Truncated {});
            // Other tests open descriptors at the same time: a leak of all of them would still show.
            assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() < open + count);
        }
        crate::sys::set_socket_option(a.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, 1 << 20).unwrap();
        let long = vec![0; MAX + 1];
        let parts = [std::io::IoSlice::new(&long)];
        sendmsg::<()>(a.as_raw_fd(), &parts, &[], MsgFlags::empty(), None).unwrap();
        assert_eq!(b.recv(&mut message).unwrap_err(), Error::Truncated {});
    }

    #[test]
    fn a_full_channel_does_not_block_try_send() {
        let (a, b) = pair().unwrap();
        let mut sent = 0;
        while a.try_send(&[1; 4096], &[]).unwrap() {
            sent += 1;
            assert!(sent < 10_000);
        }
        assert!(b.recv(&mut Vec::new()).unwrap().is_some());
        assert!(a.try_send(&[1; 4096], &[]).unwrap());
    }

    #[test]
    fn a_one_way_channel_carries_nothing_back() {
        let (reader, writer) = one_way().unwrap();
        let again = Channel::from(reader.0.try_clone().unwrap());
        for reader in [&reader, &again] {
            let sent = reader.send(b"x", &[file().as_fd()]);
            assert_eq!(sent, Err(Error::ChannelSend { errno: Errno::EPIPE }));
        }
        writer.send(b"y", &[file().as_fd()]).unwrap();
        let mut message = Vec::new();
        assert_eq!(reader.recv(&mut message).unwrap().unwrap().len(), 1);
        assert_eq!(message, b"y");
    }

    #[test]
    fn what_was_sent_before_the_end_arrives() {
        let (a, b) = pair().unwrap();
        a.send(b"unread", &[]).unwrap();
        b.send(b"why", &[]).unwrap();
        drop(b);
        let mut message = Vec::new();
        assert!(a.recv(&mut message).unwrap().is_some());
        assert_eq!(message, b"why");
        assert!(a.recv(&mut message).unwrap().is_none());
    }
}
