//! Users with `fast_forward`: one client, one connection, bytes forwarded unchanged.

use std::time::Duration;

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Move, Narrows, NarrowsConfig, RawClient, RealServer, capability,
    wait_until,
};

use crate::support::start;

/// One server, and `sbtest` with `fast_forward`.
fn before(port: u16) -> NarrowsConfig {
    NarrowsConfig::new().server(0, port, "").user("sbtest", "sbtest", "fast_forward=1")
}

#[test]
fn a_client_has_a_connection_of_its_own_and_rules_do_not_apply() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let rule = r#"rule_id=1 active=1 match_digest="^SELECT" error_msg="not here" apply=1"#;
        let narrows = start(&before(server.port()).rule(rule));
        for form in [0, capability::DEPRECATE_EOF] {
            let login = || Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF).with(form);
            let mut one = RawClient::open(&narrows.endpoint(), &login());
            let mut other = RawClient::open(&narrows.endpoint(), &login());
            for (client, value) in [(&mut one, "1"), (&mut other, "2")] {
                client.query(format!("SET @mine = {value}")).ok().expect("a variable");
                client.query("CREATE TEMPORARY TABLE mysql.fast_forward (n INT)").ok().expect("a table");
            }
            let ids: Vec<_> =
                [&mut one, &mut other].map(|client| client.query("SELECT CONNECTION_ID()").cell()).into();
            assert_ne!(ids[0], ids[1]);
            for (client, value) in [(&mut one, "1"), (&mut other, "2")] {
                assert_eq!(client.query("SELECT @mine").cell().as_deref(), Some(value));
                let rows = client.query("SELECT 1 UNION SELECT 2 UNION SELECT 3").text_rows();
                assert_eq!(rows.len(), 3);
                let error = client.query("SELECT * FROM nowhere.nothing").error().expect("an error");
                assert!(matches!(error.code, 1146 | 1049), "{error:?}");
            }
        }
    }
}

#[test]
fn schema_and_character_set_of_the_login_are_the_servers() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE DATABASE IF NOT EXISTS fast_forward"]);
    let narrows = start(&before(server.port()));
    let mut client =
        RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("fast_forward"));
    let mut direct =
        RawClient::open(&server.endpoint(), &Login::new("sbtest", "sbtest").schema("fast_forward"));
    for question in ["SELECT DATABASE()", "SELECT @@collation_connection, @@character_set_results"] {
        assert_eq!(client.query(question).text_rows(), direct.query(question).text_rows(), "{question}");
    }
}

#[test]
fn a_long_result_and_a_long_statement_come_through() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&before(server.port()));
    let mut client = narrows.client();
    let text = "x".repeat(4 << 20);
    let length = client.query(format!("SELECT LENGTH('{text}')")).cell();
    assert_eq!(length.as_deref(), Some("4194304"));
    let rows = client.query("SELECT REPEAT('y', 4000000) UNION ALL SELECT REPEAT('z', 4000000)").text_rows();
    assert_eq!(rows.iter().map(|row| row[0].as_deref().map_or(0, str::len)).sum::<usize>(), 8_000_000);
}

#[test]
fn the_connection_is_closed_when_its_client_leaves_and_its_statement_killed_when_it_vanishes() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&before(server.port()));
    let running = |mark: &str| {
        let listed = format!(
            "SELECT id FROM information_schema.processlist WHERE info LIKE '%{mark}%' AND info NOT LIKE '%processlist%'"
        );
        !server.rows(&listed).is_empty()
    };
    let mut client = narrows.client();
    client.send_command(0x03, b"SELECT SLEEP(600) AS left_running").expect("send");
    wait_until("the statement runs", || running("left_running"));

    client.vanish();

    wait_until("the statement is killed", || !running("left_running"));
}

#[test]
fn a_server_that_cannot_be_had_is_error_9001() {
    let port = FakeMysql::nobody();
    let narrows = start(&before(port).variable("connect_timeout_server_max", "300"));
    let error = narrows.client().query("SELECT 1").error().expect("an error");
    assert_eq!(error.code, 9001, "{error:?}");
}

/// A client of a `fast_forward` user that sends a file if asked, and its server.
fn asked_for_a_file(moves: &[Move], allowed: bool) -> (FakeMysql, Narrows, RawClient) {
    let fake = FakeMysql::start(Conversation::new().on("SELECT stolen", moves));
    let config = before(fake.port()).variable("enable_load_data_local_infile", &allowed.to_string());
    let narrows = start(&config);
    // The capabilities that the test's server offers.
    let form = capability::DEPRECATE_EOF | capability::SESSION_TRACK | capability::QUERY_ATTRIBUTES;
    let login = Login::new("sbtest", "sbtest").without(form).with(capability::LOCAL_FILES);
    let mut client = RawClient::open(&narrows.endpoint(), &login);
    client.set_local_file(b"a secret".to_vec());
    client.set_patience(Duration::from_secs(10));
    (fake, narrows, client)
}

