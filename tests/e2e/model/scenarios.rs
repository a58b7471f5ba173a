//! The kinds of things clients do, each a few steps long.

use narrows_testkit::Flavour::{MariaDb, MySql9};
use narrows_testkit::capability;

use super::script::{Burst, Script, USERS};
use super::side::{Leave, Step, Victim};
use super::variables::CHARACTER_SETS;

type Scenario = fn(&mut Script, &mut Burst);

/// How often, by which name, and what.
const SCENARIOS: &[(usize, &str, Scenario)] = &[
    (14, "variable", variable),
    (4, "variables at once", variables_at_once),
    (5, "character set", character_set),
    (6, "schema", schema),
    (8, "user variable", user_variable),
    (4, "user variable by expression", user_variable_by_expression),
    (5, "autocommit", autocommit),
    (9, "transaction", transaction),
    (3, "set transaction", set_transaction),
    (4, "temporary table", temporary_table),
    (3, "lock tables", lock_tables),
    (3, "user lock", user_lock),
    (12, "insert", insert),
    (4, "found rows", found_rows),
    (6, "warning", warning),
    (6, "error", error),
    (4, "text statement", text_statement),
    (4, "several statements", several_statements),
    (2, "routine", routine),
    (2, "timestamp", timestamp),
    (12, "plain", plain),
    (2, "reset", reset),
    (2, "change user", change_user),
    (3, "reconnect", reconnect),
    (1, "kill", kill),
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
    unreachable!("the place is below the sum of the weights")
}

/// What lets everything go that ties the session.
pub fn leave(script: &mut Script) -> Burst {
    let mut burst = Burst { name: "leave", steps: Vec::new(), ties: false };
    match script.random.below(4) {
        0 => reset(script, &mut burst),
        1 => change_user(script, &mut burst),
        _ => reconnect(script, &mut burst),
    }
    burst
}

/// Looks at what the session is in, by one of many ways.
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

/// Replaced by one that leaves out what differs between two sessions anyway.
pub const EVERY_VARIABLE: &str = "SHOW SESSION VARIABLES";

fn assignment(script: &mut Script) -> (String, bool) {
    let (name, values) = *script.random.pick(&script.variables.clone());
    let scope = *script.random.pick(&["", "", "SESSION ", "@@session.", "@@", "LOCAL ", "@@local."]);
    let value = match script.random.below(6) {
        0 => "DEFAULT".to_owned(),
        1 if script.random.percent(40) => format!("@@global.{name}"),
        _ => (*script.random.pick(values)).to_owned(),
    };
    let colon = if script.random.percent(10) { ":" } else { "" };
    (format!("{scope}{name} {colon}= {value}"), false)
}

fn variable(script: &mut Script, burst: &mut Burst) {
    let (assignment, ties) = assignment(script);
    burst.query(format!("SET {assignment}"));
    burst.ties |= ties;
}

fn variables_at_once(script: &mut Script, burst: &mut Burst) {
    let mut parts: Vec<String> = (0..2 + script.random.below(3)).map(|_| assignment(script).0).collect();
    if script.random.percent(30) {
        parts.push("@b = 'together'".to_owned());
    }
    if script.random.percent(15) {
        parts.push("nosuchvariable = 1".to_owned());
    }
    if script.random.percent(15) {
        parts.push("sql_mode = 'NOSUCHMODE'".to_owned());
    }
    burst.query(format!("SET {}", parts.join(", ")));
    // Where one of several fails, what the others did is not known.
    burst.ties = true;
}

fn character_set(script: &mut Script, burst: &mut Burst) {
    burst.query(*script.random.pick(CHARACTER_SETS));
}

