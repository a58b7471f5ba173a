//! System variables: which are one, or change together, and what a session has after assignments in all forms.

use std::collections::{BTreeMap, BTreeSet};

use narrows_proxy::state::{CHARSETS, SCHEMA_COLLATION, SETS_ANOTHER, SessionState, slot, whole_of};
use narrows_testkit::{Flavour, RawClient, command};

use crate::support::{Pair, Stand};

/// Values that some variable accepts.
const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "8",
    "4096",
    "12345",
    "5000000",
    "1.5",
    "18446744073709551615",
    "'x'",
    "'ON'",
    "'OFF'",
    "''",
    "NULL",
    "'MyISAM'",
    "'MEMORY'",
    "'latin1'",
    "'latin1_bin'",
    "'+03:00'",
    "'de_DE'",
    "'COPY'",
    "'INPLACE'",
    "'admin'",
    "'slave'",
    "'call'",
    "'ANSI'",
    "'SERIALIZABLE'",
    "'READ-COMMITTED'",
    "'MIXED'",
    "'ROW'",
    "'MINIMAL'",
    "'mrr=on'",
    "'full_scan'",
    "'not_using_index'",
    "'NO_PROGRESS_INFO'",
    "'RSU'",
    "'LOSSY'",
];

/// Variables that are not asked about: they change by themselves, or a session with them cannot be asked any more.
const LEFT_OUT: &[&str] = &[
    "error_count",
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
    "identity",
    "insert_id",
    "last_gtid",
    "last_insert_id",
    "max_session_mem_used",
    "rand_seed1",
    "rand_seed2",
    "statement_id",
    "timestamp",
    "warning_count",
    // The connection to another server, and its settings.
    "default_master_connection",
    "max_relay_log_size",
    "sql_slave_skip_counter",
];

/// Of these, setting either pins.
const PIN: [&str; 2] = ["pseudo_replica_mode", "pseudo_slave_mode"];

fn session_variables(client: &mut RawClient) -> Vec<String> {
    let names = client.query("SHOW SESSION VARIABLES").text_rows();
    let names = names.into_iter().filter_map(|row| row.into_iter().next()?);
    let is_of_session = |name: &String| {
        !LEFT_OUT.contains(&name.as_str())
            && client.query(format!("SELECT @@session.{name}")).error().is_none()
    };
    names.filter(is_of_session).collect()
}

fn values(client: &mut RawClient, names: &[String]) -> BTreeMap<String, Option<String>> {
    let columns: Vec<String> = names.iter().map(|name| format!("CAST(@@session.{name} AS BINARY)")).collect();
    let rows = client.query(format!("SELECT {} LIMIT 1", columns.join(", "))).text_rows();
    names.iter().cloned().zip(rows.into_iter().next().unwrap_or_default()).collect()
}

/// Whether Narrows knows that the two change together.
fn is_known(one: &str, other: &str) -> bool {
    let is_charset = |name: &str| {
        CHARSETS.contains(&slot(name)) || [SCHEMA_COLLATION, "collation_server"].contains(&slot(name))
    };
    slot(one) == slot(other)
        || whole_of(one) == Some(other)
        || whole_of(other) == Some(one)
        || SETS_ANOTHER == (one, other)
        || is_charset(one) && is_charset(other)
        || PIN.contains(&one) && PIN.contains(&other)
}

