//! A full cache.

use narrows_testkit::{Flavour, RealServer};

use super::{caching, figure, hits, start};

/// The cache's size in bytes, and how much the process may grow for it.
const SIZE: u64 = 256 << 20;
const MOST: u64 = 280 << 20;

#[test]
fn a_full_cache_takes_what_it_may_and_no_more() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&caching(server.port(), 3_600_000));
    let threads: Vec<_> = (0..4).map(|thread| std::thread::spawn(load(&narrows, thread, 0..50))).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("loads"));
    let before = narrows.resident_bytes();

    let threads: Vec<_> =
        (0..4).map(|thread| std::thread::spawn(load(&narrows, thread, 50..4_500))).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("loads"));

    let (bytes, sum) =
        (figure(&narrows, "Query_Cache_Memory_bytes"), figure(&narrows, "Query_Cache_bytes_IN"));
    let grown = narrows.resident_bytes() - before;
    println!(
        "{} MiB were added, {} MiB are cached in {} entries, and the process has grown by {} MiB",
        sum >> 20,
        bytes >> 20,
        figure(&narrows, "Query_Cache_Entries"),
        grown >> 20
    );
    assert!(sum > SIZE / 2 * 3, "{sum} bytes do not fill it");
    assert!(bytes > SIZE / 10 * 9 && bytes <= SIZE, "{bytes} bytes");
    assert!(grown < MOST, "grown by {grown} bytes");
}

#[test]
fn a_scan_leaves_what_is_read_again_and_again() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&caching(server.port(), 3_600_000).variable("query_cache_size_MB", "1"));
    let mut client = narrows.client();
    let hot: Vec<String> =
        (0..50).map(|number| format!("SELECT 'hot', {number}, REPEAT('x', 200)")).collect();
    for _ in 0..4 {
        hot.iter().for_each(|statement| drop(client.query(statement)));
    }

    for number in 0..5_000 {
        client.query(format!("SELECT 'once', {number}, REPEAT('x', 200)"));
    }

    assert!(figure(&narrows, "Query_Cache_Purged") > 3_000, "the scan does not fill the cache");
    let before = hits(&narrows);
    hot.iter().for_each(|statement| drop(client.query(statement)));
    assert_eq!(hits(&narrows) - before, 50);
}

/// Statements with answers of every length: mostly short, some of a megabyte; a few of them are repeated again and
/// again.
fn load(
    narrows: &narrows_testkit::Narrows,
    thread: usize,
    range: std::ops::Range<usize>,
) -> impl FnOnce() + Send + 'static {
    let mut client = narrows.client();
    move || {
        for number in range {
            let length = [90, 300, 1_500, 6_000, 20_000, 70_000, 4_000, 260_000, 500, 15_000][number % 10];
            let length = if number % 400 == 7 { 1_500_000 } else { length + number % 89 };
            let statement = format!("SELECT {thread}, {number}, REPEAT('x', {length})");
            for statement in [statement, format!("SELECT 'often', {}", number % 20)] {
                let answer = client.query(statement);
                assert!(answer.error().is_none(), "{:?}", answer.error());
            }
        }
    }
}
