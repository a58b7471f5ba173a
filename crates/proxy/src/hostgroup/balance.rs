//! The choice among the servers of a hostgroup: they take turns by weight, which is exact in the long run; but a server
//! that is far busier than another for its weight, or far slower, yields its turn.
//!
//! Load is the number of this worker's own connections in use, and latency is what this worker has measured. Workers
//! share nothing.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Balance, Server, ServerFigures};
use crate::rt::Instant;

/// One worker's accounts of the servers' turns.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// By the address of the server's figures, which outlive snapshots.
    turns: HashMap<*const ServerFigures, Turn>,
    /// The sum of the weights in which turns are counted.
    total: f64,
}

/// A server's account, in weights.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// The credit among servers that take turns: the server with the most is next.
    credit: f64,
    /// The credit that it gains in the current turn.
    gain: f64,
    /// The credit that it missed while it had no connection left, or was too expensive.
    owed: f64,
    /// How often another server got its turn because this one is this many times as expensive.
    passed_over: u32,
    ratio: f64,
}

/// A worker's load on a server, and the server's latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// The number of connections in use.
    pub outstanding: u64,
    /// The average time of a statement there, in us,
    pub latency_us: f64,
    /// with this many other connections in use.
    pub beside: f64,
}

impl Load {
    /// The estimated wait of one more statement. `share` is the server's share of statements by weight, relative to its
    /// share if all weights were equal.
    fn cost(self, share: f64) -> f64 {
        let crowd = |others: f64| 1.0 + others / (share * AT_ONCE);
        // The server is not to blame for the time that statements wait for each other.
        (self.latency_us / crowd(self.beside) + FASTEST_US) * crowd(self.outstanding as f64)
    }
}

