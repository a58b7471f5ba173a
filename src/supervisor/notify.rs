//! What is sent to a service manager (`sd_notify(3)`), and the sockets it passes on (`sd_listen_fds(3)`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use narrows_proxy::rt::BoundListener;
use rustix::io::{FdFlags, fcntl_setfd};

/// The connection to the service manager, if there is one.
#[derive(Debug)]
pub struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// The service manager that the environment names.
    pub fn of_environment() -> Manager {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|path| address(&path));
        Manager(address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))))
    }

    /// Sends it a message; it is no error if nobody listens.
    pub fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }

    /// The interval of watchdog messages: half of the timeout.
    pub fn watchdog(&self) -> Option<Duration> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        number("WATCHDOG_USEC").filter(|_| is_ours).map(|us| Duration::from_micros(us / 2))
    }
}

fn address(path: &OsStr) -> Option<SocketAddr> {
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(path).ok(),
    }
}

/// The listening sockets that the service manager created, by interface. Must be called once, before anything else
/// opens a file.
pub fn sockets_of_manager() -> BTreeMap<String, OwnedFd> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
    let is_ours = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
    let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    (0..count).filter_map(|index| take(FIRST + index)).collect()
}

fn take(descriptor: RawFd) -> Option<(String, OwnedFd)> {
    // SAFETY: the manager opened these descriptors for this process, whose id LISTEN_PID is, and nothing else in it
    // owns them: this is called once, before any file is opened.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
    let interface = BoundListener::adopt(socket.try_clone().ok()?).ok()?.address();
    Some((interface, socket))
}

/// `SD_LISTEN_FDS_START`
const FIRST: RawFd = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_what_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let told = Manager(Some((UnixDatagram::unbound().unwrap(), address(path.as_os_str()).unwrap())));
        told.tell("READY=1\nSTATUS=serving");
        let mut text = [0; 100];
        let count = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..count], b"READY=1\nSTATUS=serving");
        Manager(None).tell("READY=1");
    }
}
