//! What statements leave for the next one to ask: `LAST_INSERT_ID()`, `ROW_COUNT()`, `FOUND_ROWS()`, diagnostics.

use std::time::Duration;

use narrows_testkit::{Answer, Flavour, Login, RawClient, ServerOptions, command};

use crate::support::{Pair, Stand};

const TABLES: &[&str] = &[
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)",
    "CREATE TABLE child (parent BIGINT, told VARCHAR(200))",
    // Of the other client.
    "CREATE TABLE o (id INT AUTO_INCREMENT PRIMARY KEY, secret VARCHAR(20) UNIQUE) AUTO_INCREMENT = 5000",
    "INSERT INTO o (secret) VALUES ('secret')",
    "CREATE PROCEDURE ids() SELECT LAST_INSERT_ID(), @@identity",
    "CREATE PROCEDURE found() SELECT FOUND_ROWS()",
    "CREATE PROCEDURE changed() SELECT ROW_COUNT()",
    "CREATE PROCEDURE counts() SELECT @@warning_count, @@error_count",
    "CREATE PROCEDURE of_diagnostics() BEGIN DECLARE n INT; DECLARE m VARCHAR(200); GET DIAGNOSTICS n = NUMBER; \
     IF n > 0 THEN GET DIAGNOSTICS CONDITION 1 m = MESSAGE_TEXT; END IF; SELECT n, m; END",
    "CREATE PROCEDURE stores() BEGIN INSERT INTO child (parent) VALUES (LAST_INSERT_ID()); SELECT parent FROM child; END",
    "CREATE PROCEDURE inserts() INSERT INTO t (v) VALUES (NULL)",
    "CREATE FUNCTION id_of() RETURNS BIGINT READS SQL DATA RETURN LAST_INSERT_ID()",
    "CREATE FUNCTION rows_of() RETURNS BIGINT READS SQL DATA RETURN ROW_COUNT()",
    "CREATE FUNCTION found_of() RETURNS BIGINT READS SQL DATA RETURN FOUND_ROWS()",
];

/// A new session's tables.
fn fill(client: &mut RawClient) {
    client.query("USE shop");
    for text in
        ["TRUNCATE t", "TRUNCATE child", "INSERT INTO t (id, v) VALUES (1, 1), (2, 2), (3, 3), (4, 4)"]
    {
        assert_eq!(client.query(text).error(), None, "{text}");
    }
}

/// What an answer shows: the rows of all its results, and how it ends.
fn shown(answer: &Answer) -> Vec<String> {
    let mut shown = Vec::new();
    let mut packets = answer.packets.iter().map(|packet| &packet.payload).peekable();
    while let Some(head) = packets.next() {
        match head[0] {
            0 => shown.push("OK".to_owned()),
            0xFF => shown.push(format!("error {}", u16::from_le_bytes([head[1], head[2]]))),
            columns => {
                for _ in 0..columns {
                    packets.next();
                }
                packets.next_if(|packet| packet[0] == 0xFE);
                for row in packets.by_ref() {
                    if row[0] >= 0xFE {
                        break;
                    }
                    shown.push(String::from_utf8_lossy(row).into_owned());
                }
            }
        }
    }
    shown
}

/// Runs a step: a text, or `prepare TEXT` for one that is prepared and executed in the binary protocol.
fn run(client: &mut RawClient, step: &str) -> Vec<String> {
    let Some(text) = step.strip_prefix("prepare ") else { return shown(&client.query(step)) };
    let prepared = client.command(command::STMT_PREPARE, text.as_bytes());
    if let Some(error) = prepared.error() {
        return vec![format!("error {} in the preparation", error.code)];
    }
    let id = &prepared.packets[0].payload[1..5];
    let answer = client.command(command::STMT_EXECUTE, &[id, &[0], &1_u32.to_le_bytes()].concat());
    client.send_command(command::STMT_CLOSE, id).expect("the client is connected");
    shown(&answer)
}

