//! Two clients on one backend connection: each statement of one client could meet what the other left there. Every test
//! is a defect that was found once.

use std::time::Duration;

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, command,
};

use crate::support::start;

#[test]
fn a_variable_set_by_a_prepared_statement_stays_with_its_client() {
    on_one_connection(|one, other| {
        execute_once(one, "SET @u = 5");
        assert_eq!(cell(other, "SELECT @u"), None);
        assert_eq!(cell(one, "SELECT @u").as_deref(), Some("5"));
    });
}

#[test]
fn a_collation_set_by_a_prepared_statement_outlives_the_connection() {
    on_one_connection(|one, other| {
        execute_once(one, "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci'");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@collation_connection").as_deref(), Some("utf8mb4_unicode_ci"));
    });
}

#[test]
fn closing_an_unknown_statement_leaves_the_transaction_alone() {
    on_one_connection(|one, other| {
        one.query("START TRANSACTION");
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        one.send_command(command::STMT_CLOSE, &99_u32.to_le_bytes()).expect("the client is connected");
        one.query("INSERT INTO shared.t (v) VALUES (2)");
        one.query("COMMIT");
        assert_eq!(cell(other, "SELECT COUNT(*) FROM shared.t").as_deref(), Some("2"));
    });
}

#[test]
fn last_insert_id_is_nobody_elses() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1), (2)");
        other.query("INSERT INTO shared.t (id, v) VALUES (1000, 3)");
        assert_eq!(cell(other, "SELECT LAST_INSERT_ID()").as_deref(), Some("0"), "the id was given");
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID()").as_deref(), Some("1"));
        other.query("INSERT INTO shared.t (id, v) VALUES (1000, 4) ON DUPLICATE KEY UPDATE v = 5");
        assert_eq!(cell(other, "SELECT LAST_INSERT_ID()").as_deref(), Some("0"));
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID() + 0").as_deref(), Some("1"));
    });
}

#[test]
fn last_insert_id_is_that_of_an_insert_that_failed_half_way() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        other.query("SELECT 1");
        let failed = one.query("INSERT INTO shared.t (id, v) VALUES (NULL, 2), (1, 3)");
        assert_eq!(failed.error().map(|error| error.code), Some(1062));
        other.query("INSERT INTO shared.t (v) VALUES (4)");
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID()").as_deref(), Some("2"));
        let failed = one.query("INSERT INTO shared.t (id, v) VALUES (1, 5)");
        assert!(failed.error().is_some());
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID()").as_deref(), Some("2"));
    });
}

#[test]
fn last_insert_id_is_not_that_of_a_client_that_has_left() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        other.query("INSERT INTO shared.t (v) VALUES (2)");
        other.send_command(command::QUIT, &[]).expect("the client is connected");
        assert!(other.is_closed_within(Duration::from_secs(10)));
        one.query("INSERT INTO shared.t (id, v) VALUES (1000, 3)");
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID()").as_deref(), Some("1"), "the last id was given");
    });
}

#[test]
fn last_insert_id_is_not_that_of_a_connection_that_was_reset() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        other.query("SET @b = 1");
        other.query("INSERT INTO shared.t (v) VALUES (@b)");
        // The other client's variable must be gone before a statement that could read it.
        one.query("INSERT INTO shared.t (id, v) VALUES (1000, @nothing)");
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID()").as_deref(), Some("1"), "the last id was given");
        assert_eq!(cell(other, "SELECT LAST_INSERT_ID()").as_deref(), Some("2"));
    });
}

#[test]
fn a_set_whose_values_are_asked_for_keeps_its_warnings() {
    on_one_connection(|one, _| {
        let set = "SET sql_mode = 'ERROR_FOR_DIVISION_BY_ZERO', max_join_size = DEFAULT";
        let warnings = one.query(set).ok().expect("an OK").warnings;
        assert_eq!(one.query("SHOW WARNINGS").text_rows().len(), usize::from(warnings));
    });
}