#[test]
fn all_variables_that_change_together_are_known() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[]);
        let mut client = stand.direct();
        let names = session_variables(&mut client);
        client.command(command::RESET_CONNECTION, &[]);
        let before = values(&mut client, &names);
        let (mut unknown, mut together, mut unclear) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for name in &names {
            for value in VALUES {
                if client.query(format!("SET SESSION {name} = {value}")).error().is_some() {
                    continue;
                }
                let after = values(&mut client, &names);
                for (other, found) in &after {
                    if other != name && *found != before[other] {
                        let known = is_known(name, other);
                        if known { &mut together } else { &mut unknown }
                            .insert((name.clone(), other.clone()));
                    }
                }
                let is_empty =
                    matches!(after.get(name), Some(found) if found.as_deref().is_none_or(str::is_empty));
                let can_pin = whole_of(name).is_some() || name.starts_with("session_track_");
                if is_empty && !can_pin && !SessionState::default().can_carry(name, b"") {
                    unclear.insert(name.clone());
                }
                client.command(command::RESET_CONNECTION, &[]);
            }
        }
        assert!(unknown.is_empty(), "{flavour:?}: {unknown:#?}");
        assert!(unclear.is_empty(), "{flavour:?}: empty, or NULL? {unclear:?}");
        assert!(together.len() > 5 && names.len() > 120, "{flavour:?}: {together:?}, {}", names.len());
    }
}

/// Variables that have one value, or parts of it: two names, with a value for each.
const TOGETHER: &[(&str, &str, &str, &str)] = &[
    ("default_storage_engine", "'MyISAM'", "storage_engine", "'Aria'"),
    ("long_query_time", "3", "log_slow_query_time", "7"),
    ("tmp_table_size", "4096000", "tmp_memory_table_size", "8192000"),
    ("max_delayed_threads", "0", "max_insert_delayed_threads", "0"),
    ("min_examined_row_limit", "5", "log_slow_min_examined_row_limit", "9"),
    ("slow_query_log", "1", "log_slow_query", "1"),
    ("alter_algorithm", "'COPY'", "old_alter_table", "'INPLACE'"),
    ("old", "1", "old_mode", "''"),
    ("log_queries_not_using_indexes", "1", "log_slow_filter", "'admin'"),
    ("log_slow_admin_statements", "0", "log_slow_disabled_statements", "'sp'"),
    ("log_slow_slave_statements", "0", "log_slow_disabled_statements", "'call'"),
    ("log_slow_admin_statements", "0", "log_slow_slave_statements", "0"),
    ("wsrep_sync_wait", "8", "wsrep_causal_reads", "1"),
    ("max_join_size", "5", "sql_big_selects", "1"),
    ("tx_isolation", "'SERIALIZABLE'", "transaction_isolation", "'READ-COMMITTED'"),
    ("collation_connection", "latin1_bin", "character_set_connection", "utf8mb4"),
];

#[test]
fn a_variable_with_two_names_is_one() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[]);
        for &(one, one_value, other, other_value) in TOGETHER {
            let look = format!("SELECT @@session.{one}, @@session.{other}");
            if stand.direct().query(&*look).error().is_some() {
                continue;
            }
            for scope in ["SESSION ", "@@session.", "@@"] {
                if scope == "@@" && one.starts_with("tx_") {
                    continue;
                }
                for (x, v, y, w) in
                    [(one, one_value, other, other_value), (other, other_value, one, one_value)]
                {
                    let (set_x, set_y) = (format!("SET {scope}{x} = {v}"), format!("SET {scope}{y} = {w}"));
                    let default = format!("SET {scope}{x} = DEFAULT");
                    let both_at_once = format!("SET {scope}{x} = {v}, {scope}{y} = {w}");
                    for (firsts, seconds) in [
                        (vec![&set_x], vec![&set_y]),
                        (vec![&set_x, &set_y], vec![]),
                        (vec![&set_x, &default], vec![&set_y]),
                        (vec![&set_x, &set_y, &default], vec![&set_x]),
                        (vec![&both_at_once], vec![&set_y, &default]),
                    ] {
                        let mut first = Pair::new(&stand);
                        firsts.iter().for_each(|statement| drop(first.both(statement)));
                        first.both(&look);
                        if !first.keeps_connection(&stand) {
                            let mut second = Pair::new(&stand);
                            second.both(&look);
                            seconds.iter().for_each(|statement| drop(second.both(statement)));
                            second.both(&look);
                            drop(second);
                            first.both(&look);
                        }
                        drop(first);
                        Pair::new(&stand).both(&look);
                    }
                }
            }
        }
    }
}

