//! The right and the duty to fetch an answer, and the messages between the holder and the owner of the key. However a
//! fetch ends, the clients waiting for it are notified: dropping a ticket means that its holder has left.

use std::sync::Arc;

use super::Shared;
use super::answer::Answer;
use super::entry::{Entry, Life};
use super::key::Key;
use crate::rt::{Instant, oneshot};

/// Messages to the owner of a key. A mailbox contains at most one request for each session that waits for an answer, a
/// landing for each of these, and [`MOST_UNASKED`](super::MOST_UNASKED) landings that nobody waits for.
#[derive(Debug)]
pub enum Delivery {
    /// Requests an answer.
    Ask {
        /// The key of the answer.
        key: Key,
        /// The time of the request.
        now: Instant,
        /// Receives the reply.
        reply: oneshot::Sender<Reply>,
    },
    /// Reports the outcome of a fetch.
    Landed {
        /// The key of the answer.
        key: Key,
        /// The number of the flight, if other clients wait for it.
        flight: Option<u64>,
        /// The outcome.
        landing: Landing,
    },
}

/// The outcome of a flight.
#[derive(Debug)]
pub enum Landing {
    /// Cache this entry: an answer, or the information that none can be cached.
    Keep(Arc<Entry>),
    /// The statement has failed.
    Failed,
    /// The client that was fetching it has disconnected.
    Left,
}

/// The reply to a request.
#[derive(Debug)]
pub enum Reply {
    /// An answer, which may be slightly old for those that waited; or that none is cached.
    Entry(Arc<Entry>),
    /// Run the statement; other clients wait for its answer.
    Lead(Ticket),
    /// Run the statement without the cache, because it keeps failing.
    Alone(Ticket),
}

/// The right to fetch an answer.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    key: Key,
    /// The flush after which the holder requested the answer.
    generation: u64,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// Other clients wait for the flight with this number.
    Leads(u64),
    /// Other clients receive this entry in the meantime.
    Renews(Arc<Entry>),
    /// No client waits.
    Alone,
}

impl Ticket {
    pub(super) fn to_lead(shared: Arc<Shared>, generation: u64, key: Key, flight: u64) -> Ticket {
        Ticket { shared, key, generation, role: Role::Leads(flight) }
    }

    pub(super) fn to_renew(shared: Arc<Shared>, generation: u64, entry: Arc<Entry>) -> Ticket {
        Ticket { shared, key: entry.key, generation, role: Role::Renews(entry) }
    }

    pub(super) fn alone(shared: Arc<Shared>, generation: u64, key: Key) -> Ticket {
        Ticket { shared, key, generation, role: Role::Alone }
    }

    /// Reports the answer; `None` if it cannot be cached, and nobody must wait for the next one.
    pub fn keep(mut self, answer: Option<Answer>, life: Life) {
        let role = std::mem::replace(&mut self.role, Role::Alone);
        // The entry that other clients receive in the meantime is better than none.
        if let Role::Renews(entry) = &role
            && answer.is_none()
        {
            return entry.unclaim();
        }
        let flight = if let Role::Leads(flight) = role { Some(flight) } else { None };
        if flight.is_none() && !self.shared.may_land() {
            if let Role::Renews(entry) = role {
                entry.unclaim();
            }
            return;
        }
        let entry = Entry::new(self.key, answer, life, self.generation);
        self.tell(flight, Landing::Keep(Arc::new(entry)));
    }

    /// Reports that the statement has failed.
    pub fn fail(mut self) {
        match std::mem::replace(&mut self.role, Role::Alone) {
            Role::Leads(flight) => self.tell(Some(flight), Landing::Failed),
            Role::Renews(entry) => entry.unclaim(),
            Role::Alone => {}
        }
    }

    /// Releases the waiting clients: one of them takes over. The answer may still be cached.
    pub fn leave(&mut self) {
        match std::mem::replace(&mut self.role, Role::Alone) {
            Role::Leads(flight) => self.tell(Some(flight), Landing::Left),
            Role::Renews(entry) => entry.unclaim(),
            Role::Alone => {}
        }
    }

    /// Discards a ticket that was never used.
    pub(super) fn tear_up(mut self) {
        self.role = Role::Alone;
    }

    /// The state shared by all workers' caches.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Sends a message, even to the current worker, which may be in the middle of changing its shard.
    fn tell(&self, flight: Option<u64>, landing: Landing) {
        self.shared.deliver(self.key, Delivery::Landed { key: self.key, flight, landing });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}