#[test]
fn last_insert_id_is_fetched_from_an_idle_connection() {
    before_a_server(2, |_, one, other| {
        other.query("BEGIN");
        // On the second connection.
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        one.query("INSERT INTO shared.t (id, v) VALUES (1000, 2)");
        other.query("COMMIT");
        // On the first one, the most recently used.
        one.query("BEGIN");
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID()").as_deref(), Some("1"), "the last id was given");
        one.query("COMMIT");
    });
}

#[test]
fn last_insert_id_outlives_a_client_that_leaves_while_it_is_fetched() {
    for flavour in Flavour::both() {
        let (mut server, narrows) = stand(flavour, 1);
        let mut one = RawClient::open(&narrows.endpoint(), &login().schema("shared"));
        one.query("SELECT LAST_INSERT_ID(25)");
        // Without a schema: the connection is logged in again, and queried before that.
        let mut leaving = RawClient::open(&narrows.endpoint(), &login());
        server.freeze();
        leaving.send_command(command::QUERY, b"SELECT 1").expect("the client is connected");
        leaving.vanish();
        narrows.wait_for_log(0, |line| line.contains("the client has disconnected"));
        server.thaw();
        assert_eq!(cell(&mut one, "SELECT LAST_INSERT_ID()").as_deref(), Some("25"));
    }
}

#[test]
fn a_temporary_table_of_another_engine_does_not_warn_the_next_client() {
    on_one_connection(|one, other| {
        other.query("CREATE TEMPORARY TABLE shared.tmp (id INT) ENGINE=MyISAM");
        other.query("INSERT INTO shared.tmp VALUES (1)");
        other.query("DROP TEMPORARY TABLE shared.tmp");
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        assert_eq!(one.query("SHOW WARNINGS").text_rows(), Vec::<Vec<Option<String>>>::new());
    });
}

#[test]
fn warnings_counts_and_found_rows_are_those_of_the_client() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1), (2), (3)");
        assert_eq!(cell(other, "SELECT ROW_COUNT()").as_deref(), Some("0"));
        assert_eq!(cell(one, "SELECT ROW_COUNT()").as_deref(), Some("3"));
        one.query("SELECT SQL_CALC_FOUND_ROWS id FROM shared.t LIMIT 1");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT FOUND_ROWS()").as_deref(), Some("3"));
        one.query("SELECT CAST('abc' AS SIGNED)");
        other.query("SELECT COUNT(*) FROM shared.t");
        assert!(other.query("SHOW WARNINGS").text_rows().is_empty());
        let warnings = one.query("SHOW WARNINGS").text_rows();
        assert_eq!(warnings[0][1].as_deref(), Some("1292"), "{warnings:?}");
    });
}

#[test]
fn a_variable_that_one_set_names_twice_has_the_last_value() {
    on_one_connection(|one, other| {
        one.query("SET sql_mode = DEFAULT, @@session.sql_mode = ''");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@sql_mode").as_deref(), Some(""));
        one.query("SET @@collation_connection = DEFAULT, character_set_connection = koi8r");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@collation_connection").as_deref(), Some("koi8r_general_ci"));
    });
}

#[test]
fn a_variable_that_sets_another_does_so_for_its_client() {
    on_one_connection(|one, other| {
        one.query("SET sql_big_selects = 0");
        one.query("SET max_join_size = DEFAULT");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@sql_big_selects").as_deref(), Some("1"));
        one.query("SET max_join_size = 1000000");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@sql_big_selects").as_deref(), Some("0"));
        one.query("SET sql_big_selects = 1");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@sql_big_selects").as_deref(), Some("1"));
    });
}

#[test]
fn a_servers_character_set_undoes_its_collation() {
    on_one_connection(|one, other| {
        one.query("SET collation_server = latin1_german1_ci");
        one.query("SET character_set_server = latin1");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@collation_server").as_deref(), Some("latin1_swedish_ci"));
        one.query("SET character_set_server = latin1, collation_server = latin1_german1_ci");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@collation_server").as_deref(), Some("latin1_german1_ci"));
        one.query("SET collation_server = latin1_german1_ci, character_set_server = latin1");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@collation_server").as_deref(), Some("latin1_swedish_ci"));
    });
}

