//! Settings of single hostgroups (`mysql_hostgroup_attributes`), and the errors if none of their servers is available.

use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Move, Narrows, NarrowsConfig, RawClient, RealServer, command, writer,
};

use crate::support::start;

const STATEMENT: &str = "SELECT who";

fn server() -> FakeMysql {
    FakeMysql::start(Conversation::new().on(STATEMENT, &[Move::rows("who", &["me"])]))
}

fn config() -> NarrowsConfig {
    NarrowsConfig::new().user("sbtest", "sbtest", "").variable("connect_timeout_server_max", "300")
}

/// As written in a configuration file.
fn attributes(columns: &str) -> NarrowsConfig {
    config().row("mysql_hostgroup_attributes", &format!("hostgroup_id=0 {columns}"))
}

fn load(admin: &mut RawClient, change: &str) {
    for statement in [change, "LOAD MYSQL SERVERS TO RUNTIME"] {
        assert_eq!(admin.query(statement).error(), None, "{statement}");
    }
}

/// The error that a client gets if no server is available.
fn unavailable(narrows: &Narrows) -> String {
    let error = narrows.client().query(STATEMENT).error().expect("there is no server");
    assert_eq!(error.code, 9001, "{error:?}");
    error.message
}

fn metrics(admin: &mut RawClient) -> String {
    admin.query("SHOW PROMETHEUS METRICS").text_rows().into_iter().flatten().flatten().collect()
}

#[test]
fn the_error_names_every_server_its_state_and_the_cause() {
    let [nobody, offline, shunned] = [FakeMysql::nobody(), FakeMysql::nobody(), FakeMysql::nobody()];
    let config = config().server(0, nobody, "").server(0, offline, "status=\"OFFLINE_SOFT\"").server(
        0,
        shunned,
        "status=\"SHUNNED\" max_connections=7",
    );
    let narrows = start(&config);
    let text = unavailable(&narrows);
    let parts = [
        "Max connect timeout reached while reaching hostgroup 0 after ",
        "ms. 3 servers: ",
        &format!("127.0.0.1:{nobody} ONLINE (pool 0/1000, last error "),
        "Connection refused",
        &format!("127.0.0.1:{offline} OFFLINE_SOFT: it gets no new work (pool 0/1000)"),
        &format!("127.0.0.1:{shunned} SHUNNED by its row (pool 0/7)"),
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");

    let line = narrows.wait_for_log(0, |line| line.contains("no server was available in time"));
    for part in ["hostgroup=0", "cause=\"connect_failed\"", "OFFLINE_SOFT: it gets no new work"] {
        assert!(line.contains(part), "{line}");
    }
    let mut admin = narrows.admin();
    let counted = "narrows_hostgroup_unavailable_total{hostgroup=\"0\",cause=\"connect_failed\"} 1";
    assert!(metrics(&mut admin).contains(counted), "{}", metrics(&mut admin));

    load(&mut admin, "UPDATE mysql_servers SET status = 'OFFLINE_SOFT'");
    unavailable(&narrows);
    load(&mut admin, "DELETE FROM mysql_servers");
    assert!(unavailable(&narrows).ends_with("Hostgroup 0 has no servers"));
    let page = metrics(&mut admin);
    for cause in ["offline", "no_servers"] {
        assert!(page.contains(&format!("{{hostgroup=\"0\",cause=\"{cause}\"}} 1")), "{page}");
    }
}

#[test]
fn a_pool_that_is_full_says_so() {
    let server = FakeMysql::start(Conversation::new().on(STATEMENT, &[Move::Wait]));
    let narrows = start(&config().server(0, server.port(), "max_connections=1"));
    let mut holder = narrows.client();
    holder.send_command(command::QUERY, STATEMENT.as_bytes()).unwrap();
    server.wait_for(STATEMENT);
    let text = unavailable(&narrows);
    assert!(text.contains(&format!("127.0.0.1:{} ONLINE (pool 1/1)", server.port())), "{text}");
    assert!(metrics(&mut narrows.admin()).contains("cause=\"pool_full\"} 1"));
    server.release();
}

#[test]
fn lines_about_servers_that_cannot_be_had_do_not_flood_the_log() {
    let narrows = start(&config().server(0, FakeMysql::nobody(), "status=\"OFFLINE_HARD\""));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| unavailable(&narrows));
        }
    });
    let lines = narrows.log().lines().filter(|line| line.contains("no server was available in time")).count();
    // One for each worker in each second.
    assert!((1..=6).contains(&lines), "{lines}");
}

