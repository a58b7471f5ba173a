//! The async runtime, which only this file uses: one single-threaded runtime per worker, sockets that are moved between
//! workers, tasks, timers and channels.

mod instant;

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::LocalOptions;

pub use instant::Instant;
pub use tokio::select;
pub use tokio::sync::mpsc::{UnboundedReceiver as MailboxReceiver, UnboundedSender as MailboxSender};
pub use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
pub use tokio::task::{JoinHandle, spawn_local};
pub use tokio::time::{sleep, timeout};

/// Waits for `future` until `deadline`.
///
/// # Errors
/// If the deadline comes first.
pub async fn timeout_at<F: Future>(
    deadline: Instant,
    future: F,
) -> Result<F::Output, tokio::time::error::Elapsed> {
    timeout(deadline.saturating_duration_since(Instant::now()), future).await
}

/// Waits until `moment`; without one, forever.
pub async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep(moment.saturating_duration_since(Instant::now())).await,
        None => std::future::pending().await,
    }
}

/// A time in ns, as counters and atomics have it. `u64::MAX` means never.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// A mailbox. The channel is unbounded: each sender documents how many messages can wait there (`event_loop::Event` for
/// the workers).
pub fn mailbox<T>() -> (MailboxSender<T>, MailboxReceiver<T>) {
    tokio::sync::mpsc::unbounded_channel()
}

/// Runs `main` to its end on a single-threaded runtime of the calling thread.
///
/// # Errors
/// If the runtime cannot be created (no file descriptor left).
pub fn block_on<T>(main: impl Future<Output = T>) -> io::Result<T> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().event_interval(61).build_local(LocalOptions::default())?;
    Ok(runtime.block_on(main))
}

/// The addresses of a host name, from the system's resolver, on a thread that may block.
///
/// # Errors
/// The resolver's.
pub async fn resolve(host: &str) -> io::Result<Vec<IpAddr>> {
    let addresses = tokio::net::lookup_host((host, 0)).await?;
    Ok(addresses.map(|address| address.ip()).collect())
}

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP, `TCP_NODELAY` set.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

/// Shuts down both directions of a socket: its users see the end of the stream.
///
/// # Safety
/// The descriptor must be that of an open socket.
pub unsafe fn shut_down(descriptor: i32) {
    // SAFETY: the caller guarantees that it is open, and it is not closed here.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
    // It does not matter if the peer has already closed it.
    let _ = socket2::SockRef::from(&socket).shutdown(std::net::Shutdown::Both);
}

/// How many descriptors the process may have (`RLIMIT_NOFILE`).
pub fn most_descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it fills the structure that it is given and touches nothing else.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known { limit.rlim_cur } else { u64::MAX }
}

/// The time of processors that this process has used.
pub fn processor_time() -> Duration {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it fills the structure that it is given and touches nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used) };
    let [seconds, nanoseconds] = [used.tv_sec, used.tv_nsec];
    Duration::new(u64::try_from(seconds).unwrap_or_default(), u32::try_from(nanoseconds).unwrap_or_default())
}

/// A socket that belongs to no runtime, for passing it between workers.
#[derive(Debug)]
pub enum DetachedSocket {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix.
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    /// Connects over TCP; each address of the name is tried.
    ///
    /// # Errors
    /// The last address's error.
    pub async fn connect_tcp(host: &str, port: u16) -> io::Result<Socket> {
        Socket::over_tcp(TcpStream::connect((host, port)).await?)
    }

