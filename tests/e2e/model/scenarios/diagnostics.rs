//! Conditions and counts of the statement before, asked for in every form.

use narrows_testkit::Flavour::MariaDb;
use narrows_testkit::capability;

use super::super::script::{Burst, Script};
use super::Step;

/// Statements that leave conditions or replace them, with values that no other client has.
fn cause(script: &mut Script, burst: &mut Burst) {
    let (own, number) = (script.own.clone(), script.number());
    let statement = match script.random.below(23) {
        0 | 1 => format!("INSERT INTO {own}.t (v) VALUES (-1)"),
        2 => "SELECT nosuchcolumn".to_owned(),
        3 => format!("SELECT * FROM {own}.nosuch{number}"),
        4 => "SELECT 1 / 0, CAST('x' AS SIGNED)".to_owned(),
        5 => format!(
            "INSERT IGNORE INTO {own}.t (v, s) VALUES ({number}, 'much longer than twenty characters')"
        ),
        6 => format!("DROP TABLE IF EXISTS {own}.nosuch{number}"),
        7 => format!("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own {number}', MYSQL_ERRNO = 5000"),
        8 => format!("SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'own {number}'"),
        9 => format!("CALL {own}.p('signal')"),
        10 => format!("CALL {own}.p('warn')"),
        11 => format!("CALL {own}.handled()"),
        12 => format!("SELECT {own}.f('warn')"),
        13 => format!("INSERT INTO {own}.g (what) VALUES ('signal')"),
        // What has FROM and no table, and what is a table without FROM.
        14 => {
            "SELECT EXTRACT(YEAR FROM '2024-01-02'), TRIM('x' FROM 'xax'), SUBSTRING('abc' FROM 2)".to_owned()
        }
        15 => "SELECT 1 FROM DUAL".to_owned(),
        16 => format!("DESCRIBE {own}.t"),
        17 => format!("DESC {own}.t v"),
        18 => format!("EXPLAIN {own}.t"),
        19 => "HELP 'nosuchtopic'".to_owned(),
        20 => format!("ALTER DATABASE {own} CHARACTER SET utf8mb4"),
        21 => "DROP EVENT IF EXISTS common.nosuchevent".to_owned(),
        _ => "SET nosuchvariable = 1".to_owned(),
    };
    burst.query(statement);
}

/// DDL of routines, events, servers and schemas.
pub(super) fn of_ddl(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    if script.random.percent(60) {
        cause(script, burst);
    }
    let statement = match script.random.below(12) {
        0 => "ALTER PROCEDURE common.plus COMMENT 'same'".to_owned(),
        1 | 2 => format!(
            "CREATE PROCEDURE {own}.declared() BEGIN DECLARE c CURSOR FOR SELECT 1; \
             DECLARE CONTINUE HANDLER FOR NOT FOUND SET @x = 1; END"
        ),
        3 => format!(
            "CREATE PROCEDURE {own}.declared() BEGIN DECLARE c CONDITION FOR SQLSTATE '45000'; SIGNAL c; END"
        ),
        4 => format!("DROP PROCEDURE IF EXISTS {own}.declared"),
        5 => format!("DROP FUNCTION IF EXISTS {own}.nosuch"),
        6 => "ALTER FUNCTION common.counted COMMENT 'same'".to_owned(),
        7 => format!("ALTER DATABASE {own} CHARACTER SET utf8mb4"),
        8 => format!(
            "CREATE EVENT IF NOT EXISTS {own}.never ON SCHEDULE AT '2037-01-01' DISABLE DO SET @x = 1"
        ),
        9 => format!("ALTER EVENT {own}.never COMMENT 'same'"),
        10 => format!("DROP EVENT IF EXISTS {own}.never"),
        _ => format!("DROP SERVER IF EXISTS {own}_nosuch"),
    };
    burst.query(statement);
    for _ in 0..1 + script.random.below(2) {
        let plain = *script.random.pick(PLAIN_QUESTIONS);
        match script.random.percent(25) {
            true => burst.steps.push(Step::Prepared(plain.as_bytes().to_vec())),
            false => burst.query(plain),
        }
    }
}

/// A statement that leaves the conditions as they are, or does not.
fn between(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let statement = match script.random.below(12) {
        0 => "DO 1".to_owned(),
        1 => "SELECT 1".to_owned(),
        2 => "SET @a = 2".to_owned(),
        3 => "USE common".to_owned(),
        4 => "SELECT COUNT(*) FROM common.t".to_owned(),
        5 => "SELECT @@sql_mode".to_owned(),
        6 => "SELECT LAST_INSERT_ID()".to_owned(),
        7 => "SELECT 1 FROM DUAL".to_owned(),
        8 => "COMMIT".to_owned(),
        9 => "SELECT ROW_COUNT()".to_owned(),
        10 => format!("CALL {own}.p('nothing')"),
        _ => "SET time_zone = '+01:00'".to_owned(),
    };
    burst.query(statement);
}

