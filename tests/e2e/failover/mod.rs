//! The time without a writer: who waits, in which order and within which bounds, holds of hostgroups, planned switchovers, and
//! transactions that are run again.

mod away;
mod crash;
mod cut_off;
mod holds;
mod hung;
mod ledger;
mod load;
mod pair;
mod refused;
mod replay;
mod replay_real;
mod roles;
mod servers;
mod switchover;
mod sysbench;
mod sysbench_kills;
mod wrong;

use std::time::Duration;

/// Whether the long forms run.
fn is_long() -> bool {
    std::env::var("NARROWS_SWITCHOVER").is_ok_and(|form| form == "long")
}

/// For how long clients were held, by the steps of a switchover.
fn held_ms(steps: &[Vec<Option<String>>]) -> Option<u64> {
    steps.iter().find_map(|step| {
        let text = step[2].as_deref()?.split_once("clients were held for ")?.1;
        text.strip_suffix(" ms")?.parse().ok()
    })
}

/// The median, the 99th percentile, and the longest of some times.
fn shares(mut times: Vec<Duration>) -> (Duration, Duration, Duration) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    (at(0.5), at(0.99), at(1.0))
}
