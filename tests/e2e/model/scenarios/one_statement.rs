//! Settings that hold for one statement: SET STATEMENT .. FOR of MariaDB, and optimizer hints of MySQL.

use super::super::script::{Burst, Script};
use super::Step;

/// Variables and values, also those that only a driver or an attacker would set for a statement.
const FOR_STATEMENT: &[(&str, &[&str])] = &[
    ("sql_log_bin", &["0", "1"]),
    ("foreign_key_checks", &["0", "1"]),
    ("sql_mode", &["''", "'ANSI'", "'NO_BACKSLASH_ESCAPES'", "CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')"]),
    ("max_statement_time", &["50", "0"]),
    ("tx_read_only", &["1", "0"]),
    ("tx_isolation", &["'SERIALIZABLE'", "'READ-COMMITTED'"]),
    ("time_zone", &["'+03:00'", "'SYSTEM'"]),
    ("lock_wait_timeout", &["71", "90"]),
    ("session_track_schema", &["0", "1"]),
    ("session_track_system_variables", &["''", "'*'", "'time_zone'"]),
    ("session_track_state_change", &["0", "1"]),
    ("group_concat_max_len", &["4", "1024"]),
    ("sql_select_limit", &["1", "DEFAULT"]),
    ("character_set_client", &["latin1"]),
    ("collation_connection", &["latin1_bin"]),
    ("last_insert_id", &["4711"]),
    ("insert_id", &["@@insert_id"]),
    ("timestamp", &["100", "0"]),
    ("nosuchvariable", &["1"]),
];

/// Those of them that are not set for good.
const ONLY_FOR_STATEMENT: &[&str] = &["nosuchvariable", "insert_id", "timestamp", "last_insert_id"];

/// Asked after each, for all of them.
const LOOK_MARIADB: &str = "SELECT @@sql_log_bin, @@foreign_key_checks, @@sql_mode, @@max_statement_time, \
     @@tx_read_only, @@tx_isolation, @@time_zone, @@lock_wait_timeout, @@session_track_schema, \
     @@session_track_state_change, @@group_concat_max_len, @@sql_select_limit, @@character_set_client, \
     @@collation_connection";

pub(super) fn set_statement(script: &mut Script, burst: &mut Burst) {
    let parts: Vec<(&str, &str)> = (0..=script.random.below(3))
        .map(|_| {
            let (name, values) = *script.random.pick(FOR_STATEMENT);
            (name, *script.random.pick(values))
        })
        .collect();
    // One of them may have been set for good, or be set by someone else.
    let (name, value) = parts[0];
    if script.random.percent(40) && !ONLY_FOR_STATEMENT.contains(&name) {
        let (_, values) = FOR_STATEMENT.iter().find(|(other, _)| *other == name).expect("a row of the table");
        let other = values.iter().find(|other| **other != value).unwrap_or(&value);
        burst.query(format!("SET {name} = {other}"));
    }
    let list: Vec<String> = parts.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let (statement, ties) = inner(script);
    let prefix = *script.random.pick(&["SET STATEMENT", "set  statement", "/* x */ SET STATEMENT"]);
    let text = format!("{prefix} {} FOR {statement}", list.join(", "));
    burst.ties |= ties;
    // What reports a text sets that does not show it, nobody knows.
    let shows = !list.join("").contains("session_track");
    match script.random.below(10) {
        0 if shows => {
            burst.query(format!("EXECUTE IMMEDIATE {}", quoted(&text)));
            burst.ties = true;
        }
        1 if shows => {
            burst.query(format!("PREPARE left_open FROM {}", quoted(&text)));
            burst.query("EXECUTE left_open");
            burst.ties = true;
        }
        2 => burst.steps.push(Step::Prepared(text.into_bytes())),
        _ => burst.query(text),
    }
    let own = script.own.clone();
    for _ in 0..=script.random.below(2) {
        match script.random.below(6) {
            0 => burst.query(format!("INSERT INTO {own}.r (s) VALUES ('after')")),
            1 => burst.query("SELECT DATABASE()"),
            2 => burst.query("SELECT 1"),
            3 => burst.query("SHOW WARNINGS"),
            4 => burst.query("SELECT LAST_INSERT_ID(), ROW_COUNT()"),
            _ => burst.query(LOOK_MARIADB),
        }
    }
    burst.query(LOOK_MARIADB);
}

