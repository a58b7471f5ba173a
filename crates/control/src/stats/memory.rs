//! `stats_memory_metrics`: memory usage, under ProxySQL's names.

use narrows_proxy::stats::{MemoryFigures, Observer, wait};

use super::sources::Sources;
use crate::schema::cells::{Row, text};

/// The source of a figure.
type Figure = fn(&MemoryFigures) -> u64;

/// Each name, its meaning here, and its source.
const METRICS: &[(&str, Figure)] = &[
    ("SQLite3_memory_bytes", |_| crate::store::sqlite_bytes()),
    // The allocator is the C library's; these are its figures, and the kernel's figures for the process.
    ("jemalloc_resident", |figures| figures.resident),
    ("jemalloc_active", |figures| figures.anonymous),
    ("jemalloc_allocated", |figures| figures.allocated),
    ("jemalloc_mapped", |figures| figures.mapped),
    ("jemalloc_metadata", |_| 0),
    ("jemalloc_retained", |_| 0),
    ("Auth_memory", |figures| figures.accounts),
    ("query_digest_memory", |figures| figures.digests),
    ("mysql_query_rules_memory", |figures| figures.rules),
    ("prepare_statement_metadata_memory", |figures| figures.statements),
    ("prepare_statement_backend_memory", |figures| figures.statements_of_backends),
    ("mysql_firewall_users_table", |_| 0),
    ("mysql_firewall_users_config", |_| 0),
    ("mysql_firewall_rules_table", |_| 0),
    ("mysql_firewall_rules_config", |_| 0),
    ("stack_memory_mysql_threads", |figures| figures.worker_stacks),
    ("stack_memory_admin_threads", |_| ADMIN_STACKS),
    ("stack_memory_cluster_threads", |_| 0),
];

/// The threads `sources` and `admin`, whose stacks the standard library reserves.
const ADMIN_STACKS: u64 = 2 * (2 << 20);

pub fn rows(_: &Sources<'_>, observer: &Observer) -> Vec<Row> {
    let rows = figures(&wait(observer.memory())).into_iter();
    rows.map(|(name, value)| vec![text(name), text(value.to_string())]).collect()
}

/// The same as numbers.
pub fn figures(used: &MemoryFigures) -> Vec<(&'static str, u64)> {
    METRICS.iter().map(|(name, figure)| (*name, figure(used))).collect()
}
