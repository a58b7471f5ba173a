//! The state in which a connection was opened, to which it is brought back.

use std::time::Duration;

use narrows_testkit::{Flavour, NarrowsConfig, RawClient, ServerOptions, wait_until};

use crate::support::Stand;

/// What makes Narrows reset the connection before another client uses it, or set a variable to its default.
const DISTURBANCES: [&str; 6] = [
    "SELECT GET_LOCK('mine', 1), RELEASE_LOCK('mine')",
    "CREATE TEMPORARY TABLE IF NOT EXISTS test.mine (a INT); DROP TEMPORARY TABLE test.mine",
    "SET sql_mode = ''",
    "SET max_join_size = 5, sql_safe_updates = 0, group_concat_max_len = 2000, lock_wait_timeout = 7",
    "SET @first = 5, @other = 6",
    "SET sql_safe_updates = DEFAULT, group_concat_max_len = DEFAULT",
];

const SHOWN: &str = "SELECT @@sql_mode, @@sql_safe_updates, @@group_concat_max_len, @@lock_wait_timeout, @first, @@autocommit";

#[test]
fn what_init_connect_has_done_is_there_for_each_client() {
    for flavour in Flavour::both() {
        let ours = "SET sql_safe_updates = 1, group_concat_max_len = 4321, @first = 3";
        let servers = "SET sql_mode = 'ANSI_QUOTES'; SET lock_wait_timeout = 77";
        let new_schema = [
            "CREATE DATABASE IF NOT EXISTS test",
            "CREATE USER plain@'%' IDENTIFIED BY 'plain'",
            "GRANT ALL ON test.* TO plain@'%'",
        ];
        let options = ServerOptions::new(flavour).option(&format!("--init-connect={servers}"));
        let stand = Stand::with(options, &new_schema, |config| {
            config.user("plain", "plain", "").variable("init_connect", ours)
        });
        let mut first = stand.client_as("plain");
        let begun = first.query(SHOWN).text_rows();
        assert_eq!(begun[0][0].as_deref(), Some("ANSI_QUOTES"), "{flavour:?}: the server's own");
        assert_eq!(begun[0][2].as_deref(), Some("4321"), "{flavour:?}: ours");
        for disturbance in DISTURBANCES {
            let mut other = stand.client_as("plain");
            for statement in disturbance.split("; ") {
                let answer = other.query(statement);
                assert!(answer.error().is_none(), "{flavour:?} {statement}: {answer:?}");
            }
            // It may keep the only connection as long as it lives.
            drop(other);
            for client in [&mut stand.client_as("plain"), &mut first] {
                assert_eq!(client.query(SHOWN).text_rows(), begun, "{flavour:?} after {disturbance}");
            }
        }
        // DEFAULT is the server's value, as it is without Narrows.
        let mut own = stand.client_as("plain");
        own.query("SET sql_safe_updates = DEFAULT");
        first.query("SELECT 1");
        assert_eq!(own.query("SELECT @@sql_safe_updates").cell().as_deref(), Some("0"), "{flavour:?}");
    }
}

#[test]
fn sessions_begin_with_the_global_values_of_the_moment() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), &[], monitored);
        let (mut one, mut other) = (stand.client(), stand.client());
        one.query("SELECT 1");
        other.query("SET sql_mode = ''");
        // Through Narrows: at once.
        let set = "SET GLOBAL group_concat_max_len = 5555, GLOBAL div_precision_increment = 7";
        assert!(one.query(set).error().is_none());
        for client in [&mut stand.client(), &mut other] {
            let shown = client.query("SELECT @@group_concat_max_len, @@div_precision_increment").text_rows();
            assert_eq!(shown, [[Some("5555".to_owned()), Some("7".to_owned())]], "{flavour:?}");
        }
        assert_eq!(
            other.query("SELECT @@sql_mode").cell().as_deref(),
            Some(""),
            "{flavour:?}: its own stays"
        );
        // By anybody else: within seconds.
        stand.direct().query("SET GLOBAL group_concat_max_len = 6666");
        let mut client = stand.client();
        wait_until("the new value", || {
            client.query("SELECT @@group_concat_max_len").cell().as_deref() == Some("6666")
        });
    }
}