#[test]
fn a_server_gets_no_file_for_a_statement_that_names_none() {
    let question = b"\xFB/etc/passwd";
    let with_number = |number: u8| [&[question.len() as u8, 0, 0, number], &question[..]].concat();
    // An OK that announces another result.
    let ok = b"\x07\0\0\xFE\0\0\0\x0A\0\0\0".to_vec();
    for allowed in [false, true] {
        for moves in [
            vec![Move::Reply(vec![question.to_vec()])],
            // The next packet has the sequence number of a command.
            vec![Move::Bytes(with_number(255))],
            vec![Move::Bytes([ok.clone(), with_number(255)].concat())],
            vec![Move::Bytes([ok.clone(), with_number(7)].concat())],
        ] {
            let (fake, narrows, mut client) = asked_for_a_file(&moves, allowed);
            let answer = client.query("SELECT stolen");
            assert!(answer.error().is_some(), "{allowed}, {moves:?}: {answer:?}");
            assert!(!narrows.log().contains("no fast_forward"), "{}", narrows.log());
            narrows.wait_for_log(0, |line| line.contains("asked for a file"));
            let stolen = fake.received().iter().any(|received| received.body.contains("secret"));
            assert!(!stolen, "{allowed}, {moves:?}: {:?}", fake.received());
        }
    }
}

#[test]
fn a_file_is_loaded_where_that_is_allowed_and_where_a_statement_says_so() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        server.execute(&[
            "SET GLOBAL local_infile = 1",
            "CREATE DATABASE IF NOT EXISTS fast_forward_files",
            "CREATE TABLE IF NOT EXISTS fast_forward_files.t (line VARCHAR(99))",
            "TRUNCATE TABLE fast_forward_files.t",
        ]);
        let statement = "LOAD DATA LOCAL INFILE 'f' INTO TABLE fast_forward_files.t";
        let login =
            || Login::new("sbtest", "sbtest").with(capability::LOCAL_FILES | capability::MULTI_STATEMENTS);
        let count = || server.rows("SELECT COUNT(*) FROM fast_forward_files.t")[0][0].clone();
        for allowed in [false, true] {
            let config =
                before(server.port()).variable("enable_load_data_local_infile", &allowed.to_string());
            let narrows = start(&config);
            let mut client = RawClient::open(&narrows.endpoint(), &login());
            client.set_local_file(b"one\ntwo\n".to_vec());
            let answer = client.query(statement);
            assert_eq!(answer.error().is_none(), allowed, "{flavour:?}: {answer:?}");
            if !allowed {
                assert_eq!(count().as_deref(), Some("0"), "{flavour:?}");
                continue;
            }
            assert_eq!(count().as_deref(), Some("2"), "{flavour:?}");
            // A file of more packets than there are sequence numbers.
            let line = [&[b'x'; 99][..], b"\n"].concat();
            client.set_local_file(line.repeat(100_000));
            assert!(client.query(format!("SELECT 1; {statement}")).error().is_none(), "{flavour:?}");
            assert_eq!(count().as_deref(), Some("100002"), "{flavour:?}");
            assert_eq!(client.query("SELECT 3").cell().as_deref(), Some("3"));
        }
    }
}

#[test]
fn a_client_whose_server_speaks_another_form_is_served_as_any_other() {
    // Its greeting lacks CLIENT_DEPRECATE_EOF, which is offered to clients until that is known.
    let server = FakeMysql::start(Conversation::new().on("SELECT 1", &[Move::rows("1", &["1"])]));
    let narrows = start(&before(server.port()));
    let login = Login::new("sbtest", "sbtest").with(capability::DEPRECATE_EOF);
    let mut client = RawClient::open(&narrows.endpoint(), &login);
    let deprecates = client.capabilities() & capability::DEPRECATE_EOF != 0;

    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));

    let fell_back = narrows.log().contains("no fast_forward");
    assert_eq!(deprecates, fell_back, "the client has CLIENT_DEPRECATE_EOF: {deprecates}");
}

#[test]
fn a_client_cannot_become_another_user() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&before(server.port()));
        for warm in [false, true] {
            let mut client = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest"));
            if warm {
                assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
            }
            // The server has this account, without a password; `mysql_users` does not.
            let error = client.change_user(&Login::new("root", "")).expect_err("refused");
            assert_eq!(error.code, 1148, "{error:?}");
            assert!(client.is_closed_within(Duration::from_secs(10)));
        }
    }
}
