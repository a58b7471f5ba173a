//! LOAD DATA LOCAL: forwards the client's file to the server.

use narrows_wire::frame::HEADER_LENGTH;
use narrows_wire::{Capabilities, Header};

use super::super::Interrupt;
use super::super::connection::Stop;
use super::super::outcome::Broken;
use super::super::upload::renumber;
use super::Relay;
use crate::buffer::Side;
use crate::rt::select;

impl Relay<'_> {
    /// The server asks for a file: asks the client for it, and forwards it.
    pub(super) async fn local_infile(&mut self, length: usize) -> Result<(), Broken> {
        let may = self.answering.file && self.session.client.capabilities.contains(Capabilities::LOCAL_FILES);
        if !may || !self.session.snapshot().variables.enable_load_data_local_infile {
            return self.refuse_file(length).await;
        }
        // The numbers of the file's packets, as the client counts and as the server does.
        let question = self.packet(length).get(HEADER_LENGTH - 1).copied().unwrap_or_default();
        let mut for_server = question.wrapping_add(1);
        let mut sequence = for_server.wrapping_add(self.tracker.shift());
        let changes = self.session.is_compressed() || sequence != for_server;
        self.pass(length);
        self.flush().await?;
        let session = self.session;
        self.request.consume();
        let mut larger = session.worker.buffers.large(Side::Client);
        let held = self.request.rest_mut();
        larger.append(held.filled());
        session.worker.buffers.give_back(std::mem::replace(held, larger));
        loop {
            self.hold_file(HEADER_LENGTH, sequence).await?;
            let held = self.request.rest_mut();
            let header = Header::decode(held.filled()).expect("four bytes are held");
            if changes {
                renumber(held, for_server);
            }
            self.tracker.continue_after(sequence);
            (for_server, sequence) = (for_server.wrapping_add(1), sequence.wrapping_add(1));
            let mut left = header.packet_length();
            while left > 0 {
                if self.request.rest_mut().is_empty() {
                    self.hold_file(1, sequence).await?;
                }
                let mut held = std::mem::take(self.request.rest_mut());
                let step = held.filled().len().min(left);
                self.give_file(held.filled().get(..step).unwrap_or_default()).await?;
                held.consume(step);
                *self.request.rest_mut() = held;
                left -= step;
            }
            if header.length == 0 {
                return Ok(());
            }
        }
    }

    /// Sends the server an empty file, without asking the client.
    async fn refuse_file(&mut self, length: usize) -> Result<(), Broken> {
        let sequence = self.packet(length).get(HEADER_LENGTH - 1).copied().unwrap_or(1);
        self.set_ready_aside();
        self.buffer.consume(length);
        self.file_refused = true;
        // The client does not receive the request, so the packets of its answer have lower sequence numbers.
        self.tracker.add_shift(u8::MAX - 1);
        self.tracker.continue_after(self.tracker.sequence().wrapping_sub(1));
        let end = Header { length: 0, sequence: sequence.wrapping_add(1) }.encode();
        self.give_file(&end).await
    }

    /// Reads `count` bytes of the client's file.
    async fn hold_file(&mut self, count: usize, sequence: u8) -> Result<(), Broken> {
        loop {
            let session = self.session;
            match session.client.hold_or_stop(self.request.rest_mut(), count, sequence).await {
                Ok(()) => return Ok(()),
                Err(stop) => self.stopped(stop)?,
            }
        }
    }

    /// Sends the server part of the client's file. There is no time limit, because the wait is part of the statement.
    async fn give_file(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let mut rest = bytes;
        loop {
            match self.backend.stream.try_write_all(&mut rest) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(self.gone(error.to_string())),
            }
            select! {
                biased;
                // An error shows when writing.
                _ = self.backend.stream.writable() => {}
                reason = self.session.client.interrupted() => self.interrupted(reason)?,
            }
        }
    }

    /// Handles what has stopped a read of the client's file.
    fn stopped(&mut self, stop: Stop) -> Result<(), Broken> {
        match stop {
            Stop::Killed { timed_out: true } => self.interrupted(Interrupt::QueryTime),
            Stop::Killed { timed_out: false } if self.outcome.kill.is_some() => {
                self.interrupted(Interrupt::KillTime)
            }
            Stop::Killed { timed_out: false } => self.interrupted(Interrupt::KillQuery),
            stop => Err(stop.into()),
        }
    }
}
