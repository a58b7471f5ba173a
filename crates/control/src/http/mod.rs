//! The HTTP interface: metrics, health checks, leaving a load balancer, and the console.
//!
//! A thread of its own serves it. What it is asked about the running program is a statement to the control thread, as from an
//! administrator: there are no figures here, and no configuration but that of logins.

mod connection;
mod console;
pub mod listener;
mod login;
mod openmetrics;
mod peer;
mod places;
mod routes;
mod same_origin;
mod server;
pub mod settings;
