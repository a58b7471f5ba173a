//! The MySQL client/server protocol, sans-IO: bytes in, values out. No socket, no clock, no async.

pub mod auth;
pub mod capability;
pub mod charset;
pub mod codec;
pub mod command;
pub mod compression;
pub mod errno;
pub mod execute;
pub mod frame;
pub mod gtid;
pub mod handshake;
pub mod packet;
pub mod proxy_protocol;
pub mod query;
pub mod response;
mod value;

pub use capability::Capabilities;
pub use codec::{Malformed, Reader};
pub use command::Command;
pub use errno::Errno;
pub use frame::Header;
pub use packet::Status;
pub use response::Tracker;
