//! What only the program can do: end the process, and reopen its log.

use std::io;

use crate::admin::reply::Reply;

/// How the process should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Immediately.
    Now,
    /// When clients have disconnected, or the drain timeout has passed.
    Orderly,
    /// Like `Orderly`, and then restart.
    Again,
}

/// The program around the control thread.
pub struct Process {
    /// Reopens the program's log.
    pub reopen_log: Box<dyn Fn() -> io::Result<()> + Send>,
    /// Notified when the process should end.
    pub on_end: Box<dyn Fn(End) + Send>,
}

impl Process {
    /// Ends the process; the client receives no answer.
    pub fn end(&self, end: End) -> Reply {
        (self.on_end)(end);
        Reply::HangUp
    }

    /// Reopens the log.
    pub fn reopen_log(&self) -> Reply {
        match (self.reopen_log)() {
            Ok(()) => Reply::ok(),
            Err(error) => Reply::error(format!("cannot reopen the log: {error}")),
        }
    }
}