/// A text as a literal, in any SQL mode.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Each kind of statement, and whether it keeps its connection.
fn inner(script: &mut Script) -> (String, bool) {
    let (own, number) = (script.own.clone(), script.number());
    let statement = match script.random.below(30) {
        0 => "SELECT @@sql_mode, @@time_zone, @@foreign_key_checks, @@sql_log_bin".to_owned(),
        1 => format!("INSERT INTO {own}.t (v) VALUES ({number})"),
        2 => format!("UPDATE {own}.t SET s = 'for one' WHERE id = 1"),
        3 => format!("DELETE FROM {own}.t WHERE id = -1"),
        4 => format!("REPLACE INTO {own}.t (v, s) VALUES ({number}, 'r')"),
        5 => "DO 1".to_owned(),
        6 => "USE common".to_owned(),
        7 => format!("USE {own}"),
        8 => "COMMIT".to_owned(),
        9 => "ROLLBACK".to_owned(),
        10 => format!("ALTER TABLE {own}.k COMMENT 'for one'"),
        11 => format!("INSERT INTO {own}.t (v) VALUES (-1)"),
        12 => "SELECT nosuch".to_owned(),
        13 => format!("CREATE TABLE IF NOT EXISTS {own}.k (id INT)"),
        14 => format!("TRUNCATE TABLE {own}.k"),
        15 => "SHOW VARIABLES LIKE 'time_zone'".to_owned(),
        16 => "SHOW WARNINGS".to_owned(),
        17 => format!("ANALYZE TABLE {own}.k"),
        18 => "SET @a = 1".to_owned(),
        19 => "SELECT id FROM common.t ORDER BY id LIMIT 2".to_owned(),
        20 => "SELECT COUNT(*) FROM common.t".to_owned(),
        21 => format!("INSERT IGNORE INTO {own}.t (v) VALUES (-1), ({number})"),
        hidden => {
            let statement = match hidden {
                22 => "BEGIN".to_owned(),
                23 => "SAVEPOINT one".to_owned(),
                24 => "CALL common.plus(1)".to_owned(),
                25 => format!("SELECT {own}.f('zone')"),
                26 => "EXECUTE IMMEDIATE 'USE common'".to_owned(),
                27 => "PREPARE left_open FROM 'SELECT @@time_zone'".to_owned(),
                28 => format!("CALL {own}.p('group')"),
                _ => "GET DIAGNOSTICS @a = NUMBER".to_owned(),
            };
            return (statement, true);
        }
    };
    (statement, false)
}

/// Variables that hints can set, and at the end some that they cannot.
const HINTS: &[(&str, &[&str])] = &[
    ("auto_increment_increment", &["5", "1"]),
    ("auto_increment_offset", &["3"]),
    ("big_tables", &["1"]),
    ("default_tmp_storage_engine", &["MEMORY"]),
    ("div_precision_increment", &["0", "7"]),
    ("end_markers_in_json", &["1"]),
    ("eq_range_index_dive_limit", &["3"]),
    ("foreign_key_checks", &["0"]),
    ("group_concat_max_len", &["4"]),
    ("insert_id", &["8001001"]),
    ("join_buffer_size", &["131072"]),
    ("lock_wait_timeout", &["71"]),
    ("max_error_count", &["0", "1"]),
    ("max_execution_time", &["50000"]),
    ("max_heap_table_size", &["1048576"]),
    ("max_join_size", &["1000000"]),
    ("max_seeks_for_key", &["100"]),
    ("max_sort_length", &["64"]),
    ("optimizer_prune_level", &["0"]),
    ("optimizer_search_depth", &["7"]),
    ("optimizer_switch", &["'mrr_cost_based=off'"]),
    ("sort_buffer_size", &["65536"]),
    ("sql_auto_is_null", &["1"]),
    ("sql_big_selects", &["1"]),
    ("sql_buffer_result", &["1"]),
    ("sql_mode", &["''", "'ANSI_QUOTES'", "'STRICT_ALL_TABLES'"]),
    ("sql_safe_updates", &["1"]),
    ("sql_select_limit", &["1"]),
    ("time_zone", &["'+03:00'"]),
    ("timestamp", &["100", "1000000000.5"]),
    ("tmp_table_size", &["1048576"]),
    ("unique_checks", &["0"]),
    ("updatable_views_with_limit", &["0"]),
    ("windowing_use_high_precision", &["0"]),
    ("sql_log_bin", &["0"]),
    ("last_insert_id", &["4711"]),
    ("rand_seed1", &["5"]),
    ("session_track_schema", &["0"]),
    ("transaction_read_only", &["1"]),
    ("autocommit", &["0"]),
    ("character_set_client", &["latin1"]),
    ("nosuchvariable", &["1"]),
];

