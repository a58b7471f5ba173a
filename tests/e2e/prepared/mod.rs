//! Prepared statements through shared connections: each client must see what it would see on its own connection, and
//! servers must not have to hold more statements than configured.
//!
//! `bench/` and `tests/e2e/load` have the figures; these tests check the behaviour, on MariaDB and on MySQL 9.

mod budget;
mod cursors;
mod long_data;
mod model;
mod sharing;
pub mod statement;
mod tables;

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions};

pub use statement::{Statement, Value, cell};

use crate::support::start;

/// A separate server, because its statements are counted, and Narrows in front of it.
pub struct Scene {
    pub server: RealServer,
    pub narrows: Narrows,
    pub flavour: Flavour,
}

impl Scene {
    /// With this many backend connections, and these variables.
    pub fn start(flavour: Flavour, connections: u32, variables: &[(&str, &str)]) -> Scene {
        Scene::start_with(ServerOptions::new(flavour), flavour, connections, variables)
    }

    /// The same with options for the server.
    pub fn start_with(
        options: ServerOptions,
        flavour: Flavour,
        connections: u32,
        variables: &[(&str, &str)],
    ) -> Scene {
        let server = options.start();
        server.execute(&[
            "CREATE DATABASE one",
            "CREATE DATABASE two",
            "CREATE TABLE one.t (id INT PRIMARY KEY, v VARCHAR(100))",
            "CREATE TABLE two.t (id INT PRIMARY KEY, v VARCHAR(100))",
            "INSERT INTO one.t VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "CREATE TABLE one.made (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
            "INSERT INTO two.t VALUES (1, 'other one')",
        ]);
        let mut config = NarrowsConfig::new()
            .server(0, server.port(), &format!("max_connections={connections}"))
            .variable("threads", "1")
            .variable("max_allowed_packet", "268435456")
            // No connection is closed while its statements are counted.
            .variable("free_connections_pct", "100")
            .user("sbtest", "sbtest", "");
        for (name, value) in variables {
            config = config.variable(name, value);
        }
        let narrows = start(&config);
        Scene { server, narrows, flavour }
    }

    /// A client in the schema `one`.
    pub fn client(&self) -> RawClient {
        self.client_in("one")
    }

    /// A client in a schema.
    pub fn client_in(&self, schema: &str) -> RawClient {
        RawClient::open(&self.narrows.endpoint(), &Login::new("sbtest", "sbtest").schema(schema))
    }

    /// Statements that the server has prepared.
    pub fn statements(&self) -> u64 {
        let rows = self.server.rows("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'");
        rows[0][1].as_ref().and_then(|count| count.parse().ok()).expect("a count")
    }

    /// The server ends every connection of Narrows, as a failing network would.
    pub fn cut(&self) {
        let mut root = self.server.root();
        let mut ids =
            || root.query("SELECT id FROM information_schema.processlist WHERE user = 'sbtest'").text_rows();
        let open = ids();
        for id in open.iter().filter_map(|row| row[0].as_deref()) {
            // A connection that has ended by itself in the meantime need not be killed.
            let _ = self.server.root().query(format!("KILL {id}"));
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while ids().iter().any(|id| open.contains(id)) {
            assert!(Instant::now() < deadline, "killed connections are still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a test on each flavour with this many backend connections.
fn on_each(connections: u32, test: impl Fn(&Scene)) {
    for flavour in Flavour::both() {
        test(&Scene::start(flavour, connections, &[]));
    }
}
