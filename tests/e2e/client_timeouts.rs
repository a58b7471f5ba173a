//! `wait_timeout` and similar variables set by clients: they apply to the client, and not to the pool's connections.

use std::time::Duration;

use narrows_testkit::{
    ErrorPacket, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, capability,
};

use crate::support::start;

const SECOND: Duration = Duration::from_secs(1);

/// Narrows with one connection to a server.
struct Scene {
    server: &'static RealServer,
    narrows: Narrows,
}

impl Scene {
    fn start(flavour: Flavour, variables: &[(&str, &str)]) -> Scene {
        let server = RealServer::shared(flavour);
        let mut config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .variable("threads", "1")
            .user("sbtest", "sbtest", "");
        for (name, value) in variables {
            config = config.variable(name, value);
        }
        Scene { server, narrows: start(&config) }
    }

    fn client(&self, capabilities: u32) -> RawClient {
        RawClient::open(&self.narrows.endpoint(), &Login::new("sbtest", "sbtest").with(capabilities))
    }

    /// Connections to the server that were opened so far.
    fn opened(&self) -> Option<String> {
        let mut admin = self.narrows.admin();
        admin.query("SELECT ConnOK FROM stats_mysql_connection_pool").cell()
    }
}

/// The error with which an idle client is closed.
fn farewell(client: &mut RawClient) -> ErrorPacket {
    let packet = client.read().expect("a last word");
    assert!(client.is_closed_within(10 * SECOND));
    ErrorPacket::decode(&packet.payload).unwrap_or_else(|| panic!("no error: {packet:?}"))
}

#[test]
fn wait_timeout_of_a_client_holds_for_that_client_alone() {
    for flavour in Flavour::both() {
        let scene = Scene::start(flavour, &[]);
        let mut other = scene.client(0);
        let usual = other.query("SELECT @@wait_timeout, @@net_read_timeout").text_rows();
        let mut client = scene.client(0);
        client.query("SET wait_timeout = 2, net_read_timeout = 17").ok().expect("it is set");
        let own = vec![vec![Some("2".to_owned()), Some("17".to_owned())]];
        let shown = vec![vec![Some("wait_timeout".to_owned()), Some("2".to_owned())]];
        for _ in 0..2 {
            assert_eq!(client.query("SELECT @@wait_timeout, @@net_read_timeout").text_rows(), own);
            assert_eq!(client.query("SHOW VARIABLES LIKE 'wait_timeout'").text_rows(), shown);
            assert_eq!(other.query("SELECT @@wait_timeout, @@net_read_timeout").text_rows(), usual);
        }
        // The pool has one connection, which does not belong to the client in the meantime.
        client.query("SELECT 1").cell();

        let error = farewell(&mut client);

        assert_eq!(error.code, 4031, "{error:?}");
        assert!(error.message.contains("its own wait_timeout"), "{error:?}");
        assert_eq!(other.query("SELECT 3").cell().as_deref(), Some("3"));
        assert_eq!(
            scene.opened().as_deref(),
            Some("1"),
            "{flavour:?}: the server has closed the pool's connection"
        );
    }
}

#[test]
fn what_was_inserted_is_known_after_the_timeouts_were_set() {
    for flavour in Flavour::both() {
        let scene = Scene::start(flavour, &[]);
        scene.server.execute(&[
            "CREATE DATABASE IF NOT EXISTS client_timeouts",
            "DROP TABLE IF EXISTS client_timeouts.t",
            "CREATE TABLE client_timeouts.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        ]);
        let mut client = scene.client(0);
        client.query("INSERT INTO client_timeouts.t (v) VALUES (5)").ok().expect("a row");
        client.query("SET wait_timeout = 60").ok().expect("it is set");
        assert_eq!(client.query("SELECT LAST_INSERT_ID()").cell().as_deref(), Some("1"), "{flavour:?}");
        client.query("SET wait_timeout = 0").ok().expect("it is truncated");
        assert_eq!(client.query("SHOW WARNINGS").text_rows().len(), 1, "{flavour:?}");
        client.query("SET wait_timeout = DEFAULT").ok().expect("it is as before");
        assert!(!client.is_closed_within(2 * SECOND));
    }
}

#[test]
fn interactive_timeout_holds_for_interactive_clients() {
    let scene = Scene::start(Flavour::MariaDb, &[]);
    let (mut interactive, mut other) = (scene.client(capability::INTERACTIVE), scene.client(0));
    for client in [&mut interactive, &mut other] {
        client.query("SET interactive_timeout = 1").ok().expect("it is set");
    }
    assert_eq!(farewell(&mut interactive).code, 4031);
    assert!(!other.is_closed_within(2 * SECOND));
}

#[test]
fn the_shorter_of_the_clients_limit_and_narrows_own_counts() {
    let scene = Scene::start(Flavour::MariaDb, &[("wait_timeout", "1000")]);
    let mut client = scene.client(0);
    client.query("SET wait_timeout = 1000").ok().expect("it is set");
    let error = farewell(&mut client);
    assert!(error.message.contains("mysql-wait_timeout"), "{error:?}");
}

#[test]
fn a_client_that_stops_within_a_command_has_its_own_net_read_timeout() {
    let scene = Scene::start(Flavour::MariaDb, &[]);
    let mut client = scene.client(0);
    client.query("SET net_read_timeout = 1").ok().expect("it is set");
    client.send_bytes(b"\x05\0\0\0\x03D").expect("it is sent");
    assert!(client.is_closed_within(20 * SECOND));
    scene.narrows.wait_for_log(0, |line| line.contains("net_read_timeout"));
}
