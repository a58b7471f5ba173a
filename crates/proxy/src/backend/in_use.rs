//! Connections in use, and one worker's counters for one server.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::figures::{Histogram, ServerTiming, Tally};
use crate::hostgroup::{Latency, Load};
use crate::rt::Instant;

/// One worker's counters for one server. Cells: no other thread accesses them.
#[derive(Debug, Default)]
pub struct ServerTally {
    used: Cell<u64>,
    most_used: Cell<u64>,
    counts: RefCell<Tally>,
    latency: Latency,
    connects: Histogram,
    first_bytes: Histogram,
    answers: Histogram,
}

/// A connection in use: counted from its lease until it is returned or dropped.
#[derive(Debug)]
pub struct InUse {
    tally: Rc<ServerTally>,
    /// When it was leased,
    since: Instant,
    /// and how many others were in use.
    beside: u64,
}

impl ServerTally {
    /// Changes the counts.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.counts.borrow_mut());
    }

    /// Connections in use, now.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// The most of them at once.
    pub fn most_used(&self) -> u64 {
        self.most_used.get()
    }

    /// The counters.
    pub fn counts(&self) -> Tally {
        *self.counts.borrow()
    }

    /// Takes the counters, and resets them.
    pub fn take_counts(&self) -> Tally {
        self.counts.take()
    }

    /// A connection was opened, which took so long.
    pub fn connected(&self, time: Duration) {
        self.count(|tally| tally.connected += 1);
        self.connects.add(time);
    }

    /// How long the server takes.
    pub fn timing(&self) -> ServerTiming {
        ServerTiming {
            connects: self.connects.durations(),
            first_bytes: self.first_bytes.durations(),
            answers: self.answers.durations(),
        }
    }

    /// Resets the maximum in use at once.
    pub fn forget_most_used(&self) {
        self.most_used.set(self.used.get());
    }

    /// This worker's load on the server.
    pub fn load(&self, now: Instant) -> Load {
        let (latency_us, beside) = self.latency.at(now);
        Load { outstanding: self.used.get(), latency_us, beside }
    }
}

impl InUse {
    /// One more connection is in use, since `since`.
    pub fn new(tally: Rc<ServerTally>, since: Instant) -> InUse {
        let used = tally.used.get() + 1;
        tally.used.set(used);
        tally.most_used.set(tally.most_used.get().max(used));
        InUse { tally, since, beside: used - 1 }
    }

    /// Changes the counters of the connection's server.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        self.tally.count(change);
    }

    /// A command that arrived at `came` was answered at `now`. `first_byte` is when the answer began, if not at the same
    /// time. The time of a long answer depends on its reader, so it says nothing about the load of the server.
    pub fn answered(&self, came: Instant, first_byte: Option<Instant>, now: Instant, is_long: bool) {
        let sent = came.max(self.since);
        self.tally.first_bytes.add(first_byte.unwrap_or(now).saturating_duration_since(sent));
        self.tally.answers.add(now.saturating_duration_since(sent));
        if !is_long {
            self.tally.latency.add(sent, self.beside, now);
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.tally.used.set(self.tally.used.get() - 1);
    }
}
