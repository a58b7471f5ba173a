//! Test servers and clients.
