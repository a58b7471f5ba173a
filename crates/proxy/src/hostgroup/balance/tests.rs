//! Which server is next, over many turns.

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

/// How many of 1,000 turns each server gets with these loads.
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

/// A pseudo-random number; the sequence is the same in each run.
fn chance(seed: &mut u64) -> f64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 11) as f64 / (1u64 << 53) as f64
}

/// How many statements each server has answered in ten seconds for `clients` that wait for one answer at a time. `took`
/// returns how long a statement takes, in us, from the server, the number of its other statements, and chance.
fn simulate(
    servers: &[Arc<Server>],
    clients: usize,
    took: impl Fn(&Server, u64, f64) -> f64,
) -> HashMap<String, usize> {
    simulate_until(servers, clients, 10e6, |server, _, out, chance| took(server, out, chance))
}

/// The same simulation until `end`, in us; `took` also receives the time at which each statement begins.
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
    // When each client gets its answer, in us, from which server, with how many others, and since when it waits.
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

/// Equal servers on an overloaded machine: most statements are quick, some wait for a CPU, and concurrent statements
/// slow each other down.
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
        assert!(shares.values().all(|share| share.abs_diff(all / 3) <= all / 50), "{clients}: {shares:?}");
    }
}

/// When a server stalls, in us, before `end`: for up to four seconds at a time, as processes do on a machine with far
/// more of them than CPUs.
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
    let load = |it: &Server| Load { latency_us: if it.row.hostname == "b" { 0.0 } else { 20_000.0 }, ..IDLE };
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
                    "b" => readiness(Duration::from_millis(age_ms), Duration::from_secs(10)),
                    _ => READY,
                };
                let next = |_| round.next(balance, servers.iter(), |_| true, ready, |_| IDLE).unwrap();
                (0..49_000).map(next).filter(|server| server.row.hostname == "b").count()
            })
            .collect();
        // Of 16 parts it has 1, 4, 8 and all; the others have 48 together.
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
        // In the first half, b is available for every fourth statement only.
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
    // The result does not depend on which server it is, or for how long.
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
    // A third of the turns, and what the 10,000 remembered rounds add to that.
    assert!((39_900..=40_100).contains(&count), "{count}");
}

#[test]
fn one_slow_statement_is_forgiven_and_several_are_not_until_they_are_long_ago() {
    let latency = Latency::default();
    let mut now = Instant::now();
    let mut add = |ms| {
        let begun = now;
        now += Duration::from_millis(ms);
        // All statements that were delayed together count as one.
        (0..20).for_each(|_| latency.add(begun, 0, now));
        (Load { latency_us: latency.at(now).0, ..IDLE }.cost(1.0) / IDLE.cost(1.0), now)
    };
    assert!(add(50).0 < PATIENCE && add(0).0 < PATIENCE);
    let ratios: Vec<(f64, Instant)> = (0..30).map(|_| add(50)).collect();
    assert!(ratios[9].0 > PATIENCE && ratios[29].0 > 50.0, "{ratios:?}");
    assert!(latency.at(ratios[29].1 + Duration::from_secs(10)).0 < 50.0);
}
