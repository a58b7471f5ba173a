//! Reads that see writes (`causal_reads`), on real servers whose replicas are delayed, and on scripted ones that count.

mod again;
mod beside;
mod checked;
mod levels;
mod losses;
mod pairs;
mod scripted;
mod scripts;
mod shards;
mod two_writers;
mod visible;

use std::ops::{Deref, DerefMut};

use narrows_testkit::{Flavour, Login, Narrows, NarrowsConfig, RawClient};

use crate::replicas::Replicas;

/// A primary with two replicas, which have the server ids 1, 2 and 3.
struct Servers(Replicas);

impl Deref for Servers {
    type Target = Replicas;

    fn deref(&self) -> &Replicas {
        &self.0
    }
}

impl DerefMut for Servers {
    fn deref_mut(&mut self) -> &mut Replicas {
        &mut self.0
    }
}

impl Servers {
    fn start(flavour: Flavour) -> Servers {
        // A killed replica has what it said it had.
        let durable = ["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"];
        let servers = Servers(Replicas::start(flavour, 3, &durable));
        [1, 2].into_iter().for_each(|replica| servers.follow(replica, 0));
        servers.nodes[0].execute(&[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, n BIGINT NOT NULL)",
            "CREATE PROCEDURE shop.put(p INT, q INT) REPLACE INTO shop.t VALUES (p, q)",
            "INSERT INTO shop.t VALUES (0, 0)",
        ]);
        servers.wait_for_replicas();
        servers
    }

    /// Replicas apply nothing more, or continue.
    fn apply(&self, goes_on: bool) {
        let statement = format!("{} SQL_THREAD", self.replication(if goes_on { "START" } else { "STOP" }));
        self.nodes[1..].iter().for_each(|node| node.execute(&[&statement]));
    }

    /// Waits until the replicas have what the primary has.
    fn wait_for_replicas(&self) {
        self.have_all(0);
    }

    /// Reads go to the replicas, everything else to the primary.
    fn config(&self) -> NarrowsConfig {
        let config = split().server(0, self.nodes[0].port(), "").user("sbtest", "sbtest", "");
        let config = config.server(1, self.nodes[1].port(), "").server(1, self.nodes[2].port(), "");
        config.variable("get_server_public_key", "true").variable(
            "server_version",
            match self.flavour {
                Flavour::MariaDb => "5.5.5-10.11.0-MariaDB",
                Flavour::MySql9 => "9.7.0",
            },
        )
    }
}

/// Hostgroups 0 and 1 are a pair, and reads go to 1.
fn split() -> NarrowsConfig {
    NarrowsConfig::new()
        .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
        .rule("rule_id=4 match_digest=\"^SELECT.*FOR UPDATE\" destination_hostgroup=0 apply=1")
        .rule("rule_id=5 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
}

/// Runs a test on each kind of server.
fn on_each(test: impl Fn(&Servers)) {
    Flavour::both().into_iter().for_each(|flavour| test(&Servers::start(flavour)));
}

/// A session of another account.
fn session_of(narrows: &Narrows, user: &str) -> RawClient {
    RawClient::open(&narrows.endpoint(), &Login::new(user, user))
}

/// Runs a statement that returns no rows.
fn run(client: &mut RawClient, statement: &str) {
    if let Some(error) = client.query(statement).error() {
        panic!("{statement}: {} {}", error.code, error.message);
    }
}

/// The only value that a statement returns.
fn value(client: &mut RawClient, statement: &str) -> String {
    let answer = client.query(statement);
    if let Some(error) = answer.error() {
        panic!("{statement}: {} {}", error.code, error.message);
    }
    answer.cell().unwrap_or_default()
}

/// What the session can give to others.
fn token(client: &mut RawClient) -> String {
    value(client, "SELECT @@narrows_causal_token")
}

/// The number in row `id`, and the server that has returned it; -1 if there is no such row.
fn read(client: &mut RawClient, hint: &str, id: i32) -> (i64, u32) {
    let query =
        format!("{hint} SELECT CONCAT(COALESCE(MAX(n), -1), ' ', @@server_id) FROM shop.t WHERE id = {id}");
    seen(&value(client, query.trim()))
}

/// A number and a server id.
fn seen(text: &str) -> (i64, u32) {
    let (n, server) = text.split_once(' ').expect("two numbers");
    (n.parse().expect("a number"), server.parse().expect("a server id"))
}

fn write(client: &mut RawClient, id: i32, n: i64) {
    run(client, &format!("REPLACE INTO shop.t VALUES ({id}, {n})"));
}

/// A figure of `stats_mysql_global`, or of `SHOW NARROWS STATUS`.
fn figure(narrows: &Narrows, name: &str) -> u64 {
    let mut rows = narrows.admin().query("SHOW NARROWS STATUS").text_rows();
    rows.extend(narrows.admin().query("SELECT * FROM stats_mysql_global").text_rows());
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(name));
    let value = row.unwrap_or_else(|| panic!("no {name}"))[1].clone().expect("a figure");
    value.parse().expect("a number")
}

/// What has become of statements that had to see writes.
fn figures(narrows: &Narrows) -> String {
    let names = [
        "GTID_consistent_queries",
        "GTID_session_collected",
        "Narrows_causal_reads_known",
        "Narrows_causal_reads_waited",
        "Narrows_causal_reads_on_writer",
        "Narrows_causal_reads_unknown",
    ];
    names.map(|name| format!("{name} {}", figure(narrows, name))).join(", ")
}
