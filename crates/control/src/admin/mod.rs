//! The admin interface: SQL over the MySQL protocol.
//!
//! A separate thread runs the listeners and the sessions ([`listener`], [`login`], [`session`]). Statements go to the
//! control thread ([`crate::control`]) one at a time, which passes the SQL of statistics users on to another thread
//! ([`readers`]).

mod answer;
mod budget;
mod door;
pub mod listener;
mod login;
mod logins;
pub mod question;
pub mod readers;
pub mod reply;
pub mod request;
mod session;
pub mod settings;
pub mod statement;
mod turns;
mod visitors;