fn schema(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let schema = (*script.random.pick(&[own.as_str(), own.as_str(), "common", "latin", "nosuch"])).to_owned();
    match script.random.below(6) {
        0 | 1 => burst.steps.push(Step::InitDb(schema)),
        2 => burst.query(format!("use `{schema}`")),
        3 if script.random.percent(30) => {
            // A schema that goes while it is the current one.
            let gone = format!("{own}x");
            for statement in [
                format!("CREATE DATABASE {gone}"),
                format!("USE {gone}"),
                "SELECT DATABASE()".to_owned(),
                format!("DROP DATABASE {gone}"),
                "SELECT DATABASE()".to_owned(),
            ] {
                burst.query(statement);
            }
        }
        _ => burst.query(format!("USE {schema}")),
    }
}

const LITERALS: &[&str] =
    &["1", "-5", "1.50", "1e10", "'x'", "'it''s'", "\"dq\"", "NULL", "'1'", "18446744073709551615", "''"];

/// Literals that may tie the session, being hard to repeat elsewhere.
const ODD_LITERALS: &[&str] = &[
    "TRUE",
    "0x4142",
    "x'4142'",
    "b'101'",
    "'back\\\\slash'",
    "'\u{e9}t\u{e9}'",
    "-0.0",
    "N'n'",
    "_latin1'l'",
    "DATE'2024-01-02'",
];

const NAMES: &[&str] = &["@a", "@b", "@c", "@A", "@`a`", "@'b'", "@d", "@`odd name`"];

fn user_variable(script: &mut Script, burst: &mut Burst) {
    let operator = if script.random.percent(30) { ":=" } else { "=" };
    let mut parts = Vec::new();
    for _ in 0..=script.random.below(2) {
        let name = *script.random.pick(NAMES);
        let odd = script.random.percent(30);
        burst.ties |= odd;
        let literals = if odd { ODD_LITERALS } else { LITERALS };
        parts.push(format!("{name} {operator} {}", script.random.pick(literals)));
    }
    burst.query(format!("SET {}", parts.join(", ")));
    if script.random.percent(50) {
        burst.query("SELECT @a, @b, @c, @d, @`odd name`, CHARSET(@a), COLLATION(@b)");
    }
}

fn user_variable_by_expression(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let expression = *script.random.pick(&[
        "SET @a = 1 + 2",
        "SET @a = CONCAT('x', @b)",
        "SET @b = (SELECT MAX(id) FROM t)",
        "SET @c = @@sql_mode",
        "SET @a = 1, @b = @a",
        "SELECT @c := 'assigned'",
        "SELECT @a := @a + 1, @a",
        "SELECT 1, 2 INTO @a, @b",
        "SELECT id INTO @c FROM common.t WHERE id = 20",
        "SELECT id FROM common.t WHERE (@d := id) > 0 ORDER BY id",
        "DO @a := 7",
        "SET @d = USER() IS NULL",
        "SET @a = LAST_INSERT_ID()",
        "SET @a = DATABASE()",
    ]);
    burst.query(expression);
    if script.random.percent(30) {
        burst.query(format!("INSERT INTO {own}.t (v) VALUES (@x := {})", script.number()));
    }
    burst.query("SELECT @a, @b, @c, @d, @x");
    burst.ties = true;
}

fn autocommit(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    match script.random.below(5) {
        0 => burst.query("SET autocommit = 0"),
        1 => burst.query("SET @@session.autocommit = OFF"),
        2 => burst.query("SET autocommit = 1"),
        3 => burst.query("SET AUTOCOMMIT=DEFAULT"),
        _ => {
            burst.query("SET autocommit=0");
            burst.query("SELECT @@autocommit");
            let number = script.number();
            burst.query(format!("INSERT INTO {own}.t (v, s) VALUES ({number}, 'held')"));
            burst.query(*script.random.pick(&["COMMIT", "ROLLBACK", "SET autocommit=1"]));
            burst.query(format!("SELECT COUNT(*) FROM {own}.t WHERE v = {number}"));
        }
    }
    burst.query("SELECT @@autocommit");
}

