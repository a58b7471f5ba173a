//! A log in the system's log or in systemd's journal: datagrams to their sockets, which are never waited for.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// One of the two sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The system's log, in the form of RFC 3164.
    Syslog,
    /// systemd's journal, in its own protocol.
    Journald,
}

/// A socket that is connected to one of them.
#[derive(Debug)]
pub struct LogSocket {
    destination: Destination,
    /// The name of the log, for people.
    name: &'static str,
    socket: UnixDatagram,
}

impl LogSocket {
    /// Connects to the usual socket of `destination`.
    ///
    /// # Errors
    /// If nothing listens there.
    pub fn connect(destination: Destination, name: &'static str) -> io::Result<LogSocket> {
        let path = match destination {
            Destination::Syslog => SYSLOG,
            Destination::Journald => JOURNAL,
        };
        LogSocket::connect_to((destination, name), Path::new(path))
    }

    fn connect_to((destination, name): (Destination, &'static str), path: &Path) -> io::Result<LogSocket> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(LogSocket { destination, name, socket })
    }

    /// Whether it leads there.
    pub fn leads_to(&self, destination: Destination) -> bool {
        self.destination == destination
    }

    /// Sends a line. One that is longer than a datagram may be is cut.
    ///
    /// # Errors
    /// If nobody reads, or reads fast enough.
    pub fn send(&self, line: &str) -> io::Result<()> {
        let mut length = line.len().min(LONGEST);
        loop {
            let end = (0..=length).rev().find(|end| line.is_char_boundary(*end)).unwrap_or_default();
            let cut = line.get(..end).unwrap_or(line);
            let datagram = match self.destination {
                Destination::Syslog => {
                    format!("<{PRIORITY}>narrows[{}]: {cut}", std::process::id()).into_bytes()
                }
                Destination::Journald => journal_entry(self.name, cut),
            };
            match self.socket.send(&datagram) {
                Err(error) if error.raw_os_error() == Some(TOO_LONG) && length > 1024 => length /= 2,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => return sent.map(drop),
            }
        }
    }
}

/// The fields of an entry. The message has its length before it, so that it may contain anything.
fn journal_entry(name: &str, line: &str) -> Vec<u8> {
    // "query" of "query log".
    let short = name.split(' ').next().unwrap_or(name);
    let mut entry =
        format!("PRIORITY=6\nSYSLOG_IDENTIFIER=narrows\nNARROWS_LOG={short}\nMESSAGE\n").into_bytes();
    entry.extend_from_slice(&(line.len() as u64).to_le_bytes());
    entry.extend_from_slice(line.as_bytes());
    entry.push(b'\n');
    entry
}

/// The socket of the system's log.
const SYSLOG: &str = "/dev/log";

/// The socket of the journal (systemd: "Native Journal Protocol").
const JOURNAL: &str = "/run/systemd/journal/socket";

/// Facility `daemon`, severity `info`.
const PRIORITY: u8 = 3 * 8 + 6;

/// `EMSGSIZE` of Linux: the datagram is longer than the socket takes.
const TOO_LONG: i32 = 90;

/// Bytes of a line; the usual limit of a datagram is some more than 200,000.
const LONGEST: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_as_each_log_reads_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let server = UnixDatagram::bind(&path).expect("a socket");
        let mut buffer = vec![0; 1 << 20];
        let mut receive = || {
            let length = server.recv(&mut buffer).expect("a datagram");
            String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned()
        };
        let syslog = LogSocket::connect_to((Destination::Syslog, "query log"), &path).expect("connected");
        syslog.send("{\"a\":1}").expect("sent");
        assert_eq!(receive(), format!("<30>narrows[{}]: {{\"a\":1}}", std::process::id()));
        syslog.send(&"x".repeat(10 << 20)).expect("sent, cut");
        assert!(receive().len() > 1000);
        let journal = LogSocket::connect_to((Destination::Journald, "query log"), &path).expect("connected");
        journal.send("a\nb").expect("sent");
        assert!(receive().ends_with("MESSAGE\n\u{3}\0\0\0\0\0\0\0a\nb\n"));
        // Nobody reads: it is an error, not a wait.
        let full = (0..10_000).find_map(|_| journal.send("line").err());
        assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::WouldBlock));
    }
}