impl RoundRobin {
    /// The next available server of `candidates`, according to `balance`; the others keep their turns for later.
    /// `ready` returns how much of its weight a server has, out of [`READY`].
    pub fn next<'a>(
        &mut self,
        balance: Balance,
        candidates: impl Iterator<Item = &'a Arc<Server>> + Clone,
        is_at_hand: impl Fn(&Server) -> bool,
        ready: impl Fn(&Server) -> u32,
        load: impl Fn(&Server) -> Load,
    ) -> Option<&'a Arc<Server>> {
        let mut first_two = candidates.clone();
        if let (Some(only), None) = (first_two.next(), first_two.next()) {
            return is_at_hand(only).then_some(only);
        }
        let weight = |server: &Server| i64::from(server.row.weight) * i64::from(ready(server));
        match balance {
            Balance::LeastOutstanding => {
                let is_ready = |server: &Server| ready(server) == READY;
                self.in_turn(candidates, is_at_hand, is_ready, |server| weight(server) as f64, load)
            }
            Balance::WeightedRandom => by_chance(candidates.filter(|server| is_at_hand(server)), weight),
        }
    }

    /// The available `candidates` that do not cost [`PATIENCE`] times as much as another take turns: each gains its
    /// weight as credit; the one with the most is chosen, and pays for all. The turns that others miss are owed to them
    /// and paid back when possible: to keep all proportions, nobody gains credit in a turn that pays a debt. A server
    /// that costs too much is tried from time to time, less often the more it costs, because otherwise nobody would
    /// notice that it has recovered.
    fn in_turn<'a>(
        &mut self,
        candidates: impl Iterator<Item = &'a Arc<Server>> + Clone,
        is_at_hand: impl Fn(&Server) -> bool,
        is_ready: impl Fn(&Server) -> bool,
        weight: impl Fn(&Server) -> f64,
        load: impl Fn(&Server) -> Load,
    ) -> Option<&'a Arc<Server>> {
        let (mut total, mut count) = (0.0, 0u32);
        candidates.clone().for_each(|server| (total, count) = (total + weight(server), count + 1));
        let cost = |server: &Server| {
            let share = weight(server) * f64::from(count) / total;
            load(server).cost(share)
        };
        let at_hand = candidates.clone().filter(|server| is_at_hand(server));
        // A server that has just come back has no load, and little is known about it: it is not used as a measure for
        // the others.
        let ready = at_hand.clone().filter(|server| is_ready(server));
        let least = ready.map(|server| cost(server)).reduce(f64::min);
        let least = least.or_else(|| at_hand.map(|server| cost(server)).reduce(f64::min))?;
        self.count_by(total);
        let (mut gained, mut next, mut creditor, mut dear) = (0.0, None, None, None);
        for server in candidates {
            let weight = weight(server);
            let ratio = if is_at_hand(server) { cost(server) / least } else { f64::INFINITY };
            let turn = self.turns.entry(Arc::as_ptr(&server.figures)).or_default();
            if ratio <= PATIENCE {
                (turn.gain, gained) = (weight, gained + weight);
                next = richer(next, (server, turn.credit + weight));
                if turn.owed > 0.0 && turn.owed >= total - weight {
                    creditor = richer(creditor, (server, turn.owed));
                }
            } else {
                turn.owed = (turn.owed + weight).min(total * MOST_OWED);
                if ratio.is_finite() {
                    dear = richer(dear, (server, turn.owed));
                    turn.ratio = ratio;
                }
            }
        }
        let dear = dear.and_then(|(server, _)| self.is_tried_again(server).then_some(server));
        match dear.or(creditor.map(|(server, _)| server)) {
            Some(creditor) => {
                self.turns.values_mut().for_each(|turn| turn.gain = 0.0);
                // Part of the turn is its own.
                let debt = total - weight(creditor);
                Some(self.chosen(creditor, |turn| turn.owed = (turn.owed - debt).max(0.0)))
            }
            None => {
                self.turns.values_mut().for_each(|turn| turn.credit += std::mem::take(&mut turn.gain));
                Some(self.chosen(next?.0, |turn| turn.credit -= gained))
            }
        }
    }

    fn chosen<'a>(&mut self, server: &'a Arc<Server>, pay: impl FnOnce(&mut Turn)) -> &'a Arc<Server> {
        let turn = self.turns.entry(Arc::as_ptr(&server.figures)).or_default();
        turn.passed_over = 0;
        pay(turn);
        server
    }

    /// Counts that another server gets the turn of one that costs too much; returns whether that has happened often
    /// enough.
    fn is_tried_again(&mut self, server: &Server) -> bool {
        let Some(turn) = self.turns.get_mut(&std::ptr::from_ref(&*server.figures)) else { return false };
        turn.passed_over += 1;
        f64::from(turn.passed_over) >= turn.ratio * TRIED_AGAIN
    }

    /// Converts the accounts to another total weight, because weights or servers may have changed: servers keep their
    /// turns.
    fn count_by(&mut self, total: f64) {
        let before = std::mem::replace(&mut self.total, total);
        if before != total && before > 0.0 {
            let scale = total / before;
            self.turns
                .values_mut()
                .for_each(|turn| (turn.credit, turn.owed) = (turn.credit * scale, turn.owed * scale));
        }
    }

    /// Forgets servers that are no longer in any snapshot.
    pub fn retain(&mut self, alive: impl Fn(*const ServerFigures) -> bool) {
        self.turns.retain(|server, _| alive(*server));
    }
}

/// The server with more credit; of equals, the first.
fn richer<'a>(
    before: Option<(&'a Arc<Server>, f64)>,
    next: (&'a Arc<Server>, f64),
) -> Option<(&'a Arc<Server>, f64)> {
    before.filter(|before| before.1 >= next.1).or(Some(next))
}

/// One of the candidates at random, by weight.
fn by_chance<'a>(
    mut candidates: impl Iterator<Item = &'a Arc<Server>> + Clone,
    weight: impl Fn(&Server) -> i64,
) -> Option<&'a Arc<Server>> {
    let total: i64 = candidates.clone().map(|server| weight(server)).sum();
    // Without weight there is no candidate.
    let mut point = rand::random_range(0..total.max(1));
    candidates.find(|server| {
        let weight = weight(server);
        let found = point < weight;
        point -= weight;
        found
    })
}

