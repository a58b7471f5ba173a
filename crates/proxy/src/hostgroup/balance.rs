//! The choice among the servers of a hostgroup: in turn, by weight, which is exact in the long run; but a server that
//! is far busier than another for its weight, or answers far more slowly, yields its turn.
//!
//! Load is the number of this worker's own connections in use, and latency what this worker has measured. Nothing is
//! shared.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Balance, Server, ServerFigures};
use crate::rt::Instant;

/// One worker's position in the round, per server.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// By identity of the server's figures, which outlive snapshots.
    turns: HashMap<*const ServerFigures, Turn>,
    /// The sum of the weights by which they are counted.
    total: f64,
}

/// A server's account, in weights.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// Among those that take turns: the one with the most is next.
    credit: f64,
    /// What it gains in the current turn.
    gain: f64,
    /// What it missed while it had no connection left, or cost too much.
    owed: f64,
    /// How often another server had its turn, because it costs this many times as much.
    passed_over: u32,
    ratio: f64,
}

/// A worker's load on a server, and the server's latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Connections in use.
    pub outstanding: u64,
    /// How long a statement takes there, in us,
    pub latency_us: f64,
    /// with this many other connections in use.
    pub beside: f64,
}

impl Load {
    /// The estimated wait of one more statement. `share`: the server's share of statements by weight, relative to what
    /// it would be with equal weights.
    fn cost(self, share: f64) -> f64 {
        let crowd = |others: f64| 1.0 + others / (share * AT_ONCE);
        // Time that statements waited for each other is not the server's fault.
        (self.latency_us / crowd(self.beside) + FASTEST_US) * crowd(self.outstanding as f64)
    }
}

impl RoundRobin {
    /// The next available server of `candidates`, according to `balance`; the others keep their turns for later.
    /// `ready` gives how much of its weight each has, out of [`READY`].
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
    /// weight, the one with the most is chosen, and pays for all. What the others miss is owed to them and paid back
    /// when possible: to keep all proportions, nobody gains in a turn that pays a debt. A server that costs too much is
    /// tried from time to time, the less often the more it costs, because otherwise nobody would notice that it has
    /// recovered.
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

    /// Another server takes the turn of one that costs too much; returns whether that has happened often enough.
    fn is_tried_again(&mut self, server: &Server) -> bool {
        let Some(turn) = self.turns.get_mut(&std::ptr::from_ref(&*server.figures)) else { return false };
        turn.passed_over += 1;
        f64::from(turn.passed_over) >= turn.ratio * TRIED_AGAIN
    }

    /// Weights or servers may have changed: accounts keep their number of turns.
    fn count_by(&mut self, total: f64) {
        let before = std::mem::replace(&mut self.total, total);
        if before != total && before > 0.0 {
            let scale = total / before;
            self.turns
                .values_mut()
                .for_each(|turn| (turn.credit, turn.owed) = (turn.credit * scale, turn.owed * scale));
        }
    }

    /// Forgets servers that are in no snapshot any more.
    pub fn retain(&mut self, alive: impl Fn(*const ServerFigures) -> bool) {
        self.turns.retain(|server, _| alive(*server));
    }
}

