//! Whose writes a read sees, which setting decides, and what a token is worth.

use std::time::Duration;

use narrows_testkit::{Narrows, RawClient, kill};

use super::{figures, on_each, read, run, session_of, token, value, write};
use crate::prepared::statement::{Statement, Value, cell};
use crate::support::start;

/// Replicas are connected, and nothing that is written from now on reaches them.
const NOTHING: i64 = -1;

/// Writes in a way that depends on the number; some ways leave Narrows without a GTID.
fn write_somehow(client: &mut RawClient, id: i32, n: i64) {
    match n % 4 {
        0 => write(client, id, n),
        1 => run(client, &format!("CALL shop.put({id}, {n})")),
        2 => {
            let replace = Statement::prepare(client, "REPLACE INTO shop.t VALUES (?, ?)");
            let answer = replace.execute(client, &[Value::Integer(id.into()), Value::Integer(n)]);
            assert!(answer.error().is_none(), "{:?}", answer.error());
        }
        _ => {
            run(client, "BEGIN");
            write(client, id, n);
            run(client, "COMMIT");
        }
    }
}

#[test]
fn what_a_session_has_written_all_others_see_at_once_with_level_global() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("threads", "4").variable("causal_reads", "global"));
        servers.apply(false);
        let (mut sessions, id): (Vec<_>, _) = ((0..8).map(|_| narrows.client()).collect(), 1);
        for n in 0..400 {
            write_somehow(&mut sessions[n % 8], id, n as i64);
            let next = 1 + n % 7;
            let (found, _) = read(&mut sessions[(n + next) % 8], "", id);
            assert_eq!(found, n as i64, "{:?}: {}", servers.flavour, figures(&narrows));
        }
        println!("{:?}: 400 reads of others' writes, 0 stale; {}", servers.flavour, figures(&narrows));
        servers.apply(true);
        servers.wait_for_replicas();
        let replica = |server: u32| server != 1;
        narrows_testkit::wait_until("reads return to the replicas", || {
            replica(read(&mut sessions[0], "", id).1)
        });
    });
}

#[test]
fn with_level_user_only_the_writes_of_the_own_account_are_waited_for() {
    on_each(|servers| {
        let config = servers.config().user("root", "", "").variable("causal_reads", "user");
        servers.nodes[0].execute(&["CREATE USER other IDENTIFIED BY 'other'", "GRANT ALL ON *.* TO other"]);
        servers.wait_for_replicas();
        let narrows = start(&config.user("other", "other", ""));
        let (mut one, mut same) = (narrows.client(), narrows.client());
        let mut other = session_of(&narrows, "other");
        // What was written before is asked for once.
        read(&mut other, "", 1);
        assert_ne!(read(&mut other, "", 1).1, 1, "a replica has all that was written before");
        servers.apply(false);
        for n in 0..50 {
            write(&mut one, 1, n);
            assert_eq!(read(&mut same, "", 1), (n, 1));
            let (found, server) = read(&mut other, "", 1);
            assert!(found == NOTHING && server != 1, "{found} from {server}");
        }
    });
}

#[test]
fn writes_of_before_a_restart_are_seen_after_it() {
    on_each(|servers| {
        for level in ["session", "user", "global"] {
            let config = servers.config().supervised().variable("causal_reads", level);
            let mut narrows = start(&config);
            let (mut writer, mut other) = (narrows.client(), narrows.client());
            read(&mut other, "", 1);
            servers.apply(false);
            write(&mut writer, 1, 41);
            kill(narrows.worker());
            // The session survives it, and nobody has recorded what it has written.
            assert_eq!(read_patiently(&mut writer, 1), (41, 1), "{level}");
            if level != "session" {
                assert_eq!(read_patiently(&mut other, 1), (41, 1), "{level}");
            }
            write(&mut writer, 1, 42);
            narrows.process().stop(Duration::from_secs(5));
            narrows.start_again(env!("CARGO_BIN_EXE_narrows"));
            if level != "session" {
                assert_eq!(read(&mut narrows.client(), "", 1), (42, 1), "{level}");
            }
            servers.apply(true);
            servers.nodes[0].execute(&["DELETE FROM shop.t WHERE id = 1"]);
            servers.wait_for_replicas();
        }
    });
}

/// A statement in flight when the worker dies may be lost, the session is not.
fn read_patiently(client: &mut RawClient, id: i32) -> (i64, u32) {
    let query = format!("SELECT CONCAT(COALESCE(MAX(n), -1), ' ', @@server_id) FROM shop.t WHERE id = {id}");
    let answer = client.query(&query);
    match answer.error() {
        Some(error) => panic!("{} {}", error.code, error.message),
        None => super::seen(&answer.cell().expect("a row")),
    }
}

