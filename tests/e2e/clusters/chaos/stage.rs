//! The cluster, Narrows, and the clients of both.

use std::time::{Duration, Instant};

use narrows_testkit::{Cluster, MEMBERS, Narrows, NarrowsConfig, Network, RawClient, RealServer, wait_until};

use super::events::{Event, Kind, Victim};
use super::interval;
use super::probes::Probes;
use super::tenures::Tenures;
use crate::chaos::cluster::{FACTS, fill};
use crate::chaos::load::Load;
use crate::chaos::random::Random;
use crate::chaos::sysbench;
use crate::clusters::trio::rows_of;
use crate::support::start;

/// The scene of the events.
pub struct Stage {
    pub kind: Kind,
    pub load: Load,
    pub probes: Probes,
    pub tenures: Tenures,
    pub narrows: Narrows,
    pub cluster: Cluster,
    pub random: Random,
    /// A session that has locked its node.
    pub lock: Option<RawClient>,
    admin: RawClient,
}

impl Stage {
    /// Starts everything.
    pub fn start(kind: Kind, network: Option<Network>) -> Stage {
        let cluster = kind.start(network);
        fill_tables(&cluster);
        let narrows = start(&config(kind, &cluster));
        let mut admin = narrows.admin();
        let addresses: Vec<String> = (0..MEMBERS)
            .map(|node| format!("{}:{}", cluster.host(node), cluster.servers[node].port()))
            .collect();
        let mut writer = None;
        wait_until("all nodes are in use", || {
            writer = nodes_in(&mut admin, &cluster, 0).first().copied();
            writer.is_some() && nodes_in(&mut admin, &cluster, 3).is_empty()
        });
        let tenures = Tenures::follow(narrows.data_file("log"), addresses, writer.expect("there is one"));
        let probes =
            Probes::start(cluster.servers.iter().map(RealServer::socket).collect(), kind.is_writable());
        let load = Load::start(narrows.endpoint(), narrows.port());
        let random = Random::new(&format!("{kind:?}, how long events last"));
        Stage { kind, load, probes, tenures, narrows, cluster, random, lock: None, admin }
    }

    /// The node that an event is about.
    pub fn node_of(&mut self, victim: Victim) -> usize {
        let writer = self.writer();
        match victim {
            Victim::Writer => writer,
            Victim::Other => (writer + 1 + self.random.below(2) as usize) % MEMBERS,
        }
    }

    /// The writer.
    pub fn writer(&mut self) -> usize {
        let mut writer = None;
        wait_until("there is a writer", || {
            let writers = nodes_in(&mut self.admin, &self.cluster, 0);
            assert!(writers.len() <= 1, "two writers: {writers:?}");
            writer = writers.first().copied();
            writer.is_some()
        });
        writer.expect("there is one")
    }

    /// Runs statements of an administrator.
    pub fn tell(&mut self, statements: &[&str]) {
        for statement in statements {
            rows_of(&mut self.admin, statement);
        }
    }

    /// Changes columns of a node's row in `mysql_servers`, in force.
    pub fn change_row(&mut self, node: usize, columns: &str) {
        let (host, port) = (self.cluster.host(node), self.cluster.servers[node].port());
        let update =
            format!("UPDATE mysql_servers SET {columns} WHERE hostname = '{host}' AND port = {port}");
        self.tell(&[&update, "LOAD MYSQL SERVERS TO RUNTIME"]);
    }

    /// Runs a statement on a node, as root.
    pub fn on(&self, node: usize, statement: &str) {
        self.cluster.servers[node].execute(&[statement]);
    }

    /// Its network; events that need it are left out without one.
    pub fn network(&mut self) -> &mut Network {
        self.cluster.network.as_mut().expect("the event is left out without a network")
    }

    /// Lets an event last. If another node takes over, only from the moment when it is written to.
    pub fn hold(&mut self, event: &Event, victim: Victim, since: Instant) {
        let (least, most) = event.lasts_ms;
        if event.replaces_writer && !event.holds_up_writes && victim == Victim::Writer {
            self.wait_until_written(since);
        }
        std::thread::sleep(Duration::from_millis(least + self.random.below(most - least + 1)));
    }

    /// Waits until clients have a write acknowledged that began after `since`; returns when that was.
    pub fn wait_until_written(&self, since: Instant) -> Instant {
        wait_until("clients write again", || self.load.has_written_since(since));
        let first = |tally: &mut crate::chaos::load::Tally| {
            let later = tally.acknowledged.iter().rev().take_while(|write| write.to >= since);
            later.filter(|write| write.from >= since).map(|write| write.to).min()
        };
        self.load.look(first).expect("has_written_since")
    }

