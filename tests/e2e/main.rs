//! The end-to-end tests: the built program in front of real servers and of scripted ones. A module per theme.

mod admin;
mod auth;
mod bad_input;
mod balance;
mod chatter;
mod command_line;
mod dependencies;
mod differential;
mod drivers;
mod dump;
mod fast_forward;
mod figures;
mod founding;
mod model;
mod monitor;
mod operators;
mod panics;
mod prepared;
mod recorded;
mod rules;
mod sandbox;
mod sharing;
mod stored;
mod streaming;
mod sysbench;
mod timeouts;
