//! An Aurora cluster of scripted servers, of which one is configured. All have one port, on addresses of their own:
//! `SERVER_ID` and `domain_name` together are the address.

mod lag;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, Endpoint, FakeMysql, Login, Move, Narrows, NarrowsConfig, RawClient, wait_until, writer,
};

use crate::support::start;

/// The statement of a check.
const QUESTION: &str = "SELECT @@aurora_server_id, @@global.innodb_read_only | @@global.read_only, SERVER_ID, SESSION_ID, \
    LAST_UPDATE_TIMESTAMP, TIMESTAMPDIFF(SECOND, LAST_UPDATE_TIMESTAMP, NOW()), REPLICA_LAG_IN_MILLISECONDS, CPU \
    FROM (SELECT 1) one LEFT JOIN INFORMATION_SCHEMA.REPLICA_HOST_STATUS ON TRUE LIMIT 200";

/// Between two checks of a node.
const INTERVAL: Duration = Duration::from_millis(200);

/// The `SERVER_ID` of each node; with `.1`, its address.
const IDS: [&str; 3] = ["127.0.0", "127.0.1", "127.0.2"];

const DOMAIN: &str = ".1";

const WRITE: &str = "INSERT INTO t VALUES (1)";

/// A read that may go to any reader, and one that may go to those whose estimated lag is at most 100 ms.
const READ: &str = "/* hostgroup=1 */ SELECT who";
const NEAR: &str = "/* hostgroup=1; max_lag_ms=100 */ SELECT who";

/// What one node says.
#[derive(Clone)]
struct Says {
    node: usize,
    is_read_only: bool,
    /// The writer that its table has.
    writer: usize,
    /// The nodes that its table has, with their lag.
    known: Vec<(String, &'static str)>,
}

impl Says {
    /// What a node says of a healthy cluster of three whose writer is `writer`.
    fn healthy(node: usize, writer: usize) -> Says {
        let known = IDS.iter().map(|id| ((*id).to_owned(), "16.4")).collect();
        Says { node, is_read_only: node != writer, writer, known }
    }

    /// The conversation of a node that says this, and that refuses writes if it is read-only.
    fn conversation(&self) -> Conversation {
        const AUTOCOMMIT: u16 = 2;
        let eof = || writer::eof(AUTOCOMMIT, 0);
        let mut packets = vec![vec![8]];
        packets.extend((0..8).map(|number| writer::column(&format!("c{number}"))));
        packets.push(eof());
        let read_only = if self.is_read_only { "1" } else { "0" };
        for (id, lag) in &self.known {
            let session = if *id == IDS[self.writer] { "MASTER_SESSION_ID" } else { "7f1c-0d" };
            let cells = [IDS[self.node], read_only, id, session, "2026-01-01 00:00:00", "1", lag, "5.0"];
            packets.push(writer::row(&cells.map(Some)));
        }
        packets.push(eof());
        // What the pool asks before it uses a connection to a server that was lost.
        let role = "SELECT @@global.read_only|@@global.innodb_read_only read_only";
        let conversation = Conversation::new()
            .on(QUESTION, &[Move::Reply(packets)])
            .on(role, &[Move::rows("read_only", &[read_only])])
            .on(READ, &[Move::rows("who", &[IDS[self.node]])])
            .on(NEAR, &[Move::rows("who", &[IDS[self.node]])]);
        if !self.is_read_only {
            return conversation;
        }
        let refusal =
            "The MySQL server is running with the --read-only option so it cannot execute this statement";
        conversation.on(WRITE, &[Move::error(1290, "HY000", refusal)])
    }
}

/// The nodes, and Narrows.
struct Scene {
    nodes: [FakeMysql; 3],
    narrows: Narrows,
    admin: RawClient,
}

impl Scene {
    /// A healthy cluster whose writer is the first node, the only one that is configured; all are found.
    fn begin(more: &str) -> Scene {
        Scene::begin_with(more, &[], ["0", "1", "1"])
    }

