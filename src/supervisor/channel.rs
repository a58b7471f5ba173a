//! The channel between the supervisor and a worker process: JSON messages, one per packet, with sockets attached.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::launch::Launch;

/// What the supervisor sends to a worker process.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first message: what to run, and the interfaces whose sockets are attached; a process that waits receives the
    /// running configuration instead.
    Begin(Box<Launch>, Stance, Vec<String>),
    /// Continue with the clients of a process that died; the socket on which its keeper sends them is attached.
    /// Precedes [`ToWorker::Serve`].
    Adopt {
        /// The process was killed from outside, so no statement was the cause.
        was_killed: bool,
        /// Another process died while it was taking over these clients; this one receives the rest.
        #[serde(default)]
        is_begun: bool,
    },
    /// Serve clients, on the attached sockets that belong to configured interfaces.
    Serve(Vec<String>),
    /// No other process has the databases open any more.
    OpenStore,
    /// SIGTERM ends all of Narrows, not only this process.
    EverythingEnds,
    /// Another process continues: close the databases, accept no more clients, and end when they have disconnected.
    HandOver,
}

/// How a worker process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stance {
    /// It reads the databases and serves.
    Cold,
    /// It takes the running configuration, which is attached, and waits for [`ToWorker::Serve`].
    Ready,
    /// Like `Ready`, but it also checks the configuration file, because it may be of another version.
    Check,
}

/// What a worker process sends to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// It listens on this interface, with the attached socket.
    Keep(String),
    /// It no longer listens on this interface.
    Release(String),
    /// The running configuration has changed; it is attached.
    Frozen,
    /// It is ready to serve.
    Ready,
    /// It cannot serve, for this reason, and ends.
    Unfit(String),
    /// It serves.
    Serving,
    /// It ends with this status, as requested.
    Ends(i32),
    /// It has released the databases, and accepts no more clients.
    HandedOver,
    /// It cannot release them, for this reason, and continues.
    NotHandedOver(String),
    /// It has keepers. Attached are the socket on which they send the clients of the process, and the descriptors that
    /// show their ends.
    Keeper,
    /// All of its worker threads have made progress since the last such message.
    Alive,
    /// An administrator made it reopen its log.
    LogReopened,
    /// It has taken over all clients that it was given.
    Adopted,
    /// The first message to a supervisor that did not start it: the interfaces it listens on. Their sockets are
    /// attached, followed by the running configuration, if there is one.
    Hello(Vec<String>),
}

/// One end of the channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// The result of receiving.
#[derive(Debug)]
pub enum Received<M> {
    /// A message, with the attached descriptors.
    Message(M, Vec<OwnedFd>),
    /// A message that this version does not understand.
    Unknown,
    /// The other end is closed.
    End,
}

impl Channel {
    /// Both ends of a new channel.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (one, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(one), Channel(other)))
    }

    /// The end that this process was started with, as its standard input.
    ///
    /// # Errors
    /// If standard input is not a channel.
    pub fn inherited() -> io::Result<Channel> {
        std::io::stdin().as_fd().try_clone_to_owned().map(Channel)
    }

    /// Connects to a worker process that listens at `path`.
    ///
    /// # Errors
    /// The error of `connect(2)`; `WouldBlock` if the process accepts nobody for as long as `patience`.
    pub fn connect(path: &Path, patience: Duration) -> io::Result<Channel> {
        let socket = new_socket()?;
        set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Channel(socket))
    }

    /// The socket, to be passed to a process.
    pub fn into_socket(self) -> OwnedFd {
        self.0
    }

    /// Sends a message with sockets. Never waits: if the other end does not read, what does not fit is lost.
    ///
    /// # Errors
    /// The error of `sendmsg(2)`.
    pub fn send<M: Serialize>(&self, message: &M, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
            return Err(io::Error::other(format!("{} sockets are too many", sockets.len())));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&text)], &mut ancillary, flags)?;
        Ok(())
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// The error of `recvmsg(2)`.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<Received<M>> {
        self.receive_with(RecvFlags::empty())
    }

    /// A message that has already arrived.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, or the error of `recvmsg(2)`.
    pub fn try_receive<M: DeserializeOwned>(&self) -> io::Result<Received<M>> {
        self.receive_with(RecvFlags::DONTWAIT)
    }

    fn receive_with<M: DeserializeOwned>(&self, flags: RecvFlags) -> io::Result<Received<M>> {
        let mut text = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let count = loop {
            let into = &mut [IoSliceMut::new(&mut text)];
            match rustix::net::recvmsg(&self.0, into, &mut ancillary, flags) {
                Ok(received) => break received.bytes,
                Err(rustix::io::Errno::INTR) => {}
                // The other end was killed before it read everything.
                Err(rustix::io::Errno::CONNRESET) => break 0,
                Err(error) => return Err(error.into()),
            }
        };
        if count == 0 {
            return Ok(Received::End);
        }
        let mut sockets = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                sockets.extend(received);
            }
        }
        text.truncate(count);
        Ok(match serde_json::from_slice(&text) {
            Ok(message) => Received::Message(message, sockets),
            Err(_) => Received::Unknown,
        })
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

