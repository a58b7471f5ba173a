//! The MySQL client/server protocol, sans-IO: bytes in, values out. No socket, no clock, no async.
