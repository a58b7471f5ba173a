//! The data plane of Narrows: clients in, backend connections out.
//!
//! Configuration enters only as an `Arc<Snapshot>` through a worker's mailbox; this crate uses no file, no SQLite and
//! no admin table.

pub mod audit;
pub mod auth_query;
pub mod backend;
pub mod buffer;
pub mod cache;
mod capabilities;
pub mod client;
pub mod clock;
pub mod descriptors;
pub mod event_loop;
pub mod figures;
mod hash;
pub mod hostgroup;
pub mod hot_restart;
pub mod lag;
pub mod log_limit;
pub mod log_target;
pub mod mirror;
pub mod outbox;
pub mod packets;
pub mod passthrough;
pub mod pin_reason;
pub mod pool;
pub mod prepared;
pub mod query_log;
pub mod recent_texts;
pub mod reply;
mod route;
pub mod rows;
pub mod rt;
pub mod rules;
pub mod seldom;
pub mod server;
pub mod server_tokens;
pub mod session;
pub mod snapshot;
pub mod sockets;
pub mod state;
pub mod stats;
pub mod stream;
pub mod threads;
pub mod tls;
pub mod tokens;
pub mod worker;
