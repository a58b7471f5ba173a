//! Statements whose server is lost while they run: which are run again, and which errors the clients of the others
//! receive.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Move, NarrowsConfig, Packet, RealServer, TempFolder, command, writer,
};

use crate::prepared::statement::Statement;
use crate::support::start;

/// Serves one connection: everything gets OK. After `DO 1` it reads nothing until `go_on`, and then closes. Returns the
/// lengths of the commands received completely.
fn serve(mut stream: UnixStream, go_on: Option<&Receiver<()>>) -> std::io::Result<Vec<usize>> {
    Packet::write(&mut stream, &FakeMysql::greeting(1), 0)?;
    let mut sequence = Packet::read(&mut stream)?.sequence;
    let mut lengths = Vec::new();
    loop {
        Packet::write(&mut stream, &writer::ok(0, 0, 2, 0), sequence.wrapping_add(1))?;
        stream.flush()?;
        if let Some(go_on) = go_on.filter(|_| lengths.last() == Some(&b"_DO 1".len())) {
            go_on.recv().expect("the test says when");
            return Ok(lengths);
        }
        let Ok(packet) = Packet::read(&mut stream) else { return Ok(lengths) };
        sequence = packet.sequence;
        lengths.push(packet.payload.len());
        if packet.payload == [command::QUIT] {
            return Ok(lengths);
        }
    }
}

#[test]
fn a_write_that_could_not_be_sent_to_its_end_is_run_elsewhere() {
    let folder = TempFolder::new("retries");
    let path = folder.file("mysql.sock").display().to_string();
    // A Unix socket buffers some 200 KB that nobody reads, but not 900.
    let listener = UnixListener::bind(&path).unwrap();
    let (go_on, told) = channel();
    let server = std::thread::spawn(move || {
        let first = serve(listener.accept().unwrap().0, Some(&told)).unwrap();
        (first, serve(listener.accept().unwrap().0, None).unwrap())
    });
    let narrows = start(&NarrowsConfig::new().user("sbtest", "sbtest", "").server_at(0, &path, 0, ""));
    let mut client = narrows.client();
    assert_eq!(client.query("DO 1").error(), None);
    let write = format!("INSERT INTO t VALUES ('{}')", "x".repeat(900_000));
    client.send_command(command::QUERY, write.as_bytes()).unwrap();
    let mut admin = narrows.admin();
    let sending =
        "SELECT count(*) FROM stats_mysql_processlist WHERE srv_host IS NOT NULL AND info LIKE 'INSERT%'";
    while admin.query(sending).cell().as_deref() != Some("1") {
        std::thread::yield_now();
    }
    go_on.send(()).unwrap();
    assert_eq!(client.answer(command::QUERY).error(), None);
    drop(narrows);
    let (first, second) = server.join().unwrap();
    let whole = |lengths: &[usize]| lengths.iter().filter(|length| **length > 900_000).count();
    assert_eq!((whole(&first), whole(&second)), (0, 1));
}

/// Kills the connection on which `statement` runs, once it does.
fn kill_that_runs(server: &RealServer, statement: &str) {
    let running = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '{statement}'");
    let id = loop {
        if let Some(row) = server.rows(&running).into_iter().next() {
            break row[0].clone().unwrap();
        }
    };
    server.execute(&[&format!("KILL {id}")]);
}

#[test]
fn what_only_the_lost_connection_knew_is_known_all_the_same() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        server.execute(&[
            "CREATE DATABASE IF NOT EXISTS retries",
            "DROP TABLE IF EXISTS retries.t",
            "CREATE TABLE retries.t (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 41",
        ]);
        let narrows = start(&NarrowsConfig::in_front_of(server.port()));
        let mut client = narrows.client();
        assert_eq!(client.query("INSERT INTO retries.t VALUES (NULL)").ok().unwrap().last_insert_id, 41);
        client.send_command(command::QUERY, b"SELECT SLEEP(1) AS retried").unwrap();
        kill_that_runs(server, "SELECT SLEEP(1) AS retried");
        assert_eq!(client.answer(command::QUERY).cell().as_deref(), Some("0"), "{flavour:?}");
        assert_eq!(client.query("SELECT LAST_INSERT_ID()").cell().as_deref(), Some("41"), "{flavour:?}");
    }
}

