//! A statement on its way to the control thread, and who sends it.

use std::time::Instant;

use narrows_proxy::rt::oneshot;

use super::reply::Reply;
use crate::store::{Abandoned, Answer, Role, Warning};

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

impl Default for Caller {
    /// Nobody: stands where a caller is with the control thread.
    fn default() -> Caller {
        Caller {
            role: Role::Stats,
            user: String::new(),
            host: String::new(),
            port: 0,
            warnings: Vec::new(),
            is_checked: false,
        }
    }
}

impl Caller {
    /// Keeps the warnings of an answer, for `SHOW WARNINGS`.
    pub fn keep_warnings(&mut self, reply: &Reply) {
        self.warnings = match reply {
            Reply::Answer(Answer::Done { warnings, .. }) => warnings.clone(),
            _ => Vec::new(),
        };
    }
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