#[test]
fn a_collation_is_what_its_set_says_also_by_number_and_after_a_character_set() {
    on_one_connection(|one, other| {
        let both = "character_set_server = latin1, collation_server = latin1_german1_ci";
        for set in [both, "character_set_connection = 46", "character_set_server = 46"] {
            one.query(format!("SET {set}"));
            let collations = "SELECT CONCAT(@@collation_connection, @@collation_server)";
            let at_once = cell(one, collations);
            other.query("SELECT 1");
            assert_eq!(cell(one, collations), at_once, "{set}");
            assert_eq!(one.command(command::RESET_CONNECTION, b"").error(), None);
        }
    });
}

#[test]
fn a_transaction_that_ends_by_autocommit_leaves_its_access_mode_to_its_client() {
    on_one_connection(|one, other| {
        one.query("SET autocommit = 0");
        one.query("START TRANSACTION READ ONLY");
        one.query("SET autocommit = 1");
        let update = b"UPDATE shared.t SET v = 1 WHERE id = 1";
        other.send_command(command::QUERY, update).expect("the client is connected");
        one.query("BEGIN");
        one.query("COMMIT");
        assert_eq!(other.answer(command::QUERY).error(), None);
    });
}

#[test]
fn set_character_set_takes_the_collation_of_the_schema() {
    on_one_connection(|one, other| {
        one.query("USE shared");
        one.query("SET CHARACTER SET utf8mb4");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@collation_connection").as_deref(), Some("latin1_bin"));
    });
}

#[test]
fn a_client_without_a_schema_does_not_have_the_character_set_of_one() {
    on_one_connection(|one, other| {
        let global = cell(one, "SELECT @@global.collation_database");
        other.query("SET collation_database = koi8r_bin");
        assert_eq!(cell(one, "SELECT @@collation_database"), global);
        assert_eq!(cell(other, "SELECT @@collation_database").as_deref(), Some("koi8r_bin"));
    });
}

#[test]
fn the_default_of_a_client_without_a_schema_is_not_that_of_anothers_schema() {
    on_one_connection(|one, other| {
        let global = cell(one, "SELECT @@global.collation_database");
        other.query("USE shared");
        one.query("SET collation_database = DEFAULT");
        assert_eq!(cell(one, "SELECT @@collation_database"), global);
    });
}

#[test]
fn a_variable_that_is_null_has_the_type_of_none() {
    on_one_connection(|one, other| {
        one.query("SET @b = NULL");
        let fresh = one.query("SELECT @b").columns();
        other.query("SET @b = 1.5");
        assert_eq!(one.query("SELECT @b").columns(), fresh);
    });
}

#[test]
fn text_is_in_the_collation_from_before_its_set() {
    for flavour in Flavour::both() {
        // The other client waits in vain where the first one keeps the connection.
        let (_server, narrows) = stand_with(flavour, 1, &[("connect_timeout_server_max", "300")]);
        let mut other = RawClient::open(&narrows.endpoint(), &login());
        // MariaDB reports one of them and not the other.
        for name in ["collation_connection", "@@collation_connection"] {
            let mut one = RawClient::open(&narrows.endpoint(), &login());
            one.query("SET NAMES utf8mb4 COLLATE utf8mb4_bin");
            one.query(format!("SET {name} = latin1_bin, @text = 'together'"));
            other.query("SELECT 1");
            assert_eq!(cell(&mut one, "SELECT COLLATION(@text)").as_deref(), Some("utf8mb4_bin"), "{name}");
        }
    }
}

#[test]
fn a_variable_may_be_set_to_one_that_is_null() {
    on_one_connection(|one, other| {
        for name in ["default_tmp_storage_engine", "character_set_results"] {
            let set = one.query(format!("SET @@{name} = @@global.{name}"));
            assert!(set.error().is_none(), "{name}: {:?}", set.error());
            other.query("SELECT 1");
            let global = cell(one, &format!("SELECT @@global.{name}"));
            assert_eq!(cell(one, &format!("SELECT @@session.{name}")), global, "{name}");
        }
    });
}

