//! Small commands for operators and other nodes.

use std::time::Duration;

use narrows_proxy::stats::wait;

use super::sql::sql;
use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "TRUNCATE <table>",
        who: Who::Admin,
        run: truncate,
        doc: "Empties `stats_mysql_query_digest`; the answer counts its rows.",
    },
    Verb {
        pattern: "TRUNCATE TABLE <table>",
        who: Who::Admin,
        run: truncate,
        doc: "Empties the table of digests.",
    },
    Verb {
        pattern: "PULL VERSION MYSQL SERVERS <version>",
        who: Who::Admin,
        run: |_, _| Some(Reply::error("Invalid argument")),
        doc: "Needs a time limit.",
    },
    Verb {
        pattern: "PULL VERSION MYSQL SERVERS <version> <seconds>",
        who: Who::Admin,
        run: pull_version,
        doc: "Waits until the table of servers has that version; returns the version that it then has.",
    },
    Verb {
        pattern: "LOGENTRY <text...>",
        who: Who::Admin,
        run: |_, call| {
            tracing::info!(user = call.caller.user, text = call.word(0), "log entry of an operator");
            Some(Reply::ok())
        },
        doc: "Writes a line into the log.",
    },
    Verb {
        pattern: "SIGNAL MYSQL THREADS",
        who: Who::Everybody,
        run: |_, _| Some(Reply::ok()),
        doc: "Nothing: workers need no waking.",
    },
    Verb {
        pattern: "ANALYZE",
        who: Who::Admin,
        run: |parts, _| {
            let refused = || Reply::error("attempt to write a readonly database");
            Some(if parts.store.is_read_only() { refused() } else { Reply::ok() })
        },
        doc: "Nothing: tables of a few rows need no figures about their contents.",
    },
    Verb {
        pattern: "PROXY_SELECT <query...>",
        who: Who::Admin,
        run: proxy_select,
        doc: "What nodes of a cluster ask each other.",
    },
];

fn truncate(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let table = call.word(0).to_ascii_lowercase().replace('`', "");
    let table = table.strip_prefix("stats.").unwrap_or(&table);
    if !matches!(table, "stats_mysql_query_digest" | "stats_mysql_query_digest_reset") {
        return None;
    }
    let dropped = parts.runtime.observer().map_or(0, |observer| wait(observer.forget_digests()));
    Some(Reply::done(dropped as u64, ""))
}

fn pull_version(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let number = |index: usize| call.word(index).parse::<u64>().unwrap_or(0);
    let (wanted, limit) = (number(0), Duration::from_secs(number(1)));
    let version = parts.runtime.servers_version();
    if version < wanted && call.since.elapsed() < limit {
        return Some(Reply::NotYet);
    }
    Some(Reply::rows(["version"], vec![vec![version.to_string()]]))
}

/// The statements that nodes send, with the SQL that is executed for each.
const OF_NODES: &[(&str, &str)] = &[
    (
        "hostgroup_id, hostname, port, gtid_port, status, weight, compression, max_connections, \
         max_replication_lag, use_ssl, max_latency_ms, comment FROM runtime_mysql_servers",
        "SELECT * FROM runtime_mysql_servers WHERE status<>'OFFLINE_HARD' ORDER BY hostgroup_id, hostname, port",
    ),
    (
        "writer_hostgroup, reader_hostgroup, comment FROM runtime_mysql_replication_hostgroups",
        "SELECT * FROM runtime_mysql_replication_hostgroups ORDER BY writer_hostgroup",
    ),
    (
        "hostname, port, username, ssl_ca, ssl_cert, ssl_key, ssl_capath, ssl_crl, ssl_crlpath, ssl_cipher, \
         tls_version, comment FROM runtime_mysql_servers_ssl_params",
        "SELECT * FROM runtime_mysql_servers_ssl_params ORDER BY hostname, port, username",
    ),
];

fn proxy_select(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let asked = call.word(0);
    let known = |text: &str| asked.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text));
    let (_, query) = OF_NODES.iter().find(|(text, _)| known(text))?;
    Some(sql(parts, call.caller, query))
}
