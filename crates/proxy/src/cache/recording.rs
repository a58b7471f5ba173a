//! An answer on its way to a client and into the cache.

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

/// Takes down what a client is sent.
#[derive(Debug)]
pub struct Recording {
    /// `None`: it was given up.
    ticket: Option<Ticket>,
    packets: Vec<u8>,
    ttl: Duration,
    soft_pct: u32,
    /// Bytes at most: of one answer, and of all that are recorded at the same time.
    longest: usize,
    all: usize,
}

impl Recording {
    /// Begins to record what `ticket` is for.
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

    /// Takes down what is sent. An answer that grows too long is given up, and nobody waits for it any longer.
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
            // There are too many of them just now, which says nothing of this one: another client may have better luck.
            self.take_packets();
            self.ticket = None;
        }
    }

    /// The client does not read: nobody else is to wait for that.
    pub fn leave(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            ticket.leave();
        }
    }

    /// The answer is complete, as a client with these capabilities gets it, and may be kept.
    pub fn keep(mut self, capabilities: Capabilities, family: Family) {
        let packets = self.take_packets();
        let Some(ticket) = self.ticket.take() else { return };
        let answer = Answer::of_packets(packets, capabilities, family);
        let life = self.life(answer.is_some());
        ticket.keep(answer, life);
    }

    /// It is complete and must not be kept.
    pub fn refuse(mut self) {
        self.give_up();
    }

    /// The statement has failed.
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

/// How long it is remembered that an answer could not be kept. The next one may be; meanwhile nobody waits for another.
const WITHOUT_ANSWER: Duration = Duration::from_secs(10);
