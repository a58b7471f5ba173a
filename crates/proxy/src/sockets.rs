//! Where listening sockets come from: bound by this process, or kept by one that outlives it.

use std::fmt::Debug;
use std::io;
use std::time::{Duration, Instant};

use crate::rt::BoundListener;

/// For whom an interface is listened on. If two of them had one socket, each would get a part of the other's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenFor {
    /// Clients of the data plane.
    Clients,
    /// Administrators, with the MySQL protocol.
    Administrators,
    /// Programs and people that speak HTTP.
    Http,
}

/// Makes listening sockets. The implementation may keep them open beyond the end of this process, so that clients that
/// connect in the meantime wait instead of being refused.
pub trait Sockets: Debug + Send + Sync {
    /// The socket of `interface`, listening.
    ///
    /// # Errors
    /// As [`BoundListener::bind`]; also `AddrInUse` if this process listens there for others.
    fn bind(&self, interface: &str, whom: ListenFor) -> io::Result<BoundListener>;

    /// Nobody must listen on `interface` any more: clients are refused there once this process has closed its socket.
    fn release(&self, interface: &str);
}

/// Calls `bind` until `deadline` while the address is in use, because others are about to leave it.
///
/// # Errors
/// As `bind`; that the address is still in use.
pub fn when_free<T>(deadline: Instant, bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => return bound,
        }
    }
}

/// Sockets that end with this process.
#[derive(Debug, Clone, Copy)]
pub struct Own;

impl Sockets for Own {
    fn bind(&self, interface: &str, _whom: ListenFor) -> io::Result<BoundListener> {
        BoundListener::bind(interface)
    }

    fn release(&self, _interface: &str) {}
}
