//! `stats_mysql_global`.

use std::sync::atomic::{AtomicU64, Ordering};

use narrows_proxy::hostgroup::NameFigures;
use narrows_proxy::server::Listening;
use narrows_proxy::stats::{Counters, Observer, wait};

use super::sources::Sources;
use crate::monitor::CHECKS;
use crate::monitor::log::CheckCounts;
use crate::schema::cells::{Row, text};

/// Names that belong to parts of ProxySQL that do not exist here, and the reason why they are 0.
pub const NOT_HERE: &[(&str, &str)] = &[
    ("automatic_detected_sql_injection", "statements are not judged by fingerprints"),
    ("whitelisted_sqli_fingerprint", "statements are not judged by fingerprints"),
    ("MySQL_Monitor_Workers", "the monitor is one thread, whose checks are tasks"),
    ("MySQL_Monitor_Workers_Aux", "the monitor is one thread, whose checks are tasks"),
    ("MySQL_Monitor_Workers_Started", "the monitor is one thread, whose checks are tasks"),
    ("Mirror_concurrency", "mirrored statements are counted when they end"),
    ("Mirror_queue_length", "mirrored statements are counted when they end"),
];

/// The prefix of counters that only Narrows has.
const OF_NARROWS: &str = "Narrows_";

/// Every numeric figure, by its name.
pub fn figures(sources: &Sources<'_>, counters: &Counters) -> Vec<(&'static str, u64)> {
    let mut figures = counters.rows();
    figures.retain(|(name, _)| !name.starts_with(OF_NARROWS));
    figures.push(("Servers_table_version", sources.runtime.servers_version()));
    figures.push(("SQLite3_memory_bytes", crate::store::sqlite_bytes()));
    figures.extend(checks(sources.runtime.check_counts()));
    figures.extend(of_names(sources.runtime.name_figures()));
    figures.extend(NOT_HERE.iter().map(|(name, _)| (*name, 0)));
    figures
}

/// The counters of the monitor's checks, by name.
fn checks(counts: &CheckCounts) -> Vec<(&'static str, u64)> {
    let counted = CHECKS.into_iter().filter_map(|check| {
        let ((good, bad), (good_name, bad_name)) = (counts.of(check), check.counters?);
        Some([(good_name, good), (bad_name, bad)])
    });
    counted.flatten().collect()
}

/// The counters of host names, by name.
fn of_names(figures: &NameFigures) -> [(&'static str, u64); 3] {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    [
        ("MySQL_Monitor_dns_cache_queried", count(&figures.queried)),
        ("MySQL_Monitor_dns_cache_lookup_success", count(&figures.found)),
        ("MySQL_Monitor_dns_cache_record_updated", count(&figures.updated)),
    ]
}

pub fn rows(sources: &Sources<'_>, observer: &Observer) -> Vec<Row> {
    let figures = figures(sources, &wait(observer.global()));
    let mut rows: Vec<Row> =
        figures.into_iter().map(|(name, value)| vec![text(name), text(value.to_string())]).collect();
    let paused = sources.runtime.listening() == Some(Listening::Paused);
    rows.push(vec![text("mysql_listener_paused"), text(paused.to_string())]);
    rows
}

/// The counters that ProxySQL does not have, how often sessions were pinned, by reason, and what became of transactions that
/// were to be run again.
pub fn of_narrows(observer: &Observer) -> Vec<Vec<String>> {
    let counters = wait(observer.global());
    let own = counters.rows().into_iter().filter(|(name, _)| name.starts_with(OF_NARROWS));
    let mut rows: Vec<Vec<String>> =
        own.map(|(name, value)| vec![name.to_owned(), value.to_string()]).collect();
    rows.extend(
        counters.pins.iter().map(|(reason, count)| vec![format!("Narrows_pins_{reason}"), count.to_string()]),
    );
    rows.extend(
        counters.replays.iter().map(|(outcome, count)| {
            vec![format!("Narrows_transaction_replays_{outcome}"), count.to_string()]
        }),
    );
    rows.extend(
        counters
            .passthrough
            .iter()
            .map(|(outcome, count)| vec![format!("Narrows_passthrough_auth_{outcome}"), count.to_string()]),
    );
    rows.extend(
        counters
            .auth_queries
            .iter()
            .map(|(outcome, count)| vec![format!("Narrows_auth_query_{outcome}"), count.to_string()]),
    );
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_proxysql_and_each_is_there_once() {
        let counters = Counters::default();
        let mut names: Vec<&str> = counters.rows().into_iter().map(|(name, _)| name).collect();
        names.retain(|name| !name.starts_with(OF_NARROWS));
        names.extend(checks(&CheckCounts::default()).into_iter().map(|(name, _)| name));
        names.extend(of_names(&NameFigures::default()).map(|(name, _)| name));
        names.extend(NOT_HERE.iter().map(|(name, _)| *name));
        names.extend(["Servers_table_version", "SQLite3_memory_bytes", "mysql_listener_paused"]);
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!((all, names.len()), (108, 108));
    }
}
