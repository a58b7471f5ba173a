//! The admin interface: SQL over the MySQL protocol.
//!
//! A thread of its own has the listeners and the sessions ([`listener`], [`login`], [`session`]); statements go to the
//! control thread ([`crate::control`]) one at a time, where [`command`] knows what is more than SQL and [`stats`] fills
//! the tables of figures that a statement reads. SQL of users of statistics goes on from there to a thread of its own
//! ([`readers`]).

pub mod answer;
mod budget;
pub mod command;
pub mod listener;
mod login;
mod logins;
pub mod readers;
mod session;
pub mod settings;
pub mod statement;
pub mod stats;
mod turns;
mod visitors;

use std::time::Instant;

use narrows_proxy::rt::oneshot;

use crate::store::{Abandoned, Role, Warning};
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
    /// Whether SQLite takes its statement: it was asked.
    pub is_checked: bool,
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
    /// Says when nobody waits for the answer any more.
    pub abandoned: Abandoned,
    /// Where the answer goes, with the caller.
    pub reply: oneshot::Sender<(Caller, Reply)>,
}
