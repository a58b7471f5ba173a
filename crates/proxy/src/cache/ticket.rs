//! The right and the duty to fetch an answer, and the messages between its holder and the owner of the key. However a
//! fetch ends, those waiting for it are notified: dropping a ticket means that its holder has left.

use std::sync::Arc;

use super::Shared;
use super::answer::Answer;
use super::entry::{Entry, Life};
use super::key::Key;
use crate::rt::{Instant, oneshot};

/// Messages to the owner of a key. In a mailbox there are as many as sessions that wait for an answer, a landing for
/// each of these, and [`MOST_UNASKED`](super::MOST_UNASKED) landings that nobody waits for.
#[derive(Debug)]
pub enum Delivery {
    /// A request for the answer.
    Ask {
        /// To what.
        key: Key,
        /// When.
        now: Instant,
        /// Where to.
        reply: oneshot::Sender<Reply>,
    },
    /// The outcome of a fetch.
    Landed {
        /// To what.
        key: Key,
        /// The number of the flight, if others wait for it.
        flight: Option<u64>,
        /// What.
        landing: Landing,
    },
}

/// The outcome of a flight.
#[derive(Debug)]
pub enum Landing {
    /// Cache this: an answer, or that none can be cached.
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
    /// Fetch it; others wait.
    Lead(Ticket),
    /// Run the statement without the cache: it keeps failing.
    Alone(Ticket),
}

/// A ticket.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    key: Key,
    /// The flush after which its holder requested the answer.
    generation: u64,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// Others wait for the flight with this number.
    Leads(u64),
    /// Others get this in the meantime.
    Renews(Arc<Entry>),
    /// Nobody waits.
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

    /// This is the answer; or there is one that cannot be cached, and nobody must wait for the next.
    pub fn keep(mut self, answer: Option<Answer>, life: Life) {
        let role = std::mem::replace(&mut self.role, Role::Alone);
        // What others get in the meantime is better than nothing.
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

    /// The statement has failed.
    pub fn fail(mut self) {
        match std::mem::replace(&mut self.role, Role::Alone) {
            Role::Leads(flight) => self.tell(Some(flight), Landing::Failed),
            Role::Renews(entry) => entry.unclaim(),
            Role::Alone => {}
        }
    }

    /// Releases those that wait: one of them takes over. The answer may still be cached.
    pub fn leave(&mut self) {
        match std::mem::replace(&mut self.role, Role::Alone) {
            Role::Leads(flight) => self.tell(Some(flight), Landing::Left),
            Role::Renews(entry) => entry.unclaim(),
            Role::Alone => {}
        }
    }

    /// It was never used.
    pub(super) fn tear_up(mut self) {
        self.role = Role::Alone;
    }

    /// What all workers' caches share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// By message, even to the current worker, which may be in the middle of changing its shard.
    fn tell(&self, flight: Option<u64>, landing: Landing) {
        self.shared.deliver(self.key, Delivery::Landed { key: self.key, flight, landing });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}
