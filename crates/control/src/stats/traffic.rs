//! Tables about statements and servers.

use narrows_proxy::snapshot::ServerStatus;
use narrows_proxy::stats::{Observer, ServerLine, Take, wait};

use crate::admin::question::GiveBack;
use crate::aws_iam;
use crate::schema::cells::Row;
use crate::schema::filled;

/// `stats_mysql_connection_pool`
pub fn pool(observer: &Observer, take: Take) -> Vec<Row> {
    wait(observer.connection_pool(take)).into_iter().map(filled::connection_pool).collect()
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
    wait(observer.digests(Take::Copy)).into_iter().map(filled::query_digest).collect()
}

/// `stats_mysql_query_digest_reset`
pub fn taken_digests(observer: &Observer) -> (Vec<Row>, GiveBack) {
    let lines = wait(observer.digests(Take::Reset));
    let rows = lines.iter().cloned().map(filled::query_digest).collect();
    (rows, Box::new(|observer| wait(observer.give_back_digests(lines))))
}

/// `stats_mysql_query_rules`
pub fn rules(observer: &Observer) -> Vec<Row> {
    wait(observer.rule_hits()).into_iter().map(filled::query_rules).collect()
}

/// `stats_narrows_rules_dry_run`
pub fn dry_run(observer: &Observer) -> Vec<Row> {
    wait(observer.dry_run(Take::Copy)).into_iter().map(filled::rules_dry_run).collect()
}

/// `stats_narrows_rules_dry_run_reset`
pub fn taken_dry_run(observer: &Observer) -> (Vec<Row>, GiveBack) {
    let lines = wait(observer.dry_run(Take::Reset));
    let rows = lines.iter().cloned().map(filled::rules_dry_run).collect();
    (rows, Box::new(|observer| wait(observer.give_back_dry_run(lines))))
}

/// `stats_mysql_commands_counters`
pub fn commands(observer: &Observer) -> Vec<Row> {
    wait(observer.commands()).into_iter().map(filled::commands_counters).collect()
}

/// `stats_narrows_aws_credentials`
pub fn aws_credentials() -> Vec<Row> {
    aws_iam::state().into_iter().map(filled::aws_credentials).collect()
}

/// `stats_narrows_passwords`
pub fn passwords(observer: &Observer) -> Vec<Row> {
    wait(observer.passwords()).into_iter().map(filled::passwords).collect()
}

/// `stats_narrows_token_issuers`
pub fn token_issuers(observer: &Observer) -> Vec<Row> {
    wait(observer.token_issuers()).into_iter().map(filled::token_issuers).collect()
}

/// `stats_mysql_users`
pub fn users(observer: &Observer) -> Vec<Row> {
    wait(observer.users()).into_iter().map(filled::users).collect()
}

/// `stats_mysql_errors`
pub fn errors(observer: &Observer) -> Vec<Row> {
    wait(observer.errors(Take::Copy)).into_iter().map(filled::errors).collect()
}

/// `stats_mysql_errors_reset`
pub fn taken_errors(observer: &Observer) -> (Vec<Row>, GiveBack) {
    let lines = wait(observer.errors(Take::Reset));
    let rows = lines.iter().cloned().map(filled::errors).collect();
    (rows, Box::new(|observer| wait(observer.give_back_errors(lines))))
}

/// `stats_mysql_gtid_executed`
pub fn gtids_executed(observer: &Observer) -> Vec<Row> {
    wait(observer.gtids_executed()).into_iter().map(filled::gtid_executed).collect()
}

/// `stats_mysql_passthrough_auth_cache`
pub fn passthrough(observer: &Observer) -> Vec<Row> {
    wait(observer.passthrough()).into_iter().map(filled::passthrough_auth_cache).collect()
}

/// `stats_narrows_auth_query`
pub fn queried_accounts(observer: &Observer) -> Vec<Row> {
    observer.queried_accounts().into_iter().map(filled::auth_query).collect()
}

/// `stats_mysql_client_host_cache`
pub fn client_hosts(observer: &Observer, take: Take) -> Vec<Row> {
    observer.client_hosts(take).into_iter().map(filled::client_host_cache).collect()
}
