//! Everything that can happen to a cluster, under clients and sysbench that never stop: nodes that die, hang, are cut off
//! from each other, from Narrows or from all, give their data to others, are taken out by an operator, and change roles.
//!
//! What must hold: no write runs on a node that Narrows has replaced as the writer before that write began; no answer is wrong;
//! no acknowledged write is lost; clients write again within two check intervals of the moment at which the cluster itself can
//! be written to, which clients of the nodes measure; and a planned change has no error at all,
//! but for a transaction that has read on the primary of a group before that moved, and then writes (1290).
//!
//! The short form is the same each time. `NARROWS_CLUSTER_CHAOS=long` has `NARROWS_CLUSTER_EVENTS` (300) random events;
//! `NARROWS_SEED` repeats their order, `NARROWS_CLUSTER_ONLY` is a word in the names of those that may happen, and
//! `NARROWS_CLUSTER_INTERVAL` is the interval of checks in ms (500).

mod events;
mod probes;
mod stage;
mod table;
mod tenures;
mod verdict;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use narrows_testkit::{Cluster, Flavour, Network};

use crate::chaos::random::Random;
use events::{EVENTS, Event, Kind, SHORT_GALERA, SHORT_GROUP, Victim};
use stage::Stage;
use table::{Row, Table};
use verdict::{Verdict, Window};

#[test]
fn clients_go_on_whatever_happens_to_a_galera_cluster() {
    if !Cluster::has_galera() {
        println!("not tested: galera-4 or rsync is not installed");
        return;
    }
    run(Kind::Galera, &SHORT_GALERA);
}

#[test]
fn clients_go_on_whatever_happens_to_a_group() {
    Flavour::MySql9.if_tested(|_| run(Kind::Group, &SHORT_GROUP));
}

/// Runs events, the short form or random ones, and judges what clients have seen.
fn run(kind: Kind, short: &[(&str, Victim)]) {
    let network = Network::new(3);
    let network = network.inspect_err(|why| eprintln!("SKIPPED: no node is cut off here: {why}")).ok();
    let mut stage = Stage::start(kind, network);
    let mut table = Table::default();
    let (mut defects, mut windows) = (Vec::new(), Vec::new());
    for (event, victim) in plan(kind, short) {
        if event.needs_network && stage.cluster.network.is_none() {
            continue;
        }
        let from = Instant::now();
        let happened = catch_unwind(AssertUnwindSafe(|| happen(&mut stage, event, victim)));
        windows.push(Window { event, from, to: Instant::now() });
        match happened {
            Ok((row, wrong)) => {
                println!("{kind:?} {row}");
                table.add(row);
                // The same again says nothing more.
                let wrong = wrong.into_iter().take(5);
                defects.extend(wrong.inspect(|what| println!("{kind:?} DEFECT {what}")));
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                defects.push(format!("{}: {text}", event.name));
                println!("{kind:?} UNDONE {}: {text}", event.name);
                stage.describe();
                // Nothing more is learnt from a cluster that does not heal.
                if !is_long() || catch_unwind(AssertUnwindSafe(|| stage.heal())).is_err() {
                    break;
                }
            }
        }
    }
    println!("\n{kind:?}, an interval is {} ms\n{table}", interval().as_millis());
    defects.extend(Verdict::of(stage, &windows).defects());
    assert!(defects.is_empty(), "{}", defects.join("\n"));
}

/// The events to come.
fn plan(kind: Kind, short: &[(&str, Victim)]) -> Vec<(&'static Event, Victim)> {
    let known = |name: &str| EVENTS.iter().find(|event| event.name == name).expect("a known event");
    if !is_long() {
        return short.iter().map(|(name, victim)| (known(name), *victim)).collect();
    }
    let mut random = Random::new(&format!("{kind:?}"));
    let count = std::env::var("NARROWS_CLUSTER_EVENTS").ok().and_then(|count| count.parse().ok());
    let wanted = std::env::var("NARROWS_CLUSTER_ONLY").ok();
    let is_wanted = |event: &&Event| {
        event.kinds.contains(&kind)
            && wanted.as_ref().is_none_or(|wanted| event.name.contains(wanted.as_str()))
    };
    let events: Vec<&'static Event> = EVENTS.iter().filter(is_wanted).collect();
    let pick = |_| {
        let event = events[random.below(events.len() as u64) as usize];
        (event, if random.below(2) == 0 { Victim::Writer } else { Victim::Other })
    };
    (0..count.unwrap_or(300)).map(pick).collect()
}

/// Lets one event happen, and waits until all is as before; returns what clients saw, and what was wrong.
fn happen(stage: &mut Stage, event: &'static Event, victim: Victim) -> (Row, Vec<String>) {
    stage.heal();
    let node = stage.node_of(victim);
    let (reads, failures) = stage.load.look(|tally| (tally.reads, tally.failures.len()));
    let begun = Instant::now();
    (event.begin)(stage, node);
    let done = Instant::now();
    stage.hold(event, victim, done);
    (event.end)(stage, node);
    // Without a majority there is nothing to write to before that.
    let since = if event.holds_up_writes { Instant::now() } else { done };
    let found = stage.wait_until_written(since);
    let itself = stage.probes.first_success(since, (!event.is_unlucky_for_all()).then_some(node));
    stage.heal();
    let mended = Instant::now();
    stage.wait_until_written(mended);
    let failures = stage.load.look(|tally| tally.failures[failures..].to_vec());
    let reads = stage.load.look(|tally| tally.reads) - reads;
    let row = Row::new((event.name, victim), since - begun, since, (found, itself), (reads, &failures));
    let mut wrong: Vec<String> = row.late(event).into_iter().collect();
    for failure in failures.iter().filter(|failure| !event.explains(failure)) {
        wrong.push(format!("{} ({victim:?}): {:?}: {}", event.name, failure.what, failure.text));
    }
    (row, wrong)
}

fn is_long() -> bool {
    std::env::var("NARROWS_CLUSTER_CHAOS").as_deref() == Ok("long")
}

/// Between two checks of a node: 500 ms, or `NARROWS_CLUSTER_INTERVAL`.
fn interval() -> Duration {
    let given = std::env::var("NARROWS_CLUSTER_INTERVAL").ok().and_then(|ms| ms.parse().ok());
    Duration::from_millis(given.unwrap_or(500))
}
