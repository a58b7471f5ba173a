//! The kinds of things clients do, each a few steps long.

mod results;
mod sessions;
mod settings;
mod statements;
mod ties;

use super::script::{Burst, Script};

type Scenario = fn(&mut Script, &mut Burst);

/// Weight, name, and function.
///
/// One file for each kind; the protocol's prepared statements have a separate file.
const SCENARIOS: &[(usize, &str, Scenario)] = &[
    (14, "variable", settings::variable),
    (4, "variables at once", settings::variables_at_once),
    (5, "character set", settings::character_set),
    (6, "schema", settings::schema),
    (8, "user variable", settings::user_variable),
    (4, "user variable by expression", settings::user_variable_by_expression),
    (2, "timestamp", settings::timestamp),
    (3, "backslash", settings::backslash),
    (2, "multi-byte text", settings::multi_byte),
    (5, "autocommit", ties::autocommit),
    (9, "transaction", ties::transaction),
    (3, "set transaction", ties::set_transaction),
    (4, "temporary table", ties::temporary_table),
    (2, "temporary names", ties::temporary_names),
    (3, "lock tables", ties::lock_tables),
    (3, "user lock", ties::user_lock),
    (3, "user lock anywhere", ties::user_lock_anywhere),
    (12, "insert", results::insert),
    (4, "found rows", results::found_rows),
    (6, "warning", results::warning),
    (6, "error", results::error),
    (12, "plain", results::plain),
    (4, "text statement", statements::text_statement),
    (4, "several statements", statements::several_statements),
    (2, "routine", statements::routine),
    (2, "reset", sessions::reset),
    (2, "change user", sessions::change_user),
    (3, "reconnect", sessions::reconnect),
    (2, "kill", sessions::kill),
];

/// One of them.
pub fn any(script: &mut Script) -> Burst {
    let total: usize = SCENARIOS.iter().map(|(weight, ..)| weight).sum();
    let mut place = script.random.below(total);
    for (weight, name, scenario) in SCENARIOS {
        if place < *weight {
            let mut burst = Burst { name, steps: Vec::new(), ties: false };
            scenario(script, &mut burst);
            return burst;
        }
        place -= weight;
    }
    unreachable!("the number is below the sum of the weights")
}

/// The steps that release everything that ties the session.
pub fn leave(script: &mut Script) -> Burst {
    let mut burst = Burst { name: "leave", steps: Vec::new(), ties: false };
    match script.random.below(4) {
        0 => sessions::reset(script, &mut burst),
        1 => sessions::change_user(script, &mut burst),
        _ => sessions::reconnect(script, &mut burst),
    }
    burst
}

/// Reads the session's state, in one of many ways.
pub fn look(script: &mut Script, burst: &mut Burst) {
    for _ in 0..=script.random.below(2) {
        let statement = match script.random.below(22) {
            0 => return burst.query(EVERY_VARIABLE),
            1..=6 => {
                let names: Vec<String> = (0..=script.random.below(4))
                    .map(|_| format!("@@{}", script.random.pick(&script.variables.clone()).0))
                    .collect();
                format!("SELECT {}", names.join(", "))
            }
            7 => {
                let name = script.random.pick(&script.variables.clone()).0;
                format!("SHOW SESSION VARIABLES LIKE '{name}'")
            }
            8 => "SELECT DATABASE(), SUBSTRING_INDEX(USER(), '@', 1), CURRENT_USER()".to_owned(),
            9 => "SELECT COUNT(*), MIN(s), MAX(id) FROM t".to_owned(),
            10 => "SELECT @a, @b, @c, @d".to_owned(),
            11 => "SELECT @a + 1 AS n, CONCAT(@b, 'x') AS s, @A, COLLATION(@b), COERCIBILITY(@b)".to_owned(),
            12 => "SELECT CHARSET('x'), COLLATION('x'), HEX(CONCAT('\u{e9}', 'a')), LENGTH('\u{20ac}')"
                .to_owned(),
            13 => "SHOW VARIABLES LIKE 'c%\\_%'".to_owned(),
            14 => "SELECT LAST_INSERT_ID(), @@last_insert_id, @@identity".to_owned(),
            15 => "SELECT LAST_INSERT_ID()".to_owned(),
            16 => "SELECT ROW_COUNT()".to_owned(),
            17 => "SELECT FOUND_ROWS()".to_owned(),
            18 => "SHOW WARNINGS".to_owned(),
            19 => "SELECT @@warning_count, @@error_count".to_owned(),
            20 => "SHOW COUNT(*) WARNINGS".to_owned(),
            _ => "SELECT \"a\" || 'b' AS joined, 1/3, WEEK('2024-01-01'), MONTHNAME('2024-03-01')".to_owned(),
        };
        burst.query(statement);
    }
}

/// Replaced by one that leaves out what always differs between two sessions.
pub const EVERY_VARIABLE: &str = "SHOW SESSION VARIABLES";
