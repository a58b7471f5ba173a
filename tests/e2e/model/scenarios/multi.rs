//! Several statements in one text, of every kind.

use narrows_testkit::capability;

use super::super::script::{Burst, Script};
use super::Step;

fn part(script: &mut Script) -> String {
    let (own, number) = (script.own.clone(), script.number());
    match script.random.below(24) {
        0 => "USE common".to_owned(),
        1 => "USE latin".to_owned(),
        2 => format!("USE {own}"),
        3 => "USE nosuch".to_owned(),
        4 => "SET time_zone = '+05:00'".to_owned(),
        5 => "SET @a = 'several', @b = 1".to_owned(),
        6 => "SET session_track_schema = 0".to_owned(),
        7 => "SET NAMES latin1".to_owned(),
        8 => format!("INSERT INTO {own}.r (s) VALUES ('several')"),
        9 => format!("INSERT INTO {own}.t (v) VALUES (-1)"),
        10 => format!("INSERT INTO {own}.t (v) VALUES ({number})"),
        11 => format!("UPDATE {own}.t SET s = CONCAT(LEFT(s, 3), 'm') WHERE id <= 2"),
        12 => "SHOW WARNINGS".to_owned(),
        13 => "SELECT LAST_INSERT_ID()".to_owned(),
        14 => "SELECT ROW_COUNT()".to_owned(),
        15 => "SELECT DATABASE()".to_owned(),
        16 => "SELECT 1 / 0".to_owned(),
        17 => format!("SELECT {own}.f('zone')"),
        18 => format!("CALL {own}.p('rows')"),
        19 => "SELECT id FROM common.t ORDER BY id LIMIT 2".to_owned(),
        20 => format!("INSERT INTO {own}.child (parent) VALUES (LAST_INSERT_ID())"),
        21 => "COMMIT".to_owned(),
        22 => "GET DIAGNOSTICS CONDITION 1 @c = MESSAGE_TEXT".to_owned(),
        _ => "SELECT 1".to_owned(),
    }
}

pub(super) fn mixed(script: &mut Script, burst: &mut Burst) {
    if script.capabilities & capability::MULTI_STATEMENTS == 0 {
        burst.steps.push(Step::MultiStatements(true));
    }
    let parts: Vec<String> = (0..2 + script.random.below(4)).map(|_| part(script)).collect();
    // What routines and user variables leave keeps the connection.
    burst.ties = parts.iter().any(|part| {
        part.contains('@') || part.contains(&format!("{}.f(", script.own)) || part.contains("CALL")
    });
    burst.query(parts.join("; "));
    for _ in 0..1 + script.random.below(2) {
        let own = script.own.clone();
        match script.random.below(7) {
            0 => burst.query("SELECT DATABASE()"),
            1 => burst.query("SELECT COUNT(*), MIN(s) FROM t"),
            2 => burst.query("SELECT LAST_INSERT_ID(), @@identity"),
            3 => burst.query("SHOW WARNINGS"),
            4 => burst.query(format!("INSERT INTO {own}.child (parent) VALUES (LAST_INSERT_ID())")),
            5 => burst.query("SELECT @@time_zone, @@character_set_client, @@session_track_schema"),
            _ => burst.query("SELECT ROW_COUNT()"),
        }
    }
    burst.query("SELECT DATABASE()");
    burst.ties |= script.random.percent(30);
}