#[test]
fn balance_by_chance_keeps_to_weights_and_to_nothing_else() {
    // If loads were considered, the slow server would get next to nothing.
    let slow = Conversation::new()
        .on(STATEMENT, &[Move::Take(Duration::from_millis(5)), Move::rows("who", &["me"])]);
    let servers = [server(), FakeMysql::start(slow)];
    let config = attributes("hostgroup_settings=\"{\\\"balance\\\": \\\"weighted_random\\\"}\"")
        .server(0, servers[0].port(), "weight=1")
        .server(0, servers[1].port(), "weight=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    for _ in 0..1_000 {
        assert_eq!(client.query(STATEMENT).error(), None);
    }
    let had = servers.map(|server| server.received().iter().filter(|it| it.body == STATEMENT).count());
    // Six standard deviations.
    assert!(had.iter().all(|had| (405..=595).contains(had)), "{had:?}");
    let mut admin = narrows.admin();
    let changed = "UPDATE mysql_hostgroup_attributes SET hostgroup_settings = '{\"balance\": \"fair\"}'";
    admin.query(changed);
    admin.query("LOAD MYSQL SERVERS TO RUNTIME");
    let warnings = admin.query("SHOW WARNINGS").text_rows();
    assert!(format!("{warnings:?}").contains("hostgroup_id=0: left out: balance is"), "{warnings:?}");
}

#[test]
fn a_hostgroup_with_more_servers_online_than_may_be_gets_no_work() {
    let servers = [server(), server()];
    let mut config = attributes("max_num_online_servers=1");
    for server in &servers {
        config = config.server(0, server.port(), "");
    }
    let narrows = start(&config);
    assert!(unavailable(&narrows).contains("more than max_num_online_servers (1) are ONLINE"));
    let change =
        format!("UPDATE mysql_servers SET status = 'OFFLINE_SOFT' WHERE port = {}", servers[0].port());
    load(&mut narrows.admin(), &change);
    assert_eq!(narrows.client().query(STATEMENT).error(), None);
}

/// One server that never answers `statement`, a client that has sent it, and an administrator.
fn with_one_under_way(statement: &str, wait_ms: u32) -> (FakeMysql, Narrows, RawClient, RawClient) {
    let server = FakeMysql::start(Conversation::new().on(statement, &[Move::Hang]));
    let config = attributes("max_num_online_servers=1")
        .variable("connect_timeout_server_max", &wait_ms.to_string())
        .server(0, server.port(), "");
    let narrows = start(&config);
    let (mut client, admin) = (narrows.client(), narrows.admin());
    client.send_command(command::QUERY, statement.as_bytes()).unwrap();
    server.wait_for(statement);
    (server, narrows, client, admin)
}

const NONE_ONLINE: &str = "UPDATE mysql_hostgroup_attributes SET max_num_online_servers = 0";
const ONE_ONLINE: &str = "UPDATE mysql_hostgroup_attributes SET max_num_online_servers = 1";

#[test]
fn a_write_is_cut_off_when_more_servers_are_online_than_may_be() {
    let (_server, _narrows, mut client, mut admin) = with_one_under_way("INSERT INTO t VALUES (1)", 300);
    load(&mut admin, NONE_ONLINE);
    let error = client.answer(command::QUERY).error().expect("it is cut off");
    assert!(
        error.code == 2013 && error.message.contains("max_num_online_servers). It may have run."),
        "{error:?}"
    );
    load(&mut admin, ONE_ONLINE);
    assert_eq!(client.query(STATEMENT).error(), None, "the session continues");
}

