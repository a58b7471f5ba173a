//! Tables about statements and servers.

use narrows_proxy::client::ClientHost;
use narrows_proxy::snapshot::ServerStatus;
use narrows_proxy::stats::{
    CommandLine, DigestLine, ErrorLine, Observer, RuleLine, ServerLine, Take, UserLine, wait,
};
use rusqlite::types::Value;

use super::cells::{Row, digest, number, text};
use crate::admin::question::GiveBack;

/// `stats_mysql_connection_pool`
pub fn pool(observer: &Observer, take: Take) -> Vec<Row> {
    let row = |line: ServerLine| {
        vec![
            Value::Integer(line.hostgroup.0.into()),
            text(line.hostname),
            number(line.port.into()),
            text(line.status.name()),
            number(line.used),
            number(line.free),
            number(line.connected),
            number(line.failed),
            number(line.most_used),
            number(line.queries),
            number(line.queries_gtid_sync),
            number(line.bytes_sent),
            number(line.bytes_received),
            number(line.latency_us),
        ]
    };
    wait(observer.connection_pool(take)).into_iter().map(row).collect()
}

/// Servers as the workers see them, for `runtime_mysql_servers`: an unreachable one is shunned.
pub fn statuses(observer: &Observer) -> Vec<(i32, String, u16, &'static str)> {
    // As in ProxySQL, whose table has a check constraint, there is one word for all kinds of shunned.
    let word = |line: &ServerLine| match line.status {
        ServerStatus::ShunnedReplicationLag => ServerStatus::Shunned.name(),
        other => other.name(),
    };
    let row = |line: ServerLine| {
        let word = word(&line);
        (line.hostgroup.0, line.hostname, line.port, word)
    };
    wait(observer.connection_pool(Take::Copy)).into_iter().map(row).collect()
}

/// `stats_mysql_query_digest`
pub fn digests(observer: &Observer) -> Vec<Row> {
    wait(observer.digests(Take::Copy)).into_iter().map(digest_row).collect()
}

/// `stats_mysql_query_digest_reset`
pub fn taken_digests(observer: &Observer) -> (Vec<Row>, GiveBack) {
    let lines = wait(observer.digests(Take::Reset));
    let rows = lines.iter().cloned().map(digest_row).collect();
    (rows, Box::new(|observer| wait(observer.give_back_digests(lines))))
}

fn digest_row(line: DigestLine) -> Row {
    vec![
        Value::Integer(line.hostgroup.0.into()),
        text(line.schemaname),
        text(line.username),
        text(line.client_address),
        digest(line.digest),
        text(line.digest_text),
        number(line.count),
        number(line.first_seen),
        number(line.last_seen),
        number(line.sum_time_us),
        number(line.min_time_us),
        number(line.max_time_us),
        number(line.rows_affected),
        number(line.rows_sent),
    ]
}

/// `stats_mysql_query_rules`
pub fn rules(observer: &Observer) -> Vec<Row> {
    let row = |line: RuleLine| vec![Value::Integer(line.rule_id), number(line.hits)];
    wait(observer.rule_hits()).into_iter().map(row).collect()
}

/// `stats_mysql_commands_counters`
pub fn commands(observer: &Observer) -> Vec<Row> {
    let row = |line: CommandLine| {
        let mut row = vec![text(line.command), number(line.total_time_us), number(line.total)];
        row.extend(line.buckets.map(number));
        row
    };
    wait(observer.commands()).into_iter().map(row).collect()
}

/// `stats_mysql_users`
pub fn users(observer: &Observer) -> Vec<Row> {
    let row = |line: UserLine| {
        vec![text(line.username), number(line.connections.into()), number(line.max_connections.into())]
    };
    wait(observer.users()).into_iter().map(row).collect()
}

/// `stats_mysql_errors`
pub fn errors(observer: &Observer) -> Vec<Row> {
    wait(observer.errors(Take::Copy)).into_iter().map(error_row).collect()
}

/// `stats_mysql_errors_reset`
pub fn taken_errors(observer: &Observer) -> (Vec<Row>, GiveBack) {
    let lines = wait(observer.errors(Take::Reset));
    let rows = lines.iter().cloned().map(error_row).collect();
    (rows, Box::new(|observer| wait(observer.give_back_errors(lines))))
}

fn error_row(line: ErrorLine) -> Row {
    vec![
        Value::Integer(line.hostgroup.0.into()),
        text(line.hostname),
        number(line.port.into()),
        text(line.username),
        text(line.client_address),
        text(line.schemaname),
        number(line.errno.into()),
        number(line.count),
        number(line.first_seen),
        number(line.last_seen),
        text(line.last_error),
    ]
}

/// `stats_mysql_client_host_cache`
pub fn client_hosts(observer: &Observer, take: Take) -> Vec<Row> {
    let row = |host: ClientHost| {
        vec![text(host.address), number(host.errors.into()), number(host.last_failure.as_secs())]
    };
    observer.client_hosts(take).into_iter().map(row).collect()
}
