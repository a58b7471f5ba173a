//! Narrows as a client of HTTP servers: their addresses, connections to them, and whom TLS trusts.
//!
//! What is sent, and what an answer means, is up to those who use it.

pub mod address;
pub mod ask;
pub mod authorities;
pub mod connection;