#[test]
fn a_read_is_cut_off_when_more_servers_are_online_than_may_be_and_waits_for_fewer() {
    let (server, narrows, mut client, mut admin) = with_one_under_way("DO 1", 300);
    load(&mut admin, NONE_ONLINE);
    let error = client.answer(command::QUERY).error().expect("it is run nowhere");
    assert!(error.code == 9001 && error.message.contains("max_num_online_servers (0)"), "{error:?}");
    assert!(metrics(&mut admin).contains("cause=\"too_many_online\"} 1"));
    assert_eq!(server.received().iter().filter(|it| it.body == "DO 1").count(), 1, "nowhere else");
    drop((client, narrows));

    let (server, _narrows, mut client, mut admin) = with_one_under_way("DO 1", 30_000);
    load(&mut admin, NONE_ONLINE);
    server.wait_for_open(0);
    server.say(Conversation::new());
    load(&mut admin, ONE_ONLINE);
    assert_eq!(client.answer(command::QUERY).error(), None);
}

#[test]
fn a_transaction_ends_when_more_servers_are_online_than_may_be() {
    let in_transaction = Move::Reply(vec![writer::ok(0, 0, 3, 0)]);
    let server = FakeMysql::start(Conversation::new().on("BEGIN", &[in_transaction]));
    let narrows = start(&attributes("max_num_online_servers=1").server(0, server.port(), ""));
    let mut client = narrows.client();
    assert_eq!(client.query("BEGIN").error(), None);
    load(&mut narrows.admin(), NONE_ONLINE);
    // What was sent before may have reached it.
    server.wait_for_open(0);
    let error = client.query("DO 1").error().expect("the transaction is lost");
    assert!(
        error.code == 2013 && error.message.contains("max_num_online_servers). It has not run."),
        "{error:?}"
    );
}