#[test]
fn an_error_counts_with_the_warnings_before_it() {
    on_one_connection(|one, other| {
        one.query("SET sql_mode = ''");
        let failed = one.query("INSERT INTO shared.t (id, v) VALUES (5, '1x'), (5, 2)");
        assert_eq!(failed.error().map(|error| error.code), Some(1062));
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT CONCAT(@@warning_count, ' ', @@error_count)").as_deref(), Some("2 1"));
    });
}

#[test]
fn found_rows_are_those_of_statements_without_rows_too() {
    before_a_server(1, |server, one, other| {
        let mut direct = server.root();
        for statement in [
            "INSERT INTO shared.t (v) VALUES (1), (1), (2)",
            "INSERT INTO shared.t (v) VALUES (1), (LENGTH('select'))",
            "SELECT v FROM shared.t LIMIT 2",
            "UPDATE shared.t SET v = 3 WHERE v = 1",
            "DO 1",
            "INSERT INTO shared.t (v) SELECT v FROM shared.t WHERE v = 2",
            "SELECT v FROM shared.t LIMIT 1, 1",
            "SELECT v FROM shared.t LIMIT 1 OFFSET 77",
            "DELETE FROM shared.t WHERE v = 2",
            "SET sql_notes = DEFAULT",
        ] {
            let found_rows = |client: &mut RawClient, meanwhile: &mut dyn FnMut()| {
                client.query("SELECT 1 UNION SELECT 2");
                client.query("BEGIN");
                client.query(statement);
                client.query("ROLLBACK");
                meanwhile();
                cell(client, "SELECT FOUND_ROWS()")
            };
            let expected = found_rows(&mut direct, &mut || {});
            let mut between = || {
                other.query("SELECT 1 UNION SELECT 2 UNION SELECT 3");
            };
            assert_eq!(found_rows(one, &mut between), expected, "{statement}");
            for client in [&mut direct, one] {
                client.query("DELETE FROM shared.t");
                client.query("INSERT INTO shared.t (v) VALUES (1), (1), (2)");
            }
        }
    });
}

#[test]
fn found_rows_outlive_a_question_of_our_own() {
    on_one_connection(|one, other| {
        one.query("SELECT SQL_CALC_FOUND_ROWS 1 UNION SELECT 2 UNION SELECT 3 LIMIT 1");
        // The resulting collation is queried.
        one.query("SET CHARACTER SET latin1");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT FOUND_ROWS()").as_deref(), Some("3"));
    });
}

#[test]
fn names_mean_what_they_mean_without_the_client_before() {
    on_one_connection(|one, other| {
        one.query("SET NAMES utf8mb4");
        let fresh = one.query("SELECT 'x'").columns();
        // MySQL has it, MariaDB refuses it.
        other.query("SET default_collation_for_utf8mb4 = utf8mb4_general_ci");
        other.query("SET NAMES latin1");
        assert_eq!(one.query("SELECT 'x'").columns(), fresh);
    });
}

#[test]
fn null_is_the_insert_id_where_the_client_wants_that() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        other.query("INSERT INTO shared.t (v) VALUES (2)");
        one.query("SET sql_auto_is_null = 1");
        assert_eq!(cell(one, "SELECT id FROM shared.t WHERE id IS NULL").as_deref(), Some("1"));
        one.query("INSERT INTO shared.t (v) VALUES (3)");
        assert_eq!(cell(one, "SELECT id FROM shared.t WHERE id IS NULL").as_deref(), Some("3"));
    });
}

#[test]
fn an_answer_of_our_own_says_whether_a_transaction_is_open() {
    on_one_connection(|one, other| {
        one.query("SET @mine = 1");
        other.query("SELECT 1");
        one.query("SET autocommit = 0");
        let refused = one.query("INSERT INTO shared.t (v) VALUES ('word')");
        assert!(refused.error().is_some());
        let answer = one.query("SHOW COUNT(*) ERRORS");
        assert_eq!(answer.cell().as_deref(), Some("1"));
        // The EOF packet after the rows: warnings, status.
        let end = &answer.packets.last().expect("rows have an end").payload;
        assert_eq!((end[0], end[3] & IN_TRANSACTION), (0xFE, IN_TRANSACTION));
    });
}

