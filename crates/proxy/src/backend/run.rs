//! Runs a whole command and reads its answer to the end, of which nothing is kept but what the caller looks at.

use std::time::Duration;

use narrows_wire::frame::HEADER_LENGTH;
use narrows_wire::response::{Expect, Next};
use narrows_wire::{Capabilities, Malformed, Tracker};

use super::{Backend, BackendError, ServerError};
use crate::buffer::Buffer;
use crate::rt::timeout;

impl Backend {
    /// Runs a statement of our own to its end and ignores its result.
    ///
    /// # Errors
    /// The server's, or [`BackendError::Timeout`].
    pub async fn execute(&self, statement: impl AsRef<[u8]>, limit: Duration) -> Result<(), BackendError> {
        let statement = statement.as_ref();
        let mut out = Vec::with_capacity(statement.len() + 8);
        self.put_query(&mut out, statement);
        let mut refused = None;
        let run = self.run(&out, Expect::Result, |_, next, payload| {
            if let Next::Err { .. } = next {
                refused = Some(ServerError::decode(payload));
            }
        });
        timeout(limit, run).await.unwrap_or(Err(BackendError::Timeout))?;
        match refused {
            Some(error) => Err(BackendError::Server(error?)),
            None => Ok(()),
        }
    }

    /// Sends a command and reads its answer to the end. `see` gets the bytes of columns and rows, with the headers of their
    /// packets, then what follows them, and that packet's payload.
    ///
    /// # Errors
    /// If the connection is lost, or the server asks for a file. An error that the server answers is not among them.
    pub async fn run(
        &self,
        command: &[u8],
        expect: Expect,
        mut see: impl FnMut(&[u8], Next, &[u8]),
    ) -> Result<(), BackendError> {
        self.stream.write_all(command).await?;
        let deprecate_eof = self.login.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let mut tracker = Tracker::new(expect, deprecate_eof);
        let mut buffer = Buffer::default();
        loop {
            let walk = tracker.walk(buffer.filled_mut())?;
            let (passed, rest) = buffer.filled().split_at(walk.passed);
            if let Next::LocalInfile { .. } = walk.next {
                return Err(Malformed("unasked request for a file").into());
            }
            let length = walk.next.length();
            see(passed, walk.next, rest.get(HEADER_LENGTH..length).unwrap_or_default());
            buffer.consume(walk.passed + length);
            if tracker.is_done() {
                return Ok(());
            }
            if let Next::More { need } = walk.next {
                buffer.make_room(need);
                if buffer.fill(&self.stream).await? == 0 {
                    return Err(BackendError::Closed);
                }
            }
        }
    }
}
