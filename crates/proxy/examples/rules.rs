//! Prints what compiling and evaluating query rules costs, by their number. Run with `--release`.

use std::hint::black_box;
use std::time::Instant;

use narrows_proxy::rules::{Activity, Memory, OwnedClient, Query, Question, RuleSet, digest_of};
use narrows_proxy::snapshot::{HostgroupId, RuleRow};

fn main() {
    for (digests, patterns) in [(0, 0), (10, 0), (100, 0), (1_000, 0), (10_000, 0), (0, 1_000), (0, 10_000)] {
        let rows: Vec<RuleRow> = rows(digests, patterns);
        let began = Instant::now();
        let set = RuleSet::compile(&rows, &[], 0).expect("they compile");
        let compiled = began.elapsed();
        let mut memory = Memory::default();
        let client = OwnedClient {
            username: "app".to_owned(),
            schemaname: b"shop".to_vec(),
            client_addr: "10.0.0.1".to_owned(),
            ..OwnedClient::default()
        };
        let client = client.as_client();
        let mut ask = |statement: &'static str, digest: &'static str| {
            let (statement, digest) = (statement.as_bytes(), Some(digest_of(digest.as_bytes())));
            let question = Question { client, query: Query { flag_in: 0, statement, digest } };
            black_box(set.apply(black_box(&question), &mut memory));
        };
        let mut best = f64::INFINITY;
        for _ in 0..200 {
            let began = Instant::now();
            for _ in 0..500 {
                ask("SELECT c FROM sbtest1 WHERE id=4992", "SELECT c FROM sbtest1 WHERE id=?");
            }
            best = best.min(began.elapsed().as_nanos() as f64 / 500.0);
        }
        println!(
            "{digests:>6} match_digest, {patterns:>6} match_pattern: compiled in {:>7.1} ms, {:>6.1} MB, a question {best:>6.0} ns",
            compiled.as_secs_f64() * 1_000.0,
            set.memory_usage() as f64 / 1e6
        );
    }
}

/// Rules that match nothing, before the two of the classic read/write split.
fn rows(digests: usize, patterns: usize) -> Vec<RuleRow> {
    let nothing = |id: usize| Some(format!("^SELECT .* FROM nothing_{id:06} WHERE .*$"));
    let row = |id: usize, hostgroup, match_digest, match_pattern| RuleRow {
        rule_id: id as i64,
        active: Activity::InForce,
        apply: true,
        re_modifiers: "CASELESS".to_owned(),
        destination_hostgroup: Some(HostgroupId(hostgroup)),
        match_digest,
        match_pattern,
        ..RuleRow::default()
    };
    let ahead = (0..digests + patterns).map(|id| match id < digests {
        true => row(id, 0, nothing(id), None),
        false => row(id, 0, None, nothing(id)),
    });
    let split = [("^SELECT.*FOR UPDATE", 0), ("^SELECT", 1)];
    let behind = split.iter().zip(900_001..);
    ahead
        .chain(behind.map(|((text, hostgroup), id)| row(id, *hostgroup, Some((*text).to_owned()), None)))
        .collect()
}
