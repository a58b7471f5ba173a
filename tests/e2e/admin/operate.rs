//! Commands that affect clients: LOAD, PAUSE, STOP, KILL, and what they report.

use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, command,
    tls_client,
};

use super::{all_done, refusal, rows, start};

/// In front of a server that answers everything with OK.
fn before_a_fake() -> (FakeMysql, Narrows) {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    (server, narrows)
}

#[test]
fn an_account_counts_from_its_load_on() {
    let (_server, narrows) = before_a_fake();
    let mut admin = narrows.admin();
    all_done(&mut admin, &["INSERT INTO mysql_users (username, password) VALUES ('app', 'secret')"]);
    let app = Login::new("app", "secret");
    let mut early = RawClient::connect(&narrows.endpoint());
    assert_eq!(early.login(&app).expect_err("not loaded yet").code, 1045);
    all_done(&mut admin, &["LOAD MYSQL USERS TO RUNTIME"]);
    let mut client = RawClient::open(&narrows.endpoint(), &app);
    all_done(&mut admin, &["DELETE FROM mysql_users WHERE username='app'", "LOAD MYSQL USERS TO RUNTIME"]);
    assert!(client.query("SELECT 1").ok().is_some(), "existing clients continue");
    let mut late = RawClient::connect(&narrows.endpoint());
    assert_eq!(late.login(&app).expect_err("gone").code, 1045);
}

#[test]
fn one_account_is_loaded_without_the_others() {
    let (_server, narrows) = before_a_fake();
    let mut admin = narrows.admin();
    all_done(
        &mut admin,
        &[
            "INSERT INTO mysql_users (username, password) VALUES ('one', 'x'), ('two', 'x')",
            "LOAD MYSQL USER one TO RUNTIME",
        ],
    );
    let login = |name: &str| RawClient::connect(&narrows.endpoint()).login(&Login::new(name, "x")).is_ok();
    assert!(login("one") && !login("two"));
    let running = rows(&mut admin, "SELECT DISTINCT username FROM runtime_mysql_users ORDER BY username");
    assert_eq!(running, [["one"], ["sbtest"]]);
}

#[test]
fn traffic_moves_when_servers_are_loaded() {
    let (first, narrows) = before_a_fake();
    let second = FakeMysql::start(Conversation::new());
    let mut client = narrows.client();
    assert!(client.query("SELECT 1").ok().is_some());
    assert_eq!((first.connections(), second.connections()), (1, 0));
    let mut admin = narrows.admin();
    let insert = format!(
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (0, '127.0.0.1', {})",
        second.port()
    );
    all_done(&mut admin, &["DELETE FROM mysql_servers", &insert, "LOAD MYSQL SERVERS TO RUNTIME"]);
    assert!(client.query("SELECT 1").ok().is_some());
    assert_eq!(second.connections(), 1);
    let running = rows(&mut admin, "SELECT port, status FROM runtime_mysql_servers WHERE status='ONLINE'");
    assert_eq!(running, [[second.port().to_string(), "ONLINE".to_owned()]]);
}

#[test]
fn a_load_says_what_it_passed_over() {
    let (_server, narrows) = before_a_fake();
    let mut admin = narrows.admin();
    all_done(
        &mut admin,
        &["INSERT INTO mysql_query_rules (rule_id, active, match_digest, error_msg, apply) \
             VALUES (1, 1, '^SELECT.*forbidden', 'no', 1), (2, 1, '(unclosed', 'never', 1)"],
    );
    let loaded = admin.query("LOAD MYSQL QUERY RULES TO RUNTIME").ok().expect("the good rule is loaded");
    assert_eq!(loaded.warnings, 1);
    let warnings = rows(&mut admin, "SHOW WARNINGS");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0][2].contains("rule_id=2: left out: match_digest"), "{warnings:?}");
    assert_eq!(rows(&mut admin, "SHOW WARNINGS"), warnings, "reading removes nothing");
    assert_eq!(rows(&mut admin, "SELECT rule_id FROM runtime_mysql_query_rules"), [["1"]]);
    let mut client = narrows.client();
    assert_eq!(refusal(&client.query("SELECT forbidden")), (1148, "no".to_owned()));

    all_done(&mut admin, &["SET mysql-max_connections='0'"]);
    let loaded = admin.query("LOAD MYSQL VARIABLES TO RUNTIME").ok().expect("the others are loaded");
    assert_eq!(loaded.warnings, 1);
    assert!(rows(&mut admin, "SHOW WARNINGS")[0][2].contains("max_connections"));
    all_done(&mut admin, &["SELECT 1"]);
    assert_eq!(rows(&mut admin, "SHOW WARNINGS"), Vec::<Vec<String>>::new());
}