#[test]
fn errors_of_our_own_are_kept_as_the_client_wants() {
    on_one_connection(|one, _| {
        one.query("KILL 99999999");
        assert_eq!(one.query("SHOW WARNINGS").text_rows().len(), 1);
        one.query("SET max_error_count = 0");
        one.query("KILL 99999999");
        assert!(one.query("SHOW WARNINGS").text_rows().is_empty());
    });
}

#[test]
fn backslashes_mean_what_they_meant_where_the_variable_was_set() {
    let path = Some("433A5C6E65775C746162");
    on_another_connection(&[], |one, move_on| {
        one.query("SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
        one.query(r"SET @p = 'C:\new\tab', @q = 'it''s\'");
        move_on();
        assert_eq!(cell(one, "SELECT HEX(@p)").as_deref(), path);
        assert_eq!(cell(one, "SELECT HEX(@q)").as_deref(), Some("697427735C"));
        one.query("SET sql_mode = ''");
        one.query(r"SET @p = 'C:\\new\\tab'");
        assert_eq!(cell(one, "SELECT HEX(@p)").as_deref(), path);
    });
    // The server's own mode: the session has not set any.
    on_another_connection(&["--sql-mode=NO_BACKSLASH_ESCAPES"], |one, move_on| {
        one.query(r"SET @p = 'C:\new\tab'");
        move_on();
        assert_eq!(cell(one, "SELECT HEX(@p)").as_deref(), path);
    });
}

#[test]
fn a_prepared_text_is_read_as_it_was_prepared() {
    on_another_connection(&[], |one, move_on| {
        let prepared = one.command(command::STMT_PREPARE, br"SET @p = 'C:\new'");
        let id: [u8; 4] = prepared.packets[0].payload[1..5].try_into().expect("four bytes");
        one.query("SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
        one.command(command::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0]].concat());
        let expected = cell(one, "SELECT HEX(@p)");
        move_on();
        assert_eq!(cell(one, "SELECT HEX(@p)"), expected);
    });
}

#[test]
fn text_has_the_bytes_of_the_character_set_that_it_was_set_in() {
    on_another_connection(&[], |one, move_on| {
        for (names, text, bytes) in [
            ("SET NAMES utf8mb4, collation_connection = utf16_general_ci", &b"abc"[..], "006100620063"),
            ("SET NAMES utf8mb4, collation_connection = utf32_bin", b"a", "00000061"),
            ("SET NAMES gbk", b"\xbf\x5c\x5c'", "BF5C27"),
            ("SET NAMES sjis", b"\x95\x5c", "955C"),
            ("SET NAMES big5", b"\xa5\x5c", "A55C"),
            ("SET NAMES cp932", b"\x83\x5cx", "835C78"),
        ] {
            one.query(names);
            one.query([b"SET @p = '", text, b"'"].concat());
            let expected = cell(one, "SELECT HEX(@p)");
            assert_eq!(expected.as_deref(), Some(bytes), "{names}");
            move_on();
            assert_eq!(cell(one, "SELECT HEX(@p)"), expected, "{names}");
        }
    });
}

#[test]
fn a_name_is_the_same_in_every_character_set() {
    on_another_connection(&[], |one, move_on| {
        one.query("SET NAMES gbk");
        one.query(b"SET @`\xc3\xa9` = 5");
        move_on();
        assert_eq!(one.query(b"SELECT @`\xc3\xa9`").cell().as_deref(), Some("5"));
        one.query("SET NAMES utf8mb4");
        assert_eq!(cell(one, "SELECT @`\u{e9}`"), None);
    });
}

#[test]
fn a_session_may_have_more_than_one_statement_carries() {
    on_another_connection(&["--max-allowed-packet=64M"], |one, move_on| {
        for number in 0..20 {
            let set = one.query(format!("SET @v{number} = '{}'", "x".repeat(900_000)));
            assert!(set.error().is_none(), "{:?}", set.error());
        }
        move_on();
        let lengths: Vec<String> = (0..20).map(|number| format!("LENGTH(@v{number})")).collect();
        let sum = cell(one, &format!("SELECT {}", lengths.join(" + ")));
        assert_eq!(sum.as_deref(), Some("18000000"));
    });
}

