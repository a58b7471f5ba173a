//! The admin interface: SQL over the MySQL protocol.
//!
//! A thread of its own has the listeners and the sessions ([`listener`], [`login`], [`session`]); statements go to the
//! control thread ([`crate::control`]) one at a time, where [`command`] knows what is more than SQL and [`stats`] fills
//! the tables of figures that a statement reads.

pub mod answer;
mod budget;
pub mod command;
pub mod listener;
mod login;
mod logins;
mod session;
pub mod settings;
pub mod statement;
pub mod stats;
mod turns;
mod visitors;

use std::time::Instant;

use narrows_proxy::rt::oneshot;

use crate::store::{Role, Warning};
use answer::Reply;

/// Who sends a statement, with what belongs to the session.
#[derive(Debug)]
pub struct Caller {
    /// What it may do.
    pub role: Role,
    /// Its name.
    pub user: String,
    /// From where.
    pub host: String,
    /// From which port.
    pub port: u16,
    /// Warnings of its last statement.
    pub warnings: Vec<Warning>,
}

/// A statement that is to be answered.
#[derive(Debug)]
pub struct Request {
    /// Whose it is.
    pub caller: Caller,
    /// Its text.
    pub text: Vec<u8>,
    /// When it came.
    pub since: Instant,
    /// Where the answer goes, with the caller.
    pub reply: oneshot::Sender<(Caller, Reply)>,
}
