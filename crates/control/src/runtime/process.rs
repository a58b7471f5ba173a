//! What only the program can do: end, and open its log again.

use std::io;

use crate::admin::reply::Reply;

/// How the process is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At once.
    Now,
    /// When clients have left, or have had the time to.
    Orderly,
    /// And be started again.
    Again,
}

/// The program around the control thread.
pub struct Process {
    /// Opens the log of the program again.
    pub reopen_log: Box<dyn Fn() -> io::Result<()> + Send>,
    /// Is told when the process is to end.
    pub on_end: Box<dyn Fn(End) + Send>,
}

impl Process {
    /// Ends it; nothing is answered.
    pub fn end(&self, end: End) -> Reply {
        (self.on_end)(end);
        Reply::HangUp
    }

    /// Opens the log again.
    pub fn reopen_log(&self) -> Reply {
        match (self.reopen_log)() {
            Ok(()) => Reply::ok(),
            Err(error) => Reply::error(format!("the log cannot be opened again: {error}")),
        }
    }
}
