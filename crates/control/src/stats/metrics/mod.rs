//! Metrics for Prometheus: the figures of the tables of statistics, under the names of ProxySQL's own exporter and of
//! Percona's, and what only Narrows has.

mod exporter;
mod native;
mod own;
pub(super) mod page;
mod process;
mod servers;

use std::time::Duration;

use narrows_proxy::server::Listening;
use narrows_proxy::stats::{Take, wait};

use super::sources::Sources;
use super::{global, memory, scheduler};
use crate::store::Drift;
use crate::variables::{VERSION, Value};
use page::MetricKind::Gauge;
use page::Page;

/// All metrics in the text format of Prometheus. `drift`: `None` if the database does not answer.
pub fn text(sources: &Sources<'_>, drift: Option<&Drift>) -> String {
    let mut page = Page::new(most_series(sources));
    page.single("proxysql_up", Gauge, "Always 1.", 1);
    let labels = [("version", VERSION), ("version_comment", "Narrows")];
    page.metric("proxysql_version_info", Gauge, "The version, as a label.").value(&labels, 1);
    let paused = sources.runtime.listening() == Some(Listening::Paused);
    let help = "Whether PROXYSQL PAUSE is in force.";
    page.single("proxysql_mysql_listener_paused", Gauge, help, u8::from(paused));
    own::write_configuration(&mut page, sources, drift);
    own::write_monitor(&mut page, sources);
    own::write_pair_writers(&mut page, sources);
    own::write_traces(&mut page, sources.runtime.logs().queries.traces());
    own::write_nodes(&mut page, sources);
    own::write_logs(&mut page, sources);
    scheduler::write(&mut page, sources.runtime);
    of_workers(&mut page, sources);
    own::write_left_out(&mut page);
    page.into_text()
}

/// What the workers know, if there are any.
fn of_workers(page: &mut Page, sources: &Sources<'_>) {
    let Some(observer) = sources.runtime.observer() else { return };
    let counters = wait(observer.global());
    let used = wait(observer.memory());
    let global = global::figures(sources, &counters);
    let memory = memory::figures(&used);
    let missed = counters.query_cache_gets.saturating_sub(counters.query_cache_hits);
    let rows: Vec<_> = [&*global, &*memory, &[(native::MISSED, missed)]].concat();
    native::write(page, &rows, sources.store.variables());
    process::write(page, &used, Duration::from_secs(counters.uptime_s));
    own::write_counters(page, &counters);

    let lines = wait(observer.connection_pool(Take::Copy));
    servers::write(page, &lines);
    servers::write_durations(page, &lines, &wait(observer.hostgroups()));
    servers::write_errors(page, wait(observer.errors(Take::Copy)));
    own::write_rules(page, &observer);
    own::write_waits(page, &observer);
    let clients = wait(observer.clients());
    own::write_pins(page, &clients);

    exporter::write_status(page, &global);
    exporter::write_memory(page, &memory);
    exporter::write_pool(page, &lines);
    if let Some(snapshot) = sources.runtime.snapshot() {
        exporter::write_servers(page, snapshot, &lines);
    }
    exporter::write_clients(page, &clients);
    exporter::write_commands(page, &wait(observer.commands()));
}

fn most_series(sources: &Sources<'_>) -> usize {
    match sources.store.variables().value("admin-metrics_max_series") {
        Some(Value::Integer(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}
