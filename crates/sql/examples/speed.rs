//! Prints what digest text, hash and classification of typical statements cost. Run with `--release`.
#![allow(clippy::disallowed_types)] // Measuring needs the clock that the library must not use.

use narrows_sql::{DigestOptions, Scratch, classify, digest_hash, digest_text};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let sysbench = "SELECT c FROM sbtest1 WHERE id=4992";
    let join = "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id \
                WHERE o.created_at > '2024-01-01' AND c.status IN ('a','b','c') ORDER BY o.id DESC LIMIT 20";
    let row = format!("(4992,'{}','{}'),", "31451373586-".repeat(10), "21996621178-".repeat(5));
    let strings = format!("INSERT INTO sbtest1 (k,c,pad) VALUES {}(1,'a','b')", row.repeat(5_000));
    let short = format!("INSERT INTO t VALUES {}(1,2,3,4,5)", "(1,'abc',3.5,NULL,12345),".repeat(2_000));
    let blob = format!("INSERT INTO t VALUES (1,'{}')", "x".repeat(1 << 20));
    for (name, query, batch) in [
        ("point select", sysbench, 1_000),
        ("join", join, 200),
        ("INSERT of 5,001 sysbench rows", &strings, 1),
        ("INSERT of 2,001 rows of small values", &short, 1),
        ("INSERT of a 1 MiB string", &blob, 2),
    ] {
        report(name, query.as_bytes(), batch);
    }
}

fn report(name: &str, query: &[u8], batch: u32) {
    let options = DigestOptions::default();
    let mut scratch = Scratch::new();
    let text = digest_text(query, &options, &mut scratch).to_vec();
    let digest = time(batch, || {
        black_box(digest_text(black_box(query), &options, &mut scratch).len());
    });
    let hash = time(batch, || {
        black_box(digest_hash(black_box(&text)));
    });
    let kind = time(batch, || {
        black_box(classify(black_box(query)));
    });
    let total = digest + hash + kind;
    println!(
        "{name}: {} bytes, digest {digest:.0} ns, hash {hash:.0} ns, classify {kind:.0} ns, \
         together {total:.0} ns, {:.2} GB/s",
        query.len(),
        query.len() as f64 / total
    );
}

/// Nanoseconds per call: the best of many short batches, so that other load on the machine does not matter.
fn time(batch: u32, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..400 {
        let start = Instant::now();
        (0..batch).for_each(|_| work());
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(batch));
    }
    best
}
