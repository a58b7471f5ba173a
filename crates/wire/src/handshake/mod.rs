//! The connection phase: one packet per file. Payloads only; packet headers are in `frame.rs`.

pub mod attributes;
pub mod auth_switch;
pub mod change_user;
pub mod greeting;
pub mod response;

pub use attributes::ConnectAttributes;
pub use auth_switch::{AuthMoreData, AuthSwitchRequest};
pub use change_user::ChangeUser;
pub use greeting::Greeting;
pub use response::{HandshakeResponse, Hello, HelloError, SslRequest};