    /// Connects over TCP to the first of `addresses` that can be connected to.
    ///
    /// # Errors
    /// The last address's error.
    pub async fn connect_first(addresses: &[IpAddr], port: u16) -> io::Result<Socket> {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| (*address, port).into()).collect();
        Socket::over_tcp(TcpStream::connect(&*addresses).await?)
    }

    fn over_tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nodelay(true)?;
        Ok(Socket::Tcp(stream))
    }

    /// A connected socket, and its other end, which blocks.
    #[cfg(test)]
    pub fn pair() -> (Socket, std::os::unix::net::UnixStream) {
        let (ours, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Socket::Unix(UnixStream::from_std(ours).unwrap()), peer)
    }

    /// The peer's IP address; `None` for a Unix socket.
    pub fn peer_address(&self) -> Option<IpAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Socket::Unix(_) => None,
        }
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// As `connect(2)`.
    pub async fn connect_unix(path: &str) -> io::Result<Socket> {
        UnixStream::connect(path).await.map(Socket::Unix)
    }

    /// Removes the socket from this runtime.
    ///
    /// # Errors
    /// If the runtime cannot deregister it.
    pub fn detach(self) -> io::Result<DetachedSocket> {
        match self {
            Socket::Tcp(stream) => stream.into_std().map(DetachedSocket::Tcp),
            Socket::Unix(stream) => stream.into_std().map(DetachedSocket::Unix),
        }
    }

    /// Whether the peer is on this machine: a Unix socket, or a loopback address.
    pub fn is_local(&self) -> bool {
        match self {
            Socket::Tcp(stream) => {
                stream.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
            }
            Socket::Unix(_) => true,
        }
    }

    /// Waits until reading may yield bytes or the end. One task at a time may wait: the one that waited last is woken.
    ///
    /// # Errors
    /// Only when the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| match self {
            Socket::Tcp(stream) => stream.poll_read_ready(context),
            Socket::Unix(stream) => stream.poll_read_ready(context),
        })
        .await
    }

    /// Reads what has arrived; `Ok(0)` is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self {
            Socket::Tcp(stream) => stream.try_read(buffer)?,
            Socket::Unix(stream) => stream.try_read(buffer)?,
        };
        if 0 < count && count < buffer.len() {
            self.set_drained();
        }
        Ok(count)
    }

    /// Reads what has arrived into several buffers, one after another.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn try_read_vectored(&self, places: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        let room: usize = places.iter().map(|place| place.len()).sum();
        let count = match self {
            Socket::Tcp(stream) => stream.try_read_vectored(places)?,
            Socket::Unix(stream) => stream.try_read_vectored(places)?,
        };
        if 0 < count && count < room {
            self.set_drained();
        }
        Ok(count)
    }

    /// A read that returned less than the buffer's size has emptied the socket: the next one waits for the kernel's
    /// readiness event instead of trying at once. The end of a stream is still noticed.
    fn set_drained(&self) {
        let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
        let _ = match self {
            Socket::Tcp(stream) => stream.try_io(Interest::READABLE, nothing),
            Socket::Unix(stream) => stream.try_io(Interest::READABLE, nothing),
        };
    }

    /// Waits until writing may succeed.
    ///
    /// # Errors
    /// Only when the runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.writable().await,
            Socket::Unix(stream) => stream.writable().await,
        }
    }

    /// Writes what the kernel accepts.
    ///
    /// # Errors
    /// `WouldBlock` if it accepts nothing.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_write(bytes),
            Socket::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Writes what the kernel accepts of `bytes`, and leaves the rest there; returns whether that was everything.
    ///
    /// # Errors
    /// The socket's; some bytes may have been written.
    pub fn try_write_all(&self, bytes: &mut &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Writes all of `bytes`, waiting while the peer does not read.
    ///
    /// # Errors
    /// The socket's; some bytes may have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !self.try_write_all(&mut bytes)? {
            self.writable().await?;
        }
        Ok(())
    }

    /// Its file descriptor, to be shown.
    pub fn descriptor(&self) -> i32 {
        use std::os::fd::AsRawFd;
        match self {
            Socket::Tcp(stream) => stream.as_raw_fd(),
            Socket::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// Address of the peer: the IP address, or `localhost` for a Unix socket.
    pub fn peer(&self) -> (String, u16) {
        match self {
            Socket::Tcp(stream) => match stream.peer_addr() {
                Ok(address) => (address.ip().to_canonical().to_string(), address.port()),
                Err(_) => (String::new(), 0),
            },
            Socket::Unix(_) => ("localhost".to_owned(), 0),
        }
    }

    /// Address the peer connected to: IP address and port, empty for a Unix socket.
    pub fn local(&self) -> (String, u16) {
        match self {
            Socket::Tcp(stream) => match stream.local_addr() {
                Ok(address) => (address.ip().to_canonical().to_string(), address.port()),
                Err(_) => (String::new(), 0),
            },
            Socket::Unix(_) => (String::new(), 0),
        }
    }

    /// Turns TCP keepalive on, with `idle` before the first probe.
    pub fn set_keepalive(&self, idle: Option<Duration>) {
        if let (Socket::Tcp(stream), Some(idle)) = (self, idle) {
            let keepalive = socket2::TcpKeepalive::new().with_time(idle);
            // A socket that refuses keepalive still serves.
            let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
        }
    }
}

impl DetachedSocket {
    /// Its file descriptor, to be shown.
    pub fn descriptor(&self) -> i32 {
        use std::os::fd::AsRawFd;
        match self {
            DetachedSocket::Tcp(stream) => stream.as_raw_fd(),
            DetachedSocket::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// A connected socket from another process.
    ///
    /// # Errors
    /// When it is no socket.
    pub fn adopt(socket: OwnedFd) -> io::Result<DetachedSocket> {
        let socket = socket2::Socket::from(socket);
        Ok(match socket.local_addr()?.is_unix() {
            true => DetachedSocket::Unix(OwnedFd::from(socket).into()),
            false => DetachedSocket::Tcp(socket.into()),
        })
    }

    /// Registers the socket with the calling thread's runtime.
    ///
    /// # Errors
    /// If the runtime cannot register it (no memory, no descriptor).
    pub fn attach(self) -> io::Result<Socket> {
        match self {
            DetachedSocket::Tcp(stream) => TcpStream::from_std(stream).map(Socket::Tcp),
            DetachedSocket::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix),
        }
    }
}

/// A bound listening socket; belongs to no runtime.
#[derive(Debug)]
pub enum BoundListener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// Unix.
    Unix(std::os::unix::net::UnixListener),
}

/// A listening socket on a runtime.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// Unix.
    Unix(UnixListener),
}