#[test]
fn tables_are_made_in_the_character_set_that_their_schema_has_now() {
    for flavour in Flavour::both() {
        let stand =
            Stand::with(ServerOptions::new(flavour), &["CREATE DATABASE s CHARACTER SET latin1"], monitored);
        let mut client = stand.client();
        client.query("USE s");
        client.query("SELECT 1");
        let changes = [
            ("ALTER DATABASE s CHARACTER SET utf8mb4", "utf8mb4"),
            ("DROP DATABASE s; CREATE DATABASE s CHARACTER SET latin2", "latin2"),
        ];
        for (number, (changed, charset)) in changes.into_iter().enumerate() {
            let mut other = stand.client();
            for statement in changed.split("; ") {
                assert!(other.query(statement).error().is_none(), "{flavour:?} {statement}");
            }
            client.query(format!("CREATE TABLE t{number} (a VARCHAR(10))"));
            assert_eq!(charset_of(&mut client, number), charset, "{flavour:?} {changed}");
        }
        stand.direct().query("ALTER DATABASE s CHARACTER SET greek");
        let mut number = 10;
        wait_until("the new character set", || {
            number += 1;
            client.query(format!("CREATE TABLE t{number} (a VARCHAR(10))"));
            charset_of(&mut client, number) == "greek"
        });
    }
}

fn charset_of(client: &mut RawClient, number: usize) -> String {
    let question = format!(
        "SELECT character_set_name FROM information_schema.columns WHERE table_schema = 's' AND table_name = 't{number}'"
    );
    client.query(question).cell().unwrap_or_default()
}

/// A table, an account that may read it, and a program that runs any text.
const WITH_ACCOUNT: [&str; 5] = [
    "CREATE DATABASE s",
    "CREATE TABLE s.t (a INT)",
    "CREATE USER plain@'%' IDENTIFIED BY 'plain'",
    "GRANT SELECT ON s.* TO plain@'%'",
    "CREATE PROCEDURE s.run(sentence TEXT) BEGIN SET @s = sentence; PREPARE q FROM @s; EXECUTE q; END",
];

#[test]
fn privileges_of_an_account_are_those_that_it_has_now() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), &WITH_ACCOUNT, |config| {
            config.user("plain", "plain", "")
        });
        let mut plain = stand.client_as("plain");
        plain.query("USE s");
        assert!(plain.query("INSERT INTO t VALUES (1)").error().is_some());
        let mut admin = stand.client();
        assert!(admin.query("GRANT INSERT ON s.* TO plain@'%'").error().is_none());
        let inserted = plain.query("INSERT INTO t VALUES (1)");
        assert!(inserted.error().is_none(), "{flavour:?}: {inserted:?}");
        assert!(admin.query("REVOKE INSERT ON s.* FROM plain@'%'").error().is_none());
        assert!(plain.query("INSERT INTO t VALUES (1)").error().is_some(), "{flavour:?}");
    }
}

/// Statements about accounts in forms whose text does not show them to everybody: what the monitor finds is in force within seconds.
#[test]
fn privileges_that_change_by_other_ways_are_in_force_within_seconds() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), &WITH_ACCOUNT, |config| {
            monitored(config).user("plain", "plain", "")
        });
        let may_insert = |plain: &mut RawClient| plain.query("INSERT INTO t VALUES (1)").error().is_none();
        let mut plain = stand.client_as("plain");
        plain.query("USE s");
        assert!(!may_insert(&mut plain));
        let change = |form: &str, text: &str| match form {
            "elsewhere" => assert_eq!(stand.direct().query(text).error(), None),
            "called" => assert_eq!(stand.client().query(format!("CALL s.run(\"{text}\")")).error(), None),
            "prepared" => {
                let mut admin = stand.client();
                for statement in [&*format!("PREPARE q FROM \"{text}\""), "EXECUTE q"] {
                    assert_eq!(admin.query(statement).error(), None, "{statement}");
                }
            }
            comment => {
                let answer = stand.client().query(comment.replace("..", text));
                assert_eq!(answer.error(), None, "{flavour:?} {form} {text}");
            }
        };
        for form in ["/*!50000 .. */", "/*! .. */", "elsewhere", "called", "prepared"] {
            for (text, is_allowed) in
                [("GRANT INSERT ON s.* TO plain@'%'", true), ("REVOKE INSERT ON s.* FROM plain@'%'", false)]
            {
                change(form, text);
                let case = format!("{flavour:?} {form} {text}");
                let took = wait_until(&case, || may_insert(&mut plain) == is_allowed);
                assert!(took < Duration::from_secs(45), "{case}");
                let is_read = form.starts_with('/');
                assert!(!is_read || took < Duration::from_secs(2), "{form}: at once");
            }
        }
    }
}