/// What one client leaves.
const LEFT: &[&[&str]] = &[
    &[],
    &["INSERT INTO t (v) VALUES (1)"],
    &["SELECT CAST('x' AS SIGNED)"],
    &["SELECT CAST('x' AS SIGNED) + CAST('y' AS SIGNED)"],
    &["INSERT INTO t (v) VALUES (10), (11)"],
    &["INSERT INTO t (id, v) VALUES (70, 70)"],
    &["INSERT INTO t (v) VALUES (10)", "INSERT INTO t (id, v) VALUES (70, 70)"],
    &["INSERT INTO t (v) VALUES (10)", "SELECT v FROM t LIMIT 3"],
    &["INSERT INTO t (v) VALUES (10)", "INSERT INTO t (v) VALUES (10)"],
    &["SELECT v FROM t LIMIT 3"],
    &["SELECT SQL_CALC_FOUND_ROWS v FROM t LIMIT 2"],
    &["SELECT v FROM t LIMIT 3", "UPDATE t SET v = v + 100 WHERE id < 3"],
    &["SELECT LAST_INSERT_ID(77)"],
    &["SET last_insert_id = 78", "DO 1"],
];

/// What another client does on the connection in between.
const BETWEEN: &[&[&str]] = &[
    &["SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7"],
    &["INSERT INTO shop.o (id) VALUES (0)", "INSERT INTO shop.o (secret) VALUES ('secret')"],
    &["INSERT INTO shop.o (secret) VALUES ('secret')", "INSERT INTO shop.o (id) VALUES (0)"],
    &["INSERT INTO shop.o (id) VALUES (0)", "DO CAST('secret' AS SIGNED)"],
];

/// Ways to ask that no reading of the text reveals.
const OPAQUE: &[&str] = &[
    "CALL ids()",
    "CALL found()",
    "CALL changed()",
    "CALL counts()",
    "CALL of_diagnostics()",
    "CALL stores()",
    "SELECT id_of(), found_of()",
    "SELECT rows_of()",
    "prepare CALL ids()",
    "prepare CALL found()",
    "prepare CALL changed()",
    "prepare CALL counts()",
    "prepare CALL of_diagnostics()",
    "prepare CALL stores()",
    "prepare SELECT id_of(), found_of()",
    "prepare SELECT rows_of()",
    "PREPARE p FROM 'SELECT LAST_INSERT_ID(), FOUND_ROWS()'; EXECUTE p",
    "PREPARE p FROM 'CALL stores()'; EXECUTE p",
    "prepare SELECT LAST_INSERT_ID(), FOUND_ROWS()",
    "prepare SELECT ROW_COUNT()",
    "prepare SELECT @@warning_count, @@error_count",
    "prepare SHOW WARNINGS",
    "prepare SHOW ERRORS",
    "prepare SHOW COUNT(*) WARNINGS",
    "prepare SHOW COUNT(*) ERRORS",
    "DO 1; SHOW WARNINGS",
    "SET @a = 1; SHOW WARNINGS",
    "SELECT 1 FROM DUAL; SHOW COUNT(*) WARNINGS",
    "SELECT LAST_INSERT_ID(); SHOW WARNINGS",
    "EXECUTE IMMEDIATE 'SHOW WARNINGS'",
    "EXECUTE IMMEDIATE 'SELECT LAST_INSERT_ID(), FOUND_ROWS()'",
    "EXECUTE IMMEDIATE 'SELECT ROW_COUNT()'",
    "EXECUTE IMMEDIATE 'SELECT @@warning_count, @@error_count'",
    "EXECUTE IMMEDIATE 'INSERT INTO child (parent) VALUES (LAST_INSERT_ID())'; SELECT * FROM child",
    "BEGIN NOT ATOMIC GET DIAGNOSTICS @n = NUMBER; SELECT @n; END",
    "BEGIN NOT ATOMIC SHOW WARNINGS; SELECT LAST_INSERT_ID(); END",
    "IF LAST_INSERT_ID() > 0 THEN SHOW WARNINGS; END IF",
];

