//! The worker process's end of the channel to its supervisor. There may be no supervisor for a while, and a different
//! one later.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use narrows_proxy::rt::BoundListener;
use narrows_proxy::sockets::{ListenFor, Sockets, when_free};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{info, warn};

use crate::keeper::Keepers;
use crate::supervisor::channel::{Channel, Door, Received, ToSupervisor, ToWorker};
use crate::supervisor::takeover;

/// What arrives on the channel.
#[derive(Debug)]
pub enum Order {
    /// A message from the supervisor.
    Message(ToWorker),
    /// The channel to the supervisor is closed.
    Cut,
}

/// The channel, and everything that a supervisor must receive.
#[derive(Debug)]
pub struct Line {
    orders: UnboundedSender<Order>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    channel: Option<Arc<Channel>>,
    /// The process at the other end of `channel`.
    supervisor: u32,
    /// Interfaces whose sockets the supervisor must close, and may not have closed yet.
    released: BTreeSet<String>,
    /// Listening sockets by interface.
    sockets: BTreeMap<String, OwnedFd>,
    /// For whom this process listens on them.
    taken: BTreeMap<String, ListenFor>,
    frozen: Option<Frozen>,
    keepers: Option<Keepers>,
    transfers: Vec<PendingTransfer>,
    /// Whether this process is about to end, so that another supervisor cannot use it.
    is_leaving: bool,
}

/// The clients of a process that died.
#[derive(Debug)]
pub struct PendingTransfer {
    /// The socket on which its clients arrive.
    pub way: OwnedFd,
    /// Whether the process was killed from outside.
    pub was_killed: bool,
    /// Whether another process has already received some of them.
    pub is_begun: bool,
}

/// The running configuration, in memory that can be passed on.
#[derive(Debug)]
struct Frozen {
    memory: OwnedFd,
    hash: u64,
}

