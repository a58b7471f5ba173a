//! Settings of the next transaction among settings of the session.

use narrows_testkit::Flavour::{MariaDb, MySql9};

use super::super::script::{Burst, Script};
use super::Step;

pub(super) fn one_shot(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let (isolation, read_only) = match script.flavour {
        MariaDb => ("tx_isolation", "tx_read_only"),
        MySql9 => ("transaction_isolation", "transaction_read_only"),
    };
    let part = |script: &mut Script| match script.random.below(14) {
        0 | 1 => format!("@@{read_only} = 1"),
        2 => format!("@@{read_only} = 0"),
        3 => format!("SESSION {read_only} = 0"),
        4 => format!("{read_only} = 1"),
        5 => format!("@@session.{read_only} = 0"),
        6 => format!("@@{isolation} = 'SERIALIZABLE'"),
        7 => format!("SESSION {isolation} = 'READ-COMMITTED'"),
        8 => format!("{isolation} = DEFAULT"),
        9 => "autocommit = 1".to_owned(),
        10 => "sql_mode = ''".to_owned(),
        11 => "session_track_system_variables = 'autocommit'".to_owned(),
        12 => "session_track_transaction_info = 'CHARACTERISTICS'".to_owned(),
        _ => "@a = 1".to_owned(),
    };
    let parts: Vec<String> = (0..1 + script.random.below(3)).map(|_| part(script)).collect();
    let text = match script.random.below(8) {
        0 => "SET TRANSACTION READ ONLY".to_owned(),
        1 => "SET SESSION TRANSACTION READ WRITE".to_owned(),
        2 => format!("CALL {own}.p('next')"),
        _ => format!("SET {}", parts.join(", ")),
    };
    match script.random.below(6) {
        // What reports a text asks for that does not show it, nobody knows.
        0 if script.flavour == MariaDb && !text.contains("session_track") => {
            burst.query(format!("EXECUTE IMMEDIATE {}", super::one_statement::quoted(&text)))
        }
        1 => burst.steps.push(Step::Prepared(text.into_bytes())),
        _ => burst.query(text),
    }
    for _ in 0..1 + script.random.below(3) {
        match script.random.below(7) {
            0 => burst.query("SELECT 1"),
            1 | 2 => burst.query(format!("INSERT INTO {own}.r (s) VALUES ('next')")),
            3 => burst.query("SELECT COUNT(*) FROM common.t"),
            4 => {
                burst.query("BEGIN");
                burst.query(format!("INSERT INTO {own}.r (s) VALUES ('next')"));
                burst.query("COMMIT");
            }
            5 => burst.query("ROLLBACK"),
            _ => burst.query(format!("SELECT {own}.f('nothing')")),
        }
    }
    burst.query(format!("SELECT @@{isolation}, @@{read_only}, @@autocommit"));
    burst.query(format!("INSERT INTO {own}.r (s) VALUES ('next')"));
    burst.ties = true;
}
