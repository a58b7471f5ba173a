//! Clients that read a binary log through Narrows: `mariadb-binlog` and `mysqlbinlog`, as an ordinary user.

use std::path::PathBuf;
use std::process::Command;

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, capability,
};

use crate::support::start;

/// A server that writes a binary log, with some events in it, and the name of that log.
fn with_log(flavour: Flavour) -> (RealServer, String) {
    let server = ServerOptions::new(flavour).option("--log-bin=log").option("--server-id=7").start();
    server.execute(&[
        "CREATE DATABASE binlog",
        "CREATE TABLE binlog.t (id INT PRIMARY KEY, v VARCHAR(100))",
        "INSERT INTO binlog.t VALUES (1, 'one'), (2, 'two')",
        "UPDATE binlog.t SET v = 'written last'",
    ]);
    let logs = server.rows("SHOW BINARY LOGS");
    let name = logs.last().and_then(|row| row[0].clone()).expect("a log");
    (server, name)
}

fn before(server: &RealServer) -> Narrows {
    let config =
        NarrowsConfig::new().server(0, server.port(), "max_connections=2").user("sbtest", "sbtest", "");
    start(&config)
}

/// What the flavour's own program prints for a log.
fn read(flavour: Flavour, port: u16, log: &str) -> Vec<String> {
    let mut command = match flavour {
        Flavour::MariaDb => Command::new("mariadb-binlog"),
        Flavour::MySql9 => mysqlbinlog(),
    };
    command.args(["--no-defaults", "--read-from-remote-server", "--host=127.0.0.1", "--user=sbtest"]);
    command.args(["--password=sbtest", &format!("--port={port}"), "--verbose", log]);
    let output = command.output().expect("the program is installed; scripts/setup.sh servers does that");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// MySQL 9 is unpacked with its own libraries, so its own loader starts it.
fn mysqlbinlog() -> Command {
    let root = std::env::var_os("NARROWS_MYSQL9").map_or_else(|| PathBuf::from("/opt/mysql9"), PathBuf::from);
    let program = root.join("usr/bin/mysqlbinlog");
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let loader = libraries.join("ld-linux-x86-64.so.2");
    if !loader.exists() {
        return Command::new(program);
    }
    let mut command = Command::new(loader);
    command.arg("--argv0").arg(&program).arg("--library-path").arg(libraries).arg(program);
    command
}

#[test]
fn a_log_is_read_through_narrows_as_from_the_server() {
    for flavour in Flavour::both() {
        let (server, log) = with_log(flavour);
        let narrows = before(&server);
        // Other clients have used the connections before, and continue.
        let mut other = narrows.client();
        other.query("SELECT 1").cell();

        let (direct, through) = (read(flavour, server.port(), &log), read(flavour, narrows.port(), &log));

        assert!(direct.iter().any(|line| line.contains("written last")), "{flavour:?}: {direct:?}");
        assert_eq!(direct, through, "{flavour:?}");
        for _ in 0..3 {
            // It costs no connection.
            read(flavour, narrows.port(), &log);
            assert_eq!(other.query("SELECT 2").cell().as_deref(), Some("2"));
        }
        narrows.wait_for_log(0, |line| line.contains("a client reads the binary log"));
    }
}

#[test]
fn what_a_session_has_set_holds_for_the_log_that_it_reads() {
    const REGISTER_SLAVE: u8 = 21;
    const BINLOG_DUMP: u8 = 18;
    for flavour in Flavour::both() {
        let (server, log) = with_log(flavour);
        let narrows = before(&server);
        for form in [0, capability::DEPRECATE_EOF] {
            let login = Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF).with(form);
            let mut client = RawClient::open(&narrows.endpoint(), &login);
            // Without this a server refuses to send events to clients that cannot check them.
            for name in ["master_binlog_checksum", "source_binlog_checksum"] {
                client.query(format!("SET @{name} = @@global.binlog_checksum")).ok().expect("it is set");
            }
            // No host, user, password or port; a server id that no other replica has.
            let body = [&99_u32.to_le_bytes()[..], &[0; 3], &[0; 2], &[0; 8]].concat();
            client.command(REGISTER_SLAVE, &body).ok().expect("it is registered");
            // From the beginning, and only until the events end.
            let body = [&4_u32.to_le_bytes()[..], &[1, 0], &99_u32.to_le_bytes(), log.as_bytes()].concat();
            client.send_command(BINLOG_DUMP, &body).expect("it is connected");
            let mut seen = Vec::new();
            let end = loop {
                let packet = client.read().expect("an event, or the end");
                if packet.first() != 0 {
                    break packet;
                }
                seen.extend(packet.payload);
            };
            assert_eq!(end.first(), 0xFE, "{flavour:?}: {end:?}");
            assert!(seen.windows(12).any(|bytes| bytes == b"written last"), "{flavour:?}");
        }
        let mut client = narrows.client();
        client.query("SELECT 1").cell();
        let body = [&4_u32.to_le_bytes()[..], &[1, 0], &98_u32.to_le_bytes(), b"nothing.000001"].concat();
        let error = client.command(BINLOG_DUMP, &body).error().expect("the server's error");
        assert_eq!(error.code, 1236, "{error:?}");
    }
}