/// The one with more; of equals, the first.
fn richer<'a>(
    before: Option<(&'a Arc<Server>, f64)>,
    next: (&'a Arc<Server>, f64),
) -> Option<(&'a Arc<Server>, f64)> {
    before.filter(|before| before.1 >= next.1).or(Some(next))
}

/// One of them at random, by weight.
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

/// How much of its weight a server has this long after it came back: it starts with cold caches and no connections, and
/// full load at once might take it down again.
pub fn readiness(age: Duration) -> u32 {
    let part = age.as_secs_f64() / GRADUALLY.as_secs_f64();
    ((part * f64::from(READY)) as u32).clamp(1, READY)
}

/// A server's full weight, in the units of [`readiness`].
pub const READY: u32 = 16;

/// The time in which a server that has come back gets all of its weight.
const GRADUALLY: Duration = Duration::from_secs(10);

/// How long statements take at a server: a moving average that fades, so that a server that was slow is tried again.
#[derive(Debug, Default)]
pub struct Latency {
    average: Cell<Option<Average>>,
    /// When it last rose.
    risen: Cell<Option<Instant>>,
}

#[derive(Debug, Clone, Copy)]
struct Average {
    us: f64,
    beside: f64,
    at: Instant,
}

impl Latency {
    /// A statement that started at `begun`, with `beside` others in use, was answered at `now`. A single very slow one,
    /// which happens everywhere, moves the average a little; several in a row move it fully. Statements that waited
    /// together do not: a server that stalls for a moment delays everything it has, and is as fast as ever after that.
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

    /// The average at `now`, in us, and how many others were in use; zeros if nothing is known.
    pub fn at(&self, now: Instant) -> (f64, f64) {
        let Some(Average { us, beside, at }) = self.average.get() else { return (0.0, 0.0) };
        let age = now.saturating_duration_since(at);
        // Most are read while they are fresh, and powers are expensive.
        (if age < FRESH { us } else { us * (-age.as_secs_f64() / HALF_LIFE_S).exp2() }, beside)
    }
}

/// How many times as expensive as another a server may be and still get its turn: equal servers differ by up to this
/// from one moment to the next.
const PATIENCE: f64 = 4.0;

/// A server that costs N times as much as another is tried again after it was skipped this many times N: these trials
/// take no more than a thirtieth of all time.
const TRIED_AGAIN: f64 = 32.0;

/// How many statements a server can run at the same time without slowing down. Small differences in load between
/// servers are random, and should not override weights.
const AT_ONCE: f64 = 3.0;

/// Latencies far below this differ by chance: a round trip between two machines.
const FASTEST_US: f64 = 200.0;

/// For how many rounds a server that was skipped, or had no connection left, is owed its turns: some seconds of a busy
/// worker. On an overloaded machine a server may stall for that long, which must not affect the long-term shares; an
/// hour's outage may.
const MOST_OWED: f64 = 10_000.0;

/// The maximum weight of a single statement, as a multiple of the average.
const MOST_RISE: f64 = 4.0;

/// A statement's share in the average. All faster ones count, and of slower ones one per round trip. On an overloaded
/// machine some statements wait for a CPU, on one server now and on another later; servers are distinguished by the
/// latency of their fast statements.
const RISING: f64 = 0.25;
const FALLING: f64 = 0.25;

/// The half-life of a latency: a server with 50 ms is tried again after some seconds.
const HALF_LIFE_S: f64 = 1.0;

/// The age up to which a latency is used unchanged.
const FRESH: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{ServerRow, server};
    use crate::tls::SharedTls;

    const IDLE: Load = Load { outstanding: 0, latency_us: 100.0, beside: 0.0 };

    fn servers(weights: [(&str, u32); 3]) -> Vec<Arc<Server>> {
        let server = |(name, weight)| {
            let mut row = server(0, name, 3306);
            row.weight = weight;
            Arc::new(Server::new(row, SharedTls::default()))
        };
        weights.map(server).into()
    }

    /// How many of 1,000 turns each server has, under these loads.
    fn turns(servers: &[Arc<Server>], load: impl Fn(&Server) -> Load) -> HashMap<String, u32> {
        let mut round = RoundRobin::default();
        let mut turns = HashMap::new();
        for _ in 0..1_000 {
            let chosen =
                round.next(Balance::LeastOutstanding, servers.iter(), |_| true, |_| READY, &load).unwrap();
            *turns.entry(chosen.row.hostname.clone()).or_default() += 1;
        }
        turns
    }

    /// A number that differs from call to call and from run to run in nothing.
    fn chance(seed: &mut u64) -> f64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed >> 11) as f64 / (1u64 << 53) as f64
    }

    /// How many statements each server has answered in ten seconds of `clients` that wait for one answer at a time. How long a
    /// statement takes, `took` tells, in us, from the server, how many others it has there, and chance.
    fn simulate(
        servers: &[Arc<Server>],
        clients: usize,
        took: impl Fn(&Server, u64, f64) -> f64,
    ) -> HashMap<String, usize> {
        simulate_until(servers, clients, 10e6, |server, _, out, chance| took(server, out, chance))
    }

    /// The same for this long, in us; `took` also gets the times at which statements begin.
    fn simulate_until(
        servers: &[Arc<Server>],
        clients: usize,
        end: f64,
        took: impl Fn(&Server, f64, u64, f64) -> f64,
    ) -> HashMap<String, usize> {
        let (begun, mut round, mut seed) = (Instant::now(), RoundRobin::default(), 0x9E37_79B9);
        let names: Vec<&str> = servers.iter().map(|server| server.row.hostname.as_str()).collect();
        let place = |server: &Server| names.iter().position(|name| *name == server.row.hostname).unwrap();
        let figures: Vec<(Cell<u64>, Latency)> = names.iter().map(|_| Default::default()).collect();
        let mut answers = HashMap::new();
        // When each client gets its answer, in us, from whom, beside how many others, and since when it waits.
        type Wait = (f64, Option<(usize, u64)>, f64);
        let mut waiting: Vec<Wait> = vec![(0.0, None, 0.0); clients];
        loop {
            let next = waiting.iter_mut().min_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
            let (at, now) = (next.0, begun + Duration::from_secs_f64(next.0 / 1e6));
            if at > end {
                return answers;
            }
            if let Some((server, beside)) = next.1 {
                let (out, latency) = &figures[server];
                out.set(out.get() - 1);
                latency.add(begun + Duration::from_secs_f64(next.2 / 1e6), beside, now);
                *answers.entry(names[server].to_owned()).or_default() += 1;
            }
            let load = |server: &Server| {
                let (out, latency) = &figures[place(server)];
                let (latency_us, beside) = latency.at(now);
                Load { outstanding: out.get(), latency_us, beside }
            };
            let server =
                round.next(Balance::LeastOutstanding, servers.iter(), |_| true, |_| READY, load).unwrap();
            let index = place(server);
            let out = &figures[index].0;
            out.set(out.get() + 1);
            *next = (at + took(server, at, out.get(), chance(&mut seed)), Some((index, out.get() - 1)), at);
        }
    }

    /// Servers that are equal, on a machine that has more to do than it can: most statements are quick, some wait for their
    /// turn on a processor, and what a server has at the same time makes each slower.
    fn crowded(_: &Server, out: u64, chance: f64) -> f64 {
        let turn = if chance < 0.02 {
            40_000.0
        } else if chance < 0.2 {
            5_000.0
        } else {
            0.0
        };
        100.0 + 40.0 * out as f64 + turn * chance * 10.0
    }

    #[test]
    fn equal_servers_have_equal_shares_however_uneven_their_answers_are() {
        for clients in [2, 8, 64, 256] {
            let servers = servers([("a", 1), ("b", 1), ("c", 1)]);
            let shares = simulate(&servers, clients, crowded);
            let all: usize = shares.values().sum();
            println!("{clients} clients: {shares:?}");
            assert!(
                shares.values().all(|share| share.abs_diff(all / 3) <= all / 50),
                "{clients}: {shares:?}"
            );
        }
    }

    /// When a server stands still, in us, within `end`: for up to four seconds at a time, as processes do on a machine with far
    /// more of them than processors.
    fn stalls(end: f64, seed: &mut u64) -> Vec<(f64, f64)> {
        let (mut stalls, mut at) = (Vec::new(), 0.0);
        while at < end {
            let from = at - 500_000.0 * (1.0 - chance(seed)).ln();
            at = from + 4e6 * chance(seed) * chance(seed);
            stalls.push((from, at));
        }
        stalls
    }

    #[test]
    fn servers_that_stand_still_in_turn_have_equal_shares() {
        let end = 60e6;
        for seed in [1, 2, 3] {
            let servers = servers([("a", 1), ("b", 1), ("c", 1)]);
            let mut seed = seed * 0x9E37_79B9;
            let stalls: HashMap<&str, Vec<(f64, f64)>> =
                servers.iter().map(|it| (it.row.hostname.as_str(), stalls(end, &mut seed))).collect();
            let shares = simulate_until(&servers, 64, end, |server, at, out, chance| {
                let mut answered = at + crowded(server, out, chance);
                for (from, to) in &stalls[server.row.hostname.as_str()] {
                    if *to > at && *from < answered {
                        answered += to - from.max(at);
                    }
                }
                answered - at
            });
            let all: usize = shares.values().sum();
            println!("{shares:?}");
            assert!(shares.values().all(|share| share.abs_diff(all / 3) <= all / 20), "{shares:?}");
        }
    }

    #[test]
    fn a_slow_server_has_little_of_the_work_at_any_load() {
        for clients in [1, 8, 64] {
            let servers = servers([("a", 1), ("b", 1), ("c", 1)]);
            let slow = |server: &Server, out, chance| {
                crowded(server, out, chance) + if server.row.hostname == "b" { 50_000.0 } else { 0.0 }
            };
            let shares = simulate(&servers, clients, slow);
            let all: usize = shares.values().sum();
            println!("{clients} clients: {shares:?}");
            assert!((1..all / 20).contains(&shares["b"]), "{clients}: {shares:?}");
        }
    }

    #[test]
    fn a_server_that_has_come_back_does_not_get_all_because_nothing_is_known_of_it() {
        let servers = servers([("a", 1), ("b", 1), ("c", 1)]);
        let mut round = RoundRobin::default();
        let load =
            |it: &Server| Load { latency_us: if it.row.hostname == "b" { 0.0 } else { 20_000.0 }, ..IDLE };
        let ready = |it: &Server| if it.row.hostname == "b" { 1 } else { READY };
        let next = |_| round.next(Balance::LeastOutstanding, servers.iter(), |_| true, ready, load).unwrap();
        let count = (0..3_300).map(next).filter(|server| server.row.hostname == "b").count();
        assert_eq!(count, 100, "a sixteenth of the weight of each of the others");
    }

    #[test]
    fn a_server_that_has_come_back_gets_its_share_little_by_little() {
        let servers = servers([("a", 1), ("b", 1), ("c", 2)]);
        for balance in [Balance::LeastOutstanding, Balance::WeightedRandom] {
            let mut round = RoundRobin::default();
            let shares: Vec<usize> = [0, 2_500, 5_000, 10_000, 60_000]
                .into_iter()
                .map(|age_ms| {
                    let ready = |server: &Server| match server.row.hostname.as_str() {
                        "b" => readiness(Duration::from_millis(age_ms)),
                        _ => READY,
                    };
                    let next = |_| round.next(balance, servers.iter(), |_| true, ready, |_| IDLE).unwrap();
                    (0..49_000).map(next).filter(|server| server.row.hostname == "b").count()
                })
                .collect();
            // Of 16 parts it has 1, 4, 8 and all, and the others have 48 together.
            for (share, wanted) in shares.iter().zip([1_000, 3_769, 7_000, 12_250, 12_250]) {
                assert!(share.abs_diff(wanted) < wanted / 5, "{balance:?}: {shares:?}");
            }
        }
    }

    #[test]
    fn weights_are_exact_and_turns_are_spread() {
        let servers = servers([("a", 1), ("b", 2), ("c", 7)]);
        let turns = turns(&servers, |_| IDLE);
        assert_eq!((turns["a"], turns["b"], turns["c"]), (100, 200, 700));
    }

    #[test]
    fn a_server_that_is_far_slower_or_far_busier_gives_way() {
        let servers = servers([("a", 1), ("b", 1), ("c", 1)]);
        for loaded in [Load { latency_us: 50_000.0, ..IDLE }, Load { outstanding: 20, ..IDLE }] {
            let turns = turns(&servers, |it| if it.row.hostname == "b" { loaded } else { IDLE });
            // It is tried again now and then.
            assert!(turns.get("b").is_none_or(|turns| *turns < 10), "{loaded:?}: {turns:?}");
            assert!(turns["a"].abs_diff(turns["c"]) <= 1, "{turns:?}");
        }
    }

    #[test]
    fn a_server_whose_connections_were_all_in_use_is_paid_back() {
        let servers = servers([("a", 1), ("b", 1), ("c", 1)]);
        let (mut round, mut counts) = (RoundRobin::default(), HashMap::<&str, u32>::new());
        for turn in 0..3_000 {
            // In the first half there is something of b with every fourth statement only.
            let is_at_hand = |it: &Server| it.row.hostname != "b" || turn > 1_500 || turn % 4 == 0;
            let balance = Balance::LeastOutstanding;
            let next = round.next(balance, servers.iter(), is_at_hand, |_| READY, |_| IDLE).unwrap();
            assert!(is_at_hand(next));
            *counts.entry(next.row.hostname.as_str()).or_default() += 1;
        }
        assert!(counts.values().all(|count| count.abs_diff(1_000) <= 1), "{counts:?}");
    }

    #[test]
    fn the_others_keep_to_their_weights_while_connections_of_one_are_all_in_use() {
        // Whichever it is, and however long it has been so.
        for (full, one_in) in [("c", u32::MAX), ("c", 20), ("b", 200), ("a", 1_000)] {
            let servers = servers([("a", 1), ("b", 2), ("c", 7)]);
            let (mut round, mut counts) = (RoundRobin::default(), HashMap::<&str, u32>::new());
            for turn in 1..=300_000u32 {
                let is_at_hand = |it: &Server| it.row.hostname != full || turn.is_multiple_of(one_in);
                let balance = Balance::LeastOutstanding;
                let next = round.next(balance, servers.iter(), is_at_hand, |_| READY, |_| IDLE).unwrap();
                *counts.entry(next.row.hostname.as_str()).or_default() += u32::from(turn > 200_000);
            }
            let rounds: Vec<u32> = servers
                .iter()
                .filter(|it| it.row.hostname != full)
                .map(|it| counts[it.row.hostname.as_str()] / it.row.weight)
                .collect();
            assert!(rounds[0].abs_diff(rounds[1]) <= 2, "{full}, one in {one_in}: {counts:?}");
        }
    }

    #[test]
    fn other_weights_count_at_once() {
        let mut round = RoundRobin::default();
        let mut before = servers([("a", 1), ("b", 10_000_000), ("c", 1)]);
        for weights in [[1, 1, 1], [1, 10_000_000, 1], [3, 1, 1]] {
            let mut turns = |servers: &[Arc<Server>], turns: u32| {
                let mut counts = [0; 3];
                for _ in 0..turns {
                    let balance = Balance::LeastOutstanding;
                    let next = round.next(balance, servers.iter(), |_| true, |_| READY, |_| IDLE).unwrap();
                    counts[servers.iter().position(|server| Arc::ptr_eq(server, next)).unwrap()] += 1;
                }
                counts
            };
            turns(&before, 100);
            let after = before.iter().zip(weights).map(|(server, weight)| {
                let row = ServerRow { weight, ..server.row.clone() };
                Arc::new(Server {
                    figures: Arc::clone(&server.figures),
                    ..Server::new(row, SharedTls::default())
                })
            });
            before = after.collect();
            let (counts, total) = (turns(&before, 1_000), weights.iter().sum::<u32>());
            for (count, weight) in counts.into_iter().zip(weights) {
                let wanted = f64::from(weight) / f64::from(total) * 1_000.0;
                assert!((f64::from(count) - wanted).abs() <= 3.0, "{weights:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn who_was_passed_over_is_paid_back_for_a_while_only() {
        let servers = servers([("a", 1), ("b", 1), ("c", 1)]);
        let mut round = RoundRobin::default();
        let slow =
            |it: &Server| if it.row.hostname == "b" { Load { latency_us: 50_000.0, ..IDLE } } else { IDLE };
        for _ in 0..100_000 {
            round.next(Balance::LeastOutstanding, servers.iter(), |_| true, |_| READY, slow);
        }
        let next = (0..90_000).map(|_| {
            round.next(Balance::LeastOutstanding, servers.iter(), |_| true, |_| READY, |_| IDLE).unwrap()
        });
        let count = next.filter(|server| server.row.hostname == "b").count();
        // Its third, and what the 10,000 rounds that are remembered bring it beyond that.
        assert!((39_900..=40_100).contains(&count), "{count}");
    }

    #[test]
    fn one_slow_statement_is_forgiven_and_several_are_not_until_they_are_long_ago() {
        let latency = Latency::default();
        let mut now = Instant::now();
        let mut add = |ms| {
            let begun = now;
            now += Duration::from_millis(ms);
            // All that were held up together count as one.
            (0..20).for_each(|_| latency.add(begun, 0, now));
            (Load { latency_us: latency.at(now).0, ..IDLE }.cost(1.0) / IDLE.cost(1.0), now)
        };
        assert!(add(50).0 < PATIENCE && add(0).0 < PATIENCE);
        let ratios: Vec<(f64, Instant)> = (0..30).map(|_| add(50)).collect();
        assert!(ratios[9].0 > PATIENCE && ratios[29].0 > 50.0, "{ratios:?}");
        assert!(latency.at(ratios[29].1 + Duration::from_secs(10)).0 < 50.0);
    }
}