    /// The same with these variables; the nodes come to be in these places.
    fn begin_with(more: &str, variables: &[(&str, &str)], places: [&str; 3]) -> Scene {
        let port = free_port();
        let node = |node: usize| {
            let address = format!("{}{DOMAIN}", IDS[node]);
            FakeMysql::start_at(&address, port, Says::healthy(node, 0).conversation())
        };
        let nodes = [0, 1, 2].map(node);
        let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "").monitor();
        config =
            config.variable("monitor_ping_interval", "500").server(0, port, "weight=5 max_connections=77");
        for (name, value) in variables {
            config = config.variable(name, value);
        }
        let interval = INTERVAL.as_millis();
        let columns = format!(
            "writer_hostgroup=0 reader_hostgroup=1 aurora_port={port} domain_name=\"{DOMAIN}\" \
             check_interval_ms={interval} check_timeout_ms=150 max_lag_ms=1000 new_reader_weight=3 {more}"
        );
        let narrows = start(&config.row("mysql_aws_aurora_hostgroups", &columns));
        let admin = narrows.admin();
        let mut scene = Scene { nodes, narrows, admin };
        scene.wait_for_places(places);
        scene
    }

    /// The rows of an answer for administrators, the cells of each joined by blanks.
    fn ask(&mut self, question: &str) -> Vec<String> {
        let answer = self.admin.query(question);
        assert!(answer.error().is_none(), "{question}: {:?}", answer.error());
        let cell = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
        let joined = |row: Vec<Option<String>>| row.into_iter().map(cell).collect::<Vec<_>>().join(" ");
        answer.text_rows().into_iter().map(joined).collect()
    }

    /// Where the nodes are; `-`: shunned there.
    fn places(&mut self) -> [String; 3] {
        let rows = self
            .ask("SELECT hostname, hostgroup_id, status FROM runtime_mysql_servers ORDER BY hostgroup_id");
        IDS.map(|id| {
            let of_node = rows.iter().filter_map(|row| row.strip_prefix(&format!("{id}{DOMAIN} ")));
            let place = |row: &str| match row.split_once(' ') {
                Some((hostgroup, "ONLINE")) => hostgroup.to_owned(),
                Some((hostgroup, _)) => format!("-{hostgroup}"),
                None => String::new(),
            };
            of_node.map(place).collect::<Vec<_>>().join("+")
        })
    }

    fn wait_for_places(&mut self, expected: [&str; 3]) {
        wait_until(&format!("the nodes are in {expected:?}"), || self.places() == expected);
    }

    /// Makes every node say that `writer` is the writer, and be it or not.
    fn all_say(&self, writer: usize) {
        for (node, server) in self.nodes.iter().enumerate() {
            server.say(Says::healthy(node, writer).conversation());
        }
    }

    /// How many writes a node has received.
    fn writes(&self, node: usize) -> usize {
        self.nodes[node].received().iter().filter(|received| received.body == WRITE).count()
    }
}

/// A port that is free on the addresses of all nodes.
pub fn free_port() -> u16 {
    loop {
        let first = TcpListener::bind((format!("{}{DOMAIN}", IDS[0]), 0)).expect("a port");
        let port = first.local_addr().expect("bound").port();
        let others = IDS[1..].iter().map(|id| TcpListener::bind((format!("{id}{DOMAIN}"), port)));
        if others.collect::<Result<Vec<_>, _>>().is_ok() {
            return port;
        }
    }
}

/// A client that writes all the time; returns how many writes there were, and the errors.
struct Writing {
    stops: Arc<AtomicBool>,
    client: JoinHandle<(usize, Vec<String>)>,
}

impl Writing {
    fn begin(narrows: &Narrows) -> Writing {
        let mut client = RawClient::open(&Endpoint::local(narrows.port()), &Login::new("sbtest", "sbtest"));
        let stops = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stops);
        let write = move || {
            let (mut count, mut errors) = (0, Vec::new());
            while !flag.load(Ordering::Relaxed) {
                let answer = client.query(WRITE);
                errors.extend(answer.error().map(|error| format!("{error:?}")));
                count += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            (count, errors)
        };
        Writing { stops, client: std::thread::spawn(write) }
    }