    /// Makes every node run, be reachable and be a member, and waits until Narrows uses all.
    pub fn heal(&mut self) {
        self.lock = None;
        if let Some(network) = &mut self.cluster.network {
            network.mend();
        }
        for node in 0..MEMBERS {
            let server = &mut self.cluster.servers[node];
            server.thaw();
            if server.process().try_wait().is_some() {
                server.restart();
            }
        }
        let kind = self.kind;
        let mut rejoined = [Instant::now(); MEMBERS];
        let since = Instant::now();
        // A member may have to apply what others have written for minutes.
        let mut are_members = || {
            let mut all = true;
            for (server, since) in self.cluster.servers.iter().zip(&mut rejoined) {
                let is_there = kind.is_member(server);
                all &= is_there;
                if !is_there && since.elapsed() > kind.rejoins_by_itself_within() {
                    kind.rejoin(server);
                    *since = Instant::now();
                }
            }
            all
        };
        while !are_members() {
            assert!(since.elapsed() < REJOIN_WITHIN, "nodes do not become members again");
            std::thread::sleep(Duration::from_millis(50));
        }
        wait_until("all nodes are in use", || {
            nodes_in(&mut self.admin, &self.cluster, 3).is_empty()
                && nodes_in(&mut self.admin, &self.cluster, 0).len() == 1
        });
        self.probes.forget();
    }

    /// Prints what the nodes and Narrows say.
    pub fn describe(&mut self) {
        for server in &self.cluster.servers {
            let log = server.log();
            let lines: Vec<&str> = log.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(25)..].join("\n"));
        }
        let log = self.narrows.log();
        let of_nodes = log.lines().filter(|line| line.contains("a node of a cluster"));
        of_nodes.collect::<Vec<_>>().iter().rev().take(20).rev().for_each(|line| println!("{line}"));
        let status = self.admin.query("SHOW NARROWS STATUS").text_rows();
        let of_cluster = |row: &&Vec<Option<String>>| {
            row[0].as_ref().is_some_and(|name| name.contains("galera") || name.contains("group"))
        };
        println!("{:#?}", status.iter().filter(of_cluster).collect::<Vec<_>>());
    }
}

/// The nodes in a hostgroup.
fn nodes_in(admin: &mut RawClient, cluster: &Cluster, hostgroup: u32) -> Vec<usize> {
    let question =
        format!("SELECT hostname, port FROM runtime_mysql_servers WHERE hostgroup_id = {hostgroup}");
    let rows = rows_of(admin, &question);
    let is =
        |node: &usize| rows.contains(&format!("{} {}", cluster.host(*node), cluster.servers[*node].port()));
    (0..MEMBERS).filter(is).collect()
}

/// What clients and probes use, on all nodes.
fn fill_tables(cluster: &Cluster) {
    let first = &cluster.servers[0];
    let privileges = "SELECT, INSERT, UPDATE, DELETE, PROCESS, REPLICATION CLIENT";
    first.execute(&[
        "CREATE DATABASE chaos",
        "CREATE TABLE chaos.facts (id INT PRIMARY KEY, value INT NOT NULL)",
        &fill(FACTS),
        "CREATE TABLE chaos.ledger (id BIGINT PRIMARY KEY, server INT NOT NULL)",
        "CREATE TABLE chaos.probes (node INT PRIMARY KEY, number BIGINT NOT NULL)",
        // Not with all privileges: those would write to read-only servers too.
        "CREATE USER 'app'@'%' IDENTIFIED BY 'app'",
        &format!("GRANT {privileges} ON *.* TO 'app'@'%'"),
    ]);
    sysbench::prepare(first);
    let count = |server: &RealServer| server.rows("SELECT COUNT(*) FROM sbtest.sbtest2").concat();
    let (wanted, others) = (count(first), &cluster.servers[1..]);
    wait_until("all nodes have the tables", || others.iter().all(|server| count(server) == wanted));
}

/// Narrows in front of the cluster.
fn config(kind: Kind, cluster: &Cluster) -> NarrowsConfig {
    let columns = "writer_hostgroup=0 backup_writer_hostgroup=2 reader_hostgroup=1 offline_hostgroup=3 \
                   writer_is_also_reader=2";
    let mut config = NarrowsConfig::new()
        .monitor()
        .user("app", "app", "")
        .rule("rule_id=1 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
        .row(kind.table(), columns)
        .variable("monitor_username", "app")
        .variable("monitor_password", "app")
        .variable("get_server_public_key", "true")
        .variable("monitor_ping_interval", "1000")
        .variable(&format!("{}_interval", kind.checks()), &interval().as_millis().to_string())
        .variable(&format!("{}_timeout", kind.checks()), "400");
    for node in 0..MEMBERS {
        config =
            config.server_at(0, &cluster.host(node), cluster.servers[node].port(), "max_connections=100");
    }
    config
}

/// How long nodes may take to become members again.
const REJOIN_WITHIN: Duration = Duration::from_secs(300);