#[test]
fn a_pause_refuses_new_clients_and_keeps_those_that_are_there() {
    let (_server, narrows) = before_a_fake();
    let (mut admin, mut client) = (narrows.admin(), narrows.client());
    all_done(&mut admin, &["PROXYSQL PAUSE"]);
    assert!(RawClient::try_connect(&narrows.endpoint()).is_err());
    assert!(client.query("SELECT 1").ok().is_some());
    assert!(refusal(&admin.query("PROXYSQL PAUSE")).1.contains("already paused"));
    all_done(&mut admin, &["NARROWS RESUME"]);
    assert!(narrows.client().query("SELECT 1").ok().is_some());
}

#[test]
fn a_stop_ends_clients_and_a_start_serves_again_with_what_was_running() {
    let (_server, narrows) = before_a_fake();
    let (mut admin, mut client) = (narrows.admin(), narrows.client());
    all_done(
        &mut admin,
        &[
            "INSERT INTO mysql_users (username, password) VALUES ('app', 'secret')",
            "LOAD MYSQL USERS TO RUNTIME",
            "PROXYSQL STOP",
        ],
    );
    assert!(client.is_closed_within(Duration::from_secs(5)));
    assert!(RawClient::try_connect(&narrows.endpoint()).is_err());
    assert_eq!(rows(&mut admin, "SELECT * FROM stats_mysql_processlist"), Vec::<Vec<String>>::new());
    all_done(&mut admin, &["LOAD MYSQL SERVERS TO RUNTIME", "PROXYSQL START"]);
    RawClient::open(&narrows.endpoint(), &Login::new("app", "secret"));
}

#[test]
fn sessions_and_statements_are_killed_by_their_numbers() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut admin = narrows.admin();
    let mut client = narrows.client();
    client.send_command(command::QUERY, b"SELECT SLEEP(30)").expect("it reads");
    let deadline = Instant::now() + Duration::from_secs(10);
    let busy = loop {
        let found =
            rows(&mut admin, "SELECT SessionID, info FROM stats_mysql_processlist WHERE command='Query'");
        if let [row] = found.as_slice() {
            break row.clone();
        }
        assert!(Instant::now() < deadline, "the statement does not show");
        std::thread::yield_now();
    };
    assert_eq!(busy[1], "SELECT SLEEP(30)");
    all_done(&mut admin, &[&format!("KILL QUERY {}", busy[0])]);
    assert!(client.answer(command::QUERY).lost.is_none(), "the statement ends, not the session");
    all_done(&mut admin, &[&format!("KILL CONNECTION {}", busy[0])]);
    assert!(client.is_closed_within(Duration::from_secs(5)));
    assert!(refusal(&admin.query("KILL CONNECTION 999999")).1.contains("Unknown thread id: 999999"));
}

#[test]
fn administrators_log_in_over_tls_and_with_either_plugin() {
    let (_server, narrows) = before_a_fake();
    let ca = std::fs::read_to_string(narrows.folder().join("proxysql-ca.pem")).expect("made at the start");
    let trust = tls_client(&ca, None);
    let mut secure = RawClient::open_tls(&narrows.admin_endpoint(), &trust, &Login::new("admin", "admin"));
    assert_eq!(secure.query("SELECT 1").cell().as_deref(), Some("1"));
    all_done(&mut secure, &["PROXYSQL RELOAD TLS"]);
    for plugin in ["mysql_native_password", "caching_sha2_password"] {
        let login = Login::new("admin", "admin").plugin(plugin).schema("stats");
        let mut client = RawClient::open(&narrows.admin_endpoint(), &login);
        assert_eq!(client.query("SELECT DATABASE()").cell().as_deref(), Some("admin"), "{plugin}");
    }
}

#[test]
fn accounts_of_administrators_and_their_port_change_with_a_load() {
    let (_server, narrows) = before_a_fake();
    let mut admin = narrows.admin();
    let socket = narrows.folder().join("admin.sock");
    let narrows_testkit::Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("a port") };
    let interfaces = format!("SET admin-mysql_ifaces='{address};{}'", socket.display());
    all_done(
        &mut admin,
        &[
            "SET admin-admin_credentials='admin:admin;other:password'",
            "SET admin-stats_credentials='watcher:eyes'",
            &interfaces,
            "LOAD ADMIN VARIABLES TO RUNTIME",
        ],
    );
    let socket = narrows_testkit::Endpoint::Unix(socket);
    let deadline = Instant::now() + Duration::from_secs(5);
    while RawClient::try_connect(&socket).is_err() {
        assert!(Instant::now() < deadline, "the socket is not listened on");
        std::thread::yield_now();
    }
    let mut other = RawClient::open(&socket, &Login::new("other", "password"));
    assert_eq!(other.query("SELECT USER()").cell().as_deref(), Some("other@localhost"));
    let mut watcher = RawClient::open(&narrows.admin_endpoint(), &Login::new("watcher", "eyes"));
    assert_eq!(refusal(&watcher.query("LOAD MYSQL USERS TO RUNTIME")).0, 1045);
    let mut former = RawClient::connect(&narrows.admin_endpoint());
    assert_eq!(former.login(&Login::new("stats", "stats")).expect_err("not one any more").code, 1045);
    assert_eq!(admin.query("SELECT 1").cell().as_deref(), Some("1"), "existing clients continue");
}