pub(super) fn ask(script: &mut Script, burst: &mut Burst) {
    cause(script, burst);
    if script.random.percent(30) {
        between(script, burst);
    }
    for _ in 0..1 + script.random.below(2) {
        question(script, burst);
    }
    // What was asked may have been stored.
    if script.random.percent(50) {
        burst.query("SELECT @a, @b, @c");
    }
}

const PLAIN_QUESTIONS: &[&str] = &[
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SHOW COUNT(*) ERRORS",
    "SELECT @@warning_count, @@error_count",
    "SHOW WARNINGS LIMIT 1, 1",
];

/// Each form of the question. Those that Narrows cannot see into keep their connection.
fn question(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let is_mariadb = script.flavour == MariaDb;
    let plain = *script.random.pick(PLAIN_QUESTIONS);
    match script.random.below(17) {
        0 | 1 => return burst.query(plain),
        2 | 3 => return burst.steps.push(Step::Prepared(plain.as_bytes().to_vec())),
        4 => burst.query("GET DIAGNOSTICS @a = NUMBER, @b = ROW_COUNT"),
        5 => burst.query("GET DIAGNOSTICS CONDITION 1 @a = MESSAGE_TEXT, @b = RETURNED_SQLSTATE, @c = MYSQL_ERRNO"),
        6 => {
            burst.query("SET @n = 1");
            burst.query("GET CURRENT DIAGNOSTICS CONDITION @n @a = MESSAGE_TEXT, @c = CLASS_ORIGIN");
        }
        7 => burst.query(format!("CALL {own}.p('warnings')")),
        8 => burst.query(format!("CALL {own}.p('errors')")),
        9 => burst.query(format!("CALL {own}.p('conditions')")),
        10 => burst.query(format!("SELECT {own}.f('number'), {own}.f('conditions')")),
        11 => {
            burst.query(format!("PREPARE asks FROM '{plain}'"));
            burst.query("EXECUTE asks");
        }
        12 if is_mariadb => burst.query(format!("EXECUTE IMMEDIATE '{plain}'")),
        13 if is_mariadb => burst.query(
            "BEGIN NOT ATOMIC DECLARE n INT; GET DIAGNOSTICS n = NUMBER; GET DIAGNOSTICS CONDITION 1 @a = MESSAGE_TEXT; \
             SELECT n; END",
        ),
        14 if is_mariadb => burst.query("IF @@warning_count THEN SELECT 'some'; ELSE SELECT 'none'; END IF"),
        15 => burst.query(format!("DELETE FROM {own}.k WHERE id = {own}.f('number')")),
        _ => {
            if script.capabilities & capability::MULTI_STATEMENTS == 0 {
                burst.steps.push(Step::MultiStatements(true));
            }
            burst.query(format!("DO 1; {plain}"));
        }
    }
    burst.ties = true;
}

/// `FOUND_ROWS()` and `ROW_COUNT()` after and before what changes them and what must not.
pub(super) fn found_rows(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    if script.random.percent(15) {
        // At the start of a session.
        super::sessions::reconnect(script, burst);
        return burst.query("SELECT FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID()");
    }
    let statement = match script.random.below(7) {
        0 => "SELECT SQL_CALC_FOUND_ROWS id FROM common.t ORDER BY id LIMIT 1".to_owned(),
        1 => "SELECT id FROM common.t ORDER BY id LIMIT 2".to_owned(),
        2 => format!("UPDATE {own}.t SET s = 'x' WHERE 0"),
        3 => format!("UPDATE {own}.t SET s = CONCAT(LEFT(s, 3), 'y') WHERE id <= 2"),
        4 => format!("DELETE FROM {own}.k WHERE id = -1"),
        5 => "(SELECT 1) UNION ALL (SELECT 2) UNION ALL (SELECT 3)".to_owned(),
        _ => "SHOW TABLES FROM common".to_owned(),
    };
    burst.query(statement);
    match script.random.below(6) {
        0 => burst.query("SHOW WARNINGS"),
        1 => burst.steps.push(Step::Prepared(b"SHOW WARNINGS".to_vec())),
        2 => burst.query("SET @a = 1"),
        3 => burst.query("SHOW COUNT(*) WARNINGS"),
        _ => {}
    }
    match script.random.below(6) {
        0 => {
            burst.query(format!("CALL {own}.p('counts')"));
            burst.ties = true;
        }
        1 => {
            burst.query(format!("SELECT {own}.f('counts')"));
            burst.ties = true;
        }
        2 => burst.steps.push(Step::Prepared(b"SELECT FOUND_ROWS()".to_vec())),
        3 => burst.query("SELECT ROW_COUNT()"),
        _ => burst.query("SELECT FOUND_ROWS()"),
    }
}