/// Ways to ask in a text; ` | ` is between commands.
const PLAIN: &[&str] = &[
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count, @@error_count",
    "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT | SELECT @n, @r",
    "GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT, @e = MYSQL_ERRNO | SELECT @m, @e",
    "GET DIAGNOSTICS CONDITION 1 @m = RETURNED_SQLSTATE | SELECT @m",
    "GET DIAGNOSTICS CONDITION 2 @m = MESSAGE_TEXT | SELECT @m",
    // These raise a condition.
    "GET DIAGNOSTICS CONDITION 5 @m = MESSAGE_TEXT | SHOW WARNINGS",
    "GET DIAGNOSTICS CONDITION 9999 @m = CLASS_ORIGIN | SELECT @@warning_count, @@error_count",
    "GET DIAGNOSTICS CONDITION 5 @m = MYSQL_ERRNO | SHOW COUNT(*) ERRORS",
    "GET DIAGNOSTICS CONDITION NULL @m = MESSAGE_TEXT | SHOW WARNINGS | SHOW WARNINGS",
    "prepare GET DIAGNOSTICS CONDITION 5 @m = MESSAGE_TEXT | prepare SHOW WARNINGS",
    "SHOW WARNINGS | SELECT FOUND_ROWS()",
    "prepare SHOW WARNINGS | prepare SELECT FOUND_ROWS()",
    "SELECT LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS()",
    "SELECT @@identity, @@last_insert_id",
    "INSERT INTO child (parent) VALUES (LAST_INSERT_ID()) | SELECT parent FROM child",
];

/// Whether a statement has left several conditions.
fn several(left: &[&str]) -> bool {
    left.concat().matches("CAST").count() > 1
}

/// What the last of the statements has changed cannot be set as `ROW_COUNT()`.
fn has_changed_rows(left: &[&str]) -> bool {
    let fails = |text: &str| text == "INSERT INTO t (v) VALUES (1)";
    match left {
        [.., before, last] if before == last => false,
        [.., last] => last.starts_with("UPDATE") || last.starts_with("INSERT") && !fails(last),
        [] => false,
    }
}

/// A server for which its connection is verified when it changes its client, or is not: the question changes what others
/// have left there.
fn stand_of(flavour: Flavour, verified: bool) -> Stand {
    Stand::with(ServerOptions::new(flavour), TABLES, |config| match verified {
        true => config,
        false => config.unverified("what is left on a connection is the subject"),
    })
}

/// Both servers, each with and without verification.
fn stands() -> impl Iterator<Item = (Flavour, bool)> {
    Flavour::both().into_iter().flat_map(|flavour| [false, true].map(|verified| (flavour, verified)))
}

