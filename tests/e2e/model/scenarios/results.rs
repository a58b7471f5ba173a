//! What is queried about the statement before: insert ids, row counts, warnings and errors.

use narrows_testkit::Flavour::{MariaDb, MySql9};

use super::super::script::{Burst, Script};

pub(super) fn insert(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let table = format!("{own}.t");
    let (number, second) = (script.number(), script.number());
    let statement = match script.random.below(16) {
        0..=3 => format!("INSERT INTO {table} (v, s) VALUES ({number}, 'new')"),
        4 => format!("INSERT INTO {table} (v) VALUES ({number}), ({second})"),
        5 => format!("INSERT INTO {table} (id, v) VALUES ({}, {number})", 1_000_000 + number),
        6 => format!("INSERT INTO {table} (id, v) VALUES (0, {number}), (NULL, {second})"),
        7 => format!("INSERT IGNORE INTO {table} (v) VALUES (-1)"),
        8 => format!("INSERT IGNORE INTO {table} (v) VALUES (-1), ({number})"),
        9 => format!("INSERT INTO {table} (v) VALUES (-2) ON DUPLICATE KEY UPDATE s = 'again'"),
        10 => format!("INSERT INTO {table} (v) VALUES (-2) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)"),
        11 => format!("REPLACE INTO {table} (v, s) VALUES ({}, 'replaced')", number - 1),
        12 => format!("INSERT INTO {table} (v) SELECT v + {number} * 100000 FROM common.t"),
        13 => format!("UPDATE {table} SET v = LAST_INSERT_ID(v + 0) WHERE id = 3"),
        14 => format!("SELECT LAST_INSERT_ID({number}5)"),
        _ => match script.flavour {
            MariaDb => format!("INSERT INTO {table} (v) VALUES ({number}) RETURNING id, v"),
            MySql9 => format!("INSERT INTO {table} SET v = {number}"),
        },
    };
    burst.query(statement);
    for _ in 0..script.random.below(4) {
        match script.random.below(9) {
            0 => burst.query("SELECT LAST_INSERT_ID()"),
            1 => burst.query("SELECT @@last_insert_id, LAST_INSERT_ID() + 1"),
            2 => burst.query("SELECT ROW_COUNT()"),
            3 => burst.query(format!("SELECT v FROM {table} WHERE id = LAST_INSERT_ID()")),
            4 => burst.query("SELECT COUNT(*) FROM common.t"),
            5 => burst
                .query(format!("INSERT INTO {table} (v) VALUES (LAST_INSERT_ID() + 50000000 + {number})")),
            6 => burst.query("SET last_insert_id = 4711"),
            7 => burst.query(format!("SELECT id FROM {table} WHERE id IS NULL")),
            _ => burst.query("SELECT 1"),
        }
    }
    burst.query("SELECT LAST_INSERT_ID()");
}

pub(super) fn found_rows(script: &mut Script, burst: &mut Burst) {
    let statement = *script.random.pick(&[
        "SELECT SQL_CALC_FOUND_ROWS id FROM common.t ORDER BY id LIMIT 1",
        "SELECT id FROM common.t ORDER BY id LIMIT 2",
        "SELECT id FROM common.t WHERE id > 1000",
        "SELECT id FROM common.t ORDER BY id LIMIT 1, 1",
        "SELECT id FROM common.t ORDER BY id LIMIT 1 OFFSET 7",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SHOW TABLES FROM common",
    ]);
    burst.query(statement);
    if script.random.percent(30) {
        burst.query(*script.random.pick(&["SET @a = 1", "DO 1", "USE common", "SELECT 1"]));
    }
    burst.query("SELECT FOUND_ROWS()");
    if script.random.percent(50) {
        burst.query("SELECT FOUND_ROWS(), ROW_COUNT()");
    }
}

pub(super) fn warning(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let number = script.number();
    let statement = match script.random.below(6) {
        0 => "SELECT CAST('abc' AS SIGNED)".to_owned(),
        1 => "DROP TABLE IF EXISTS common.nosuchtable".to_owned(),
        2 => format!(
            "INSERT IGNORE INTO {own}.t (v, s) VALUES ({number}, 'much longer than twenty characters')"
        ),
        3 => "SELECT 1/0, CAST('1x' AS SIGNED), CAST('2y' AS SIGNED)".to_owned(),
        4 => format!("UPDATE {own}.t SET s = CONCAT(s, 'a') WHERE id = 1 LIMIT 1"),
        // Its own schema, because this waits for the transaction of any session with a temporary table in the schema.
        _ => format!("CREATE DATABASE IF NOT EXISTS {own}"),
    };
    burst.query(statement);
    after_diagnostics(script, burst);
}

pub(super) fn error(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let statements = [
        "SELECT nosuchcolumn".to_owned(),
        "SELECT * FROM common.nosuchtable".to_owned(),
        "SELECT FROM WHERE".to_owned(),
        format!("INSERT INTO {own}.t (v) VALUES (-1)"),
        "SELECT (SELECT 1 UNION SELECT 2)".to_owned(),
        format!("INSERT INTO {own}.t (v) VALUES ('word')"),
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'asked for'".to_owned(),
        "KILL 99999999".to_owned(),
        "EXECUTE nosuchstatement".to_owned(),
        "SET nosuchvariable = 1".to_owned(),
        "SET sql_mode = 'NOSUCH'".to_owned(),
        "SET time_zone = 'Moon/Crater'".to_owned(),
        "SELECT @@nosuchvariable".to_owned(),
        "CALL common.nosuchroutine()".to_owned(),
        "RELEASE SAVEPOINT nosuch".to_owned(),
        "USE nosuchschema".to_owned(),
        "CREATE TABLE common.t (n INT)".to_owned(),
        String::new(),
        "/* nothing */".to_owned(),
    ];
    burst.query(script.random.pick(&statements).clone());
    after_diagnostics(script, burst);
}

pub(super) fn after_diagnostics(script: &mut Script, burst: &mut Burst) {
    if script.random.percent(30) {
        burst.query(*script.random.pick(&[
            "SELECT 1",
            "SET @a = 2",
            "USE common",
            "DO 1",
            "SELECT @@sql_mode",
        ]));
    }
    for _ in 0..script.random.below(3) {
        burst.query(*script.random.pick(&[
            "SHOW WARNINGS",
            "SHOW ERRORS",
            "SHOW COUNT(*) WARNINGS",
            "SHOW COUNT(*) ERRORS",
            "SELECT @@warning_count, @@error_count",
            "SHOW WARNINGS LIMIT 1",
            "SELECT ROW_COUNT(), @@warning_count",
        ]));
    }
    if script.random.percent(10) {
        burst.query("GET DIAGNOSTICS @a = NUMBER, @b = ROW_COUNT");
        burst.query("SELECT @a, @b");
        burst.ties = true;
    }
}

pub(super) fn plain(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    for _ in 0..=script.random.below(3) {
        match script.random.below(7) {
            0 => burst.query("SELECT id, v, s FROM common.t ORDER BY id"),
            5 => burst.query("SELECT GROUP_CONCAT(s ORDER BY id) FROM common.t"),
            1 => burst.query("SELECT id, s FROM t WHERE id <= 20 ORDER BY id LIMIT 3"),
            2 => burst.query("SELECT s FROM latin.t WHERE id = 20"),
            3 => burst.query(format!("UPDATE {own}.t SET s = 'plain' WHERE id = 2")),
            4 => burst.query(format!("SHOW CREATE TABLE {own}.k")),
            _ => burst.query("SELECT 'ok'"),
        }
    }
}
