//! What the kernel knows about a socket: its id, and how many bytes have passed through it. The counts are correct at
//! every moment, wherever a process was killed.

use std::io;
use std::mem::size_of;
use std::os::fd::RawFd;

/// Bytes read from and written to a TCP socket by all processes that ever had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteCounts {
    /// Bytes read.
    pub read: u64,
    /// Bytes written, whether they have arrived or not.
    pub written: u64,
}

/// The kernel's id of a socket, which is unique since the machine started.
///
/// # Errors
/// If it is not a socket.
pub fn cookie(socket: RawFd) -> io::Result<u64> {
    let mut cookie = 0_u64.to_ne_bytes();
    option(socket, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie)?;
    Ok(u64::from_ne_bytes(cookie))
}

/// The bytes that have passed through a TCP socket; `None` if it is not a TCP socket, or the peer is gone.
pub fn byte_counts(socket: RawFd) -> Option<ByteCounts> {
    // The peer may send or acknowledge bytes between two of these calls; those would be counted twice or not at all.
    (0..MOST_ATTEMPTS).find_map(|_| {
        let before = Totals::of(socket)?;
        let unread = queue(socket, libc::FIONREAD)?;
        let unsent = queue(socket, libc::TIOCOUTQ)?;
        if Totals::of(socket)? != before {
            return None;
        }
        let read = before.received.checked_sub(unread)?;
        Some(ByteCounts { read, written: before.acknowledged + unsent })
    })
}

/// Bytes that have arrived, and those that the peer has acknowledged.
#[derive(Debug, PartialEq, Eq)]
struct Totals {
    received: u64,
    acknowledged: u64,
}

impl Totals {
    fn of(socket: RawFd) -> Option<Totals> {
        let mut info = [0; INFO];
        let length = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        // Older kernels do not count bytes.
        if length < INFO {
            return None;
        }
        let number =
            |place: usize| info.get(place..place + 8)?.first_chunk().copied().map(u64::from_ne_bytes);
        // The peer's FIN counts as a byte.
        let ended = match *info.first()? {
            ESTABLISHED => 0,
            CLOSE_WAIT => 1,
            _ => return None,
        };
        let received = number(BYTES_RECEIVED)?.checked_sub(ended)?;
        Some(Totals { received, acknowledged: number(BYTES_ACKED)? })
    }
}

/// The local port of a TCP connection; `None` for any other descriptor.
pub fn local_port(socket: RawFd) -> Option<u16> {
    let mut listens = 0_i32.to_ne_bytes();
    option(socket, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, &mut listens).ok()?;
    if i32::from_ne_bytes(listens) != 0 {
        return None;
    }
    // SAFETY: the caller has the socket open, and it is not closed here.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(socket) };
    let socket = socket2::SockRef::from(&socket);
    socket.peer_addr().ok()?;
    socket.local_addr().ok()?.as_socket().map(|address| address.port())
}

fn option<const N: usize>(socket: RawFd, level: i32, name: i32, value: &mut [u8; N]) -> io::Result<usize> {
    let mut length = N as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the length of `value`; an invalid descriptor is an error.
    let done = unsafe { libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &mut length) };
    if done == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}

fn queue(socket: RawFd, of: libc::Ioctl) -> Option<u64> {
    let mut count: libc::c_int = 0;
    // SAFETY: both requests write one int.
    let done = unsafe { libc::ioctl(socket, of, &mut count) };
    (done == 0).then(|| u64::try_from(count).ok())?
}

/// Offsets in `struct tcp_info` (linux/tcp.h), which only ever grows at its end.
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const INFO: usize = BYTES_RECEIVED + size_of::<u64>();

/// After this many attempts the counts are given up: a client that waits for an answer rarely sends anything.
const MOST_ATTEMPTS: u32 = 100;

const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_kernel_counts_what_was_read_and_written() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let now = || byte_counts(server.as_raw_fd()).unwrap();
        assert_eq!(now(), ByteCounts { read: 0, written: 0 });
        (&server).write_all(b"greeting").unwrap();
        client.write_all(b"login").unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
        assert_eq!(now(), ByteCounts { read: 0, written: 8 });
        (&server).read_exact(&mut [0; 2]).unwrap();
        assert_eq!(now(), ByteCounts { read: 2, written: 8 });
        client.shutdown(Shutdown::Write).unwrap();
        server.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(server.read(&mut [0; 3]).unwrap(), 0);
        assert_eq!(byte_counts(server.as_raw_fd()).unwrap(), ByteCounts { read: 5, written: 8 });
        assert_eq!(local_port(server.as_raw_fd()), Some(listener.local_addr().unwrap().port()));
        assert_eq!(local_port(listener.as_raw_fd()), None);
        let other = cookie(client.as_raw_fd()).unwrap();
        assert_ne!(cookie(server.as_raw_fd()).unwrap(), other);
        assert_eq!(cookie(client.try_clone().unwrap().as_raw_fd()).unwrap(), other);
    }
}