impl Line {
    /// The channel with which this process was started; its first message has been read.
    pub fn new(
        channel: Channel,
        sockets: Vec<(String, OwnedFd)>,
        orders: UnboundedSender<Order>,
    ) -> Arc<Line> {
        let line = Arc::new(Line { orders, kept: Mutex::default() });
        line.lock().sockets.extend(sockets);
        line.follow(Arc::new(channel));
        line
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from `channel` on a separate thread, until it is closed.
    fn follow(self: &Arc<Line>, channel: Arc<Channel>) {
        let peer = socket_peercred(&channel).map_or(0, |peer| peer.pid.as_raw_nonzero().get().unsigned_abs());
        let mut kept = self.lock();
        kept.channel = Some(Arc::clone(&channel));
        kept.supervisor = peer;
        drop(kept);
        let line = Arc::clone(self);
        let read = move || {
            loop {
                match channel.receive() {
                    Ok(Received::Message(message, sockets)) => line.take(message, sockets),
                    Ok(Received::Unknown) => {
                        warn!("the supervisor sent a message that this version does not understand")
                    }
                    Ok(Received::End) | Err(_) => break,
                }
            }
            let mut kept = line.lock();
            // Another supervisor may have connected in the meantime.
            if kept.channel.as_ref().is_some_and(|current| Arc::ptr_eq(current, &channel)) {
                kept.channel = None;
                let _ = line.orders.send(Order::Cut);
            }
        };
        let thread = std::thread::Builder::new().name("supervisor".to_owned()).spawn(read);
        if let Err(error) = thread {
            warn!(%error, "cannot read from the supervisor");
        }
    }

    fn take(&self, message: ToWorker, sockets: Vec<OwnedFd>) {
        if let ToWorker::Adopt { was_killed, is_begun } = message {
            let transfer = |way| PendingTransfer { way, was_killed, is_begun };
            self.lock().transfers.extend(sockets.into_iter().next().map(transfer));
            return;
        }
        if let ToWorker::Serve(interfaces) = &message {
            self.lock().sockets.extend(interfaces.iter().cloned().zip(sockets));
        }
        // A process that is ending no longer listens.
        let _ = self.orders.send(Order::Message(message));
    }

    /// Sends a message to the supervisor, if there is one.
    pub fn tell(&self, message: &ToSupervisor) {
        tell(&self.lock(), message, &[]);
    }

    /// Whether there is a supervisor other than this process.
    pub fn has_supervisor_other_than(&self, process: u32) -> bool {
        let kept = self.lock();
        kept.channel.is_some() && kept.supervisor != process
    }

    /// Reports the keepers of this process to the supervisor, and to each later one.
    pub fn has_keepers(&self, keepers: Keepers) {
        let mut kept = self.lock();
        tell_of(&kept, &keepers);
        kept.keepers = Some(keepers);
    }

    /// Reports that the keepers have changed.
    pub fn keepers_are(&self, ends: Vec<OwnedFd>) {
        let mut kept = self.lock();
        if let Some(keepers) = &mut kept.keepers {
            keepers.ends = ends;
        }
        kept.keepers.iter().for_each(|keepers| tell_of(&kept, keepers));
    }

    /// The clients of dead processes.
    pub fn take_transfers(&self) -> Vec<PendingTransfer> {
        std::mem::take(&mut self.lock().transfers)
    }

    /// Records that the supervisor has given this process its running configuration, which a later supervisor must
    /// receive too.
    pub fn was_given(&self, memory: OwnedFd, frozen: &[u8]) {
        self.lock().frozen = Some(Frozen { memory, hash: hash(frozen) });
    }

    /// Gives the supervisor the running configuration, to be kept.
    pub fn keep(&self, frozen: &[u8]) {
        let hash = hash(frozen);
        let mut kept = self.lock();
        if kept.frozen.as_ref().is_some_and(|known| known.hash == hash) {
            return;
        }
        match in_memory(frozen) {
            Ok(memory) => {
                tell(&kept, &ToSupervisor::Frozen, &[memory.as_fd()]);
                kept.frozen = Some(Frozen { memory, hash });
            }
            Err(error) => warn!(%error, "cannot keep the configuration for the next process"),
        }
    }

    /// Accepts other supervisors from now on.
    pub fn open_door(self: &Arc<Line>, datadir: &Path) {
        let line = Arc::clone(self);
        let opened = Door::open(&takeover::door(datadir)).and_then(|door| {
            std::thread::Builder::new().name("door".to_owned()).spawn(move || {
                loop {
                    match door.accept() {
                        Ok(channel) => line.greet(channel),
                        // Most likely descriptors have run out, which is temporary.
                        Err(error) => {
                            warn!(%error, "cannot accept another supervisor for now");
                            std::thread::sleep(DOOR_PAUSE);
                        }
                    }
                }
            })
        });
        if let Err(error) = opened {
            warn!(%error, "another supervisor cannot find this process");
        }
    }

    /// Gives another supervisor everything that it must receive.
    fn greet(self: &Arc<Line>, channel: Channel) {
        let kept = self.lock();
        if kept.is_leaving {
            return;
        }
        let (interfaces, mut along): (Vec<_>, Vec<_>) =
            kept.sockets.iter().map(|(interface, socket)| (interface.clone(), socket.as_fd())).unzip();
        along.extend(kept.frozen.as_ref().map(|frozen| frozen.memory.as_fd()));
        if let Err(error) = channel.send(&ToSupervisor::Hello(interfaces), &along) {
            return warn!(%error, "cannot send the first message to another supervisor");
        }
        drop(kept);
        info!("another supervisor has connected");
        self.follow(Arc::new(channel));
        let kept = self.lock();
        kept.keepers.iter().for_each(|keepers| tell_of(&kept, keepers));
    }

    /// Prepares for the end of this process: no supervisor must take it over, and with [`Leaving::Stop`] no client must
    /// be able to connect any more.
    pub fn leave(&self, sockets: Leaving) {
        let mut kept = self.lock();
        kept.is_leaving = true;
        if sockets == Leaving::Stop {
            for interface in std::mem::take(&mut kept.sockets).into_keys() {
                tell(&kept, &ToSupervisor::Release(interface), &[]);
            }
        }
    }
}

/// Why a worker process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Another process continues with the same sockets.
    HandedOver,
    /// After its end, another process is started with the same sockets.
    Again,
    /// Narrows stops serving.
    Stop,
}

