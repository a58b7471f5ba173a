//! Tables about sessions and connections.

use narrows_proxy::snapshot::Snapshot;
use narrows_proxy::stats::{Observer, ProcessLine, wait};
use serde_json::json;

use super::sources::Sources;
use crate::schema::cells::Row;
use crate::schema::filled::{self, ShownProcess};

/// `stats_mysql_processlist`
pub fn processes(sources: &Sources<'_>, observer: &Observer) -> Vec<Row> {
    let snapshot = sources.runtime.snapshot();
    let extended = sources.store.variable("mysql-show_processlist_extended").unwrap_or_default();
    let row = |line: ProcessLine| process(&line, snapshot, &extended);
    wait(observer.processes()).into_iter().map(row).collect()
}

fn process(line: &ProcessLine, snapshot: Option<&Snapshot>, extended: &str) -> Row {
    // A session that has sent nothing yet is in its account's default hostgroup.
    let begins = || {
        let account = snapshot?.account_or_template(line.username.as_bytes())?;
        Some(account.row.default_hostgroup)
    };
    let hostgroup = line.hostgroup.or_else(begins);
    filled::processlist(ShownProcess { line, hostgroup, extended_info: extended_info(line, extended) })
}

/// The value of `mysql-show_processlist_extended`: 1 in one line, 2 in several.
fn extended_info(line: &ProcessLine, extended: &str) -> Option<String> {
    let info = json!({
        "age_ms": line.age_ms,
        "commands": line.commands,
        "pins": line.pins.names(),
        "backend_thread_id": line.backend.as_ref().map(|backend| backend.thread_id),
    });
    match extended {
        "1" => Some(info.to_string()),
        "2" => serde_json::to_string_pretty(&info).ok(),
        _ => None,
    }
}

/// `stats_mysql_free_connections`
pub fn free_connections(observer: &Observer) -> Vec<Row> {
    wait(observer.free_connections()).into_iter().map(filled::free_connections).collect()
}

/// `stats_mysql_prepared_statements_info`
pub fn prepared_statements(observer: &Observer) -> Vec<Row> {
    wait(observer.prepared_statements()).into_iter().map(filled::prepared_statements_info).collect()
}