/// How much of its weight a server has this long after it came back, if it gets all of it within `slow_start`: it starts
/// with cold caches and no connections, and full load might take it down again.
pub fn readiness(age: Duration, slow_start: Duration) -> u32 {
    if age >= slow_start {
        return READY;
    }
    let part = age.as_secs_f64() / slow_start.as_secs_f64();
    ((part * f64::from(READY)) as u32).clamp(1, READY)
}

/// The full weight of a server, in the units of [`readiness`].
pub const READY: u32 = 16;

/// How long statements take on a server: a moving average that fades, so that a server that was slow is tried again.
#[derive(Debug, Default)]
pub struct Latency {
    average: Cell<Option<Average>>,
    /// When the average last rose.
    risen: Cell<Option<Instant>>,
}

#[derive(Debug, Clone, Copy)]
struct Average {
    us: f64,
    beside: f64,
    at: Instant,
}

impl Latency {
    /// Records that a statement that started at `begun`, with `beside` others in use, was answered at `now`. A single
    /// slow statement, which can happen anywhere, moves the average a little; several in a row move it fully.
    /// Statements that waited together do not: a server that stalls for a moment delays all of them, and is as fast as
    /// before after that.
    pub fn add(&self, begun: Instant, beside: u64, now: Instant) {
        let (before, beside_before) = self.at(now);
        let taken_us = now.saturating_duration_since(begun).as_secs_f64() * 1e6;
        let part = if taken_us <= before {
            FALLING
        } else if self.risen.get().is_some_and(|risen| begun < risen) {
            return;
        } else {
            self.risen.set(Some(now));
            RISING
        };
        let taken_us = taken_us.min((before + FASTEST_US) * MOST_RISE);
        self.average.set(Some(Average {
            us: before + (taken_us - before) * part,
            beside: beside_before + (beside as f64 - beside_before) * part,
            at: now,
        }));
    }

    /// The average at `now`, in us, and how many other connections were in use; zeros if nothing is known.
    pub fn at(&self, now: Instant) -> (f64, f64) {
        let Some(Average { us, beside, at }) = self.average.get() else { return (0.0, 0.0) };
        let age = now.saturating_duration_since(at);
        // Most averages are read while they are fresh, and powers are expensive.
        (if age < FRESH { us } else { us * (-age.as_secs_f64() / HALF_LIFE_S).exp2() }, beside)
    }
}

/// How many times as expensive as another a server may be and still get its turn: equal servers differ by up to this
/// from one moment to the next.
const PATIENCE: f64 = 4.0;

/// A server that costs N times as much as another is tried again after its turn was skipped this many times N: these
/// attempts take no more than a thirtieth of all time.
const TRIED_AGAIN: f64 = 32.0;

/// How many statements a server can run at the same time without slowing down. Small differences in load between
/// servers are random, and should not override weights.
const AT_ONCE: f64 = 3.0;

/// Latencies far below this differ by chance: it is a round trip between two machines.
const FASTEST_US: f64 = 200.0;

/// For how many rounds a server that was skipped, or had no connection left, is owed its turns: some seconds on a busy
/// worker. On an overloaded machine a server may stall for that long, which must not affect the long-term shares; an
/// hour's outage may.
const MOST_OWED: f64 = 10_000.0;

/// The maximum weight of a single statement, as a multiple of the average.
const MOST_RISE: f64 = 4.0;

/// The share of one statement in the average. All faster statements count, but of slower ones only one per round trip.
/// On an overloaded machine some statements wait for a CPU, on one server now and on another later; servers are
/// distinguished by the latency of their fast statements.
const RISING: f64 = 0.25;
const FALLING: f64 = 0.25;

/// The half-life of a latency: a server with 50 ms is tried again after some seconds.
const HALF_LIFE_S: f64 = 1.0;

/// The age up to which a latency is used unchanged.
const FRESH: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