fn tell(kept: &Kept, message: &ToSupervisor, sockets: &[BorrowedFd<'_>]) {
    if let Some(Err(error)) = kept.channel.as_ref().map(|channel| channel.send(message, sockets)) {
        // The thread that reads the channel sees its end.
        tracing::debug!(%error, "cannot send a message to the supervisor");
    }
}

fn tell_of(kept: &Kept, keepers: &Keepers) {
    let mut along = vec![keepers.transfer.as_fd()];
    along.extend(keepers.ends.iter().map(AsFd::as_fd));
    tell(kept, &ToSupervisor::Keeper, &along);
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Writes `bytes` to memory that is in no file system.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("narrows-frozen", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes)?;
    Ok(file.into())
}

impl Sockets for Line {
    fn bind(&self, interface: &str, whom: ListenFor) -> io::Result<BoundListener> {
        let interface = normal(interface);
        let mut kept = self.lock();
        if kept.taken.get(&interface).is_some_and(|known| *known != whom) {
            return Err(Errno::ADDRINUSE.into());
        }
        if let Some(socket) = kept.sockets.get(&interface) {
            let listener = BoundListener::adopt(socket.try_clone()?)?;
            kept.taken.insert(interface, whom);
            return Ok(listener);
        }
        let closing = if kept.released.contains(&interface) { CLOSING } else { Duration::ZERO };
        let listener = when_free(Instant::now() + closing, || BoundListener::bind(&interface))?;
        kept.released.remove(&interface);
        tell(&kept, &ToSupervisor::Keep(interface.clone()), &[listener.as_fd()]);
        kept.sockets.insert(interface.clone(), listener.as_fd().try_clone_to_owned()?);
        kept.taken.insert(interface, whom);
        Ok(listener)
    }

    fn release(&self, interface: &str) {
        let mut kept = self.lock();
        let interface = normal(interface);
        kept.taken.remove(&interface);
        if kept.sockets.remove(&interface).is_some() {
            tell(&kept, &ToSupervisor::Release(interface.clone()), &[]);
            kept.released.insert(interface);
        }
    }
}

/// How long a supervisor may take to close a socket: it does little else.
const CLOSING: Duration = Duration::from_secs(2);

/// An address in the same form in which a socket reports it, so that a service manager's sockets are found.
fn normal(interface: &str) -> String {
    let address: Result<std::net::SocketAddr, _> = interface.parse();
    address.map_or_else(|_| interface.to_owned(), |address| address.to_string())
}

/// The pause after an `accept(2)` that failed.
const DOOR_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::unbounded_channel;

    #[test]
    fn a_socket_that_was_handed_over_is_not_bound_again() {
        let (channel, supervisor) = Channel::pair().unwrap();
        let (orders, _told) = unbounded_channel();
        let line = Line::new(channel, Vec::new(), orders);
        let listener = line.bind("127.0.0.1:0", ListenFor::Clients).unwrap();
        let Received::Message(ToSupervisor::Keep(interface), mut sockets) = supervisor.receive().unwrap()
        else {
            panic!("the socket must be kept")
        };
        let kept = BoundListener::adopt(sockets.pop().unwrap()).unwrap();
        assert_eq!((interface.as_str(), kept.address()), ("127.0.0.1:0", listener.address()));
        assert_eq!(line.bind("127.0.0.1:0", ListenFor::Clients).unwrap().address(), kept.address());
        line.release("127.0.0.1:0");
        assert!(matches!(supervisor.receive().unwrap(), Received::Message(ToSupervisor::Release(_), _)));
    }

    #[test]
    fn nobody_gets_the_socket_that_this_process_has_for_others() {
        let (channel, supervisor) = Channel::pair().unwrap();
        let (orders, _told) = unbounded_channel();
        let line = Line::new(channel, Vec::new(), orders);
        let address = line.bind("127.0.0.1:0", ListenFor::Clients).unwrap().address();
        let refused = line.bind("127.0.0.1:0", ListenFor::Administrators).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        line.release("127.0.0.1:0");
        line.bind("127.0.0.1:0", ListenFor::Administrators).unwrap();

        // The next process may have another configuration.
        let Received::Message(ToSupervisor::Keep(_), sockets) = supervisor.receive().unwrap() else {
            panic!("the socket must be kept")
        };
        let (channel, _supervisor) = Channel::pair().unwrap();
        let (orders, _told) = unbounded_channel();
        let next =
            Line::new(channel, vec![("127.0.0.1:0".to_owned(), sockets.into_iter().next().unwrap())], orders);
        assert_eq!(next.bind("127.0.0.1:0", ListenFor::Http).unwrap().address(), address);
    }

    #[test]
    fn what_runs_is_handed_over_when_it_has_changed() {
        let (channel, supervisor) = Channel::pair().unwrap();
        let (orders, mut told) = unbounded_channel();
        let line = Line::new(channel, Vec::new(), orders);
        for bytes in [b"one", b"one", b"two"] {
            line.keep(bytes);
        }
        for _ in 0..2 {
            assert!(matches!(supervisor.receive().unwrap(), Received::Message(ToSupervisor::Frozen, _)));
        }
        let nothing = supervisor.try_receive::<ToSupervisor>().unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(supervisor);
        assert!(matches!(told.blocking_recv(), Some(Order::Cut)));
    }

    #[test]
    fn another_supervisor_gets_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (channel, supervisor) = Channel::pair().unwrap();
        let (orders, mut told) = unbounded_channel();
        let line = Line::new(channel, Vec::new(), orders);
        let listener = line.bind("127.0.0.1:0", ListenFor::Clients).unwrap();
        line.keep(b"what runs");
        drop(supervisor);
        assert!(matches!(told.blocking_recv(), Some(Order::Cut)));
        assert!(takeover::find(folder.path()).unwrap().is_none());
        line.open_door(folder.path());
        let found = takeover::find(folder.path()).unwrap().expect("a live process");
        assert_eq!(found.pid.as_raw_nonzero().get(), i32::try_from(std::process::id()).unwrap());
        assert!(found.frozen.is_some());
        let [(interface, socket)] = <[_; 1]>::try_from(found.sockets).unwrap();
        assert_eq!(interface, "127.0.0.1:0");
        assert_eq!(BoundListener::adopt(socket).unwrap().address(), listener.address());
        found.channel.send(&ToWorker::OpenStore, &[]).unwrap();
        assert!(matches!(told.blocking_recv(), Some(Order::Message(ToWorker::OpenStore))));
        line.leave(Leaving::Stop);
        assert!(takeover::find(folder.path()).is_err());
    }
}
