//! Tables about sessions and connections.

use narrows_proxy::snapshot::Snapshot;
use narrows_proxy::stats::{FreeConnection, Observer, PreparedLine, ProcessLine, wait};
use rusqlite::types::Value;
use serde_json::json;

use super::cells::{Row, digest, number, optional_text, text};
use super::sources::Sources;

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
        let account = snapshot?.users.get(line.username.as_bytes())?;
        Some(account.row.default_hostgroup)
    };
    let backend = line.backend.as_ref();
    let address = |host: &str| text(host);
    let details = extended_info(line, extended);
    vec![
        number(line.worker as u64),
        number(line.id.into()),
        text(line.username.as_str()),
        text(line.schema.clone().unwrap_or_default()),
        text(line.client_host.as_str()),
        number(line.client_port.into()),
        line.hostgroup.or_else(begins).map_or(Value::Null, |hostgroup| Value::Integer(hostgroup.0.into())),
        backend.map_or(Value::Null, |backend| address(&backend.local_host)),
        backend.map_or(Value::Null, |backend| number(backend.local_port.into())),
        backend.map_or(Value::Null, |backend| address(&backend.hostname)),
        backend.map_or(Value::Null, |backend| number(backend.port.into())),
        text(line.doing.word()),
        number(line.time_ms),
        optional_text(line.info.clone()),
        backend.map_or(Value::Null, |_| number(line.pins.bits().into())),
        details.map_or(Value::Null, Value::Text),
    ]
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
    let row = |line: FreeConnection| {
        let variable = |name: &str| {
            let set = line.variables.iter().find(|(set, _)| set == name);
            optional_text(set.map(|(_, value)| value.trim_matches('\'').to_owned()))
        };
        let autocommit = match variable("autocommit") {
            Value::Null => text("1"),
            set => set,
        };
        let statistics = json!({ "age_ms": line.age_ms, "leases": line.leases });
        let variables: serde_json::Map<String, serde_json::Value> =
            line.variables.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let server = json!({
            "thread_id": line.thread_id,
            "mariadb": line.is_mariadb,
            "capabilities": line.capabilities,
            "variables": variables,
        });
        vec![
            Value::Integer(line.fd.into()),
            Value::Integer(line.hostgroup.0.into()),
            text(line.hostname.as_str()),
            number(line.port.into()),
            text(line.username.as_str()),
            optional_text(line.schema.clone()),
            Value::Null,
            variable("time_zone"),
            variable("sql_mode"),
            autocommit,
            number(line.idle_ms),
            text(statistics.to_string()),
            text(server.to_string()),
        ]
    };
    wait(observer.free_connections()).into_iter().map(row).collect()
}

/// `stats_mysql_prepared_statements_info`
pub fn prepared_statements(observer: &Observer) -> Vec<Row> {
    let row = |line: PreparedLine| {
        vec![
            number(line.id),
            text(line.schemaname),
            text(line.username),
            digest(line.digest),
            number(line.clients),
            number(line.backends),
            number(line.columns.into()),
            number(line.parameters.into()),
            text(line.query),
        ]
    };
    wait(observer.prepared_statements()).into_iter().map(row).collect()
}