/// Each way to ask, after each that may be left and each of what another client does, with a connection of its own and
/// with one that is shared. `differs` is the documented list.
fn all_agree(ways: &[&str], differs: impl Fn(Flavour, &[&str], &str) -> bool) {
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        let mut filler = stand.direct();
        let mut wrong = Vec::new();
        for left in LEFT {
            for way in ways {
                if differs(flavour, left, way) {
                    continue;
                }
                let tried = |client: &mut RawClient, between: &mut dyn FnMut()| {
                    client.query("USE shop");
                    for step in *left {
                        run(client, step);
                    }
                    between();
                    way.split(" | ").flat_map(|step| run(client, step)).collect::<Vec<_>>()
                };
                fill(&mut filler);
                let wanted = tried(&mut stand.direct(), &mut || ());
                for (number, between) in BETWEEN.iter().enumerate() {
                    {
                        let stays = number % 2 == 0;
                        fill(&mut filler);
                        let mut other = Some(stand.client());
                        let mut disturb = || {
                            for step in *between {
                                other.as_mut().expect("connected").query(step);
                            }
                            if !stays {
                                other = None;
                            }
                        };
                        let found = tried(&mut stand.client(), &mut disturb);
                        if found != wanted && wrong.len() < 200 {
                            wrong.push(format!(
                                "{left:?}, {between:?}, {way}: {found:?} instead of {wanted:?}"
                            ));
                        }
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{flavour:?}, {verified}: {}\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn a_statement_that_asks_finds_its_clients_own_values() {
    all_agree(PLAIN, |flavour, left, way| {
        let asks_found = way.contains("FOUND_ROWS");
        let has_counted = left.concat().contains("SELECT");
        let asks_sqlstate = way.contains("RETURNED_SQLSTATE");
        // A new session of MariaDB has what another one has counted on the same thread. The SQLSTATE of a warning, and several
        // conditions where they cannot be put into the text.
        asks_found && !has_counted && flavour == Flavour::MariaDb
            || ["CAST", "SQL_CALC_FOUND_ROWS"].iter().any(|warns| left.concat().contains(warns)) && asks_sqlstate
            // A question for a condition that does not exist adds one, so that there are several.
            || way.contains("GET DIAGNOSTICS CONDITION") && way.contains("WARNINGS")
            || several(left) && flavour == Flavour::MariaDb && way.starts_with("prepare")
    });
}

#[test]
fn a_statement_that_may_ask_finds_its_clients_own_values() {
    all_agree(OPAQUE, |flavour, left, way| {
        let asks_rows = ["changed", "rows_of", "ROW_COUNT"].iter().any(|it| way.contains(it));
        let asks_conditions =
            ["counts", "of_diagnostics", "DIAGNOSTICS", "WARNINGS", "ERRORS", "error_count"]
                .iter()
                .any(|it| way.contains(it));
        let asks_found = way.contains("found") || way.contains("FOUND_ROWS");
        let has_counted = left.concat().contains("SELECT");
        let one_warning = left.concat().matches("CAST").count() == 1;
        // `ROW_COUNT()` cannot be set, and of several conditions none can. A new session of MariaDB has what another one has
        // counted on the same thread.
        asks_found && !has_counted && flavour == Flavour::MariaDb
            || asks_rows && (has_changed_rows(left) || flavour == Flavour::MariaDb && one_warning)
            || asks_conditions && several(left) && flavour == Flavour::MariaDb
    });
}

/// What a new session sees on a connection on which others have left what they can.
#[test]
fn nothing_of_another_client_is_ever_on_the_connection() {
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        let mut other = stand.client();
        for way in PLAIN.iter().chain(OPAQUE) {
            for between in BETWEEN {
                for step in *between {
                    other.query(step);
                }
                let mut client = stand.client();
                client.query("USE shop");
                let found: Vec<String> = way.split(" | ").flat_map(|step| run(&mut client, step)).collect();
                let found = found.join(" ");
                assert!(!found.contains("secret"), "{flavour:?}: {way}: {found}");
                assert!(!found.contains("18446744073709551557"), "{flavour:?}: {way}: {found}");
            }
        }
    }
}

/// Each may set it, and none reports it in its OK packet.
#[test]
fn an_id_that_no_answer_reports_is_the_clients() {
    const SETS: &[&str] = &[
        "CALL inserts()",
        "prepare CALL inserts()",
        "PREPARE p FROM 'CALL inserts()'; EXECUTE p",
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (v)",
        "EXECUTE IMMEDIATE 'CALL inserts()'",
        "BEGIN NOT ATOMIC INSERT INTO t (v) VALUES (NULL); END",
        "IF 1 THEN INSERT INTO t (v) VALUES (NULL); END IF",
        "SET STATEMENT max_statement_time = 100 FOR INSERT INTO t (v) VALUES (NULL)",
        "INSERT INTO t (v) VALUES (NULL) RETURNING v",
    ];
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour).option("--local-infile=1"), TABLES, |config| {
            config.variable("enable_load_data_local_infile", "true")
        });
        let mut filler = stand.direct();
        for sets in SETS {
            for asks in
                ["SELECT LAST_INSERT_ID(), @@identity", "prepare SELECT LAST_INSERT_ID()", "CALL stores()"]
            {
                let tried = |client: &mut RawClient, between: &mut dyn FnMut()| {
                    client.query("USE shop");
                    client.set_local_file(b"77\n".to_vec());
                    run(client, sets);
                    between();
                    run(client, asks)
                };
                fill(&mut filler);
                let wanted = tried(&mut stand.direct(), &mut || ());
                for disturbed in [false, true] {
                    fill(&mut filler);
                    let mut client = stand.client();
                    let mut between = || {
                        // What has run a routine keeps its connection.
                        if disturbed && sets.starts_with("LOAD") {
                            stand.client().query("INSERT INTO shop.o (id) VALUES (0)");
                        }
                    };
                    let found = tried(&mut client, &mut between);
                    assert_eq!(found, wanted, "{flavour:?}, {disturbed}: {sets}; {asks}");
                }
            }
        }
    }
}

/// Statements that keep earlier conditions, or clear them, as the server does.
#[test]
fn conditions_stay_as_long_as_on_a_connection_of_ones_own() {
    const STATEMENTS: &[&str] = &[
        "SELECT 1 FROM DUAL",
        "SELECT EXTRACT(YEAR FROM NOW()) > 0",
        "SELECT TRIM(LEADING 'a' FROM 'ab')",
        "SELECT SUBSTRING('abc' FROM 2)",
        "SELECT 1 FROM t LIMIT 1",
        "SELECT EXTRACT(YEAR FROM (SELECT NOW() FROM t LIMIT 1)) > 0",
        "ALTER EVENT made COMMENT 'x'",
        "DROP EVENT made",
        "ALTER PROCEDURE inserts COMMENT 'x'",
        "ALTER FUNCTION id_of COMMENT 'x'",
        "ALTER DATABASE shop CHARACTER SET utf8mb4",
        "CREATE SERVER made FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x', USER 'x', DATABASE 'x')",
        "DROP SERVER made",
        "HELP 'SELECT'",
        "DESCRIBE t",
        "DESC t id",
        "EXPLAIN t",
        "EXPLAIN SELECT 1",
        "EXPLAIN SELECT v FROM t",
        "EXPLAIN UPDATE t SET v = v",
        "CREATE PROCEDURE made() BEGIN DECLARE c CURSOR FOR SELECT 1; END",
        "DROP PROCEDURE made",
        "CREATE PROCEDURE made() BEGIN DECLARE c CONDITION FOR 1062; END",
        "DROP PROCEDURE made",
        "DROP TRIGGER IF EXISTS g",
        "SHOW GRANTS",
        "SHOW TABLES",
        "FLUSH STATUS",
        "SET @@sql_quote_show_create = 1",
        "CHECK TABLE t",
        "CREATE TABLE made (n INT)",
        "DROP TABLE made",
        "UPDATE t SET v = v WHERE id = 0",
        "COMMIT",
    ];
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        let mut filler = stand.direct();
        fill(&mut filler);
        let mut other = stand.client();
        for statement in STATEMENTS {
            for order in ["", "before", "after", "before and after"] {
                let tried = |client: &mut RawClient, mut disturb: Option<&mut RawClient>| {
                    client.query("USE shop");
                    run(client, "INSERT INTO t (v) VALUES (1)");
                    let mut disturbs = |when: &str| {
                        if let Some(other) = &mut disturb
                            && order.contains(when)
                            // It keeps its connection.
                            && (when == "before"
                                || !statement.starts_with("HELP") && !statement.contains("BEGIN"))
                        {
                            other.query("SELECT secret FROM shop.o");
                        }
                    };
                    disturbs("before");
                    run(client, statement);
                    disturbs("after");
                    let left = run(client, "SHOW WARNINGS");
                    [left, run(client, "SELECT @@error_count")].concat()
                };
                let make_ready = |filler: &mut RawClient| {
                    for drop in ["DROP PROCEDURE", "DROP TABLE", "DROP EVENT", "DROP SERVER"] {
                        filler.query(format!("{drop} IF EXISTS made"));
                    }
                    filler.query("CREATE EVENT made ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1");
                    if statement.starts_with("DROP") {
                        filler.query("CREATE PROCEDURE made() SELECT 1");
                        filler.query("CREATE TABLE made (n INT)");
                        filler.query(
                            "CREATE SERVER made FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x', USER 'x', DATABASE 'x')",
                        );
                    }
                };
                make_ready(&mut filler);
                let wanted = tried(&mut stand.direct(), None);
                make_ready(&mut filler);
                let found = tried(&mut stand.client(), Some(&mut other));
                assert_eq!(found, wanted, "{flavour:?}, {order}: {statement}");
            }
        }
    }
}