/// The settings, from the one that overrides all others to the one that all others override.
const SETTINGS: [&str; 6] = ["hint", "rule", "session variable", "account", "hostgroup", "variable"];

/// Gives one setting a value; returns the hint and the statement with which a session begins.
fn set(narrows: &Narrows, setting: &str, level: &str) -> (String, String) {
    let mut admin = narrows.admin();
    let json = format!("{{\"causal_reads\":\"{level}\"}}");
    let statements: &[String] = match setting {
        "hint" => return (format!("/* causal_reads={level} */"), String::new()),
        "session variable" => return (String::new(), format!("SET @narrows_causal_reads = '{level}'")),
        "rule" => &[
            format!("UPDATE mysql_query_rules SET attributes = '{json}' WHERE rule_id = 5"),
            "LOAD MYSQL QUERY RULES TO RUNTIME".to_owned(),
        ],
        "account" => &[
            format!("UPDATE mysql_users SET attributes = '{json}'"),
            "LOAD MYSQL USERS TO RUNTIME".to_owned(),
        ],
        "hostgroup" => &[
            "DELETE FROM mysql_hostgroup_attributes".to_owned(),
            format!(
                "INSERT INTO mysql_hostgroup_attributes (hostgroup_id, hostgroup_settings) VALUES (1, '{json}')"
            ),
            "LOAD MYSQL SERVERS TO RUNTIME".to_owned(),
        ],
        _ => &[format!("SET mysql-causal_reads = '{level}'"), "LOAD MYSQL VARIABLES TO RUNTIME".to_owned()],
    };
    statements.iter().for_each(|statement| run(&mut admin, statement));
    Default::default()
}

fn clear(narrows: &Narrows) {
    let mut admin = narrows.admin();
    for statement in [
        "UPDATE mysql_query_rules SET attributes = ''",
        "LOAD MYSQL QUERY RULES TO RUNTIME",
        "UPDATE mysql_users SET attributes = ''",
        "LOAD MYSQL USERS TO RUNTIME",
        "DELETE FROM mysql_hostgroup_attributes",
        "LOAD MYSQL SERVERS TO RUNTIME",
        "SET mysql-causal_reads = 'none'",
        "LOAD MYSQL VARIABLES TO RUNTIME",
    ] {
        run(&mut admin, statement);
    }
}

#[test]
fn each_setting_overrides_those_after_it() {
    on_each(|servers| {
        let narrows = start(&servers.config());
        servers.apply(false);
        let mut n = 0;
        for (place, stronger) in SETTINGS.iter().enumerate() {
            for weaker in SETTINGS[place + 1..].iter().map(|weaker| Some(*weaker)).chain([None]) {
                for (level, opposite) in [("session", "none"), ("none", "session")] {
                    clear(&narrows);
                    let mut hint = String::new();
                    let mut begin = String::new();
                    for (setting, level) in [(weaker, opposite), (Some(*stronger), level)] {
                        let Some(setting) = setting else { continue };
                        let (of_hint, of_begin) = set(&narrows, setting, level);
                        hint += &of_hint;
                        begin = if of_begin.is_empty() { begin } else { of_begin };
                    }
                    let mut session = narrows.client();
                    if !begin.is_empty() {
                        run(&mut session, &begin);
                    }
                    n += 1;
                    write(&mut session, 1, n);
                    let expected = if level == "session" { n } else { NOTHING };
                    let (found, server) = read(&mut session, &hint, 1);
                    let what =
                        format!("{:?}: {stronger}={level} over {weaker:?}={opposite}", servers.flavour);
                    assert_eq!((found, server == 1), (expected, level == "session"), "{what}");
                }
            }
        }
        println!("{:?}: {n} combinations of two settings", servers.flavour);
    });
}

#[test]
fn a_token_gives_another_session_what_its_own_has_written() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("default_session_track_gtids", "OWN_GTID"));
        let mut writer = narrows.client();
        write(&mut writer, 1, 1);
        servers.wait_for_replicas();
        let old = token(&mut writer);
        servers.apply(false);
        write(&mut writer, 1, 2);
        let new = token(&mut writer);
        let gtids = new.split_once('/').expect("a hostgroup and GTIDs").1;
        for hint in [format!("/* causal_token={new} */"), format!("/* min_gtid={gtids} */")] {
            assert_eq!(read(&mut narrows.client(), &hint, 1), (2, 1), "{hint}");
        }
        let (found, server) = read(&mut narrows.client(), &format!("/* causal_token={old} */"), 1);
        assert!(found == 1 && server != 1, "the replica has that: {found} from {server}");
        // What cannot be read must not make a read see less.
        for bad in ["nonsense", "0/", "0/1-2", "unknown", "0-1-99999999999999999999", "9/x"] {
            let (found, _) = read(&mut narrows.client(), &format!("/* causal_token={bad} */"), 1);
            let is_empty = bad == "0/";
            assert_eq!(found, if is_empty { 1 } else { 2 }, "{bad}");
            let mut session = narrows.client();
            run(&mut session, &format!("SET @narrows_causal_token = '{bad}'"));
            assert_eq!(read(&mut session, "", 1).0, if is_empty { 1 } else { 2 }, "{bad}");
        }
        // Of many that are not GTIDs of anybody, none harms others.
        let mut session = narrows.client();
        for text in ["CONCAT('no', 'nsense')", "1.5", "NULL", "x'ff'"] {
            run(&mut session, &format!("SET @narrows_causal_token = {text}"));
            read(&mut session, "", 1);
        }
        let prepared = Statement::prepare(&mut session, "SELECT CAST(n AS CHAR) FROM shop.t WHERE id = 1");
        run(&mut session, &format!("SET @narrows_causal_token = '{new}'"));
        assert_eq!(cell(&prepared.execute(&mut session, &[])), "2");
        assert_eq!(
            value(&mut narrows.client(), "SELECT @@narrows_causal_token"),
            "",
            "of one that wrote nothing"
        );
    });
}

