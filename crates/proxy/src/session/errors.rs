//! Errors of Narrows' own that several commands return.

use narrows_wire::{Errno, Malformed};

/// A statement took longer than `default_query_timeout`.
pub(super) const QUERY_TIMEOUT: (Errno, &str) =
    (Errno { number: 1907, sqlstate: *b"70100" }, "Query execution was interrupted, query_timeout exceeded");

/// The error for a statement that was killed.
pub(super) fn killed(timed_out: bool) -> (Errno, String) {
    let (errno, text) = match timed_out {
        true => QUERY_TIMEOUT,
        false => (Errno::QUERY_INTERRUPTED, "Query execution was interrupted"),
    };
    (errno, text.to_owned())
}

/// The error for a command longer than `max_allowed_packet`.
pub(super) const PACKET_TOO_LARGE: &str = "Got a packet bigger than 'max_allowed_packet' bytes";

/// The error for a malformed command: as a server words it, followed by the reason.
pub(super) fn malformed(Malformed(why): Malformed) -> String {
    format!("Malformed communication packet: {why}")
}
