//! Statements of which a mirror runs a copy, on another connection of the same pool. What the copy does there is none of
//! anybody's business.

use super::super::script::{Burst, Script};

/// The rule for them.
pub const RULE: &str = "rule_id=90 active=1 match_pattern=\"^/. mirrored ./\" mirror_hostgroup=0 apply=1";

pub(super) fn mirrored(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let schema = (*script.random.pick(&["common", "latin", own.as_str()])).to_owned();
    for _ in 0..1 + script.random.below(3) {
        // The copy may run before or after: nothing here changes rows, or takes an AUTO_INCREMENT value.
        let statement = match script.random.below(14) {
            0 | 1 => format!("USE {schema}"),
            2 => "SET time_zone = '+04:00'".to_owned(),
            3 => "SET @a = 'mirrored'".to_owned(),
            4 => "SELECT LAST_INSERT_ID(77)".to_owned(),
            5 => format!("INSERT INTO {own}.nosuch VALUES (-1)"),
            6 => "SELECT nosuch".to_owned(),
            7 => "SELECT 1 / 0, CAST('x' AS SIGNED)".to_owned(),
            8 => "SELECT SQL_CALC_FOUND_ROWS id FROM common.t ORDER BY id LIMIT 1".to_owned(),
            9 => format!("SELECT {own}.f('zone')"),
            10 => format!("CALL {own}.p('use')"),
            11 => "SET NAMES latin1".to_owned(),
            12 => "SELECT @@time_zone, DATABASE()".to_owned(),
            _ => "SELECT DATABASE(), @a".to_owned(),
        };
        burst.ties |= [".f(", ".p("].iter().any(|call| statement.contains(call));
        burst.query(format!("/* mirrored */ {statement}"));
    }
    burst.query("SELECT DATABASE(), @@time_zone, @a");
    burst.query("SELECT COUNT(*), MIN(s) FROM t");
    if script.random.percent(50) {
        burst.query("SELECT LAST_INSERT_ID(), FOUND_ROWS()");
    }
}