#[test]
fn child_rows_that_a_cascade_deletes_are_in_the_binary_log_of_mysql() {
    let options = ServerOptions::new(Flavour::MySql9).option("--log-bin=b").option("--server-id=9");
    Flavour::MySql9.if_tested(|_| {
        let set_up = [
            "CREATE DATABASE s",
            "CREATE TABLE s.p (id INT PRIMARY KEY)",
            "CREATE TABLE s.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES s.p (id) ON DELETE CASCADE)",
            "INSERT INTO s.p VALUES (1), (2), (3)",
            "INSERT INTO s.c VALUES (1, 1), (2, 2), (3, 3)",
        ];
        let stand = Stand::with(options, &set_up, |config| config);
        let disturbances = [
            "SELECT 1",
            "SELECT GET_LOCK('mine', 1)",
            "SET @mine = 1",
        ];
        for (number, disturbance) in disturbances.into_iter().enumerate() {
            let mut other = stand.client();
            other.query(disturbance);
            drop(other);
            let mut client = stand.client();
            client.query("SET @other = 7");
            client.query("SELECT @other");
            let position = stand.server.rows("SHOW BINARY LOG STATUS").remove(0);
            let (file, at) = (position[0].clone().unwrap(), position[1].clone().unwrap());
            client.query(format!("DELETE FROM s.p WHERE id = {}", number + 1));
            let events = stand.server.rows(&format!("SHOW BINLOG EVENTS IN '{file}' FROM {at}"));
            let deletions = events.iter().filter(|event| event[2].as_deref() == Some("Delete_rows")).count();
            assert_eq!(deletions, 2, "after {disturbance}: {events:?}");
        }
    });
}

/// With the monitor, which looks at the server as often as it can.
fn monitored(config: NarrowsConfig) -> NarrowsConfig {
    config
        .monitor()
        .variable("monitor_username", "sbtest")
        .variable("monitor_password", "sbtest")
        .variable("monitor_ping_interval", "1000")
}

/// What an account has instead of the server's value is applied at a login; a reset of the connection does not bring it back
/// (MariaDB).
#[test]
fn the_limit_of_an_account_holds_whatever_its_clients_leave() {
    let statements = [
        "CREATE DATABASE s",
        "CREATE FUNCTION s.f() RETURNS INT BEGIN SET @f = 1; RETURN 1; END",
        "CREATE USER plain@'%' IDENTIFIED BY 'plain' WITH MAX_STATEMENT_TIME 0.4",
        "GRANT ALL ON s.* TO plain@'%'",
    ];
    let stand = Stand::with(ServerOptions::new(Flavour::MariaDb), &statements, |config| {
        config.user("plain", "plain", "")
    });
    let limit = |client: &mut RawClient| client.query("SELECT @@max_statement_time").text_rows();
    let expected = [[Some("0.400000".to_owned())]];
    let mut other = stand.client_as("plain");
    for leaves in [
        "SELECT 1",
        "SET @u = 1",
        "SET @u := (SELECT 1)",
        "CREATE TEMPORARY TABLE s.x (a INT)",
        "PREPARE p FROM 'SELECT 1'",
        "BEGIN",
        "SELECT s.f()",
        "SELECT GET_LOCK('l', 1)",
        "LOCK TABLES mysql.help_topic READ",
        "SELECT nope FROM nope",
    ] {
        let mut client = stand.client_as("plain");
        assert_eq!(limit(&mut client), expected, "before {leaves}");
        client.query(leaves);
        drop(client);
        assert_eq!(limit(&mut other), expected, "an open session after {leaves}");
        assert_eq!(limit(&mut stand.client_as("plain")), expected, "a login after {leaves}");
        let mut changed = stand.client();
        let login = narrows_testkit::Login::new("plain", "plain");
        assert!(changed.change_user(&login).is_ok(), "{leaves}");
        assert_eq!(limit(&mut changed), expected, "a change of the user after {leaves}");
    }
    assert_eq!(other.query("SELECT SLEEP(2)").error().map(|error| error.code), Some(1969));
}