fn transaction(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let starts = &[
        "BEGIN",
        "begin work",
        "START TRANSACTION",
        "START TRANSACTION READ ONLY",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "START TRANSACTION READ WRITE, WITH CONSISTENT SNAPSHOT",
        "/* app */ BEGIN",
    ];
    burst.query(*script.random.pick(starts));
    for _ in 0..=script.random.below(3) {
        let number = script.number();
        match script.random.below(9) {
            0 | 1 => burst.query(format!("INSERT INTO {own}.t (v, s) VALUES ({number}, 'trx')")),
            2 => burst.query(format!("UPDATE {own}.t SET s = 'changed{number}' WHERE id = 1")),
            3 => burst.query(format!("DELETE FROM {own}.t WHERE v = {number} - 1")),
            4 => burst.query(format!("SELECT COUNT(*), MAX(v) FROM {own}.t")),
            5 => burst.query(format!("SELECT id FROM {own}.t WHERE id = 2 FOR UPDATE")),
            6 => savepoint(script, burst),
            7 => variable(script, burst),
            _ => look(script, burst),
        }
    }
    match script.random.below(14) {
        0..=3 => burst.query("COMMIT"),
        4 | 5 => burst.query("ROLLBACK"),
        6 => {
            burst.query("COMMIT AND CHAIN");
            burst.query("ROLLBACK AND NO CHAIN");
        }
        7 => burst.query("BEGIN"),
        8 => burst.query(format!("CREATE TABLE IF NOT EXISTS {own}.ended (n INT)")),
        9 => burst.query("SET autocommit = 1"),
        10 => {
            burst.query("ROLLBACK RELEASE");
            reconnect(script, burst);
        }
        11 => reconnect(script, burst),
        12 => reset(script, burst),
        // Left open; ended later.
        _ => {}
    }
    burst.query(format!("SELECT MAX(id), MAX(v), SUM(id) FROM {own}.t"));
}

fn savepoint(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let number = script.number();
    burst.query("SAVEPOINT one");
    burst.query(format!("INSERT INTO {own}.t (v) VALUES ({number})"));
    burst.query(*script.random.pick(&[
        "ROLLBACK TO SAVEPOINT one",
        "ROLLBACK TO one",
        "RELEASE SAVEPOINT one",
        "SAVEPOINT two",
        "ROLLBACK TO nosuch",
    ]));
}

fn set_transaction(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let characteristics = *script.random.pick(&[
        "READ ONLY",
        "READ WRITE",
        "ISOLATION LEVEL SERIALIZABLE",
        "ISOLATION LEVEL READ COMMITTED, READ ONLY",
        "ISOLATION LEVEL READ UNCOMMITTED",
    ]);
    let scope = *script.random.pick(&["", "", "SESSION ", "LOCAL "]);
    burst.query(format!("SET {scope}TRANSACTION {characteristics}"));
    let isolation = match script.flavour {
        MariaDb => "SELECT @@tx_isolation, @@tx_read_only",
        MySql9 => "SELECT @@transaction_isolation, @@transaction_read_only",
    };
    burst.query(isolation);
    let insert = |script: &mut Script| {
        let number = script.number();
        format!("INSERT INTO {own}.t (v) VALUES ({number})")
    };
    match script.random.below(4) {
        0 => burst.query(insert(script)),
        1 => burst.query("SELECT COUNT(*) FROM common.t"),
        _ => {
            burst.query("BEGIN");
            burst.query(insert(script));
            if script.flavour == MySql9 {
                burst.query(
                    "SELECT isolation_level, access_mode FROM performance_schema.events_transactions_current \
                     WHERE thread_id = PS_CURRENT_THREAD_ID()",
                );
            }
            burst.query("COMMIT");
        }
    }
    burst.query(insert(script));
    burst.query(isolation);
    if !scope.is_empty() && script.random.percent(70) {
        burst.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE");
    }
}

