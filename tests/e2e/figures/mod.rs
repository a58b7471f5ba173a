//! Compares the data plane's figures with the real servers' own counters, under real traffic. The data plane runs in
//! the test's process, where it can be queried without an admin interface.

mod traffic;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use narrows_proxy::rules::Activity;
use narrows_proxy::server::DataPlane;
use narrows_proxy::snapshot::{HostgroupId, Rows, RuleRow, ServerRow, ServerStatus, UserRow, Variables};
use narrows_proxy::stats::{Doing, KillKind, Observer, ProcessLine, Take, wait};
use narrows_testkit::{Endpoint, Flavour, Login, RawClient, RealServer, ServerOptions, command};

use traffic::Traffic;

#[test]
fn figures_equal_what_was_sent_and_what_servers_counted() {
    for flavour in Flavour::both() {
        let server = server(flavour);
        let plane = Plane::start(&[(0, server.port()), (1, server.port())], |rows| rows.rules = split());
        let before = server_status(&server);

        let sent = Traffic::run(&plane.endpoint(), 6, 150);

        let after = server_status(&server);
        let global = wait(plane.observer.global());
        assert_eq!(global.questions, sent.statements(), "{flavour:?}");
        assert_eq!((global.commits, global.rollbacks), (sent.of("COMMIT"), sent.of("ROLLBACK")));
        let opened: u64 =
            wait(plane.observer.connection_pool(Take::Copy)).iter().map(|line| line.tally.connected).sum();
        for (class, name) in [("SELECT", "Com_select"), ("INSERT", "Com_insert"), ("UPDATE", "Com_update")] {
            assert_eq!(command(&plane.observer, class), sent.of(class), "{flavour:?} {class}");
            let counted = after[name] - before[name];
            // Each connection is asked once for what it reports, and on MySQL for what a reset may spoil; and each of the two
            // servers for what it runs first in a session.
            let own = if class == "SELECT" { opened..=2 * opened + 6 } else { 0..=0 };
            let extra = counted.checked_sub(sent.of(class)).expect("every one reached the server");
            assert!(own.contains(&extra), "{flavour:?} {name}: {extra} more, {opened} connections");
        }

        let pool = wait(plane.observer.connection_pool(Take::Copy));
        let queries: Vec<(i32, u64)> =
            pool.iter().map(|line| (line.hostgroup.0, line.tally.queries)).collect();
        assert_eq!(queries, [(0, sent.statements() - sent.reads), (1, sent.reads)], "{flavour:?}");
        assert!(
            pool.iter().all(|line| line.used == 0 && line.free > 0 && line.tally.failed == 0),
            "{pool:?}"
        );
        assert!(pool.iter().all(|line| line.most_used <= 6 && line.most_used > 0), "{pool:?}");
        // Every answer has at least one packet, every row its bytes; the servers' counts also include the answers to
        // our own queries.
        let received: u64 = pool.iter().map(|line| line.tally.bytes_received).sum();
        let told = after["Bytes_sent"] - before["Bytes_sent"];
        assert!(
            received >= sent.statements() * 11 + sent.row_bytes && received <= told,
            "{received} of {told}"
        );
        let bytes_sent: u64 = pool.iter().map(|line| line.tally.bytes_sent).sum();
        assert_eq!(bytes_sent, sent.bytes, "{flavour:?}");
        assert_eq!(global.client_bytes_received, sent.bytes + sent.quits, "{flavour:?}");
        // Both sides use the same form here, so that answers are passed on byte for byte.
        assert_eq!(global.client_bytes_sent, sent.answer_bytes, "{flavour:?}");

        let digests = wait(plane.observer.digests(Take::Copy));
        let counted: BTreeMap<(String, i32), (u64, u64, u64)> = digests
            .iter()
            .map(|line| {
                let name = (line.digest_text.clone(), line.hostgroup.0);
                (name, (line.count, line.rows_sent, line.rows_affected))
            })
            .collect();
        assert_eq!(counted, sent.digests, "{flavour:?}");
        let hits = wait(plane.observer.rule_hits());
        assert_eq!(
            hits.iter().map(|line| (line.rule_id, line.hits)).collect::<Vec<_>>(),
            [(1, 0), (2, sent.reads)]
        );
        let errors = wait(plane.observer.errors(Take::Copy));
        assert_eq!(
            errors.iter().map(|line| (line.errno, line.count)).collect::<Vec<_>>(),
            [(1146, sent.errors)]
        );
    }
}

