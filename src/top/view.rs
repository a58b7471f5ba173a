//! What the views show: each is a statement on the admin port, and how its columns are shown.

use std::cmp::Ordering;

/// A view.
pub struct View {
    /// The key that shows it.
    pub key: char,
    /// Its name.
    pub title: &'static str,
    /// The statement whose rows it shows.
    pub statement: &'static str,
    /// Its columns, in the order of the statement's.
    pub columns: &'static [Column],
    /// The columns by which a row is found again, for growth.
    pub identity: &'static [usize],
    /// The column by which it is sorted at first, descending.
    pub sorted_by: usize,
    /// What can be done with a row.
    pub action: Option<Action>,
}

/// A column.
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its width; 0: what is left.
    pub width: u16,
    /// How its values are shown.
    pub kind: Shown,
    /// Whether it is shown on wide screens only.
    pub is_wide: bool,
}

/// How values are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// As they are.
    Text,
    /// A number.
    Number,
    /// A number that grows, as its growth per second.
    PerSecond,
    /// Microseconds, in a unit that fits.
    Microseconds,
    /// Milliseconds, in a unit that fits.
    Milliseconds,
    /// Bytes that grow, as their growth per second in a unit that fits.
    BytesPerSecond,
    /// Not at all.
    Hidden,
}

/// What can be done with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// End the session whose number is in this column.
    Kill(usize),
    /// Explain the route of the statement in this column, for the user and the schema in these.
    Explain(usize, usize, usize),
}

use Shown::{BytesPerSecond, Hidden, Microseconds, Milliseconds, Number, PerSecond, Text};

const fn column(name: &'static str, width: u16, kind: Shown) -> Column {
    Column { name, width, kind, is_wide: false }
}

/// A column that narrow screens have no place for.
const fn wide(name: &'static str, width: u16, kind: Shown) -> Column {
    Column { name, width, kind, is_wide: true }
}

/// All views.
#[rustfmt::skip]
pub static VIEWS: [View; 7] = [
    View {
        key: '1',
        title: "Hostgroups",
        statement: "SELECT hostgroup, SUM(status = 'ONLINE') || ' of ' || COUNT(*), SUM(ConnUsed), SUM(ConnFree), SUM(ConnOK), SUM(ConnERR), SUM(Queries), SUM(Bytes_data_sent), SUM(Bytes_data_recv), MAX(Latency_us) FROM stats_mysql_connection_pool GROUP BY hostgroup",
        columns: &[
            column("hg", 9, Number),
            column("online", 9, Text),
            column("used", 6, Number),
            column("free", 6, Number),
            wide("opened", 8, Number),
            column("failed", 8, Number),
            column("stmt/s", 8, PerSecond),
            column("sent/s", 8, BytesPerSecond),
            column("recv/s", 8, BytesPerSecond),
            column("ping", 8, Microseconds),
        ],
        identity: &[0],
        sorted_by: 6,
        action: None,
    },
    View {
        key: '2',
        title: "Servers",
        statement: "SELECT hostgroup, srv_host || ':' || srv_port, status, ConnUsed, ConnFree, ConnOK, ConnERR, Queries, Bytes_data_sent, Bytes_data_recv, Latency_us FROM stats_mysql_connection_pool",
        columns: &[
            column("hg", 4, Number),
            column("server", 0, Text),
            column("status", 8, Text),
            column("used", 5, Number),
            column("free", 5, Number),
            wide("opened", 6, Number),
            column("failed", 6, Number),
            column("stmt/s", 7, PerSecond),
            wide("sent/s", 7, BytesPerSecond),
            wide("recv/s", 7, BytesPerSecond),
            column("ping", 7, Microseconds),
        ],
        identity: &[0, 1],
        sorted_by: 7,
        action: None,
    },
    View {
        key: '3',
        title: "Digests",
        statement: "SELECT hostgroup, count_star, count_star, sum_time, sum_time / count_star, max_time, sum_rows_sent, username, schemaname, digest_text FROM stats_mysql_query_digest ORDER BY sum_time DESC LIMIT 1000",
        columns: &[
            column("hg", 4, Number),
            column("count", 8, Number),
            column("/s", 6, PerSecond),
            column("total", 7, Microseconds),
            column("mean", 7, Microseconds),
            wide("max", 7, Microseconds),
            wide("rows", 8, Number),
            column("user", 8, Text),
            wide("schema", 8, Text),
            column("statement", 0, Text),
        ],
        identity: &[0, 7, 8, 9],
        sorted_by: 3,
        action: Some(Action::Explain(9, 7, 8)),
    },
    View {
        key: '4',
        title: "Sessions",
        statement: "SELECT SessionID, user, db, cli_host || ':' || cli_port, hostgroup, IFNULL(srv_host || ':' || srv_port, ''), command, time_ms, info FROM stats_mysql_processlist LIMIT 10000",
        columns: &[
            column("id", 10, Number),
            column("user", 9, Text),
            wide("schema", 9, Text),
            wide("client", 16, Text),
            column("hg", 5, Number),
            wide("server", 16, Text),
            wide("command", 8, Text),
            column("time", 7, Milliseconds),
            column("statement", 0, Text),
        ],
        identity: &[],
        sorted_by: 7,
        action: Some(Action::Kill(0)),
    },
    View {
        key: '5',
        title: "Pins",
        statement: "SHOW PINS",
        columns: &[
            column("id", 10, Number),
            column("user", 9, Text),
            wide("schema", 9, Text),
            wide("client", 15, Text),
            column("hg", 5, Number),
            wide("server", 15, Text),
            wide("port", 5, Number),
            column("reason", 15, Text),
            column("age", 7, Milliseconds),
            column("digest", 0, Hidden),
            column("statement", 0, Text),
        ],
        identity: &[],
        sorted_by: 8,
        action: Some(Action::Kill(0)),
    },
    View {
        key: '6',
        title: "Rules",
        statement: "SELECT r.rule_id, s.hits, s.hits, IFNULL(r.destination_hostgroup, ''), IFNULL(r.username, ''), IFNULL(r.match_digest, IFNULL(r.match_pattern, IFNULL(r.digest, ''))), IFNULL(r.comment, '') FROM runtime_mysql_query_rules r JOIN stats_mysql_query_rules s ON s.rule_id = r.rule_id",
        columns: &[
            column("rule", 8, Number),
            column("hits", 11, Number),
            column("/s", 8, PerSecond),
            column("hg", 5, Number),
            column("user", 10, Text),
            column("matches", 0, Text),
            wide("comment", 20, Text),
        ],
        identity: &[0],
        sorted_by: 1,
        action: None,
    },
    View {
        key: '7',
        title: "Errors",
        statement: "SELECT hostgroup, hostname || ':' || port, username, schemaname, count_star, count_star, errno, datetime(last_seen, 'unixepoch'), last_error FROM stats_mysql_errors ORDER BY count_star DESC LIMIT 1000",
        columns: &[
            column("hg", 4, Number),
            wide("server", 16, Text),
            column("user", 8, Text),
            wide("schema", 8, Text),
            column("count", 8, Number),
            column("/s", 6, PerSecond),
            column("errno", 6, Number),
            wide("last (UTC)", 19, Text),
            column("message", 0, Text),
        ],
        identity: &[0, 1, 2, 3, 6],
        sorted_by: 4,
        action: None,
    },
];

