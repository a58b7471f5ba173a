//! The query cache, seen from clients, servers and the admin interface.

mod answers;
mod crowd;
mod keys;
mod lives;
mod memory;
mod sessions;

use narrows_testkit::{FakeMysql, Narrows, NarrowsConfig, RawClient};

use crate::support::start;

/// One server, and a rule that caches every SELECT for this many milliseconds.
fn caching(port: u16, ttl_ms: u32) -> NarrowsConfig {
    NarrowsConfig::in_front_of(port)
        .rule(&format!("rule_id=1 match_digest=\"^(SELECT|SHOW)\" cache_ttl={ttl_ms} apply=1"))
}

/// How often a statement has reached a server.
fn executions(server: &FakeMysql, statement: &str) -> usize {
    server.received().iter().filter(|received| received.body == statement).count()
}

/// A figure of `stats_mysql_global`.
fn figure(narrows: &Narrows, name: &str) -> u64 {
    let query = format!("SELECT Variable_Value FROM stats_mysql_global WHERE Variable_Name='{name}'");
    narrows.admin().query(query).cell().expect("a value").parse().expect("a number")
}

/// Answers that came from the cache so far.
fn hits(narrows: &Narrows) -> u64 {
    figure(narrows, "Query_Cache_count_GET_OK")
}

/// Sends a statement twice; returns whether the second answer came from the cache.
fn is_cached(narrows: &Narrows, client: &mut RawClient, statement: &str) -> bool {
    let first = client.query(statement);
    let before = hits(narrows);
    let second = client.query(statement);
    assert_eq!(first.text_rows(), second.text_rows(), "{statement}");
    assert_eq!(first.error(), second.error(), "{statement}");
    hits(narrows) > before
}
