//! The MySQL client/server protocol, sans-IO: bytes in, values out. No socket, no clock, no async.

pub mod capability;
pub mod codec;

pub use capability::Capabilities;
pub use codec::{Malformed, Reader};