#[test]
fn prepared_statements_count_as_executions_of_their_digest() {
    for flavour in Flavour::both() {
        let server = server(flavour);
        let plane = Plane::start(&[(0, server.port())], |_| {});
        let mut client = plane.client();
        let prepared = client.command(command::STMT_PREPARE, b"SELECT v FROM figures.t WHERE id <= 2");
        let id: [u8; 4] = prepared.packets[0].payload[1..5].try_into().expect("four bytes");
        for _ in 0..3 {
            // The id, no cursor, one iteration.
            client.command(command::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0]].concat());
        }
        client.send_command(command::STMT_CLOSE, &id).expect("connected");
        client.query("DO 1").ok().expect("the close is taken by then");
        let digests = wait(plane.observer.digests(Take::Copy));
        let of = |text: &str| digests.iter().find(|line| line.digest_text == text);
        let line = of("SELECT v FROM figures.t WHERE id <= ?").expect("a row");
        assert_eq!((line.count, line.rows_sent), (3, 6), "{flavour:?}");
        let global = wait(plane.observer.global());
        assert_eq!((global.client_prepares, global.client_executes, global.client_closes), (1, 3, 1));
        assert_eq!(global.questions, 5, "one prepare, three executions, one query");
    }
}

#[test]
fn a_running_statement_is_seen_and_killed_by_the_administrator() {
    for flavour in Flavour::both() {
        let server = server(flavour);
        let plane = Plane::start(&[(0, server.port())], |_| {});
        let (mut running, mut sleeping) = (plane.client(), plane.client());
        sleeping.query("SELECT 1");
        running.send_command(command::QUERY, b"SELECT SLEEP(600)").expect("connected");
        until(|| running_on(&server).then_some(()));

        let line = plane.process(|line| line.doing == Doing::Command("Query"));
        assert_eq!(line.info.as_deref(), Some("SELECT SLEEP(600)"), "{flavour:?}");
        let backend = line.backend.as_ref().expect("it runs on one");
        let ids = server.rows("SELECT id FROM information_schema.processlist WHERE info LIKE '%SLEEP(600)'");
        assert!(ids.iter().any(|row| row[0] == Some(backend.thread_id.to_string())), "{ids:?} {backend:?}");
        plane.process(|line| line.doing == Doing::Sleep && line.username == "sbtest");

        let killed = wait(plane.observer.kill(line.id, KillKind::Query));
        assert_eq!(killed, narrows_proxy::worker::KillAnswer::Done);
        let answer = running.answer(command::QUERY);
        // A server may answer with an error, or with the 1 of an interrupted SLEEP.
        let cut =
            answer.error().map_or_else(|| answer.cell().as_deref() == Some("1"), |error| error.code == 1317);
        assert!(cut, "{flavour:?}: {answer:?}");
        until(|| (!running_on(&server)).then_some(()));
        assert_eq!(running.query("SELECT 2").cell().as_deref(), Some("2"), "the session continues");
        assert_eq!(wait(plane.observer.global()).killed_statements, 1);
    }
}

#[test]
fn reading_every_figure_all_the_time_harms_no_statement() {
    let server = server(Flavour::MariaDb);
    let plane = Plane::start(&[(0, server.port())], |_| {});
    let endpoint = plane.endpoint();
    let traffic = std::thread::spawn(move || Traffic::run(&endpoint, 4, 200));
    let mut rounds = 0;
    while !traffic.is_finished() {
        let observer = &plane.observer;
        wait(async {
            observer.global().await;
            observer.connection_pool(Take::Copy).await;
            observer.digests(Take::Copy).await;
            observer.processes().await;
            observer.pins().await;
            observer.free_connections().await;
            observer.memory().await;
        });
        rounds += 1;
    }
    let sent = traffic.join().expect("every answer was correct");
    assert!(rounds > 0);
    assert_eq!(wait(plane.observer.global()).questions, sent.statements());
}