#[test]
fn a_row_replaces_what_the_variables_say() {
    let (own, other) = (server(), server());
    let config = attributes("init_connect=\"SET @own = 1\" multiplex=0")
        .variable("init_connect", "SET @of_all = 1")
        .server(0, own.port(), "")
        .server(1, other.port(), "")
        .rule("rule_id=1 active=1 match_digest=\"elsewhere\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut clients = [narrows.client(), narrows.client()];
    for client in &mut clients {
        assert_eq!(client.query(STATEMENT).error(), None);
    }
    own.wait_for("SET @own = 1");
    assert!(own.received().iter().all(|received| received.body != "SET @of_all = 1"));
    assert_eq!(own.connections(), 2, "no client gives its connection back");
    drop(clients);
    for _ in 0..2 {
        assert_eq!(narrows.client().query("DO elsewhere").error(), None);
    }
    other.wait_for("SET @of_all = 1");
    assert_eq!(other.connections(), 1);
}

#[test]
fn a_server_whose_pings_take_too_long_gets_no_work() {
    let (quick, slow) = (server(), server());
    slow.say(Conversation::new().on_ping(&[Move::Take(Duration::from_millis(60)), Move::ok()]));
    let config = config()
        .monitor()
        .variable("monitor_username", "sbtest")
        .variable("monitor_password", "sbtest")
        .variable("monitor_ping_interval", "100")
        .server(0, quick.port(), "weight=1")
        .server(0, slow.port(), "weight=1000 max_latency_ms=50");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let measured = format!(
        "SELECT Latency_us > 50000 FROM stats_mysql_connection_pool WHERE srv_port = {}",
        slow.port()
    );
    while admin.query(&measured).cell().as_deref() != Some("1") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = slow.received().len();
    let mut client = narrows.client();
    for _ in 0..20 {
        assert_eq!(client.query(STATEMENT).error(), None);
    }
    let statements = slow.received();
    assert!(statements[before..].iter().all(|received| received.body != STATEMENT), "{statements:?}");
    load(&mut admin, &format!("DELETE FROM mysql_servers WHERE port = {}", quick.port()));
    let text = unavailable(&narrows);
    assert!(text.contains("pings take ") && text.contains(" ms, more than 50 ms"), "{text}");
}

#[test]
fn what_null_means_for_the_lag_is_up_to_the_hostgroup() {
    let null = vec![
        vec![1],
        writer::column("Seconds_Behind_Source"),
        writer::eof(2, 0),
        writer::row(&[None]),
        writer::eof(2, 0),
    ];
    let unknown = Conversation::new().on("SHOW REPLICA STATUS", &[Move::Reply(null)]);
    let (one, two) = (FakeMysql::start(unknown.clone()), FakeMysql::start(unknown));
    let config = attributes("hostgroup_settings=\"{\\\"monitor_slave_lag_when_null\\\": 5}\"")
        .monitor()
        .variable("monitor_username", "sbtest")
        .variable("monitor_password", "sbtest")
        .variable("monitor_replication_lag_interval", "100")
        .server(0, one.port(), "max_replication_lag=10")
        .server(1, two.port(), "max_replication_lag=10");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let states = "SELECT hostgroup, status FROM stats_mysql_connection_pool ORDER BY 1";
    let expected = [["0", "ONLINE"], ["1", "SHUNNED_REPLICATION_LAG"]];
    let expected = expected.map(|row| row.map(|cell| Some(cell.to_owned())).to_vec());
    while admin.query(states).text_rows() != expected {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Two servers, one of which is shunned after this many failures in a second, for this many seconds.
fn one_of_two_is_gone(alive: &FakeMysql, gone: u16, failures: u32, rest_s: u32) -> Narrows {
    let config = NarrowsConfig::new()
        .user("sbtest", "sbtest", "")
        .variable("shun_on_failures", &failures.to_string())
        .variable("shun_recovery_time_sec", &rest_s.to_string())
        .server(0, alive.port(), "")
        .server(0, gone, "");
    start(&config)
}

/// A server's state in the pool: its status, and how many connects have failed.
fn pool(admin: &mut RawClient, port: u16) -> (String, String) {
    let question = format!("SELECT status, ConnERR FROM stats_mysql_connection_pool WHERE srv_port = {port}");
    let rows = admin.query(&question).text_rows();
    let cell = |index: usize| rows[0][index].clone().unwrap_or_default();
    (cell(0), cell(1))
}

/// Runs statements until `done`, which all must succeed.
fn run_until(narrows: &Narrows, mut done: impl FnMut() -> bool) {
    let mut client = narrows.client();
    let give_up = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert_eq!(client.query(STATEMENT).cell().as_deref(), Some("me"));
        assert!(Instant::now() < give_up, "it did not happen: {}", narrows.log());
    }
}

const SHUNNED: &str = "a server is shunned: too many connects have failed";
const BACK: &str = "a shunned server is back";

/// When a line of the log was written, in seconds of its day.
fn logged_at(narrows: &Narrows, what: &str) -> f64 {
    let log = narrows.log();
    let line = log.lines().find(|line| line.contains(what)).expect("it was logged");
    let time = line.split(['T', 'Z']).nth(1).expect("a line begins with its time");
    time.split(':').fold(0.0, |seconds, part| seconds * 60.0 + part.parse::<f64>().expect("a number"))
}

#[test]
fn nobody_tries_a_server_that_traffic_has_shunned_while_it_rests() {
    let (alive, gone) = (server(), FakeMysql::nobody());
    let narrows = one_of_two_is_gone(&alive, gone, 2, 0);
    run_until(&narrows, || narrows.log().contains(SHUNNED));
    let mut admin = narrows.admin();
    let failed = pool(&mut admin, gone);
    assert_eq!(failed.0, "SHUNNED");
    let runtime = format!("SELECT status FROM runtime_mysql_servers WHERE port = {gone}");
    assert_eq!(admin.query(&runtime).cell().as_deref(), Some("SHUNNED"));
    let again = FakeMysql::start_on(gone, Conversation::new().on(STATEMENT, &[Move::rows("who", &["me"])]));
    let mut left = 200;
    run_until(&narrows, || {
        left -= 1;
        left == 0
    });
    assert_eq!((pool(&mut admin, gone), again.connections()), (failed, 0));
}

#[test]
fn traffic_shuns_a_server_that_cannot_be_connected_to_and_brings_it_back_when_its_time_is_over() {
    let (alive, gone) = (server(), FakeMysql::nobody());
    let narrows = one_of_two_is_gone(&alive, gone, 2, 2);
    run_until(&narrows, || narrows.log().contains(SHUNNED));
    let mut admin = narrows.admin();
    let again = FakeMysql::start_on(gone, Conversation::new().on(STATEMENT, &[Move::rows("who", &["me"])]));
    let mut back_since = Instant::now();
    run_until(&narrows, || {
        let now = Instant::now();
        let is_back = narrows.log().contains(BACK);
        if !is_back {
            back_since = now;
        }
        is_back
    });
    // On a busy machine the first line may be written late.
    let rested = (logged_at(&narrows, BACK) - logged_at(&narrows, SHUNNED)).rem_euclid(86_400.0);
    assert!(rested > 1.0, "it has rested for {rested} s");
    assert_eq!(pool(&mut admin, gone).0, "ONLINE");
    let had = || again.received().iter().filter(|received| received.body == STATEMENT).count();
    let (before, mut left) = (had(), 100);
    run_until(&narrows, || {
        left -= 1;
        left == 0
    });
    let share = had() - before;
    // A sixteenth of the other's weight at first, all of it after ten seconds.
    let weight = (back_since.elapsed().as_secs_f64() / 10.0).clamp(1.0 / 16.0, 1.0);
    let most = (100.0 * weight / (1.0 + weight) + 10.0).max(30.0);
    assert!((share as f64) < most, "it gets {share} of 100 at once");
}

#[test]
fn a_load_brings_back_at_once_what_traffic_has_shunned_for_good() {
    let (alive, gone) = (server(), FakeMysql::nobody());
    let narrows = one_of_two_is_gone(&alive, gone, 1, 0);
    run_until(&narrows, || narrows.log().contains(SHUNNED));
    let again = FakeMysql::start_on(gone, Conversation::new().on(STATEMENT, &[Move::rows("who", &["me"])]));
    load(&mut narrows.admin(), "UPDATE mysql_servers SET comment = 'repaired'");
    run_until(&narrows, || again.received().iter().any(|received| received.body == STATEMENT));
}

#[test]
fn the_last_server_is_tried_however_often_it_has_failed() {
    let [gone, nobody] = [FakeMysql::nobody(), FakeMysql::nobody()];
    let config = NarrowsConfig::new()
        .user("sbtest", "sbtest", "")
        .variable("shun_on_failures", "1")
        .variable("shun_recovery_time_sec", "60")
        .server(0, gone, "")
        .server(0, nobody, "");
    let narrows = start(&config);
    let mut client = narrows.client();
    client.send_command(command::QUERY, STATEMENT.as_bytes()).unwrap();
    narrows.wait_for_log(0, |line| line.contains("a server is shunned"));
    // Then the other one is the last one left, and this one is if the other is no better.
    let _again = FakeMysql::start_on(gone, Conversation::new().on(STATEMENT, &[Move::rows("who", &["me"])]));
    assert_eq!(client.answer(command::QUERY).cell().as_deref(), Some("me"));
}

#[test]
fn a_server_that_is_back_in_one_hostgroup_is_back_in_all_where_that_is_wanted() {
    for (algorithm, elsewhere) in [("0", "SHUNNED"), ("1", "ONLINE")] {
        let (alive, other, gone) = (server(), server(), FakeMysql::nobody());
        let config = NarrowsConfig::new()
            .user("sbtest", "sbtest", "")
            .variable("shun_on_failures", "1")
            .variable("shun_recovery_time_sec", "0")
            .variable("unshun_algorithm", algorithm)
            .server(0, alive.port(), "")
            .server(0, gone, "")
            .server(1, other.port(), "")
            .server(1, gone, "")
            .rule("rule_id=1 active=1 match_digest=\"elsewhere\" destination_hostgroup=1 apply=1");
        let narrows = start(&config);
        let (mut client, mut admin) = (narrows.client(), narrows.admin());
        let states =
            format!("SELECT hostgroup_id, status FROM runtime_mysql_servers WHERE port = {gone} ORDER BY 1");
        let is = |admin: &mut RawClient, expected: [&str; 2]| {
            let rows = [["0", expected[0]], ["1", expected[1]]];
            admin.query(&states).text_rows() == rows.map(|row| row.map(|cell| Some(cell.to_owned())).to_vec())
        };
        run_until(&narrows, || {
            assert_eq!(client.query("DO elsewhere").error(), None);
            is(&mut admin, ["SHUNNED", "SHUNNED"])
        });
        // In this hostgroup it is tried while shunned because there is no other server; in the other one nobody would
        // ever try it.
        let _again =
            FakeMysql::start_on(gone, Conversation::new().on(STATEMENT, &[Move::rows("who", &["me"])]));
        drop(alive);
        assert_eq!(client.query(STATEMENT).cell().as_deref(), Some("me"));
        assert!(is(&mut admin, ["ONLINE", elsewhere]), "{:?}", admin.query(&states).text_rows());
    }
}

#[test]
fn what_a_client_is_told_of_itself_shuns_no_server() {
    let logins: [(u16, &str); 3] = [(1045, "28000"), (1226, "42000"), (1049, "42000")];
    let refusals =
        logins.map(|(code, state)| Conversation::new().at_login(&[Move::error(code, state, "no")]));
    let syntax = Conversation::new().on(STATEMENT, &[Move::error(1064, "42000", "no")]);
    for conversation in refusals.into_iter().chain([syntax]) {
        let (alive, refusing) = (server(), FakeMysql::start(conversation.clone()));
        let narrows = one_of_two_is_gone(&alive, refusing.port(), 1, 60);
        for _ in 0..20 {
            // Whether another server is used then does not matter here.
            let _ = narrows.client().query(STATEMENT);
        }
        assert!(refusing.connections() > 0, "{conversation:?}");
        assert_eq!(pool(&mut narrows.admin(), refusing.port()).0, "ONLINE", "{conversation:?}");
        assert!(!narrows.log().contains(SHUNNED), "{conversation:?}");
    }
}

#[test]
fn a_load_drops_no_connection_that_need_not_drop() {
    let servers = [server(), server(), server()];
    let mut config = config().variable("free_connections_pct", "100");
    for server in &servers {
        config = config.server(0, server.port(), "");
    }
    let narrows = start(&config);
    let mut clients: Vec<RawClient> = (0..6).map(|_| narrows.client()).collect();
    // Each has its own connection.
    for client in &mut clients {
        assert_eq!(client.query("SET @mine = 1").error(), None);
    }
    let counts = || servers.each_ref().map(|server| (server.connections(), server.open_connections()));
    let before = counts();
    assert!(before.iter().all(|(_, open)| *open > 0), "{before:?}");
    let mut admin = narrows.admin();
    let [one, two, _] = servers.each_ref().map(FakeMysql::port);
    for change in [
        format!("UPDATE mysql_servers SET weight = 7, max_connections = 50 WHERE port = {one}"),
        format!("UPDATE mysql_servers SET comment = 'moved', max_replication_lag = 5 WHERE port = {two}"),
        format!("UPDATE mysql_servers SET status = 'OFFLINE_SOFT' WHERE port = {one}"),
        format!("UPDATE mysql_servers SET status = 'ONLINE' WHERE port = {one}"),
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (5, '127.0.0.1', 1)".to_owned(),
    ] {
        load(&mut admin, &change);
        for client in &mut clients {
            assert_eq!(client.query(STATEMENT).cell().as_deref(), Some("me"), "{change}");
        }
        assert_eq!(counts(), before, "{change}");
    }
}

#[test]
fn who_waits_for_a_server_is_served_in_the_order_of_coming() {
    let gone = FakeMysql::nobody();
    let config = config().variable("connect_timeout_server_max", "30000").variable("threads", "1").server(
        0,
        gone,
        "max_connections=1",
    );
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let waiting = "SELECT count(*) FROM stats_mysql_processlist WHERE command = 'Connect'";
    let statements: Vec<String> = (1..=8).map(|turn| format!("SELECT {turn} AS turn")).collect();
    let mut clients: Vec<RawClient> = statements.iter().map(|_| narrows.client()).collect();
    for (count, (client, statement)) in (1..).zip(clients.iter_mut().zip(&statements)) {
        client.send_command(command::QUERY, statement.as_bytes()).unwrap();
        let count: usize = count;
        while admin.query(waiting).cell() != Some(count.to_string()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let server = FakeMysql::start_on(gone, Conversation::new());
    for client in &mut clients {
        assert_eq!(client.answer(command::QUERY).error(), None);
    }
    let received = server.received().into_iter().map(|received| received.body);
    let served: Vec<String> = received.filter(|body| body.starts_with("SELECT")).collect();
    assert_eq!(served, statements);
}

#[test]
fn a_lower_max_connections_closes_idle_connections_at_once_and_busy_ones_when_they_come_back() {
    let server = FakeMysql::start(Conversation::new().on("BEGIN", &[in_transaction()]));
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=6")
        .user("sbtest", "sbtest", "")
        .variable("free_connections_pct", "100");
    let narrows = start(&config);
    let mut clients: Vec<RawClient> = (0..6).map(|_| narrows.client()).collect();
    for client in &mut clients {
        client.query("BEGIN").ok().expect("a connection of its own");
    }
    server.wait_for_open(6);
    // Three come back.
    for client in clients.iter_mut().take(3) {
        client.query("COMMIT").ok().expect("it commits");
    }
    let mut admin = narrows.admin();

    load(&mut admin, "UPDATE mysql_servers SET max_connections=2");

    server.wait_for_open(3);
    clients[3].query("COMMIT").ok().expect("it commits");
    server.wait_for_open(2);
    load(&mut admin, "UPDATE mysql_servers SET max_connections=0");
    for client in &mut clients[4..] {
        client.query("COMMIT").ok().expect("it commits");
    }
    server.wait_for_open(0);
}

/// OK, with a transaction open.
fn in_transaction() -> Move {
    Move::Reply(vec![writer::ok(0, 0, 3, 0)])
}

#[test]
fn without_handle_warnings_they_are_forgotten_with_the_connection() {
    let server = RealServer::shared(Flavour::MariaDb);
    for (columns, variable, kept) in [("", "1", 1), ("", "0", 0), ("{\\\"handle_warnings\\\":0}", "1", 0)] {
        let mut config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .user("sbtest", "sbtest", "")
            .variable("handle_warnings", variable);
        if !columns.is_empty() {
            let row = format!("hostgroup_id=0 hostgroup_settings=\"{columns}\"");
            config = config.row("mysql_hostgroup_attributes", &row);
        }
        let narrows = start(&config);
        let mut client = narrows.client();
        assert_eq!(client.query("SELECT 1/0, CAST('x' AS INT)").text_rows().len(), 1);
        // Until another client has the connection, they are on it.
        assert_eq!(narrows.client().query("SELECT 1").text_rows().len(), 1);

        let warnings = client.query("SHOW WARNINGS").text_rows().len();

        assert_eq!(warnings > 0, kept == 1, "{columns:?}, {variable}: {warnings}");
        // In a transaction the connection belongs to the session.
        client.query("START TRANSACTION");
        client.query("SELECT CAST('x' AS INT)");
        assert_eq!(client.query("SHOW WARNINGS").text_rows().len(), 1);
    }
}