/// Assignments whose effect is not what is written: it is relative to the value before, short for another one, or rounded.
const WRITTEN_OTHERWISE: &[&str] = &[
    "optimizer_switch = 'mrr=on'",
    "optimizer_switch = 'semijoin=off'",
    "optimizer_switch = DEFAULT",
    "sql_mode = 'ansi'",
    "sql_mode = ansi",
    "sql_mode = 4",
    "sql_mode = CONCAT('AN', 'SI')",
    "time_zone = '+03:00'",
    "sql_select_limit = 7",
    "sql_select_limit = 4 + 1",
    "max_join_size = 5",
    "sort_buffer_size = 100001",
    "sort_buffer_size = 1",
    "group_concat_max_len = 1000",
    "foreign_key_checks = off",
    "foreign_key_checks = 'OFF'",
    "character_set_client = latin1",
    "character_set_results = NULL",
    "character_set_connection = latin1",
    "character_set_connection = 47",
    "collation_connection = latin1_bin",
    "lc_time_names = 'de_DE'",
    "lc_time_names = 4",
    "lock_wait_timeout = 99999999999",
    "innodb_ft_user_stopword_table = NULL",
    "innodb_tmpdir = NULL",
    "timestamp = 5",
    "max_allowed_packet = 8388608",
    "character_set_results = ucs2, @@lc_time_names = CONCAT('fr', '_FR'), @@max_join_size = 5",
    "character_set_results = utf32, @@collation_connection = ucs2_bin, @@sort_buffer_size = 100000 + 1",
    "autocommit = 0",
    "autocommit = 1",
    "time_zone = '+01:00', @@sql_select_limit = 9",
    "nosuch = 5",
];

#[test]
fn what_a_set_without_a_scope_assigns_is_what_the_server_has() {
    let look = "SELECT @@optimizer_switch, @@sql_mode, @@time_zone, @@sql_select_limit, @@max_join_size, @@sql_big_selects, \
                @@sort_buffer_size, @@group_concat_max_len, @@foreign_key_checks, @@character_set_client, \
                @@character_set_results, @@collation_connection, @@lc_time_names, @@lock_wait_timeout, @@autocommit, \
                @@innodb_ft_user_stopword_table, @@innodb_tmpdir, @@timestamp = 5";
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[]);
        for assignment in WRITTEN_OTHERWISE {
            for second in ["optimizer_switch = 'semijoin=off'", "sql_mode = 'ANSI_QUOTES'"] {
                let mut first = Pair::new(&stand);
                first.both(&format!("SET @@{assignment}"));
                first.both(look);
                first.both(&format!("SET @@{second}"));
                if !first.keeps_connection(&stand) {
                    let mut other = Pair::new(&stand);
                    other.both(look);
                    other.both(
                        "SET optimizer_switch = 'derived_merge=off', time_zone = '+09:00', sql_mode = ''",
                    );
                    other.both("SET @@lc_time_names = 'fr_FR'");
                    drop(other);
                }
                first.both(look);
                drop(first);
                Pair::new(&stand).both(look);
            }
        }
    }
}

#[test]
fn a_prepared_set_that_fails_leaves_nothing() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[]);
        for name in ["max_allowed_packet", "net_buffer_length", "sort_buffer_size", "nosuch"] {
            let (mut first, mut other) = (Pair::new(&stand), Pair::new(&stand));
            for scope in ["@@", "@@session.", "SESSION "] {
                for client in [&mut first.own, &mut first.shared] {
                    client.command(command::STMT_PREPARE, format!("SET {scope}{name} = ?").as_bytes());
                }
                other.both("SELECT @@sort_buffer_size");
                first.both("SELECT @@max_allowed_packet, @@net_buffer_length, @@sort_buffer_size");
                other.both("SET sql_mode = ''");
            }
        }
    }
}
