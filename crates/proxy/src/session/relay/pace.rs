//! Clients that read an answer more slowly than the server sends it, or whose throughput is limited.

use std::time::Duration;

use super::super::End;
use super::super::cached::PATIENCE;
use super::super::connection::{Client, FOREVER};
use super::super::outcome::Broken;
use super::Relay;
use crate::rt::{Instant, select, sleep};

impl Relay<'_> {
    /// Waits until the client may be sent what is ready (`throttle_max_bytes_per_second_to_client`).
    pub(super) async fn throttle(&mut self) -> Result<(), Broken> {
        let session = self.session;
        let now = Instant::now();
        let due = session.client.throttled_until.get().map_or(now, |until| until.max(now));
        let bytes = self.ready_bytes().len() as f64;
        let takes = Duration::from_secs_f64(bytes / self.answering.throttle as f64);
        session.client.throttled_until.set(Some(due + takes));
        loop {
            select! {
                biased;
                () = sleep(due.saturating_duration_since(Instant::now())) => return Ok(()),
                reason = session.client.interrupted() => self.interrupted(reason)?,
                () = self.request.client_gone(&session.client.stream) => return Err(Broken::Session(End::Gone)),
            }
        }
    }

    /// Writes the rest of the ready bytes to a client that does not read them at once.
    pub(super) async fn flush_rest(&mut self, mut written: usize) -> Result<(), Broken> {
        let session = self.session;
        let limit = session.client.limit(Client::Takes, true);
        let mut patience = if session.is_recording() { PATIENCE } else { FOREVER };
        loop {
            let began = Instant::now();
            let wait = session.client.pace().left(limit);
            let late = select! {
                biased;
                ready = session.client.stream.writable() => {
                    ready.map_err(|_| Broken::Session(End::Gone))?;
                    false
                }
                reason = session.client.interrupted() => {
                    self.interrupted(reason).map_err(Broken::unread)?;
                    false
                }
                () = sleep(wait.min(patience)) => true,
            };
            session.client.waited(began.elapsed());
            if late && patience < wait {
                session.stop_recording();
                patience = FOREVER;
            } else if late {
                let text = session.client.stall(Client::Takes, limit);
                return Err(Broken::Session(End::ErrorSent(text)));
            }
            let bytes = self.ready_bytes();
            let mut rest = bytes.get(written..).unwrap_or_default();
            let before = rest.len() + session.client.stream.backlog();
            let done = session.client.stream.try_write_all(&mut rest);
            let done = done.map_err(|_| Broken::Session(End::Gone))?;
            session.client.moved(before.saturating_sub(rest.len() + session.client.stream.backlog()));
            written = bytes.len() - rest.len();
            if done {
                return Ok(());
            }
        }
    }
}