    fn end(self) -> (usize, Vec<String>) {
        self.stops.store(true, Ordering::Relaxed);
        self.client.join().expect("a client")
    }
}

#[test]
fn a_failover_while_the_old_writer_still_answers_writes_nothing_to_a_reader() {
    let mut scene = Scene::begin("");
    let writing = Writing::begin(&scene.narrows);
    wait_until("a client writes", || scene.writes(0) > 20);
    // The writer has been restarted as a reader and answers; the tables of all still name it. That lasts some seconds.
    for node in 0..3 {
        let says = Says { is_read_only: true, ..Says::healthy(node, 0) };
        scene.nodes[node].say(says.conversation());
    }
    scene.wait_for_places(["1", "1", "1"]);
    let (written, then) = (scene.writes(0), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(scene.writes(0), written, "nothing is sent to a reader");
    assert_eq!((scene.writes(1), scene.writes(2)), (0, 0));
    println!("nobody was written to for {:?}", then.elapsed());
    // The new writer is one before the tables say so.
    let promoted = Instant::now();
    scene.nodes[1].say(Says { is_read_only: false, ..Says::healthy(1, 0) }.conversation());
    wait_until("the new writer is written to", || scene.writes(1) > 0);
    let took = promoted.elapsed();
    println!("the new writer was written to after {took:?}");
    assert!(took < INTERVAL + Duration::from_millis(300), "{took:?}");
    scene.all_say(1);
    scene.wait_for_places(["1", "0", "1"]);
    let before = scene.writes(1);
    wait_until("clients write again", || scene.writes(1) > before + 20);
    let (count, errors) = writing.end();
    println!("{count} writes, {} errors", errors.len());
    assert_eq!(errors, [""; 0]);
    what_is_shown(&mut scene);
    // A late answer of the former writer moves nothing.
    scene.nodes[0].say(Says { is_read_only: false, ..Says::healthy(0, 0) }.conversation());
    scene.wait_for_places(["-1", "0", "1"]);
    scene.all_say(1);
    scene.wait_for_places(["1", "0", "1"]);
}

/// The tables and the statements that show the cluster after the failover from the first node to the second one.
fn what_is_shown(scene: &mut Scene) {
    let log = "SELECT DISTINCT SERVER_ID, SESSION_ID, replica_lag_in_milliseconds, estimated_lag_ms, CPU, error \
               FROM monitor.mysql_server_aws_aurora_log WHERE SERVER_ID = '127.0.1' ORDER BY SESSION_ID";
    let expected = ["127.0.1 7f1c-0d 17 47 5 NULL", "127.0.1 MASTER_SESSION_ID 17 0 5 NULL"];
    wait_until("the log has it", || scene.ask(log) == expected);
    let status = "SELECT COUNT(*), MIN(checks_tot = checks_ok), MIN(checks_tot > 5), MAX(last_error) \
                  FROM monitor.mysql_server_aws_aurora_check_status WHERE writer_hostgroup = 0";
    assert_eq!(scene.ask(status), ["3 1 1 NULL"]);
    let failovers = "SELECT hostname, inserted_at > '2026' FROM monitor.mysql_server_aws_aurora_failovers";
    assert_eq!(scene.ask(failovers), ["127.0.1 1"]);
    let route = scene.ask("EXPLAIN ROUTE 'INSERT INTO t VALUES (1)' AS sbtest");
    assert!(route.iter().any(|line| line.contains("writer of aurora 0")), "{route:#?}");
    let status = scene.ask("SHOW NARROWS STATUS");
    let is_reader = |line: &&String| {
        line.contains("Narrows_aurora_0_127.0.0.1") && line.contains("innodb_read_only is ON")
    };
    assert!(status.iter().find(is_reader).is_some(), "{status:#?}");
    let runtime = scene.ask("SELECT writer_hostgroup, domain_name FROM runtime_mysql_aws_aurora_hostgroups");
    assert_eq!(runtime, [format!("0 {DOMAIN}")]);
}

#[test]
fn readers_are_found_wait_for_their_lag_and_leave() {
    let mut scene = Scene::begin("lag_num_checks=2 writer_is_also_reader=0");
    let found =
        "SELECT DISTINCT weight, max_connections FROM runtime_mysql_servers WHERE hostname != '127.0.0.1'";
    assert_eq!(scene.ask(found), ["3 77"]);
    let log = scene.narrows.log();
    assert_eq!(log.matches("a node of a cluster was found").count(), 2, "{log}");
    // One that lags gets no reads.
    let mut late = Says::healthy(1, 0);
    late.known[1].1 = "970.5";
    scene.nodes[1].say(late.conversation());
    scene.wait_for_places(["0", "-1", "1"]);
    let status = scene.ask("SHOW NARROWS STATUS").join("\n");
    assert!(status.contains("its estimated lag is above max_lag_ms (1000)"), "{status}");
    scene.all_say(0);
    scene.wait_for_places(["0", "1", "1"]);
    // One that is not named any more leaves, and SAVE writes the others.
    for node in 0..3 {
        let mut says = Says::healthy(node, 0);
        says.known.truncate(2);
        scene.nodes[node].say(says.conversation());
    }
    scene.wait_for_places(["0", "1", "-1"]);
    scene.ask("SAVE MYSQL SERVERS FROM RUNTIME");
    let saved = scene.ask(
        "SELECT hostgroup_id, hostname, weight, comment FROM mysql_servers WHERE hostname = '127.0.1.1'",
    );
    assert_eq!(saved, ["1 127.0.1.1 3 found by the monitor"]);
}

#[test]
fn a_node_that_changes_its_mind_is_no_writer_beside_one_that_does_not() {
    let mut scene = Scene::begin("");
    let until = Instant::now() + Duration::from_secs(4);
    let mut turn = false;
    while Instant::now() < until {
        turn = !turn;
        scene.nodes[1]
            .say(Says { is_read_only: !turn, ..Says::healthy(1, usize::from(turn)) }.conversation());
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(scene.places()[0], "0");
    }
    scene.all_say(0);
    scene.wait_for_places(["0", "1", "1"]);
    let log = scene.narrows.log();
    assert_eq!(log.matches("to=\"writer\"").count(), 0, "{log}");
    let changes = log.matches("a node of a cluster").count();
    println!("{changes} lines about roles");
}

#[test]
fn a_node_that_names_what_is_no_host_is_heard_once_and_harms_nobody() {
    let mut scene = Scene::begin("");
    let mut says = Says::healthy(2, 0);
    for id in ["a b", "x\ny", "'; DROP TABLE t; --", "\u{1}\u{2}"] {
        says.known.push((id.to_owned(), "1.0"));
    }
    says.known.extend((0..100).map(|number| (format!("nobody-{number}"), "1.0")));
    scene.nodes[2].say(says.conversation());
    let skipped = 0;
    scene.narrows.wait_for_log(skipped, |log| log.contains("nodes name more others than are taken into use"));
    wait_until("some are found", || scene.ask("SELECT COUNT(*) FROM runtime_mysql_servers") == ["65"]);
    // A check with an answer of more than a megabyte fails, and says nothing.
    let mut long = Says::healthy(2, 0);
    long.known.push(("x".repeat(2 << 20), "1.0"));
    scene.nodes[2].say(long.conversation());
    let failed =
        "SELECT COUNT(*) > 0 FROM monitor.mysql_server_aws_aurora_log WHERE error LIKE '%more than 1 MiB%'";
    wait_until("the check fails", || scene.ask(failed) == ["1"]);
    assert_eq!(scene.places()[..2], ["0", "1"]);
    let log = scene.narrows.log();
    assert_eq!(log.matches("a node names a server that cannot be one").count(), 1, "{log}");
    scene.all_say(0);
    wait_until("the others leave", || {
        scene.ask("SELECT COUNT(*) FROM runtime_mysql_servers WHERE status = 'ONLINE'") == ["3"]
    });
}
