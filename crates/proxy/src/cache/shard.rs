//! The part of the cache that one worker owns: entries, and who waits for answers being fetched.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Shared;
use super::entry::Entry;
use super::key::Key;
use super::shelf::Shelf;
use super::ticket::{Delivery, Landing, Reply, Ticket};
use crate::figures::Counters;
use crate::hash::AsTheyAre;
use crate::rt::{Instant, oneshot};

/// One worker's shard.
#[derive(Debug)]
pub struct Shard {
    shared: Arc<Shared>,
    shelf: Shelf,
    flights: HashMap<Key, Flight, AsTheyAre>,
    /// The number of the last flight.
    last: u64,
    sets: u64,
    bytes_in: u64,
    purged: u64,
}

/// An answer that is being fetched.
#[derive(Debug)]
struct Flight {
    /// The number of the flight; 0 if it has not started.
    number: u64,
    generation: u64,
    /// The number of statements that have failed in a row.
    failures: u32,
    waiters: VecDeque<oneshot::Sender<Reply>>,
}

impl Shard {
    /// An empty shard.
    pub fn new(shared: Arc<Shared>) -> Shard {
        Shard {
            shared,
            shelf: Shelf::new(0, Entry::set_gone),
            flights: HashMap::default(),
            last: 0,
            sets: 0,
            bytes_in: 0,
            purged: 0,
        }
    }

    /// Sets its size limit in bytes.
    pub fn resize(&mut self, bytes: usize) {
        self.purged += self.shelf.resize(bytes) as u64;
    }

    /// Passes a valid entry to the function.
    pub fn look(&mut self, key: Key, now: Instant, generation: u64, found: impl FnOnce(&Arc<Entry>)) {
        self.shelf.look(key, now, generation, found);
    }

    /// Replies, immediately or when the answer has been fetched.
    pub fn ask(&mut self, key: Key, now: Instant, reply: oneshot::Sender<Reply>) {
        let generation = self.shared.generation();
        let mut found = None;
        self.shelf.look(key, now, generation, |entry| found = Some(Arc::clone(entry)));
        if let Some(entry) = found {
            // The receiver may have gone away.
            let _ = reply.send(Reply::Entry(entry));
            return;
        }
        let begin = || Flight { number: 0, generation, failures: 0, waiters: VecDeque::new() };
        let mut flight = self.flights.remove(&key).unwrap_or_else(begin);
        flight.waiters.push_back(reply);
        if flight.number > 0 && flight.generation == generation {
            self.flights.insert(key, flight);
        } else {
            // After a flush, answers are fetched again, also for those that were already waiting.
            self.take_off(key, Flight { waiters: flight.waiters, ..begin() });
        }
    }

    /// Handles a message from a worker or a ticket.
    pub fn receive(&mut self, delivery: Delivery, now: Instant) {
        match delivery {
            Delivery::Ask { key, now, reply } => self.ask(key, now, reply),
            Delivery::Landed { key, flight, landing } => {
                if flight.is_none() {
                    self.shared.has_landed();
                }
                self.land(key, flight, landing, now);
            }
        }
    }

    fn land(&mut self, key: Key, number: Option<u64>, landing: Landing, now: Instant) {
        if let Landing::Keep(entry) = &landing {
            self.keep(Arc::clone(entry), now);
        }
        let Some(number) = number else { return };
        let Some(flight) = self.flights.remove(&key) else { return };
        if flight.number != number {
            // Another client has taken it over, or it was restarted after a flush.
            self.flights.insert(key, flight);
            return;
        }
        match landing {
            Landing::Keep(entry) => {
                for waiter in flight.waiters {
                    let _ = waiter.send(Reply::Entry(Arc::clone(&entry)));
                }
            }
            Landing::Failed if flight.failures + 1 >= FAILURES => {
                for waiter in flight.waiters {
                    let ticket = Ticket::alone(Arc::clone(&self.shared), flight.generation, key);
                    let _ = waiter.send(Reply::Alone(ticket));
                }
            }
            Landing::Failed => self.take_off(key, Flight { failures: flight.failures + 1, ..flight }),
            Landing::Left => self.take_off(key, flight),
        }
    }

    /// Makes the longest-waiting client fetch the answer.
    fn take_off(&mut self, key: Key, mut flight: Flight) {
        while let Some(waiter) = flight.waiters.pop_front() {
            self.last += 1;
            flight.number = self.last;
            let ticket = Ticket::to_lead(Arc::clone(&self.shared), flight.generation, key, flight.number);
            match waiter.send(Reply::Lead(ticket)) {
                Ok(()) => {
                    self.flights.insert(key, flight);
                    return;
                }
                // That client no longer waits; its ticket is for a flight that does not take place.
                Err(Reply::Lead(ticket)) => ticket.tear_up(),
                Err(_) => {}
            }
        }
    }

    fn keep(&mut self, entry: Arc<Entry>, now: Instant) {
        if !entry.is_good(now, self.shared.generation()) {
            return;
        }
        if let Some(answer) = entry.answer() {
            self.sets += 1;
            self.bytes_in += answer.bytes() as u64;
        }
        let weight = entry.weight();
        self.purged += self.shelf.insert(entry, weight) as u64;
    }

    /// Drops invalid entries, a few at a time.
    pub fn purge(&mut self, now: Instant, generation: u64) {
        self.purged += self.shelf.purge(PURGED_AT_ONCE, now, generation) as u64;
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.purged += self.shelf.clear() as u64;
    }

    /// Adds its entries and counters.
    pub fn count_into(&self, counters: &mut Counters) {
        counters.query_cache_sets += self.sets;
        counters.query_cache_bytes_in += self.bytes_in;
        counters.query_cache_purged += self.purged;
        counters.query_cache_bytes += self.shelf.weight() as u64;
        counters.query_cache_entries += self.shelf.len() as u64;
    }
}

/// How many statements may fail in a row before all waiting clients run their own. A single failure may be caused by a
/// lost server; after two, all would probably fail, and the last of a thousand would have waited for all others.
const FAILURES: u32 = 2;

/// How many entries are examined at once: less than a millisecond.
const PURGED_AT_ONCE: usize = 4_096;
