//! Records an answer that is being sent to a client, for the cache.

use std::sync::atomic::Ordering;
use std::time::Duration;

use narrows_wire::Capabilities;
use narrows_wire::charset::Family;

use super::answer::Answer;
use super::entry::Life;
use super::recordings;
use super::ticket::Ticket;
use crate::rows::Variables;
use crate::rt::Instant;

/// Records what is sent to a client.
#[derive(Debug)]
pub struct Recording {
    /// `None` if the recording was given up.
    ticket: Option<Ticket>,
    packets: Vec<u8>,
    ttl: Duration,
    soft_pct: u32,
    /// The maximum size of one answer, and of all answers being recorded.
    longest: usize,
    all: usize,
}

impl Recording {
    /// Starts recording the answer for `ticket`.
    pub fn new(ticket: Ticket, ttl: Duration, variables: &Variables) -> Recording {
        Recording {
            ticket: Some(ticket),
            packets: Vec::new(),
            ttl,
            soft_pct: variables.query_cache_soft_ttl_pct,
            longest: variables.threshold_resultset_size.min(recordings(variables)),
            all: recordings(variables),
        }
    }

    /// Records what is sent. An answer that gets too long is given up, and nobody waits for it any longer.
    pub fn add(&mut self, bytes: &[u8]) {
        let Some(ticket) = &self.ticket else { return };
        let before = self.packets.capacity();
        if self.packets.len() + bytes.len() > self.longest {
            return self.give_up();
        }
        self.packets.extend_from_slice(bytes);
        let more = self.packets.capacity() - before;
        let recorded = ticket.shared().recorded.fetch_add(more, Ordering::Relaxed);
        if recorded + more > self.all {
            // There are too many recordings at the moment, which says nothing about this answer: another client may
            // succeed.
            self.take_packets();
            self.ticket = None;
        }
    }

    /// Gives up: the client does not read, and nobody else must wait for that.
    pub fn leave(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            ticket.leave();
        }
    }

    /// Ends a complete answer, in the form for a client with these capabilities, and caches it.
    pub fn keep(mut self, capabilities: Capabilities, family: Family) {
        let packets = self.take_packets();
        let Some(ticket) = self.ticket.take() else { return };
        let answer = Answer::of_packets(packets, capabilities, family);
        let life = self.life(answer.is_some());
        ticket.keep(answer, life);
    }

    /// Ends a complete answer that must not be cached.
    pub fn refuse(mut self) {
        self.give_up();
    }

    /// Ends the recording of a failed statement.
    pub fn fail(mut self) {
        self.take_packets();
        if let Some(ticket) = self.ticket.take() {
            ticket.fail();
        }
    }

    fn give_up(&mut self) {
        self.take_packets();
        let life = self.life(false);
        if let Some(ticket) = self.ticket.take() {
            ticket.keep(None, life);
        }
    }

    fn take_packets(&mut self) -> Vec<u8> {
        let packets = std::mem::take(&mut self.packets);
        if let Some(ticket) = &self.ticket {
            ticket.shared().recorded.fetch_sub(packets.capacity(), Ordering::Relaxed);
        }
        packets
    }

    fn life(&self, kept: bool) -> Life {
        match kept {
            true => Life::new(Instant::now(), self.ttl, self.soft_pct),
            false => Life::new(Instant::now(), self.ttl.min(WITHOUT_ANSWER), 0),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.take_packets();
    }
}

/// How long it is remembered that an answer could not be cached. The next answer may be cacheable; until then nobody
/// waits.
const WITHOUT_ANSWER: Duration = Duration::from_secs(10);
