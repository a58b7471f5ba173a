//! Writes a command to a server. Every wait ends with a kill, a deadline, the shutdown of Narrows, or when the server reads
//! nothing for too long.

use super::connection::{Pace, Stop, stop};
use super::request::Request;
use super::{End, Session};
use crate::backend::Backend;
use crate::rt::{select, sleep};

impl Session {
    /// Writes bytes that are not a command, or a command without an answer.
    pub(super) async fn write_to_server(&self, backend: &Backend, bytes: &[u8]) -> Result<(), Stop> {
        let mut rest = bytes;
        match backend.stream.try_write_all(&mut rest) {
            Ok(true) => Ok(()),
            Ok(false) => Box::pin(self.write_rest(backend, None, rest)).await,
            Err(error) => Err(Stop::Closed { text: error.to_string() }),
        }
    }

    /// Sends a whole command: the request, or these bytes instead.
    pub(super) async fn write_command(
        &self,
        backend: &Backend,
        request: &mut Request,
        replaced: Option<&[u8]>,
    ) -> Result<(), Stop> {
        let mut rest = replaced.unwrap_or_else(|| request.packet());
        match backend.stream.try_write_all(&mut rest) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let rest = rest.to_vec();
                Box::pin(self.write_rest(backend, Some(request), &rest)).await
            }
            Err(error) => Err(Stop::Closed { text: error.to_string() }),
        }
    }

    async fn write_rest(
        &self,
        backend: &Backend,
        mut request: Option<&mut Request>,
        mut rest: &[u8],
    ) -> Result<(), Stop> {
        loop {
            self.server_takes(backend, request.as_deref_mut()).await?;
            let written = backend.stream.try_write_all(&mut rest);
            if written.map_err(|error| Stop::Closed { text: error.to_string() })? {
                return Ok(());
            }
        }
    }

    /// Waits until the server can read more of a command.
    pub(super) async fn server_takes(
        &self,
        backend: &Backend,
        request: Option<&mut Request>,
    ) -> Result<(), Stop> {
        let limit = self.snapshot().variables.transfer.stall_timeout_server;
        let client_gone = async {
            match request {
                Some(request) => request.client_gone(&self.client.stream).await,
                None => std::future::pending().await,
            }
        };
        select! {
            biased;
            ready = backend.stream.writable() => {
                ready.map_err(|error| Stop::Closed { text: error.to_string() })?;
            }
            reason = self.client.interrupted() => return Err(stop(reason)),
            () = client_gone => return Err(Stop::End(End::Gone)),
            () = sleep(Pace::default().left(limit)) => {
                self.worker.counters.borrow_mut().stalled_backends += 1;
                let limit = limit.as_millis();
                let text = format!("the server has read nothing of a command for {limit} ms (mysql-stall_timeout_server)");
                return Err(Stop::Stalled { text });
            }
        }
        Ok(())
    }

    /// Whether servers have a limited time to end a killed statement.
    pub(super) fn limits_kills(&self) -> bool {
        !self.snapshot().variables.transfer.kill_timeout_server.is_zero()
    }
}
