//! A statement on its way to the control thread, and its sender.

use std::time::Instant;

use narrows_proxy::audit::AuditPeer;
use narrows_proxy::rt::oneshot;

use super::reply::Reply;
use crate::store::{Abandoned, Answer, Role, Warning};

/// The sender of a statement, with the state of its session.
#[derive(Debug)]
pub struct Caller {
    /// The user's role.
    pub role: Role,
    /// The user's name.
    pub user: String,
    /// The client's address.
    pub host: String,
    /// The client's port.
    pub port: u16,
    /// Its connection, if it is one of the admin interface.
    pub connection: Box<AuditPeer>,
    /// Warnings of its last statement.
    pub warnings: Vec<Warning>,
    /// Whether its statement has already been checked, and SQLite accepts it.
    pub is_checked: bool,
    /// Whether its statement has not been interpreted before.
    pub is_first: bool,
}

impl Default for Caller {
    /// Nobody: a placeholder while the caller is with the control thread.
    fn default() -> Caller {
        Caller {
            role: Role::Stats,
            user: String::new(),
            host: String::new(),
            port: 0,
            connection: Box::default(),
            warnings: Vec::new(),
            is_checked: false,
            is_first: true,
        }
    }
}

impl Caller {
    /// Keeps the warnings of an answer, for `SHOW WARNINGS`.
    pub fn keep_warnings(&mut self, reply: &Reply) {
        self.warnings = match reply {
            Reply::Answer(Answer::Done { warnings, .. }) => warnings.clone(),
            Reply::Answer(Answer::Rows(set)) => set.warnings.clone(),
            _ => Vec::new(),
        };
    }
}

/// A statement to be answered.
#[derive(Debug)]
pub struct Request {
    /// The sender of the statement.
    pub caller: Caller,
    /// The statement.
    pub text: Vec<u8>,
    /// When it arrived.
    pub since: Instant,
    /// Signals that nobody waits for the answer any more.
    pub abandoned: Abandoned,
    /// Receives the answer, with the caller.
    pub reply: oneshot::Sender<(Caller, Reply)>,
}
