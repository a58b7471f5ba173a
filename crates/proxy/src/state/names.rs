//! Names of variables, which of them servers treat in their own way, and how values are written.

/// Setting the connection's character set sets its collation, and the other way round: one slot for both.
/// Likewise the two names of one variable, of which servers report the one that was set. `tests/isolation/variables.rs` asks
/// servers for all that change together.
pub fn slot(name: &str) -> &str {
    match name {
        "character_set_connection" => "collation_connection",
        "character_set_server" => "collation_server",
        "character_set_database" => SCHEMA_COLLATION,
        "log_slow_min_examined_row_limit" => "min_examined_row_limit",
        "log_slow_query" => "slow_query_log",
        "log_slow_query_time" => "long_query_time",
        "max_insert_delayed_threads" => "max_delayed_threads",
        // MySQL has only one of them.
        "old_alter_table" => "alter_algorithm",
        "storage_engine" => "default_storage_engine",
        "tmp_memory_table_size" => "tmp_table_size",
        "tx_isolation" => "transaction_isolation",
        "tx_read_only" => "transaction_read_only",
        other => other,
    }
}

/// Whether both are names of one variable, with one value.
pub fn are_one(one: &str, other: &str) -> bool {
    one == other || slot(one) == slot(other) && !slot(one).starts_with("collation_")
}

/// Variables that are a part of the value of another one, or that set it: neither can be set without the other (MariaDB). What
/// sets the part pins; the whole can be carried.
const PARTS: [(&str, &str); 5] = [
    ("log_queries_not_using_indexes", "log_slow_filter"),
    ("log_slow_admin_statements", "log_slow_disabled_statements"),
    ("log_slow_slave_statements", "log_slow_disabled_statements"),
    ("old", "old_mode"),
    ("wsrep_causal_reads", "wsrep_sync_wait"),
];

/// The variable that this one is a part of.
pub fn whole_of(name: &str) -> Option<&'static str> {
    PARTS.iter().find(|(part, _)| *part == name).map(|(_, whole)| *whole)
}

/// Follows the schema; only choosing the schema again puts it back.
pub const SCHEMA_COLLATION: &str = "collation_database";

/// The value of `sql_mode` with which sessions of clients with the capability `IGNORE_SPACE` begin.
pub const SQL_MODE_WITH_IGNORE_SPACE: &str = "CONCAT(@@global.sql_mode, ',IGNORE_SPACE')";

/// The value, in the state of a backend connection, of a variable that may have any: no client wants this one.
pub const UNKNOWN: &str = "unknown";

/// What `utf8mb4` is ordered by when nobody says otherwise (MySQL).
pub const UTF8MB4_COLLATION: &str = "default_collation_for_utf8mb4";

/// Set to 0 it runs, and shows the time.
pub const CLOCK: &str = "timestamp";

/// A variable, and another that servers set along with it, without a report.
pub const SETS_ANOTHER: (&str, &str) = ("max_join_size", "sql_big_selects");

/// Variables that MySQL (9.7) sets to OFF when they are set to DEFAULT, whatever the default.
pub const WRONG_DEFAULTS: [&str; 2] = ["foreign_key_checks", "unique_checks"];

/// Which variables a server reports.
pub const TRACKED_VARIABLES: &str = "session_track_system_variables";

/// Whether it reports the schema.
pub const TRACKS_SCHEMA: &str = "session_track_schema";

/// Whether it reports what is set for transactions, and what they do.
pub const TRACKS_TRANSACTIONS: &str = "session_track_transaction_info";

/// Whether it reports that something of the session has changed which has no report of its own, such as user variables and
/// temporary tables that a trigger sets.
pub const TRACKS_STATE: &str = "session_track_state_change";

/// Variables whose values are the client's own, while a connection has those that Narrows needs (`backend/reports.rs`). They
/// are no part of the difference between two states.
pub const HELD_FOR_CLIENTS: [&str; 4] = [TRACKS_SCHEMA, TRACKED_VARIABLES, TRACKS_TRANSACTIONS, TRACKS_STATE];

/// The slots that `SET NAMES` fills.
pub const CHARSETS: [&str; 3] = ["character_set_client", "character_set_results", "collation_connection"];

/// Variables that count when a statement runs, not when it is prepared. Of all others the worst is assumed.
pub(super) const WITHOUT_MEANING: [&str; 23] = [
    "autocommit",
    "binlog_direct_non_transactional_updates",
    "binlog_format",
    "foreign_key_checks",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lock_wait_timeout",
    "max_execution_time",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "session_track_gtids",
    "session_track_schema",
    "session_track_state_change",
    "session_track_system_variables",
    "session_track_transaction_info",
    "sql_log_bin",
    "timestamp",
    "transaction_isolation",
    "transaction_read_only",
    "unique_checks",
    "wait_timeout",
    "wsrep_on",
];

/// Variables of which a stored program has the value of its own creation, or that count whenever it runs (MySQL). Of all others it
/// keeps what they said when its session ran it first.
pub(super) const EVALUATED_BY_PROGRAMS: [&str; 18] = [
    "big_tables",
    "block_encryption_mode",
    "character_set_client",
    "character_set_results",
    "collation_connection",
    "collation_database",
    "cte_max_recursion_depth",
    "explicit_defaults_for_timestamp",
    "max_points_in_geometry",
    "max_sort_length",
    "optimizer_switch",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_mode",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "windowing_use_high_precision",
];

/// How long a server waits for its client. Narrows keeps them towards clients: a connection may serve another one next.
pub(super) const TIMEOUTS: [&str; 4] =
    ["interactive_timeout", "net_read_timeout", "net_write_timeout", "wait_timeout"];

/// Character sets in which ASCII text has other bytes, or these bytes are other letters.
pub(super) const OTHER_LETTERS: [&str; 5] = ["ucs2", "utf16", "utf16le", "utf32", "swe7"];

/// Bytes of the longest name of a variable: servers have none beyond 64, and components put theirs in front.
const LONGEST_NAME: usize = 128;

/// Whether a name is one of a session variable, perhaps of a component, and cannot be read as anything else.
pub fn is_variable_name(name: &str) -> bool {
    const SCOPES: [&str; 5] = ["global", "local", "persist", "persist_only", "session"];
    let (component, own) = name.split_once('.').unwrap_or(("component", name));
    name.len() <= LONGEST_NAME
        && !SCOPES.contains(&component)
        && [component, own]
            .iter()
            .all(|part| is_word(part.as_bytes()) && !part.starts_with(|first: char| first.is_ascii_digit()))
}

/// Whether a value may stand in SQL without quotes, or between any.
pub fn is_word(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Whether a text is a plain decimal number: digits, with others after a point perhaps.
pub(super) fn is_number(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 64 && digits(whole) && digits(fraction)
}

pub(super) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A string literal that is read alike under every `sql_mode` and in every character set: a value with a backslash, or with
/// letters outside ASCII, is written in hexadecimal.
pub fn quoted(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.is_ascii() && !text.contains(['\\', '\0']) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        _ => {
            let mut literal = String::from("0x");
            for byte in value {
                literal.push_str(&format!("{byte:02X}"));
            }
            literal
        }
    }
}