#[test]
fn every_level_is_harmless_to_hostgroups_that_belong_to_no_pair() {
    on_each(|servers| {
        for level in ["session", "user", "global"] {
            let config = narrows_testkit::NarrowsConfig::in_front_of(servers.nodes[0].port());
            let config = config.variable("get_server_public_key", "true").variable("causal_reads", level);
            let narrows = start(&config);
            let mut session = narrows.client();
            write(&mut session, 1, 5);
            run(&mut session, "CALL shop.put(1, 6)");
            assert_eq!(read(&mut session, "", 1), (6, 1), "{level}");
            write(&mut session, 1, 7);
            assert_eq!(read(&mut narrows.client(), "", 1), (7, 1), "{level}");
        }
    });
}

#[test]
fn a_session_with_a_token_can_write() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        let (mut session, mut other) = (narrows.client(), narrows.client());
        write(&mut session, 1, 5);
        run(&mut other, &format!("SET @narrows_causal_token = '{}'", token(&mut session)));
        write(&mut other, 1, 6);
        assert_eq!(read(&mut other, "", 1).0, 6);
    });
}

#[test]
fn writes_that_narrows_was_not_told_of_are_seen() {
    on_each(|servers| {
        servers.nodes[0]
            .execute(&["CREATE PROCEDURE shop.fail(p INT, q INT) BEGIN REPLACE INTO shop.t VALUES (p, q); \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END"]);
        servers.wait_for_replicas();
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        servers.apply(false);
        let mut session = narrows.client();
        write(&mut session, 1, 1);
        assert_eq!(read(&mut session, "", 1).0, 1);
        let error = session.query("CALL shop.fail(1, 2)").error().expect("it fails after it has written");
        assert_eq!(error.message, "no");
        assert_eq!(read(&mut session, "", 1).0, 2, "{:?}: a routine that fails", servers.flavour);
        let login = narrows_testkit::Login::new("sbtest", "sbtest");
        let login = login.with(narrows_testkit::capability::MULTI_STATEMENTS);
        let mut several = RawClient::open(&narrows.endpoint(), &login);
        several
            .query("REPLACE INTO shop.t VALUES (1, 3); REPLACE INTO shop.t VALUES (1, 'x', 2)")
            .error()
            .expect("fails");
        assert_eq!(read(&mut several, "", 1).0, 3, "{:?}: several, of which one fails", servers.flavour);
    });
}

#[test]
fn what_is_written_while_no_setting_tracks_writes_is_seen_later() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "global"));
        let (mut one, mut other) = (narrows.client(), narrows.client());
        write(&mut one, 1, 1);
        assert_eq!(read(&mut other, "", 1).0, 1);
        servers.apply(false);
        let mut admin = narrows.admin();
        for (level, n) in [("none", 2), ("global", 2)] {
            run(&mut admin, &format!("SET mysql-causal_reads = '{level}'"));
            run(&mut admin, "LOAD MYSQL VARIABLES TO RUNTIME");
            if level == "none" {
                write(&mut one, 1, n);
            }
        }
        assert_eq!(read(&mut other, "", 1).0, 2, "{:?}", servers.flavour);
    });
}

#[test]
fn a_table_that_the_session_has_just_created_can_be_prepared_for() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        servers.apply(false);
        let mut session = narrows.client();
        run(&mut session, "CREATE TABLE shop.fresh (n INT)");
        let select = Statement::try_prepare(&mut session, "SELECT CAST(COUNT(*) AS CHAR) FROM shop.fresh");
        let select = select.unwrap_or_else(|error| panic!("{:?}: {}", servers.flavour, error.message));
        assert_eq!(cell(&select.execute(&mut session, &[])), "0");
    });
}
