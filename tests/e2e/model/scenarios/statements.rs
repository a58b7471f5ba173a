//! Statements within statements: PREPARE from text, several at once, routines.

use narrows_testkit::Flavour::MariaDb;
use narrows_testkit::capability;

use super::super::script::{Burst, Script};
use super::super::side::Step;
use super::look;
use super::sessions::reconnect;

pub(super) fn text_statement(script: &mut Script, burst: &mut Burst) {
    forget_conditions(burst);
    match script.random.below(5) {
        0 => {
            burst.query("PREPARE plus FROM 'SELECT ? + 1 AS n'");
            burst.query("SET @a = 41");
            burst.query("EXECUTE plus USING @a");
            look(script, burst);
            burst.query("EXECUTE plus USING @a");
            burst.query("DEALLOCATE PREPARE plus");
        }
        1 => {
            burst.query("SET @text = 'SELECT @@sql_mode, DATABASE()'");
            burst.query("prepare shown from @text");
            burst.query("execute shown");
            burst.query("drop prepare Shown");
        }
        2 => {
            let number = script.number();
            let own = script.own.clone();
            burst.query(format!("PREPARE ins FROM 'INSERT INTO {own}.t (v) VALUES ({number})'"));
            burst.query("EXECUTE ins");
            burst.query("SELECT LAST_INSERT_ID()");
            burst.query("DEALLOCATE PREPARE ins");
            burst.query("SELECT LAST_INSERT_ID()");
        }
        3 => {
            burst.query("PREPARE setting FROM 'SET sql_mode = ''ANSI'''");
            burst.query("EXECUTE setting");
            burst.query("DEALLOCATE PREPARE setting");
            burst.query("SELECT @@sql_mode");
        }
        _ if script.flavour == MariaDb => {
            burst.query("EXECUTE IMMEDIATE 'SELECT 1 + 1'");
            burst.query("EXECUTE IMMEDIATE 'SET @c = 5'");
            burst.query("SELECT @c");
            burst.ties = true;
        }
        _ => {
            burst.query("PREPARE left_open FROM 'SELECT 5'");
            burst.query("EXECUTE left_open");
            reconnect(script, burst);
            burst.query("EXECUTE left_open");
        }
    }
    // An EXECUTE that fails may leave its statement noted as prepared.
    burst.ties = true;
}

pub(super) fn several_statements(script: &mut Script, burst: &mut Burst) {
    if script.capabilities & capability::MULTI_STATEMENTS == 0 {
        burst.steps.push(Step::MultiStatements(true));
    }
    let own = script.own.clone();
    let (number, second) = (script.number(), script.number());
    let text = match script.random.below(9) {
        0 => "SELECT 1; SELECT 2".to_owned(),
        1 => "SET @a = 11; SELECT @a".to_owned(),
        2 => format!("BEGIN; INSERT INTO {own}.t (v) VALUES ({number}); COMMIT; SELECT LAST_INSERT_ID()"),
        3 => format!("INSERT INTO {own}.t (v) VALUES ({number}); SELECT nosuch; SELECT 3"),
        4 => "SELECT 1; SET sql_mode = 'ANSI'; USE common; SELECT DATABASE()".to_owned(),
        5 => format!("SELECT COUNT(*) FROM {own}.t; BEGIN"),
        6 => "CREATE TEMPORARY TABLE common.multi (n INT); SELECT COUNT(*) FROM common.multi".to_owned(),
        7 => format!("INSERT INTO {own}.t (v) VALUES ({number}); INSERT INTO {own}.t (v) VALUES ({second})"),
        _ => "SET NAMES latin1; SELECT 'x'; SET @b = 'multi'; SET autocommit = 0; SELECT 1".to_owned(),
    };
    burst.query(text);
    look(script, burst);
    if script.capabilities & capability::MULTI_STATEMENTS == 0 && script.random.percent(50) {
        burst.steps.push(Step::MultiStatements(false));
        burst.query("SELECT 1; SELECT 2");
    }
    burst.ties = true;
}

pub(super) fn routine(script: &mut Script, burst: &mut Burst) {
    forget_conditions(burst);
    let number = script.number();
    let own = script.own.clone();
    match script.random.below(7) {
        3 => {
            burst.query(format!("INSERT INTO {own}.t (v) VALUES (common.counted({number}))"));
            burst.query("SELECT @d");
        }
        4 => {
            burst.query(format!("UPDATE {own}.t SET s = 'called' WHERE id = common.counted(0)"));
            burst.query("SELECT @d");
        }
        5 => {
            burst.query(format!("SET @a = common.counted({number})"));
            burst.query("SELECT @a, @d");
        }
        6 => {
            burst.query(format!("DELETE FROM {own}.k WHERE id = common.counted({number})"));
            burst.query("SELECT @d");
        }
        0 => burst.query(format!("CALL common.plus({number})")),
        1 => {
            burst.query(format!("CALL common.assign({number})"));
            burst.query("SELECT @c");
        }
        _ => {
            burst.query(format!("SELECT common.counted({number})"));
            burst.query("SELECT @d");
        }
    }
    burst.ties = true;
}

/// A statement without tables leaves MariaDB's warnings as they are; Narrows does not know which kind a text statement
/// or a routine is. `docs/compatibility.md` says so.
fn forget_conditions(burst: &mut Burst) {
    burst.query("SELECT COUNT(*) FROM common.t");
}