#[test]
fn no_port_is_for_clients_and_for_administrators() {
    let (_server, narrows) = before_a_fake();
    let mut admin = narrows.admin();
    let narrows_testkit::Endpoint::Tcp(own) = narrows.admin_endpoint() else { panic!("a port") };
    let narrows_testkit::Endpoint::Tcp(of_clients) = narrows.endpoint() else { panic!("a port") };
    let stranger = Login::new("admin", "admin");
    let both = format!("SET admin-mysql_ifaces='{own};{of_clients}'");
    all_done(&mut admin, &[&both, "LOAD ADMIN VARIABLES TO RUNTIME"]);
    let warned = format!("{:?}", rows(&mut admin, "SHOW WARNINGS"));
    assert!(warned.contains(&format!("cannot listen on {of_clients}")), "{warned}");
    for _ in 0..20 {
        let mut client = RawClient::connect(&narrows.endpoint());
        assert_eq!(client.login(&stranger).expect_err("no administrators here").code, 1045);
    }
    // Now it is free, and clients do not get it back.
    all_done(&mut admin, &["PROXYSQL PAUSE", "LOAD ADMIN VARIABLES TO RUNTIME"]);
    let (_, refused) = refusal(&admin.query("PROXYSQL RESUME"));
    assert!(refused.contains(&of_clients.to_string()) && refused.contains("in use"), "{refused}");
    for _ in 0..20 {
        RawClient::open(&narrows.endpoint(), &stranger);
    }
}

#[test]
fn a_session_can_become_another_users() {
    let (_server, narrows) = before_a_fake();
    let mut client = narrows.admin();
    client.change_user(&Login::new("stats", "stats")).expect("the right password");
    assert_eq!(client.query("SELECT DATABASE()").cell().as_deref(), Some("stats"));
    assert_eq!(refusal(&client.query("PROXYSQL PAUSE")).0, 1045);
}

#[test]
fn figures_are_those_of_the_traffic() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut client = narrows.client();
    for number in 0..7 {
        assert!(client.query(format!("SELECT {number}")).error().is_none());
    }
    let mut stats = narrows.stats();
    let digest =
        "SELECT count_star, sum_rows_sent FROM stats_mysql_query_digest WHERE digest_text='SELECT ?'";
    assert_eq!(rows(&mut stats, digest), [["7", "7"]]);
    let pool = "SELECT Queries FROM stats.stats_mysql_connection_pool WHERE hostgroup=0";
    assert!(rows(&mut stats, pool)[0][0].parse::<u64>().expect("a number") >= 7);
    let selects = "SELECT Total_cnt FROM stats_mysql_commands_counters WHERE Command='SELECT'";
    assert_eq!(rows(&mut stats, selects), [["7"]]);
    assert_eq!(rows(&mut stats, "SELECT @@Questions"), [["7"]]);
    let reset = "SELECT COUNT(*) FROM stats_mysql_query_digest_reset";
    assert_eq!(rows(&mut stats, reset), [["1"]]);
    assert_eq!(rows(&mut stats, reset), [["0"]]);
    let metrics = rows(&mut stats, "SHOW PROMETHEUS METRICS")[0][0].clone();
    assert!(metrics.contains("\nproxysql_questions_total 7\n"), "{metrics}");
    assert!(metrics.contains("proxysql_connpool_conns_queries_total{endpoint=\"127.0.0.1:"), "{metrics}");
}

#[test]
fn who_waits_for_a_version_of_the_servers_keeps_nobody_waiting() {
    let (_server, narrows) = before_a_fake();
    let (mut waiting, mut admin) = (narrows.admin(), narrows.admin());
    let now = rows(&mut admin, "PULL VERSION MYSQL SERVERS 1 0")[0][0].parse::<u64>().expect("a number");
    let pull = format!("PULL VERSION MYSQL SERVERS {} 30", now + 1);
    waiting.send_command(command::QUERY, pull.as_bytes()).expect("it reads");
    all_done(&mut admin, &["SELECT 1", "LOAD MYSQL SERVERS TO RUNTIME"]);
    assert_eq!(waiting.answer(command::QUERY).cell(), Some((now + 1).to_string()));
}