impl BoundListener {
    /// Binds `interface`: `ip:port`, `[v6]:port`, or the absolute path of a Unix socket. A stale socket file is
    /// replaced.
    ///
    /// # Errors
    /// As `bind(2)`; `InvalidInput` for an invalid address.
    pub fn bind(interface: &str) -> io::Result<BoundListener> {
        if interface.starts_with('/') {
            return bind_unix(Path::new(interface)).map(BoundListener::Unix);
        }
        let address: std::net::SocketAddr =
            interface.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(address),
            socket2::Type::STREAM,
            Some(socket2::Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(BoundListener::Tcp(socket.into()))
    }

    /// A listening socket created by another process.
    ///
    /// # Errors
    /// When it is no socket.
    pub fn adopt(socket: OwnedFd) -> io::Result<BoundListener> {
        let socket = socket2::Socket::from(socket);
        socket.set_nonblocking(true)?;
        Ok(match socket.local_addr()?.is_unix() {
            true => BoundListener::Unix(OwnedFd::from(socket).into()),
            false => BoundListener::Tcp(socket.into()),
        })
    }

    /// The address as bound: with port 0, the chosen port.
    pub fn address(&self) -> String {
        match self {
            BoundListener::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| String::new(), |address| address.to_string())
            }
            BoundListener::Unix(listener) => listener
                .local_addr()
                .ok()
                .and_then(|address| address.as_pathname().map(|path| path.display().to_string()))
                .unwrap_or_default(),
        }
    }

    /// Registers the socket with the calling thread's runtime.
    ///
    /// # Errors
    /// If the runtime cannot register it.
    pub fn attach(self) -> io::Result<Listener> {
        match self {
            BoundListener::Tcp(listener) => TcpListener::from_std(listener).map(Listener::Tcp),
            BoundListener::Unix(listener) => UnixListener::from_std(listener).map(Listener::Unix),
        }
    }
}

impl AsFd for BoundListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            BoundListener::Tcp(listener) => listener.as_fd(),
            BoundListener::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Listener {
    /// Waits for the next connection.
    ///
    /// # Errors
    /// As `accept(2)`: out of descriptors, or a connection that has already been closed.
    pub async fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    let listener = match UnixListener::bind(path) {
        // Any other file with that name must not be removed.
        Err(error)
            if error.kind() == io::ErrorKind::AddrInUse
                && std::fs::symlink_metadata(path)?.file_type().is_socket()
                && UnixStream::connect(path).is_err() =>
        {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        result => result?,
    };
    socket2::SockRef::from(&listener).listen(BACKLOG)?;
    // Passwords decide who may log in, as with servers' own sockets.
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connections that wait for `accept`; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

#[cfg(test)]
mod tests {
    use super::bind_unix;

    #[test]
    fn removes_no_file_that_is_not_a_socket() {
        let path = std::env::temp_dir().join(format!("narrows-bind-{}", std::process::id()));
        std::fs::write(&path, "kept").unwrap();
        assert!(bind_unix(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        std::fs::remove_file(&path).unwrap();
        // The socket of a process that has ended.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(bind_unix(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
    }
}
