//! Servers that do not answer, or lag, get no statements until they have recovered.

use narrows_testkit::{Conversation, FakeMysql, Flavour, Move, ServerOptions, command};

use super::{rows, start, wait_for_rows, watched};

const STATES: &str = "SELECT status FROM stats_mysql_connection_pool ORDER BY srv_port";

#[test]
fn missed_pings_shun_and_an_answer_brings_back() {
    let server = FakeMysql::start(Conversation::new());
    let port = server.port();
    let narrows = start(&watched().server(0, port, "").variable("monitor_ping_timeout", "100"));
    let mut admin = narrows.admin();
    wait_for_rows(&mut admin, "SELECT count(*) >= 2 FROM monitor.mysql_server_ping_log", &["1"]);
    assert_eq!(rows(&mut admin, STATES), ["ONLINE"]);
    wait_for_rows(&mut admin, "SELECT Latency_us > 0 FROM stats_mysql_connection_pool", &["1"]);

    server.say(Conversation::new().at_connect(&[Move::Close]));
    server.hang_up();
    let took = wait_for_rows(&mut admin, STATES, &["SHUNNED"]);
    println!("shunned {took:?} after its end; pings every 200 ms, 3 failures");
    assert_eq!(rows(&mut admin, "SELECT status FROM runtime_mysql_servers"), ["SHUNNED"]);
    assert_eq!(rows(&mut admin, "SELECT status FROM mysql_servers"), ["ONLINE"]);
    let failures = "SELECT count(*) >= 3 FROM monitor.mysql_server_ping_log WHERE ping_error IS NOT NULL";
    wait_for_rows(&mut admin, failures, &["1"]);

    server.say(Conversation::new());
    let took = wait_for_rows(&mut admin, STATES, &["ONLINE"]);
    println!("back {took:?} after it has come back");
    assert_eq!(narrows.client().query("DO 1").error(), None);
}

#[test]
fn a_server_that_refuses_the_monitor_keeps_its_work() {
    let refusal = Move::error(1045, "28000", "Access denied for user 'sbtest'@'localhost'");
    let server = FakeMysql::start(Conversation::new().at_login(&[refusal]));
    let narrows = start(&watched().server(0, server.port(), ""));
    let mut admin = narrows.admin();
    for log in ["ping", "connect"] {
        let denied = format!(
            "SELECT count(*) >= 5 FROM monitor.mysql_server_{log}_log WHERE {log}_error LIKE '%Access denied%'"
        );
        wait_for_rows(&mut admin, &denied, &["1"]);
    }
    assert_eq!(rows(&mut admin, "SELECT status FROM runtime_mysql_servers"), ["ONLINE"]);
}

#[test]
fn a_replica_that_lags_gets_no_work_until_it_has_caught_up() {
    let lag = |seconds| {
        Conversation::new().on("SHOW REPLICA STATUS", &[Move::rows("Seconds_Behind_Source", &[seconds])])
    };
    let server = FakeMysql::start(lag("3"));
    let narrows = start(&watched().server(0, server.port(), "max_replication_lag=10"));
    let mut admin = narrows.admin();
    let seen = "SELECT DISTINCT repl_lag FROM monitor.mysql_server_replication_lag_log ORDER BY 1";
    wait_for_rows(&mut admin, seen, &["3"]);
    assert_eq!(rows(&mut admin, STATES), ["ONLINE"]);

    server.say(lag("11"));
    wait_for_rows(&mut admin, STATES, &["SHUNNED_REPLICATION_LAG"]);
    assert_eq!(rows(&mut admin, "SELECT status FROM runtime_mysql_servers"), ["SHUNNED"]);
    server.say(lag("10"));
    wait_for_rows(&mut admin, STATES, &["ONLINE"]);
    wait_for_rows(&mut admin, seen, &["3", "10", "11"]);
}

#[test]
fn servers_that_know_the_older_spelling_are_asked_with_it() {
    let server = FakeMysql::start(
        Conversation::new()
            .on("SHOW REPLICA STATUS", &[Move::error(1064, "42000", "You have an error in your SQL syntax")])
            .on("SHOW SLAVE STATUS", &[Move::rows("Seconds_Behind_Master", &["100"])]),
    );
    let narrows = start(&watched().server(0, server.port(), "max_replication_lag=10"));
    wait_for_rows(&mut narrows.admin(), STATES, &["SHUNNED_REPLICATION_LAG"]);
}

#[test]
fn variables_count_at_once() {
    let server = FakeMysql::start(Conversation::new());
    let config = watched().server(0, server.port(), "").variable("monitor_ping_interval", "3600000");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let pings = "SELECT count(*) FROM monitor.mysql_server_ping_log";
    wait_for_rows(&mut admin, pings, &["1"]);
    for change in ["SET mysql-monitor_ping_interval = 100", "SET mysql-monitor_ping_timeout = 100"] {
        admin.query(change);
    }
    admin.query("LOAD MYSQL VARIABLES TO RUNTIME");
    wait_for_rows(&mut admin, "SELECT count(*) > 5 FROM monitor.mysql_server_ping_log", &["1"]);

    server.say(Conversation::new().at_connect(&[Move::Hang]));
    server.hang_up();
    wait_for_rows(&mut admin, STATES, &["SHUNNED"]);
    admin.query("SET mysql-monitor_enabled = false");
    admin.query("LOAD MYSQL VARIABLES TO RUNTIME");
    assert_eq!(
        rows(&mut admin, "SELECT status FROM runtime_mysql_servers"),
        ["ONLINE"],
        "nobody would say when"
    );
    server.wait_for_open(0);
}