#[test]
fn only_what_reads_is_sent_twice_when_its_server_is_lost() {
    for (statement, times) in [
        ("SELECT a FROM t", 2),
        ("SHOW TABLES", 2),
        ("DO 1", 2),
        ("INSERT INTO t VALUES (1)", 1),
        ("UPDATE t SET a = 1", 1),
        ("SELECT a FROM t FOR UPDATE", 1),
        ("SELECT a_routine(1)", 1),
        ("SELECT GET_LOCK('a', 1)", 1),
        ("SELECT a INTO @a FROM t", 1),
        ("CALL a_procedure()", 1),
        ("SELECT a FROM t; SELECT b FROM t", 1),
        ("CREATE TABLE u (a INT)", 1),
    ] {
        let server = FakeMysql::start(Conversation::new().on(statement, &[Move::Close]));
        let narrows = start(&NarrowsConfig::new().user("sbtest", "sbtest", "").server(0, server.port(), ""));
        let error = narrows.client().query(statement).error().expect("it is lost each time");
        assert!(error.code == 2013 && error.message.ends_with("It may have run."), "{statement}: {error:?}");
        let sent = server.received().iter().filter(|received| received.body == statement).count();
        assert_eq!(sent, times, "{statement}");
    }
}

/// Two servers on which `statement` runs until the test releases it, and then ends with this. One of them has received
/// it by then.
fn two_servers(statement: &str, end: &Move) -> ([FakeMysql; 2], NarrowsConfig) {
    let moves = [Move::Wait, end.clone()];
    let servers = [(), ()].map(|()| FakeMysql::start(Conversation::new().on(statement, &moves)));
    let config = NarrowsConfig::new().user("sbtest", "sbtest", "");
    let config = servers.iter().fold(config, |config, server| config.server(0, server.port(), ""));
    (servers, config.variable("kill_timeout_server", "20000"))
}

fn times(servers: &[FakeMysql; 2], fits: impl Fn(&str) -> bool) -> usize {
    servers.iter().flat_map(FakeMysql::received).filter(|received| fits(&received.body)).count()
}

#[test]
fn a_read_that_was_killed_is_not_sent_twice() {
    let read = "SELECT a FROM t";
    // Its server is lost, or reports that it is shutting down.
    for end in [Move::Close, Move::error(1053, "08S01", "Server shutdown in progress")] {
        for (timeout, code) in [("1000", 1907), ("60000", 1317)] {
            let (servers, config) = two_servers(read, &end);
            let narrows = start(&config.variable("default_query_timeout", timeout));
            let mut client = narrows.client();
            let id = client.greeting().expect("a greeting").connection_id;
            client.send_command(command::QUERY, read.as_bytes()).expect("it is sent");
            while times(&servers, |body| body == read) == 0 {
                std::thread::yield_now();
            }
            if code == 1317 {
                narrows.client().query(format!("KILL QUERY {id}")).ok().expect("killed");
            }
            while times(&servers, |body| body.starts_with("KILL QUERY")) == 0 {
                std::thread::yield_now();
            }
            servers.iter().for_each(FakeMysql::release);

            let error = client.answer(command::QUERY).error().expect("it was killed");

            assert!([code, 1053].contains(&error.code), "{end:?}: {error:?}");
            assert!(error.code == code || !matches!(end, Move::Close), "{end:?}: {error:?}");
            assert_eq!(times(&servers, |body| body == read), 1, "{end:?}");
            client.query("DO 1").ok().expect("the session continues");
        }
    }
}