pub(super) fn hints(script: &mut Script, burst: &mut Burst) {
    let (own, number) = (script.own.clone(), script.number());
    let chosen: Vec<(&str, &str)> = (0..=script.random.below(2))
        .map(|_| {
            let (name, values) = *script.random.pick(HINTS);
            (name, *script.random.pick(values))
        })
        .collect();
    let known = script.variables.iter().find(|(known, _)| *known == chosen[0].0).copied();
    if let Some((name, values)) = known.filter(|_| script.random.percent(40)) {
        burst.query(format!("SET {name} = {}", script.random.pick(values)));
    }
    let hint: Vec<String> = chosen.iter().map(|(name, value)| format!("SET_VAR({name} = {value})")).collect();
    let hint = format!("/*+ {} */", hint.join(" "));
    let names: Vec<String> = chosen
        .iter()
        .filter(|(name, _)| !matches!(*name, "timestamp" | "rand_seed1" | "nosuchvariable"))
        .map(|(name, _)| format!("@@{name}"))
        .chain(["@@autocommit".to_owned()])
        .collect();
    let names = names.join(", ");
    let statement = match script.random.below(12) {
        0 => format!("SELECT {hint} {names}"),
        1 => format!("INSERT {hint} INTO {own}.t (v) VALUES ({number})"),
        2 => format!("UPDATE {hint} {own}.t SET s = 'hint' WHERE id = 1"),
        3 => format!("DELETE {hint} FROM {own}.t WHERE id = -1"),
        4 => format!("REPLACE {hint} INTO {own}.t (v) VALUES ({number})"),
        5 => format!("SELECT {hint} id, s FROM common.t ORDER BY id"),
        6 => format!("SELECT {hint} nosuch"),
        7 => format!("INSERT {hint} INTO {own}.t (v) VALUES (-1)"),
        8 => format!("INSERT {hint} INTO {own}.t (v) SELECT v + {number} * 100000 FROM common.t"),
        9 => format!("(SELECT {hint} 1) UNION ALL (SELECT 2)"),
        10 => format!("EXPLAIN FORMAT=TRADITIONAL SELECT {hint} 1"),
        _ => format!("SELECT {hint} 1"),
    };
    match script.random.below(10) {
        0 => {
            burst.query(format!("PREPARE left_open FROM {}", quoted(&statement)));
            burst.query("EXECUTE left_open");
            burst.ties = true;
        }
        1 => burst.steps.push(Step::Prepared(statement.into_bytes())),
        _ => burst.query(statement),
    }
    for _ in 0..=script.random.below(2) {
        match script.random.below(7) {
            0 => burst.query(format!("INSERT INTO {own}.r (s) VALUES ('after')")),
            1 => burst.query("SELECT NOW() < '2001-01-01', NOW() < '2020-01-01'"),
            2 => burst.query("SELECT LAST_INSERT_ID(), @@insert_id"),
            3 => burst.query("SHOW WARNINGS"),
            4 => {
                // Whether time stands still.
                burst.query("SET @now = NOW(6)");
                burst.query("SELECT NOW(6) > @now");
                burst.ties = true;
            }
            _ => burst.query(format!("SELECT {names}")),
        }
    }
    burst.query(format!("SELECT {names}"));
}