/// A client, and what makes it get a different connection unless it is tied to the current one; on each flavour.
fn on_another_connection(options: &[&str], test: impl Fn(&mut RawClient, &mut dyn FnMut())) {
    for flavour in Flavour::both() {
        let server = options.iter().fold(ServerOptions::new(flavour), |all, one| all.option(one)).start();
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=2")
            .variable("threads", "1")
            .user("sbtest", "sbtest", "");
        let narrows = start(&config);
        let mut one = RawClient::open(&narrows.endpoint(), &login());
        let mut other = RawClient::open(&narrows.endpoint(), &login());
        test(&mut one, &mut || {
            other.query("ROLLBACK");
            other.query("BEGIN");
        });
    }
}

/// `SERVER_STATUS_IN_TRANS`.
const IN_TRANSACTION: u8 = 1;

/// A client that mistypes a statement and then is idle keeps no connection.
#[test]
fn a_failed_statement_keeps_no_connection() {
    let failing = [
        "SELEC 1",
        "CREATE TABLE shared.t (id INT)",
        "DROP TABLE shared.nosuch",
        "LOCK TABLES shared.nosuch WRITE",
        "PREPARE s FROM 'SELEC'",
        "EXECUTE nosuch",
        "SIGNAL SQLSTATE '45000'",
        "ROLLBACK TO nosuch",
        "DO nosuch",
        "",
    ];
    on_one_connection(|one, other| {
        for statement in failing {
            assert!(one.query(statement).error().is_some(), "{statement}");
            // It would wait for the connection in vain.
            assert_eq!(other.query("SELECT 1").error(), None, "{statement}");
        }
        assert!(one.command(command::INIT_DB, b"nosuch").error().is_some());
        assert_eq!(other.query("SELECT 1").error(), None);
    });
}

/// Two clients and a server with one connection for both, on each flavour.
fn on_one_connection(test: impl Fn(&mut RawClient, &mut RawClient)) {
    before_a_server(1, |_, one, other| test(one, other));
}

/// The same, with queries to the server itself too.
fn before_a_server(connections: u32, test: impl Fn(&RealServer, &mut RawClient, &mut RawClient)) {
    for flavour in Flavour::both() {
        let (server, narrows) = stand(flavour, connections);
        let mut one = RawClient::open(&narrows.endpoint(), &login());
        let mut other = RawClient::open(&narrows.endpoint(), &login());
        test(&server, &mut one, &mut other);
    }
}

/// A server, and Narrows with this many connections to it.
fn stand(flavour: Flavour, connections: u32) -> (RealServer, Narrows) {
    stand_with(flavour, connections, &[])
}

/// The same with these variables.
fn stand_with(flavour: Flavour, connections: u32, variables: &[(&str, &str)]) -> (RealServer, Narrows) {
    let server: RealServer = ServerOptions::new(flavour).start();
    server.execute(&[
        "CREATE DATABASE shared CHARACTER SET latin1 COLLATE latin1_bin",
        "CREATE TABLE shared.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
    ]);
    let mut config = NarrowsConfig::new()
        .server(0, server.port(), &format!("max_connections={connections}"))
        .variable("threads", "1")
        .user("sbtest", "sbtest", "");
    for (name, value) in variables {
        config = config.variable(name, value);
    }
    let narrows = start(&config);
    (server, narrows)
}

fn login() -> Login {
    Login::new("sbtest", "sbtest")
}

fn cell(client: &mut RawClient, statement: &str) -> Option<String> {
    client.query(statement).cell()
}

/// Prepares a statement without parameters, executes it and closes it.
fn execute_once(client: &mut RawClient, statement: &str) {
    let prepared = client.command(command::STMT_PREPARE, statement.as_bytes());
    let id: [u8; 4] = prepared.packets[0].payload[1..5].try_into().expect("four bytes");
    // The id, no cursor, one iteration.
    let executed = client.command(command::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0]].concat());
    assert!(executed.error().is_none(), "{statement}: {:?}", executed.error());
    client.send_command(command::STMT_CLOSE, &id).expect("the client is connected");
}