#[test]
fn what_was_killed_while_it_was_prepared_is_not_prepared_elsewhere() {
    let servers = [(), ()].map(|()| {
        let prepare = [Move::Wait, Move::Close];
        FakeMysql::start(Conversation::new().on_command(command::STMT_PREPARE, &prepare))
    });
    let config = NarrowsConfig::new()
        .user("sbtest", "sbtest", "")
        .variable("kill_timeout_server", "20000")
        .variable("default_query_timeout", "1000");
    let config = servers.iter().fold(config, |config, server| config.server(0, server.port(), ""));
    let narrows = start(&config);
    let mut client = narrows.client();
    client.send_command(command::STMT_PREPARE, b"SELECT ?").expect("it is sent");
    while times(&servers, |body| body.starts_with("KILL QUERY")) == 0 {
        std::thread::yield_now();
    }
    servers.iter().for_each(FakeMysql::release);

    let error = client.answer(command::STMT_PREPARE).error().expect("it was killed");

    assert_eq!(error.code, 1907, "{error:?}");
    assert_eq!(times(&servers, |body| body == "SELECT ?"), 1);
    client.query("DO 1").ok().expect("the session continues");
}

#[test]
fn an_execution_is_sent_twice_where_its_text_would_be() {
    let (read, write) = ("SELECT SLEEP(1) AS executed", "INSERT INTO retries.e VALUES (SLEEP(1))");
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        server.execute(&[
            "CREATE DATABASE IF NOT EXISTS retries",
            "DROP TABLE IF EXISTS retries.e",
            "CREATE TABLE retries.e (a INT)",
        ]);
        let narrows = start(&NarrowsConfig::in_front_of(server.port()));
        let mut client = narrows.client();
        let mut executed = |text: &str| {
            let statement = Statement::prepare(&mut client, text);
            client.send_command(command::STMT_EXECUTE, &statement.execution(0, &[], false)).unwrap();
            kill_that_runs(server, text);
            client.answer(command::STMT_EXECUTE).error()
        };
        assert_eq!(executed(read), None, "{flavour:?}");
        let error = executed(write).expect("it may have run");
        assert!(error.code == 2013 && error.message.ends_with("It may have run."), "{flavour:?}: {error:?}");
    }
}

#[test]
fn what_only_begins_a_transaction_begins_it_elsewhere_when_its_server_is_lost() {
    let closes = Move::Close;
    let goes_away = Move::error(1053, "08S01", "Server shutdown in progress");
    for begin in ["BEGIN", "START TRANSACTION", "START TRANSACTION READ ONLY"] {
        for end in [&closes, &goes_away] {
            let is_open = Move::Reply(vec![writer::ok(0, 0, 3, 0)]);
            let healthy = Conversation::new().on(begin, &[is_open]);
            let dying = FakeMysql::start(Conversation::new().on(begin, std::slice::from_ref(end)));
            let healthy = FakeMysql::start(healthy);
            let config = NarrowsConfig::new()
                .user("sbtest", "sbtest", "")
                .server(0, dying.port(), "weight=10000000")
                .server(0, healthy.port(), "weight=1");
            let narrows = start(&config);
            let mut client = narrows.client();
            assert_eq!(client.query(begin).error(), None, "{begin} {end:?}");
            client.query("INSERT INTO t VALUES (1)").ok().expect("it runs in the transaction");
            let sent = |server: &FakeMysql, text: &str| {
                server.received().iter().filter(|received| received.body == text).count()
            };
            assert_eq!((sent(&dying, begin), sent(&healthy, begin)), (1, 1), "{begin} {end:?}");
            assert_eq!(sent(&healthy, "INSERT INTO t VALUES (1)"), 1, "{begin} {end:?}");
        }
    }
}

#[test]
fn what_commits_a_transaction_before_it_begins_another_one_is_not_sent_twice() {
    let is_open = || Move::Reply(vec![writer::ok(0, 0, 3, 0)]);
    let dying = Conversation::new()
        .on("BEGIN", &[is_open()])
        .on("INSERT INTO t VALUES (1)", &[is_open()])
        .on("START TRANSACTION", &[Move::Close]);
    let server = FakeMysql::start(dying);
    let narrows = start(&NarrowsConfig::new().user("sbtest", "sbtest", "").server(0, server.port(), ""));
    let mut client = narrows.client();
    for statement in ["BEGIN", "INSERT INTO t VALUES (1)"] {
        client.query(statement).ok().expect("it runs");
    }
    let error = client.query("START TRANSACTION").error().expect("it may have committed");
    assert!(error.code == 2013 && error.message.ends_with("It may have run."), "{error:?}");
    let sent = server.received().iter().filter(|received| received.body == "START TRANSACTION").count();
    assert_eq!(sent, 1);
}