fn temporary_table(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    // One name for all clients, so that one that is left behind is seen, and the name of a table that exists.
    let shadowing = format!("{own}.t");
    let name = (*script.random.pick(&["common.tmp", "common.tmp2", &shadowing])).to_owned();
    let create = match script.random.below(5) {
        0 => format!("CREATE TEMPORARY TABLE {name} LIKE {own}.t"),
        1 => format!("CREATE TEMPORARY TABLE {name} AS SELECT id, v, s FROM {own}.t"),
        2 => format!("create /* short */ temporary table if not exists {name} (id INT, v INT, s TEXT)"),
        _ => {
            format!("CREATE TEMPORARY TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v INT, s VARCHAR(9))")
        }
    };
    burst.query(create);
    burst.query(format!("INSERT INTO {name} (v, s) VALUES (7, 'seven')"));
    for _ in 0..script.random.below(3) {
        match script.random.below(4) {
            0 => burst.query(format!("SELECT COUNT(*), MAX(s) FROM {name}")),
            1 => burst.query(format!("UPDATE {name} SET v = v + 1")),
            2 => variable(script, burst),
            _ => look(script, burst),
        }
    }
    burst.query(format!("SELECT COUNT(*), MAX(s) FROM {name}"));
    match script.random.below(9) {
        0..=3 => burst.query(format!("DROP TEMPORARY TABLE {name}")),
        4 => burst.query(format!("DROP TEMPORARY TABLE IF EXISTS {name}")),
        5 if name != shadowing => burst.query(format!("DROP TABLE {name}")),
        6 => {
            burst.query("CREATE TEMPORARY TABLE common.second (n INT)");
            burst.query(format!("DROP TEMPORARY TABLE {name}, common.second"));
        }
        7 if name != shadowing => {
            burst.query(format!("ALTER TABLE {name} RENAME TO common.renamed"));
            burst.query("DROP TEMPORARY TABLE common.renamed");
            burst.ties = true;
        }
        _ => reconnect(script, burst),
    }
    burst.query(format!("SELECT COUNT(*), MAX(s) FROM {name}"));
}

fn lock_tables(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let mode = *script.random.pick(&["READ", "WRITE", "WRITE, common.t READ"]);
    burst.query(format!("LOCK TABLES {own}.t {mode}"));
    let number = script.number();
    burst.query(format!("INSERT INTO {own}.t (v) VALUES ({number})"));
    burst.query("SELECT COUNT(*) FROM common.t");
    match script.random.below(5) {
        0 => {
            burst.query("BEGIN");
            burst.query(format!("SELECT COUNT(*) FROM {own}.k"));
            burst.query("COMMIT");
        }
        1 => reconnect(script, burst),
        _ => burst.query("UNLOCK TABLES"),
    }
    burst.query(format!("SELECT COUNT(*) FROM {own}.k"));
}

fn user_lock(script: &mut Script, burst: &mut Burst) {
    // Names of locks are for the whole server, so each client has its own.
    let name = format!("lock{}", script.client);
    let get = match script.random.below(4) {
        0 => format!("DO GET_LOCK('{name}', 5)"),
        1 => format!("SELECT GET_LOCK('{name}', 5), GET_LOCK('{name}b', 5)"),
        _ => format!("SELECT GET_LOCK('{name}', 5)"),
    };
    burst.query(get);
    burst.query(format!("SELECT IS_FREE_LOCK('{name}'), IS_USED_LOCK('{name}') IS NULL"));
    if script.random.percent(30) {
        variable(script, burst);
    }
    match script.random.below(6) {
        0 => burst.query("SELECT RELEASE_ALL_LOCKS()"),
        1 => reconnect(script, burst),
        2 => {
            burst.query(format!("SELECT GET_LOCK('{name}', 5)"));
            burst.query(format!("SELECT RELEASE_LOCK('{name}')"));
            burst.query(format!("DO RELEASE_LOCK('{name}')"));
            burst.query("DO RELEASE_ALL_LOCKS()");
        }
        3 => {
            burst.query(format!("SELECT RELEASE_LOCK('{name}'), RELEASE_LOCK('{name}b')"));
            burst.ties = true;
        }
        _ => {
            burst.query(format!("SELECT RELEASE_LOCK('{name}')"));
            burst.query(format!("SELECT RELEASE_LOCK('{name}b')"));
        }
    }
    // Whoever had it has given it up by now, or is being cleaned up behind.
    burst.query(format!("SELECT GET_LOCK('{name}', 20), RELEASE_LOCK('{name}')"));
    burst.query("DO RELEASE_ALL_LOCKS()");
}