#[test]
fn without_the_monitor_nobody_asks() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&watched().server(0, server.port(), "").variable("monitor_enabled", "false"));
    assert_eq!(narrows.client().query("DO 1").error(), None);
    let log = "SELECT count(*) FROM monitor.mysql_server_connect_log";
    assert_eq!(rows(&mut narrows.admin(), log), ["0"]);
    assert_eq!(server.connections(), 1);
}

#[test]
fn real_servers_are_asked_in_their_own_words() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).start();
        let narrows = start(&watched().server(0, server.port(), "max_replication_lag=10"));
        let mut admin = narrows.admin();
        let log =
            "SELECT count(*) > 2, max(repl_lag), max(error) FROM monitor.mysql_server_replication_lag_log";
        wait_for_rows(&mut admin, log, &["1 NULL NULL"]);
        assert_eq!(rows(&mut admin, STATES), ["ONLINE"], "{flavour:?}: it replicates nothing");
        let (replicate, stop) = match flavour {
            Flavour::MariaDb => (
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'",
                "RESET SLAVE ALL",
            ),
            Flavour::MySql9 => (
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='x'",
                "RESET REPLICA ALL",
            ),
        };
        server.execute(&[replicate]);
        wait_for_rows(&mut admin, STATES, &["SHUNNED_REPLICATION_LAG"]);
        server.execute(&[stop]);
        wait_for_rows(&mut admin, STATES, &["ONLINE"]);
    }
}

#[test]
fn a_heartbeat_table_tells_the_lag_where_one_is_named() {
    let server = ServerOptions::new(Flavour::MariaDb).start();
    server.execute(&[
        "CREATE DATABASE percona",
        "CREATE TABLE percona.heartbeat (server_id INT PRIMARY KEY, ts VARCHAR(26))",
        "INSERT INTO percona.heartbeat VALUES (1, SYSDATE(6) - INTERVAL 100 SECOND)",
    ]);
    let config = watched()
        .server(0, server.port(), "max_replication_lag=10")
        .variable("monitor_replication_lag_use_percona_heartbeat", "percona.heartbeat");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    wait_for_rows(&mut admin, STATES, &["SHUNNED_REPLICATION_LAG"]);
    let lag = "SELECT DISTINCT repl_lag BETWEEN 100 AND 130 FROM monitor.mysql_server_replication_lag_log";
    wait_for_rows(&mut admin, lag, &["1"]);
    server.execute(&["UPDATE percona.heartbeat SET ts = SYSDATE(6)"]);
    wait_for_rows(&mut admin, STATES, &["ONLINE"]);
}

#[test]
fn servers_that_ask_for_tls_are_checked_over_tls() {
    if !Flavour::MySql9.is_tested() {
        // MySQL generates its certificates itself; `Flavour::is_tested` has reported that it is skipped.
        return;
    }
    let mut options = ServerOptions::new(Flavour::MySql9).account("watcher", "a secret");
    options.statements.push("ALTER USER 'watcher'@'%' REQUIRE SSL".to_owned());
    let server = options.start();
    let config = watched()
        .variable("monitor_username", "watcher")
        .variable("monitor_password", "a secret")
        .server(0, server.port(), "use_ssl=1");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let log = "SELECT count(*) > 2, max(connect_error) FROM monitor.mysql_server_connect_log";
    wait_for_rows(&mut admin, log, &["1 NULL"]);

    admin.query("UPDATE mysql_servers SET use_ssl = 0");
    admin.query("LOAD MYSQL SERVERS TO RUNTIME");
    let denied =
        "SELECT count(*) > 2 FROM monitor.mysql_server_connect_log WHERE connect_error LIKE '%denied%'";
    wait_for_rows(&mut admin, denied, &["1"]);
    let counted = "SELECT variable_value > 2 FROM stats_mysql_global WHERE variable_name LIKE 'MySQL_Monitor_connect_check_%'";
    wait_for_rows(&mut admin, counted, &["1", "1"]);
}

#[test]
fn a_statement_of_an_administrator_gives_way_to_what_is_found() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&watched().server(0, server.port(), ""));
    let (mut busy, mut admin) = (narrows.admin(), narrows.admin());
    wait_for_rows(&mut admin, "SELECT count(*) >= 2 FROM monitor.mysql_server_ping_log", &["1"]);
    // As long as it takes: a statement that no client waits for has ten seconds.
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    busy.send_command(command::QUERY, endless.as_bytes()).unwrap();
    server.say(Conversation::new().at_connect(&[Move::Close]));
    server.hang_up();
    let error = busy.answer(command::QUERY).error().expect("it has no end");
    assert!(error.message.contains("a server has changed its state"), "{error:?}");
    wait_for_rows(&mut admin, "SELECT status FROM runtime_mysql_servers", &["SHUNNED"]);
}

#[test]
fn what_is_found_does_not_wait_for_a_user_of_statistics() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&watched().server(0, server.port(), ""));
    let mut admin = narrows.admin();
    let mut busy = narrows.stats();
    wait_for_rows(&mut admin, "SELECT count(*) >= 2 FROM monitor.mysql_server_ping_log", &["1"]);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    busy.send_command(command::QUERY, endless.as_bytes()).unwrap();
    server.say(Conversation::new().at_connect(&[Move::Close]));
    server.hang_up();
    wait_for_rows(&mut admin, "SELECT status FROM runtime_mysql_servers", &["SHUNNED"]);
    // It has had all of its time: nobody waited for it.
    let error = busy.answer(command::QUERY).error().expect("it has no end");
    assert!(error.message.contains("longer than 2 seconds"), "{error:?}");
}