/// The order of two values: as numbers if both are.
pub fn compare(one: &str, other: &str) -> Ordering {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        _ => one.cmp(other),
    }
}

/// A value as it is shown; `before` is the former one, `seconds` ago.
pub fn shown(kind: Shown, value: &str, before: Option<&str>, seconds: f64) -> String {
    let number = |text: &str| text.parse::<f64>().ok();
    let growth = || {
        let (now, before) = (number(value)?, number(before?)?);
        // Less than before: it was reset.
        (seconds > 0.0 && now >= before).then(|| (now - before) / seconds)
    };
    match kind {
        Shown::Text | Shown::Number | Shown::Hidden => value.to_owned(),
        Shown::PerSecond => growth().map_or_else(|| "-".to_owned(), count),
        Shown::BytesPerSecond => growth().map_or_else(|| "-".to_owned(), bytes),
        Shown::Microseconds => number(value).map_or_else(|| value.to_owned(), duration),
        Shown::Milliseconds => number(value).map_or_else(|| value.to_owned(), |ms| duration(ms * 1e3)),
    }
}

/// A rate in at most seven characters.
pub fn count(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.1}"),
        value if value < 99_999.5 => format!("{value:.0}"),
        value if value < 9_999_950.0 => format!("{:.1}k", value / 1e3),
        value => format!("{:.1}M", value / 1e6),
    }
}

/// Bytes in at most seven characters.
pub fn bytes(value: f64) -> String {
    match value {
        value if value < 1_000.0 => format!("{value:.0}B"),
        value if value < 999_950.0 => format!("{:.1}K", value / 1e3),
        value if value < 999_950_000.0 => format!("{:.1}M", value / 1e6),
        value => format!("{:.1}G", value / 1e9),
    }
}

/// A duration in at most seven characters, given in microseconds.
pub fn duration(us: f64) -> String {
    match us {
        us if us < 999.5 => format!("{us:.0}us"),
        us if us < 999_950.0 => format!("{:.1}ms", us / 1e3),
        us if us < 600e6 => format!("{:.1}s", us / 1e6),
        us if us < 360_000e6 => format!("{:.0}m", us / 60e6),
        us => format!("{:.0}h", us / 3600e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_units_that_fit() {
        assert_eq!(shown(Shown::PerSecond, "150", Some("100"), 2.0), "25");
        assert_eq!(shown(Shown::PerSecond, "50", Some("100"), 2.0), "-");
        assert_eq!(shown(Shown::PerSecond, "50", None, 2.0), "-");
        assert_eq!(shown(Shown::BytesPerSecond, "3000000", Some("0"), 2.0), "1.5M");
        assert_eq!(shown(Shown::Milliseconds, "1500", None, 1.0), "1.5s");
        assert_eq!(shown(Shown::Microseconds, "", None, 1.0), "");
        let all = [0.0, 9.99, 100.0, 99_999.0, 100_000.0, 9_999_949.0, 5e9];
        for text in all.into_iter().flat_map(|value| [count(value), bytes(value), duration(value)]) {
            assert!(text.len() <= 7, "{text}");
        }
        assert_eq!(compare("9", "10"), Ordering::Less);
        assert_eq!(compare("b", "a"), Ordering::Greater);
    }
}