#[test]
fn a_read_only_interface_loads_and_saves_and_changes_nothing() {
    let (_server, narrows) = before_a_fake();
    let mut admin = narrows.admin();
    all_done(
        &mut admin,
        &["PROXYSQL READONLY", "LOAD MYSQL SERVERS TO RUNTIME", "SAVE MYSQL SERVERS TO DISK"],
    );
    for statement in ["DELETE FROM mysql_users", "SET mysql-max_connections=5", "CREATE TABLE x (a INT)"] {
        assert!(refusal(&admin.query(statement)).1.contains("readonly database"), "{statement}");
    }
    assert_eq!(rows(&mut admin, "SELECT username FROM mysql_users"), [["sbtest"]]);
    all_done(&mut admin, &["PROXYSQL READWRITE", "UPDATE mysql_users SET comment='x'"]);
}

#[test]
fn the_process_ends_when_told_to_whatever_an_administrator_asks() {
    let (_server, mut narrows) = before_a_fake();
    let mut client = narrows.client();
    let mut slow = narrows.admin();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT MAX(i) FROM n";
    slow.send_command(command::QUERY, endless.as_bytes()).expect("it reads");
    assert!(client.query("SELECT 1").ok().is_some());
    // SIGTERM
    narrows.process().signal(15);
    let status =
        narrows.process().wait_for(Duration::from_secs(8)).expect("it ends before the statement does");
    assert!(status.success());
}

#[test]
fn operators_are_helped_with_commands() {
    let (_server, narrows) = before_a_fake();
    let (mut admin, mut stats) = (narrows.admin(), narrows.stats());
    // As the command-line client sends it.
    let found = rows(&mut admin, "help 'save users'");
    assert!(found.iter().any(|row| row[0] == "SAVE MYSQL USERS TO DISK"), "{found:?}");
    assert!(found.iter().all(|row| row[0].contains("SAVE") && row[0].contains("USERS")), "{found:?}");
    assert!(rows(&mut admin, "HELP").len() > 100 && rows(&mut admin, "HELP frobnicate").is_empty());
    assert!(rows(&mut stats, "HELP LOAD").is_empty(), "users of statistics see what they may use");
    for (typed, meant) in [
        ("LOAD MYSQL USERS TO RUNTMIE", "did you mean LOAD MYSQL USERS TO RUNTIME?"),
        ("SHOW NARROWS", "did you mean SHOW NARROWS HOLDS, or SHOW NARROWS DRIFT, or SHOW NARROWS FLEET?"),
        ("SELECT * FROM mysql_server", "did you mean mysql_servers?"),
    ] {
        let (code, text) = refusal(&admin.query(typed));
        assert!(code == 1045 && text.ends_with(meant), "{text}");
    }
    assert!(!refusal(&admin.query("FROBNICATE")).1.contains("mean"));
    let limits = rows(&mut admin, "SHOW NARROWS LIMITATIONS");
    assert!(limits.iter().any(|row| row[1] == "failover") && limits.len() > 20, "{limits:?}");
    let connections = rows(&mut admin, "SHOW MYSQL STATUS LIKE 'Client\\_Connections\\_%'");
    assert!(connections.iter().all(|row| row[0].starts_with("Client_Connections_")), "{connections:?}");
    assert!(!connections.is_empty());
}

#[test]
fn a_path_may_be_in_quotes() {
    let (_server, narrows) = before_a_fake();
    let mut admin = narrows.admin();
    let path = narrows.folder().join("it is saved.cnf");
    all_done(&mut admin, &[&format!("SAVE CONFIG TO FILE '{}'", path.display())]);
    assert!(std::fs::read_to_string(path).expect("a file").contains("mysql_variables"));
}

#[test]
fn a_session_is_ended_by_its_number_alone() {
    let (_server, narrows) = before_a_fake();
    let (mut admin, mut client) = (narrows.admin(), narrows.client());
    assert!(client.query("SELECT 1").ok().is_some());
    let id = rows(&mut admin, "SELECT SessionID FROM stats_mysql_processlist")[0][0].clone();
    all_done(&mut admin, &[&format!("KILL {id}")]);
    let until = Instant::now() + Duration::from_secs(10);
    while !rows(&mut admin, "SELECT SessionID FROM stats_mysql_processlist").is_empty() {
        assert!(Instant::now() < until, "it was not ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(refusal(&admin.query("KILL 4000000")).1, "ProxySQL Admin Error: Unknown thread id: 4000000");
}