fn insert(script: &mut Script, burst: &mut Burst) {
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

fn found_rows(script: &mut Script, burst: &mut Burst) {
    let statement = *script.random.pick(&[
        "SELECT SQL_CALC_FOUND_ROWS id FROM common.t ORDER BY id LIMIT 1",
        "SELECT id FROM common.t ORDER BY id LIMIT 2",
        "SELECT id FROM common.t WHERE id > 1000",
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

fn warning(script: &mut Script, burst: &mut Burst) {
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
        _ => "CREATE DATABASE IF NOT EXISTS common".to_owned(),
    };
    burst.query(statement);
    after_diagnostics(script, burst);
}

fn error(script: &mut Script, burst: &mut Burst) {
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

fn after_diagnostics(script: &mut Script, burst: &mut Burst) {
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

fn text_statement(script: &mut Script, burst: &mut Burst) {
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

fn several_statements(script: &mut Script, burst: &mut Burst) {
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

fn routine(script: &mut Script, burst: &mut Burst) {
    let number = script.number();
    match script.random.below(3) {
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

/// `timestamp` makes time stand still; without it, time is not comparable.
fn timestamp(script: &mut Script, burst: &mut Burst) {
    burst.query("SET timestamp = 1000000000.25");
    burst.query("SELECT NOW(6), UNIX_TIMESTAMP()");
    if script.random.percent(50) {
        variable(script, burst);
    }
    burst.query("SELECT COUNT(*) FROM common.t");
    burst.query("SELECT CURRENT_TIMESTAMP, @@timestamp");
    burst.query("SET timestamp = DEFAULT");
    burst.query("SELECT @@timestamp > 1000000001");
    if script.random.percent(30) {
        burst.query("SET rand_seed1 = 5, rand_seed2 = 7");
        burst.query("SELECT RAND() AS first");
        burst.query("SELECT RAND() AS second");
        burst.ties = true;
    }
}

fn plain(script: &mut Script, burst: &mut Burst) {
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

fn reset(script: &mut Script, burst: &mut Burst) {
    burst.steps.push(Step::ResetConnection);
    script.untie();
}

fn change_user(script: &mut Script, burst: &mut Burst) {
    let capabilities = script.capabilities;
    let mut login = script.log_in();
    script.capabilities = capabilities;
    if script.random.percent(15) {
        burst.steps.push(Step::ChangeUser { login, password: "wrong" });
        return reconnect(script, burst);
    }
    let password = *script.random.pick(USERS);
    login.user = password;
    burst.steps.push(Step::ChangeUser { login, password });
}

fn reconnect(script: &mut Script, burst: &mut Burst) {
    let leave = match script.random.below(12) {
        0..=5 => Leave::Quit,
        6..=10 => Leave::Vanish,
        _ => Leave::VanishInStatement,
    };
    let login = script.log_in();
    burst.steps.push(Step::Reconnect { leave, login });
}

fn kill(script: &mut Script, burst: &mut Burst) {
    // A client that holds one connection and asks for another may wait for one that does the same.
    if script.holds_a_connection() {
        return plain(script, burst);
    }
    burst.query("SELECT 'about to kill'");
    let victim = *script.random.pick(&[Victim::IdleInTransaction, Victim::Statement, Victim::Running]);
    let table = format!("{}.k", script.own);
    let number = script.number();
    burst.steps.push(Step::Kill { victim, table, number });
}