#[test]
fn found_rows_are_those_of_the_server() {
    const STEPS: &[&str] = &[
        "DO 1 | DO 1 | SELECT FOUND_ROWS()",
        "SELECT v FROM t LIMIT 4 | SHOW WARNINGS | SELECT FOUND_ROWS()",
        "SELECT SQL_CALC_FOUND_ROWS v FROM t LIMIT 1 | SHOW WARNINGS | SELECT FOUND_ROWS()",
        "prepare SELECT v FROM t LIMIT 4 | prepare SHOW WARNINGS | prepare SELECT FOUND_ROWS()",
        "prepare SELECT v FROM t LIMIT 4 | SHOW WARNINGS | SHOW ERRORS | prepare SELECT FOUND_ROWS()",
        "SELECT v FROM t LIMIT 3 | UPDATE t SET v = v WHERE 0 | SELECT FOUND_ROWS()",
        "SELECT v FROM t LIMIT 3 | UPDATE t SET v = v WHERE id = -1 | SELECT FOUND_ROWS()",
        "DO 1 | UPDATE t SET v = v WHERE 0 | SELECT FOUND_ROWS()",
        "SELECT v FROM t LIMIT 3 | SHOW COUNT(*) WARNINGS | SELECT FOUND_ROWS()",
        "SELECT v FROM t LIMIT 3 | SELECT nosuch | SHOW WARNINGS | SELECT FOUND_ROWS()",
        "SELECT v FROM t LIMIT 3 | CALL found()",
    ];
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        fill(&mut stand.direct());
        let mut other = stand.client();
        for steps in STEPS {
            // A new session of MariaDB has what another one has counted on the same thread.
            if flavour == Flavour::MariaDb
                && !steps.starts_with("SELECT v")
                && !steps.contains("prepare SELECT v")
            {
                continue;
            }
            let tried = |client: &mut RawClient, mut other: Option<&mut RawClient>| {
                client.query("USE shop");
                let mut last = Vec::new();
                for step in steps.split(" | ") {
                    last = run(client, step);
                    // Undisturbed until the statement that asks: what a statement leaves as it was is on the connection.
                    if let Some(other) = &mut other
                        && !step.contains(" WHERE 0")
                        && !step.starts_with("prepare")
                        && !step.starts_with("CALL")
                        && !steps.contains(" WHERE 0")
                    {
                        other.query("SELECT 1 UNION SELECT 2");
                    }
                }
                last
            };
            let wanted = tried(&mut stand.direct(), None);
            assert_eq!(tried(&mut stand.client(), None), wanted, "{flavour:?}: {steps}");
            // A client that has prepared such a statement keeps the connection.
            if !steps.contains("prepare") {
                assert_eq!(
                    tried(&mut stand.client(), Some(&mut other)),
                    wanted,
                    "{flavour:?}, disturbed: {steps}"
                );
            }
        }
    }
}

