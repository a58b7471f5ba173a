//! The control plane: configuration in, snapshots for the data plane out.

pub mod admin;
pub mod calendar;
pub mod command;
pub mod config;
pub mod config_file;
pub mod control;
pub mod docs;
pub mod effect;
pub mod files;
pub mod holds;
pub mod http;
pub mod json_schema;
pub mod listeners;
pub mod monitor;
pub mod query_log;
pub mod runtime;
pub mod scheduler;
pub mod schema;
pub mod stats;
pub mod store;
pub mod switchover;
pub mod tls;
pub mod traces;
pub mod urgency;
pub mod variables;
pub mod without_effect;
