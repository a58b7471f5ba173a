//! `stats_memory_metrics`: where the memory is, under the names of ProxySQL.

use narrows_proxy::stats::{MemoryFigures, Observer, wait};

use super::cells::{Row, text};
use super::sources::Sources;

/// What a name stands for.
type Figure = fn(&MemoryFigures) -> u64;

/// Each name, what it holds here, and from where.
const METRICS: &[(&str, Figure)] = &[
    ("SQLite3_memory_bytes", |_| crate::store::sqlite_bytes()),
    // The allocator is that of the C library; these are what it says, and what the kernel says of the process.
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

/// The threads `sources` and `admin`, as the standard library reserves their stacks.
const ADMIN_STACKS: u64 = 2 * (2 << 20);

pub fn rows(_: &Sources<'_>, observer: &Observer) -> Vec<Row> {
    let figures = wait(observer.memory());
    let row = |(name, figure): &(&'static str, Figure)| vec![text(*name), text(figure(&figures).to_string())];
    METRICS.iter().map(row).collect()
}