/// What each statement does to the count of the statement before it.
#[test]
fn each_statement_counts_or_keeps_as_the_server_does() {
    const STATEMENTS: &[&str] = &[
        "SELECT v FROM t LIMIT 2",
        "SELECT v FROM t LIMIT 1 INTO @x",
        "VALUES ROW(1), ROW(2)",
        "VALUES (1), (2)",
        "SHOW FULL COLUMNS FROM t",
        "SHOW FULL FIELDS FROM child",
        "SHOW EXTENDED COLUMNS FROM t",
        "SHOW COLUMNS FROM t",
        "SHOW FULL TABLES",
        "SHOW TABLES",
        "SHOW INDEX FROM t",
        "SHOW FULL PROCESSLIST",
        "SHOW GRANTS",
        "SHOW CREATE TABLE t",
        "SHOW AUTHORS",
        "SHOW TRIGGERS",
        "DESCRIBE t",
        "DESC t id",
        "EXPLAIN t",
        "EXPLAIN SELECT 1",
        "EXPLAIN SELECT 1 UNION SELECT 2",
        "EXPLAIN SELECT v FROM t",
        "EXPLAIN UPDATE t SET v = v",
        "EXPLAIN FORMAT = JSON SELECT 1",
        "EXPLAIN ANALYZE SELECT v FROM t",
        "ANALYZE SELECT v FROM t",
        "SET @x = 1",
        "SET @x = (SELECT COUNT(*) FROM t)",
        "SET @x = (SELECT v FROM t WHERE 0)",
        "SET @x = (SELECT 1)",
        "DO 1",
        "DO (SELECT COUNT(*) FROM t)",
        "UPDATE t SET v = v",
        "DELETE FROM t WHERE id = -1",
        "INSERT INTO child (parent) SELECT id FROM t",
        "CHECK TABLE t",
        "COMMIT",
    ];
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        fill(&mut stand.direct());
        let mut other = stand.client();
        let mut wrong = Vec::new();
        for statement in STATEMENTS {
            // A session with a user variable may keep its connection, and so may one whose statement the server does not know.
            let ties = statement.contains("@x") || statement.contains("ANALYZE");
            for form in ["", "prepare "] {
                for order in ["", "before", "after", "before and after"] {
                    if ties && order.contains("after") {
                        continue;
                    }
                    let tried = |client: &mut RawClient, mut other: Option<&mut RawClient>| {
                        let mut disturbs = |when: &str| {
                            if let Some(other) = &mut other
                                && order.contains(when)
                            {
                                other.query(
                                    "SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5",
                                );
                            }
                        };
                        client.query("USE shop");
                        run(client, "SELECT v FROM t LIMIT 3");
                        disturbs("before");
                        run(client, &format!("{form}{statement}"));
                        disturbs("after");
                        run(client, &format!("{form}SELECT FOUND_ROWS()"))
                    };
                    let wanted = tried(&mut stand.direct(), None);
                    let found = tried(&mut stand.client(), Some(&mut other));
                    if found != wanted {
                        wrong.push(format!("{form}{statement}, {order}: {found:?} instead of {wanted:?}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{flavour:?}, {verified}: {}\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// A text with several statements is one that the server refuses, whatever it begins with, if its client has not asked for them.
#[test]
fn several_statements_are_refused_whatever_they_ask_first() {
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        let mut other = stand.client();
        for text in [
            "SHOW WARNINGS; SELECT 1; COMMIT",
            "SHOW ERRORS; SELECT 1",
            "SHOW COUNT(*) WARNINGS; COMMIT",
            "SELECT @@warning_count; SELECT 1; COMMIT",
            "GET DIAGNOSTICS @n = NUMBER; SELECT @n",
            "GET DIAGNOSTICS CONDITION 1 @n = MESSAGE_TEXT; SELECT @n",
            "SELECT FOUND_ROWS(), ROW_COUNT(); SELECT 1",
        ] {
            for left in ["SELECT 1", "SELECT CAST('x' AS SIGNED)", "SELECT nosuch"] {
                for disturbed in [false, true] {
                    let mut client = RawClient::connect(&stand.narrows.endpoint());
                    client.set_patience(Duration::from_secs(60));
                    client.login(&Login::new("sbtest", "sbtest")).expect("a login");
                    client.query(left);
                    if disturbed {
                        other.query("SELECT CAST('secret' AS SIGNED)");
                    }
                    let found = run(&mut client, text);
                    assert_eq!(found, ["error 1064"], "{flavour:?}, {verified}, {left}, {disturbed}: {text}");
                }
            }
        }
    }
}

/// Commands without a text of their own count no rows, and leave the conditions; those of others are not shown.
#[test]
fn commands_without_a_text_leave_the_clients_own_values() {
    use narrows_testkit::command;
    let mut differences = Vec::new();
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        let mut other = stand.client();
        for (code, body) in [
            (command::FIELD_LIST, b"t\0".as_slice()),
            (command::INIT_DB, b"shop"),
            (command::PING, b""),
            (command::STATISTICS, b""),
        ] {
            for before in ["SELECT 1", "SELECT 1 UNION SELECT 2", "DO 1", "INSERT INTO t (v) VALUES (5)"] {
                // What is counted before the first rows: docs/compatibility.md.
                if flavour == Flavour::MariaDb && !before.starts_with("SELECT") {
                    continue;
                }
                let tried = |client: &mut RawClient, other: Option<&mut RawClient>| {
                    client.query("USE shop");
                    client.query(before);
                    if let Some(other) = other {
                        other.query("SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5");
                    }
                    client.command(code, body);
                    client.query("SELECT FOUND_ROWS()").text_rows()
                };
                let own = tried(&mut stand.direct(), None);
                let shared = tried(&mut stand.client(), Some(&mut other));
                if shared != own {
                    differences.push(format!(
                        "{flavour:?} {verified}: {before}, command {code}: {shared:?}, and not {own:?}"
                    ));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// `GET DIAGNOSTICS` of what Narrows has fetched for its client adds nothing to it.
#[test]
fn asking_for_a_condition_leaves_it_as_it_is() {
    for (flavour, verified) in stands() {
        let stand = stand_of(flavour, verified);
        let mut other = stand.client();
        for fails in [
            "SELECT * FROM nosuch",
            "SELEC",
            "INSERT INTO t (id) VALUES (1), (1)",
            "SELECT CAST('x' AS SIGNED)",
        ] {
            for item in ["MESSAGE_TEXT", "MYSQL_ERRNO", "RETURNED_SQLSTATE"] {
                // Servers do not show the state of a warning, and raise no longer text than this: docs/compatibility.md.
                if item == "RETURNED_SQLSTATE" && (fails.contains("CAST") || fails == "SELEC") {
                    continue;
                }
                let tried = |client: &mut RawClient, other: Option<&mut RawClient>| {
                    client.query("USE shop");
                    client.query(fails);
                    if let Some(other) = other {
                        other.query("SELECT 1");
                    }
                    let mut seen = Vec::new();
                    for name in ["@y", "@z"] {
                        client.query(format!("GET DIAGNOSTICS CONDITION 1 {name} = {item}"));
                    }
                    seen.push(client.query("SHOW WARNINGS").text_rows());
                    seen.push(client.query("SHOW COUNT(*) ERRORS").text_rows());
                    seen.push(client.query("SELECT @y, @z").text_rows());
                    seen
                };
                let own = tried(&mut stand.direct(), None);
                let shared = tried(&mut stand.client(), Some(&mut other));
                assert_eq!(shared, own, "{flavour:?} {verified}: {fails}, {item}");
            }
        }
    }
}

/// A note that Narrows had to raise again for a statement that may ask for anything, as a warning, is a note.
#[test]
fn conditions_that_were_raised_again_are_those_of_the_server() {
    const BETWEEN: [&str; 5] = [
        "SELECT FOUND_ROWS()",
        "SET SESSION sql_select_limit = DEFAULT",
        "DO SLEEP(0)",
        "SELECT @@autocommit",
        "SET @a = 5",
    ];
    const LEFT: [&str; 3] = [
        "DROP TABLE IF EXISTS nowhere.nothing",
        "CREATE DATABASE IF NOT EXISTS test",
        "SELECT CAST('x' AS UNSIGNED)",
    ];
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &["CREATE DATABASE IF NOT EXISTS test"]);
        let (mut pair, mut other) = (Pair::in_schema(&stand, "test"), stand.client());
        for left in LEFT {
            for first in BETWEEN {
                for second in BETWEEN {
                    for statement in
                        ["SELECT 1", left, first, second, "SHOW WARNINGS", "SELECT @@warning_count"]
                    {
                        let (own, shared) = (pair.own.query(statement), pair.shared.query(statement));
                        let what = format!("{flavour:?} {left}, {first}, {second}: {statement}");
                        assert_eq!(shared.text_rows(), own.text_rows(), "{what}");
                        other.query("SELECT 1 FROM mysql.user LIMIT 1");
                    }
                }
            }
        }
    }
}
