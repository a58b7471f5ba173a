//! What a client sets `session_track_*` to is what it gets, whatever Narrows needs.

use narrows_testkit::Flavour::{MariaDb, MySql9};
use narrows_testkit::capability;

use super::super::script::{Burst, Script};
use super::Step;

pub(super) fn trackers(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let assignment = match script.random.below(18) {
        0 => "session_track_schema = 0",
        1 => "session_track_schema = 1",
        2 => "session_track_schema = DEFAULT",
        3 => "session_track_state_change = 1",
        4 => "session_track_state_change = 0",
        5 => "session_track_transaction_info = 'STATE'",
        6 => "session_track_transaction_info = 'CHARACTERISTICS'",
        7 => "session_track_transaction_info = 'OFF'",
        8 => "session_track_system_variables = '*'",
        9 => "session_track_system_variables = ''",
        10 => "session_track_system_variables = 'autocommit,time_zone'",
        11 => "session_track_system_variables = DEFAULT",
        12 => "session_track_system_variables = CONCAT(@@session_track_system_variables, ',sql_mode')",
        // MySQL then continues with those of before.
        13 if script.flavour == MariaDb => "session_track_system_variables = NULL",
        14 => "session_track_system_variables = 'nosuchvariable'",
        15 if script.flavour == MySql9 => "session_track_gtids = OWN_GTID",
        16 => {
            "autocommit = 1, session_track_system_variables = CONCAT(@@session_track_system_variables, ',sql_mode')"
        }
        _ => "time_zone = '+02:00', session_track_schema = OFF",
    };
    let assignment = match script.random.percent(20) {
        true => format!("@@session.{assignment}"),
        false => assignment.to_owned(),
    };
    burst.query(format!("SET {assignment}"));
    for _ in 0..1 + script.random.below(3) {
        let statement = match script.random.below(12) {
            0 => {
                if script.capabilities & capability::MULTI_STATEMENTS == 0 {
                    burst.steps.push(Step::MultiStatements(true));
                }
                "SELECT 1; USE common".to_owned()
            }
            1 => "USE latin".to_owned(),
            2 => format!("USE {own}"),
            3 => "SET time_zone = '+01:00'".to_owned(),
            4 => "SET sql_mode = 'ANSI'".to_owned(),
            5 => "SET autocommit = 1".to_owned(),
            6 => "SET @a = 'tracked'".to_owned(),
            7 => "BEGIN".to_owned(),
            8 => "COMMIT".to_owned(),
            9 => "SELECT COUNT(*) FROM common.t".to_owned(),
            10 => {
                burst.steps.push(Step::InitDb("common".to_owned()));
                "SELECT DATABASE()".to_owned()
            }
            _ => format!("INSERT INTO {own}.r (s) VALUES ('tracked')"),
        };
        burst.query(statement);
    }
    burst.query("SELECT DATABASE()");
    burst.query(
        "SELECT @@session_track_schema, @@session_track_state_change, @@session_track_transaction_info, \
         @@session_track_system_variables, @@time_zone, @@sql_mode",
    );
    burst.query("SELECT COUNT(*), MIN(s) FROM t");
}
