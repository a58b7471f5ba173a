//! Entries within a size limit. The least used are evicted, and a scan does not evict what is used: S3-FIFO ("FIFO
//! queues are all you need for cache eviction", SOSP 2023).
//!
//! ```text
//!            known among the ghosts ──► main ──┬─ used since: once more round
//! insert ──┤                             ▲     └─ not: gone
//!            else ──► small (a tenth) ───┼─ used twice or more
//!                                        └─ else: gone, its key stays among the ghosts
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::entry::Entry;
use super::key::Key;
use crate::hash::AsTheyAre;
use crate::rt::Instant;

/// Entries by key.
#[derive(Debug)]
pub struct Shelf {
    nodes: HashMap<Key, Node, AsTheyAre>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    budget: usize,
    /// The number of the last node.
    last: u64,
    /// Where [`Shelf::purge`] continues.
    purged: usize,
    /// Called for every entry that is removed.
    dropped: fn(&Entry),
}

#[derive(Debug)]
struct Node {
    entry: Arc<Entry>,
    weight: usize,
    /// Distinguishes a node from an earlier one with the same key, whose place in a queue may remain.
    number: u64,
    in_main: bool,
}

/// Keys in the order of insertion. Places of nodes that were removed elsewhere are skipped.
#[derive(Debug, Default)]
struct Queue {
    places: VecDeque<(Key, u64)>,
    weight: usize,
}

/// Keys of entries that were evicted without having been used.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<Key>,
    known: HashSet<Key, AsTheyAre>,
}

impl Shelf {
    /// An empty shelf. `dropped` is called for every entry that is removed.
    pub fn new(budget: usize, dropped: fn(&Entry)) -> Shelf {
        Shelf {
            nodes: HashMap::default(),
            small: Queue::default(),
            main: Queue::default(),
            ghosts: Ghosts::default(),
            budget,
            last: 0,
            purged: 0,
            dropped,
        }
    }

    /// The total weight of its entries.
    pub fn weight(&self) -> usize {
        self.small.weight + self.main.weight
    }

    /// The number of its entries.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Sets the limit; returns how many entries were evicted.
    pub fn resize(&mut self, budget: usize) -> usize {
        self.budget = budget;
        self.make_room()
    }

    /// Passes a valid entry to `found`, and counts that as a use. An invalid one is removed.
    pub fn look(&mut self, key: Key, now: Instant, generation: u64, found: impl FnOnce(&Arc<Entry>)) {
        let Some(node) = self.nodes.get(&key) else { return };
        if node.entry.is_good(now, generation) {
            node.entry.count_use();
            found(&node.entry);
        } else {
            self.remove(key);
        }
    }

    /// Inserts an entry, replacing one with the same key; returns how many others were evicted.
    pub fn insert(&mut self, entry: Arc<Entry>, weight: usize) -> usize {
        if weight > self.budget {
            return usize::from(self.remove(entry.key));
        }
        if let Some(node) = self.nodes.get_mut(&entry.key) {
            if Arc::ptr_eq(&node.entry, &entry) {
                return 0;
            }
            entry.set_uses(entry.uses().max(node.entry.uses()));
            let queue = if node.in_main { &mut self.main } else { &mut self.small };
            queue.weight = queue.weight + weight - node.weight;
            node.weight = weight;
            let before = std::mem::replace(&mut node.entry, entry);
            (self.dropped)(&before);
            return self.make_room();
        }
        let in_main = self.ghosts.take(entry.key);
        self.last += 1;
        let place = (entry.key, self.last);
        let queue = if in_main { &mut self.main } else { &mut self.small };
        queue.places.push_back(place);
        queue.weight += weight;
        self.nodes.insert(place.0, Node { entry, weight, number: place.1, in_main });
        self.make_room()
    }

    /// Examines the next `most` places, and drops invalid entries; returns how many.
    pub fn purge(&mut self, most: usize, now: Instant, generation: u64) -> usize {
        let mut gone = 0;
        for _ in 0..most.min(self.small.places.len() + self.main.places.len()) {
            let small = self.small.places.len();
            let all = small + self.main.places.len();
            let at = self.purged % all;
            self.purged = at + 1;
            let place = if at < small { self.small.places.get(at) } else { self.main.places.get(at - small) };
            let Some(&(key, number)) = place else { continue };
            let bad = |node: &Node| node.number == number && !node.entry.is_good(now, generation);
            if self.nodes.get(&key).is_some_and(bad) {
                self.remove(key);
                gone += 1;
            }
        }
        self.compact();
        gone
    }

    /// Drops everything; returns the number of entries.
    pub fn clear(&mut self) -> usize {
        let gone = self.nodes.len();
        self.nodes.values().for_each(|node| (self.dropped)(&node.entry));
        *self = Shelf::new(self.budget, self.dropped);
        gone
    }

    fn remove(&mut self, key: Key) -> bool {
        let Some(node) = self.nodes.remove(&key) else { return false };
        let queue = if node.in_main { &mut self.main } else { &mut self.small };
        queue.weight -= node.weight;
        (self.dropped)(&node.entry);
        true
    }

    /// Evicts the least used entries until the limit is met; returns how many.
    fn make_room(&mut self) -> usize {
        let mut gone = 0;
        while self.weight() > self.budget {
            let from_small = self.small.weight > self.budget / 10 || self.main.weight == 0;
            gone += usize::from(if from_small { self.leave_small() } else { self.go_round_main() });
        }
        self.compact();
        gone
    }

    /// Evicts the oldest entry of the small queue, or moves it to the main one; returns whether it was evicted.
    fn leave_small(&mut self) -> bool {
        let Some((key, number)) = self.small.places.pop_front() else { return false };
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.number == number) else { return false };
        if node.entry.uses() > 1 {
            node.entry.set_uses(0);
            node.in_main = true;
            self.small.weight -= node.weight;
            self.main.weight += node.weight;
            self.main.places.push_back((key, number));
            return false;
        }
        self.remove(key);
        self.ghosts.add(key, self.nodes.len());
        true
    }

    /// Evicts the oldest entry of the main queue, or requeues it; returns whether it was evicted.
    fn go_round_main(&mut self) -> bool {
        let Some((key, number)) = self.main.places.pop_front() else { return false };
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.number == number) else { return false };
        let uses = node.entry.uses();
        if uses > 0 {
            node.entry.set_uses(uses - 1);
            self.main.places.push_back((key, number));
            return false;
        }
        self.remove(key)
    }

    /// Removes places whose nodes are gone, once they are as many as the others.
    fn compact(&mut self) {
        let places = self.small.places.len() + self.main.places.len();
        if places <= 2 * self.nodes.len() + SPARE_PLACES {
            return;
        }
        for queue in [&mut self.small, &mut self.main] {
            queue
                .places
                .retain(|(key, number)| self.nodes.get(key).is_some_and(|node| node.number == *number));
        }
    }
}

impl Ghosts {
    /// Adds a key; as many keys are remembered as there are entries.
    fn add(&mut self, key: Key, most: usize) {
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        while self.order.len() > most.max(LEAST_GHOSTS) {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Whether a key is known; it is then forgotten. Its place in the order expires by itself.
    fn take(&mut self, key: Key) -> bool {
        self.known.remove(&key)
    }
}

/// How many places without a node may remain.
const SPARE_PLACES: usize = 64;

/// The minimum number of keys to remember.
const LEAST_GHOSTS: usize = 64;