/// The classic split: reads go to hostgroup 1.
fn split() -> Vec<RuleRow> {
    let rule = |rule_id, pattern: &str, hostgroup| RuleRow {
        rule_id,
        active: Activity::InForce,
        apply: true,
        re_modifiers: "CASELESS".to_owned(),
        match_digest: Some(pattern.to_owned()),
        destination_hostgroup: Some(HostgroupId(hostgroup)),
        ..RuleRow::default()
    };
    vec![rule(1, "^SELECT.*FOR UPDATE", 0), rule(2, "^SELECT", 1)]
}

fn server(flavour: Flavour) -> RealServer {
    let server = ServerOptions::new(flavour).start();
    server.execute(&[
        "CREATE DATABASE figures",
        "CREATE TABLE figures.t (id INT PRIMARY KEY, v VARCHAR(100))",
        "INSERT INTO figures.t VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    ]);
    server
}

/// The server's counters over all its sessions.
fn server_status(server: &RealServer) -> BTreeMap<String, u64> {
    let rows = server.rows("SHOW GLOBAL STATUS");
    let number = |row: &Vec<Option<String>>| Some((row[0].clone()?, row[1].as_ref()?.parse().ok()?));
    rows.iter().filter_map(number).collect()
}

fn running_on(server: &RealServer) -> bool {
    !server.rows("SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(600)'").is_empty()
}

fn command(observer: &Observer, class: &str) -> u64 {
    wait(observer.commands()).iter().find(|line| line.command == class).expect("a class of the table").total
}

/// Waits until `look` finds something, and returns it.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not happen within 30 s");
        std::thread::yield_now();
    }
}

/// A data plane of two workers, stopped when dropped.
struct Plane {
    plane: Option<DataPlane>,
    observer: Observer,
}

impl Plane {
    fn start(servers: &[(i32, u16)], change: impl FnOnce(&mut Rows)) -> Plane {
        let variables =
            Variables { interfaces: vec!["127.0.0.1:0".to_owned()], threads: 2, ..Variables::default() };
        let servers = servers.iter().map(|(hostgroup, port)| server_row(*hostgroup, *port)).collect();
        let mut rows = Rows { variables, servers, users: vec![user()], ..Rows::default() };
        change(&mut rows);
        let plane = DataPlane::start(rows).expect("a free port");
        Plane { observer: plane.observer(), plane: Some(plane) }
    }

    fn endpoint(&self) -> Endpoint {
        let plane = self.plane.as_ref().expect("running");
        Endpoint::Tcp(plane.addresses()[0].parse().expect("an address of TCP"))
    }

    fn client(&self) -> RawClient {
        RawClient::open(&self.endpoint(), &Login::new("sbtest", "sbtest"))
    }

    fn process(&self, fits: impl Fn(&ProcessLine) -> bool) -> ProcessLine {
        until(|| wait(self.observer.processes()).into_iter().find(&fits))
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.plane.take().expect("running").stop();
    }
}

fn server_row(hostgroup: i32, port: u16) -> ServerRow {
    ServerRow {
        hostgroup: HostgroupId(hostgroup),
        hostname: "127.0.0.1".to_owned(),
        port,
        gtid_port: 0,
        status: ServerStatus::Online,
        weight: 1,
        compression: false,
        max_connections: 100,
        max_replication_lag: 0,
        use_ssl: false,
        max_latency_ms: 0,
        comment: String::new(),
    }
}

fn user() -> UserRow {
    UserRow {
        username: "sbtest".to_owned(),
        password: "sbtest".to_owned(),
        active: true,
        use_ssl: false,
        default_hostgroup: HostgroupId(0),
        default_schema: "figures".to_owned(),
        schema_locked: false,
        transaction_persistent: true,
        fast_forward: false,
        max_connections: 100,
        attributes: "".into(),
        comment: String::new(),
    }
}