/// The socket on which a worker process waits for the next supervisor.
#[derive(Debug)]
pub struct Door(OwnedFd);

impl Door {
    /// Listens at `path`, replacing any previous listener.
    ///
    /// # Errors
    /// The error of `bind(2)` or `rename(2)`.
    pub fn open(path: &Path) -> io::Result<Door> {
        let socket = new_socket()?;
        let new = path.with_extension(std::process::id().to_string());
        let _ = std::fs::remove_file(&new);
        rustix::net::bind(&socket, &SocketAddrUnix::new(&new)?)?;
        rustix::net::listen(&socket, 1)?;
        // Anyone who connects receives sockets and passwords.
        std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        std::fs::rename(&new, path)?;
        Ok(Door(socket))
    }

    /// Waits for a supervisor.
    ///
    /// # Errors
    /// The error of `accept(2)`.
    pub fn accept(&self) -> io::Result<Channel> {
        Ok(Channel(rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC)?))
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// The maximum number of sockets attached to one message: far more than the interfaces anybody configures, and below
/// the kernel's limit of 253.
const MOST_SOCKETS: usize = 128;

/// The longest message, in bytes: paths and names of interfaces, and a reason as text.
const LONGEST: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn messages_arrive_whole_with_what_comes_along() {
        let (one, other) = Channel::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"what runs").unwrap();
        one.send(&ToSupervisor::Keep("a:1".to_owned()), &[]).unwrap();
        one.send(&ToSupervisor::Frozen, &[file.as_fd()]).unwrap();
        let Received::Message(ToSupervisor::Keep(interface), sockets) = other.receive().unwrap() else {
            panic!("the first message")
        };
        assert_eq!((interface.as_str(), sockets.len()), ("a:1", 0));
        let Received::Message(ToSupervisor::Frozen, mut sockets) = other.receive().unwrap() else {
            panic!("the second message")
        };
        let mut received = std::fs::File::from(sockets.pop().unwrap());
        received.rewind().unwrap();
        let mut text = String::new();
        received.read_to_string(&mut text).unwrap();
        assert_eq!(text, "what runs");
    }

    #[test]
    fn an_end_that_is_closed_is_seen_behind_its_last_message() {
        let (one, other) = Channel::pair().unwrap();
        one.send(&ToSupervisor::Ready, &[]).unwrap();
        drop(one);
        assert!(matches!(other.receive().unwrap(), Received::Message(ToSupervisor::Ready, _)));
        assert!(matches!(other.receive::<ToSupervisor>().unwrap(), Received::End));
        assert!(other.send(&ToWorker::OpenStore, &[]).is_err());
    }

    #[test]
    fn what_another_version_says_is_no_end() {
        let (one, other) = Channel::pair().unwrap();
        one.send(&"NobodyKnowsThis", &[]).unwrap();
        assert!(matches!(other.receive::<ToWorker>().unwrap(), Received::Unknown));
        let nothing = other.try_receive::<ToWorker>().unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
