//! The data plane of Narrows: clients in, backend connections out.
//!
//! Configuration enters only as an `Arc<Snapshot>` through a worker's mailbox; this crate knows no file,
//! no SQLite and no admin table.

pub mod snapshot;
